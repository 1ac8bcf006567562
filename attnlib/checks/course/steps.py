"""A right answer is made of named steps; a slip is one step done wrong, and exists once for the whole course.

A step is a class. Its method `right` makes the values that `makes` names, out of those that its parameters name: the
inputs of the answer, and whatever earlier steps have made. Every other public method is a slip. Its name is the id of
the misconception; the first line of its docstring is the title, and the rest the explanation; its body does the step
wrong.

>>> class Compare(Step):
...     makes = ("scores",)
...
...     def right(self, q, k):
...         return q @ k.mT
...
...     def not_transposed(self, q, k):
...         '''The transpose is missing.
...
...         `q @ k` multiplies the rows of q with the columns of k. The keys are its rows: q @ k.mT.
...         '''
...         return q @ k

An exercise lists its steps (`made_of`), and its misconceptions follow: all slips of these steps whose parameters exist
in this exercise. The answer is what the last step makes.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from torch import nn

from attnlib.checks.course.marks import (
    How,
    Step,
    along_with,
    contradicted_by,
    discussed_at,
    each,
    marked,
    only_with,
    spells,
    told_as,
)
from attnlib.checks.course.promises import promised
from attnlib.checks.course.slips.tensors import Handle, Learn, facts
from attnlib.checks.exercise import Exercise, Misconception

__all__ = [
    "CourseExercise",
    "Step",
    "along_with",
    "contradicted_by",
    "discussed_at",
    "each",
    "only_with",
    "spells",
    "told_as",
]


@dataclass(frozen=True, kw_only=True)
class Slip:
    """Steps done wrong, with a name."""

    id: str
    title: str
    explanation: str
    wrong: Mapping[type[Step], How]
    spells: str | None = None
    thread: str = ""
    unless: str = ""
    both: tuple[str, ...] = ()

    def and_also(self, other: "Slip") -> "Slip":
        """Both of them, in steps that are not the same."""
        return Slip(wrong={**self.wrong, **other.wrong}, **together(self, other))


@dataclass(frozen=True, kw_only=True)
class CourseExercise(Exercise):
    """An exercise whose misconceptions follow from the steps of its right answer.

    The slips of `Handle` and `Learn`, which are about tensors in any exercise, are added to them.
    """

    made_of: tuple[type[Step], ...]
    pairs: tuple[str, ...] = ()
    """The commonest slips. Any two of them, if of different steps, are known together, too: as `one_and_other`."""
    few: Mapping[type[Step], tuple[str, ...]] = field(default_factory=dict)
    """Steps that earlier exercises are about, and those of their slips that are worth knowing here, too."""
    without: tuple[str, ...] = ()
    """Slips and pairs that are right here, or mean nothing."""
    same: Mapping[str, str] = field(default_factory=dict)
    """Slips and pairs that no case of this exercise can tell from another one."""
    own: tuple[Misconception, ...] = ()
    """Misconceptions that are no slip of any step."""
    wrong: tuple[Misconception, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "cases", (*self.cases, *promised(self)))
        slips = _slips((*self.made_of, Handle, Learn), _inputs(self), facts(self))
        if unknown := {*self.pairs} - {*slips}:
            raise KeyError(f"{self.name} has no such slips to pair: {', '.join(sorted(unknown))}")
        both = [
            slips[one].and_also(slips[other])
            for one, other in combinations(self.pairs, 2)
            if not slips[one].wrong.keys() & slips[other].wrong.keys()
        ]
        told = [*map(self._misconception, (*slips.values(), *both)), *self.own]
        left = {*self.without}
        if unknown := {*left, *self.same, *self.same.values()} - {misconception.id for misconception in told}:
            raise KeyError(f"{self.name} has no such slips: {', '.join(sorted(unknown))}")
        left |= {s.id for s in slips.values() if s.id not in self.few.get([*s.wrong][-1], (s.id,)) and not s.spells}
        kept = (m for m in told if m.id not in left and m.same_as not in left)
        object.__setattr__(self, "wrong", tuple(kept))

    def answer(self, wrong: Mapping[type[Step], How]) -> Any:
        """The right answer, a function or a module's class, with some steps done wrong."""
        steps = [(step, wrong.get(step, step().right)) for step in self.made_of]
        if self.kind == "module":
            return handled(self, _module(self.reference, steps), wrong)
        return handled(self, _function(self.reference, steps), wrong)

    def _misconception(self, slip: Slip) -> Misconception:
        same_as = self.same.get(slip.id, slip.spells)
        return Misconception(
            id=slip.id,
            title=slip.title,
            explanation=slip.explanation,
            implementation=self.answer(slip.wrong),
            same_as=self.same.get(same_as, same_as) if same_as else None,
            thread=slip.thread,
            unless=slip.unless,
            both=slip.both,
        )


