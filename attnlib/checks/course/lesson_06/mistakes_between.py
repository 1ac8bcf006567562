"""Wrong blocks, first kind: the sub-layers are right, what goes on between them is not."""

from typing import Any

from torch import Tensor

from attnlib.checks.course.lesson_06.plain_block import PlainBlock, block, two_steps
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception


def _norm_first_then_residual(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = s.norm1(x)
    x = x + s.attend(x, m)
    x = s.norm2(x)
    return x + s.mlp(x)


def _post_norm(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = s.norm1(x + s.attend(x, m))
    return s.norm2(x + s.mlp(x))


def _perceptron_first(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = x + s.mlp(s.norm1(x))
    return x + s.attend(s.norm2(x), m)


def _norms_stay(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    x = x + s.mlp(s.norm2(x))
    return x + s.attend(s.norm1(x), m)


def _overwritten(s: Any, x: Tensor) -> Tensor:
    x += s.mlp(s.norm2(x))
    return x


def _residual_of_the_start(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    return x + s.mlp(s.norm2(x + s.attend(s.norm1(x), m)))


def _old_norm_reused(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    seen = s.norm1(x)
    return x + s.attend(seen, m) + s.mlp(seen)


def _old_norm_normed_again(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    seen = s.norm1(x)
    return x + s.attend(seen, m) + s.mlp(s.norm2(seen))


def _branch_alone(s: Any, x: Tensor, m: Tensor | None) -> Tensor:
    attended = s.attend(s.norm1(x), m)
    return x + attended + s.mlp(s.norm2(attended))


MISTAKES_BETWEEN: tuple[Misconception, ...] = (
    wrong(
        "post_norm",
        "post-LN: the norms come after the sums",
        "norm1(x + attn(x)) is the block of the first paper. This one is pre-LN: the norm stands before the sub-layer, "
        "inside the branch, and the sum is left alone: x + attn(norm1(x)).",
        block(_post_norm),
    ),
    wrong(
        "residual_from_the_norm",
        "The residual is taken after the norm",
        "x = norm1(x) overwrites the stream, and what is added is the normalised vector. Only the sub-layer sees the "
        "norm: x = x + attn(norm1(x)).",
        block(_norm_first_then_residual),
    ),
    wrong(
        "first_residual_from_the_norm",
        "The first residual is taken after the norm",
        "Around attention, norm1(x) is added where x should be. Only the sub-layer sees the norm: x + attn(norm1(x)).",
        two_steps(attention=lambda s, x, m: s.norm1(x) + s.attend(s.norm1(x), m)),
    ),
    wrong(
        "second_residual_from_the_norm",
        "The second residual is taken after the norm",
        "Around the perceptron, norm2(x) is added where x should be. Only the sub-layer sees the norm: "
        "x + mlp(norm2(x)).",
        two_steps(perceptron=lambda s, x: s.norm2(x) + s.mlp(s.norm2(x))),
    ),
    wrong(
        "first_residual_forgotten",
        "The residual around attention is missing",
        "The words are replaced by averages of other words. Add: x = x + attn(norm1(x)).",
        two_steps(attention=lambda s, x, m: s.attend(s.norm1(x), m)),
    ),
    wrong(
        "second_residual_forgotten",
        "The residual around the perceptron is missing",
        "What attention brought is thrown away but for what the perceptron makes of it. Add: x = x + mlp(norm2(x)).",
        two_steps(perceptron=lambda s, x: s.mlp(s.norm2(x))),
    ),
    wrong(
        "no_residuals",
        "Both residuals are missing",
        "Each sub-layer replaces its input. It should be added to it: x = x + attn(norm1(x)), then "
        "x = x + mlp(norm2(x)).",
        block(lambda s, x, m: s.mlp(s.norm2(s.attend(s.norm1(x), m)))),
    ),
    wrong(
        "residual_of_the_start",
        "The second residual starts from the block's input",
        "The perceptron's result is added to the x that came in, and attention's own result is lost from the sum. "
        "Overwrite x after the first step, or give the sum a name.",
        block(_residual_of_the_start),
    ),
    wrong(
        "side_by_side",
        "Attention and perceptron side by side",
        "x + attn(norm1(x)) + mlp(norm2(x)) feeds both from the same x. Some models do that on purpose. Here the "
        "perceptron works on what attention has brought: one after the other.",
        block(lambda s, x, m: x + s.attend(s.norm1(x), m) + s.mlp(s.norm2(x))),
    ),
    wrong(
        "one_norm_twice",
        "norm1 is used twice",
        "norm2 is made and never called. Each sub-layer has a norm with weights of its own.",
        two_steps(perceptron=lambda s, x: x + s.mlp(s.norm1(x))),
    ),
    wrong(
        "norm2_twice",
        "norm2 is used twice",
        "norm1 is made and never called. Each sub-layer has a norm with weights of its own.",
        two_steps(attention=lambda s, x, m: x + s.attend(s.norm2(x), m)),
    ),
    wrong(
        "old_norm_reused",
        "The perceptron gets what attention got",
        "norm1(x), computed once, is handed to both sub-layers. The perceptron works on what attention has brought: "
        "mlp(norm2(x)), with the new x.",
        block(_old_norm_reused),
    ),
    wrong(
        "old_norm_normed_again",
        "The perceptron gets what attention got, normalised once more",
        "norm2 is given norm1(x), the vectors from before attention. The perceptron works on what attention has "
        "brought: mlp(norm2(x)), with the new x.",
        block(_old_norm_normed_again),
    ),
    wrong(
        "no_perceptron",
        "The perceptron is not called",
        "The block has a second step: x = x + mlp(norm2(x)).",
        two_steps(perceptron=lambda s, x: x),
    ),
    wrong(
        "no_attention",
        "Attention is not called",
        "The block has a first step: x = x + attn(norm1(x)).",
        two_steps(attention=lambda s, x, m: x),
    ),
    wrong(
        "norms_exchanged",
        "norm1 and norm2 are exchanged",
        "norm1 belongs before attention, norm2 before the perceptron.",
        two_steps(lambda s, x, m: x + s.attend(s.norm2(x), m), lambda s, x: x + s.mlp(s.norm1(x))),
    ),
    wrong(
        "first_norm_forgotten",
        "norm1 is not used",
        "Attention sees x as it comes. Pre-LN: attn(norm1(x)).",
        two_steps(attention=lambda s, x, m: x + s.attend(x, m)),
    ),
    wrong(
        "second_norm_forgotten",
        "norm2 is not used",
        "The perceptron sees x as it comes. Pre-LN: mlp(norm2(x)).",
        two_steps(perceptron=lambda s, x: x + s.mlp(x)),
    ),
    wrong(
        "no_norms",
        "The norms are not used",
        "Both sub-layers see x as it comes. Pre-LN: attn(norm1(x)) and mlp(norm2(x)).",
        two_steps(lambda s, x, m: x + s.attend(x, m), lambda s, x: x + s.mlp(x)),
    ),
    wrong(
        "norm_after_the_sublayer",
        "The norm comes after the sub-layer",
        "x + norm1(attn(x)) normalises what attention gives, not what it gets. Pre-LN: x + attn(norm1(x)).",
        two_steps(lambda s, x, m: x + s.norm1(s.attend(x, m)), lambda s, x: x + s.norm2(s.mlp(x))),
    ),
    wrong(
        "norm_at_the_end",
        "The result is normalised once more",
        "A pre-LN block leaves its sum as it is. The one norm at the end of a stack belongs to the stack, not to the "
        "block.",
        block(lambda s, x, m: s.norm2(PlainBlock.forward(s, x, m))),
    ),
    wrong(
        "stream_overwritten",
        "The stream is changed in place",
        "The numbers are right. But the gradient of norm2 needs the x that it was given, and `x += …` has written over "
        "it. Make a new tensor: x = x + mlp(norm2(x)).",
        two_steps(perceptron=_overwritten),
    ),
    wrong(
        "attention_last",
        "Attention comes after the perceptron",
        "Each has its own norm, but the order is the other way round: first the words exchange (attn), then each "
        "thinks about what it got (mlp).",
        block(_norms_stay),
    ),
    wrong(
        "perceptron_first",
        "The perceptron comes before attention",
        "First the words exchange (attn, with norm1), then each thinks about what it got (mlp, with norm2).",
        block(_perceptron_first),
    ),
    wrong(
        "first_norm_after",
        "norm1 comes after attention",
        "x + norm1(attn(x)) normalises what attention gives, not what it gets. Pre-LN: x + attn(norm1(x)).",
        two_steps(attention=lambda s, x, m: x + s.norm1(s.attend(x, m))),
    ),
    wrong(
        "second_norm_after",
        "norm2 comes after the perceptron",
        "x + norm2(mlp(x)) normalises what the perceptron gives, not what it gets. Pre-LN: x + mlp(norm2(x)).",
        two_steps(perceptron=lambda s, x: x + s.norm2(s.mlp(x))),
    ),
    wrong(
        "first_half_post_norm",
        "post-LN around attention",
        "norm1(x + attn(x)) normalises the sum, as the first paper did. Here the norm stands in the branch, and the "
        "sum is left alone: x + attn(norm1(x)).",
        two_steps(attention=lambda s, x, m: s.norm1(x + s.attend(x, m))),
    ),
    wrong(
        "second_half_post_norm",
        "post-LN around the perceptron",
        "norm2(x + mlp(x)) normalises the sum, as the first paper did. Here the norm stands inside the branch, and the "
        "sum is left alone: x + mlp(norm2(x)).",
        two_steps(perceptron=lambda s, x: s.norm2(x + s.mlp(x))),
    ),
    wrong(
        "memory_not_normed",
        "Only the queries are normalised",
        "The words that are asked are x as it comes. In self-attention queries, keys and values come from the same "
        "vectors: attn(norm1(x)), with no second input.",
        two_steps(attention=lambda s, x, m: x + s.attn(s.norm1(x), x, key_mask=m)),
    ),
    wrong(
        "queries_not_normed",
        "Only keys and values are normalised",
        "The words that ask are x as it comes. In self-attention queries, keys and values come from the same vectors: "
        "attn(norm1(x)), with no second input.",
        two_steps(attention=lambda s, x, m: x + s.attn(x, s.norm1(x), key_mask=m)),
    ),
    wrong(
        "branch_alone_to_the_perceptron",
        "The perceptron works on what attention gives, without the residual",
        "mlp(norm2(…)) gets attention's result alone. It works on the stream, to which that result has been added: "
        "x = x + attn(norm1(x)), then x = x + mlp(norm2(x)).",
        block(_branch_alone),
    ),
    wrong(
        "attention_added_twice",
        "What attention gives is added twice",
        "x + attn(norm1(x)) is added to once more. One sum for each sub-layer.",
        two_steps(attention=lambda s, x, m: x + 2 * s.attend(s.norm1(x), m)),
    ),
    wrong(
        "perceptron_added_twice",
        "What the perceptron gives is added twice",
        "x + mlp(norm2(x)) is added to once more. One sum for each sub-layer.",
        two_steps(perceptron=lambda s, x: x + 2 * s.mlp(s.norm2(x))),
    ),
    wrong(
        "first_residual_twice",
        "The first residual is added twice",
        "The sum around attention holds x two times. Once is right: x + attn(norm1(x)).",
        two_steps(attention=lambda s, x, m: 2 * x + s.attend(s.norm1(x), m)),
    ),
    wrong(
        "second_residual_twice",
        "The second residual is added twice",
        "The sum around the perceptron holds x two times. Once is right: x + mlp(norm2(x)).",
        two_steps(perceptron=lambda s, x: 2 * x + s.mlp(s.norm2(x))),
    ),
)
