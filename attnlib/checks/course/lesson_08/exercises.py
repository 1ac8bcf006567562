"""Exercises of lesson 08: a language model, from its loss to the text that it writes."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks.asking.given import GENERATOR, MODEL, described, made
from attnlib.checks.asking.ready_made import BLOCKS
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.trained import trained
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case

LESSON = "08_language_model"

PREDICT_FIRST_LOSS = prediction(
    name="predict_first_loss",
    lesson=LESSON,
    contract="the loss of an untrained model over 35 characters",
    reference="C",
    explanation="A model that knows nothing gives each of V tokens the probability 1/V, and -ln(1/V) = ln V: for 35 "
    "characters, 3.56. If the first loss is far above that, the model starts out with opinions, and they're wrong.",
)

PREDICT_OVERFITTED = prediction(
    name="predict_overfitted",
    lesson=LESSON,
    contract="how far the loss falls when a model learns eight lines by heart, all of which begin alike",
    reference="C",
    explanation="All eight begin with the same two characters, and then comes the first digit of the colour. Nobody "
    "can know which line it is until the lines diverge. Everything after that is known by heart, and costs next to "
    "nothing.",
)


def _guesses(
    draw: Draw, *, b: int, n: int, vocab: int, ignore: int | None = None, given: bool = False, spread: float = 1.5
) -> tuple[Any, ...]:
    """Draw logits and ids; `ignore` pads the texts, and is also inside one of them."""
    logits, ids = draw.normal(b, n, vocab, scale=spread), draw.integers(0, vocab, (b, n))
    if ignore is None:
        return logits, ids
    for row in range(b):
        ids[row, n - row - 1 :] = ignore
    ids[0, 2] = ignore
    return (logits, ids, ignore) if given else (logits, ids)


def _rough(draw: Draw, *, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Draw the guesses in half precision, or in float64 where that is asked for throughout."""
    logits, ids = _guesses(draw, b=3, n=7, vocab=5)
    return logits.to(dtype) if draw.dtype == torch.float32 else logits, ids


_GUESSES: dict[str, Any] = {"b": 2, "n": 5, "vocab": 7}

NEXT_TOKEN_LOSS = WrittenExercise(
    name="next_token_loss",
    lesson=LESSON,
    contract="logits (b, n, vocab), ids (b, n), ignore_index=-100 -> a scalar: the mean of -ln p of each id at i + 1, "
    "by the logits at i",
    parts={"values": 1, "ignored": 1, "gradient": 1, "robustness": 1},
    excused={"large scores": "The logits are inputs, and a case has some that are a thousand times as large."},
    cases=(
        *usual_cases(
            _guesses,
            _GUESSES,
            one={"b": 1, "n": 3, "vocab": 11},
            word=_GUESSES,
            more=[{"b": 3, "n": 11, "vocab": 5}, {"b": 5, "n": 2, "vocab": 13}],
        ),
        Case(
            name="logits a thousand times as large",
            inputs=partial(_guesses, **_GUESSES, spread=1500.0),
            part="robustness",
        ),
        Case(name="logits in bfloat16", inputs=partial(_rough, dtype=torch.bfloat16), part="robustness"),
        Case(name="logits in float16", inputs=partial(_rough, dtype=torch.float16), part="robustness"),
        Case(name="padded with -100", inputs=partial(_guesses, b=3, n=7, vocab=5, ignore=-100), part="ignored"),
        Case(
            name="padded with 0",
            inputs=partial(_guesses, b=3, n=7, vocab=5, ignore=0, given=True),
            part="ignored",
        ),
        Case(
            name="padded, other sizes",
            inputs=partial(_guesses, b=4, n=11, vocab=3, ignore=-1, given=True),
            part="ignored",
            hidden=True,
        ),
    ),
    pairs=("not_shifted", "past_predicted", "summed", "softmax_before_the_loss", "logarithm_of_base_2"),
)


PREDICT_BITS = prediction(
    name="predict_bits",
    lesson=LESSON,
    contract="which of two models, with tokens of different lengths, would compress a text better",
    reference="B",
    explanation="Divide the loss of a token among its characters: 3.2 / 4 = 0.8 nats per character, or 0.8 / ln 2 = "
    "1.15 bits. The other model needs 1.3 nats, 1.88 bits. A loss means nothing until you know what it's per.",
)


