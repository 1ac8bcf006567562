"""A small search engine: counted words, weighted by how rare they are, compared by the cosine."""

import math
import re
from collections.abc import Callable
from string import ascii_lowercase

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step, each, spells

Count = Callable[[str, str], int]
Two = tuple[Tensor, Tensor]


def words_of(line: str) -> list[str]:
    """The words of a line, in small letters."""
    return line.lower().split()


def table(lines: list[str], words: list[str], count: Count) -> Tensor:
    """A row for each line, a column for each word."""
    return torch.tensor([[float(count(line, word)) for word in words] for line in lines]).reshape(len(lines), -1)


def vocabulary(texts: list[str]) -> list[str]:
    """Every word of the texts, once."""
    return sorted({word for text in texts for word in words_of(text)})


class CountWords(Step):
    """How often each word of the texts is in each question and in each text."""

    makes = ("asked", "offered")

    def right(self, questions: list[str], texts: list[str]) -> Two:
        return self._tables(questions, texts, lambda line, word: words_of(line).count(word))

    def _tables(self, questions: list[str], texts: list[str], count: Count) -> Two:
        words = vocabulary(texts)
        return table(questions, words, count), table(texts, words, count)

    def capitals_kept(self, questions: list[str], texts: list[str]) -> Two:
        """Capital letters make another word.

        *The* at the beginning of a text and *the* inside it are one word here. Make all letters small first:
        `line.lower().split()`.
        """
        words = sorted({word for text in texts for word in text.split()})
        return table(questions, words, lambda line, word: line.split().count(word)), table(
            texts, words, lambda line, word: line.split().count(word)
        )

    @spells(capitals_kept)
    def capitals_of_the_questions_kept(self, questions: list[str], texts: list[str]) -> Two:
        asked = table(questions, vocabulary(texts), lambda line, word: line.split().count(word))
        return asked, self.right(questions, texts)[1]

    def pieces_counted(self, questions: list[str], texts: list[str]) -> Two:
        """Words are found inside other words.

        `line.count(word)` on a string finds *it* in *with*. Cut the line into words first, and count in the list:
        `line.lower().split().count(word)`.
        """
        return self._tables(questions, texts, lambda line, word: line.lower().count(word))

    @spells(pieces_counted)
    def pieces_of_the_texts_counted(self, questions: list[str], texts: list[str]) -> Two:
        return self.right(questions, texts)[0], self.pieces_counted(questions, texts)[1]

    @spells(pieces_counted)
    def pieces_of_the_questions_counted(self, questions: list[str], texts: list[str]) -> Two:
        return self.pieces_counted(questions, texts)[0], self.right(questions, texts)[1]

    def cut_at_single_spaces(self, questions: list[str], texts: list[str]) -> Two:
        """Words are cut at single spaces.

        `split(" ")` makes an empty word of two spaces in a row, and leaves tabs and line breaks inside the words.
        Without an argument, `split()` cuts wherever there is white space: `line.lower().split()`.
        """
        return self._cut(questions, texts, lambda line: line.lower().split(" "))

    @spells(cut_at_single_spaces)
    def cut_at_spaces_alone(self, questions: list[str], texts: list[str]) -> Two:
        return self._cut(questions, texts, lambda line: [word for word in line.lower().split(" ") if word])

    @spells(cut_at_single_spaces)
    def cut_at_spaces_inside(self, questions: list[str], texts: list[str]) -> Two:
        return self._cut(questions, texts, lambda line: line.lower().strip().split(" "))

    def punctuation_removed(self, questions: list[str], texts: list[str]) -> Two:
        """Full stops and hyphens are taken out.

        That makes better words, but not those of the contract, which are simply what `line.lower().split()` gives:
        *street.* with its full stop is another word than *street*.
        """
        return self._cut(questions, texts, lambda line: re.findall(r"\w+", line.lower()))

    @spells(punctuation_removed)
    def punctuation_stripped(self, questions: list[str], texts: list[str]) -> Two:
        return self._cut(questions, texts, lambda line: [word.strip(".,;:!?") for word in line.lower().split()])

    @staticmethod
    def _cut(questions: list[str], texts: list[str], cut: Callable[[str], list[str]]) -> Two:
        words = sorted({word for text in texts for word in cut(text)})
        asked, offered = (table(lines, words, lambda line, word: cut(line).count(word)) for lines in (questions, texts))
        return asked, offered

    def once_at_most(self, questions: list[str], texts: list[str]) -> Two:
        """A word that comes up several times counts once.

        A text that says *street* three times has more to do with streets. Count, do not just ask whether the word is
        there.
        """
        return self._tables(questions, texts, lambda line, word: int(word in words_of(line)))

    def letters_counted(self, questions: list[str], texts: list[str]) -> Two:
        """Letters are counted, not words.

        That was the table of `letter_counts`. Here each column is a *word* of the texts.
        """
        letters = [*ascii_lowercase]
        found = [table(lines, letters, lambda line, letter: line.lower().count(letter)) for lines in (questions, texts)]
        used = found[1].sum(dim=0) > 0
        return found[0][:, used], found[1][:, used]

    def words_of_the_questions_too(self, questions: list[str], texts: list[str]) -> Two:
        """The vocabulary has words that are in no text.

        For such a word the logarithm is that of n/0, and 0 · ∞ is NaN. Take the vocabulary from the texts alone: what
        is in none of them cannot help to choose one.
        """
        words = vocabulary([*questions, *texts])
        return table(questions, words, lambda line, word: words_of(line).count(word)), table(
            texts, words, lambda line, word: words_of(line).count(word)
        )


