"""Exercise `stack_head_weights`: one matrix for all heads."""

import torch
from einops import rearrange
from torch import Tensor

import attnlib
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise

LESSON = "03_multi_head_attention"


def _matrices(draw: Draw, *, h: int, d_model: int, d: int) -> tuple[list[Tensor]]:
    return ([draw.normal(d_model, d) for _ in range(h)],)


def _small_matrices() -> tuple[list[Tensor]]:
    return ([torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])],)


def _right(per_head: list[Tensor]) -> Tensor:
    return torch.cat(list(per_head), dim=-1)


def _added(per_head: list[Tensor]) -> Tensor:
    return torch.stack(list(per_head)).sum(dim=0)


def _three_unpacked(per_head: list[Tensor]) -> Tensor:
    first, second, third = per_head
    return torch.cat([first, second, third], dim=-1)


def _square_of_shared_width(per_head: list[Tensor]) -> Tensor:
    d_model = per_head[0].shape[0]
    return _filled(per_head, d_model, d_model // len(per_head))


def _square_filled(per_head: list[Tensor]) -> Tensor:
    return _filled(per_head, per_head[0].shape[0], per_head[0].shape[1])


def _filled(per_head: list[Tensor], width: int, d: int) -> Tensor:
    result = per_head[0].new_zeros(per_head[0].shape[0], width)
    for i, matrix in enumerate(per_head):
        result[:, i * d : (i + 1) * d] = matrix
    return result


STACK_HEAD_WEIGHTS = Exercise(
    name="stack_head_weights",
    lesson=LESSON,
    contract="h matrices (d_model, d) -> one (d_model, h·d), the heads' columns side by side",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.stack_head_weights,
    forbidden=("attnlib.stack_head_weights",),
    cases=usual_cases(
        _matrices,
        {"h": 3, "d_model": 7, "d": 5},
        one={"h": 2, "d_model": 5, "d": 3},
        more=[
            {"h": 5, "d_model": 2, "d": 7},
            {"h": 1, "d_model": 11, "d": 3},
            {"h": 7, "d_model": 3, "d": 1},
            {"h": 3, "d_model": 3, "d": 3},
        ],
    ),
    example=_small_matrices,
    misconceptions=(
        wrong(
            "on_top_of_each_other",
            "The matrices stand on top of each other",
            "Yours is (h·d_model, d): joined along the rows. A column of a matrix makes one number of the result, so "
            "more results need more *columns*: join along the last axis.",
            lambda per_head: torch.cat(list(per_head), dim=0),
        ),
        wrong(
            "new_axis",
            "The matrices lie behind one another, on a new axis",
            "torch.stack makes a new axis, (h, d_model, d). That can be used in an einsum, but it is not one matrix. "
            "Join them along the axis that is there: torch.cat.",
            lambda per_head: torch.stack(list(per_head)),
        ),
        wrong(
            "new_axis_inside",
            "One axis too many",
            "Yours is (d_model, h, d), with the numbers in the right order. Join the last two axes, so that one matrix "
            "product can use it.",
            lambda per_head: torch.stack(list(per_head), dim=1),
        ),
        wrong(
            "new_axis_last",
            "The matrices lie side by side on a new last axis",
            "Yours is (d_model, d, h): torch.stack makes a new axis. Join the matrices along the axis that is there: "
            "torch.cat with dim=-1.",
            lambda per_head: torch.stack(list(per_head), dim=-1),
        ),
        wrong(
            "reshaped",
            "reshape where a transpose was needed",
            "torch.stack gives (h, d_model, d), and in memory all of head 0 comes first. `reshape(d_model, h * d)` "
            "only breaks the lines elsewhere: your first row is several rows of head 0. Move d_model to the front "
            "first, or use torch.cat.",
            lambda per_head: torch.stack(list(per_head)).reshape(per_head[0].shape[0], -1),
        ),
        wrong(
            "heads_fastest",
            "The heads take turns",
            "Your columns are the first of every head, then the second of every head: (d h). split_heads will cut "
            "runs of d neighbours, so the columns of one head have to stay together: (h d).",
            lambda per_head: rearrange(list(per_head), "h m d -> m (d h)"),
        ),
        wrong(
            "heads_reversed",
            "The heads come in reverse order",
            "Head 0 is on the left: split_heads will look for it there.",
            lambda per_head: torch.cat(list(per_head)[::-1], dim=-1),
        ),
        wrong(
            "summed",
            "The matrices are added up",
            "x @ (A + B) is x @ A + x @ B: the heads can no longer be told apart. Side by side they stay separate.",
            _added,
        ),
        wrong(
            "averaged",
            "The matrices are averaged",
            "x @ (A + B)/2 is the mean of x @ A and x @ B: the heads can no longer be told apart. Side by side they "
            "stay separate.",
            lambda per_head: _added(per_head) / len(per_head),
        ),
        wrong(
            "block_diagonal",
            "A block-diagonal matrix",
            "(h·d_model, h·d) with zeros off the blocks: each head would read only its own slice of the input. In "
            "multi-head attention every head reads the whole word, so all matrices share the same d_model rows.",
            lambda per_head: torch.block_diag(*per_head),
        ),
        wrong(
            "transposed",
            "The way round of nn.Linear",
            "Yours is (h·d, d_model), as nn.Linear stores a weight. Here the matrices multiply from the right, x @ w, "
            "and so does the result: (d_model, h·d).",
            lambda per_head: torch.cat(list(per_head), dim=-1).T,
        ),
        wrong(
            "listed",
            "The matrices are still a list",
            "They are collected, but not joined. torch.cat makes one matrix of them.",
            lambda per_head: list(per_head),
        ),
        wrong(
            "each_transposed",
            "Each matrix is transposed",
            "The matrices come as they are needed, (d_model, d): they multiply from the right, x @ w. Join them as "
            "they are.",
            lambda per_head: torch.cat([w.T for w in per_head], dim=-1),
        ),
        wrong(
            "first_head_alone",
            "Only the first matrix is returned",
            "The other heads are missing. Does a `return` stand inside the loop? All h matrices go into the result.",
            lambda per_head: per_head[0] * 1,
        ),
        wrong(
            "new_parameter",
            "The result is a new parameter",
            "nn.Parameter(...), or requires_grad_() after a detach, starts a new leaf: it copies the numbers, and the "
            "gradient ends there. The matrices that you were given are the ones that learn.",
            lambda per_head: torch.cat(list(per_head), dim=-1).detach().requires_grad_(per_head[0].requires_grad),
        ),
        wrong(
            "last_head_lost",
            "The last head is missing",
            "A range that ends at len(per_head) - 1 stops one head too early.",
            lambda per_head: torch.cat(list(per_head)[: max(1, len(per_head) - 1)], dim=-1),
        ),
        wrong(
            "two_heads_only",
            "Only the first two heads are joined",
            "per_head may have any length: hand the whole list to torch.cat.",
            lambda per_head: torch.cat(list(per_head)[:2], dim=-1),
        ),
        *(
            wrong(
                f"three_heads_{how}",
                "Exactly three heads are joined",
                "per_head[0], per_head[1] and per_head[2] are all there are in the lesson's example. per_head may have "
                "any length: hand the whole list to torch.cat.",
                implementation,
            )
            for how, implementation in (
                ("indexed", lambda per_head: torch.cat([per_head[0], per_head[1], per_head[2]], dim=-1)),
                ("unpacked", _three_unpacked),
            )
        ),
        wrong(
            "first_two_indexed",
            "Exactly two heads are joined",
            "per_head[0] and per_head[1] are not all: per_head may have any length, also 1. Hand the whole list to "
            "torch.cat.",
            lambda per_head: torch.cat([per_head[0], per_head[1]], dim=-1),
            same_as="two_heads_only",
        ),
        wrong(
            "first_head_twice",
            "Head 0 stands there twice",
            "The loop begins at head 0 although the result began with head 0 already. Begin with the second one, "
            "per_head[1:], or hand the whole list to torch.cat.",
            lambda per_head: torch.cat([per_head[0], *per_head], dim=-1),
        ),
        wrong(
            "first_head_lost",
            "The first head is missing",
            "Lists are counted from 0: a loop from 1 on leaves head 0 out. Hand the whole list to torch.cat.",
            lambda per_head: torch.cat(list(per_head[1:] or per_head), dim=-1),
        ),
        wrong(
            "square_result",
            "The result is made as wide as d_model",
            "The heads side by side are h·d wide, and that need not be d_model. Take d from the matrices: "
            "per_head[0].shape[1].",
            _square_of_shared_width,
        ),
        wrong(
            "square_result_filled",
            "The result is made as wide as d_model",
            "The heads side by side are h·d wide, and that need not be d_model. Take d from the matrices: "
            "per_head[0].shape[1].",
            _square_filled,
            same_as="square_result",
        ),
        wrong(
            "first_head_only",
            "One head for all",
            "Every block of columns is the matrix of head 0, so all heads would ask the same.",
            lambda per_head: per_head[0].repeat(1, len(per_head)),
        ),
        *usual_misconceptions(_right, example=_small_matrices, batch=False),
    ),
)
