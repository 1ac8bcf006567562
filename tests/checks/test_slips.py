"""Misconceptions follow from the steps of a right answer."""

import ast
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from attnlib.checks import Case, course, exercises
from attnlib.checks.course import slips
from attnlib.checks.course.slips.tensors import Handle, Learn
from attnlib.checks.course.steps import CourseExercise, Step, along_with, each, spells
from attnlib.checks.verdict.judge import run_exercise


class Double(Step):
    makes = ("doubled",)

    def right(self, x: Tensor) -> Tensor:
        return 2 * x

    def tripled(self, x: Tensor) -> Tensor:
        """Three times as much.

        Twice is asked for: 2 * x, and that is
        the same as x + x.
        """
        return 3 * x

    @spells(tripled)
    def added_thrice(self, x: Tensor) -> Tensor:
        return x + x + x

    @each(factor=(4, 5))
    def fixed_factor(self, x: Tensor, factor: int) -> Tensor:
        """Some other number.

        Twice is asked for, and this is another number of times.
        """
        return factor * x

    def of_the_memory(self, memory: Tensor) -> Tensor:
        """Never known here, since there is no memory in this exercise."""
        return 2 * memory


class AddOne(Step):
    def right(self, doubled: Tensor) -> Tensor:
        return doubled + 1

    def taken_away(self, doubled: Tensor) -> Tensor:
        """One is taken away.

        Add one to twice the number, and do not take it away.
        """
        return doubled - 1

    @along_with("tripled")
    def added_first(self, x: Tensor) -> Tensor:
        """One is added before.

        It has to be added after doubling, and not before.
        """
        return 3 * (x + 1)


def reference(x: Tensor) -> Tensor:
    return 2 * x + 1


def declared(**options: object) -> CourseExercise:
    return CourseExercise(
        name="double",
        lesson="none",
        contract="x -> 2x + 1",
        parts={"values": 1},
        reference=reference,
        cases=(Case(name="numbers", inputs=lambda draw: (draw.normal(2, 3),)),),
        made_of=(Double, AddOne),
        **options,  # type: ignore[arg-type]
    )


def test_a_slip_is_a_method_with_a_docstring() -> None:
    slip = declared().misconceptions[0]
    assert (slip.id, slip.title) == ("tripled", "Three times as much")
    assert slip.explanation == "Twice is asked for: 2 * x, and that is the same as x + x."
    assert torch.equal(slip.implementation(torch.ones(2, 3)), torch.full((2, 3), 4.0))


def test_a_slip_is_left_out_where_something_that_it_asks_for_does_not_exist() -> None:
    assert "of_the_memory" not in {m.id for m in declared().misconceptions}


def test_a_spelling_shares_name_and_text() -> None:
    found = {m.id: m for m in declared().misconceptions}
    assert found["added_thrice"].same_as == "tripled"
    assert found["added_thrice"].explanation == found["tripled"].explanation
    assert found["fixed_factor_5"].same_as == "fixed_factor"
    assert found["fixed_factor"].same_as is None


def test_slips_of_several_steps_and_pairs() -> None:
    exercise = declared(pairs=("tripled", "fixed_factor", "taken_away"))
    found = {m.id: m for m in exercise.misconceptions}
    assert found["added_first"].implementation(torch.ones(1)) == 6
    both = found["tripled_and_taken_away"]
    assert (both.title, both.implementation(torch.ones(1))) == ("Three times as much, and one is taken away", 2)
    assert "tripled_and_fixed_factor" not in found


def test_the_check_follows_from_the_declaration() -> None:
    exercise = declared()
    assert run_exercise(exercise, exercise.answer({})).passed
    assert run_exercise(exercise, lambda x: 4 * x + 1).diagnosis == "fixed_factor"


@pytest.mark.parametrize("option", [{"without": ("of_the_memory",)}, {"pairs": ("nothing",)}, {"same": {"a": "b"}}])
def test_an_exercise_cannot_speak_of_slips_that_it_does_not_have(option: dict[str, object]) -> None:
    with pytest.raises(KeyError, match="has no such slips"):
        declared(**option)


def test_steps_of_a_constructor_make_layers() -> None:
    answer = exercises()["SelfAttention"].answer({})  # type: ignore[attr-defined]
    assert isinstance(answer(7, 5, 3), nn.Module)
    assert [name for name, _ in answer(7, 5, 3).named_parameters()] == ["w_q.weight", "w_k.weight", "w_v.weight"]


def written() -> dict[str, str]:
    """The ids of all slips in the catalogue, and where they stand; not those of steps that no exercise is made of."""
    made_of = {step for e in exercises().values() for part in getattr(e, "made_of", ()) for step in part.mro()}
    modules = [import_module(f"{slips.__name__}.{module.name}") for module in pkgutil.iter_modules(slips.__path__)]
    steps = [s for m in modules for s in vars(m).values() if inspect.isclass(s) and s in made_of | {Handle, Learn}]
    return {
        name: step.__qualname__
        for step in steps
        for name, slip in vars(step).items()
        if inspect.isfunction(slip) and name != "right" and not name.startswith("_")
    }


def test_every_slip_of_the_catalogue_is_known_in_some_exercise() -> None:
    known = {m.id for exercise in exercises().values() for m in exercise.misconceptions}
    only_with_others = {"error_in_forward"}
    assert {name: step for name, step in written().items() if name not in known | only_with_others} == {}


def test_an_explanation_is_written_once() -> None:
    """Where two steps can go wrong in one way, one is told as the other."""
    written: dict[str, str] = {}
    for path in sorted(Path(course.__path__[0]).rglob("*.py")):
        for step in (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)):
            for slip in (node for node in step.body if isinstance(node, ast.FunctionDef)):
                text = ast.get_docstring(slip) or ""
                name = f"{path.stem}.{step.name}.{slip.name}"
                assert not text or written.setdefault(" ".join(text.split()), name) == name


def test_two_slips_at_once_leave_nothing_of_which_one_could_say_that_it_is_right() -> None:
    pairs = [m for e in exercises().values() for m in e.misconceptions if m.explanation.startswith("Two things at")]
    calls_right = re.compile(r"\b(output|outputs|weights|three|values|numbers)( that you return)? (is|are) right\b")
    assert len(pairs) > 100
    assert [m.id for m in pairs if calls_right.search(m.explanation)] == []
    assert [m.title for m in pairs if re.search(r"\b[a-z][A-Z]", m.title)] == []


def test_a_published_case_comes_with_all_forms_of_a_slip() -> None:
    known = {m.id: m.thread for m in exercises()["MultiHeadSelfAttention"].misconceptions}
    forms = {id: thread for id, thread in known.items() if id.startswith("split_by_reshape")}
    assert len(forms) > 3
    assert len({*forms.values()} - {""}) == 1
    assert known["scaled_by_root_width"] != known["split_by_reshape"]


def test_published_cases_are_addresses_of_threads() -> None:
    threads = {m.thread for e in exercises().values() for m in e.misconceptions} - {""}
    assert len(threads) >= 8
    assert [t for t in threads if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", t)] == []
