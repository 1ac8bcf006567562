"""Exercises of lesson 02: scaled dot-product attention."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION, SOFTMAX
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "02_scaled_dot_product_attention"
LEADING_AXES = ("products_not_summed", "scaled_by_axis_one", "over_axis_one", "axis_of_softmax_left_out")
"""Slips that only make sense if any number of axes may come before the last two."""
BY_HAND = (
    "over_queries",
    "over_first_axis",
    "over_axis_one",
    "axis_of_softmax_left_out",
    "over_all_pairs",
    "softmax_twice",
    "winner_takes_all",
    "sigmoid",
    "relu_shared",
    "logarithm",
    "sum_without_axis",
    "not_normalised",
    "equal_weights",
    "dropout_returned",
)
"""The slips that can also be made in a softmax written by hand."""


FEATURES = ("thing", "alive", "place", "action", "article", "pronoun", "state")
MEANING = {
    "the": "article",
    "animal": "thing alive",
    "street": "thing place",
    "cross": "action",
    "it": "pronoun",
    "tired": "state",
}
"""The features of a word; all other words have none."""
SENTENCE = "the animal did not cross the street because it was tired"
LONG = "and so the animal which had come from far away did not cross the street because it was so tired"
STEPS = (0.0, 0.25, 0.45, 0.6, 0.9)
"""A weight counts as the highest of these that it reaches: how strongly a head looks is left open."""


def _reached(asked: Asked, inputs: Inputs, *, sentence: str, who: tuple[str, ...]) -> tuple[Tensor, ...]:
    """Return for each pair in `who`, such as "it animal", the step that one word's weight on the other reaches.

    For a word that is there twice, the lower weight counts. NaN reaches no step, and stays NaN.
    """
    features, words = inputs[0], sentence.split()
    matrices = asked(*inputs)[0].double()
    held = [[float(name in MEANING.get(word, "").split()) for name in features] for word in words]
    w_q, w_k = matrices
    x = torch.tensor(held, dtype=torch.float64)
    weights = attnlib.softmax(attnlib.attention_scores(x @ w_q, x @ w_k))
    found = []
    for asks, answers in (pair.split() for pair in who):
        rows = weights[[i for i, word in enumerate(words) if word == asks]]
        weight = float(rows[:, words.index(answers)].min())
        wanted = 0.45 if asks == "the" else 0.9  # of two nouns, half each
        reached = max(step for step in STEPS if step <= min(wanted, weight + 1e-9))
        found.append(weight if math.isnan(weight) else reached)
    return (torch.tensor(found),)


def _features(_draw: Draw, *, order: tuple[int, ...] = tuple(range(7))) -> tuple[list[str]]:
    return ([FEATURES[i] for i in order],)


IT = ("it animal",)
THE_OTHERS = ("cross street", "tired animal", "the animal", "the street")


def _looking(name: str, part: str, who: tuple[str, ...], sentence: str = SENTENCE, **more: Any) -> Case:
    order = {"order": more.pop("order")} if "order" in more else {}
    return Case(
        name=name,
        inputs=partial(_features, **order),
        probe=partial(_reached, sentence=sentence, who=who),
        part=part,
        **more,
    )


WRITE_MATRICES = WrittenExercise(
    name="write_matrices",
    lesson=LESSON,
    contract="the names of the features -> (2, features, d_k), W_Q and W_K: who attends to whom in “the animal did not "
    "cross the street …”, as the highest of 0, 0.25, 0.45, 0.6 and 0.9 that a weight reaches",
    parts={"pronouns": 2, "other words": 2, "features in any order": 1},
    cases=(
        _looking("the weight of “it” on “animal”", "pronouns", IT),
        _looking("the same in a sentence of twenty words", "pronouns", IT, LONG),
        _looking("“cross” on “street”, “tired” on “animal”, “the” on both", "other words", THE_OTHERS),
        _looking("the others in a sentence of twenty words", "other words", THE_OTHERS, LONG),
        _looking("features in another order", "features in any order", IT + THE_OTHERS, order=(3, 6, 0, 5, 1, 4, 2)),
        _looking(
            "features in a third order",
            "features in any order",
            IT + THE_OTHERS,
            order=(6, 2, 5, 1, 4, 0, 3),
            hidden=True,
        ),
        _looking(
            "another order, twenty words",
            "features in any order",
            IT + THE_OTHERS,
            LONG,
            order=(1, 0, 4, 3, 2, 6, 5),
            hidden=True,
        ),
    ),
)


def _queries_keys(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    d = draw.d_head(d)
    return draw.normal(*lead, q, d), draw.normal(*lead, k, d)


def _small_queries_keys() -> tuple[Tensor, Tensor]:
    return torch.tensor([[2.0, 0, 0, 0], [0, 2.0, 0, 2.0]]), torch.tensor(
        [[3.0, 0, 0, 0], [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 4.0]]
    )


ATTENTION_SCORES = WrittenExercise(
    name="attention_scores",
    lesson=LESSON,
    contract="(…, q, d), (…, k, d) -> (…, q, k), scaled by 1/√d",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.attention_scores,
    forbidden=("attnlib.attention_scores", ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _queries_keys,
            {"lead": (2,), "q": 5, "k": 7, "d": 3},
            one={"lead": (1, 7), "q": 3, "k": 2, "d": 5},
            more=[
                {"lead": (2, 3), "q": 5, "k": 11, "d": 7},
                {"lead": (), "q": 13, "k": 3, "d": 11},
                {"lead": (3,), "q": 7, "k": 7, "d": 7},
                {"lead": (2, 1, 3), "q": 1, "k": 5, "d": 2},
            ],
        ),
        Case(name="no leading axis", inputs=partial(_queries_keys, lead=(), q=5, k=7, d=3)),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="all axes of one length", inputs=partial(_queries_keys, lead=(3,), q=3, k=3, d=3)),
        Case(name="queries and keys of one number", inputs=partial(_queries_keys, lead=(2,), q=5, k=7, d=1)),
        Case(
            name="float16",
            inputs=partial(_queries_keys, lead=(2,), q=5, k=7, d=3),
            dtype=torch.float16,
            part="robustness",
        ),
    ),
    example=_small_queries_keys,
    catalogues=("attention",),
    pairs=("exchanged", "no_scale", "scaled_by_d", "multiplied_by_root_d", "scaled_by_root_k", "scaled_by_root_q"),
)


def _scores(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor]:
    return (draw.normal(*shape, scale=1.5, shift=0.5),)


def _large_scores(draw: Draw) -> tuple[Tensor]:
    small = draw.normal(3, 5)
    return (torch.stack([small + 1e4, small - 1e4, small]).to(draw.dtype),)


def _uneven_rows(draw: Draw) -> tuple[Tensor]:
    return (draw.normal(2, 3, 5) + torch.tensor([-1e4, 0.0, 1e4], dtype=draw.dtype).reshape(3, 1),)


def _wide_rows(draw: Draw, *, span: float) -> Tensor:
    """Draw rows of scores from -span to span, in any order."""
    order = draw.normal(2, 5, 7).argsort(dim=-1)
    return draw.normal(2, 5, 7) + torch.linspace(-span, span, 7, dtype=draw.dtype)[order]


def _example() -> tuple[Tensor, ...]:
    return (torch.tensor([[0.0, math.log(2), math.log(5)], [1.0, 1.0, 1.0]]),)


SOFTMAX_EXERCISE = WrittenExercise(
    name="softmax",
    lesson=LESSON,
    contract="(…, k) -> (…, k), rows of positive numbers that add up to 1; finite for scores of ±1e4",
    parts={"values": 2, "large scores": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.softmax,
    forbidden=("attnlib.softmax", "attnlib.masked_softmax", SOFTMAX),
    cases=(
        *usual_cases(
            _scores,
            {"shape": (2, 5, 7)},
            one={"shape": (1, 2, 3, 5)},
            word={"shape": (2, 1, 1)},
            more=[{"shape": (3, 2, 5, 11)}, {"shape": (13,)}, {"shape": (7, 3)}, {"shape": (2, 3, 1)}],
        ),
        # where a lost axis raises no error, the numbers tell which one it was
        Case(name="as many rows as columns", inputs=lambda draw: _scores(draw, shape=(5, 5))),
        Case(
            name="scores near 10000 and -10000",
            inputs=_large_scores,
            part="large scores",
            magnitude=1e4,
            dtype=torch.float64,
        ),
        Case(name="rows far apart from one another", inputs=_uneven_rows, part="large scores", magnitude=1e4),
        Case(
            name="a row with scores from -60 to 60",
            inputs=lambda draw: (_wide_rows(draw, span=60.0),),
            part="large scores",
            magnitude=60.0,
        ),
        Case(
            name="scores near 65",  # where exp is large and finite, and a limit below it makes all scores equal
            inputs=lambda draw: (draw.normal(2, 3, 5, shift=65.0),),
            part="large scores",
            magnitude=65.0,
        ),
        Case(
            name="a row with scores from -10000 to 10000",
            inputs=lambda draw: (_wide_rows(draw, span=1e4),),
            part="large scores",
            magnitude=1e4,
        ),
        Case(
            name="scores near 10000 and -10000, float32",
            inputs=_large_scores,
            part="large scores",
            magnitude=1e4,
            hidden=True,
        ),
        Case(
            name="gradients for large scores",
            inputs=_large_scores,
            part="large scores",
            gradient=True,
            dtype=torch.float64,
            magnitude=1e4,
            hidden=True,
        ),
    ),
    example=_example,
    few={"attention": BY_HAND},
    pairs=("no_shift", "maximum_without_axis", "sum_without_axis", "summed_over_axis", "epsilon"),
    without=("maximum_without_axis_and_epsilon",),
)


PREDICT_DOT_SPREAD = prediction(
    name="predict_dot_spread",
    lesson=LESSON,
    contract="the standard deviation of the dot product of two random vectors with d = 256",
    reference="B",
    explanation="Each of the 256 terms has variance 1, variances of independent terms add up to 256, and the standard "
    "deviation is the root of that: √256 = 16.",
)


def _qkv(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    d_k = draw.d_head(d_k)
    return draw.normal(*lead, q, d_k), draw.normal(*lead, k, d_k), draw.normal(*lead, k, d_v)


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The contract's form: the weights are always returned."""
    output, weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
    return output, weights


