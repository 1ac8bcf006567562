"""What stands in the library in place of what an exercise asks for: it can be named and imported, and not called."""

from typing import Any

from .failure import ContractBroken


class Withheld(ContractBroken):
    """Something was called that this exercise asks for."""

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
    """Something with that name: an answer's cell may import the library's own, to compare with it below."""
    return _StandIn(name, (), {})