def mishandled(exercise: Exercise, answer: Callable[[Mapping[type[Step], How]], Any]) -> Iterator[Misconception]:
    """What goes wrong with tensors in any exercise and does not show; `answer` makes the answer that does it."""
    for slip in _slips((Handle, Learn), _inputs(exercise), facts(exercise)).values():
        made = answer(slip.wrong)
        yield Misconception(id=slip.id, title=slip.title, explanation=slip.explanation, implementation=made)


def together(one: Slip | Misconception, other: Slip | Misconception) -> dict[str, Any]:
    """What is told of both at once, as the fields of either."""
    return {
        "id": f"{one.id}_and_{other.id}",
        "title": f"{one.title}, and {_inside(other.title)}",
        "explanation": f"Two things at once. {one.explanation} {other.explanation}",
        "thread": one.thread or other.thread,
        "unless": "|".join(filter(None, (one.unless, other.unless))),
        "both": (one.id, other.id),
    }


def _inside(title: str) -> str:
    """A title inside a sentence, where a word such as GELU keeps its capitals."""
    first = title.split()[0]
    return title if first[1:] != first[1:].lower() else title[0].lower() + title[1:]


def _slips(
    steps: Sequence[type[Step]], inputs: Mapping[bool, frozenset[str]], facts: frozenset[str]
) -> dict[str, Slip]:
    """The slips of these steps that ask for nothing but what is known by then: `inputs`, and what is made before."""
    methods: dict[str, tuple[type[Step], How]] = {}
    known: frozenset[str] = frozenset()
    for step in steps:
        known |= inputs[step.in_constructor]
        for id, slip in _written(step):
            if id in methods and step in (Handle, Learn):
                continue  # the exercise has a text of its own for it
            if id in methods:
                raise ValueError(f"{step.__name__} and {methods[id][0].__name__} both have a slip {id}")
            if _needs(slip) <= known and {*getattr(slip, "only_with", ())} <= facts:
                methods[id] = step, slip
        known |= frozenset(step.makes)
    found: dict[str, Slip] = {}
    for id, (step, slip) in methods.items():
        with_others = getattr(slip, "along_with", ())
        text_of = getattr(slip, "spells", None)
        if {*with_others, *filter(None, [text_of])} <= methods.keys():
            told = methods[text_of][1] if text_of else slip
            title, _, explanation = (inspect.getdoc(told) or "").partition("\n")
            found[id] = Slip(
                id=id,
                title=title.removesuffix("."),
                explanation=" ".join(explanation.split()),
                wrong={**dict(methods[other] for other in with_others), step: slip},
                spells=text_of,
                thread=getattr(told, "thread", ""),
                unless=getattr(slip, "unless", ""),
            )
    return found


def _written(step: type[Step]) -> list[tuple[str, How]]:
    """The slips of a step and of those that it extends, by id; one for each number in them, the first under its name.

    The others are spellings of the first.
    """
    names = dict.fromkeys(name for kind in reversed(step.mro()) for name in vars(kind) if kind not in (Step, object))
    found: list[tuple[str, How]] = []
    for name in names:
        slip = getattr(step(), name)
        if name.startswith("_") or name == "right" or not inspect.ismethod(slip):
            continue
        values = getattr(slip, "each", {})
        for number, chosen in enumerate(product(*values.values())):
            numbered = functools.partial(slip, **dict(zip(values, chosen, strict=True)))
            if values:
                functools.update_wrapper(numbered, slip)
                marked("spells", getattr(slip, "spells", name if number else None))(numbered)
            suffix = re.sub(r"\W+", "_", str(chosen)).rstrip("_") if number else ""
            found.append((name + suffix, numbered if values else slip))
    return found


@functools.cache
def _parameters(function: How) -> dict[str, bool]:
    """The names of a step's parameters, and which of them it cannot do without."""
    return {p.name: p.default is p.empty for p in inspect.signature(function).parameters.values()}


def _names(how: How) -> dict[str, bool]:
    if isinstance(how, functools.partial):
        return {name: needed and name not in how.keywords for name, needed in _names(how.func).items()}
    return {name: needed for name, needed in _parameters(how.__func__).items() if name != "self"}  # type: ignore[attr-defined]


