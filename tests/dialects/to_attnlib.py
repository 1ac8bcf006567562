"""Each dialect's weights as attnlib's, row by row of the table.

Every function is differentiable in the dialect's own parameters, so that a gradient that attnlib computes comes back
through the packing to where the dialect keeps the number.
"""

import torch
from einops import rearrange
from torch import Tensor, nn

Weights = dict[str, Tensor]


def linears(**layers: nn.Module) -> Weights:
    """The parameters of layers under attnlib's names for them."""
    return {f"{name}.{part}": value for name, layer in layers.items() for part, value in layer.named_parameters()}


def below(prefix: str, weights: Weights) -> Weights:
    return {f"{prefix}.{name}": value for name, value in weights.items()}


def row_01(theirs: nn.Module) -> Weights:
    return linears(w_q=theirs.query, w_k=theirs.key, w_v=theirs.value)


def row_02(theirs: nn.Module) -> Weights:
    # (three, heads, d) from slow to fast: q, k and v are three blocks of rows, each in attnlib's own order
    weights = linears(w_o=theirs.proj)
    for name, weight, bias in zip("qkv", theirs.qkv.weight.chunk(3), theirs.qkv.bias.chunk(3), strict=True):
        weights |= {f"w_{name}.weight": weight, f"w_{name}.bias": bias}
    return weights


def row_03(theirs: nn.Module) -> Weights:
    rest = linears(norm1=theirs.norm1, norm2=theirs.norm2) | below(
        "mlp", linears(up=theirs.mlp.fc1, down=theirs.mlp.fc2)
    )
    return below("attn", row_02(theirs.attn)) | rest


def row_04(theirs: nn.Module) -> Weights:
    q, k, v = rearrange(theirs.to_qkv.weight, "(d k) d_model -> k d d_model", k=3)
    return {"w_q.weight": q, "w_k.weight": k, "w_v.weight": v}


def row_05(theirs: nn.Module) -> Weights:
    q, k, v = rearrange(theirs.to_qkv.weight, "(d k h) d_model -> k (h d) d_model", k=3, h=theirs.heads)
    return {"w_q.weight": q, "w_k.weight": k, "w_v.weight": v} | linears(w_o=theirs.w_out)


def row_06(theirs: nn.Module) -> Weights:
    # one projection for every head: a block-diagonal matrix that repeats it, so the gradient sums over the heads
    shared = {"w_q": theirs.queries, "w_k": theirs.keys, "w_v": theirs.values}
    repeated = {name: torch.block_diag(*[layer.weight] * theirs.heads) for name, layer in shared.items()}
    return {f"{name}.weight": weight for name, weight in repeated.items()} | linears(w_o=theirs.fc_out)


def row_07(theirs: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """Also row 9. The matrices (d_model, d) as the functions take them; a `Linear` holds their transposes."""
    return theirs.W_query, theirs.W_key, theirs.W_value


def transposed(matrices: tuple[Tensor, Tensor, Tensor]) -> Weights:
    return {f"w_{name}.weight": matrix.T for name, matrix in zip("qkv", matrices, strict=True)}


def row_12(theirs: nn.Module) -> Weights:
    theirs = getattr(theirs, "attend", theirs)
    output = {"w_o": theirs.W_o} if hasattr(theirs, "W_o") else {}
    return linears(w_q=theirs.W_q, w_k=theirs.W_k, w_v=theirs.W_v, **output)


def row_14(theirs: nn.MultiheadAttention) -> Weights:
    weights = linears(w_o=theirs.out_proj)
    for name, weight, bias in zip("qkv", theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True):
        weights |= {f"w_{name}.weight": weight, f"w_{name}.bias": bias}
    return weights


def row_15(theirs: nn.TransformerEncoderLayer) -> Weights:
    rest = linears(norm1=theirs.norm1, norm2=theirs.norm2) | below(
        "mlp", linears(up=theirs.linear1, down=theirs.linear2)
    )
    return below("attn", row_14(theirs.self_attn)) | rest