def _small_attention() -> tuple[Tensor, Tensor, Tensor]:
    root = 2**0.5
    q = torch.tensor([[math.log(2) * root, 0.0], [0.0, math.log(3) * root], [0.0, 0.0]])
    return q, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.tensor([[4.0], [8.0], [0.0]])


SCALED_DOT_PRODUCT_ATTENTION = WrittenExercise(
    name="scaled_dot_product_attention",
    lesson=LESSON,
    contract="(…, q, d_k), (…, k, d_k), (…, k, d_v) -> output (…, q, d_v), weights (…, q, k)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    reference=attention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    shown="weights",
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _qkv,
            {"lead": (2, 3), "q": 5, "k": 7, "d_k": 11, "d_v": 13},
            one={"lead": (1,), "q": 3, "k": 2, "d_k": 5, "d_v": 7},
            more=[
                {"lead": (3,), "q": 5, "k": 11, "d_k": 7, "d_v": 2},
                {"lead": (), "q": 13, "k": 3, "d_k": 11, "d_v": 5},
                {"lead": (3,), "q": 7, "k": 7, "d_k": 7, "d_v": 7},
                {"lead": (2, 1, 3), "q": 1, "k": 5, "d_k": 2, "d_v": 3},
            ],
        ),
        Case(
            name="float16",
            inputs=partial(_qkv, lead=(2, 3), q=5, k=7, d_k=11, d_v=13),
            dtype=torch.float16,
            part="robustness",
        ),
        # where lengths or widths agree, more mistakes run, and the numbers tell which one it is
        Case(name="as many keys as queries", inputs=partial(_qkv, lead=(2,), q=5, k=5, d_k=7, d_v=3)),
        Case(name="values as wide as keys", inputs=partial(_qkv, lead=(2,), q=5, k=3, d_k=7, d_v=7)),
        Case(name="no leading axis", inputs=partial(_qkv, lead=(), q=7, k=5, d_k=3, d_v=2)),
        Case(name="all axes of one length", inputs=partial(_qkv, lead=(3,), q=3, k=3, d_k=3, d_v=3)),
        Case(name="every width is 1", inputs=partial(_qkv, lead=(2,), q=5, k=7, d_k=1, d_v=1)),
    ),
    example=_small_attention,
    catalogues=("attention",),
    pairs=(
        "no_scale",
        "scaled_by_d",
        "multiplied_by_root_d",
        "scaled_by_root_d_v",
        "scaled_by_root_k",
        "over_queries",
        "over_first_axis",
        "over_axis_one",
        "no_softmax",
        "weights_transposed",
        "order_returned",
    ),
    without=("averaged_over_sentences",),
)


