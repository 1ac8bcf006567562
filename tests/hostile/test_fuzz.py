"""Whatever is handed in, and whatever a sandbox answers, is read or refused: nothing crashes, nothing hangs."""

import copy
import json

import pytest
from clumsy import zipped
from entries import TINY
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_course import RIGHT, tiny_text

from autograder.building.compose_samples import compose
from autograder.judging.intake.custody import read, take_in
from autograder.judging.judge import Judge
from autograder.judging.settle import settle
from autograder.judging.verdict import write_verdicts
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import read_notebook, to_text
from autograder.sandbox.inside.wire import BadMessage, decode, encode
from autograder.sandbox.process import Sandbox
from autograder.showing.errors import NotGraded

pytestmark = pytest.mark.slow

BOUNDED = {"derandomize": True, "deadline": 60_000, "suppress_health_check": list(HealthCheck)}
few = settings(max_examples=25, **{**BOUNDED, "deadline": None})
many = pytest.mark.parametrize("examples", [100, pytest.param(400, marks=pytest.mark.again)])
"""The first hundred are enough to notice what has broken; the others repeat that."""


def fuzz(examples, **strategies):
    """Call the function at once, with so many examples."""
    return lambda test: settings(max_examples=examples, **BOUNDED)(given(**strategies)(test))()


NAMES = """cells source metadata nbgrader grade_id cell_type code markdown raw pairwise_dot test_pairwise_dot points
worksheets input kernelspec language nbformat id outputs"""
WORDS = st.sampled_from(NAMES.split())
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS
VALUES = st.recursive(
    LEAVES,
    lambda v: st.lists(v, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), v, max_size=4),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def assignment(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / f"{TINY}.py"
    path.write_text(tiny_text(), encoding="utf-8")
    return Assignment(TINY, read_lesson(path))


@pytest.fixture(scope="module")
def right(hostile_course):
    """A right submission, as JSON."""
    release = read_notebook(hostile_course.course / "release" / TINY / f"{TINY}.ipynb")
    return json.loads(to_text(compose(release, RIGHT, "fuzz")))


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def mutated(data, notebook):
    """A copy with some of its places replaced, removed, doubled or exchanged."""
    found = copy.deepcopy(notebook)
    for _ in range(data.draw(st.integers(1, 5))):
        path = data.draw(st.sampled_from(list(places(found))[1:] or [()]))
        if not path:
            break
        owner = found
        for key in path[:-1]:
            owner = owner[key]
        what = data.draw(st.sampled_from(["replace", "remove", "double", "exchange"]))
        if what == "remove":
            del owner[path[-1]]
        elif what == "double" and isinstance(owner, list):
            owner.insert(path[-1], copy.deepcopy(owner[path[-1]]))
        elif what == "exchange" and isinstance(owner, list):
            other = data.draw(st.integers(0, len(owner) - 1))
            owner[path[-1]], owner[other] = owner[other], owner[path[-1]]
        else:
            owner[path[-1]] = data.draw(VALUES)
    return found


def taken_in(files, known_ids=()):
    """The notebook, or the reason why there is none: nothing else may come of any file."""
    try:
        return take_in(files, TINY, known_ids).notebook
    except NotGraded as reason:
        return str(reason)


def settled_or_refused(data: bytes, assignment):
    """The notebook as grading needs it, or the reason why there is none."""
    taken = taken_in({f"{TINY}.ipynb": data}, assignment.released)
    return taken if isinstance(taken, str) else settle(taken, assignment.released)


def is_complete_or_refused(outcome, assignment) -> bool:
    """Whether there is a reason, or a notebook that can be written and has each test once."""
    if isinstance(outcome, str):
        return outcome != ""
    to_text(outcome)
    tests = [c.metadata.nbgrader.grade_id for c in outcome.cells if c.metadata.get("nbgrader", {}).get("grade")]
    return sorted(tests) == sorted(question.test for question in assignment.questions)


@many
def test_a_mutated_notebook_is_settled_or_refused(assignment, right, examples):
    @fuzz(examples, data=st.data())
    def _(data):
        outcome = settled_or_refused(json.dumps(mutated(data, right)).encode(), assignment)
        assert is_complete_or_refused(outcome, assignment)


@many
def test_any_json_is_settled_or_refused(assignment, examples):
    @fuzz(examples, value=VALUES)
    def _(value):
        assert is_complete_or_refused(settled_or_refused(json.dumps(value).encode(), assignment), assignment)


@many
def test_any_cells_are_settled_or_refused(assignment, examples):
    @fuzz(examples, cells=st.lists(VALUES, max_size=5))
    def _(cells):
        outcome = settled_or_refused(json.dumps({"cells": cells}).encode(), assignment)
        assert is_complete_or_refused(outcome, assignment)


@many
def test_any_bytes_are_read_or_refused(examples):
    @fuzz(examples, data=st.binary(max_size=300))
    def _(data):
        for files in ({f"{TINY}.ipynb": data}, {"a.zip": data}, {"a.ipynb": data, "b.zip": data}):
            taken = taken_in(files)
            assert taken != "" if isinstance(taken, str) else to_text(taken)


@many
def test_a_damaged_file_is_read_or_refused(right, examples):
    @fuzz(examples, data=st.data())
    def _(data):
        whole = json.dumps(right).encode()
        if data.draw(st.booleans()):
            whole = zipped({f"{TINY}.ipynb": whole})
        damaged = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 8))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        for name in (f"{TINY}.ipynb", "a.zip"):
            taken = taken_in({name: bytes(damaged)})
            assert taken != "" if isinstance(taken, str) else to_text(taken)


