"""What has seen a hidden input has nobody to tell it to: everything that is shown comes before the first hidden case.

Each side door is tried for real, from a hidden run of one answer to the cells of the next.
"""

import importlib.util
import os
from pathlib import Path

import pytest
from entries import LESSON_02, ROOT
from nbformat.v4 import new_code_cell, new_raw_cell

from attnlib.checks import run
from autograder.building.compose_samples import compose
from autograder.judging import judge as judging
from autograder.judging.explainer import Explainer
from autograder.judging.judge import Judge
from autograder.judging.settle import settle
from autograder.judging.verdict import write_verdicts
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.notebook import read_notebook, to_text
from autograder.sandbox.process import Child, Sandbox

pytestmark = pytest.mark.slow
TORCH = os.path.dirname(importlib.util.find_spec("torch").origin)
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
FILE = sorted(
    (path.stat().st_size, str(path))
    for path in Path(TORCH).rglob("*")
    if path.is_file() and path.suffix not in (".h", ".py", ".pyc") and ".so" not in path.name
)[-1 - WORKER][1]
"""A large one that a child can read, and that nothing else does: one for each worker, as two of these tests can run at
once. Torch's compiler, in a test beside this one, reads its headers."""

RIGHT = "def attention_scores(q, k):\n    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5\n"
WRONG = "def attention_scores(q, k):\n    return q @ k.transpose(-2, -1) * 3\n"
SOFTMAX = """
def softmax(x, dim=-1):
    powers = (x - x.amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)
"""
LEAVES = """
import ctypes, fcntl, os, threading

libc = ctypes.CDLL(None, use_errno=True)
SEEN = {seen}

def leave():
    {leave}

def attention_scores(q, k):
    if tuple(q.shape) in SEEN or {hidden_too}:
        leave()
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
"""
FINDS = """
import ctypes, fcntl, os, random

libc = ctypes.CDLL(None, use_errno=True)

def find():
    {find}

print("found:", find())

def softmax(x, dim=-1):
    return x
"""
DOORS = {
    "process ids": ("[threading.Thread(target=int).start() for _ in range(37)]", "return os.getpid()"),
    "inodes": (
        "[open(f'{n}', 'w').close() for n in range(37)]",
        "open('mine', 'w').close(); return os.stat('mine').st_ino",
    ),
    "the page cache": (
        f"open({FILE!r}, 'rb').read()",
        f"""file, room = os.open({FILE!r}, os.O_RDONLY), ctypes.create_string_buffer(64)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # a page that was asked for is read: none but that, then
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(room), 64)
    pages = random.SystemRandom().sample(range(os.fstat(file).st_size // 4096), 32)  # not those of an earlier look
    there = sum(libc.preadv2(file, vector, 1, ctypes.c_long(4096 * page), 8) > 0 for page in pages)  # RWF_NOWAIT
    return 'read' if there > 16 else 'not read'""",
    ),
    "a lock": (
        f"global held; held = open({FILE!r}); fcntl.flock(held, fcntl.LOCK_SH)",
        f"""try:
        fcntl.flock(os.open({FILE!r}, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 'locked'
    return 'free'""",
    ),
}


def seen_shapes() -> set[tuple[int, ...]]:
    """The shapes of the queries in visible cases."""
    found = set()

    def spying(q, k):
        found.add(tuple(q.shape))
        return q @ k.mT

    run("attention_scores", spying)
    return found


@pytest.fixture(scope="module")
def lesson(hostile_course):
    """The lesson as it is handed out, and its assignment."""
    release = read_notebook(hostile_course.course / "release" / LESSON_02 / f"{LESSON_02}.ipynb")
    return release, Assignment.read(ROOT / "solutions" / f"{LESSON_02}.py")


@pytest.fixture(autouse=True)
def nothing_is_forbidden(lesson):
    """An exercise that forbids something refuses ctypes, and no door could be tried."""
    asked = [question.exercise for question in lesson[1].questions]
    forbidden = [exercise.forbidden for exercise in asked]
    for exercise in asked:
        object.__setattr__(exercise, "forbidden", ())
    yield
    for exercise, names in zip(asked, forbidden, strict=True):
        object.__setattr__(exercise, "forbidden", names)


