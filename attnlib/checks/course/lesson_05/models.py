"""The exercises of lesson 05 about whole models, to be probed, trained and measured."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.checks.asking.given import GENERATOR, MODEL, OPTIMISER, described
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.trained import trained
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "05_causal_attention"


def _model(
    draw: Draw,
    *,
    vocab: int,
    max_len: int,
    ahead: int = 0,
    window: int | None = None,
    dropout: bool = True,
    training: bool = True,
    learns: bool = False,
) -> dict[str, Any]:
    weights = {"embed": draw.normal(vocab, 8), "places": draw.normal(max_len, 8)}
    sizes = (vocab, max_len, 8, ahead, window, dropout)
    return described("SmallModel", sizes, weights, training=training, learns=learns)


def _text(
    draw: Draw, *, n: int, vocab: int, ahead: int, fixed: int = 0, window: int | None = None, size: float = 1.0
) -> tuple[Any, ...]:
    """The first and the last character of the vocabulary are in it, if it is long enough.

    The logits of the first `fixed` characters are 0, whatever is read. What a character changes is about `size` large,
    and all logits together change by nothing.
    """
    ids = draw.integers(0, vocab, (n,))
    ids[n // 2], ids[-1] = 0, vocab - 1
    model = _model(draw, vocab=vocab, max_len=n + 3, ahead=ahead, window=window, training=False)
    embed = model[MODEL]["weights"]["embed"]
    embed[:fixed] = 0.0
    embed[fixed:] -= embed[fixed:].mean(dim=0) if fixed + 1 < vocab else 0.0
    embed *= size**0.5
    return model, ids, vocab


def _one_logit(draw: Draw, *, n: int, vocab: int) -> tuple[Any, ...]:
    """Draw a text without character 0, whose logit alone changes by more than 1e-5; the mean over all changes by less.

    Whatever takes a character's place, the logit of character 0 changes by 4e-5 or more.
    """
    model = _model(draw, vocab=vocab, max_len=n + 3, ahead=1, training=False)
    for numbers in model[MODEL]["weights"].values():
        numbers.zero_()
    embed = model[MODEL]["weights"]["embed"]
    embed[:, 0], embed[0, 0] = 2e-4 * torch.arange(vocab), 1.0
    return model, draw.integers(1, vocab, (n,)), vocab


REACH = WrittenExercise(
    name="reach",
    lesson=LESSON,
    contract="model, ids (n,), vocab -> bool (n, n): whether the guess at position i changes if character j does",
    parts={"values": 3, "robustness": 1},
    excused={
        "the device that was given": "The answers may be collected as Python's numbers.",
        "a second call with the same objects": "How far a model reaches does not depend on the numbers in it.",
    },
    cases=(
        Case(name="a sound model", inputs=partial(_text, n=5, vocab=7, ahead=0)),
        Case(name="a model that sees one too far", inputs=partial(_text, n=7, vocab=11, ahead=1)),
        Case(name="a model that sees three too far", inputs=partial(_text, n=11, vocab=5, ahead=3)),
        Case(name="a model that forgets all but the last two", inputs=partial(_text, n=7, vocab=5, ahead=0, window=2)),
        Case(name="a text of one character", inputs=partial(_text, n=1, vocab=5, ahead=0)),
        Case(name="a logit that never changes", inputs=partial(_text, n=7, vocab=5, ahead=1, fixed=1)),
        Case(name="a model whose logits change little", inputs=partial(_text, n=7, vocab=5, ahead=1, size=1e-3)),
        Case(name="a model whose logits change too little", inputs=partial(_text, n=7, vocab=5, ahead=1, size=2e-7)),
        Case(name="a model whose logits hardly change", inputs=partial(_text, n=7, vocab=5, ahead=1, size=1e-9)),
        Case(name="a single logit that changes", inputs=partial(_text, n=7, vocab=2, ahead=1, fixed=1)),
        Case(name="a single logit of many that changes", inputs=partial(_one_logit, n=5, vocab=29)),
        Case(
            name="a model that sees one too far, in float64",
            inputs=partial(_text, n=7, vocab=5, ahead=1),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(name="a longer text", inputs=partial(_text, n=17, vocab=13, ahead=2), hidden=True),
    ),
    pairs=("always_by_zero", "rows_and_columns_exchanged", "past_alone"),
    without=("history_kept",),
)


Guess = Callable[[Tensor], Tensor]


def _from_counts(counts: Tensor) -> Tensor:
    return ((counts + 0.1) / (counts + 0.1).sum(dim=-1, keepdim=True)).log()


def _frequencies(seen: Tensor, vocab: int) -> Guess:
    log_p = _from_counts(torch.bincount(seen.flatten(), minlength=vocab).double())
    return lambda texts: log_p[texts[:, 1:]]


def _pairs(seen: Tensor, vocab: int) -> Guess:
    counts = torch.zeros(vocab, vocab, dtype=torch.float64)
    before, after = seen[:, :-1].flatten(), seen[:, 1:].flatten()
    counts.index_put_((before, after), torch.ones(len(before), dtype=torch.float64), accumulate=True)
    log_p = _from_counts(counts)
    return lambda texts: log_p[texts[:, :-1], texts[:, 1:]]


def _threes(seen: Tensor, vocab: int) -> Guess:
    """Guess from the last two characters; the first guess is even."""
    counts = torch.zeros(vocab, vocab, vocab, dtype=torch.float64)
    runs = seen.unfold(1, 3, 1).flatten(0, 1)
    counts.index_put_(tuple(runs.T), torch.ones(len(runs), dtype=torch.float64), accumulate=True)
    log_p = _from_counts(counts)

    def guess(texts: Tensor) -> Tensor:
        later = log_p[tuple(texts.unfold(1, 3, 1).unbind(-1))]
        return F.pad(later, (1, 0), value=-math.log(vocab))

    return guess


def _by_heart(seen: Tensor, vocab: int) -> Guess:
    """After a beginning of four characters or more that was seen, guess mostly what came then; else all alike."""
    came = {tuple(text[:i]): text[i] for text in seen.tolist() for i in range(4, len(text))}

    def guess(texts: Tensor) -> Tensor:
        found = torch.tensor([[came.get(tuple(t[:i]), -1) for i in range(1, len(t))] for t in texts.tolist()])
        likely = torch.where(texts[:, 1:] == found, 0.9 + 0.1 / vocab, 0.1 / vocab)
        return torch.where(found < 0, 1 / vocab, likely).double().log()

    return guess


def _places(seen: Tensor, vocab: int) -> Guess:
    """Guess each position's favourite character, as if all excerpts were the same."""
    log_p = _from_counts(F.one_hot(seen, vocab).sum(dim=0).double())
    return lambda texts: log_p[torch.arange(1, texts.shape[1]), texts[:, 1:]]


