"""Row 15: PyTorch's encoder layer, batch first: post-LN and ReLU unless told otherwise; masks as in row 14."""

from torch import nn


def encoder_layer(
    d_model: int, num_heads: int, d_hidden: int, norm_first: bool = False, activation: str = "relu"
) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        d_model, num_heads, d_hidden, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )
