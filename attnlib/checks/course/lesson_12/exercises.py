"""Lesson 12: a published model on the learner's code, from its file of weights to what its heads know."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.albert import LAYERS
from attnlib.checks.asking.given import described
from attnlib.checks.asking.ready_made import BLOCKS
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.promises import LARGE, TIMES
from attnlib.checks.course.right import plain_answer
from attnlib.checks.course.trained import trained
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Inputs

LESSON = "12_a_real_model"

PREDICT_WHAT_IS_NEEDED = prediction(
    name="predict_what_is_needed",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": what a model must find out to fill in nearly every masked atom of a product',
    reference="C",
    explanation="Spelling gets most of them, as the lesson measures. For the rest the model has to see what went in "
    "and isn't there yet. For each atom of the product, it has to find out which atom on the left it was.",
)


def _square(draw: Draw, *, b: int, n: int, h: int, d: int, hidden: int, depth: int) -> tuple[Inputs, Inputs]:
    d_model = h * draw.d_head(d)
    return (d_model, h, hidden, depth), (draw.normal(b, n, d_model, scale=1.3, shift=0.5),)


SHARED_ENCODER = WrittenExercise(
    name="SharedEncoder",
    lesson=LESSON,
    contract="SharedEncoder(d_model, num_heads, d_hidden, depth), forward: (b, n, d_model) -> (b, n, d_model), and the "
    "weights of all layers (b, depth, h, n, n); one post-LN block, exact GELU, eps 1e-12, applied depth times",
    parts={"values": 4, "gradient": 1, "robustness": 1},
    kind="module",
    reference=attnlib.SharedEncoder,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(
        "attnlib.SharedEncoder.forward",
        "attnlib.EncoderBlock.forward",
        "attnlib.Encoder.forward",
        BLOCKS,
    ),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _square,
            {"b": 2, "n": 7, "h": 3, "d": 5, "hidden": 19, "depth": 2},
            one={"b": 1, "n": 3, "h": 2, "d": 7, "hidden": 13, "depth": 4},
            more=[
                {"b": 3, "n": 2, "h": 5, "d": 3, "hidden": 11, "depth": 3},
                {"b": 2, "n": 11, "h": 2, "d": 5, "hidden": 23, "depth": 1},
            ],
        ),
        # one layer: the next would take differences in the last digits of such scores for differences of words
        Case(
            name="scores that are far too large for exp",
            inputs=partial(_square, b=2, n=7, h=3, d=5, hidden=19, depth=1),
            dtype=torch.float64,
            part="robustness",
            times=TIMES["module"],
            magnitude=LARGE,
        ),
    ),
    pairs=("another_eps", "gelu_by_tanh", "layers_first"),
)

ENCODER = {theirs: ours for theirs, ours in LAYERS.items() if ours.startswith("encoder.")}
BIG: dict[str, Any] = {"d_model": 12, "heads": 3, "hidden": 12, "depth": 2}
"""Sizes with an MLP as wide as the words, so that exchanging its two matrices raises nothing."""


def _to_load(draw: Draw, *, b: int, n: int, d_model: int, heads: int, hidden: int, depth: int) -> tuple[Any, ...]:
    """Return an encoder whose weights differ from those in the file, which also holds some of others."""
    sizes = (d_model, heads, hidden, depth)
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in attnlib.SharedEncoder(*sizes).named_parameters()}
    its_own = {name: draw.normal(*shape) for name, shape in shapes.items()}
    in_the_file = {}
    for theirs, ours in ENCODER.items():
        for kind in ("weight", "bias"):
            shape = shapes[f"{ours.removeprefix('encoder.')}.{kind}"]
            in_the_file[f"albert.{theirs}.{kind}"] = draw.normal(*shape, scale=1.3 * d_model**-0.5, shift=0.1)
    in_the_file["albert.embeddings.word_embeddings.weight"] = draw.normal(7, d_model)
    x = draw.normal(b, n, d_model)
    return described("SharedEncoder", sizes, its_own), in_the_file, x


LOAD_ENCODER = WrittenExercise(
    name="load_encoder",
    lesson=LESSON,
    contract="encoder (a SharedEncoder), weights (tensors by their published names), x (b, n, d_model) -> what the "
    "encoder returns for x once it has the published weights; the file's tensors stay as they are",
    parts={"values": 3, "other sizes": 1},
    outputs=("output", "weights"),
    detachable=("output", "weights"),
    excused={
        "large scores": "The encoder is given, and its softmax with it.",
        "the device that was given": "The weights come from a file.",
        "memory that is not contiguous": "The weights come from a file.",
    },
    cases=(
        Case(name="a block whose matrices are all square", inputs=partial(_to_load, b=2, n=5, **BIG)),
        Case(name="one sentence", inputs=partial(_to_load, b=1, n=3, **BIG)),
        Case(name="the encoder afterwards", inputs=partial(_to_load, b=2, n=5, **BIG), probe=trained, mutation=True),
        Case(name="float64", inputs=partial(_to_load, b=2, n=5, **BIG), dtype=torch.float64),
        Case(
            name="an MLP wider than the words",
            inputs=partial(_to_load, b=2, n=5, d_model=8, heads=2, hidden=19, depth=3),
            part="other sizes",
        ),
        Case(
            name="other sizes",
            inputs=partial(_to_load, b=3, n=7, d_model=20, heads=5, hidden=20, depth=2),
            hidden=True,
            part="other sizes",
        ),
    ),
    pairs=("query_and_key_exchanged", "biases_forgotten", "norms_filled_crosswise"),
)


Known = tuple[tuple[int, int], ...]
"""Positions, and the tokens that aren't drawn for them."""


