"""Lesson 05: which characters of a text can change which guesses, found by changing one after the other."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.course.steps import Step, contradicted_by, spells

Change = Callable[[Tensor, int], Tensor]
Logits = tuple[Tensor, list[Tensor]]


def replaced(ids: Tensor, j: int, by: int | Tensor) -> Tensor:
    """The text with another character at place j."""
    return torch.cat([ids[:j], torch.as_tensor(by, device=ids.device).reshape(1), ids[j + 1 :]])


class ChangeOne(Step):
    """The text with one character exchanged."""

    makes = ("change",)

    def right(self, vocab: int) -> Change:
        return lambda ids, j: replaced(ids, j, (ids[j] + 1) % vocab)

    def always_by_zero(self) -> Change:
        """Character number 0 is never exchanged.

        Where the text has it, yours puts it there again, so the text is the same, and nothing seems to depend on it.
        Always put another character in its place: (ids[j] + 1) % vocab.
        """
        return lambda ids, j: replaced(ids, j, 0)

    def always_by_the_last(self, vocab: int) -> Change:
        """The last character of the vocabulary is never exchanged.

        Where the text has it, yours puts it there again, so the text is the same, and nothing seems to depend on it.
        Always put another character in its place; after the last one comes number 0: (ids[j] + 1) % vocab.
        """
        return lambda ids, j: replaced(ids, j, vocab - 1)

    def changes_pile_up(self, vocab: int) -> Change:
        """Earlier changes are still there.

        Each change starts from the text as it was: `changed = ids.clone()` inside the loop. Yours has exchanged all
        characters up to j, so a guess seems to depend on later characters, too.
        """
        return lambda ids, j: torch.cat([(ids[: j + 1] + 1) % vocab, ids[j + 1 :]])

    def beyond_the_vocabulary(self) -> Change:
        """The last character of the vocabulary has no successor.

        Where the text has character vocab - 1, `ids[j] + 1` is vocab, and the model's table has no such row. Begin
        again at 0: (ids[j] + 1) % vocab.
        """
        return lambda ids, j: replaced(ids, j, ids[j] + 1)

    def all_from_j_exchanged(self, vocab: int) -> Change:
        """All characters from j on are exchanged.

        `changed[j:]` is the rest of the text. Column j says what character j can do by itself: `changed[j]`. Yours
        seems to matter to every later guess, also to those that no longer see it.
        """
        return lambda ids, j: torch.cat([ids[:j], (ids[j:] + 1) % vocab])

    @contradicted_by(r"(\w+) = .*clone\(\)[\s\S]*\n *\1\[.+\] = [\s\S]*model\(\s*\1\b")
    def nothing_exchanged(self) -> Change:
        """Nothing is exchanged.

        The text that you compare with is the same. Does `changed` get another character at j, and is it what you give
        to the model?
        """
        return lambda ids, j: ids

    def neighbour_exchanged(self, vocab: int) -> Change:
        """The character before j is exchanged.

        Column j says what character j can change. Yours shows that of its neighbour on the left.
        """
        return lambda ids, j: replaced(ids, j - 1 if j else len(ids) - 1, (ids[j - 1] + 1) % vocab)


class CallBoth(Step):
    """The logits of the text as it is, and of each changed text."""

    makes = ("logits",)

    def right(self, model: nn.Module, ids: Tensor, change: Change) -> Logits:
        with torch.no_grad():
            return model(ids[None])[0], [model(change(ids, j)[None])[0] for j in range(len(ids))]

    def compared_with_the_change_before(self, model: nn.Module, ids: Tensor, change: Change) -> Any:
        """Each changed text is compared with the one changed before.

        Two characters differ between those. Compare with the text as it was: keep its logits, and do not overwrite
        them in the loop.
        """
        before, after = self.right(model, ids, change)
        return torch.stack([before, *after[:-1]]), after


LEAST = 1e-5
"""What counts as a change."""


class Mark(Step):
    """True where a guess has changed: rows are guesses, columns the characters that were exchanged."""

    def right(self, logits: Logits) -> Tensor:
        before, after = logits
        rows = before if before.dim() == 3 else [before] * len(after)
        return torch.stack(
            [(new - old).abs().amax(dim=-1) > LEAST for new, old in zip(after, rows, strict=True)], dim=1
        )

    def rows_and_columns_exchanged(self, logits: Logits) -> Tensor:
        """Rows and columns are exchanged.

        A row is a guess, a column the character that was exchanged: exchanging character j fills column j, [:, j].
        """
        return self.right(logits).T

    def best_guess_compared(self, logits: Logits) -> Tensor:
        """Only the best guesses are compared.

        A leak may change all probabilities and leave the likeliest character the likeliest. Compare the logits.
        """
        before, after = logits
        return torch.stack([new.argmax(dim=-1) != before.argmax(dim=-1) for new in after], dim=1)

    def all_logits_must_change(self, logits: Logits) -> Tensor:
        """A guess only counts as changed where all of its logits have changed.

        One is enough: `any(dim=-1)`, or the *largest* difference, `amax(dim=-1)`.
        """
        before, after = logits
        return torch.stack([(new - before).abs().amin(dim=-1) > LEAST for new in after], dim=1)

    def rises_alone(self, logits: Logits) -> Tensor:
        """Only logits that rise count as changed.

        A logit that falls has changed as well: take the absolute value of the difference, `.abs()`.
        """
        before, after = logits
        return torch.stack([(new - before).amax(dim=-1) > LEAST for new in after], dim=1)

    def mean_difference(self, logits: Logits) -> Tensor:
        """The differences are added up with their signs.

        Some logits rise and others fall, so their sum, or their mean, may be near zero or below it. Take the largest of
        the absolute values.
        """
        before, after = logits
        return torch.stack([(new - before).mean(dim=-1) > LEAST for new in after], dim=1)

    def unchanged_marked(self, logits: Logits) -> Tensor:
        """The table is upside down.

        True means that the guess *has* changed. Yours marks those that have not.
        """
        return ~self.right(logits)

    def own_character_left_out(self, logits: Logits) -> Tensor:
        """The diagonal is left out.

        A guess has read its own character, and changes with it. Leave nothing out: exchange every character, and look
        at every guess.
        """
        found = self.right(logits)
        return found & ~torch.eye(len(found), dtype=torch.bool, device=found.device)

    def past_alone(self, logits: Logits) -> Tensor:
        """Only the past is looked at.

        Yours never marks anything above the diagonal, and that is where a leak shows. Look at all guesses, also at
        those before the character that you exchange.
        """
        return self.right(logits).tril()

    def future_alone(self, logits: Logits) -> Tensor:
        """Only the future is looked at.

        A table of all pairs is wanted: what lies below the diagonal belongs to it, too.
        """
        return self.right(logits).triu(1)

    def last_guess_alone(self, logits: Logits) -> Tensor:
        """Only the last guess is looked at.

        The last position has no future that could leak. There is a row for each guess, (n, n).
        """
        return self.right(logits)[-1]

    @spells(last_guess_alone)
    def last_row_alone(self, logits: Logits) -> Tensor:
        found = self.right(logits)
        return torch.cat([torch.zeros_like(found[:-1]), found[-1:]])

    def sizes_returned(self, logits: Logits) -> Tensor:
        """It is a table of sizes, not of True and False.

        How much a guess changes depends on the weights. Whether it *can* change is what a mask decides: compare the
        largest difference with 10⁻⁵.
        """
        before, after = logits
        return torch.stack([(new - before).abs().amax(dim=-1) for new in after], dim=1)