def _in_a_block(draw: Draw, *, b: int, n: int, sizes: tuple[int, ...], k: int = 0) -> tuple[tuple[Any, ...], Any]:
    """Draw inputs of a block; with k, a memory of k positions, as wide as the last of the sizes."""
    x = draw.normal(b, n, sizes[0], scale=1.3, shift=0.5)
    return sizes, (x, draw.normal(b, k, sizes[-1], scale=1.3, shift=0.5)) if k else (x,)


def _with_zeros(draw: Draw) -> tuple[tuple[Any, ...], Any]:
    """Draw inputs of a block, with a memory of zeros: its keys and values are the biases."""
    sizes, (x, memory) = _in_a_block(draw, b=2, n=5, k=7, sizes=(12, 3, 10))
    return sizes, (x, torch.zeros_like(memory))


_WITH_MEMORY = usual_cases(
    _in_a_block,
    {"b": 2, "n": 5, "k": 7, "sizes": (12, 3, 10)},
    one={"b": 1, "n": 3, "k": 4, "sizes": (20, 5, 6)},
    word={"b": 2, "n": 1, "k": 1, "sizes": (12, 3, 10)},
    more=[{"b": 3, "n": 7, "k": 2, "sizes": (8, 2, 5)}, {"b": 2, "n": 3, "k": 11, "sizes": (12, 4, 13)}],
)

DECODER_BLOCK = WrittenExercise(
    name="DecoderBlock",
    lesson=LESSON,
    contract="DecoderBlock(d_model, num_heads, d_memory=None), forward(x, memory=None): (b, n, d_model), "
    "(b, k, d_memory) -> (b, n, d_model); pre-LN, causal",
    parts={"values": 3, "memory": 2, "gradient": 1, "robustness": 1},
    kind="module",
    attends=True,
    forbidden=(
        "attnlib.EncoderBlock.forward",
        "attnlib.Encoder.forward",
        "attnlib.DecoderBlock.forward",
        "attnlib.Decoder.forward",
        BLOCKS,
    ),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _in_a_block,
            {"b": 2, "n": 5, "sizes": (12, 3)},
            one={"b": 1, "n": 3, "sizes": (20, 5)},
            more=[{"b": 3, "n": 7, "sizes": (8, 2)}, {"b": 2, "n": 11, "sizes": (12, 4)}],
        ),
        *(
            replace(
                case,
                name=f"with a memory: {case.name}",
                part="memory" if case.part == "values" else case.part,
                given="a memory",
            )
            for case in _WITH_MEMORY
        ),
        Case(name="one head", inputs=partial(_in_a_block, b=2, n=5, sizes=(6, 1))),
        Case(name="with a memory of zeros", inputs=_with_zeros, part="memory", given="a memory"),
        Case(
            name="with a memory as wide as the words",
            inputs=partial(_in_a_block, b=2, n=5, k=7, sizes=(12, 3, 12)),
            part="memory",
            given="a memory",
        ),
    ),
    pairs=("future_seen", "memory_never_read", "norm2_for_the_mlp", "first_norm_forgotten"),
    without=("mask_lives_on", "first_key_mask_kept"),  # a memory is no mask
)


