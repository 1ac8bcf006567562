"""Weights copied from and to PyTorch's own modules.

``from_torch`` and ``to_torch`` build the module on the other side, give it a copy of the weights, and keep dtype,
device and train or eval mode. If the other side cannot compute the same thing, a ValueError says why; dropout that
attnlib does not have is left out with a warning. PyTorch's ``batch_first`` changes how a module is called, not what it
computes: attnlib always takes (b, n, d_model), and so does what ``to_torch`` returns.
"""

import copy
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .decoder import Decoder, DecoderBlock
from .encoder import Encoder, EncoderBlock
from .feed_forward import FeedForward
from .multi_head_attention import MultiHeadAttention

_TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def from_torch(module: nn.Module) -> nn.Module:
    """Build attnlib's counterpart of a PyTorch module, with a copy of its weights.

    >>> theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    >>> ours = from_torch(theirs)
    >>> x = torch.randn(2, 5, 12)
    >>> torch.allclose(ours(x), theirs(x, x, x)[0], atol=1e-6)
    True

    ``nn.MultiheadAttention`` -> ``MultiHeadAttention``, ``nn.TransformerEncoderLayer`` -> ``EncoderBlock``,
    ``nn.TransformerDecoderLayer`` -> ``DecoderBlock``, ``nn.TransformerEncoder`` -> ``Encoder``,
    ``nn.TransformerDecoder`` -> ``Decoder``. The copy has dropout only on the attention weights and in the MLP, at a
    single rate there; a layer in training mode that has more than that is copied with a warning. A decoder's copy is
    causal unless it is called with ``is_causal=False``; PyTorch's is not, unless it gets a ``tgt_mask``.
    Raises TypeError for any other module, ValueError for a configuration that attnlib does not have.
    """
    if isinstance(module, nn.MultiheadAttention):
        return _attention_from_torch(module)
    if isinstance(module, nn.TransformerEncoderLayer):
        return _encoder_from_torch(module)
    if isinstance(module, nn.TransformerDecoderLayer):
        return _decoder_from_torch(module)
    if isinstance(module, nn.TransformerEncoder | nn.TransformerDecoder):
        return _stack_from_torch(module)
    raise TypeError(
        "from_torch takes nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, "
        f"nn.TransformerEncoder or nn.TransformerDecoder, got {type(module).__name__}"
    )


def to_torch(module: nn.Module) -> nn.Module:
    """Build PyTorch's counterpart of an attnlib module, with a copy of its weights and ``batch_first=True``.

    >>> ours = MultiHeadAttention(12, 3)
    >>> theirs = to_torch(ours)
    >>> x = torch.randn(2, 5, 12)
    >>> torch.allclose(ours(x), theirs(x, x, x)[0], atol=1e-6)
    True

    The inverse of ``from_torch``. Raises TypeError for any other module, ValueError for a configuration that PyTorch's
    module does not have.
    """
    if isinstance(module, MultiHeadAttention):
        return _attention_to_torch(module)
    if isinstance(module, EncoderBlock):
        return _encoder_to_torch(module)
    if isinstance(module, DecoderBlock):
        return _decoder_to_torch(module)
    if isinstance(module, Encoder | Decoder):
        return _stack_to_torch(module)
    raise TypeError(
        "to_torch takes MultiHeadAttention, EncoderBlock, DecoderBlock, Encoder or Decoder, "
        f"got {type(module).__name__}"
    )