class SelfAttention(attnlib.SelfAttention):
    """The contract's form: the weights are always returned."""

    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, return_weights=True)
        return output, weights


def _module_inputs(draw: Draw, *, b: int, n: int, sizes: tuple[int, int, int]) -> tuple[Inputs, Inputs]:
    d_model, d_k, d_v = sizes
    return (d_model, draw.d_head(d_k), d_v), (draw.normal(b, n, d_model),)


SELF_ATTENTION = WrittenExercise(
    name="SelfAttention",
    lesson=LESSON,
    contract="SelfAttention(d_model, d_k, d_v), forward: (b, n, d_model) -> output (b, n, d_v), weights (b, n, n)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    kind="module",
    reference=SelfAttention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _module_inputs,
            {"b": 2, "n": 5, "sizes": (7, 3, 11)},
            one={"b": 1, "n": 3, "sizes": (5, 2, 7)},
            more=[
                {"b": 3, "n": 11, "sizes": (13, 5, 2)},
                {"b": 5, "n": 2, "sizes": (3, 3, 3)},
                {"b": 2, "n": 7, "sizes": (7, 7, 7)},
            ],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="all axes of one length", inputs=partial(_module_inputs, b=3, n=3, sizes=(3, 3, 3))),
        Case(name="every width is 1", inputs=partial(_module_inputs, b=2, n=5, sizes=(1, 1, 1))),
    ),
    catalogues=("projections", "attention"),
    pairs=(
        "exchanged",
        "no_scale",
        "scaled_by_d",
        "scaled_by_root_d_model",
        "scaled_by_root_k",
        "over_queries",
        "over_first_axis",
        "no_softmax",
        "order_returned",
    ),
    without=(*LEADING_AXES, "over_heads", "scaled_by_root_q", "one_length_only"),
)