def texts_with(offered: Tensor) -> Tensor:
    """How many texts have each word."""
    return offered.clamp(max=1).sum(dim=0)


class WeighByRarity(Step):
    """The logarithm of (number of texts) / (texts with this word)."""

    makes = ("rarity",)

    def right(self, offered: Tensor) -> Tensor:
        return torch.log(len(offered) / texts_with(offered))

    def all_words_alike(self, offered: Tensor) -> Tensor:
        """All words weigh the same.

        Then *the* decides, because everybody has it. Multiply each column by the logarithm of (number of texts) /
        (texts with this word).
        """
        return torch.ones_like(offered[0])

    def times_counted(self, offered: Tensor) -> Tensor:
        """The occurrences are counted, not the texts.

        A word that one text repeats five times is still in one text only. For the rarity, count in how many rows the
        number is above 0.
        """
        return torch.log(len(offered) / offered.sum(dim=0))

    def no_logarithm(self, offered: Tensor) -> Tensor:
        """The logarithm is missing.

        A word that is in every text has the ratio 1, and 1 still counts. Its logarithm is 0: such a word tells nothing.
        """
        return self.right(offered).exp()

    def frequent_weighs_more(self, offered: Tensor) -> Tensor:
        """Frequent words weigh more.

        It is the other way round: the fewer texts have a word, the more it tells. Divide the number of texts by how
        many have the word, and take the logarithm.
        """
        return texts_with(offered) / len(offered)

    def smoothed(self, offered: Tensor) -> Tensor:
        """The rarity is smoothed.

        A 1 is added somewhere: in the ratio, to its logarithm, or, as scikit-learn does it, in both. Here it is the
        plain ln(n / n_w): every word of the vocabulary is in some text, so nothing is divided by 0.
        """
        return torch.log((1 + len(offered)) / (1 + texts_with(offered))) + 1

    @spells(smoothed)
    def one_added_to_the_logarithm(self, offered: Tensor) -> Tensor:
        return self.right(offered) + 1

    @spells(smoothed)
    def one_added_below(self, offered: Tensor) -> Tensor:
        return torch.log(len(offered) / (1 + texts_with(offered)))

    def words_for_texts(self, offered: Tensor) -> Tensor:
        """The number of words takes the place of the number of texts.

        The ratio is (number of texts) / (texts with this word). Texts are the rows of the table.
        """
        return torch.log(offered.shape[1] / texts_with(offered))


class Weighed(Step):
    """Both tables, each column times the rarity of its word."""

    makes = ("x", "y")

    def right(self, asked: Tensor, offered: Tensor, rarity: Tensor) -> Two:
        return asked * rarity, offered * rarity

    def texts_alone_weighed(self, asked: Tensor, offered: Tensor, rarity: Tensor) -> Two:
        """Only one of the two tables is weighted.

        Questions and texts are compared as vectors of the same kind. Multiply both by the rarity.
        """
        return asked, offered * rarity

    @spells(texts_alone_weighed)
    def questions_alone_weighed(self, asked: Tensor, offered: Tensor, rarity: Tensor) -> Two:
        return asked * rarity, offered

    def weighed_twice(self, asked: Tensor, offered: Tensor, rarity: Tensor) -> Two:
        """The rarity is multiplied in twice.

        Each table is multiplied by it once. In the dot product it then comes up squared, and that is as it should be.
        """
        return asked * rarity**2, offered * rarity**2


