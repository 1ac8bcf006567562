"""Right answers to DigitReader of lesson 06, differently written: all of them must be accepted."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

import attnlib
from attnlib.checks.course import find


class DigitReader(nn.Module):
    def __init__(self, side, patch, d_model, num_heads, depth, dropout=0.0):
        super().__init__()
        self.patch, self.rows = patch, side // patch
        self.embed = nn.Linear(patch * patch, d_model)
        self.positions = nn.Parameter(torch.randn(self.rows * self.rows, d_model))
        blocks = [attnlib.EncoderBlock(d_model, num_heads, mlp_ratio=2.0, dropout=dropout) for _ in range(depth)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, 10)

    def cut(self, images):
        pattern = "b (row p1) (column p2) -> b (row column) (p1 p2)"
        return rearrange(images, pattern, p1=self.patch, p2=self.patch)

    def forward(self, images):
        x = self.embed(self.cut(images)) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class ByTwoLoops(DigitReader):
    """Each square is a slice."""

    def cut(self, images):
        p = self.patch
        starts = range(0, images.shape[-1], p)
        return torch.stack([images[:, i : i + p, j : j + p].flatten(1) for i in starts for j in starts], dim=1)


class ByUnfold(DigitReader):
    """`Tensor.unfold` on rows, then on columns."""

    def cut(self, images):
        return images.unfold(1, self.patch, self.patch).unfold(2, self.patch, self.patch).flatten(3).flatten(1, 2)


class ByFunctionalUnfold(DigitReader):
    """Torch's own im2col, which wants channels."""

    def cut(self, images):
        return F.unfold(images[:, None], self.patch, stride=self.patch).mT


class ByConvolution(DigitReader):
    """A linear layer on patches is a convolution that steps from patch to patch, as ViT's code has it."""

    def forward(self, images):
        kernel = self.embed.weight.view(-1, 1, self.patch, self.patch)
        x = F.conv2d(images.unsqueeze(1), kernel, self.embed.bias, stride=self.patch).flatten(2).transpose(1, 2)
        x = nn.Sequential(*self.blocks)(x + self.positions)
        return self.norm(x).mean(dim=-2) @ self.head.weight.T + self.head.bias


class OneByOne(DigitReader):
    """Blocks appended one by one, the image cut by reshape and permute, the logits averaged at the end."""

    def __init__(self, side, patch, d_model, num_heads, depth, dropout=0.0):
        super().__init__(side, patch, d_model, num_heads, 0)
        for _ in range(depth):
            self.blocks.append(attnlib.EncoderBlock(d_model, num_heads, mlp_ratio=2.0, dropout=dropout))

    def forward(self, images):
        b, n, p = len(images), self.rows, self.patch
        x = images.reshape(b, n, p, n, p).permute(0, 1, 3, 2, 4).reshape(b, n * n, p * p)
        x = self.embed(x).add(self.positions.unsqueeze(0))
        for i in range(len(self.blocks)):
            x = self.blocks[i](x)
        return sum(self.head(word) for word in self.norm(x).unbind(1)) / (n * n)


class AnotherDigitReader(find("DigitReader").reference):
    def forward(self, images: Tensor) -> Tensor:
        """The head is linear, so the mean of the patches' logits equals the logits of their mean: average last."""
        squares = rearrange(images, "b (row p) (column q) -> b (row column) (p q)", p=self.patch, q=self.patch)
        x = self.embed(squares) + self.positions
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x)).mean(dim=1)
        return logits


ALTERNATIVES = {
    "DigitReader": [AnotherDigitReader, DigitReader, ByTwoLoops, ByUnfold, ByFunctionalUnfold, ByConvolution, OneByOne]
}
