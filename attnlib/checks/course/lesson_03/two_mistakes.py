"""Two mistakes at once in attention with heads, in lessons 03 to 05, where each has a step of its own."""

from itertools import combinations
from typing import Any

from torch import Tensor

from attnlib.checks.course.lesson_03.heads import Heads, but, masked_softmax
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception


def _merge_by_reshape(self: Heads, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def _split_by_reshape(self: Heads, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], self.num_heads, x.shape[1], self.d_head)


def _and_its_input(plain: type[Heads]) -> Any:
    def attend(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, weights = plain.attend(self, x, memory, allowed)
        return output + x, weights

    return attend


def two_mistakes(plain: type[Heads]) -> tuple[Misconception, ...]:
    """Any two of the commonest that do not replace the same step."""
    one: dict[str, tuple[str, str, dict[str, Any]]] = {
        "unscaled": (
            "the scale is missing",
            "the scores are divided by √d",
            {"scale": lambda self, x, memory: 1.0},
        ),
        "by_root_d_model": (
            "the scores are scaled by √d_model",
            "the scores are divided by √d, the root of how wide a head is",
            {"scale": lambda self, x, memory: x.shape[-1] ** -0.5},
        ),
        "over_queries": (
            "the softmax runs over the queries",
            "the softmax runs over the keys, dim=-1",
            {"share": lambda self, scores, allowed: masked_softmax(scores, allowed, dim=-2)},
        ),
        "merged_by_reshape": (
            "the heads are merged by reshape alone",
            "the middle axes change places before the heads are merged",
            {"merge": _merge_by_reshape},
        ),
        "split_and_merged_by_reshape": (
            "the heads are split and merged by reshape alone",
            "the middle axes change places after the split and before the merging",
            {"split": _split_by_reshape, "merge": _merge_by_reshape},
        ),
        "q_k_exchanged": (
            "queries and keys are exchanged",
            "w_q makes the queries and w_k the keys",
            {"project": lambda self, x, memory: (self.w_k(x), self.w_q(memory), self.w_v(memory))},
        ),
        "no_output_projection": (
            "the output projection is forgotten",
            "w_o mixes what the heads have found",
            {"finish": lambda self, x: x},
        ),
        "residual_added": (
            "the input is added to the output",
            "a residual connection belongs to the block around attention",
            {"attend": _and_its_input(plain)},
        ),
    }
    return tuple(
        wrong(
            f"{first}_and_{second}",
            f"{one[first][0].capitalize()}, and {one[second][0]}",
            f"Two things at once: {one[first][1]}; and {one[second][1]}.",
            but(plain, **one[first][2], **one[second][2]),
        )
        for first, second in combinations(one, 2)
        if not set(one[first][2]) & set(one[second][2])
    )
