"""What goes wrong in any module, in lessons 03 to 06."""

from typing import Any

from torch import nn

from attnlib.checks.exercise import Misconception
from attnlib.checks.usual import wrong


def module_mistakes(right: type[nn.Module]) -> tuple[Misconception, ...]:
    """Made around a module whose first input is x."""

    class KeepsFirstAnswer(right):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Any) -> Any:
            if not hasattr(self, "first_answer"):
                self.first_answer = super().forward(*inputs)
            return self.first_answer

    class MakesFloat32(right):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Any) -> Any:
            return super().forward(*(t.float() if t is not None and t.is_floating_point() else t for t in inputs))

    return (
        wrong(
            "keeps_first_answer",
            "The first answer is kept and given again",
            "Something is stored in the module at the first call and returned at the next, although the input has "
            "changed. Compute everything from the arguments.",
            KeepsFirstAnswer,
        ),
        wrong(
            "input_made_float32",
            "The input is made float32",
            "`.float()` makes float32 of any input, and the layers may be of another dtype: a product of the two "
            "fails. Leave the dtype alone; who calls you has matched input and layers.",
            MakesFloat32,
        ),
    )
