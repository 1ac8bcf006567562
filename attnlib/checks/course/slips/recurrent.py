"""A recurrent network by hand: word after word goes into one state of fixed width."""

from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step, spells

States = list[Tensor]


def read(x: Tensor, w: Tensor, update: Callable[[Tensor, Tensor, Tensor], Tensor]) -> States:
    """The states (b, d) after each word of x (b, n, d), from a state of zeros on."""
    states = [x.new_zeros(x.shape[0], x.shape[-1])]
    for word in x.unbind(dim=1):
        states.append(update(states[-1], word, w))
    return states[1:]


def fold_in(state: Tensor, word: Tensor, w: Tensor) -> Tensor:
    """The new state."""
    return torch.tanh(state @ w + word)


class ReadWords(Step):
    """Each word is added to the last state, multiplied by the matrix; tanh of the sum is the new state."""

    makes = ("states",)

    def right(self, x: Tensor, w: Tensor) -> States:
        return read(x, w, fold_in)

    def no_tanh(self, x: Tensor, w: Tensor) -> States:
        """The tanh is missing.

        Without it, the state is a weighted sum of all words so far, and nothing keeps it from growing. tanh goes around
        the whole sum: `torch.tanh(state @ w + word)`.
        """
        return read(x, w, lambda state, word, w: state @ w + word)

    def word_outside_of_tanh(self, x: Tensor, w: Tensor) -> States:
        """The word is added after the tanh.

        tanh goes around the sum of both: `torch.tanh(state @ w + word)`. Yours closes the parenthesis too early.
        """
        return read(x, w, lambda state, word, w: torch.tanh(state @ w) + word)

    def tanh_before_matrix(self, x: Tensor, w: Tensor) -> States:
        """The tanh is taken before the matrix.

        You squash the old state, multiply it and add the word. The order is: multiply, add, then tanh of the sum.
        """
        return read(x, w, lambda state, word, w: torch.tanh(state) @ w + word)

    def matrix_transposed(self, x: Tensor, w: Tensor) -> States:
        """The matrix is transposed.

        The state is a row and multiplies from the left: `state @ w`. `w @ state`, `state @ w.T` and
        F.linear(state, w) weigh the columns of w by the state's numbers; it should be the rows.
        """
        return read(x, w, lambda state, word, w: fold_in(state, word, w.mT))

    def word_multiplied_too(self, x: Tensor, w: Tensor) -> States:
        """The word goes through the matrix, too.

        Only the state is multiplied: `state @ w + word`. Parentheses around state and word change that.
        """
        return read(x, w, lambda state, word, w: torch.tanh((state + word) @ w))

    def word_multiplied_alone(self, x: Tensor, w: Tensor) -> States:
        """The word is multiplied, and the state is not.

        It is the other way round: the matrix says what becomes of the old state, and the word is added as it is.
        """
        return read(x, w, lambda state, word, w: torch.tanh(state + word @ w))

    def matrix_left_out(self, x: Tensor, w: Tensor) -> States:
        """The state is not multiplied.

        The matrix is missing: yours is the tanh of state + word. Then an old word counts like a new one.
        """
        return read(x, w * 0 + torch.eye(w.shape[0], dtype=w.dtype, device=w.device), fold_in)

    def nothing_remembered(self, x: Tensor, w: Tensor) -> States:
        """Every word starts from an empty state.

        The state of one word has to go into the next. Assign it to the name that you use: `state = torch.tanh(...)`.
        """
        return read(x, w, lambda state, word, w: fold_in(torch.zeros_like(state), word, w))

    def first_word_as_it_is(self, x: Tensor, w: Tensor) -> States:
        """The first state is the first word itself.

        The first word meets a state of zeros, and its state is tanh of the word. Begin with zeros, and let the loop
        treat all words alike.
        """
        states = [x[:, 0]]
        for word in x[:, 1:].unbind(dim=1):
            states.append(fold_in(states[-1], word, w))
        return states

    def first_word_left_out(self, x: Tensor, w: Tensor) -> States:
        """The first word is not read.

        Its state is still zero: a loop from 1 on leaves out word 0.
        """
        states = [x.new_zeros(x.shape[0], x.shape[-1])]
        for word in x[:, 1:].unbind(dim=1):
            states.append(fold_in(states[-1], word, w))
        return states

    def begins_with_ones(self, x: Tensor, w: Tensor) -> States:
        """The network does not begin with zeros.

        Before the first word it knows nothing: the first state is all zeros. Yours begins with ones.
        """
        states = [x.new_ones(x.shape[0], x.shape[-1])]
        for word in x.unbind(dim=1):
            states.append(fold_in(states[-1], word, w))
        return states[1:]

    def state_before_the_word(self, x: Tensor, w: Tensor) -> States:
        """The states are those *before* each word.

        Yours begins with the zeros and ends before the last word. Keep each state after its word is folded in.
        """
        return [x.new_zeros(x.shape[0], x.shape[-1]), *read(x, w, fold_in)[:-1]]

    def read_backwards(self, x: Tensor, w: Tensor) -> States:
        """The sentence is read from the end.

        The loop goes through the words from last to first. Begin with word 0.
        """
        return read(x.flip(1), w, fold_in)[::-1]

    def loop_over_sentences(self, x: Tensor, w: Tensor) -> States:
        """The loop runs over the sentences, not over the words.

        `for word in x` takes the first axis, and that is the batch: one sentence is folded into the next. The words are
        on axis 1: `x.unbind(dim=1)`, or `x[:, t]`.
        """
        states = [torch.zeros_like(x[0])]
        for sentence in x:
            states.append(fold_in(states[-1], sentence, w))
        return list(torch.stack(states[1:]).unbind(dim=1))


class CollectStates(Step):
    """All states on an axis of their own, behind the batch."""

    def right(self, states: States) -> Tensor:
        return torch.stack(states, dim=1)

    def last_state_alone(self, states: States) -> Tensor:
        """Only the last state is returned.

        That is all that a translator before attention got to see. Here every state is wanted, (b, n, d): collect them
        in a list and stack them.
        """
        return states[-1]

    def zeros_kept(self, states: States) -> Tensor:
        """There is one state too many.

        The zeros from before the first word are among them. n words have n states.
        """
        return torch.stack([torch.zeros_like(states[0]), *states], dim=1)

    def batch_second(self, states: States) -> Tensor:
        """The words are in front of the batch.

        torch.stack puts the new axis first: (n, b, d). With dim=1 it comes behind the batch, (b, n, d).
        """
        return torch.stack(states)

    def side_by_side(self, states: States) -> Tensor:
        """The states are joined side by side.

        torch.cat joins along an axis that is there: (b, n·d). The words need an axis of their own: torch.stack.
        """
        return torch.cat(states, dim=1)

    @spells(side_by_side)
    def below_one_another(self, states: States) -> Tensor:
        return torch.cat(states, dim=0)