def _to_fill(
    draw: Draw, *, n: int, position: int, k: int, vocab: int = 13, d: int = 7, scale: float = 1.5, known: Known = ()
) -> tuple[Any, ...]:
    """Return a model that sees both sides, and a sentence whose mask is the vocabulary's last token."""
    max_len = n + 3
    weights = {"embed": draw.normal(vocab, d, scale=scale), "places": draw.normal(max_len, d)}
    ids = draw.integers(0, vocab - 1, (n,))
    for place, token in known:
        ids[place] = token
    return described("SmallModel", (vocab, max_len, d, max_len, None, False), weights), ids, position, k, vocab - 1


FILL_IN = WrittenExercise(
    name="fill_in",
    lesson=LESSON,
    contract="model (ids (b, n) -> logits (b, n, vocab)), ids (n,), position, k, mask_id -> the k likeliest tokens at "
    "this position while it is masked, (k,), the likeliest first, and their probabilities, (k,)",
    parts={"values": 2, "ids as they were": 1},
    outputs=("tokens", "probabilities"),
    detachable=("probabilities",),
    excused={
        "the device that was given": "A single position is asked for, and may be read as Python's numbers.",
        "memory that is not contiguous": "Whole numbers are looked up, wherever they are.",
    },
    cases=(
        Case(name="the fourth of seven tokens, three guesses", inputs=partial(_to_fill, n=7, position=3, k=3)),
        Case(name="the first token", inputs=partial(_to_fill, n=5, position=0, k=2)),
        Case(name="the last token, four guesses", inputs=partial(_to_fill, n=11, position=10, k=4)),
        Case(name="every token that there is", inputs=partial(_to_fill, n=7, position=2, k=13)),
        Case(name="another mask before it", inputs=partial(_to_fill, n=7, position=4, k=3, known=((1, 12),))),
        Case(name="a token that's there twice", inputs=partial(_to_fill, n=7, position=4, k=3, known=((4, 3), (6, 3)))),
        Case(name="float64", inputs=partial(_to_fill, n=7, position=4, k=5), dtype=torch.float64),
        Case(  # one guess: the others' probabilities are all 0, and in no order
            name="logits that are far too large for exp",
            inputs=partial(_to_fill, n=7, position=3, k=1, scale=150.0),
            dtype=torch.float64,
            magnitude=LARGE,
        ),
        Case(
            name="the ids afterwards",
            inputs=partial(_to_fill, n=7, position=5, k=3),
            part="ids as they were",
            mutation=True,
        ),
        Case(name="other sizes", inputs=partial(_to_fill, n=23, position=17, k=4, vocab=29, d=11), hidden=True),
    ),
    pairs=("not_masked", "one_position_early", "shared_among_k"),
)


TABLES = "albert.embeddings"
WIDER = "albert.encoder.embedding_hidden_mapping_in"


def _tables(draw: Draw, *, b: int, n: int, d: int, wide: int, vocab: int = 11) -> tuple[Any, ...]:
    """Draw tables with numbers as small as published ones."""
    weights = {
        f"{TABLES}.word_embeddings.weight": draw.normal(vocab, d, scale=0.02),
        f"{TABLES}.position_embeddings.weight": draw.normal(n + 4, d, scale=0.02),
        f"{TABLES}.token_type_embeddings.weight": draw.normal(2, d, scale=0.02),
        f"{TABLES}.LayerNorm.weight": draw.normal(d, scale=0.3, shift=1.0),
        f"{TABLES}.LayerNorm.bias": draw.normal(d, scale=0.3),
        f"{WIDER}.weight": draw.normal(wide, d, scale=d**-0.5),
        f"{WIDER}.bias": draw.normal(wide, scale=0.3),
        "albert.pooler.bias": draw.normal(wide),
    }
    return weights, draw.integers(0, vocab, (b, n))


