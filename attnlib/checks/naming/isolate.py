"""Find the property that every wrong case shares and no right one has, where no misconception fits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.asking.observe import argument_names, input_names
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.trial.compare import Aspect, How, agreeing_outputs
from attnlib.checks.trial.trial import Trial


@dataclass(frozen=True)
class Trait:
    """A property of cases that can be blamed.

    `has` says which trials show it, and `shown` that one of them is wrong by it.
    """

    id: str
    has: Callable[[Trial], bool]
    shown: Callable[[Trial], bool]
    axes: tuple[str, ...] = ()
    """For inputs with other numbers of axes: those for which the answer is right, and those for which it is wrong."""
    of_sizes: bool = False
    """True if it blames the sizes of the inputs; any other size could then be to blame as well."""
    brings: str = ""
    """The trait that follows from this one, and is no second mistake."""
    argument: str = ""
    """The name of an argument that is right with one value only; `axes` then fills in the title."""


@dataclass(frozen=True)
class Isolated:
    """Everything that is wrong: one or two traits, one graded part, or some outputs. Empty if nothing is isolated."""

    traits: tuple[Trait, ...] = ()
    part: str = ""
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[object, ...]:
        """The traits, the part and the outputs by name, without the words."""
        return *(trait.id for trait in self.traits), self.part, self.right, self.wrong


def isolate(exercise: Exercise, trials: Sequence[Trial]) -> Isolated:
    """Return the one explanation of which visible cases are wrong, if it also holds for the grader's own cases."""
    visible = [t for t in trials if not t.case.hidden]
    found = _explain(exercise, visible)
    return found if len(visible) == len(trials) or found.names == _explain(exercise, trials).names else Isolated()


def _explain(exercise: Exercise, trials: Sequence[Trial]) -> Isolated:
    """Traits, or else a part, or else outputs."""
    wrong = [t for t in trials if t.difference is not None]
    if not any(_values_compared(t) and not values_wrong(t) for t in trials):
        return _by_output(exercise, wrong)
    if found := _common_traits(exercise, trials):
        return Isolated(found)
    if len({t.case.part for t in wrong}) == 1 and wrong[0].case.part != next(iter(exercise.parts)):
        return Isolated(part=wrong[0].case.part)
    return _by_output(exercise, wrong)


def _common_traits(exercise: Exercise, trials: Sequence[Trial]) -> tuple[Trait, ...]:
    """One trait or two that the wrong cases show, if they are exactly these cases and nothing else explains as much."""
    wrong = _where(trials, lambda t: t.difference is not None)
    seen = [(trait, cases) for trait in traits(exercise, trials) if (cases := _where(trials, trait.has))]
    blamed = [(trait, cases) for trait, cases in seen if all(trait.shown(trials[i]) for i in cases)]
    single = [trait for trait, cases in blamed if cases == wrong]
    if single:
        told = single[0] if len(single) == 1 and not _is_confusable(exercise, single[0], trials) else None
        return (told,) if told else ()
    pairs = [
        (one, other)
        for (one, a), (other, b) in combinations(blamed, 2)
        if a | b == wrong
        and not (one.argument and other.argument)  # two arguments whose values fit by coincidence
        and not (_is_confusable(exercise, one, trials) or _is_confusable(exercise, other, trials))
    ]
    if len(pairs) != 1:
        return ()
    return pairs[0][:1] if pairs[0][0].brings == pairs[0][1].id else pairs[0]


def _is_confusable(exercise: Exercise, trait: Trait, trials: Sequence[Trial]) -> bool:
    """True if the same cases have something else in common, so that nobody could tell which of the two is to blame."""
    if trait.shown is not values_wrong:
        return False  # the kind of error tells them apart
    with_values = [t for t in trials if not t.case.other_device and not t.case.raises]
    cases = _where(with_values, trait.has)
    rest = [other for other in traits(exercise, trials) if other.id != trait.id]
    others = [_where(with_values, other.has) for other in rest]
    if trait.of_sizes:
        everywhere = frozenset(range(len(with_values)))
        alike = list(_sizes(exercise, with_values, without=trait.argument))
        opposite = [found for found, other in zip(others, rest, strict=True) if not other.of_sizes]
        others += [*alike, *(everywhere - found for found in (*alike, *opposite))]
    return bool(cases) and cases in others


