"""What goes wrong in multi-head cross-attention inside and around the heads, as in lesson 03."""

from einops import rearrange
from torch import Tensor, nn

from attnlib.checks.exercise import Misconception
from attnlib.checks.lesson_04.plain_cross_attention import Plain, after, but
from attnlib.checks.usual import wrong


def _split_by_reshape(self: Plain, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], self.num_heads, x.shape[1], self.d_head)


def _layers_of_d_model(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_model, width, bias)


def _widths_exchanged(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_memory, d_model, width, bias)


def _out_to_d_memory(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_memory, width, bias)
    self.w_o = nn.Linear(width, d_memory, bias=bias)


def _never_a_bias(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_memory, width, False)


def _always_a_bias(self: Plain, d_model: int, d_memory: int, width: int, bias: bool) -> None:
    Plain.make_layers(self, d_model, d_memory, width, True)


def _asserted(self: Plain, d_model: int, num_heads: int, d_head: int | None) -> int:
    assert d_head is not None or d_model % num_heads == 0, "num_heads must divide d_model"
    return d_head or d_model // num_heads


def inside() -> tuple[Misconception, ...]:
    """The scale, the softmax, and the heads' place among the axes."""
    return (
        wrong(
            "no_scale",
            "The scale is missing",
            "The scores go into the softmax without being divided by √d. The rows of your weights are too sharp.",
            but(scale=lambda self, x, memory: 1.0),
        ),
        wrong(
            "scaled_by_root_d_model",
            "Scaled by √d_model instead of √d",
            "A head's scores are sums of d products, because its queries are d wide. The width of x takes no part.",
            but(scale=lambda self, x, memory: x.shape[-1] ** -0.5),
        ),
        wrong(
            "scaled_by_root_d_memory",
            "Scaled by √d_memory instead of √d",
            "A head's scores are sums of d products, because its keys are d wide. The width of the memory takes no "
            "part.",
            but(scale=lambda self, x, memory: memory.shape[-1] ** -0.5),
        ),
        wrong(
            "scaled_by_root_width",
            "Scaled by the width of all heads together",
            "A head's scores are sums of d products. You divided by the root of h·d, the width before it is split.",
            but(scale=lambda self, x, memory: (self.num_heads * self.d_head) ** -0.5),
        ),
        wrong(
            "scaled_by_d",
            "Divided by d instead of √d",
            "The standard deviation of a dot product grows with √d. Dividing by d makes the weights too even.",
            but(scale=lambda self, x, memory: 1 / self.d_head),
        ),
        wrong(
            "over_queries",
            "The softmax runs over the queries",
            "Your columns add up to 1; the rows have to. Each query shares its attention among the keys: dim=-1.",
            but(share=lambda self, scores: scores.softmax(dim=-2)),
        ),
        wrong(
            "over_heads",
            "The softmax runs over the heads",
            "In (b, h, q, k), axis 1 holds the heads, and they do not compete. The keys are the last axis: dim=-1.",
            but(share=lambda self, scores: scores.softmax(dim=1)),
        ),
        wrong(
            "split_by_reshape",
            "The heads are split by reshape alone",
            "`reshape(b, h, n, d)` fills head 0 with the first few positions, cut into pieces. Reshape to (b, n, h, "
            "d), then exchange the two middle axes.",
            but(split=_split_by_reshape),
        ),
        wrong(
            "merged_by_reshape",
            "The heads are merged by reshape alone",
            "`reshape(b, q, h·d)` of a (b, h, q, d) puts one head at several positions where several heads at one "
            "position belong. Exchange the two middle axes first. The weights are right, only the output is not.",
            but(merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        wrong(
            "split_and_merged_by_reshape",
            "reshape where a transpose was needed, both ways",
            "Splitting and merging undo each other, so the shapes look right. But head 0 got the first few positions "
            "in place of its columns of all of them. Exchange the two middle axes, each time.",
            but(split=_split_by_reshape, merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
        ),
        wrong(
            "heads_taking_turns",
            "The heads take turns",
            "Your heads are every h-th column, (d h). With given weights head i is expected in the i-th run of d "
            "neighbouring columns, (h d).",
            but(
                split=lambda self, x: rearrange(x, "b n (d h) -> b h n d", h=self.num_heads),
                merge=lambda self, x: rearrange(x, "b h n d -> b n (d h)"),
            ),
        ),
        wrong(
            "scores_summed",
            "The scores of all heads are added up",
            "Every head looks at the same positions, since all use the sum of all scores. Each head needs a softmax "
            "of its own. (Heads that are never split do the same.)",
            but(share=lambda self, scores: scores.sum(dim=1, keepdim=True).softmax(dim=-1).expand_as(scores)),
        ),
    )


def around() -> tuple[Misconception, ...]:
    """The layers, the arguments of the constructor, and what is returned."""
    return (
        wrong(
            "no_output_projection",
            "The output projection is forgotten",
            "The heads stand side by side and are returned like that. w_o is made but never called.",
            but(finish=lambda self, x: x),
        ),
        wrong(
            "residual_added",
            "x is added to the output",
            "A residual connection belongs to the block around attention (lesson 06), not to attention itself.",
            after(lambda x, output, weights: (output + x, weights)),
        ),
        wrong(
            "weights_mean_returned",
            "The weights are averaged over the heads",
            "The output is right. But you return one (q, k) for each text, as nn.MultiheadAttention does unless it is "
            "told otherwise. The contract keeps the heads: (b, h, q, k).",
            after(lambda x, output, weights: (output, weights.mean(dim=1))),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The weights came first. The contract is (output, weights).",
            after(lambda x, output, weights: (weights, output)),
        ),
        wrong(
            "weights_forgotten",
            "Only the output is returned",
            "The contract is (output, weights): you will want to see who looked where.",
            after(lambda x, output, weights: output),
        ),
        wrong(
            "memory_width_forgotten",
            "w_k and w_v are made for x, not for the memory",
            "They get the memory, whose vectors are d_memory wide: nn.Linear(d_memory, num_heads * d_head).",
            but(make_layers=_layers_of_d_model),
        ),
        wrong(
            "widths_exchanged",
            "d_model and d_memory are exchanged",
            "w_q reads x, which is d_model wide; w_k and w_v read the memory, which is d_memory wide. w_o goes back "
            "to d_model, because the output stands at the positions of x.",
            but(make_layers=_widths_exchanged),
        ),
        wrong(
            "out_to_d_memory",
            "The output is as wide as the memory",
            "The output stands at the positions of x and goes on where x was: w_o leads to d_model, not to d_memory.",
            but(make_layers=_out_to_d_memory),
        ),
        wrong(
            "never_a_bias",
            "The layers have no bias",
            "`bias` is True unless the caller says otherwise, and it goes to all four layers.",
            but(make_layers=_never_a_bias),
        ),
        wrong(
            "always_a_bias",
            "`bias` is not passed on",
            "With bias=False none of the four layers has one: hand it to nn.Linear.",
            but(make_layers=_always_a_bias),
        ),
        wrong(
            "d_head_ignored",
            "`d_head` is not used",
            "When d_head is given, the heads are that wide, whatever d_model is: w_q, w_k and w_v lead to num_heads * "
            "d_head columns.",
            but(
                width_of_a_head=lambda self, d_model, num_heads, d_head: Plain.width_of_a_head(
                    self, d_model, num_heads, None
                )
            ),
        ),
        wrong(
            "no_error",
            "A width that does not divide is accepted",
            "`d_model // num_heads` rounds down without a word. Where d_head is not given and num_heads does not "
            "divide d_model, raise a ValueError that says both numbers.",
            but(width_of_a_head=lambda self, d_model, num_heads, d_head: d_head or d_model // num_heads),
        ),
        wrong(
            "assertion",
            "An assertion instead of a ValueError",
            "`assert` is for what cannot happen, and Python drops it when it runs with -O. What a caller did wrong is "
            "a ValueError: `raise ValueError(...)`.",
            but(width_of_a_head=_asserted),
        ),
    )
