"""Lesson 00, the tools: dot products and squared distances of every x with every y."""

from functools import partial

import torch
from torch import Tensor

from attnlib.checks.asking.ready_made import EINSUM
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case

LESSON = "00_start_here"
SIZES = {"b": 2, "q": 5, "k": 7, "d": 3}
LARGER = [{"b": 3, "q": 2, "k": 11, "d": 7}, {"b": 5, "q": 13, "k": 3, "d": 2}, {"b": 3, "q": 7, "k": 7, "d": 7}]


def _two_sets(draw: Draw, *, b: int, q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, q, d), draw.normal(b, k, d)


def _one_in_both(draw: Draw) -> tuple[Tensor, Tensor]:
    x, y = _two_sets(draw, **SIZES)
    y[:, 2] = x[:, 1]
    return x, y


PREDICT_LARGEST_DOT = prediction(
    name="predict_largest_dot",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": which word has the largest dot product with “the”, by letter counts?',
    reference="B",
    explanation="“street” has two t's and two e's, so its dot product with “the” is 2 + 2 = 4. The word “the” gets "
    "only 1 + 1 + 1 = 3 with itself. A long vector can beat a perfect match.",
)

PAIRWISE_DOT = WrittenExercise(
    name="pairwise_dot",
    lesson=LESSON,
    contract="(b, q, d), (b, k, d) -> (b, q, k)",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    cases=(
        *usual_cases(_two_sets, SIZES, one={"b": 1, "q": 3, "k": 2, "d": 5}, more=LARGER),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="all axes of one length", inputs=partial(_two_sets, b=3, q=3, k=3, d=3)),
        Case(name="vectors of one number", inputs=partial(_two_sets, b=2, q=5, k=7, d=1)),
    ),
    example=lambda: (
        torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]),
        torch.tensor([[[1.0, 1.0], [3.0, 0.0], [0.0, -1.0]]]),
    ),
    pairs=("ys_as_rows", "scaled"),
)

MEND_SQUARED_DISTANCES = WrittenExercise(
    name="mend_squared_distances",
    lesson=LESSON,
    contract="(b, q, d), (b, k, d) -> (b, q, k), squared distances",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=lambda x, y: ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(dim=-1),
    cases=(
        *usual_cases(_two_sets, SIZES, one={"b": 1, "q": 7, "k": 7, "d": 2}, more=LARGER),
        # the fault raises an error for other sizes; among so many wrong distances some are below zero for sure
        Case(name="as many x as y", inputs=partial(_two_sets, b=3, q=11, k=11, d=2)),
        Case(name="all axes of one length", inputs=partial(_two_sets, b=3, q=3, k=3, d=3)),
        Case(name="vectors of one number", inputs=partial(_two_sets, b=2, q=5, k=7, d=1)),
        Case(
            name="gradients where a distance is zero",
            inputs=_one_in_both,
            dtype=torch.float64,
            gradient=True,
            part="gradient",
        ),
    ),
    example=lambda: (torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 0.0], [3.0, 1.0]]])),
    pairs=("fault_left", "lengths_averaged", "dots_scaled", "not_doubled", "sum_squared"),
    same={"fault_left": "as_given"},
)


def _named(draw: Draw, *, pattern: str, **sizes: int) -> tuple[Tensor, Tensor, str]:
    inputs = pattern.partition("->")[0].split(",")
    x, y = (draw.normal(*(sizes[name] for name in names.split())) for names in inputs)
    return x, y, pattern


_DOTS = "q d b, d b k -> b k q"

LITTLE_EINSUM = WrittenExercise(
    name="little_einsum",
    lesson=LESSON,
    contract="two tensors and a pattern such as 'b q d, b k d -> b q k' -> what einops.einsum returns",
    parts={"values": 5, "gradient": 1, "robustness": 1},
    forbidden=(EINSUM,),
    cases=(  # where several axes are summed, the numbers on the way are larger than the result
        *usual_cases(
            _named,
            {"pattern": _DOTS, "b": 2, "q": 5, "k": 7, "d": 3},
            one={"pattern": _DOTS, "b": 1, "q": 3, "k": 2, "d": 5},
            more=[
                {"pattern": "b k d, d q b -> b q k", "b": 3, "q": 2, "k": 11, "d": 7},
                {"pattern": "b q k, k d b -> b q d", "b": 5, "q": 3, "k": 2, "d": 13},
            ],
        ),
        Case(
            name="two names kept side by side",
            inputs=partial(_named, pattern="b q h d, b h k d -> b h q k", b=2, h=3, q=5, k=7, d=11),
        ),
        Case(name="nothing is summed", inputs=partial(_named, pattern="q, k -> k q", q=3, k=5)),
        Case(name="everything is summed", inputs=partial(_named, pattern="n d, d n ->", n=5, d=7), magnitude=9.0),
        Case(name="an axis of length 1 on either side", inputs=partial(_named, pattern=_DOTS, b=2, q=1, k=7, d=1)),
        Case(
            name="one input's own axes are summed",
            inputs=partial(_named, pattern="b n word, letter b -> b", b=2, n=3, word=5, letter=7),
            magnitude=9.0,
        ),
        Case(
            name="names that are words",
            inputs=partial(_named, pattern="batch word letter, letter -> word batch", batch=2, word=5, letter=3),
        ),
        Case(
            name="a name that is part of another",
            inputs=partial(_named, pattern="words word, word letter -> letter words", words=2, word=5, letter=3),
        ),
    ),
    example=lambda: (
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]),
        "q d, d k -> k q",
    ),
    pairs=("permuted_backwards", "product_returned", "product_averaged", "inputs_added"),
)


