"""What goes wrong in multi-head cross-attention when one text is taken for the other."""

from functools import partialmethod

import torch
from torch import Tensor

from attnlib.checks.course.lesson_03.heads import Heads, but
from attnlib.checks.course.lesson_04.mistakes import CrossHeads
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Misconception


def _split_by_length_of_x(
    self: Heads, x: Tensor, memory: Tensor, allowed: None = None, *, width_named: bool = False
) -> tuple[Tensor, Tensor]:
    b, n, _ = x.shape
    width = self.d_head if width_named else -1
    q, k, v = (p.view(b, n, self.num_heads, width).transpose(1, 2) for p in self.project(x, memory))
    weights = (q @ k.mT * self.d_head**-0.5).softmax(dim=-1)
    return self.w_o((weights @ v).transpose(1, 2).reshape(b, n, -1)), weights


def _project_both_texts(self: Heads, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    everything = torch.cat([memory, x], dim=1)
    return self.w_q(x), self.w_k(everything), self.w_v(everything)


def whose_is_whose() -> tuple[Misconception, ...]:
    """What only a second sequence makes possible."""
    return (
        wrong(
            "keys_and_values_from_x",
            "This is self-attention: the memory is never read",
            "Queries, keys and values all come from x, and nothing of the memory reaches the output. The keys and the "
            "values belong to the text that answers: self.w_k(memory), self.w_v(memory).",
            but(CrossHeads, project=lambda self, x, memory: (self.w_q(x), self.w_k(x), self.w_v(x))),
        ),
        wrong(
            "all_from_memory",
            "The memory asks itself",
            "Your queries come from the memory, too. Then there is an output row for each position of the memory, and "
            "x has no say. Who asks is x: self.w_q(x).",
            but(CrossHeads, project=lambda self, x, memory: (self.w_q(memory), self.w_k(memory), self.w_v(memory))),
        ),
        wrong(
            "roles_exchanged",
            "The memory asks, and x answers",
            "Your queries come from the memory, your keys and values from x. The output gets as many rows as the one "
            "who *asks* has positions, and that is x.",
            but(CrossHeads, project=lambda self, x, memory: (self.w_q(memory), self.w_k(x), self.w_v(x))),
        ),
        wrong(
            "keys_from_x",
            "The keys come from x, the values from the memory",
            "The weights say who fits among the positions of x, and are then used on those of the memory. A key and "
            "its value describe the same position: both come from the memory.",
            but(CrossHeads, project=lambda self, x, memory: (self.w_q(x), self.w_k(x), self.w_v(memory))),
        ),
        wrong(
            "values_from_x",
            "The values come from x, the keys from the memory",
            "Your weights are right: they say where in the memory to look. But what is brought back comes from x. "
            "Both keys and values come from the memory.",
            but(CrossHeads, project=lambda self, x, memory: (self.w_q(x), self.w_k(memory), self.w_v(x))),
        ),
        wrong(
            "both_texts_answer",
            "x answers as well",
            "Your keys and values come from memory and x, joined. Here x only asks: the weights are (b, h, q, k), and "
            "k counts the positions of the memory alone.",
            but(CrossHeads, project=_project_both_texts),
        ),
        wrong(
            "one_memory_for_all",
            "Every text of the batch asks the first memory",
            "With a batch of one nobody notices. Each x has a memory of its own: keep the batch axis.",
            but(CrossHeads, project=lambda self, x, memory: (self.w_q(x), self.w_k(memory[:1]), self.w_v(memory[:1]))),
        ),
        wrong(
            "last_memory_for_all",
            "Every text of the batch asks the last memory",
            "An index that is left over from a loop, or memory[-1]. Each x has a memory of its own: keep the batch "
            "axis.",
            but(
                CrossHeads, project=lambda self, x, memory: (self.w_q(x), self.w_k(memory[-1:]), self.w_v(memory[-1:]))
            ),
        ),
        wrong(
            "memory_cut",
            "The memory is cut to the length of x",
            "memory[:, :n] drops the positions of the memory beyond the length of x. The two texts need not be of one "
            "length, and every query sees the whole memory.",
            but(CrossHeads, project=lambda self, x, memory: CrossHeads.project(self, x, memory[:, : x.shape[1]])),
        ),
        wrong(
            "split_by_length_of_x",
            "The memory is cut with the length of x",
            "You take n from x.shape and use it for the keys and values as well. The memory has a length of its own: "
            "use memory.shape[1], or -1, or einops, for k and v.",
            but(CrossHeads, attend=_split_by_length_of_x),
        ),
        wrong(
            "split_by_length_of_x_and_width",
            "The memory is cut with the length of x",
            "You take n from x.shape and use it for the keys and values as well. The memory has a length of its own: "
            "use memory.shape[1], or -1, or einops, for k and v.",
            but(CrossHeads, attend=partialmethod(_split_by_length_of_x, width_named=True)),
            same_as="split_by_length_of_x",
        ),
    )
