"""ALBERT: an encoder that uses one block again and again, and its published weights."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from .feed_forward import FeedForward
from .multi_head_attention import MultiHeadAttention
from .required import check_whole

EPS = 1e-12  # of every norm, as in BERT
BLOCK = "encoder.albert_layer_groups.0.albert_layers.0."
LAYERS = {
    "embeddings.word_embeddings": "embed",
    "embeddings.position_embeddings": "positions",
    "embeddings.LayerNorm": "norm",
    "encoder.embedding_hidden_mapping_in": "widen",
    f"{BLOCK}attention.query": "encoder.attn.w_q",
    f"{BLOCK}attention.key": "encoder.attn.w_k",
    f"{BLOCK}attention.value": "encoder.attn.w_v",
    f"{BLOCK}attention.dense": "encoder.attn.w_o",
    f"{BLOCK}attention.LayerNorm": "encoder.norm1",
    f"{BLOCK}ffn": "encoder.mlp.up",
    f"{BLOCK}ffn_output": "encoder.mlp.down",
    f"{BLOCK}full_layer_layer_norm": "encoder.norm2",
    "predictions.dense": "narrow",
    "predictions.LayerNorm": "last_norm",
    "predictions.decoder": "head",
}
KIND = "embeddings.token_type_embeddings.weight"
NOT_WEIGHTS = ("pooler.", "embeddings.position_ids", "predictions.bias")  # the last is the decoder's, a second time


class SharedEncoder(nn.Module):
    """One post-LN block, applied ``depth`` times: x = norm1(x + attn(x)); x = norm2(x + mlp(x)).

    >>> encoder = SharedEncoder(12, 3, 20, depth=4)
    >>> x, weights = encoder(torch.randn(2, 5, 12))
    >>> x.shape, weights.shape
    (torch.Size([2, 5, 12]), torch.Size([2, 4, 3, 5, 5]))
    >>> sum(w.numel() for w in encoder.parameters()) == sum(w.numel() for w in SharedEncoder(12, 3, 20, 1).parameters())
    True

    Shapes: x (b, n, d_model) -> (b, n, d_model), and the weights of all layers, (b, depth, h, n, n). Layers: ``norm1``,
    ``attn`` (``w_q w_k w_v w_o``), ``norm2``, ``mlp`` (``up down``), with the exact GELU and an eps of 1e-12.
    Lan et al. 2020, "ALBERT", section 3.1.
    """

    def __init__(self, d_model: int, num_heads: int, d_hidden: int, depth: int) -> None:
        super().__init__()
        check_whole(depth=depth)
        self.depth = depth
        self.norm1, self.norm2 = (nn.LayerNorm(d_model, eps=EPS) for _ in range(2))
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.mlp = FeedForward(d_model, d_hidden)

    def forward(self, x: Float[Tensor, "b n d_model"]) -> tuple[Float[Tensor, "b n d_model"], Float[Tensor, "..."]]:
        seen = []
        for _ in range(self.depth):
            attended, weights = self.attn(x, return_weights=True)
            x = self.norm1(x + attended)
            x = self.norm2(x + self.mlp(x))
            seen.append(weights)
        return x, torch.stack(seen, dim=1)


class MaskedLanguageModel(nn.Module):
    """An ALBERT, for filling in masked tokens: from ids to logits at each position, which sees all the others.

    h = encoder(widen(norm(embed(ids) + positions)));  logits = head(last_norm(gelu(narrow(h))))

    Shapes: ids (b, n) -> logits (b, n, vocab), and with ``return_weights`` also the weights, (b, depth, h, n, n).
    ``layers`` holds the one attention module, for lesson 11's experiments. Raises ValueError for more than
    ``max_len`` tokens.
    Lan et al. 2020, "ALBERT", section 3.1.
    """

    def __init__(
        self, vocab: int, d_embed: int, d_model: int, num_heads: int, d_hidden: int, depth: int, max_len: int
    ) -> None:
        super().__init__()
        check_whole(vocab=vocab, max_len=max_len, d_embed=d_embed)
        self.embed, self.positions = nn.Embedding(vocab, d_embed), nn.Embedding(max_len, d_embed)
        self.norm, self.widen = nn.LayerNorm(d_embed, eps=EPS), nn.Linear(d_embed, d_model)
        self.encoder = SharedEncoder(d_model, num_heads, d_hidden, depth)
        self.narrow, self.last_norm = nn.Linear(d_model, d_embed), nn.LayerNorm(d_embed, eps=EPS)
        self.head = nn.Linear(d_embed, vocab)

    @property
    def layers(self) -> list[nn.Module]:
        """The one attention module, as the only entry of a list."""
        attention: nn.Module = self.encoder.attn
        return [attention]

    def forward(
        self, ids: Int[Tensor, "b n"], *, return_weights: bool = False
    ) -> Float[Tensor, "b n vocab"] | tuple[Float[Tensor, "b n vocab"], Float[Tensor, "b depth h n n"]]:
        n, max_len = ids.shape[-1], self.positions.num_embeddings
        if n > max_len:
            raise ValueError(f"ids must have at most max_len = {max_len} tokens, got {n}")
        x = self.norm(self.embed(ids) + self.positions.weight[:n])
        x, weights = self.encoder(self.widen(x))
        logits: Tensor = self.head(self.last_norm(F.gelu(self.narrow(x))))
        return (logits, weights) if return_weights else logits


def from_albert(state_dict: Mapping[str, Tensor], *, num_heads: int, depth: int) -> MaskedLanguageModel:
    """Build a ``MaskedLanguageModel`` with a copy of an ALBERT's weights, as ``transformers`` names them.

    Most matrices of its block are square, so loading them swapped or transposed raises no error. Every token is given
    the first of ALBERT's two segment types, whose vector is added to the table of positions.

    Pass what the weights do not show: ``num_heads`` and ``depth``. The activation is always the exact GELU, not its
    approximation by tanh, ``gelu_new``, which is the default of transformers' ALBERT.
    Raises ValueError for missing or unknown names, and if num_heads does not divide d_model.
    Lan et al. 2020, "ALBERT", section 3.1.
    """
    theirs = {name.removeprefix("albert."): tensor for name, tensor in state_dict.items()}
    theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith(NOT_WEIGHTS)}
    required = {f"{name}.weight" for name in LAYERS} | {KIND}
    required |= {f"{name}.bias" for name, ours in LAYERS.items() if ours not in ("embed", "positions")}
    if wrong := sorted(required ^ theirs.keys()):
        raise ValueError(f"the weights must be those of an ALBERT with one block; missing or unknown: {wrong}")
    vocab, d_embed = theirs["embeddings.word_embeddings.weight"].shape
    d_hidden, d_model = theirs[f"{BLOCK}ffn.weight"].shape
    max_len = len(theirs["embeddings.position_embeddings.weight"])
    model = MaskedLanguageModel(vocab, d_embed, d_model, num_heads, d_hidden, depth, max_len)
    model.to(theirs[KIND].dtype)
    ours = {_renamed(name): tensor for name, tensor in theirs.items() if name != KIND}
    ours["positions.weight"] = ours["positions.weight"] + theirs[KIND][0]
    model.load_state_dict(ours)
    return model.eval()


def _renamed(name: str) -> str:
    layer, _, kind = name.rpartition(".")
    return f"{LAYERS[layer]}.{kind}"