def _examples(
    draw: Draw, *, steps: int, b: int, n: int, widths: tuple[int, int, int], position: int, lr: float = 0.1
) -> tuple[Tensor | int | float, ...]:
    d_model, d_k, d_v = widths
    words, wanted = draw.normal(steps, b, n, d_model), draw.normal(steps, b, d_v)
    matrices = (draw.normal(d_model, width, scale=1.2 * d_model**-0.5) for width in (d_k, d_k, d_v))
    return words, wanted, position, *matrices, lr


OUTPUTS = ("losses", "w_q", "w_k", "w_v")
SENSITIVE = 100.0
"""Each step passes on the rounding of those before it, enlarged. With lr = 0.4, one course's seed in fifteen rejected a
right answer."""

TRAIN_HEAD = WrittenExercise(
    name="train_head",
    lesson=LESSON,
    contract="words (steps, b, n, d_model), wanted (steps, b, d_v), position, w_q, w_k, w_v, lr -> "
    "losses (steps,) and the three matrices after the last step",
    parts={"values": 5, "robustness": 1},
    excused={"large scores": "With such scores every softmax is saturated, and nothing is trained."},
    outputs=OUTPUTS,
    detachable=OUTPUTS,
    cases=(
        *usual_cases(
            _examples,
            {"steps": 5, "b": 3, "n": 7, "widths": (11, 2, 5), "position": 4},
            one={"steps": 2, "b": 1, "n": 3, "widths": (5, 3, 2), "position": 1},
            more=[
                {"steps": 7, "b": 2, "n": 5, "widths": (3, 7, 2), "position": 1, "lr": 0.15},
                {"steps": 3, "b": 5, "n": 2, "widths": (7, 2, 3), "position": 0},
            ],
            word={"steps": 5, "b": 3, "n": 1, "widths": (11, 2, 5), "position": 0},
            gradient=False,
        ),
        Case(name="one step", inputs=partial(_examples, steps=1, b=2, n=5, widths=(7, 3, 2), position=3)),
        Case(
            name="every width is 1",
            inputs=partial(_examples, steps=3, b=2, n=5, widths=(1, 1, 1), position=3),
            magnitude=SENSITIVE,
        ),
        Case(
            name="matrices that require a gradient already",  # as a layer's weights do
            inputs=partial(_examples, steps=3, b=2, n=5, widths=(7, 3, 2), position=1),
            gradient=True,
            mutation=True,
            part="robustness",
        ),
        Case(
            name="a small learning rate",
            inputs=partial(_examples, steps=3, b=2, n=5, widths=(7, 3, 2), position=2, lr=0.03),
        ),
    ),
    catalogues=("training",),
    few={"attention": ("no_scale", "over_queries")},
    pairs=("gradients_pile_up", "all_positions_compared", "uphill", "error_summed"),
)


PREDICT_SWAPPED_WORDS = prediction(
    name="predict_swapped_words",
    lesson=LESSON,
    contract="what self-attention makes of a sentence in which two words are swapped",
    reference="B",
    explanation="Each output is made from one query and the same eleven pairs of keys and values. A sum doesn't depend "
    "on their order, so every word gets what it got before, at its new position.",
)


