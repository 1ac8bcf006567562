"""Exercise `cross_attention`: queries from one sequence, keys and values from another."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.lesson_00.slips import slips_of_batches
from attnlib.checks.course.lesson_01.three_layers import Compute, mistakes_before_and_after
from attnlib.checks.course.lesson_02.scaled_dot_product_attention import (
    attend,
    attention_misconceptions,
    more_attention_misconceptions,
    weighted,
)
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise, Misconception

LESSON = "04_cross_attention"

# mistakes that mean nothing, or something else, here, or that this lesson tells in its own words
ELSEWHERE = (
    "over_heads",
    "three_axes_only",
    "keys_for_values",
    "scaled_by_root_q",
    "softmax_twice",
    "causal",
    "weights_detached",
    "weights_returned_transposed",
    "by_root_d_v_weights_transposed",  # that fits only where d_v is d_k
)


def _reference(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    return attnlib.cross_attention(x, memory, w_q, w_k, w_v)


def _inputs(
    draw: Draw, *, b: int, q: int, k: int, d_model: int, d_memory: int, d_k: int, d_v: int
) -> tuple[Tensor, ...]:
    """Scores with a standard deviation of about 1.5."""
    d_k = draw.d_head(d_k)
    return (
        draw.normal(b, q, d_model),
        draw.normal(b, k, d_memory),
        draw.normal(d_model, d_k, scale=1.2 * d_model**-0.5),
        draw.normal(d_memory, d_k, scale=1.2 * d_memory**-0.5),
        draw.normal(d_memory, d_v, scale=d_memory**-0.5),
    )


def _small_texts() -> tuple[Tensor, ...]:
    """Two who ask, three who answer, and whole numbers."""
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    memory = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    w_q = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    w_k = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    return x, memory, w_q, w_k, torch.tensor([[4.0], [0.0], [8.0]])


def _around(attention: Callable[..., Any]) -> Callable[..., Any]:
    """Cross-attention with the right projections around `attention(q, k, v)`."""
    return lambda x, memory, w_q, w_k, w_v: attention(x @ w_q, memory @ w_k, memory @ w_v)


def _right(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    return attend(x @ w_q, memory @ w_k, memory @ w_v)


def _with_steps(compute: Compute) -> Callable[..., Any]:
    """Cross-attention whose queries are `compute`'s out of x, and whose keys and values are its out of the memory."""

    def nothing(t: Tensor) -> Tensor:
        return t

    def attention(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
        q, _, _ = compute(x, lambda t: t @ w_q, nothing, nothing)
        _, k, v = compute(memory, nothing, lambda t: t @ w_k, lambda t: t @ w_v)
        return attend(q, k, v)

    return attention


def _scaled_by(width: Callable[[Tensor, Tensor], int]) -> Callable[..., Any]:
    def attention(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
        scores = x @ w_q @ (memory @ w_k).mT * width(x, memory) ** -0.5
        return weighted(scores.softmax(dim=-1), memory @ w_v)

    return attention


def _scores(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor) -> Tensor:
    return x @ w_q @ (memory @ w_k).mT * w_k.shape[-1] ** -0.5


def _output_float32(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    output, weights = _right(x, memory, w_q, w_k, w_v)
    return output.float(), weights


def _causal(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    scores = x @ w_q @ (memory @ w_k).mT * w_k.shape[-1] ** -0.5
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return weighted(scores.masked_fill(future, -torch.inf).softmax(dim=-1), memory @ w_v)


def _overwritten(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    scores = x @ w_q @ (memory @ w_k).mT * w_k.shape[-1] ** -0.5
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights /= weights.sum(dim=-1, keepdim=True)
    return weights @ (memory @ w_v), weights


def _both_texts(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    everything = torch.cat([memory, x], dim=1)
    return attend(x @ w_q, everything @ w_k, everything @ w_v)


def _whose_is_whose() -> tuple[Misconception, ...]:
    """What only a second sequence makes possible."""
    return (
        wrong(
            "keys_and_values_from_x",
            "This is self-attention: the memory is never read",
            "Queries, keys and values all come from x. Then x only asks itself, and nothing of the memory reaches the "
            "output. The keys and the values belong to the text that answers: memory @ w_k, memory @ w_v.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, x @ w_k, x @ w_v),
        ),
        wrong(
            "all_from_memory",
            "The memory asks itself",
            "Your queries come from the memory, as the keys and values do. Then the output has a row for each "
            "position of the memory, and x has no say. Who asks is x: x @ w_q.",
            lambda x, memory, w_q, w_k, w_v: attend(memory @ w_q, memory @ w_k, memory @ w_v),
        ),
        wrong(
            "roles_exchanged",
            "The memory asks, and x answers",
            "The roles are exchanged: your queries come from the memory, your keys and values from x. The output "
            "gets as many rows as the one who *asks* has positions, and that is x.",
            lambda x, memory, w_q, w_k, w_v: attend(memory @ w_q, x @ w_k, x @ w_v),
        ),
        wrong(
            "keys_from_x",
            "The keys come from x, the values from the memory",
            "The weights say who fits among the positions of x, and are then used on the positions of the memory. "
            "A key and its value describe the same position: both come from the memory.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, x @ w_k, memory @ w_v),
        ),
        wrong(
            "values_from_x",
            "The values come from x, the keys from the memory",
            "Your weights are right: they say where in the memory to look. But what is brought back comes from x. "
            "A key and its value describe the same position: both come from the memory.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, memory @ w_k, x @ w_v),
        ),
        wrong(
            "softmax_twice",
            "The softmax is taken twice",
            "The weights went through a second softmax. Their entries lie between 0 and 1, so the second one makes "
            "them nearly even. Once is enough.",
            lambda x, memory, w_q, w_k, w_v: weighted(
                _right(x, memory, w_q, w_k, w_v)[1].softmax(dim=-1), memory @ w_v
            ),
        ),
        wrong(
            "causal",
            "A causal mask on the memory",
            "Query i sees only the first i + 1 positions of the memory. The memory is there as a whole, and its "
            "positions have nothing to do with those of x: every query sees all of it.",
            _causal,
        ),
        wrong(
            "memory_detached",
            "The memory is cut from the gradient",
            "The numbers are right. But the encoder that made the memory learns only through it: do not detach it.",
            lambda x, memory, w_q, w_k, w_v: _right(x, memory.detach(), w_q, w_k, w_v),
        ),
        wrong(
            "weights_detached",
            "The weights are cut from the gradient",
            "The numbers are right. But the weights that meet the values were detached, or made under "
            "torch.no_grad(): w_q and w_k can never learn.",
            lambda x, memory, w_q, w_k, w_v: weighted(_right(x, memory, w_q, w_k, w_v)[1].detach(), memory @ w_v),
        ),
        wrong(
            "exp_overwritten",
            "A result that the gradient needs is overwritten",
            "The numbers are right. But exp's gradient is computed from its own result, and `/=` has written into it. "
            "Make a new tensor: weights = weights / total.",
            _overwritten,
        ),
        wrong(
            "both_texts_answer",
            "x answers as well",
            "Your keys and values come from memory and x, joined. Some models do that, but here x only asks. The "
            "weights have shape (b, q, k), and k counts the positions of the memory alone.",
            _both_texts,
        ),
        wrong(
            "one_memory_for_all",
            "Every text of the batch asks the first memory",
            "With a batch of one nobody notices. Each x has a memory of its own: keep the batch axis.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, memory[:1] @ w_k, memory[:1] @ w_v),
        ),
        wrong(
            "memory_cut",
            "The memory is cut to the length of x",
            "memory[:, :n] drops the positions of the memory beyond the length of x. The two texts need not be of one "
            "length, and every query sees the whole memory.",
            lambda x, memory, w_q, w_k, w_v: _right(x, memory[:, : x.shape[1]], w_q, w_k, w_v),
        ),
        wrong(
            "last_memory_for_all",
            "Every text of the batch asks the last memory",
            "An index that is left over from a loop, or memory[-1]. Each x has a memory of its own: keep the batch "
            "axis.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, memory[-1:] @ w_k, memory[-1:] @ w_v),
        ),
        wrong(
            "w_q_w_v_exchanged",
            "w_q and w_v are exchanged",
            "x asks with w_q, and what the memory brings along is made with w_v. The order of the arguments is w_q, "
            "w_k, w_v. Where the widths differ the products do not even fit.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_v, memory @ w_k, memory @ w_q),
        ),
        wrong(
            "w_k_w_v_exchanged",
            "w_k and w_v are exchanged",
            "The keys are made with w_v and the values with w_k. That fits only where d_k equals d_v. The order of "
            "the arguments is w_q, w_k, w_v.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, memory @ w_v, memory @ w_k),
        ),
        wrong(
            "w_q_for_keys",
            "The keys are made with w_q",
            "w_q is there for x; the memory has matrices of its own, w_k and w_v. Where memory and x are of different "
            "widths the product does not even fit.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, memory @ w_q, memory @ w_v),
        ),
        wrong(
            "w_q_w_k_exchanged",
            "w_q and w_k are exchanged",
            "x asks with w_q, the memory offers with w_k. Where memory and x are of different widths the products do "
            "not even fit.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_k, memory @ w_q, memory @ w_v),
        ),
        wrong(
            "matrices_transposed",
            "The matrices are transposed",
            "w_q is (d_model, d_k) and multiplies from the right: x @ w_q. F.linear(x, w) would be x @ w.T, for "
            "matrices stored the other way round.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q.T, memory @ w_k.T, memory @ w_v.T),
        ),
        wrong(
            "input_detached",
            "x is cut from the gradient",
            "The numbers are right, and the matrices can learn. But what made x cannot: no gradient reaches it. Do not "
            "detach what you are given.",
            lambda x, memory, w_q, w_k, w_v: _right(x.detach(), memory, w_q, w_k, w_v),
        ),
        wrong(
            "x_made_float32",
            "x is made float32",
            "`.float()` makes float32 of any input, and a product of float32 and float64 fails. Leave the dtype alone: "
            "inputs and matrices come in one dtype.",
            lambda x, memory, w_q, w_k, w_v: _right(x.float(), memory, w_q, w_k, w_v),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is weights @ k, so that w_v is never used. A key is what is matched, a value is what is "
            "brought back.",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, memory @ w_k, memory @ w_k),
        ),
        wrong(
            "memory_for_values",
            "The memory itself is averaged",
            "The output is weights @ memory, so that w_v is never used. The values are memory @ w_v, (b, k, d_v).",
            lambda x, memory, w_q, w_k, w_v: attend(x @ w_q, memory @ w_k, memory),
        ),
    )


def _scale_and_results() -> tuple[Misconception, ...]:
    """Mistakes of scale and of what is returned, that lesson 02 did not have."""
    return (
        wrong(
            "scaled_by_root_d_model",
            "Scaled by √d_model",
            "The scores are sums of d_k products. d_model, the width of x before it is projected, takes no part.",
            _scaled_by(lambda x, memory: x.shape[-1]),
        ),
        wrong(
            "scaled_by_root_d_memory",
            "Scaled by √d_memory",
            "The scores are sums of d_k products. d_memory, the width of the memory before it is projected, takes no "
            "part.",
            _scaled_by(lambda x, memory: memory.shape[-1]),
        ),
        wrong(
            "scaled_by_root_q",
            "Scaled by the number of queries",
            "The scores are sums of d_k products. How many positions ask does not matter to any of them.",
            lambda x, memory, w_q, w_k, w_v: weighted(
                (x @ w_q @ (memory @ w_k).mT * x.shape[1] ** -0.5).softmax(dim=-1), memory @ w_v
            ),
        ),
        wrong(
            "over_all_pairs",
            "The softmax runs over all pairs",
            "All weights together add up to 1. Each *row* has to: every query shares out 1 of its own, among the keys "
            "alone, dim=-1.",
            lambda x, memory, w_q, w_k, w_v: weighted(
                _scores(x, memory, w_q, w_k).flatten(1).softmax(dim=-1).view(*x.shape[:2], -1), memory @ w_v
            ),
        ),
        wrong(
            "divided_without_exp",
            "The scores are divided by their sum, without exp",
            "Scores may be negative, and their sum may be near 0. The softmax takes exp first, which makes them "
            "positive.",
            lambda x, memory, w_q, w_k, w_v: weighted(
                _scores(x, memory, w_q, w_k) / _scores(x, memory, w_q, w_k).sum(dim=-1, keepdim=True), memory @ w_v
            ),
        ),
        wrong(
            "output_float32",
            "The output is always float32",
            "It was collected in a tensor made with torch.zeros or torch.empty, which is float32 whatever the input "
            "is. Make it from an input, `x.new_zeros(...)`, or pass dtype=x.dtype.",
            _output_float32,
        ),
        wrong(
            "residual_added",
            "x is added to the output",
            "A residual connection belongs to the block around attention (lesson 06), not to attention itself. Where "
            "d_v is not d_model the shapes do not even fit.",
            lambda x, memory, w_q, w_k, w_v: (
                _right(x, memory, w_q, w_k, w_v)[0] + x,
                _right(x, memory, w_q, w_k, w_v)[1],
            ),
        ),
        wrong(
            "weights_returned_transposed",
            "The weights are returned the other way round",
            "The output is right. But in your weights a row belongs to a position of the memory. Who asks comes "
            "first: (b, q, k).",
            lambda x, memory, w_q, w_k, w_v: (
                _right(x, memory, w_q, w_k, w_v)[0],
                _right(x, memory, w_q, w_k, w_v)[1].mT,
            ),
        ),
        wrong(
            "weights_forgotten",
            "Only the output is returned",
            "The contract is (output, weights): you will want to see who looked where.",
            lambda x, memory, w_q, w_k, w_v: _right(x, memory, w_q, w_k, w_v)[0],
        ),
    )


CROSS_ATTENTION = Exercise(
    name="cross_attention",
    lesson=LESSON,
    contract="(b, q, d_model), (b, k, d_memory), three matrices -> output (b, q, d_v), weights (b, q, k)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    reference=_reference,
    outputs=("output", "weights"),
    detachable=("weights",),
    shown="weights",
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "q": 5, "k": 7, "d_model": 11, "d_memory": 13, "d_k": 3, "d_v": 17},
            one={"b": 1, "q": 3, "k": 2, "d_model": 7, "d_memory": 5, "d_k": 11, "d_v": 2},
            more=[
                {"b": 3, "q": 11, "k": 5, "d_model": 7, "d_memory": 2, "d_k": 5, "d_v": 13},
                {"b": 5, "q": 1, "k": 3, "d_model": 2, "d_memory": 11, "d_k": 7, "d_v": 3},
                {"b": 2, "q": 3, "k": 1, "d_model": 5, "d_memory": 7, "d_k": 2, "d_v": 5},
            ],
        ),
        # where lengths and widths agree, more mistakes run, and the numbers tell which one it is
        Case(
            name="two texts of one length and width",
            inputs=partial(_inputs, b=2, q=5, k=5, d_model=11, d_memory=11, d_k=3, d_v=3),
        ),
        Case(
            name="every width the same",
            inputs=partial(_inputs, b=3, q=7, k=7, d_model=5, d_memory=5, d_k=5, d_v=5),
        ),
    ),
    example=_small_texts,
    misconceptions=(
        *_whose_is_whose(),
        *(
            wrong(m.id, m.title, m.explanation, _around(m.implementation))
            for m in (*attention_misconceptions(), *more_attention_misconceptions())
            if m.id not in ELSEWHERE
        ),
        *_scale_and_results(),
        *mistakes_before_and_after(_with_steps),
        *slips_of_batches(_right),
        *usual_misconceptions(_right, example=_small_texts),
    ),
)