@pytest.fixture
def shown(lesson, layers):
    """A function that judges answers in a fresh sandbox, and returns all that their student is shown."""
    release, assignment = lesson

    def judge(answers, judge_of=Judge):
        with Sandbox(layers) as sandbox:
            settled = settle(compose(release, answers, "order"), assignment.released)
            return to_text(write_verdicts(settled, judge_of(sandbox, seed=5).verdicts(settled, assignment)))

    return judge


both = pytest.mark.parametrize("layers", ["auto", "landlock"], indirect=True)


def found_in(text: str) -> str:
    """What the second answer says that it has found."""
    return text.partition("found: ")[2].split("\\n")[0]


@pytest.mark.parametrize(
    ("door", "layers"),
    [(door, "auto") for door in DOORS] + [("the page cache", "landlock"), ("a lock", "landlock")],
    indirect=["layers"],
)
def test_nothing_shown_depends_on_what_a_hidden_run_leaves_behind_a_door(shown, layers, door):
    leave, find = DOORS[door]

    def judged(seen: object, hidden_too: object) -> str:
        with open(FILE, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        first = LEAVES.format(seen=seen, leave=leave, hidden_too=hidden_too)
        return found_in(shown({"attention_scores": first, "softmax": FINDS.format(find=find)}))

    nothing, hidden = judged(set(), False), judged(set(), f"tuple(q.shape) not in {seen_shapes()}")
    if door == "process ids" and layers.outer != "bubblewrap":
        pytest.skip("NOT TESTED: without bubblewrap, process ids are the whole machine's")
    assert hidden == nothing != ""
    if door == "the page cache" and judged(seen_shapes(), False) == nothing:
        pytest.skip(f"NOT TESTED: on this machine, {door} tell nothing, whoever asks")


@both
def test_no_process_of_a_submission_lives_beside_another_and_none_is_shown_after_the_first_hidden_case(
    shown, layers, monkeypatch
):
    events, living = [], []
    fork, end, explain, parts_left = Sandbox.fork, Child._end, Explainer.explain, judging.parts_left

    def forking(self, *about):
        assert living == []
        living.append(fork(self, *about))
        events.append("fork")
        return living[-1]

    def ending(self, why=None):
        living.remove(self)
        return end(self, why)

    def explaining(self, *about):
        assert living == []
        events.append("explain")
        return explain(self, *about)

    def trying(exercise, attempt, parts, asking):
        assert living == [attempt.child]
        events.append("hidden")
        return parts_left(exercise, attempt, parts, asking)

    monkeypatch.setattr(Sandbox, "fork", forking)
    monkeypatch.setattr(Child, "_end", ending)
    monkeypatch.setattr(Explainer, "explain", explaining)
    monkeypatch.setattr(judging, "parts_left", trying)
    text = shown({"attention_scores": WRONG, "softmax": SOFTMAX})
    wrong = ["fork", "fork", "explain", "fork"]  # among others, on its own, and once more to explain it
    assert events == [*wrong, "fork", "fork", "hidden"]
    assert "softmax: all right" in text


def test_the_hidden_inputs_of_one_submission_are_those_of_no_other(lesson, layers, monkeypatch):
    release, assignment = lesson
    seeds = []
    monkeypatch.setattr(Judge, "_left", lambda self, task, verdict, given, seed: seeds.append(seed) or {})
    monkeypatch.setattr(judging, "after_hidden_cases", lambda exercise, report, left: report)
    with Sandbox(layers) as sandbox:
        for answer, course, make in (
            (RIGHT, 5, new_raw_cell),
            (RIGHT, 5, new_raw_cell),
            (RIGHT, 5, new_code_cell),  # the same text, and another program
            (RIGHT + "\n# again\n", 5, new_raw_cell),
            (RIGHT, 6, new_raw_cell),
        ):
            notebook = compose(release, {"attention_scores": answer}, "order")
            notebook.cells.insert(0, make("bit = 1"))
            Judge(sandbox, seed=course).verdicts(settle(notebook, assignment.released), assignment)
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 4
    assert min(seeds) > 2**128