def test_the_unspoilt_notebook_is_read(right):
    assert len(read(json.dumps(right).encode()).notebook.cells) == len(right["cells"])


@pytest.fixture(scope="module")
def judge(layers, impatient):
    with Sandbox(layers) as sandbox:
        yield Judge(sandbox, seed=7)


@few
@given(data=st.data())
def test_a_mutated_notebook_is_judged(judge, assignment, right, data):
    settled = settled_or_refused(json.dumps(mutated(data, right)).encode(), assignment)
    if not isinstance(settled, str):
        verdicts = judge.verdicts(settled, assignment)
        assert all(0 <= verdict.points <= verdict.question.points for verdict in verdicts)
        to_text(write_verdicts(settled, verdicts))


TENSORS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float32", "float64", "bool", "complex64", "int64", "uint8", "no dtype"]) | LEAVES,
        "shape": st.lists(st.integers(0, 3), max_size=4) | st.lists(st.integers(), max_size=20) | VALUES,
        "gradient": st.booleans() | LEAVES,
        "meta": st.booleans() | LEAVES,
    },
    optional={"order": st.permutations(range(3)) | VALUES},
)
PLAIN = st.recursive(
    LEAVES | TENSORS.map(lambda t: {"tensor": t}) | st.integers(0, 20).map(lambda n: {"bytes": n}),
    lambda v: (
        st.lists(v, max_size=3).map(lambda items: {"list": items})
        | st.dictionaries(WORDS, v).map(lambda d: {"dict": d})
    ),
    max_leaves=8,
)


@many
def test_any_frame_is_a_message_or_none(examples):
    @fuzz(
        examples,
        header=st.binary(max_size=100) | VALUES.map(lambda v: json.dumps(v).encode()),
        body=st.binary(max_size=50),
    )
    def _(header, body):
        assert is_message_or_none(header, body)


@many
def test_any_tensor_in_a_frame_is_one_or_none(examples):
    @fuzz(examples, value=PLAIN, body=st.binary(max_size=64))
    def _(value, body):
        assert is_message_or_none(json.dumps({"dict": {"reply": value}}).encode(), body)


def is_message_or_none(header: bytes, body: bytes) -> bool:
    """Whether the frame is refused in words, or is a message that can be sent on."""
    try:
        message = decode(header, body)
    except BadMessage as error:
        return str(error) != ""
    return isinstance(message, dict) and len(encode(message)) > 0


@pytest.mark.parametrize("axes", [300_000])
def test_an_order_of_very_many_axes_is_refused_at_once(axes):
    tensor = {"dtype": "bool", "shape": [0], "gradient": False, "meta": False, "order": list(range(axes))}
    with pytest.raises(BadMessage, match="order"):
        decode(json.dumps({"dict": {"x": {"tensor": tensor}}}).encode(), b"")


@pytest.mark.parametrize("meta", [False, True])
def test_a_long_axis_of_nothing_is_refused(meta):
    tensor = {"dtype": "bool", "shape": [2**39, 0], "gradient": False, "meta": meta}
    with pytest.raises(BadMessage, match="too large"):
        decode(json.dumps({"dict": {"x": {"tensor": tensor}}}).encode(), b"")