def _needs(slip: How) -> frozenset[str]:
    return frozenset(name for name, needed in _names(slip).items() if needed)


def _inputs(exercise: Exercise) -> dict[bool, frozenset[str]]:
    """What the first step knows, in a module's constructor (True) and in a function or `forward` (False)."""
    inputs = frozenset(inspect.signature(exercise.reference).parameters) | {"answer", "inputs", "kept", "example"}
    if exercise.kind != "module":
        return {False: inputs, True: frozenset()}
    forward = frozenset(inspect.signature(exercise.reference.forward).parameters) - {"self"}
    return {True: inputs | {"module", "given"}, False: inputs | forward | {"module"}}


Steps = Sequence[tuple[type[Step], How]]


def _done(steps: Steps, known: dict[str, Any]) -> Any:
    """Do the steps one after another; `known` gets what they make. What the last one makes is returned."""
    made = None
    for step, how in steps:
        made = _called(how, **known)
        if step.makes:
            known.update(zip(step.makes, made if len(step.makes) > 1 else [made], strict=True))
    return made


def _function(reference: Any, steps: Steps) -> Any:
    signature = inspect.signature(reference)

    def answer(*inputs: Any) -> Any:
        given = signature.bind(*inputs)
        given.apply_defaults()
        return _done(steps, dict(given.arguments))

    return answer


def _module(reference: type[nn.Module], steps: Steps) -> type[nn.Module]:
    constructor, forward = inspect.signature(reference), inspect.signature(reference.forward)
    places = {name: step.inside for step, _ in steps if step.in_constructor for name in step.makes}

    class Answer(nn.Module):
        def __init__(self, *sizes: Any) -> None:
            super().__init__()
            given = constructor.bind(*sizes)
            known: dict[str, Any] = {"module": self, "given": dict(given.arguments)}
            given.apply_defaults()
            known |= given.arguments
            for name, value in given.arguments.items():
                if type(value) in (int, float):
                    setattr(self, name, value)
            _done([(step, how) for step, how in steps if step.in_constructor], known)
            self.made = {name: value for name, value in known.items() if not isinstance(value, nn.Module)}
            for name, value in known.items():
                if isinstance(value, (nn.Module, nn.Parameter)) and value is not self:
                    setattr(_part(self, places.get(name, "")), name, value)

        def forward(self, *inputs: Any) -> Any:
            given = forward.bind(self, *inputs)
            given.apply_defaults()
            known = {**self.made, "module": self}
            for part in (self, *(_part(self, place) for place in {*places.values()} - {""})):
                known |= part._modules | part._parameters
            known |= given.arguments
            return _done([(step, how) for step, how in steps if not step.in_constructor], known)

    return Answer


def _part(module: nn.Module, name: str) -> nn.Module:
    """This part of the module, made where it is missing; the module itself, if it has no name."""
    if name and not hasattr(module, name):
        setattr(module, name, nn.Module())
    return module.get_submodule(name)


def handled(exercise: Exercise, answer: Any, wrong: Mapping[type[Step], How]) -> Any:
    """The answer with its tensors handled wrong, if a step of `slips.tensors` is among what is wrong."""
    if not {Handle, Learn} & wrong.keys():
        return answer
    return (
        _handled_module(answer, wrong)
        if exercise.kind == "module"
        else _handled(answer, wrong[Handle], exercise.example)
    )


def _handled(answer: How, how: How, example: How | None) -> Any:
    kept: dict[Any, Any] = {}

    def handled(*inputs: Any) -> Any:
        return _called(how, answer=answer, inputs=inputs, kept=kept, example=example)

    return handled


def _handled_module(answer: type[nn.Module], wrong: Mapping[type[Step], How]) -> type[nn.Module]:
    class Handled(answer):  # type: ignore[misc, valid-type]
        def __init__(self, *sizes: Any) -> None:
            super().__init__(*sizes)
            self.kept: dict[Any, Any] = {}
            _called(wrong.get(Learn, Learn().right), module=self)

        def forward(self, *inputs: Any) -> Any:
            how = wrong.get(Handle, Handle().right)
            return _called(how, answer=super().forward, inputs=inputs, kept=self.kept, module=self)

    return Handled


def _called(how: How, **known: Any) -> Any:
    return how(**{name: known[name] for name in _names(how) if name in known})
