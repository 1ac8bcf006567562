"""The exercise `block_cost` of lesson 06: what a block multiplies, and the tables that it fills."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.course.slips.block_cost import Bill, CompareWords, FillTables, HeadWidth, OneWord
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case


def block_cost(lengths: Tensor, d_model: int, num_heads: int, d_hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """Four projections and two matrices for each word; a score and a mixture for each pair, in every head."""
    tables = num_heads * lengths**2
    word_by_word = lengths * (4 * d_model**2 + 2 * d_model * d_hidden)
    return word_by_word, 2 * tables * (d_model // num_heads), tables


def _bill(name: str, *sizes: int, lengths: tuple[int, ...], **more: Any) -> Case:
    def inputs(draw: Draw) -> tuple[Any, ...]:
        return torch.tensor(lengths), *sizes

    return Case(name=name, inputs=inputs, **more)


BLOCK_COST = CourseExercise(
    name="block_cost",
    lesson="06_encoder_block",
    contract="lengths (n,), d_model, num_heads, d_hidden -> three int64 (n,): multiplications word by word, "
    "multiplications between words, numbers in the tables of weights",
    parts={"values": 3},
    reference=block_cost,
    excused={
        "the device that was given": "The products may be counted in Python, one length after the other.",
    },
    outputs=("word by word", "between words", "tables"),
    cases=(
        _bill("three lengths", 15, 3, 7, lengths=(1, 13, 101), mutation=True),
        _bill("one head", 5, 1, 11, lengths=(7, 2)),
        _bill("the block of GPT-2", 768, 12, 3072, lengths=(1, 512, 1024)),
        _bill("one length", 14, 7, 3, lengths=(17,)),
        replace(
            _bill("called a second time, with other lengths", 15, 3, 7, lengths=(2, 5, 19)),
            after=(_bill("", 15, 3, 7, lengths=(1, 13, 101)).inputs,),
        ),
        _bill("the block of GPT-3, and long texts", 12288, 96, 49152, lengths=(1000003, 2048), hidden=True),
    ),
    example=lambda: (torch.tensor([10, 20]), 6, 2, 24),
    made_of=(HeadWidth, OneWord, CompareWords, FillTables, Bill),
    pairs=("w_o_left_out", "mixture_left_out", "one_table_counted", "additions_counted"),
)
