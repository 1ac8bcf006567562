"""What the student reads: what was expected and what came, the misconception, a small example, the parts."""

import ast
import json
import re
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import torch
from einops import einsum, rearrange, reduce
from notebook_cells import run_cell
from torch import Tensor, nn

import attnlib
from attnlib.checks import exercises, run
from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.time_limits import TimeLimits
from attnlib.checks.exercise import AS_GIVEN
from attnlib.checks.naming.symptom_names import SYMPTOMS
from attnlib.checks.verdict import gallery
from attnlib.checks.verdict.report import MIME
from attnlib.checks.verdict.words import headline

NOTEBOOK = {
    "F": torch.nn.functional,
    "attnlib": attnlib,
    "einsum": einsum,
    "nn": nn,
    "rearrange": rearrange,
    "reduce": reduce,
    "Tensor": Tensor,
    "torch": torch,
}
"""What a lesson's first cell imports."""


def no_scale(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.mT


def of_a_cell(source: str) -> Any:
    """What the last definition of a notebook's cell defines."""
    last = [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef)][-1]
    return run_cell(source, NOTEBOOK)[last]


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_misconception_is_named_explained_and_shown_on_a_small_example() -> None:
    message = run("attention_scores", no_scale).message
    told = words(message)
    assert message.startswith("✗ attention_scores: the values are not right (0 of 4 points)")
    assert "called with q (2, 5, 3) float32, k (2, 7, 3) float32" in told
    assert "first difference at [0, 0, 0]: expected" in told
    assert "A common misunderstanding: The scale is missing" in told
    assert "A sum of d products grows with √d" in told
    assert "yours" in message
    assert "[6.00  2.00  0.00]     [3.00  1.00  0.00]" in message
    assert "gradient, robustness: counted once the values are right" in told


def test_the_shape_is_told_before_the_values() -> None:
    report = run("attention_scores", lambda q, k: (k @ q.mT) / q.shape[-1] ** 0.5)
    assert report.diagnosis == "exchanged"
    assert "expected shape (2, 5, 7), got (2, 7, 5)" in report.message


