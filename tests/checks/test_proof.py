"""What `python -m autograder checks` counts, requires, prints and writes."""

import doctest
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from rich.console import Console

from attnlib.checks import exercises
from attnlib.checks.asking.observation import Asking
from attnlib.checks.asking.time_limits import here
from attnlib.checks.course.wronglines import applied, made
from attnlib.checks.verdict.judge import run_exercise
from autograder.__main__ import main
from autograder.lesson_text.layout import Layout
from autograder.proof import command, counts, mutants, tables
from autograder.proof.answers import solution
from autograder.proof.counts import Cost, Fate, Judgement, Proof, Rate, Withheld
from autograder.proof.measure import slips, verdicts
from autograder.proof.page import page
from autograder.proof.requirements import requirements
from autograder.proof.withheld import DROPPED, told_of_dropped

ROOT = Path(__file__).resolve().parents[2]
WRONG = Judgement("softmax: no_shift", "no_shift", False, 0, False, "no_shift", Cost(20.0, 30.0))
RIGHT = Judgement("softmax: the lesson's", None, False, 0, True, None, Cost(10.0, 40.0))
KILLED, EQUAL, SURVIVING = (
    Fate("f: b", "a → b", "visible"),
    Fate("f: c", "a → c", "", "The same."),
    Fate("f: d", "a → d", ""),
)
TOLD = Fate("f: e", "a → e", "visible", told_by="misconception", cpu_ms=900.0)
GOOD = Proof((WRONG, RIGHT), (KILLED, EQUAL))


def missed(proof: Proof) -> list[str]:
    return [one.asked for one in requirements(proof) if not one.holds]


@pytest.mark.parametrize(
    ("rate", "low", "high"),
    [
        (Rate(98, 100), 0.930, 0.994),  # Wilson's interval as binom.confint and statsmodels have it
        (Rate(10, 10), 0.722, 1.0),
        (Rate(0, 10), 0.0, 0.278),
        (Rate(0, 0), 0.0, 1.0),
    ],
)
def test_the_interval_is_wilsons(rate: Rate, low: float, high: float) -> None:
    assert rate.interval == pytest.approx((low, high), abs=5e-4)


@pytest.mark.parametrize("module", [counts, mutants, tables])
def test_the_examples_in_docstrings_run(module: ModuleType) -> None:
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


def test_what_is_counted() -> None:
    proof = Proof((WRONG, RIGHT, replace(WRONG, diagnosis=None)), (KILLED, EQUAL, SURVIVING))
    assert proof.rejected == Rate(2, 2)
    assert proof.named_rightly == Rate(1, 2)
    assert proof.named_wrongly == Rate(0, 3)
    assert proof.not_recognised == Rate(1, 2)
    assert proof.accepted == Rate(1, 1)
    assert proof.killed == Rate(1, 2)
    assert proof.surviving == [SURVIVING]
    fates = tuple(replace(KILLED, told_by=way) for way in ("change", "change", "symptom"))
    assert Proof(fates=(*fates, KILLED)).told_by("change") == Rate(2, 3)
    assert Proof(fates=(*fates, KILLED)).told_by("nothing") == Rate(0, 3)
    assert proof.equivalent == [EQUAL]
    assert [cost.cpu for cost in proof.costs] == [20.0, 10.0, 20.0]
    assert Proof.total([GOOD, proof]).rejected == Rate(3, 3)


@pytest.mark.parametrize(
    ("proof", "asked"),
    [
        (
            replace(GOOD, verdicts=(replace(WRONG, passed=True, diagnosis=None), RIGHT)),
            "every misconception is rejected",
        ),
        (replace(GOOD, verdicts=(replace(WRONG, diagnosis=None), RIGHT)), "98 % are named rightly"),
        (replace(GOOD, verdicts=(replace(WRONG, diagnosis="clamped"), RIGHT)), "nothing is named wrongly"),
        (replace(GOOD, verdicts=(WRONG, replace(RIGHT, diagnosis="clamped"))), "nothing is named wrongly"),
        (replace(GOOD, verdicts=(WRONG, replace(RIGHT, passed=False))), "every right answer is accepted"),
        (replace(GOOD, fates=(KILLED, SURVIVING)), "no mutant survives without a reason"),
        (replace(GOOD, stale=("softmax: a → e",)), "no reason is out of date"),
        (replace(GOOD, dropped=(Withheld("f", "T", "as much", ("less",)),)), "of a dropped slip as much is said"),
        (replace(GOOD, verdicts=(WRONG, RIGHT, replace(WRONG, seed=1, diagnosis=None))), "another seed changes"),
        (replace(GOOD, verdicts=(WRONG, replace(RIGHT, cost=Cost(1001.0, 0.0)))), "a visible check takes"),
        (replace(GOOD, verdicts=(replace(WRONG, cost=Cost(700.0, 0.0)), RIGHT)), "a visible check takes"),
    ],
)
def test_a_requirement_that_is_missed_is_told(proof: Proof, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "autograder.proof.requirements.slowness", lambda: 1
    )  # as on the machine on which the limits were chosen
    assert missed(GOOD) == []
    assert any(one.startswith(asked) for one in missed(proof))