def _repeats(back: int, vocab: int) -> Guess:
    """Guess mostly the character `back` positions before, as in a text that repeats itself."""

    def guess(texts: Tensor) -> Tensor:
        same = texts[:, back:] == texts[:, :-back]
        later = torch.where(same, math.log(0.9 + 0.1 / vocab), math.log(0.1 / vocab)).double()
        return F.pad(later, (back - 1, 0), value=-math.log(vocab))

    return guess


def _honest(texts: Tensor, vocab: int) -> list[float]:
    """Return the losses of guessers that never look ahead: they learn from half the steps and guess the rest."""
    half = len(texts) // 2
    seen, new = texts[:half].flatten(0, 1), texts[half:].flatten(0, 1)
    learned = [learn(seen, vocab)(new) for learn in (_frequencies, _pairs, _places, _threes, _by_heart)]
    repeated = [_repeats(back, vocab)(new) for back in range(1, new.shape[1])]
    return [-float(log_p.mean()) for log_p in (*learned, *repeated)]


def _control(asked: Asked, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Return the text as numbers, and the floor; an error if they don't meet the contract."""
    texts, floor = asked(*inputs)
    vocab, shape, _ = inputs
    if (
        tuple(texts.shape) != tuple(shape)
        or texts.is_floating_point()
        or not 0 <= int(texts.min()) <= int(texts.max()) < vocab
    ):
        return torch.full((2,), torch.nan), floor
    return texts.long(), floor


def _nobody_below_the_floor(asked: Asked, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Rate each honest guesser 1 below the floor, 2 below half of it, else 0. If one is, return the floor too."""
    texts, floor = _control(asked, inputs)
    if texts.dim() != 3:
        return texts, torch.zeros(())
    losses = torch.tensor(_honest(texts, inputs[0]))
    below = (losses < floor - 0.05).long() + (losses < floor / 2 - 0.05).long()
    return below, _where(floor, inputs[0], wrong=bool(below.any()))


def _floor_is_reached(asked: Asked, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Check that guessing by how often each character comes reaches the floor: it must be no lower than need be."""
    texts, floor = _control(asked, inputs)
    if texts.dim() != 3:
        return texts, torch.zeros(())
    near = _honest(texts, inputs[0])[0] < float(floor) + 0.05
    return torch.tensor(near), _where(floor, inputs[0], wrong=not near)


def _where(floor: Tensor, vocab: int, *, wrong: bool) -> Tensor:
    """Return a wrong floor as a share of ln(vocab), which tells mistakes apart; 0 if nothing is wrong."""
    return torch.tensor(round(float(floor) / math.log(vocab), 2) if wrong else 0.0)


def _room_for_a_leak(asked: Asked, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Check that there is room below the floor, where a model that peeks gets nearly to zero."""
    texts, floor = _control(asked, inputs)
    return torch.tensor(float(floor) >= 0.5) if texts.dim() == 3 else texts, torch.zeros(())


def _other_texts(asked: Asked, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Check that another seed gives another text, and the same seed the same one."""
    vocab, shape, seed = inputs
    one, again, other = (
        _control(asked, (vocab, shape, {GENERATOR: number}))[0] for number in (*[seed[GENERATOR]] * 2, 77)
    )
    return torch.tensor([torch.equal(one, again), torch.equal(one, other)]), torch.zeros(())


def _planned(draw: Draw, *, vocab: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    return vocab, shape, {GENERATOR: int(draw.integers(0, 1000, ()))}


def _control_cases(name: str, measures: str, probe: Any, part: str = "values") -> tuple[Case, Case]:
    shown = Case(
        name=name,
        inputs=partial(_planned, vocab=11, shape=(24, 32, 13)),
        probe=probe,
        measures=measures,
        part=part,
    )
    other = partial(_planned, vocab=5, shape=(32, 16, 17))
    return shown, replace(shown, name=f"{name} (2)", inputs=other, hidden=True)


INVENT_CONTROL = WrittenExercise(
    name="invent_control",
    lesson=LESSON,
    contract="vocab, shape (steps, b, n + 1), generator -> int64 texts of this shape, and the floor: the lowest loss "
    "possible without looking ahead",
    parts={"values": 4, "seeds": 1},
    excused={
        "the device that was given": "A text is made on the CPU, where the generator is.",
        "a second call with the same objects": "The generator has moved on.",
        "large scores": "There are no scores in a text.",
    },
    outputs=("texts", "floor"),
    detachable=("texts", "floor"),
    cases=(
        *_control_cases(
            "no honest guesser gets below the floor",
            "guessers below the floor (0: not below it)",
            _nobody_below_the_floor,
        ),
        *_control_cases("an honest guesser reaches the floor", "the floor is reached", _floor_is_reached),
        *_control_cases("a model that peeks has room below the floor", "the floor is at least 0.5", _room_for_a_leak),
        *_control_cases(
            "the generator decides which text it is",
            "the same text (with the same seed, with another)",
            _other_texts,
            "seeds",
        ),
    ),
)


def _lessons(
    draw: Draw, *, steps: int, b: int, n: int, vocab: int, ahead: int = 0, training: bool = True, optimiser: str = ""
) -> tuple[Any, ...]:
    """Draw learning rates that rise and fall, all of them different."""
    ids = draw.integers(0, vocab, (steps, b, n + 1))
    rates = 0.05 + 0.3 * draw.normal(steps).sigmoid()
    make = ({OPTIMISER: optimiser},) if optimiser else ()
    return _model(draw, vocab=vocab, max_len=n + 3, ahead=ahead, training=training, learns=True), ids, rates, *make


TRAIN_WRITER = WrittenExercise(
    name="train_writer",
    lesson=LESSON,
    contract="model, excerpts (steps, b, n + 1), rates (steps,) -> losses (steps,); a step on each excerpt",
    parts={"values": 4, "robustness": 1},
    excused={
        "the device that was given": "The losses may be collected as Python's numbers.",
        "large scores": "The model is given, and its logits are not large.",
        "a model in evaluation mode": "It's put into training mode, and left there.",
    },
    cases=(
        Case(name="seven steps", inputs=partial(_lessons, steps=7, b=3, n=5, vocab=11)),
        Case(name="one step", inputs=partial(_lessons, steps=1, b=2, n=3, vocab=5)),
        Case(
            name="the model after the last step",
            inputs=partial(_lessons, steps=2, b=3, n=5, vocab=7),
            dtype=torch.float64,
            probe=trained,
        ),
        Case(name="one excerpt in a step", inputs=partial(_lessons, steps=5, b=1, n=7, vocab=5)),
        Case(name="a single guess in an excerpt", inputs=partial(_lessons, steps=5, b=3, n=1, vocab=7)),
        Case(name="a model that sees one too far", inputs=partial(_lessons, steps=3, b=2, n=5, vocab=7, ahead=1)),
        Case(
            name="a model that comes in evaluation mode",
            inputs=partial(_lessons, steps=3, b=2, n=5, vocab=7, training=False),
        ),
        Case(
            name="seven steps, in float64",
            inputs=partial(_lessons, steps=7, b=2, n=3, vocab=5),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(
            name="trained with torch.optim.Adam",
            inputs=partial(_lessons, steps=5, b=3, n=5, vocab=7, optimiser="Adam"),
            dtype=torch.float64,
            part="robustness",
        ),
        Case(
            name="losses without a history",
            inputs=partial(_lessons, steps=2, b=2, n=3, vocab=5),
            part="robustness",
            detached=True,
        ),
        Case(name="other sizes", inputs=partial(_lessons, steps=11, b=5, n=7, vocab=13), hidden=True),
        Case(
            name="other sizes, in float64",
            inputs=partial(_lessons, steps=5, b=7, n=2, vocab=3),
            dtype=torch.float64,
            part="robustness",
            hidden=True,
        ),
    ),
    few={"training": ("gradients_pile_up", "uphill", "last_loss_alone", "mean_of_the_losses")},
    pairs=("guesses_not_shifted", "gradients_pile_up", "first_rate_throughout", "losses_summed"),
)


def _measured(draw: Draw, *, b: int, n: int, vocab: int, ahead: int = 1, training: bool = False) -> tuple[Any, ...]:
    model = _model(draw, vocab=vocab, max_len=n + 3, ahead=ahead, training=training)
    return model, draw.integers(0, vocab, (b, n + 1))


def _without_numbers(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Set the losses to zero: the contract leaves open in which mode the model is measured."""
    return tuple(torch.zeros_like(losses) for losses in asked(*inputs))


LOSSES_BY_PLACE = WrittenExercise(
    name="losses_by_place",
    lesson=LESSON,
    contract="model, excerpts (b, n + 1) -> two (n,): the mean loss at each position, in one pass and step by step",
    parts={"values": 4, "robustness": 1},
    excused={"large scores": "The model is given, and its logits are not large."},
    outputs=("in one pass", "step by step"),
    cases=(
        Case(name="a model that sees one too far", inputs=partial(_measured, b=3, n=5, vocab=11)),
        Case(name="a sound model", inputs=partial(_measured, b=2, n=7, vocab=5, ahead=0)),
        Case(name="a model that sees two too far", inputs=partial(_measured, b=5, n=3, vocab=7, ahead=2)),
        Case(name="a batch of one", inputs=partial(_measured, b=1, n=5, vocab=7)),
        Case(name="a single place", inputs=partial(_measured, b=3, n=1, vocab=7)),
        Case(
            name="a model that sees one too far, in float64",
            inputs=partial(_measured, b=3, n=5, vocab=11),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(
            name="a model in training mode, afterwards",
            inputs=partial(_measured, b=2, n=3, vocab=5, training=True),
            part="robustness",
            mutation=True,
            probe=_without_numbers,
        ),
        Case(
            name="losses without a history",
            inputs=partial(_measured, b=2, n=3, vocab=5),
            part="robustness",
            detached=True,
        ),
        Case(name="other sizes", inputs=partial(_measured, b=7, n=11, vocab=13), hidden=True),
        Case(
            name="other sizes, in float64",
            inputs=partial(_measured, b=2, n=13, vocab=3, ahead=3),
            dtype=torch.float64,
            part="robustness",
            hidden=True,
        ),
    ),
    pairs=("training_not_shifted", "whole_window_read", "all_guesses_counted", "writing_first"),
    without=("whole_window_read_and_writing_first",),  # two results that are the same
)