MEND_TABLES = WrittenExercise(
    name="mend_tables",
    lesson=LESSON,
    contract="weights (tensors by their published names), ids (b, n) -> the first layer's input (b, n, d_model): word, "
    "position and kind (always the first) added, a norm with eps 1e-12, and the layer that widens",
    parts={"values": 2},
    excused={
        "the device that was given": "The weights come from a file.",
        "memory that is not contiguous": "Whole numbers are looked up, wherever they are.",
    },
    detachable=("output",),
    cases=(
        Case(name="two texts of seven tokens", inputs=partial(_tables, b=2, n=7, d=8, wide=12)),
        Case(name="one token", inputs=partial(_tables, b=1, n=1, d=5, wide=7)),
        Case(name="float64", inputs=partial(_tables, b=3, n=4, d=6, wide=9), dtype=torch.float64),
        Case(name="the tables afterwards", inputs=partial(_tables, b=2, n=5, d=8, wide=12), mutation=True),
        Case(name="other sizes", inputs=partial(_tables, b=3, n=13, d=16, wide=24, vocab=31), hidden=True),
    ),
    pairs=("kind_left_out", "own_eps_for_theirs", "kinds_by_position"),
    without=("kind_left_out_and_own_eps_for_theirs",),  # that is how the code is given
)


def _heads(
    draw: Draw, *, lead: tuple[int, ...], left: int, right: int, kinds: int = 2, alone: bool = False
) -> tuple[Tensor, ...]:
    """Tables of a text in which every third token is no atom; the element of one product atom may be on no left."""
    n = 3 * (left + right) // 2 + 5
    places = [i for i in range(1, n - 1) if i % 3]
    before, after = torch.tensor(places[:left]), torch.tensor(places[left + 1 : left + 1 + right])
    elements = torch.full((n,), -1)
    elements[before] = torch.arange(left) % kinds
    elements[after] = draw.integers(0, kinds, (right,))
    if alone:
        elements[after[1]] = kinds
    return draw.normal(*lead, n, n, scale=1.7).softmax(dim=-1), before, after, elements


def _mapped(name: str, lead: tuple[int, ...], left: int, right: int, **more: Any) -> Case:
    made = {key: more.pop(key) for key in ("kinds", "alone") if key in more}
    return Case(name=name, inputs=partial(_heads, lead=lead, left=left, right=right, **made), **more)


def _by_pencil() -> Inputs:
    """Two carbons and an oxygen before, an oxygen and a carbon after; 1 is the arrow."""
    weights = torch.zeros(6, 6)
    weights[4, :3] = torch.tensor([0.5, 0.1, 0.3])
    weights[5, :3] = torch.tensor([0.2, 0.4, 0.1])
    weights[:3, 4] = torch.tensor([0.0, 0.1, 0.5])
    weights[:3, 5] = torch.tensor([0.5, 0.0, 0.1])
    return weights, torch.tensor([0, 1, 2]), torch.tensor([4, 5]), torch.tensor([6, 6, 8, -1, 8, 6])


ATOM_MAP = WrittenExercise(
    name="atom_map",
    lesson=LESSON,
    contract="weights (…, n, n), before (r,) and after (p,): where atoms are in the text, elements (n,) -> origins "
    "(…, p): for each atom after the arrow its place in `before`, −1 without one of its element; shares (…, p, r): "
    "both directions added, other elements 0, each row divided by its sum, and all 0 where there is none",
    parts={"values": 3, "no partner": 1, "robustness": 1},
    outputs=("origins", "shares"),
    detachable=("shares",),
    cases=(
        _mapped("one head", (), 7, 5),
        _mapped("another reaction", (), 5, 3),
        _mapped("two layers of three heads", (2, 3), 11, 7, kinds=3),
        _mapped("one atom made of two", (), 2, 1, kinds=1),
        _mapped("an element that comes from nowhere", (), 7, 5, alone=True, part="no partner"),
        _mapped("an element from nowhere, three heads", (3,), 5, 7, alone=True, part="no partner"),
        _mapped("float64", (2,), 7, 5, dtype=torch.float64, part="robustness"),
        _mapped("another device", (2,), 7, 5, other_device=True, part="robustness"),
        _mapped("other sizes", (3, 5), 13, 11, kinds=4, hidden=True),
        _mapped("other sizes, float64", (2,), 17, 5, kinds=3, dtype=torch.float64, part="robustness", hidden=True),
        _mapped("other sizes, from nowhere", (2, 2), 11, 5, alone=True, part="no partner", hidden=True),
    ),
    example=_by_pencil,
    shown="shares",
    pairs=("only_the_product_asks", "elements_ignored", "largest_taken_for_all"),
)


