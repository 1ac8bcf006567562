"""An exercise as data: the reference, the cases, the misconceptions, and the functions that may not be called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from attnlib.checks.draw import Draw

Inputs = tuple[Any, ...]
Kind = Literal["function", "module", "choice"]


@runtime_checkable
class Asked(Protocol):
    """An attempt that is ready to be called: it returns the tuple of its outputs, each of them a plain tensor.

    It may live in another process, so a module can be reached only through these methods.
    """

    shapes: dict[str, tuple[int, ...]] | None
    """A module's parameters."""

    def __call__(self, *inputs: Any) -> tuple[Tensor, ...]: ...

    def left(self) -> list[Tensor]:
        """The tensors and numbers among the inputs of the last call, as the attempt left them."""

    def load(self, weights: dict[str, Tensor]) -> None:
        """Set parameters of a module."""

    def train(self, mode: bool) -> None:
        """Put a module in training mode or back; it starts in evaluation mode."""


AS_GIVEN = "as_given"
"""The id of the misconception in the untouched code of a "find the bug" exercise."""

Probe = Callable[[Asked, Inputs], tuple[Tensor, ...]]
"""A function that calls the attempt as it likes, and returns the tensors to compare, one for each output.

For results that the contract leaves open in part (padded queries: zero them first), or that show only
in another mode (dropout in training: `asked.train(True)`, many calls, a statistic).
"""


@dataclass(frozen=True, kw_only=True)
class Misconception:
    """A wrong answer that learners give, with a name and an explanation in the learner's terms.

    `implementation` has the exercise's own signature. An attempt that computes the same as it does, on every case, gets
    `title` and `explanation`. `same_as` names another misconception that deliberately no case can tell from this one.
    """

    id: str
    title: str
    explanation: str
    implementation: Any
    same_as: str | None = None
    thread: str = ""
    """The address of a published discussion in which somebody has made this mistake."""
    heading: str = "A common misunderstanding"
    unless: str = ""
    """A pattern that contradicts the text: a wrong answer with it in its source has made another mistake."""
    both: tuple[str, ...] = ()
    """The ids of both mistakes, where this is two at once."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call of the attempt: its inputs, the property (`part`) that it tests, and how exactly it is compared.

    `inputs` gets a `Draw` and returns the positional arguments; for a module it returns a pair, the arguments of the
    constructor and those of `forward`. Half of an exercise's power lies here: all axes different primes, batch > 1,
    biases not zero, scores neither tiny nor saturated.
    """

    name: str
    inputs: Callable[[Draw], Inputs]
    part: str = "values"
    hidden: bool = False
    dtype: torch.dtype = torch.float32
    gradient: bool = False
    """Compare the gradients of every input and weight as well."""
    after: tuple[Callable[[Draw], Inputs], ...] = ()
    """Inputs of calls before the judged one, which reveal what an attempt keeps from one call to the next.

    A module is built for the judged call only, so these inputs must fit its constructor's arguments.
    """
    strided: bool = False
    """Give inputs whose memory is not contiguous."""
    mutation: bool = False
    """Compare a model among the inputs after the call with before, and all inputs after an error; others always are."""
    raises: bool = False
    """The reference refuses these inputs, and the attempt must raise an exception of the same type."""
    other_device: bool = False
    """Run without values, on torch's `meta` device: tensors that the attempt makes on the CPU show."""
    probe: "Probe | None" = None
    """Compare the result of this function rather than the attempt's own: see `Probe`."""
    measures: str = ""
    """A name for a probe's numbers, such as "the floor is reached"; the report names them by it, not as an output."""
    given: str = ""
    """An input that only some cases have, such as "a memory": the report names it if only those cases are wrong."""
    times: float = 1.0
    """The factor on the numbers a function gets, or on the matrices of a module."""
    keeps: tuple[str, ...] = ()
    """Arguments of a module's constructor that it has to store as attributes of the same names."""
    largest: int = 0
    """The most numbers a tensor made by the attempt may hold; 0 for no limit."""
    detached: bool = False
    """The outputs must not require a gradient."""
    magnitude: float = 0.0
    """Size of the summed numbers, where they are much larger than the result (see `compare.tolerance`)."""

    @property
    def watched(self) -> bool:
        """True if every operator of the call is inspected for devices or sizes, which takes time."""
        return self.other_device or self.largest > 0


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """Everything the course knows of an exercise; the checks, the diagnosis, the grader and the tests use nothing else.

    `parts` maps each graded property to its points. The first part is the condition of the others: a function that
    computes wrong values earns nothing for being differentiable.
    """

    name: str
    lesson: str
    contract: str
    parts: Mapping[str, int]
    reference: Any
    cases: tuple[Case, ...] = ()
    wrong: tuple[Misconception, ...] = ()
    kind: Kind = "function"
    outputs: tuple[str, ...] = ("output",)
    detachable: tuple[str, ...] = ()
    """Outputs that may lack a gradient, such as returned attention weights."""
    forbidden: tuple[str, ...] = ()
    """Functions that the attempt may not call: families of `ready_made`, and attnlib's by name (`attnlib.softmax`)."""
    example: Callable[[], Inputs] | None = None
    """Inputs small enough to follow by hand; a wrong answer is shown beside the right one on them."""
    shown: str | None = None
    """The output to show on the example, by default the first."""
    explanation: str = ""
    """For a choice: why the right answer is right. Shown with the verdict."""
    weight_scale: float = field(default=1.0)
    """For a module: standard deviation of its weights, in units of 1/sqrt(fan_in)."""
    attends: bool = False
    """True if the answer takes a softmax of scores it computes, which may be large enough for exp to overflow."""
    excused: Mapping[str, str] = field(default_factory=dict)
    """The promises of lesson 00 (`course.promises`) that can't be tried here, each with the reason."""
    stretch: bool = False
    """An optional extra: checked like the others, but worth no points."""

    @property
    def misconceptions(self) -> tuple[Misconception, ...]:
        """Every wrong answer that is known by name."""
        return self.wrong

    def part_for(self, case: Case, aspect: str) -> str:
        """Return the part that a difference counts for, usually the case's own.

        A changed input, and another dtype beside right gradients, are seen in cases of any part. They count for
        robustness, or for the part whose cases look at the inputs afterwards, or for the case's own if the first does.
        """
        if aspect == "mutation" and not case.mutation:
            looks = [c.part for c in self.cases if c.mutation] or ["robustness"]
            own = looks[0] == next(iter(self.parts)) and "robustness" not in looks
            promised = case.part if own else looks[0]
        else:
            promised = "robustness" if aspect == "dtype" and case.gradient else case.part
        return promised if promised in self.parts else case.part

    @property
    def points(self) -> int:
        """The exercise's points, the sum over its parts; a stretch exercise has none."""
        return 0 if self.stretch else self.worth

    @property
    def worth(self) -> int:
        """The sum over its parts, in which a score is counted."""
        return sum(self.parts.values())
