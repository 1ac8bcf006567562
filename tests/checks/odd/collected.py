"""The odd answers, each with the name of its exercise, as they are found in the files beside this one."""

from collections.abc import Callable
from typing import Any


class Answers(list[tuple[str, Any]]):
    def answers(self, name: str) -> Callable[[Any], Any]:
        """As a decorator: what follows is an answer to that exercise."""

        def note(answer: Any) -> Any:
            self.append((name, answer))
            return answer

        return note

    def also(self, name: str, *others: Any) -> None:
        self.extend((name, answer) for answer in others)


RIGHT, WRONG = Answers(), Answers()