LEAST = 1e-9


def over(x: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
    """All dot products, divided."""
    scores: Tensor = x @ y.T / lengths
    return scores


class Cosines(Step):
    """The dot product of each question with each text, over the product of their lengths."""

    def right(self, x: Tensor, y: Tensor) -> Tensor:
        return over(x, y, (x.norm(dim=-1)[:, None] * y.norm(dim=-1)).clamp(min=LEAST))

    def lengths_left_out(self, x: Tensor, y: Tensor) -> Tensor:
        """The lengths are left out.

        A dot product grows with the length of a vector, so the longest text would win. Divide by both lengths: the
        cosine.
        """
        return x @ y.T

    def texts_cut_to_length_alone(self, x: Tensor, y: Tensor) -> Tensor:
        """Only the lengths of the texts are divided out.

        The order of the texts is right that way, the numbers are not: a cosine divides by the length of the question,
        too.
        """
        return over(x, y, y.norm(dim=-1).clamp(min=LEAST))

    def questions_cut_to_length_alone(self, x: Tensor, y: Tensor) -> Tensor:
        """Only the lengths of the questions are divided out.

        A long text still beats a short one. Divide by the length of the text, too.
        """
        return over(x, y, x.norm(dim=-1)[:, None].clamp(min=LEAST))

    def squares_for_lengths(self, x: Tensor, y: Tensor) -> Tensor:
        """The root of the lengths is missing.

        A length is √(x · x). Yours divides by the sums of squares.
        """
        squares = x.square().sum(dim=-1)[:, None] * y.square().sum(dim=-1)
        return over(x, y, squares.clamp(min=LEAST))

    def sums_for_lengths(self, x: Tensor, y: Tensor) -> Tensor:
        """The vectors are divided by their sums.

        Shares are no cosines. The length of a vector is the root of the sum of its squares: `x.norm(dim=-1)`.
        """
        return over(x, y, (x.sum(dim=-1)[:, None] * y.sum(dim=-1)).clamp(min=LEAST))

    def divided_by_zero(self, x: Tensor, y: Tensor) -> Tensor:
        """Nothing in common gives NaN.

        A question or a text whose words are all in no text, or in every text, is a vector of zeros: 0/0. Its scores
        are 0. Keep the lengths above zero with `.clamp(min=1e-9)`.
        """
        return over(x, y, (x.norm(dim=-1)[:, None] * y.norm(dim=-1)))

    @each(least=(0.01, 0.001, 0.1))
    def guard_too_large(self, x: Tensor, y: Tensor, least: float) -> Tensor:
        """The guard against 0 / 0 is too large.

        A word that nearly all texts have weighs little. A vector of such words is short, and the product of two lengths
        may be far below your guard, which then changes the cosine. Something like `.clamp(min=1e-9)` does no harm.
        """
        return over(x, y, (x.norm(dim=-1)[:, None] * y.norm(dim=-1)).clamp(min=least))

    def texts_in_the_rows(self, x: Tensor, y: Tensor) -> Tensor:
        """Rows and columns are exchanged.

        A row belongs to a question, a column to a text: (q, k).
        """
        return self.right(x, y).T

    def shares_of_the_texts(self, x: Tensor, y: Tensor) -> Tensor:
        """A softmax turns the cosines into shares.

        Attention will do that. A search engine gives the scores as they are.
        """
        return self.right(x, y).softmax(dim=-1)

    def best_text_alone(self, x: Tensor, y: Tensor) -> Tensor:
        """Only the number of the best text is returned.

        All scores are wanted, (q, k): whoever calls can sort them.
        """
        return self.right(x, y).argmax(dim=-1)

    def angle_for_cosine(self, x: Tensor, y: Tensor) -> Tensor:
        """These are angles, or distances.

        The score is to be *large* where question and text agree: the cosine itself, and not 1 minus it.
        """
        return self.right(x, y).neg() + 1

    @spells(angle_for_cosine)
    def arc_cosine(self, x: Tensor, y: Tensor) -> Tensor:
        return self.right(x, y).acos() / math.pi
