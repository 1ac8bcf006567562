"""A language model of attention alone, small enough to multiply out."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from .multi_head_attention import MultiHeadAttention
from .positions import Rotary


class AttentionOnly(nn.Module):
    """A causal transformer without MLPs, norms or biases: every layer adds what its heads write, and nothing else.

    x = embed[ids];  x = x + layer(x) for each layer;  logits = x W_U^T

    >>> import torch
    >>> model = AttentionOnly(11, 12, 3, depth=2)
    >>> logits, weights = model(torch.tensor([[1, 2, 3, 1, 2]]), return_weights=True)
    >>> logits.shape, [layer.shape for layer in weights]
    (torch.Size([1, 5, 11]), [torch.Size([1, 3, 5, 5]), torch.Size([1, 3, 5, 5])])

    Layers: ``embed``, ``layers`` (each a ``MultiHeadAttention``: ``w_q w_k w_v w_o``), ``unembed``. Queries and keys
    are turned by their positions (``Rotary``); no position vector is added to the residual stream.
    Raises ValueError unless d_model is divisible by 2 * num_heads.
    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; rotary positions: Su et al. 2021.
    """

    def __init__(self, vocab: int, d_model: int, num_heads: int, depth: int) -> None:
        super().__init__()
        if num_heads < 1 or d_model % (2 * num_heads):
            raise ValueError(
                "d_model must be divisible by 2 * num_heads (each head's columns are rotated in pairs), "
                f"got d_model = {d_model} and num_heads = {num_heads}"
            )
        self.embed = nn.Embedding(vocab, d_model)
        self.layers = nn.ModuleList(
            MultiHeadAttention(d_model, num_heads, bias=False, rotary=Rotary(d_model // num_heads), is_causal=True)
            for _ in range(depth)
        )
        self.unembed = nn.Linear(d_model, vocab, bias=False)

    def forward(
        self, ids: Int[Tensor, "b n"], *, return_weights: bool = False
    ) -> Float[Tensor, "b n vocab"] | tuple[Float[Tensor, "b n vocab"], list[Float[Tensor, "b h n n"]]]:
        """Shapes: ids (b, n) -> logits (b, n, vocab), and with ``return_weights`` each layer's weights (b, h, n, n)."""
        x = self.embed(ids)
        seen = []
        for layer in self.layers:
            if return_weights:
                written, weights = layer(x, return_weights=True)
                seen.append(weights)
            else:
                written = layer(x)
            x = x + written
        logits: Tensor = self.unembed(x)
        return (logits, seen) if return_weights else logits