def _where(trials: Sequence[Trial], has: Callable[[Trial], bool]) -> frozenset[int]:
    return frozenset(i for i, trial in enumerate(trials) if has(trial))


def _sizes(exercise: Exercise, trials: Sequence[Trial], without: str) -> Iterator[frozenset[int]]:
    """The cases that share a size, or in which the same two sizes are equal; the number of axes aside."""
    sizes = [_named_sizes(exercise, trial) for trial in trials]
    names = sorted(set().union(*sizes) - {without})
    for name in names:
        for value in {s[name] for s in sizes if name in s}:
            yield frozenset(i for i, s in enumerate(sizes) if s.get(name) == value)
    for one, other in combinations(names, 2):
        yield frozenset(i for i, s in enumerate(sizes) if one in s and s[one] == s.get(other))


def _named_sizes(exercise: Exercise, trial: Trial) -> dict[str, object]:
    """The lengths of the last two axes of each tensor, and the other arguments."""
    found: dict[str, object] = {}
    for name, value in _arguments(exercise, trial):
        if not isinstance(value, Tensor):
            found |= {} if isinstance(value, list | tuple | dict) else {name: value}
            continue
        batched = value.dim() == 3 or not value.is_floating_point()
        behind = value.shape[1:] if batched else value.shape
        found |= {f"{name}, axis {axis} from behind": length for axis, length in enumerate(reversed(behind[-2:]))}
    return found


def _arguments(exercise: Exercise, trial: Trial) -> list[tuple[str, object]]:
    """Return the arguments by the contract's names: for a module the constructor's, then the call's."""
    sizes = argument_names(exercise.reference) if exercise.kind == "module" else ()
    inputs = zip(input_names(exercise), trial.expected.inputs, strict=False)
    return [*zip(sizes, trial.expected.sizes, strict=False), *inputs]


def _earlier(trial: Trial) -> set[str]:
    """Describe the calls before the judged one: with a mask, of the same sizes, of other sizes."""
    shapes = [[t.shape for t in tensors_in(make(Draw()))] for make in trial.case.after]
    judged = [t.shape for t in tensors_in(trial.expected.inputs)]
    more = {"a mask" for earlier in shapes if len(earlier) > len(judged)}
    return more | {"the same sizes" if e == judged else "other sizes" for e in shapes if len(e) == len(judged)}


def _axes(trial: Trial) -> int:
    tensors = [] if trial.case.other_device or trial.case.raises else tensors_in(trial.expected.inputs)
    return tensors[0].dim() if tensors else 0


def _batch(trial: Trial) -> int:
    """The length of the batch; 0 where nothing was compared, or there is none."""
    tensors = tensors_in(trial.expected.inputs)
    enough = 2 if tensors and not tensors[0].is_floating_point() else 3
    listed = any(isinstance(value, list | tuple) for value in trial.expected.inputs)
    return tensors[0].shape[0] if tensors and not listed and _axes(trial) >= enough else 0


def _values_compared(trial: Trial) -> bool:
    return not (trial.case.other_device or trial.case.raises or trial.case.part == "error")


def values_wrong(trial: Trial) -> bool:
    """True if the numbers themselves are wrong, and not only gradients or inputs changed in place."""
    return trial.difference is not None and trial.difference.aspect not in ("mutation", "gradient")


def _wrong(trial: Trial) -> bool:
    return trial.difference is not None


def _fails_as(aspect: Aspect, how: How | None = None) -> Callable[[Trial], bool]:
    return lambda t: t.difference is not None and t.difference.aspect == aspect and how in (None, t.difference.how)


def _of_values(id: str, has: Callable[[Trial], bool], axes: tuple[str, ...] = (), *, of_sizes: bool = False) -> Trait:
    return Trait(id, lambda t: _values_compared(t) and has(t), values_wrong, axes, of_sizes)