@pytest.mark.slow
def test_what_is_known_of_an_exercise_is_tried_visible_and_hidden_and_with_each_seed() -> None:
    proof = verdicts("causal_mask", range(3))
    assert missed(proof) == []
    assert {(v.hidden, v.seed) for v in proof.verdicts} == {
        (hidden, seed) for hidden in (False, True) for seed in range(3)
    }
    assert len(proof.wrong) == 6 * len(exercises()["causal_mask"].misconceptions)
    assert proof.costs
    assert all(cost.cpu > 0 for cost in proof.costs)


def test_the_page_is_whole_and_escapes_what_it_shows() -> None:
    html = page(
        {"softmax": replace(GOOD, fates=(KILLED, Fate("f: <=", "a < b → a <= b", "", "For a & b alike."), SURVIVING))}
    )
    assert "a &lt; b" in html
    assert "For a &amp; b alike." in html
    assert "<script" not in html
    assert "http" not in html
    assert re.search(r'class="bad">✗</td><td>no mutant survives without a reason</td><td>1 survive', html)


@pytest.mark.slow
def test_a_slip_stands_beside_what_would_be_said_without_it() -> None:
    proof = slips("pairwise_dot")
    exercise = exercises()["pairwise_dot"]
    told = {each.id: each for each in proof.withheld}
    assert set(told) <= set(exercise.programs)
    assert all(each.said.startswith(f"{m.title}. ") for m in exercise.misconceptions if (each := told.get(m.id)))
    assert any("the answer would pass all that was checked" in each for one in told.values() for each in one.instead)
    console = Console(width=200, file=StringIO())
    console.print(tables.beside_table({"pairwise_dot": proof}))
    html = page({"pairwise_dot": proof})
    assert all(id in console.file.getvalue() for id in told)
    assert all(f"<code>{id}</code>" in html for id in told)


@pytest.mark.slow
def test_what_is_said_of_a_dropped_slip_is_shown_and_is_what_was_relied_on() -> None:
    exercise = exercises()["recurrent_states"]
    told = told_of_dropped(exercise, solution(Layout(), exercise), Asking(limits=here()))
    proof = replace(GOOD, dropped=tuple(told))
    assert [each.id for each in told] == ["The states are joined side by side"]
    assert proof.missed == []
    html = page({"recurrent_states": proof})
    assert "<td>The states are joined side by side</td>" in html
    assert "Another function is needed. In line 9" in html


@pytest.mark.slow
@pytest.mark.parametrize("name", DROPPED)
def test_the_line_of_a_dropped_slip_is_rejected(name: str) -> None:
    """`make checks` shows that enough is said of it."""
    exercise = exercises()[name]
    for title, change in (pair for lines in DROPPED[name].values() for pair in lines.items()):
        assert title not in {m.title for m in exercise.misconceptions}
        report = run_exercise(exercise, made(applied(exercise.right, change, title), name))
        assert not report.passed, title
        assert report.score < 1, title


def test_the_tables_of_the_whole_course_fit_80_columns() -> None:
    proofs = {
        "scaled_dot_product_attention": Proof((WRONG,) * 1400 + (RIGHT,) * 450, (KILLED, TOLD) * 2850 + (EQUAL,) * 100)
    }
    shown = tables.wrong_table, tables.right_table, tables.told_table, tables.cost_table
    for table in (each(proofs) for each in shown):
        console = Console(width=80, file=StringIO())
        console.print(table)
        assert "…" not in console.file.getvalue()


@pytest.mark.slow
def test_the_command_prints_the_tables_and_writes_the_page(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "checks.html"
    done = CliRunner().invoke(main, ["checks", "fold_query_key", "split_heads", "--page", str(file)])
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines() if not line.startswith("The page: ")) <= 80
    cells = re.split(r" {2,}|\n", done.stdout.split("Required")[0])
    assert [cell for cell in cells if cell.endswith("…")] == []  # nothing is cut off
    for name in ("fold_query_key", "split_heads", "all"):
        assert len(re.findall(rf"^ *{name} +[\d–]", done.stdout, flags=re.MULTILINE)) == 5
    assert "<td>fold_query_key</td>" in file.read_text(encoding="utf-8")


def test_a_page_that_has_no_folder_is_told_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "measure", lambda *_: pytest.fail("it was tried"))
    (tmp_path / "file").touch()
    done = CliRunner().invoke(main, ["checks", "softmax", "--page", str(tmp_path / "file" / "new" / "checks.html")])
    assert (done.exit_code, done.stderr) == (1, f"{tmp_path / 'file' / 'new'} cannot be used: Not a directory.\n")


def test_an_exercise_that_does_not_exist_is_one_clear_sentence() -> None:
    done = CliRunner().invoke(main, ["checks", "softmx"])
    assert done.exit_code == 1
    assert done.stderr.startswith("No exercise that is answered in code is called 'softmx'; there are: pairwise_dot, ")
