"""The exercise `DigitReader` of lesson 06: images cut into patches, positions, blocks, ten logits."""

from typing import Any

import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.lesson_06.block import in_training
from attnlib.checks.course.slips.digit_reader import (
    CLASSES,
    CutPatches,
    PlacePatches,
    ReaderParts,
    ReadOut,
    StackOfBlocks,
)
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case


class DigitReader(nn.Module):
    """Images (b, side, side) -> logits (b, 10)."""

    def __init__(self, side: int, patch: int, d_model: int, num_heads: int, depth: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch**2, d_model)
        self.positions = nn.Parameter(0.5 * torch.randn((side // patch) ** 2, d_model))
        self.blocks = nn.ModuleList(
            attnlib.EncoderBlock(d_model, num_heads, mlp_ratio=2.0, dropout=dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(CutPatches().right(images, self.patch)) + self.positions
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x).mean(dim=1))
        return logits


def _images(draw: Draw, *, b: int, sizes: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    return sizes, (draw.normal(b, sizes[0], sizes[0]),)


def _whether_dropped(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Whether two calls differ, in training and at evaluation."""
    found = []
    for training in (True, False):
        asked.train(training)
        (first,), (second,) = asked(*inputs), asked(*inputs)
        found.append(not torch.equal(first, second))
    return (torch.tensor(found).long(),)


_SIZES = (6, 2, 12, 3, 2)
"""side, patch, d_model, num_heads, depth."""

DIGIT_READER = CourseExercise(
    name="DigitReader",
    lesson="06_encoder_block",
    contract="DigitReader(side, patch, d_model, num_heads, depth, dropout=0.0), forward: images (b, side, side) -> "
    "logits (b, 10)",
    parts={"values": 3, "dropout": 1, "gradient": 1, "robustness": 1},
    stretch=True,
    kind="module",
    reference=DigitReader,
    attends=True,
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _images,
            {"b": 3, "sizes": _SIZES},
            one={"b": 1, "sizes": (9, 3, 20, 5, 1)},
            word={"b": 3, "sizes": _SIZES},  # the number of patches is the constructor's
            more=[
                {"b": 2, "sizes": (8, 4, 8, 2, 3)},
                {"b": 5, "sizes": (10, 2, 4, 1, 1)},
                {"b": 2, "sizes": (5, 5, 6, 2, 2)},
            ],
        ),
        Case(
            name="dropout 0.3, in training and at evaluation",
            inputs=lambda draw: _images(draw, b=2, sizes=(*_SIZES, 0.3)),
            part="dropout",
            probe=_whether_dropped,
        ),
        Case(
            name="dropout 1.0 in training: the blocks add nothing",
            inputs=lambda draw: _images(draw, b=2, sizes=(*_SIZES, 1.0)),
            part="dropout",
            probe=in_training,
        ),
        Case(
            name="in training, dropout not given",
            inputs=lambda draw: _images(draw, b=2, sizes=_SIZES),
            part="dropout",
            probe=in_training,
            hidden=True,
        ),
    ),
    made_of=(ReaderParts, CutPatches, PlacePatches, StackOfBlocks, ReadOut),
    pairs=("runs_for_squares", "positions_not_added", "last_norm_missing", "first_patch_alone"),
)