def test_an_error_names_the_line_of_the_attempt() -> None:
    def broken(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return q @ k

    message = words(run("attention_scores", broken).message)
    assert "raised RuntimeError" in message
    assert "`return q @ k`" in message


def test_a_long_error_stands_below_a_short_headline() -> None:
    def split(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        return rearrange(x, "b n (h d) -> b h n d", h=num_heads)

    report = run("split_heads", split)
    assert report.headline == "raised EinopsError"
    assert "Error while processing" in report.sections[0].body
    assert "At line" in report.sections[0].body


def test_a_tensor_where_a_tuple_is_wanted_is_called_what_it_is() -> None:
    def output_only(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q @ k.mT @ v

    def sparse_scores(q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT).to_sparse()

    assert "but returned a single tensor" in words(run("scaled_dot_product_attention", output_only).message)
    assert "but returned a sparse tensor" in words(run("attention_scores", sparse_scores).message)


def test_a_missing_parameter_is_the_headline_with_those_that_are_there() -> None:
    class TwoOfThree(nn.Module):
        def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
            super().__init__()
            self.w_k, self.w_v = nn.Linear(d_model, d_k, bias=bias), nn.Linear(d_model, d_v, bias=bias)

    report = run("QKVProjection", TwoOfThree)
    assert report.headline.startswith("has no parameter 'w_q.weight'")
    assert "has w_k.weight, w_k.bias" in words(report.message)


def test_layers_under_other_names_are_named_so_whatever_the_names_are() -> None:
    class Renamed(nn.Module):
        def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
            super().__init__()
            self.query, self.key = nn.Linear(d_model, d_k, bias=bias), nn.Linear(d_model, d_k, bias=bias)
            self.value = nn.Linear(d_model, d_v, bias=bias)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            return self.query(x), self.key(x), self.value(x)

    report = run("QKVProjection", Renamed)
    assert report.diagnosis == "layers_renamed"
    assert report.headline == "has parameters under other names"
    assert "It has query.weight, query.bias" in words(report.message)


def test_an_error_that_says_too_little_is_not_told_in_numbers() -> None:
    def split(x: torch.Tensor, num_heads: int) -> torch.Tensor:
        if x.shape[-1] % num_heads:
            raise ValueError("the width does not fit")
        return rearrange(x, "b n (h d) -> b h n d", h=num_heads)

    report = run("split_heads", split)
    assert report.headline == "the error does not say what it should"
    assert "differ" not in report.message


def test_a_failure_that_ends_where_its_details_would_begin_is_told_all_the_same() -> None:
    text = f"must return {'a' * 67}: "  # a child may send any text
    assert headline(Failure("type", text)) == (text, "")


def test_a_stub_is_told_in_one_line() -> None:
    def pairwise_dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("pairwise_dot")

    report = run("pairwise_dot", pairwise_dot)
    assert report.sections == ()
    assert "<code>raise NotImplementedError</code>" in report._repr_mimebundle_()["text/html"]


def test_an_unknown_mistake_is_told_apart_from_the_known_ones() -> None:
    patient = TimeLimits(search_case_cpu=600.0, search_cpu=6000.0, search_wall=60_000.0)  # on any machine
    report = run("attention_scores", lambda q, k: (q @ k.mT / q.shape[-1] ** 0.5).cos(), limits=patient)
    assert report.diagnosis not in {m.id for m in exercises()["attention_scores"].misconceptions}
    headings = [section.heading for section in report.sections]
    assert headings[1] == "One change away: One step too many"
    assert "A common misunderstanding" not in report.message


def released(exercise: str) -> str:
    """The cell of the student notebook in which this exercise is solved."""
    notebooks = Path(__file__).parents[2] / "notebooks"
    cells = json.loads((notebooks / f"{exercises()[exercise].lesson}.ipynb").read_text())["cells"]
    (found,) = (c for c in cells if c["metadata"].get("nbgrader", {}).get("grade_id") == exercise)
    return "".join(found["source"])


@pytest.mark.parametrize("name", [name for name in exercises() if name.startswith("mend_")])
def test_code_that_nobody_has_mended_yet_does_not_have_its_bug_named(name: str) -> None:
    attempt = of_a_cell(released(name))
    report = run(name, attempt)
    assert (report.diagnosis, report.headline) == (AS_GIVEN, "the bug is still there")
    assert [s.heading for s in report.sections if "case" not in s.heading and "example" not in s.heading] == [
        "Find the bug: This is still what the given code computes"
    ]
    assert "first difference at" in words(report.message)
    assert "At line" not in report.message
    assert run(name, attempt, hidden=True).diagnosis == AS_GIVEN


def test_the_report_is_rich_text_in_a_notebook_and_json_for_the_grader() -> None:
    report = run("attention_scores", no_scale)
    bundle = report._repr_mimebundle_()
    assert bundle["text/plain"] == report.message == str(report)
    assert "<script" not in bundle["text/html"]
    assert "The scale is missing" in bundle["text/html"]
    assert bundle["text/html"].startswith('<div role="group" aria-label="Verdict on attention_scores"')
    assert '<div role="alert"><div role="heading" aria-level="4"><b>✗ attention_scores: the val' in bundle["text/html"]
    assert bundle["text/html"].count('<div role="heading" aria-level="5"') == len(report.sections)
    assert not re.search(r"[^-]color:|background", bundle["text/html"])  # the theme's own, light or dark
    record = json.loads(json.dumps(bundle[MIME]))
    assert record["diagnosis"] == "no_scale"
    assert record["points"] == 0.0
    assert record["parts"] == {"values": False, "gradient": False, "robustness": False}


def test_what_an_attempt_prints_cannot_break_the_html() -> None:
    def noisy(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        print("<script>alert(1)</script>")
        return no_scale(q, k)

    html = run("attention_scores", noisy)._repr_mimebundle_()["text/html"]
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind == "choice"])
def test_a_prediction_explains_every_wrong_choice_and_the_right_one(name: str) -> None:
    exercise = exercises()[name]
    assert run(name, f" {exercise.reference.lower()} ").passed
    assert exercise.explanation in words(run(name, exercise.reference).message)
    for misconception in exercise.misconceptions:
        report = run(name, misconception.implementation)
        assert report.score == 0.0
        assert words(misconception.explanation) in words(report.message)
    assert "is not answered yet" in run(name, ...).message
    assert "must be 'A', 'B'" in run(name, "Z").message
    assert "you passed a value of type int" in run(name, 3).message


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
def test_points_and_parts_are_told(name: str) -> None:
    report = run(name, None)
    exercise = exercises()[name]
    told = (
        f"(0 of {exercise.points} point{'s' * (exercise.points != 1)})" if exercise.points else "(no points: an extra)"
    )
    assert told in words(report.message)


def test_code_and_stress_in_an_explanation_are_drawn_in_html() -> None:
    html = run("attention_scores", lambda q, k: q @ k.mT / q.shape[-1])._repr_mimebundle_()["text/html"]
    assert "The <em>variance</em> of a dot product" in html


def test_somebody_elses_case_is_linked() -> None:
    report = run("attention_scores", lambda q, k: q @ k.mT)
    [section] = [section for section in report.sections if section.link]
    assert f"Someone else's case: {section.link}" in report.message
    assert f'<a href="{section.link}">' in report._repr_mimebundle_()["text/html"]


SITE = "https://example.org/course"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes attnlib look as if it had been installed with these of `project.urls`."""

    def install(**urls: str) -> None:
        settings = Message()
        for name, address in urls.items():
            settings["Project-URL"] = f"{name}, {address}"
        monkeypatch.setattr(gallery, "metadata", lambda name: settings)
        monkeypatch.setattr(gallery, "site", gallery.site.__wrapped__)

    return install


def test_a_mistake_is_linked_to_its_page_on_the_site(installed: Callable[..., None]) -> None:
    installed(Repository="https://example.org/code", Documentation=SITE)
    report = run("attention_scores", lambda q, k: q @ k.mT)
    assert f"More on this mistake: {SITE}/mistakes/no_scale.html" in report.message
    assert f'<a href="{SITE}/mistakes/no_scale.html">' in report._repr_mimebundle_()["text/html"]


def test_two_mistakes_at_once_have_two_pages_and_others_none(installed: Callable[..., None]) -> None:
    installed(Documentation=f"{SITE}/")
    exercise = exercises()["attention_scores"]
    both = next(told for told in exercise.misconceptions if told.both)
    assert gallery.pages_of(exercise, both) == tuple(f"{SITE}/mistakes/{id}.html" for id in both.both)
    assert gallery.pages_of(exercise, SYMPTOMS["not_a_number"]) == ()
    for name in ("predict_largest_dot", "mend_rotary"):  # the reason would be the answer
        assert all(gallery.pages_of(exercises()[name], told) == () for told in exercises()[name].misconceptions)


def test_without_an_address_no_page_is_named(installed: Callable[..., None]) -> None:
    installed(Repository="https://example.org/code")
    assert "More on this mistake" not in run("attention_scores", lambda q, k: q @ k.mT).message


def test_a_heading_with_long_inputs_does_not_fill_a_paragraph() -> None:
    def search(questions: list[str], texts: list[str]) -> Tensor:
        return torch.zeros(len(questions), len(texts))

    html = run("search", search)._repr_mimebundle_()["text/html"]
    headings = re.findall(r'aria-level="5"[^>]*><b>(.*?)</b>', html)
    assert headings[0].startswith("In the case “")
    assert max(map(len, headings)) < 120
    assert "<div>Called with questions = [" in html


def test_a_cut_in_what_was_printed_is_marked() -> None:
    report = run("pairwise_dot", lambda x, y: print("shape " * 300))
    (shown,) = (section.body for section in report.sections if section.heading.startswith("Your code printed"))
    assert shown == "shape " * 100 + "…"
