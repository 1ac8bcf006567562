"""`mend_encoder_block`: a residual from behind the norm, and one norm for two."""

from functools import partial
from typing import Any

from torch import Tensor

from attnlib.checks.course.lesson_06.encoder_block import (
    WHOLE_BLOCKS,
    EncoderBlock,
    block_inputs,
    dropped,
    padding_case,
    single_words,
)
from attnlib.checks.course.lesson_06.feed_forward import in_training
from attnlib.checks.course.lesson_06.mistakes_between import MISTAKES_BETWEEN
from attnlib.checks.course.lesson_06.mistakes_inside import MISTAKES_INSIDE
from attnlib.checks.course.lesson_06.plain_block import block, two_steps
from attnlib.checks.course.usual import as_given, usual_cases, wrong
from attnlib.checks.exercise import Case, Exercise


def _as_given(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = s.norm1(x)
    x = x + s.attend(x, m)
    return x + s.mlp(s.norm1(x))


def _residual_left(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = s.norm1(x)
    x = x + s.attend(x, m)
    return x + s.mlp(s.norm2(x))


def _both_overwritten(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = s.norm1(x)
    x = x + s.attend(x, m)
    x = s.norm2(x)
    return x + s.mlp(x)


def _second_overwritten(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = x + s.attend(s.norm1(x), m)
    x = s.norm2(x)
    return x + s.mlp(x)


def _start_kept(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    return x + s.mlp(s.norm2(x + s.attend(s.norm1(x), m)))


def _post_norm(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = s.norm1(x + s.attend(x, m))
    return s.norm2(x + s.mlp(x))


MADE_ANEW = (
    "first_residual_forgotten",
    "second_residual_forgotten",
    "no_residuals",
    "side_by_side",
    "norm2_twice",
    "old_norm_reused",
    "old_norm_normed_again",
    "norm_after_the_sublayer",
    "norm_at_the_end",
    "stream_overwritten",
    "attention_last",
    "perceptron_first",
    "key_mask_as_memory",
    "key_mask_upside_down",
    "first_norm_after",
    "second_norm_after",
    "first_half_post_norm",
    "second_half_post_norm",
    "memory_not_normed",
    "queries_not_normed",
    "branch_alone_to_the_perceptron",
    "attention_added_twice",
    "perceptron_added_twice",
    "first_residual_twice",
    "second_residual_twice",
)
"""Mistakes that are not in the block as it is given, but come up while it is mended."""

MEND_ENCODER_BLOCK = Exercise(
    name="mend_encoder_block",
    lesson="06_encoder_block",
    contract="a pre-LN block: x + attn(norm1(x)), then x + mlp(norm2(x))",
    parts={"values": 2},
    kind="module",
    reference=EncoderBlock,
    forbidden=WHOLE_BLOCKS,
    weight_scale=1.2,
    cases=(
        *(
            case
            for case in usual_cases(
                block_inputs,
                {"b": 2, "n": 5, "sizes": (12, 3, 2.65)},
                one={"b": 1, "n": 3, "sizes": (20, 5)},
            )
            if case.part == "values"
        ),
        padding_case("sentences of 5, 3 and 2 words", part="values", lengths=(5, 3, 2), sizes=(12, 3, 2.65)),
        Case(name="other sizes", inputs=partial(block_inputs, b=3, n=7, sizes=(32, 2, 1.9)), hidden=True),
        Case(
            name="in training, with dropout 0.3",
            inputs=single_words,
            probe=partial(dropped, training=True),
            hidden=True,
        ),
        Case(
            name="in training, dropout not given",
            inputs=partial(block_inputs, b=2, n=5, sizes=(12, 3)),
            probe=in_training,
            hidden=True,
        ),
    ),
    misconceptions=(
        as_given(block(_as_given)),
        wrong(
            "residual_left",
            "The residual still comes from behind the norm",
            "The perceptron has its own norm now. But x = norm1(x) still overwrites the stream, so that the normalised "
            "vector is what attention's result is added to. Normalise inside the call: attn(norm1(x)).",
            block(_residual_left),
        ),
        wrong(
            "one_norm_left",
            "norm1 still serves both sub-layers",
            "The residual is right now. But the perceptron is still fed by norm1, and norm2 is never called: its "
            "weights would get no gradient, ever.",
            two_steps(perceptron=lambda s, x: x + s.mlp(s.norm1(x))),
        ),
        wrong(
            "second_made_like_the_first",
            "Now both residuals come from behind a norm",
            "norm2 is used, but in the way in which norm1 was: it overwrites x. The sum has to be made with the x from "
            "before the norm, in both steps.",
            block(_both_overwritten),
        ),
        wrong(
            "second_overwritten",
            "The second residual comes from behind its norm",
            "The first step is right. In the second one, x = norm2(x) overwrites the stream before the sum is made.",
            block(_second_overwritten),
        ),
        wrong(
            "first_norm_removed",
            "norm1 is gone",
            "Without the line x = norm1(x) the residual is right, but attention now sees x as it comes. It should see "
            "norm1(x): put the norm inside the call.",
            two_steps(attention=lambda s, x, m: x + s.attend(x, m)),
        ),
        wrong(
            "first_norm_removed_one_left",
            "norm1 has moved to the perceptron",
            "Attention sees x as it comes, and the perceptron is fed by norm1. norm1 belongs inside the call of attn, "
            "norm2 inside that of mlp.",
            two_steps(lambda s, x, m: x + s.attend(x, m), lambda s, x: x + s.mlp(s.norm1(x))),
        ),
        wrong(
            "norms_removed",
            "Both norms are gone",
            "The residuals are right, but nothing is normalised any more: attn(norm1(x)) and mlp(norm2(x)).",
            two_steps(lambda s, x, m: x + s.attend(x, m), lambda s, x: x + s.mlp(x)),
        ),
        wrong(
            "second_norm_removed",
            "The perceptron has no norm",
            "Attention is right. The perceptron should be fed by norm2: mlp(norm2(x)).",
            two_steps(perceptron=lambda s, x: x + s.mlp(x)),
        ),
        wrong(
            "norms_exchanged",
            "norm1 and norm2 are exchanged",
            "norm1 belongs before attention, norm2 before the perceptron.",
            two_steps(lambda s, x, m: x + s.attend(s.norm2(x), m), lambda s, x: x + s.mlp(s.norm1(x))),
        ),
        wrong(
            "start_kept",
            "The second sum starts from the block's input",
            "You saved the x that came in, which is right for the first sum. The second one is made with the result of "
            "the first, or attention's own result gets lost.",
            block(_start_kept),
        ),
        wrong(
            "post_norm",
            "Mended into the other kind",
            "This is post-LN, the block of the first paper: a working block, but not this one. Here the norms stand "
            "inside the branches, and the sums are left alone.",
            block(_post_norm),
        ),
        *(m for m in (*MISTAKES_BETWEEN, *MISTAKES_INSIDE) if m.id in MADE_ANEW),
        wrong(
            "key_mask_dropped",
            "key_mask is no longer handed on",
            "Both faults are mended, but on the way the key mask got lost: the real words look at the padding now. "
            "Attention takes it, as it did before: attn(norm1(x), key_mask=key_mask).",
            two_steps(attention=lambda s, x, m: x + s.attend(s.norm1(x), None)),
        ),
    ),
)
