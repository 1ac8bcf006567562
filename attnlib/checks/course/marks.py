"""A step of a right answer, and marks of a slip: it spells another, has numbers, comes with others, was discussed."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

How = Callable[..., Any]
ASlip = TypeVar("ASlip", bound=How)


class Step:
    """One named part of a right answer, with the ways in which it goes wrong."""

    makes: ClassVar[tuple[str, ...]] = ()
    """Names for later steps. One value is returned as it is, several as a tuple."""
    in_constructor: ClassVar[bool] = False
    """Whether it is a step of a module's constructor: the layers that it makes are attributes of the module then."""
    inside: ClassVar[str] = ""
    """In a constructor: the part of the module whose attributes they are, in place of the module itself."""
    right: How


def spells(other: How) -> Callable[[ASlip], ASlip]:
    """Another way to write the slip `other`, whose name and text it shares: it needs no docstring."""
    return marked("spells", other.__name__)


def told_as(other: How) -> Callable[[ASlip], ASlip]:
    """A slip with the text of `other`, which is a slip of another exercise's step."""
    return marked("__doc__", other.__doc__)


def each(**values: Sequence[Any]) -> Callable[[ASlip], ASlip]:
    """A slip with a number in it, and the numbers that it is known with: `@each(width=(4, 8, 64))`."""
    return marked("each", values)


def along_with(*ids: str) -> Callable[[ASlip], ASlip]:
    """A slip that comes with slips of other steps, and has a text of its own for all of them."""
    return marked("along_with", ids)


def only_with(*facts: str) -> Callable[[ASlip], ASlip]:
    """A slip of exercises of which these facts hold: see `slips.tensors.facts`."""
    return marked("only_with", facts)


def contradicted_by(pattern: str) -> Callable[[ASlip], ASlip]:
    """A slip whose text is false of an answer that has this pattern in its own source, whatever the numbers say."""
    return marked("unless", pattern)


def discussed_at(thread: str) -> Callable[[ASlip], ASlip]:
    """A slip that is known from a published discussion, whose address the student gets with the explanation."""
    return marked("thread", thread)


def marked(name: str, value: object) -> Callable[[ASlip], ASlip]:
    """A mark, as an attribute of the slip."""

    def mark(slip: ASlip) -> ASlip:
        setattr(slip, name, value)
        return slip

    return mark