def _sentences(b: int, n: int, d_model: int, d_k: int, d_v: int) -> Callable[[Draw], tuple[Tensor, ...]]:
    """Words and matrices for `mend_self_attention`, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor, ...]:
        width, grow = draw.d_head(d_k), 1.2 * d_model**-0.5
        projections = [draw.normal(d_model, d, scale=grow) for d in (width, width, d_v)]
        return (draw.normal(b, n, d_model), *projections)

    return inputs


MEND_SELF_ATTENTION = WrittenExercise(
    name="mend_self_attention",
    lesson=LESSON,
    contract="(b, n, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v) -> output (b, n, d_v), weights (b, n, n)",
    parts={"values": 2},
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="a batch of sentences", inputs=_sentences(2, 5, 13, 3, 7), mutation=True),
        Case(name="more words than features", inputs=_sentences(3, 11, 7, 5, 2), gradient=True),
        Case(name="float64", inputs=_sentences(2, 7, 5, 3, 11), dtype=torch.float64, gradient=True),
        Case(name="all axes of one length", inputs=_sentences(3, 3, 3, 3, 3)),
        Case(name="one sentence", inputs=_sentences(1, 5, 3, 7, 11)),
        Case(name="every width is 1", inputs=_sentences(2, 5, 1, 1, 1)),
        Case(name="d_k larger than d_model", inputs=_sentences(5, 3, 7, 13, 2), hidden=True),
    ),
    catalogues=("projections", "attention"),
    pairs=(
        "no_scale",
        "scaled_by_d",
        "scaled_by_root_d_v",
        "scaled_by_root_k",
        "scaled_by_root_d_model",
        "over_queries",
        "over_first_axis",
        "weights_transposed",
    ),
    without=(
        *LEADING_AXES,
        "scaled_by_root_d_model_and_over_queries",  # that is how the code is given
        "over_heads",
        "scaled_by_root_q",
        "one_length_only",
    ),
)


def _inputs(
    draw: Draw, *, b: int, q: int, k: int, sizes: tuple[int, int, int], d_v: int
) -> tuple[tuple[int, int, int], tuple[Tensor, Tensor, Tensor]]:
    d_q, d_k, _ = sizes
    return sizes, (draw.normal(b, q, d_q), draw.normal(b, k, d_k), draw.normal(b, k, d_v))


ADDITIVE_ATTENTION = WrittenExercise(
    name="AdditiveAttention",
    lesson=LESSON,
    contract="AdditiveAttention(d_q, d_k, d_hidden), forward: (b, q, d_q), (b, k, d_k), (b, k, d_v) -> output, weights",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    kind="module",
    stretch=True,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.5,
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "q": 5, "k": 7, "sizes": (11, 13, 3), "d_v": 17},
            one={"b": 1, "q": 3, "k": 2, "sizes": (7, 5, 11), "d_v": 2},
            more=[
                {"b": 3, "q": 2, "k": 11, "sizes": (5, 3, 7), "d_v": 13},
                {"b": 5, "q": 7, "k": 3, "sizes": (2, 11, 5), "d_v": 3},
            ],
        ),
        # where lengths and widths agree, more mistakes run, and the numbers tell which one it is
        Case(name="equal widths", inputs=partial(_inputs, b=2, q=3, k=5, sizes=(7, 7, 7), d_v=7)),
        Case(name="all axes of one length", inputs=partial(_inputs, b=3, q=3, k=3, sizes=(3, 3, 3), d_v=3)),
        Case(name="every width is 1", inputs=partial(_inputs, b=2, q=5, k=7, sizes=(1, 1, 1), d_v=1)),
    ),
    few={
        "attention": (
            "over_queries",
            "over_first_axis",
            "no_softmax",
            "softmax_twice",
            "weights_transposed",
            "keys_for_values",
            "averaged",
            "order_returned",
            "returns_scores",
        )
    },
    pairs=("no_tanh", "divided_by_a_root", "over_queries", "no_softmax", "order_returned"),
    without=("averaged_over_sentences",),
)

EXERCISES = (
    WRITE_MATRICES,
    ATTENTION_SCORES,
    SOFTMAX_EXERCISE,
    PREDICT_DOT_SPREAD,
    SCALED_DOT_PRODUCT_ATTENTION,
    SELF_ATTENTION,
    TRAIN_HEAD,
    PREDICT_SWAPPED_WORDS,
    MEND_SELF_ATTENTION,
    ADDITIVE_ATTENTION,
)
