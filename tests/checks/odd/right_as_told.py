"""Right answers that come near to what `wrong_by_what_was_told` and `wrong_by_words_and_widths` get wrong."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from odd.collected import RIGHT
from odd.right_modules import Block
from odd.wrong_by_what_was_told import PostNorm, decoded, guessed, packed
from odd.wrong_by_words_and_widths import searching

answers, also = RIGHT.answers, RIGHT.also


also("search", searching(lengths=lambda product: product + 1e-8), searching(split=lambda line: line.casefold().split()))


@answers("search")
def logarithms_subtracted_and_zeros_of_python(questions, texts):
    bags = [text.lower().split() for text in texts]
    words = list(dict.fromkeys(word for bag in bags for word in bag))
    rare = [math.log(len(bags)) - math.log(sum(word in bag for bag in bags)) for word in words]

    def vector(line):
        return [r * line.lower().split().count(word) for r, word in zip(rare, words, strict=True)]

    def cosine(x, y):
        length = math.hypot(*x) * math.hypot(*y)
        return sum(a * b for a, b in zip(x, y, strict=True)) / length if length else 0

    return torch.tensor([[cosine(vector(q), vector(t)) for t in texts] for q in questions])


@answers("QKVProjection")
class LayersInATuple(nn.Module):
    """A tuple is no place where a module looks for layers: each has one name."""

    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_q, self.w_k = nn.Linear(d_model, d_k, bias), nn.Linear(d_model, d_k, bias)
        self.w_v = nn.Linear(d_model, d_v, bias)
        self.layers = (self.w_q, self.w_k, self.w_v)

    def forward(self, x):
        return tuple(layer(x) for layer in self.layers)


@answers("EncoderBlock")
class OneDropoutUnderTwoNames(Block):
    """A layer without weights may have as many names as it likes."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.drop1 = self.drop2 = nn.Dropout(self.p)

    def perceptron(self, x):
        return self.drop2(self.mlp.down(self.drop1(F.gelu(self.mlp.up(x)))))


@answers("PostNormBlock")
class PostNormMaskOfThisCall(PostNorm):
    """A mask that is kept, and written anew in each call."""

    def seen(self, key_mask):
        self.kept = None if key_mask is None else key_mask.clone()
        return self.kept


@answers("mend_decoder_attention")
def padded_questions_closed_too(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    """Theirs is left open."""
    return decoded(x, memory, memory_is_real[:, None] & x_is_real[..., None], w_q, w_k, w_v)


@answers("packed_causal")
def padding_renumbered_in_a_copy(ids):
    renumbered = ids.masked_fill(ids == -1, 99)
    return packed(ids, ids != -1, renumbered)


@answers("train_writer")
def gradients_cleared_at_the_end(model, excerpts, rates, make=torch.optim.SGD):
    optimiser, losses = make(model.train().parameters(), lr=rates[0].item()), []
    for excerpt, rate in zip(excerpts, rates.tolist(), strict=True):
        optimiser.param_groups[0]["lr"] = rate
        losses.append(guessed(model, excerpt))
        losses[-1].backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return torch.stack(losses).detach()
