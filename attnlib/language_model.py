"""A decoder-only language model: for every token, scores of what comes next."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .encoder import Encoder, EncoderBlock
from .kv_cache import KVCache
from .positions import LearnedPositions


class LanguageModel(nn.Module):
    """Embed, add positions, go through causal blocks, norm, and score every token of the vocabulary.

    logits = norm(blocks(embed[ids] + positions)) W^T,  where W is the embedding itself if ``tie``

    >>> model = LanguageModel(11, 12, 3, depth=2, max_len=7)
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 11])
    >>> model.head.weight is model.embed.weight
    True

    Layers: ``embed``, ``positions`` (``table``, learned), ``blocks`` (an ``Encoder``: ``layers``, and ``norm`` at the
    end), ``head`` without bias. The other arguments are ``EncoderBlock``'s. ``max_len`` is kept, for ``generate``.
    Raises ValueError when the sequence ends beyond max_len.
    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; tied embeddings: Press and Wolf 2017.
    """

    def __init__(
        self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int, *, tie: bool = True, **block: Any
    ) -> None:
        super().__init__()
        self.max_len = max_len
        self.embed = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.embed.weight, std=0.02)  # as logits, a tied embedding with std 1 would be far too large
        self.positions = LearnedPositions(max_len, d_model)
        self.blocks = Encoder(depth, d_model, num_heads, **block)
        self.head = nn.Linear(d_model, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def forward(
        self, ids: Int[Tensor, "b n"], *, caches: Sequence[KVCache] | None = None
    ) -> Float[Tensor, "b n vocab"]:
        """Shapes: ids (b, n) -> (b, n, vocab). With ``caches``, one for each block, the ids continue what they hold."""
        offset = caches[0].length if caches else 0
        x = self.positions(self.embed(ids), offset=offset)
        logits: Tensor = self.head(self.blocks(x, is_causal=True, caches=caches))
        return logits

    def caches(self, batch: int, *, dtype: torch.dtype | None = None) -> list[KVCache]:
        """Empty caches for ``batch`` sequences of up to max_len tokens, one for each block."""
        max_len, weight = len(self.positions.table), self.embed.weight
        dtype = weight.dtype if dtype is None else dtype
        attention = [cast(EncoderBlock, layer).attn for layer in self.blocks.layers]
        return [
            KVCache(batch, attn.num_kv_heads, max_len, attn.d_head, device=weight.device, dtype=dtype)
            for attn in attention
        ]