def _attention_from_torch(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    if theirs.bias_k is not None or theirs.bias_v is not None:
        raise ValueError("attnlib has no learned extra key and value: add_bias_kv must be False, got True")
    if theirs.add_zero_attn:
        raise ValueError("attnlib has no extra key of zeros: add_zero_attn must be False, got True")
    if theirs.kdim != theirs.vdim:
        raise ValueError(f"attnlib has one memory: kdim and vdim must be equal, got {theirs.kdim} and {theirs.vdim}")
    ours = MultiHeadAttention(
        theirs.embed_dim,
        theirs.num_heads,
        d_memory=theirs.kdim,
        bias=theirs.in_proj_bias is not None,
        dropout=theirs.dropout,
    )
    _match(ours, theirs, theirs.out_proj.weight)
    _copy_attention(ours, theirs, to_ours=True)
    return ours


def _attention_to_torch(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    d_model, width = ours.w_q.in_features, ours.w_q.out_features
    if width != d_model:
        raise ValueError(
            f"nn.MultiheadAttention needs num_heads * d_head = d_model = {d_model}, "
            f"got {ours.num_heads} * {ours.d_head}"
        )
    if ours.num_kv_heads != ours.num_heads:
        raise ValueError(
            f"nn.MultiheadAttention needs num_kv_heads = num_heads = {ours.num_heads}, got {ours.num_kv_heads}"
        )
    if (ours.w_q.bias is None) != (ours.w_o.bias is None):
        raise ValueError(
            "nn.MultiheadAttention needs biases in all projections or in none, "
            f"got bias = {ours.w_q.bias is not None} and out_bias = {ours.w_o.bias is not None}"
        )
    if ours.rotary is not None:
        raise ValueError("nn.MultiheadAttention needs rotary = None, got a rotary module")
    if ours.alibi or ours.window is not None:
        raise ValueError(f"nn.MultiheadAttention has no alibi and no window, got {ours.alibi} and {ours.window}")
    if ours.is_causal:
        raise ValueError("nn.MultiheadAttention needs is_causal = False, and a mask at each call, got is_causal = True")
    d_memory = ours.w_k.in_features
    theirs = nn.MultiheadAttention(
        d_model,
        ours.num_heads,
        dropout=ours.dropout,
        bias=ours.w_q.bias is not None,
        kdim=d_memory,
        vdim=d_memory,
        batch_first=True,
    )
    _match(theirs, ours, ours.w_o.weight)
    _copy_attention(ours, theirs, to_ours=False)
    return theirs


def _encoder_from_torch(theirs: nn.TransformerEncoderLayer) -> EncoderBlock:
    ours = EncoderBlock(theirs.self_attn.embed_dim, theirs.self_attn.num_heads, **_block_options(theirs))
    _match(ours, theirs, theirs.linear1.weight)
    ours.attn = _attention_from_torch(theirs.self_attn)
    _copy_rest(ours, theirs, to_ours=True)
    return ours


def _encoder_to_torch(ours: EncoderBlock) -> nn.TransformerEncoderLayer:
    d_model, num_heads = ours.attn.w_q.in_features, ours.attn.num_heads
    attention = _attention_to_torch(ours.attn)  # raises what its own check would say less clearly
    theirs = nn.TransformerEncoderLayer(d_model, num_heads, **_layer_options(ours))
    _match(theirs, ours, ours.mlp.up.weight)
    theirs.self_attn = attention
    if ours.mlp.activation == "gelu_tanh":
        theirs.activation_relu_or_gelu = 0  # PyTorch's fast path takes every nn.GELU for the exact one
    theirs.dropout1.p = 0.0
    _copy_rest(ours, theirs, to_ours=False)
    return theirs


def _decoder_from_torch(theirs: nn.TransformerDecoderLayer) -> DecoderBlock:
    ours = DecoderBlock(theirs.self_attn.embed_dim, theirs.self_attn.num_heads, **_block_options(theirs))
    _match(ours, theirs, theirs.linear1.weight)
    ours.attn = _attention_from_torch(theirs.self_attn)
    ours.cross = _attention_from_torch(theirs.multihead_attn)
    _copy_rest(ours, theirs, to_ours=True)
    return ours


def _decoder_to_torch(ours: DecoderBlock) -> nn.TransformerDecoderLayer:
    d_model, num_heads, d_memory = ours.attn.w_q.in_features, ours.attn.num_heads, ours.cross.w_k.in_features
    if d_memory != d_model:
        raise ValueError(f"nn.TransformerDecoderLayer needs d_memory = d_model = {d_model}, got {d_memory}")
    attention, cross = _attention_to_torch(ours.attn), _attention_to_torch(ours.cross)
    theirs = nn.TransformerDecoderLayer(d_model, num_heads, **_layer_options(ours))
    _match(theirs, ours, ours.mlp.up.weight)
    theirs.self_attn, theirs.multihead_attn = attention, cross
    theirs.dropout1.p = theirs.dropout2.p = 0.0
    _copy_rest(ours, theirs, to_ours=False)
    return theirs


def _stack_from_torch(theirs: nn.TransformerEncoder | nn.TransformerDecoder) -> Encoder | Decoder:
    ours = (Encoder if isinstance(theirs, nn.TransformerEncoder) else Decoder)(0, 1, 1)
    ours.layers = nn.ModuleList(from_torch(layer) for layer in theirs.layers)
    norm: Any = nn.Identity() if theirs.norm is None else copy.deepcopy(theirs.norm)
    ours.norm = norm
    return ours.train(theirs.training)


def _stack_to_torch(ours: Encoder | Decoder) -> nn.TransformerEncoder | nn.TransformerDecoder:
    if not ours.layers:
        raise ValueError("PyTorch's stacks need at least one layer, got none")
    layers: list[Any] = [to_torch(layer) for layer in ours.layers]
    norm: Any = None if isinstance(ours.norm, nn.Identity) else copy.deepcopy(ours.norm)
    theirs: nn.TransformerEncoder | nn.TransformerDecoder
    if isinstance(ours, Encoder):
        theirs = nn.TransformerEncoder(layers[0], 1, norm, enable_nested_tensor=False)
    else:
        theirs = nn.TransformerDecoder(layers[0], 1, norm)
    theirs.layers, theirs.num_layers = nn.ModuleList(layers), len(layers)
    return theirs.train(ours.training)


def _block_options(theirs: _TorchLayer) -> dict[str, Any]:
    """The constructor's arguments for a block that computes what PyTorch's layer computes."""
    behind, inside = [theirs.dropout1.p], [theirs.dropout.p, theirs.dropout2.p]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        behind, inside = [theirs.dropout1.p, theirs.dropout2.p], [theirs.dropout.p, theirs.dropout3.p]
    if theirs.training and (any(behind) or inside[0] != inside[1]):
        warnings.warn(
            f"attnlib's blocks have no dropout behind attention and one rate in the MLP: of {max(behind)} there and "
            f"{inside} in the MLP, the copy has 0.0 and {inside[0]}",
            stacklevel=4,
        )
    return {
        "d_hidden": theirs.linear1.out_features,
        "dropout": inside[0],
        "norm_first": theirs.norm_first,
        "activation": _activation_name(theirs.activation),
        "bias": theirs.linear1.bias is not None,
    }


def _layer_options(ours: EncoderBlock | DecoderBlock) -> dict[str, Any]:
    if not isinstance(ours.norm1, nn.LayerNorm) or ours.mlp.gate is not None or ours.mlp.activation == "silu":
        raise ValueError('PyTorch\'s layers need norm = "layer", an MLP without a gate, and GELU or ReLU')
    return {
        "dim_feedforward": ours.mlp.up.out_features,
        "dropout": ours.mlp.dropout,
        "activation": nn.GELU("tanh") if ours.mlp.activation == "gelu_tanh" else ours.mlp.activation,
        "batch_first": True,
        "norm_first": ours.norm_first,
        "bias": ours.mlp.up.bias is not None,
    }


def _activation_name(activation: object) -> str:
    if activation in (F.relu, torch.relu) or isinstance(activation, nn.ReLU):
        return "relu"
    if activation is F.gelu or (isinstance(activation, nn.GELU) and activation.approximate == "none"):
        return "gelu"
    if isinstance(activation, nn.GELU):
        return "gelu_tanh"
    raise ValueError(f"activation must be relu or gelu, got {activation!r}")


def _match(built: nn.Module, given: nn.Module, weight: Tensor) -> None:
    built.to(device=weight.device, dtype=weight.dtype).train(given.training)


@torch.no_grad()
def _copy(ours: Tensor | None, theirs: Tensor | None, to_ours: bool) -> None:
    if ours is not None and theirs is not None:
        target, source = (ours, theirs) if to_ours else (theirs, ours)
        target.copy_(source)


def _copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention, *, to_ours: bool) -> None:
    if theirs.in_proj_weight is not None:  # packed, below one another, when queries and memory are equally wide
        weights = theirs.in_proj_weight.chunk(3)
    else:
        weights = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    biases = (None, None, None) if theirs.in_proj_bias is None else theirs.in_proj_bias.chunk(3)
    for layer, weight, bias in zip((ours.w_q, ours.w_k, ours.w_v), weights, biases, strict=True):
        _copy(layer.weight, weight, to_ours)
        _copy(layer.bias, bias, to_ours)
    _copy(ours.w_o.weight, theirs.out_proj.weight, to_ours)
    _copy(ours.w_o.bias, theirs.out_proj.bias, to_ours)


def _copy_rest(ours: EncoderBlock | DecoderBlock, theirs: _TorchLayer, *, to_ours: bool) -> None:
    """Copy the norms and the MLP."""
    mlp: FeedForward = ours.mlp
    pairs: list[tuple[Any, Any]] = [(mlp.up, theirs.linear1), (mlp.down, theirs.linear2)]
    pairs += [(getattr(ours, name), getattr(theirs, name)) for name in ("norm1", "norm2")]
    if isinstance(ours, DecoderBlock):
        pairs.append((ours.norm3, theirs.norm3))
    for mine, other in pairs:
        _copy(mine.weight, other.weight, to_ours)
        _copy(mine.bias, other.bias, to_ours)
        if isinstance(mine, nn.LayerNorm):
            target, source = (mine, other) if to_ours else (other, mine)
            target.eps = source.eps
