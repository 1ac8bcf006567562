"""A decoder-only language model: for every token, scores of what comes next."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .encoder import Encoder, EncoderBlock
from .kv_cache import Cache, KVCache, RollingKVCache
from .positions import LearnedPositions
from .required import check_whole


class LanguageModel(nn.Module):
    """Embed, add positions, go through causal blocks, norm, and score every token of the vocabulary.

    logits = norm(blocks(embed[ids] + positions)) W^T,  where W is the embedding itself if ``tie``

    >>> model = LanguageModel(11, 12, 3, depth=2, max_len=7)
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 11])
    >>> model.head.weight is model.embed.weight
    True

    Layers: ``embed``, ``positions`` (``table``, learned; none without ``learned_positions``, as for a ``rotary`` or
    ``alibi`` model), ``blocks`` (an ``Encoder``: ``layers``, and ``norm`` at the end), ``head`` without bias. The other
    arguments are ``EncoderBlock``'s. ``max_len`` is kept, for ``generate`` and for ``caches``.
    Raises ValueError for ids outside the vocabulary (on a GPU, CUDA's own error), and if the sequence ends beyond
    the table of positions.
    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; tied embeddings: Press and Wolf 2017.
    """

    def __init__(
        self,
        vocab: int,
        d_model: int,
        num_heads: int,
        depth: int,
        max_len: int,
        *,
        tie: bool = True,
        learned_positions: bool = True,
        **block: Any,
    ) -> None:
        super().__init__()
        check_whole(vocab=vocab, depth=depth, max_len=max_len)
        self.max_len = max_len
        self.embed = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.embed.weight, std=0.02)  # as logits, a tied embedding with std 1 would be far too large
        self.positions = LearnedPositions(max_len, d_model) if learned_positions else None
        self.blocks = Encoder(depth, d_model, num_heads, **block)
        self.head = nn.Linear(d_model, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def forward(
        self,
        ids: Int[Tensor, "b n"],
        *,
        key_mask: Bool[Tensor, "b k"] | None = None,
        positions: Int[Tensor, "b n"] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Float[Tensor, "b n vocab"]:
        """Shapes: ids (b, n) -> (b, n, vocab). With ``caches``, one for each block, the ids continue what they hold.

        Texts padded on the left need ``key_mask`` (b, k), True = a real token, for all tokens so far, and
        ``positions`` (b, n) for these ids.
        """
        try:
            x = self.embed(ids)
        except IndexError:
            least, most = ids.aminmax()
            vocab = self.embed.num_embeddings
            raise ValueError(f"ids must be between 0 and {vocab - 1}, got {int(least)} to {int(most)}") from None
        if self.positions is not None:
            x = self.positions(x, offset=caches[0].length if caches else 0, positions=positions)
        rotary = cast(EncoderBlock, self.blocks.layers[0]).attn.rotary
        logits: Tensor = self.head(
            self.blocks(
                x,
                key_mask,
                positions=None if rotary is None else positions,
                score_bias=score_bias,
                is_causal=True,
                caches=caches,
            )
        )
        return logits

    def caches(self, batch: int, *, dtype: torch.dtype | None = None) -> list[Cache]:
        """Empty caches for ``batch`` sequences, one for each block: of max_len tokens, or rings of a ``window``."""
        weight = self.embed.weight
        where: dict[str, Any] = {"device": weight.device, "dtype": weight.dtype if dtype is None else dtype}
        attention = [cast(EncoderBlock, layer).attn for layer in self.blocks.layers]
        return [
            KVCache(batch, attn.num_kv_heads, self.max_len, attn.d_head, **where)
            if attn.window is None
            else RollingKVCache(batch, attn.num_kv_heads, attn.window, attn.d_head, **where)
            for attn in attention
        ]