def _drawn_answers(
    draw: Draw, *, depth: int, heads: int, sizes: tuple[tuple[int, int], ...], alone: bool = False
) -> tuple[Any, ...]:
    """Draw reactions of (p, r) atoms; heads that guess among the partners, and one that is right more often."""
    origins, truths, partners = [], [], []
    good = int(draw.integers(0, depth * heads, (1,)))
    for p, r in sizes:
        kinds = draw.integers(0, 2, (p,))
        partner = kinds[:, None] == torch.arange(r) % 2
        right = (2 * draw.integers(0, r // 2, (p,)) + kinds)[:, None] == torch.arange(r)
        second = partner & (draw.integers(0, 4, (p, r)) == 0)
        truth = right | second
        guess = 2 * draw.integers(0, r // 2, (depth * heads, p)) + kinds
        guess[good] = torch.where(draw.integers(0, 8, (p,)) > 0, right.int().argmax(dim=1), guess[good])
        if alone:
            partner[0], truth[0], guess[:, 0] = False, False, -1
            truth[0, [0, -1]] = True  # an atom whose element is nowhere on the left: no guess, and nobody's hit
        origins.append(guess.unflatten(0, (depth, heads)))
        truths.append(truth)
        partners.append(partner)
    return origins, truths, partners


def _answers(draw: Draw, **sizes: Any) -> tuple[Any, ...]:
    """Draw answers again until one head is better than all others: with a tie, either of two would be right."""
    while True:
        inputs = _drawn_answers(draw, **sizes)
        best, second = plain_answer(LESSON, "find_head")(*inputs)[0].flatten().topk(2).values
        if best > second:
            return inputs


def _found(name: str, depth: int, heads: int, *sizes: tuple[int, int], alone: bool = False, **more: Any) -> Case:
    return Case(name=name, inputs=partial(_answers, depth=depth, heads=heads, sizes=sizes, alone=alone), **more)


FIND_HEAD = WrittenExercise(
    name="find_head",
    lesson=LESSON,
    contract="three lists with an entry for each reaction: origins (depth, h, p) of `atom_map`, truths (p, r), True = "
    "a right origin, partners (p, r), True = of the same element -> hits (depth, h), the share of all product atoms "
    "that a head gets right; chance, what it would be for a guess among the partners; layer and head of the best, (2,)",
    parts={"values": 3, "no partner": 1},
    outputs=("hits", "chance", "best"),
    excused={
        "the device that was given": "Layer and head may be collected as Python's numbers.",
        "memory that is not contiguous": "Whole numbers are looked up, wherever they are.",
    },
    cases=(
        _found("three reactions", 3, 5, (7, 8), (11, 4), (2, 6)),
        _found("two reactions, the second one long", 2, 3, (3, 6), (17, 10)),
        _found("one reaction", 5, 2, (13, 6)),
        _found("an element that is on the left once", 3, 2, (29, 3), (23, 8)),
        _found("an atom that comes from nowhere", 3, 5, (7, 8), (5, 4), alone=True, part="no partner"),
        _found("from nowhere, in one reaction", 2, 3, (5, 6), alone=True, part="no partner"),
        _found("more reactions", 7, 3, (5, 4), (19, 12), (3, 10), (11, 6), hidden=True),
        _found(
            "more reactions, with atoms from nowhere", 4, 7, (5, 4), (13, 8), alone=True, part="no partner", hidden=True
        ),
    ),
    pairs=("mean_of_reactions", "chance_one_in_all", "one_right_answer"),
)

PREDICT_OTHER_SPELLING = prediction(
    name="predict_other_spelling",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": what the head says of the ester when the same reaction is written in another order',
    reference="D",
    explanation="The model has read decades of reactions from patents, nearly all in one canonical spelling. In "
    "another spelling, no rule of chemistry keeps it from changing its mind, and a row of weights always adds up to 1.",
)

EXERCISES = (
    PREDICT_WHAT_IS_NEEDED,
    SHARED_ENCODER,
    LOAD_ENCODER,
    FILL_IN,
    MEND_TABLES,
    ATOM_MAP,
    FIND_HEAD,
    PREDICT_OTHER_SPELLING,
)
