"""Stand-ins in the library for the names that an exercise asks for: they can be imported, but not called."""

from typing import Any

from .failure import ContractBroken


class Withheld(ContractBroken):
    """Raised if something is called that this exercise asks for."""

    def __init__(self, name: str) -> None:
        super().__init__("forbidden", f"{name} is not available in this exercise, which asks for it")


class _StandIn(type):
    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> "_StandIn":
        for base in bases:
            if isinstance(base, _StandIn):
                raise Withheld(base.__name__)
        return super().__new__(mcs, name, bases, members)

    def __call__(cls, *arguments: Any, **more: Any) -> Any:
        raise Withheld(cls.__name__)


def stand_in(name: str) -> type:
    """Make a stand-in of that name: an answer's cell may import the library's own, to compare with it below."""
    return _StandIn(name, (), {})