WORDS = ["the", "The", "it", "with", "street", "animal", "tired", "crossed", "wide", "was", "cross", "street", "animal"]
"""Capitals, repeated words, and words contained in other words."""


def _to_be_searched(draw: Draw, *, q: int, k: int, n: int) -> tuple[list[str], list[str]]:
    """Draw texts that all have *the*; each question has a word that no text has. Some words are capitalised."""

    def lines(count: int) -> list[list[str]]:
        return [
            [WORDS[i].title() if at % 3 == 1 else WORDS[i] for at, i in enumerate(row)]
            for row in draw.integers(0, len(WORDS), (count, n)).tolist()
        ]

    return [" ".join([*line, "moon"]) for line in lines(q)], [" ".join(["The", *line]) for line in lines(k)]


def _nothing_in_common(draw: Draw) -> tuple[list[str], list[str]]:
    """Draw a question of unknown words, one of words that all texts have, and a text of only such words."""
    questions, texts = _to_be_searched(draw, q=2, k=4, n=5)
    return [*questions, "moon moon", "the"], [*texts, "the the"]


def _written_freely(draw: Draw) -> tuple[list[str], list[str]]:
    """Draw texts with spaces at both ends and in runs, tabs and line breaks."""
    questions, texts = _to_be_searched(draw, q=3, k=5, n=7)
    texts[0], texts[1] = f"  {texts[0]}", f"{texts[1].replace(' ', '  ')} "
    texts[2], texts[3] = texts[2].replace(" ", "\t"), f"{texts[3]}\n"
    return [f" {questions[0]}\t", questions[1].replace(" ", "\n"), questions[2].replace(" ", "   ")], texts


def _with_marks(draw: Draw) -> tuple[list[str], list[str]]:
    """Draw words with marks, without which they would be other words, years, and a letter that isn't English."""
    questions, texts = _to_be_searched(draw, q=3, k=5, n=5)
    texts = [
        f"{text} {marked}"
        for text, marked in zip(
            texts, ("street. street?", "it's 1968", "cross-street street", "tired, 1969", "s straße"), strict=True
        )
    ]
    marks = ("street. street?", "it's 1969", "cross straße")
    return [f"{question} {marked}" for question, marked in zip(questions, marks, strict=True)], texts


def _asked_twice(draw: Draw) -> tuple[list[str], list[str]]:
    """Draw two questions, the first of which comes again."""
    questions, texts = _to_be_searched(draw, q=2, k=5, n=7)
    return [*questions, questions[0]], texts


def _in_nearly_all(draw: Draw, *, k: int) -> tuple[list[str], list[str]]:
    """Draw words that are each in all of k texts but one, so that a word weighs only ln(k / (k - 1))."""
    texts = [["it", "was", "so", ("it", "was", "so")[i]] for i in draw.integers(0, 3, (k,)).tolist()]
    for text, word in zip(texts, ("it", "was", "so"), strict=False):
        text[:] = [other for other in text if other != word]
    return ["it", "was so so"], [" ".join(text) for text in texts]


SEARCH = WrittenExercise(
    name="search",
    lesson=LESSON,
    contract="lists of q questions and k texts, all strings -> cosines (q, k) of word counts, weighted by rarity",
    parts={"values": 4, "robustness": 2},
    cases=(
        Case(name="three questions, five texts", inputs=partial(_to_be_searched, q=3, k=5, n=7)),
        Case(name="one question", inputs=partial(_to_be_searched, q=1, k=7, n=5)),
        Case(name="longer texts", inputs=partial(_to_be_searched, q=2, k=3, n=11)),
        Case(name="as many questions as texts", inputs=partial(_to_be_searched, q=5, k=5, n=3)),
        Case(name="spaces, tabs and line breaks", inputs=_written_freely),
        Case(name="words with a full stop, a hyphen or an apostrophe", inputs=_with_marks),
        Case(name="a question that is asked twice", inputs=_asked_twice),
        # quotients of numbers near 0.001: neither 1e-8 against 0 / 0 nor log(n) - log(n_w) in float32 is a mistake
        Case(name="words that nearly all texts have", inputs=partial(_in_nearly_all, k=60), magnitude=75.0),
        # and here near 0.00002
        Case(name="words that nearly all of 250 texts have", inputs=partial(_in_nearly_all, k=250), magnitude=3e3),
        Case(name="nothing in common", inputs=_nothing_in_common, part="robustness"),
        Case(
            name="a single text",
            inputs=partial(_to_be_searched, q=3, k=1, n=5),
            part="robustness",
            probe=lambda asked, inputs: tuple(
                scores.float() for scores in asked(*inputs)
            ),  # all are 0, Python's perhaps
        ),
        Case(
            name="the lists stay as they are",
            inputs=partial(_to_be_searched, q=3, k=5, n=7),
            part="robustness",
            mutation=True,
        ),
        Case(
            name="called a second time, with other texts",
            inputs=partial(_to_be_searched, q=3, k=5, n=7),
            after=(partial(_to_be_searched, q=2, k=3, n=5),),
        ),
        Case(name="other texts", inputs=partial(_to_be_searched, q=7, k=11, n=5), hidden=True),
        Case(name="many texts", inputs=partial(_to_be_searched, q=2, k=17, n=3), hidden=True),
    ),
    pairs=("once_at_most", "all_words_alike", "lengths_left_out", "capitals_kept", "texts_cut_to_length_alone"),
)

EXERCISES = (PREDICT_LARGEST_DOT, PAIRWISE_DOT, MEND_SQUARED_DISTANCES, SEARCH, LITTLE_EINSUM)