TRAITS = (
    Trait("on_the_cpu_only", lambda t: t.case.other_device, _wrong),
    Trait("input_changed", _fails_as("mutation", ""), _wrong, brings="gradient_of_something_else"),
    Trait("input_not_changed", _fails_as("mutation", "untouched"), _wrong),
    Trait("gradient_of_something_else", lambda t: t.case.gradient and not values_wrong(t), _fails_as("gradient")),
    Trait("not_refused", lambda t: t.case.raises or t.case.part == "error", values_wrong),
    _of_values("with_a_mask", lambda t: any(tensor.dtype == torch.bool for tensor in tensors_in(t.expected.inputs))),
    _of_values("in_contiguous_memory_only", lambda t: t.case.strided),
    _of_values("for_small_scores_only", lambda t: t.case.times > 1),
    _of_values("at_the_first_call_only", lambda t: bool(t.case.after)),
    _of_values("kept_for_the_same_sizes", lambda t: _earlier(t) == {"the same sizes"}),
    _of_values("kept_whatever_the_sizes", lambda t: "other sizes" in _earlier(t)),
    _of_values("kept_from_a_masked_call", lambda t: "a mask" in _earlier(t)),
    _of_values("in_float32_only", lambda t: t.case.dtype == torch.float64),
    _of_values("not_for_a_batch_of_one", lambda t: _batch(t) == 1, of_sizes=True),
    _of_values("for_a_batch_of_one_only", lambda t: _batch(t) > 1, of_sizes=True),
)


def traits(exercise: Exercise, trials: Sequence[Trial]) -> list[Trait]:
    """Everything that can be blamed in these cases; numbers of axes, and of arguments, are those that occur in them."""
    return [*TRAITS, *_of_axes(trials), *_of_arguments(exercise, trials)]


def _of_axes(trials: Sequence[Trial]) -> Iterator[Trait]:
    numbers = sorted({_axes(t) for t in trials} - {0})
    for n in numbers if len(numbers) > 1 else ():
        others = " or ".join(str(other) for other in numbers if other != n)
        for name, has, axes in (
            ("for_one_number_of_axes", lambda t, n=n: _axes(t) not in (0, n), (str(n), others)),
            ("not_for_one_number_of_axes", lambda t, n=n: _axes(t) == n, (others, str(n))),
        ):
            if len(numbers) == 2 and n == numbers[1]:
                continue  # that would repeat the same two sentences
            yield _of_values(name, has, axes, of_sizes=True)


def _of_arguments(exercise: Exercise, trials: Sequence[Trial]) -> Iterator[Trait]:
    """An argument that is a number, for each of its values that several cases have."""
    compared = [_numbers_given(exercise, t) for t in trials if _values_compared(t)]
    for name in dict.fromkeys(name for given in compared for name in given):
        values = [given[name] for given in compared if name in given]
        for value in (v for v in dict.fromkeys(values) if 1 < values.count(v) < len(values)):
            others = " or ".join(str(other) for other in sorted({*values} - {value}))

            def has(trial: Trial, name: str = name, value: int = value) -> bool:
                return _numbers_given(exercise, trial).get(name, value) != value

            filled = (name, str(value), others)
            yield replace(_of_values("for_one_value_only", has, filled, of_sizes=True), argument=name)


def _numbers_given(exercise: Exercise, trial: Trial) -> dict[str, int]:
    return {name: value for name, value in _arguments(exercise, trial) if type(value) is int}


def _by_output(exercise: Exercise, wrong: Sequence[Trial]) -> Isolated:
    """Split several outputs into those that are right in every wrong case and the others."""
    compared = all(t.difference is not None and t.difference.aspect in ("shape", "values") for t in wrong)
    if len(exercise.outputs) == 1 or not wrong or not compared:
        return Isolated()
    right = set.intersection(*(agreeing_outputs(exercise, t.case, t.expected, t.got) for t in wrong))
    others = tuple(name for name in exercise.outputs if name not in right)
    return Isolated(right=tuple(n for n in exercise.outputs if n in right), wrong=others) if right else Isolated()
