"""A table of vectors made by counting: which words stand near which, and how much more often than by chance."""

from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step, along_with, each, spells

Weight = Callable[[int], float]


def pairs_at(texts: Tensor, vocabulary: int, distance: int) -> Tensor:
    """How often word j stands `distance` places behind word i, (vocabulary, vocabulary)."""
    first, second = texts[:, : texts.shape[1] - distance], texts[:, distance:]
    places = (first * vocabulary + second).flatten()
    return torch.bincount(places, minlength=vocabulary**2).reshape(vocabulary, vocabulary).float()


def counted(texts: Tensor, vocabulary: int, distances: range, weight: Weight = lambda _: 1.0) -> Tensor:
    """Pairs at these distances, in both directions."""
    counts = torch.zeros(vocabulary, vocabulary, device=texts.device)
    for distance in distances:
        found = weight(distance) * pairs_at(texts, vocabulary, distance)
        counts = counts + found + found.T
    return counts


def up_to(window: int, texts: Tensor) -> range:
    """Distances within the window, as far as the texts reach."""
    return range(1, min(window, texts.shape[1] - 1) + 1)


class CountNeighbours(Step):
    """How often two words stand at most `window` places apart in the same text."""

    makes = ("counts",)

    def right(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        return counted(texts, vocabulary, up_to(window, texts))

    def own_place_counted(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """Each word is its own neighbour.

        The window around place i has i in the middle. Leave that place out: `if i != j`. (The same word at another
        place is a neighbour like any other.)
        """
        return self.right(texts, vocabulary, window) + pairs_at(texts, vocabulary, 0)

    def same_word_left_out(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """A word that stands near itself is not counted.

        The *place* i is left out, not the word at i. If the text has the word twice within the window, that is a pair:
        compare places, `i != j`, and not words.
        """
        counts = self.right(texts, vocabulary, window)
        return counts - counts.diagonal().diag()

    def following_words_alone(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """Only one side is counted.

        A neighbour may stand before the word or behind it, so the table of counts is symmetric. Let j run from
        max(0, i − window) to i + window.
        """
        return sum(
            (pairs_at(texts, vocabulary, k) for k in up_to(window, texts)),
            texts.new_zeros(vocabulary, vocabulary).float(),
        )

    @spells(following_words_alone)
    def preceding_words_alone(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        return self.following_words_alone(texts, vocabulary, window).mT

    def across_texts(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """Words of different texts are neighbours.

        The last word of one text and the first of the next have nothing to do with each other. Count each text by
        itself, and do not put them into one long row.
        """
        return self.right(texts.reshape(1, -1), vocabulary, window)

    def whole_text(self, texts: Tensor, vocabulary: int) -> Tensor:
        """The window is not used.

        All words of a text count as neighbours. Only those at most `window` places away do.
        """
        return self.right(texts, vocabulary, texts.shape[1])

    @each(more=(-1, 1))
    def window_off_by_one(self, texts: Tensor, vocabulary: int, window: int, more: int) -> Tensor:
        """The window is one place too narrow, or too wide.

        The word `window` places away is the last that counts, on either side. A Python range ends before its second
        number: range(i − window, i + window + 1).
        """
        return self.right(texts, vocabulary, window + more)

    def right_end_off_by_one(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """On the right, the window is one place too narrow.

        A Python range, and a slice, ends before its second number: it has to be i + window + 1.
        """
        counts = self.right(texts, vocabulary, window)
        return counts - (pairs_at(texts, vocabulary, window) if window < texts.shape[1] else 0)

    def begins_before_the_text(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """The window begins before the text does.

        For the first words i − window is negative, and Python counts a negative place from the end: `text[-1]` is the
        last word, and a slice that begins there is empty, or another one. Begin at max(0, i − window).
        """

        def near(text: list[int], i: int) -> list[int]:
            return [text[j] for j in range(i - window, min(len(text), i + window + 1)) if j != i]

        return self._around(texts, vocabulary, near)

    @spells(begins_before_the_text)
    def slices_before(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        return self._around(texts, vocabulary, lambda text, i: text[i - window : i] + text[i + 1 : i + window + 1])

    @spells(begins_before_the_text)
    def slices_around(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        def near(text: list[int], i: int) -> list[int]:
            return [text[j] for j in range(len(text))[i - window : i + window + 1] if j != i]

        return self._around(texts, vocabulary, near)

    def _around(self, texts: Tensor, vocabulary: int, near: Callable[[list[int], int], list[int]]) -> Tensor:
        counts = torch.zeros(vocabulary, vocabulary, device=texts.device)
        for text in texts.tolist():
            for i, word in enumerate(text):
                for neighbour in near(text, i):
                    counts[word, neighbour] += 1
        return counts

    def border_alone(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """Only words exactly `window` places apart are counted.

        Those between them count, too: all distances from 1 to `window`.
        """
        return counted(texts, vocabulary, range(window, min(window, texts.shape[1] - 1) + 1))

    def near_or_not(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """Each pair of words is counted once.

        The table says *how often* two words were near each other, and not only whether. Add 1 each time. (An indexed
        `counts[i, j] += 1` with tensors adds only once, where a pair comes up several times.)
        """
        return self.right(texts, vocabulary, window).clamp(max=1)

    @spells(near_or_not)
    def once_at_each_distance(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        once = (pairs_at(texts, vocabulary, distance).clamp(max=1) for distance in up_to(window, texts))
        return sum((found + found.T for found in once), texts.new_zeros(vocabulary, vocabulary).float())

    def nearer_counts_more(self, texts: Tensor, vocabulary: int, window: int) -> Tensor:
        """Near words count more than those farther away.

        word2vec does something like it. Here each pair within the window counts 1.
        """
        return counted(texts, vocabulary, up_to(window, texts), lambda distance: 1 / distance)


class ByChance(Step):
    """How often the two would meet if words stood in any order: (counts of i) · (counts of j) / (all counts)."""

    makes = ("by_chance",)

    def right(self, counts: Tensor) -> Tensor:
        often = counts.sum(dim=1)
        return often[:, None] * often / counts.sum()

    def _of_rows_and_columns(self, counts: Tensor) -> Tensor:
        """The same, as long as the counts are symmetric."""
        return counts.sum(dim=1, keepdim=True) * counts.sum(dim=0, keepdim=True) / counts.sum()

    @spells(CountNeighbours.following_words_alone)
    @along_with("following_words_alone")
    def following_by_rows_and_columns(self, counts: Tensor) -> Tensor:
        return self._of_rows_and_columns(counts)

    @spells(CountNeighbours.following_words_alone)
    @along_with("preceding_words_alone")
    def preceding_by_rows_and_columns(self, counts: Tensor) -> Tensor:
        return self._of_rows_and_columns(counts)

    @spells(CountNeighbours.right_end_off_by_one)
    @along_with("right_end_off_by_one")
    def right_end_by_rows_and_columns(self, counts: Tensor) -> Tensor:
        return self._of_rows_and_columns(counts)

    def all_words_alike(self, counts: Tensor) -> Tensor:
        """All words are taken to be equally frequent.

        Then *the* is everybody's best friend, because it is everywhere. By chance, a pair comes up in proportion to the
        counts of *both* of its words.
        """
        return torch.ones_like(counts) * counts.mean()

    def not_divided_by_all(self, counts: Tensor) -> Tensor:
        """The division by all counts is missing.

        often_i · often_j is far larger than any count. Divided by the sum of all counts, it says how many meetings
        chance alone would give.
        """
        return self.right(counts) * counts.sum()

    def words_counted(self, counts: Tensor, texts: Tensor, vocabulary: int) -> Tensor:
        """The words are counted, not their pairs.

        A word at the end of a text has fewer neighbours than one in the middle. How often a word comes up in a *pair*
        is the sum of its row.
        """
        often = torch.bincount(texts.flatten(), minlength=vocabulary).to(counts)
        return often[:, None] * often / often.sum()


class MeetMore(Step):
    """The logarithm of met / by chance, where it is positive."""

    def right(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        return torch.where(counts > 0, (counts / by_chance).log(), 0).clamp(min=0)

    def negative_kept(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """Negative numbers are kept.

        Two words that met less often than by chance tell little, in so few texts. Replace negative numbers by 0:
        `.clamp(min=0)`.
        """
        return torch.where(counts > 0, (counts / by_chance).log(), 0)

    def no_logarithm(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """The logarithm is missing.

        A ratio of 1 means chance, and its logarithm is 0. Without it, a pair that is met as often as by chance has 1 in
        the table.
        """
        return torch.where(counts > 0, counts / by_chance, 0)

    def binary_logarithm(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """The logarithm has base 2.

        That is the table in bits, and it would do as well. Here it is the natural one, `torch.log`.
        """
        return torch.where(counts > 0, (counts / by_chance).log2(), 0).clamp(min=0)

    def one_added(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """1 is added before the logarithm.

        That keeps the logarithm from −∞, and changes all the other numbers as well. Take the logarithm only of pairs
        that were met, and leave 0 for the others.
        """
        return torch.where(counts > 0, (counts / by_chance).log1p(), 0)

    def difference_for_ratio(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """The two are subtracted, not divided.

        Five meetings more are a lot for a rare word, and nothing for *the*. Divide: how many *times* as often as by
        chance?
        """
        return torch.where(counts > 0, counts - by_chance, 0).clamp(min=0)

    def upside_down(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """The ratio is upside down.

        It is met / by chance. Yours is large where two words avoid each other.
        """
        return torch.where(counts > 0, (by_chance / counts).log(), 0).clamp(min=0)

    def absent_words_divided(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """A word that is in no text gets NaN.

        It was never met, and by chance it would never be: 0/0. Divide only where counts > 0, and leave 0 elsewhere.
        """
        return (counts / by_chance).log().clamp(min=0)

    def minus_infinity_kept(self, counts: Tensor, by_chance: Tensor) -> Tensor:
        """The logarithm of 0 is left in the table.

        Two words that never met have the ratio 0, and its logarithm is −∞. A table with −∞ in it is no use for dot
        products: put 0 there.
        """
        return (counts / by_chance).log()

    def counts_returned(self, counts: Tensor) -> Tensor:
        """These are the counts.

        In them the most frequent words win, whatever they have to do with each other. Divide by what chance alone would
        give, and take the logarithm.
        """
        return counts

    def shares_of_a_row(self, counts: Tensor) -> Tensor:
        """Each row is divided by its own sum alone.

        That says which neighbours a word has most, and *the* is still among everybody's. Divide by what is expected
        from *both* words.
        """
        return torch.where(counts > 0, counts / counts.sum(dim=1, keepdim=True), 0)
