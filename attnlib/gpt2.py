"""GPT-2's published weights, put into a ``LanguageModel``."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .language_model import LanguageModel

D_HEAD = 64  # of every GPT-2: 12 heads for a width of 768, 25 for 1600
TURNED = ("attn.w_o", "mlp.up", "mlp.down")  # GPT-2's layers are (in, out), nn.Linear is (out, in)
LAYERS = {"ln_1": "norm1", "attn.c_proj": "attn.w_o", "ln_2": "norm2", "mlp.c_fc": "mlp.up", "mlp.c_proj": "mlp.down"}
NOT_WEIGHTS = (".attn.bias", ".attn.masked_bias")  # the causal mask, saved as buffers


def from_gpt2(state_dict: Mapping[str, Tensor], *, num_heads: int | None = None) -> LanguageModel:
    """Build a ``LanguageModel`` with a copy of the weights of a GPT-2, of any size, as ``transformers`` names them.

    Four things are not what you would expect, and not all of them raise an error if you overlook them:

    - its ``Conv1D`` layers are (in, out), the transpose of ``nn.Linear``'s weight: only the square one loads silently;
    - ``c_attn`` is one layer for queries, keys and values, (d_model, 3 * d_model), packed as (3 h d);
    - the GELU is the approximation by tanh: the exact one differs from it in the fourth decimal place;
    - the head is the embedding itself: the file has no ``lm_head``, or a copy of the embedding.

    The weights do not show ``num_heads``. It is d_model / 64 unless you pass it, as in all published sizes.
    Raises ValueError for names that are missing or that no GPT-2 has, for an untied ``lm_head``, and, without
    ``num_heads``, if 64 does not divide d_model.
    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    """
    theirs = {name.removeprefix("transformer."): tensor for name, tensor in state_dict.items()}
    theirs = {name: tensor for name, tensor in theirs.items() if not name.endswith(NOT_WEIGHTS)}
    if missing := {"wte.weight", "wpe.weight"} - theirs.keys():
        raise ValueError(f"a GPT-2 has {', '.join(sorted(missing))}, got {', '.join(sorted(theirs)[:3])} ...")
    (vocab, d_model), max_len = theirs["wte.weight"].shape, len(theirs["wpe.weight"])
    if num_heads is None and d_model % D_HEAD:
        raise ValueError(f"num_heads must be given unless d_model is a multiple of {D_HEAD}, got d_model = {d_model}")
    depth = len({name.split(".")[1] for name in theirs if name.startswith("h.")})
    up = theirs.get("h.0.mlp.c_fc.weight")
    model = LanguageModel(
        vocab,
        d_model,
        num_heads or d_model // D_HEAD,
        depth,
        max_len,
        d_hidden=None if up is None else up.shape[-1],
        activation="gelu_tanh",
    )
    model.to(theirs["wte.weight"].dtype)
    ours = {new: tensor for name, tensor in theirs.items() for new, tensor in _renamed(name, tensor).items()}
    ours.setdefault("head.weight", ours["embed.weight"])
    expected = model.state_dict().keys()
    if wrong := sorted(expected ^ ours.keys()):
        raise ValueError(f"the weights must be those of a GPT-2 with {depth} blocks; missing or unknown: {wrong}")
    if not torch.equal(ours["head.weight"], ours["embed.weight"]):
        raise ValueError("a GPT-2's lm_head must be its embedding, got another matrix")
    model.load_state_dict(ours)
    return model.eval()


def _renamed(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Return one of their tensors under our names."""
    whole = {"wte.weight": "embed.weight", "wpe.weight": "positions.table", "lm_head.weight": "head.weight"}
    if name in whole:
        return {whole[name]: tensor}
    if name.startswith("ln_f."):
        return {name.replace("ln_f", "blocks.norm"): tensor}
    if not name.startswith("h."):
        return {name: tensor}
    _, number, *layers, kind = name.split(".")
    layer, block = ".".join(layers), f"blocks.layers.{number}"
    if layer == "attn.c_attn":
        parts = tensor.chunk(3, dim=-1)  # (d_model, 3 * d_model), or (3 * d_model)
        return {
            f"{block}.attn.w_{x}.{kind}": part.mT if part.ndim == 2 else part
            for x, part in zip("qkv", parts, strict=True)
        }
    renamed = LAYERS.get(layer, layer)
    return {f"{block}.{renamed}.{kind}": tensor.mT if renamed in TURNED and kind == "weight" else tensor}