class LanguageModel(nn.Module):
    """The contract's form: blocks in a list, and tables that nn.Embedding keeps."""

    def __init__(self, vocab: int, d_model: int, num_heads: int, depth: int, max_len: int, tie: bool = True) -> None:
        super().__init__()
        self.max_len = max_len
        self.embed = nn.Embedding(vocab, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(DECODER_BLOCK.reference(d_model, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        if ids.shape[1] > self.max_len:
            raise ValueError(f"a text has at most max_len = {self.max_len} ids, got {ids.shape[1]}")
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def _texts(draw: Draw, *, b: int, n: int, sizes: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    return sizes, (draw.integers(0, sizes[0], (b, n)),)


_SIZES = (11, 12, 3, 2, 7)
"""vocab, d_model, num_heads, depth, max_len."""

LANGUAGE_MODEL = WrittenExercise(
    name="LanguageModel",
    lesson=LESSON,
    contract="LanguageModel(vocab, d_model, num_heads, depth, max_len, tie=True), forward: ids (b, n), "
    "n <= max_len -> logits (b, n, vocab)",
    parts={"values": 3, "an untied head": 1, "gradient": 1, "robustness": 1},
    reference=LanguageModel,
    kind="module",
    attends=True,
    forbidden=("attnlib.LanguageModel.forward",),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _texts,
            {"b": 2, "n": 5, "sizes": _SIZES},
            one={"b": 1, "n": 3, "sizes": (5, 8, 2, 1, 4)},
            more=[{"b": 3, "n": 7, "sizes": (13, 8, 2, 3, 9)}, {"b": 2, "n": 11, "sizes": (17, 12, 4, 2, 11)}],
            room=False,
        ),
        Case(name="as long as max_len", inputs=partial(_texts, b=3, n=7, sizes=_SIZES)),
        Case(name="a large vocabulary", inputs=partial(_texts, b=3, n=5, sizes=(501, 12, 3, 2, 7))),
        Case(name="one head", inputs=partial(_texts, b=2, n=5, sizes=(7, 6, 1, 2, 5))),
        Case(
            name="longer than max_len",
            inputs=partial(_texts, b=3, n=8, sizes=_SIZES),
            raises=True,
            part="robustness",
        ),
        Case(
            name="self.max_len",
            inputs=partial(_texts, b=2, n=5, sizes=_SIZES),
            keeps=("max_len",),
            part="robustness",
        ),
        Case(
            name="tie=False",
            inputs=partial(_texts, b=2, n=5, sizes=(*_SIZES, False)),
            part="an untied head",
            gradient=True,
            dtype=torch.float64,
        ),
        Case(
            name="tie=False, other sizes",
            inputs=partial(_texts, b=3, n=4, sizes=(7, 20, 5, 1, 5, False)),
            part="an untied head",
            hidden=True,
        ),
    ),
    pairs=("places_left_out", "stack_not_normed", "future_open_to_blocks", "places_counted_from_one"),
    without=("places_left_out_and_places_counted_from_one",),
)


FEW_DRAWS, DRAWS = 2_000, 10_000
FITTING, UNLIKELY = 10.0, 50.0
"""Pearson's chi-square with four degrees of freedom, for five tokens, is above these 4 times in 100, once in 10^9."""


def likelihoods(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Return the distribution (vocab) that `sample_next`'s contract requires, worked out token by token."""
    scores = [score / temperature for score in logits.double().tolist()]
    if top_k is not None:
        least = sorted(scores, reverse=True)[:top_k][-1]
        scores = [score if score >= least else -math.inf for score in scores]
    weights = [math.exp(score - max(scores)) for score in scores]
    shares = [weight / sum(weights) for weight in weights]
    reached, nucleus = 0.0, set()
    for token in sorted(range(len(shares)), key=lambda token: -shares[token]):
        if top_p is None or reached < top_p:
            nucleus.add(token)
        reached += shares[token]
    kept = torch.tensor([share if token in nucleus else 0.0 for token, share in enumerate(shares)])
    return kept / kept.sum()


def misfits(drawn: Tensor, expected: Tensor) -> Tensor:
    """Return by row how far the tokens' shares in the draws are from the expected ones: Pearson's chi-square."""
    seen, draws = _shares(drawn, expected), drawn.numel() / len(expected)
    return (draws * (seen - expected).square() / expected.clamp(min=1e-9)).sum(dim=-1, keepdim=True)


def _shares(drawn: Tensor, expected: Tensor) -> Tensor:
    rows, vocab = expected.shape
    return torch.nn.functional.one_hot(drawn.reshape(rows, -1).clamp(0, vocab - 1), vocab).double().mean(dim=1)


def shares_of(drawn: Tensor, expected: Tensor) -> Tensor:
    """Return by row each token's share in the draws, replaced by the expected one where chance may explain the gap.

    Elsewhere the share is rounded to a twentieth, so that two answers that draw in different ways can be compared.
    """
    seen = _shares(drawn, expected)
    return torch.where(misfits(drawn, expected) < UNLIKELY, expected, (20 * seen).round().to(expected.dtype) / 20)


def _in_many_draws(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return the share of each token in 10,000 draws from each row; a result that isn't one id per row stays as it is.

    If 2,000 draws fit well, the other 8,000 are spared: an answer may draw row by row.
    """
    logits, *options = inputs
    expected = torch.stack([likelihoods(row, *options[:3]) for row in logits])
    for draws in (FEW_DRAWS, DRAWS):
        (drawn,) = asked(logits.repeat_interleave(draws, dim=0), *options)
        if drawn.numel() != draws * len(logits):
            return (drawn,)
        if bool((misfits(drawn.long(), expected) < FITTING).all()):
            break
    return (shares_of(drawn.long(), expected).to(logits.dtype),)


def _form_of_a_draw(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return the shape and dtype of what is drawn, without the numbers."""
    (drawn,) = asked(*inputs)
    return (torch.zeros_like(drawn),)


def _alike_with_one_seed(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return whether the same generator gives the same result again, and whether another one does."""
    *others, generator = inputs
    (first,), (second,) = asked(*inputs), asked(*inputs)
    (third,) = asked(*others, {GENERATOR: generator[GENERATOR] + 1})
    alike = [first.shape == other.shape and torch.equal(first, other) for other in (second, third)]
    return (torch.tensor(alike).long(),)


def _whether_drawn_anew(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return whether two calls with the same arguments differ."""
    (first,), (second,) = asked(*inputs), asked(*inputs)
    return (torch.tensor(not torch.equal(first, second)),)


Rows = tuple[tuple[float, ...], ...]
ONE_ROW: Rows = ((0.4, 0.25, 0.2, 0.1, 0.05),)
TWO_ROWS: Rows = (*ONE_ROW, (0.55, 0.2, 0.15, 0.07, 0.03))


def _shared(draw: Draw, *, rows: Rows, options: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Logits over the tokens, with these probabilities in an order that is drawn."""
    orders = [draw.normal(len(row)).argsort() for row in rows]
    logits = torch.stack([torch.tensor(row).log()[order] for row, order in zip(rows, orders, strict=True)])
    return (logits.to(draw.dtype) + 1.5, *options)


def _drawn(name: str, *options: Any, part: str = "values", rows: Rows = ONE_ROW, **more: Any) -> Case:
    def inputs(draw: Draw) -> tuple[Any, ...]:
        return _shared(draw, rows=rows, options=options)

    return Case(name=name, inputs=inputs, part=part, probe=_in_many_draws, **more)


def _best(draw: Draw, *, b: int, vocab: int, ties: bool = False) -> tuple[Any, ...]:
    logits = draw.normal(b, vocab, scale=2.0)
    if ties:
        logits[:, [1, vocab // 2]] = logits.amax(dim=-1, keepdim=True) + 1.0
    return logits, 0.0


SAMPLE_NEXT = WrittenExercise(
    name="sample_next",
    lesson=LESSON,
    contract="logits (b, vocab), temperature=1.0, top_k=None, top_p=None, generator=None -> (b): one id for each row, "
    "drawn",
    parts={"values": 2, "top_k": 1, "top_p": 1, "generator": 1},
    reference=attnlib.sample_next,
    excused={"large scores": "The logits are inputs, and a case divides them by a temperature of 0.001."},
    forbidden=("attnlib.sample_next", "attnlib.generate"),
    cases=(
        Case(name="one draw from each of two rows", inputs=partial(_shared, rows=TWO_ROWS), probe=_form_of_a_draw),
        _drawn("10,000 draws from each of two rows", rows=TWO_ROWS),
        _drawn("10,000 draws at temperature 2", 2.0),
        _drawn("10,000 draws at temperature 0.5", 0.5),
        _drawn("10,000 draws at temperature 0.001", 0.001),
        _drawn("10,000 draws, float64", 1.0, dtype=torch.float64),
        Case(name="temperature 0", inputs=partial(_best, b=11, vocab=7), mutation=True),
        Case(name="temperature 0, one row", inputs=partial(_best, b=1, vocab=11)),
        Case(name="temperature 0, two best", inputs=partial(_best, b=6, vocab=7, ties=True)),
        _drawn("10,000 draws from each of two rows with top_k = 2", 1.0, 2, part="top_k", rows=TWO_ROWS),
        _drawn("10,000 draws with top_k = 1", 1.0, 1, part="top_k"),
        Case(name="top_k = 1, one row", inputs=lambda draw: (draw.normal(1, 7), 1.0, 1), part="top_k"),
        Case(
            name="top_k = 1 at temperature 2",
            inputs=lambda draw: (draw.normal(5, 11), 2.0, 1),
            part="top_k",
            mutation=True,
        ),
        _drawn("10,000 draws with a tie at top_k = 3", 1.0, 3, part="top_k", rows=((0.3, 0.2, 0.2, 0.2, 0.1),)),
        _drawn("10,000 draws with top_k = 5 of 5", 1.0, 5, part="top_k"),
        _drawn("10,000 draws with top_k = 9 of 5", 1.0, 9, part="top_k"),
        _drawn("10,000 draws with top_p = 0.7", 1.0, None, 0.7, part="top_p"),
        _drawn("10,000 draws with top_p = 0.3", 1.0, None, 0.3, part="top_p"),
        _drawn("10,000 draws from each of two rows with top_p = 0.7", 1.0, None, 0.7, part="top_p", rows=TWO_ROWS),
        _drawn("10,000 draws with top_p = 0.001", 1.0, None, 0.001, part="top_p"),
        _drawn("10,000 draws with top_p = 1", 1.0, None, 1.0, part="top_p"),
        _drawn("10,000 draws with top_p = 0.7 at temperature 0.5", 0.5, None, 0.7, part="top_p"),
        _drawn("10,000 draws with top_k = 3 and top_p = 0.75", 1.0, 3, 0.75, part="top_p"),
        _drawn("10,000 draws with top_k = 2 and top_p = 0.75", 1.0, 2, 0.75, part="top_p"),
        _drawn("10,000 draws with top_k = 3 and top_p = 0.5", 1.0, 3, 0.5, part="top_p"),
        Case(
            name="two generators of one seed",
            inputs=lambda draw: (draw.normal(50, 7), 1.0, None, None, {GENERATOR: 3}),
            part="generator",
            probe=_alike_with_one_seed,
        ),
        Case(
            name="two calls without a generator",
            inputs=lambda draw: (draw.normal(50, 7),),
            part="generator",
            probe=_whether_drawn_anew,
        ),
        Case(
            name="the generator afterwards",
            inputs=lambda draw: (draw.normal(50, 7), 1.0, None, None, {GENERATOR: 3, "moved": torch.tensor(0)}),
            part="generator",
            probe=_form_of_a_draw,
            mutation=True,
        ),
        Case(
            name="top_k and top_p, on another device",
            inputs=partial(_shared, options=(1.5, 3, 0.75), rows=TWO_ROWS),
            part="top_p",
            other_device=True,
        ),
        _drawn("10,000 draws at temperature 1.7", 1.7, hidden=True),
        _drawn("10,000 draws from a vocabulary of one token", rows=((1.0,),), hidden=True),
        _drawn("10,000 draws with top_k = 4", 1.0, 4, part="top_k", hidden=True),
        _drawn("10,000 draws with top_k = 3 and top_p = 1", 1.0, 3, 1.0, part="top_p", hidden=True),
        _drawn("10,000 draws with top_p = 0.9", 1.0, None, 0.9, part="top_p", hidden=True),
        Case(name="temperature 0, other sizes", inputs=partial(_best, b=7, vocab=31, ties=True), hidden=True),
    ),
    pairs=("temperature_multiplied", "ties_dropped", "crossing_left_out", "generator_unused"),
)


def _small_model(draw: Draw, *, vocab: int, max_len: int, training: bool, learns: bool = False) -> dict[str, Any]:
    weights = {"embed": draw.normal(vocab, 8), "places": draw.normal(max_len, 8)}
    return described("SmallModel", (vocab, max_len, 8), weights, training=training, learns=learns)


def _begun(
    draw: Draw,
    *,
    b: int,
    n: int,
    vocab: int,
    max_len: int,
    more: int,
    training: bool = False,
    options: tuple[Any, ...] = (0.0,),
    alike: bool = False,
) -> tuple[Any, ...]:
    """Draw a model and prompts; with `alike`, every next token is equally likely."""
    model = _small_model(draw, vocab=vocab, max_len=max_len, training=training)
    model[MODEL]["weights"]["embed"] *= not alike
    return model, draw.integers(0, vocab, (b, n)), more, *options


def _stopped(draw: Draw, *, b: int, in_prompt: bool = False, as_zero: bool = False, **sizes: Any) -> tuple[Any, ...]:
    """With the stop_id with which the rows stop at the most different times, and all of them before the end if b is 1.

    With `in_prompt`, the prompts hold it as well; with `as_zero`, it is token 0, and 0 that one. The model is drawn
    again until some row, if it did not stop, would go on with other tokens while the rest still write.
    """
    first: dict[int, list[int]] = {}
    while not first:
        model, ids, more, *_ = _begun(draw, b=b, **sizes)
        written = attnlib.generate(made((model,))[0], ids, more, 0.0)[:, ids.shape[1] :]
        first = {
            token: [row.tolist().index(token) if token in row else more + 1 for row in written]
            for token in written[:, :-2].unique().tolist()
            if token > 0
        }
        first = {token: at for token, at in first.items() if b == 1 or _would_go_on(written, token, at)}
    stop_id = max(first, key=lambda token: (len({*first[token]}), -sum(first[token])))
    if in_prompt:
        ids[:, 0] = stop_id
    if as_zero:
        embed, now = model[MODEL]["weights"]["embed"], torch.arange(sizes["vocab"])
        now[[0, stop_id]] = now[[stop_id, 0]]
        embed.copy_(embed[now])
        ids, stop_id = now[ids], 0
    return model, ids, more, 0.0, None, None, stop_id


def _would_go_on(written: Tensor, token: int, first: list[int]) -> bool:
    return any(bool((row[at : max(first) + 1] != token).any()) for row, at in zip(written, first, strict=True))


def _next_in_many_texts(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The share of each token among the first ones that follow one prompt, 10,000 times."""
    model, ids, more, *options = inputs
    (written,) = asked(model, ids.repeat(DRAWS, 1), more, *options)
    if written.shape != (DRAWS, ids.shape[1] + more) or written.dtype != torch.int64:
        return (written,)
    with torch.no_grad():
        logits = made((model,))[0](ids)[:, -1]
    expected = torch.stack([likelihoods(row, *options[:3]) for row in logits])
    return (shares_of(written[:, ids.shape[1]], expected).to(logits.dtype),)


def _whether_the_dice_go_on(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return, for each step, whether its tokens differ from the step before, where only chance decides."""
    _model, ids, *_ = inputs
    (written,) = asked(*inputs)
    new = written[:, ids.shape[1] :]
    return ((new[:, 1:] != new[:, :-1]).any(dim=0).long(),)


_SMALL: dict[str, Any] = {"b": 3, "n": 4, "vocab": 11, "max_len": 9, "more": 5}
_LONG: dict[str, Any] = {"b": 7, "n": 4, "vocab": 11, "max_len": 5, "more": 7}
_FIVE: dict[str, Any] = {"b": 1, "n": 3, "vocab": 5, "max_len": 6, "more": 1}

GENERATE = WrittenExercise(
    name="generate",
    lesson=LESSON,
    contract="model, ids (b, n), num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None -> "
    "(b, n + up to num_tokens)",
    parts={"values": 2, "window": 1, "stop": 1, "mode": 1},
    reference=attnlib.generate,
    forbidden=("attnlib.generate",),
    cases=(
        Case(name="five tokens at temperature 0", inputs=partial(_begun, **_SMALL)),
        Case(name="one text", inputs=partial(_begun, **{**_SMALL, "b": 1, "n": 2, "more": 6})),
        Case(name="one token", inputs=partial(_begun, **{**_SMALL, "more": 1})),
        Case(name="10,000 texts", inputs=partial(_begun, **_FIVE, options=()), probe=_next_in_many_texts),
        Case(
            name="10,000 texts at temperature 0.5",
            inputs=partial(_begun, **_FIVE, options=(0.5,)),
            probe=_next_in_many_texts,
        ),
        Case(
            name="10,000 texts with top_k = 3",
            inputs=partial(_begun, **_FIVE, options=(2.0, 3)),
            probe=_next_in_many_texts,
        ),
        Case(
            name="10,000 texts with top_p = 0.6",
            inputs=partial(_begun, **_FIVE, options=(2.0, None, 0.6)),
            probe=_next_in_many_texts,
        ),
        Case(
            name="10,000 texts with top_k = 3 and top_p = 0.6",
            inputs=partial(_begun, **_FIVE, options=(2.0, 3, 0.6)),
            probe=_next_in_many_texts,
        ),
        Case(
            name="two generators of one seed",
            inputs=partial(_begun, **{**_SMALL, "b": 20}, options=(1.0, None, None, None, {GENERATOR: 3})),
            probe=_alike_with_one_seed,
        ),
        Case(
            name="two calls without a generator",
            inputs=partial(_begun, **{**_SMALL, "b": 20}, options=(1.0,)),
            probe=_whether_drawn_anew,
        ),
        Case(
            name="a generator, and a model that makes no difference",
            inputs=partial(_begun, **_SMALL, options=(1.0, None, None, None, {GENERATOR: 3}), alike=True),
            probe=_whether_the_dice_go_on,
        ),
        Case(name="beyond max_len", inputs=partial(_begun, **_LONG), part="window"),
        Case(name="a prompt longer than max_len", inputs=partial(_begun, **{**_LONG, "n": 8}), part="window"),
        Case(
            name="three texts that stop apart",
            inputs=partial(_stopped, **{**_SMALL, "more": 8, "max_len": 12}),
            part="stop",
        ),
        Case(
            name="one text that stops",
            inputs=partial(_stopped, **{**_SMALL, "b": 1, "more": 8, "max_len": 12}),
            part="stop",
        ),
        Case(
            name="three texts that stop apart, at token 0",
            inputs=partial(_stopped, **{**_SMALL, "more": 8, "max_len": 12}, as_zero=True),
            part="stop",
        ),
        Case(
            name="a stop_id in the prompt",
            inputs=partial(_stopped, **{**_SMALL, "more": 8, "max_len": 12}, in_prompt=True),
            part="stop",
        ),
        Case(
            name="on another device",
            inputs=partial(_stopped, **{**_SMALL, "more": 8, "max_len": 12}),
            part="stop",
            other_device=True,
        ),
        Case(
            name="a model in training mode", inputs=partial(_begun, **_SMALL, training=True), part="mode", mutation=True
        ),
        Case(
            name="a model in training mode, and a text that stops",
            inputs=partial(_stopped, **{**_SMALL, "b": 1, "more": 8, "max_len": 12}, training=True),
            part="mode",
            mutation=True,
        ),
        Case(name="a model in evaluation mode", inputs=partial(_begun, **_SMALL), part="mode", mutation=True),
        Case(
            name="other sizes",
            inputs=partial(_begun, b=5, n=3, vocab=17, max_len=4, more=9),
            part="window",
            hidden=True,
        ),
        Case(
            name="five texts that stop apart",
            inputs=partial(_stopped, b=5, n=3, vocab=7, max_len=5, more=9, training=True),
            part="stop",
            hidden=True,
        ),
        Case(
            name="a model in training mode, other sizes",
            inputs=partial(_begun, **_LONG, training=True),
            part="mode",
            mutation=True,
            hidden=True,
        ),
    ),
    pairs=("dropout_goes_on", "window_not_cut", "never_over"),
    without=("tested_in_training", "history_of_the_tests"),
)


def _to_train(
    draw: Draw,
    *,
    steps: int,
    b: int,
    n: int,
    vocab: int,
    every: int,
    warmup: int = 3,
    training: bool = True,
    rate: float = 0.05,
) -> tuple[Any, ...]:
    """Draw ids and targets, with no target at the end of most lines, nor in the middle of the first."""
    model = _small_model(draw, vocab=vocab, max_len=n + 2, training=training, learns=True)
    model[MODEL]["weights"]["embed"] *= 1.5
    batches = draw.integers(0, vocab, (steps, 1, b, n)).repeat(1, 2, 1, 1)
    held_out = draw.integers(0, vocab, (1, b + 2, n - 1)).repeat(2, 1, 1)
    for targets in (*batches[:, 1], held_out[1]):
        targets[0, 2] = -100
        for i, row in enumerate(targets):
            row[len(row) - i % (len(row) - 1) :] = -100
    return model, batches, held_out, rate, warmup, every


def _mode_left(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return whether the model is in training mode after the call."""
    asked(*inputs)
    (mode,) = (left for left in asked.left() if left.dtype == torch.bool)
    return (mode.long(),)


_NINE: dict[str, Any] = {"steps": 9, "b": 3, "n": 6, "vocab": 11, "every": 3}

TRAIN_LANGUAGE_MODEL = WrittenExercise(
    name="train_language_model",
    lesson=LESSON,
    contract="model, batches (steps, 2, b, n) of ids and targets, held_out (2, c, m), rate, warmup, every -> "
    "(1 + steps // every): the losses on held_out, before the first step and after every `every` steps",
    parts={"values": 4, "mode": 2, "robustness": 1},
    excused={
        "large scores": "The model is given, and its logits are not large.",
        "the device that was given": "The losses may be collected as Python's numbers.",
    },
    cases=(
        Case(name="nine steps, a look after every third", inputs=partial(_to_train, **_NINE)),
        Case(name="a look after every step", inputs=partial(_to_train, **{**_NINE, "steps": 5, "every": 1})),
        Case(name="steps left over", inputs=partial(_to_train, steps=8, b=4, n=5, vocab=7, every=3)),
        Case(name="one step", inputs=partial(_to_train, steps=1, b=2, n=4, vocab=5, every=1, warmup=1)),
        Case(name="a warm-up of one step", inputs=partial(_to_train, steps=6, b=3, n=5, vocab=7, every=2, warmup=1)),
        Case(
            name="a model that comes in evaluation mode",
            inputs=partial(_to_train, **{**_NINE, "training": False}),
            part="mode",
        ),
        *(
            Case(
                name=f"the mode afterwards, a model that comes in {mode} mode",
                inputs=partial(_to_train, steps=2, b=2, n=4, vocab=5, every=1, training=mode == "training"),
                part="mode",
                probe=_mode_left,
            )
            for mode in ("training", "evaluation")
        ),
        Case(
            name="nine steps, in float64",
            inputs=partial(_to_train, **_NINE),
            dtype=torch.float64,
            part="robustness",
        ),
        Case(
            name="losses without a history",
            inputs=partial(_to_train, steps=2, b=2, n=4, vocab=5, every=1),
            part="robustness",
            detached=True,
        ),
        Case(
            name="the model after the last step",
            inputs=partial(_to_train, steps=5, b=2, n=4, vocab=5, every=2, training=False),
            dtype=torch.float64,
            part="robustness",
            probe=trained,
            mutation=True,
        ),
        Case(name="other sizes", inputs=partial(_to_train, steps=14, b=5, n=7, vocab=13, every=4), hidden=True),
        Case(
            name="other sizes, evaluation mode",
            inputs=partial(_to_train, steps=7, b=2, n=8, vocab=5, every=2, warmup=5, training=False),
            part="mode",
            hidden=True,
        ),
    ),
    pairs=("loss_not_shifted", "evaluation_never_left", "gradients_added_up"),
)


def _counted(draw: Draw, *, n: int, m: int, order: int, vocab: int) -> tuple[Any, ...]:
    """Draw ids of which small ones are more frequent, and the last is in the test text alone."""
    text = torch.minimum(*draw.integers(0, vocab - 1, (2, n)))
    test = torch.minimum(*draw.integers(0, vocab, (2, m)))
    test[m // 2] = vocab - 1
    return text, test, order, vocab


WITTEN_BELL = WrittenExercise(
    name="witten_bell",
    lesson=LESSON,
    contract="text (n), test (m), order, vocab -> float32 (m - order + 1): the probability of each token of test from "
    "number order - 1 on, after the order - 1 tokens before it",
    parts={"values": 1},
    stretch=True,
    excused={"the device that was given": "The followers are counted in Python, and the result is a new table."},
    cases=(
        *(
            Case(name=f"order {order}", inputs=partial(_counted, n=31, m=17, order=order, vocab=vocab))
            for order, vocab in ((1, 5), (2, 5), (3, 5), (4, 3))
        ),
        *(
            Case(
                name=f"a longer text, order {order}",
                inputs=partial(_counted, n=300, m=40, order=order, vocab=7),
                hidden=True,
            )
            for order in (2, 3, 6)
        ),
    ),
    example=lambda: (torch.tensor([0, 1, 0, 1, 0, 2]), torch.tensor([0, 1, 2]), 2, 3),
)

EXERCISES = (
    PREDICT_FIRST_LOSS,
    NEXT_TOKEN_LOSS,
    DECODER_BLOCK,
    LANGUAGE_MODEL,
    TRAIN_LANGUAGE_MODEL,
    PREDICT_OVERFITTED,
    SAMPLE_NEXT,
    GENERATE,
    WITTEN_BELL,
    PREDICT_BITS,
)
