"""LLaMA's published weights, put into a ``LanguageModel``."""

from collections.abc import Mapping

from torch import Tensor

from .language_model import LanguageModel
from .positions import Rotary, to_half_pairs
from .required import check_whole

LAYERS = {
    "input_layernorm": "norm1",
    "self_attn.q_proj": "attn.w_q",
    "self_attn.k_proj": "attn.w_k",
    "self_attn.v_proj": "attn.w_v",
    "self_attn.o_proj": "attn.w_o",
    "post_attention_layernorm": "norm2",
    "mlp.gate_proj": "mlp.gate",
    "mlp.up_proj": "mlp.up",
    "mlp.down_proj": "mlp.down",
}
WHOLE = {"embed_tokens.weight": "embed.weight", "norm.weight": "blocks.norm.weight", "lm_head.weight": "head.weight"}
NOT_WEIGHTS = "rotary_emb.inv_freq"  # the speeds of the rotation, saved as a buffer by earlier versions


def from_llama(
    state_dict: Mapping[str, Tensor],
    *,
    num_heads: int,
    max_len: int = 2048,
    base: float = 10000.0,
    eps: float = 1e-6,
    window: int | None = None,
) -> LanguageModel:
    """Build a ``LanguageModel`` with a copy of the weights of a LLaMA, as ``transformers`` names them.

    It is GPT-2 with four parts replaced, each by an option of attnlib's:

    - ``norm="rms"`` and no biases anywhere;
    - ``gated=True, activation="silu"``: the MLP has three matrices;
    - ``rotary`` instead of a table of positions. transformers turns the columns (0, d/2), (1, d/2 + 1) ..., we turn
      neighbours, so the columns of queries and keys are put into our order: no error would show it if they were not;
    - ``num_kv_heads``: in LLaMA 2 70B and in LLaMA 3, several query heads share a key head.

    Pass what the weights do not show: ``num_heads``; ``base``, which transformers calls rope_theta; ``eps`` of the
    norms; a sliding ``window``, as in Mistral. Scaled rotary frequencies, as in LLaMA 3.1, are not supported.
    Raises ValueError for names that are missing or that no LLaMA has, and if num_heads does not divide the queries.
    Touvron et al. 2023, "LLaMA", section 2.2; "Llama 2", section 2.2 (grouped queries).
    """
    theirs = {name.removeprefix("model."): x for name, x in state_dict.items() if not name.endswith(NOT_WEIGHTS)}
    if missing := {"embed_tokens.weight", "layers.0.self_attn.q_proj.weight"} - theirs.keys():
        raise ValueError(f"a LLaMA has {', '.join(sorted(missing))}, got {', '.join(sorted(theirs)[:3])} ...")
    vocab, d_model = theirs["embed_tokens.weight"].shape
    first = "layers.0.self_attn.{}_proj.weight"
    d_head = _divided(len(theirs[first.format("q")]), num_heads)
    depth = len({name.split(".")[1] for name in theirs if name.startswith("layers.")})
    model = LanguageModel(
        vocab,
        d_model,
        num_heads,
        depth,
        max_len,
        tie="lm_head.weight" not in theirs,
        learned_positions=False,
        d_head=d_head,
        num_kv_heads=len(theirs[first.format("k")]) // d_head,
        d_hidden=len(theirs["layers.0.mlp.up_proj.weight"]),
        norm="rms",
        eps=eps,
        bias=False,
        gated=True,
        activation="silu",
        rotary=Rotary(d_head, base=base),
        window=window,
    )
    model.to(theirs["embed_tokens.weight"].dtype)
    ours = {_renamed(name): _in_our_order(name, tensor, d_head) for name, tensor in theirs.items()}
    ours.setdefault("head.weight", ours["embed.weight"])
    if wrong := sorted(model.state_dict().keys() ^ ours.keys()):
        raise ValueError(f"the weights must be those of a LLaMA with {depth} blocks; missing or unknown: {wrong}")
    model.load_state_dict(ours)
    return model.eval()


def _divided(columns: int, num_heads: int) -> int:
    check_whole(num_heads=num_heads)
    if columns % num_heads:
        raise ValueError(f"num_heads must divide the {columns} columns of queries, got {num_heads}")
    return columns // num_heads


def _renamed(name: str) -> str:
    """Return our name for one of theirs; any other name stays as it is."""
    if name in WHOLE or not name.startswith("layers."):
        return WHOLE.get(name, name)
    _, number, *layer, kind = name.split(".")
    return f"blocks.layers.{number}.{LAYERS.get('.'.join(layer), '.'.join(layer))}.{kind}"


def _in_our_order(name: str, tensor: Tensor, d_head: int) -> Tensor:
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return tensor
    return to_half_pairs(tensor.mT, len(tensor) // d_head, back=True).mT
