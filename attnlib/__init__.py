"""Attention, exact and small enough to read.

One notation for the whole project, beside the symbols of Vaswani et al. 2017, "Attention Is All You Need":

==============  ================================================================  ==============
here            meaning                                                           in the paper
==============  ================================================================  ==============
axis ``b``      batch                                                             --
axis ``q``      query positions                                                   n (of Q)
axis ``k``      key positions, and those of the values                            n (of K and V)
axis ``n``      positions where queries and keys are the same sequence            n
axis ``h``      heads                                                             i = 1 ... h
axis ``d``      width of one head                                                 d_k, d_v
``q, k, v``     queries, keys, values                                             Q, K, V
``d_model``     width of the residual stream                                      d_model
``d_k, d_v``    width of keys (and queries), and of values                        d_k, d_v
``num_heads``   number of heads                                                   h
``d_head``      width of one head, d_model / num_heads unless it is given         d_k = d_v
``d_hidden``    width inside the MLP                                              d_ff
``dropout``     probability that an entry is dropped, in training only            P_drop
``is_causal``   query i sees key j only if j <= i + (k - q)                       section 3.2.3
``w_q ... w_o`` the projections of queries, keys, values and of the output        W^Q ... W^O
==============  ================================================================  ==============

A mask is bool, True = may attend, broadcastable to (..., q, k). A query that may attend to nothing gets zeros, forward
and gradient, never NaN. ``attnlib.mask_conventions`` converts from and to the other common conventions.

Pure functions come first; a module only projects and reshapes around them:

>>> import torch, attnlib
>>> x = torch.randn(2, 5, 12)                                     # (b, n, d_model)
>>> attention = attnlib.MultiHeadAttention(12, 3)
>>> output, weights = attention(x, is_causal=True, return_weights=True)
>>> output.shape, weights.shape
(torch.Size([2, 5, 12]), torch.Size([2, 3, 5, 5]))
"""

from .albert import MaskedLanguageModel, SharedEncoder, from_albert
from .attention import scaled_dot_product_attention
from .attention_only import AttentionOnly
from .convert import from_torch, to_torch
from .cross_attention import CrossAttention, cross_attention
from .decoder import Decoder, DecoderBlock
from .encoder import Encoder, EncoderBlock
from .feed_forward import FeedForward
from .gpt2 import from_gpt2
from .heads import merge_heads, split_heads, stack_head_weights
from .kv_cache import KVCache, RollingKVCache
from .language_model import LanguageModel
from .layer_norm import layer_norm, rms_norm
from .llama import from_llama
from .mask_conventions import (
    from_additive,
    from_blocked,
    from_keep,
    from_padding,
    to_additive,
    to_blocked,
    to_keep,
    to_padding,
)
from .masks import attention_sink_mask, causal_mask, padding_mask, sliding_window_mask
from .multi_head_attention import MultiHeadAttention
from .plot import plot_attention, plot_heads, plot_links, plot_mask
from .positions import (
    LearnedPositions,
    Rotary,
    SinusoidalPositions,
    alibi_bias,
    alibi_slopes,
    apply_rotary,
    rotate,
    sinusoidal_positions,
    to_half_pairs,
)
from .projections import QKVProjection, embed, project_qkv, project_qkv_fused
from .renormalise import renormalised_causal_weights
from .sampling import generate, sample_next
from .scores import attention_scores
from .self_attention import SelfAttention
from .softmax import masked_softmax, softmax
from .tiled import tiled_attention

__all__ = [
    "AttentionOnly",
    "CrossAttention",
    "Decoder",
    "DecoderBlock",
    "Encoder",
    "EncoderBlock",
    "FeedForward",
    "KVCache",
    "LanguageModel",
    "LearnedPositions",
    "MaskedLanguageModel",
    "MultiHeadAttention",
    "QKVProjection",
    "RollingKVCache",
    "Rotary",
    "SelfAttention",
    "SharedEncoder",
    "SinusoidalPositions",
    "alibi_bias",
    "alibi_slopes",
    "apply_rotary",
    "attention_scores",
    "attention_sink_mask",
    "causal_mask",
    "cross_attention",
    "embed",
    "from_additive",
    "from_albert",
    "from_blocked",
    "from_gpt2",
    "from_keep",
    "from_llama",
    "from_padding",
    "from_torch",
    "generate",
    "layer_norm",
    "masked_softmax",
    "merge_heads",
    "padding_mask",
    "plot_attention",
    "plot_heads",
    "plot_links",
    "plot_mask",
    "project_qkv",
    "project_qkv_fused",
    "renormalised_causal_weights",
    "rms_norm",
    "rotate",
    "sample_next",
    "scaled_dot_product_attention",
    "sinusoidal_positions",
    "sliding_window_mask",
    "softmax",
    "split_heads",
    "stack_head_weights",
    "tiled_attention",
    "to_additive",
    "to_blocked",
    "to_half_pairs",
    "to_keep",
    "to_padding",
    "to_torch",
]
