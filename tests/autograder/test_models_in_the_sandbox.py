"""An exercise may hand a model to an answer in the sandbox; what the answer leaves in it comes back."""

from pathlib import Path

import pytest

from attnlib.checks import exercises
from attnlib.checks.course import right
from autograder.judging.cells_around import imported_late
from autograder.judging.judge import Judge, Run
from autograder.judging.together import Terms
from autograder.lesson_text.assignment import Question
from autograder.sandbox.probe import NOTHING, probe
from autograder.sandbox.process import Sandbox
from autograder.sandbox.views import view, withheld

pytestmark = pytest.mark.slow

RIGHT = Path(right.__file__).with_name("circuits_11.py")
HOOKED = """def ablated(model, ids, layer, head, mean=False):
    w_o = model.layers[layer].w_o
    d_head = w_o.in_features // model.layers[layer].num_heads

    def silence(_, inputs):
        z = inputs[0].clone()
        own = slice(head * d_head, (head + 1) * d_head)
        z[..., own] = z[..., own].mean(dim=(0, 1)) if mean else 0
        return z

    handle = w_o.register_forward_pre_hook(silence)
    logits = model(ids)
    {removed}
    return logits
"""


@pytest.fixture(scope="module")
def judge():
    with Sandbox(probe("auto")) as sandbox:
        yield Judge(sandbox, seed=7)


TRAINS = "import torch\ndef train(weights):\n    torch.optim.SGD([weights], lr=0.1).step()"
DRAWS = "import matplotlib.pyplot as plt\nplt.plot([1])"
LATE = ["torch._dynamo", "matplotlib.pyplot"]


@pytest.mark.parametrize(
    ("role", "source", "late"),
    [
        ("answer", "def f(x):\n    return x", []),
        ("answer", TRAINS, LATE[:1]),
        ("answer", "f = torch.compile(f)", LATE[:1]),
        ("given", TRAINS, []),
        ("given", DRAWS, LATE[1:]),
        ("added", TRAINS + DRAWS, LATE),
    ],
)
def test_what_takes_long_to_import_is_for_cells_that_may_need_it(role, source, late):
    assert imported_late([{"name": "a", "source": source, "role": role}]) == late


def test_no_child_waits_for_torch_s_compiler_but_one_that_trains(judge):
    def has(late):
        child = judge.sandbox.fork(late=late)
        child.ask({**NOTHING, "expression": f"' '.join(sorted({set(LATE)} & set(__import__('sys').modules)))"})
        told = child.listen()["value"]["text"]
        child.close()
        return told.split()

    assert [has([]), has(LATE[:1]), has(LATE)] == [[], LATE[:1], sorted(LATE)]


@pytest.mark.parametrize("names", sorted({tuple(sorted(withheld(e))) for e in exercises().values()}), ids=" ".join)
def test_attnlib_can_be_imported_without_what_an_exercise_withholds(judge, names):
    library = view(frozenset(names))
    child = judge.sandbox.fork(library=library)
    child.ask({**NOTHING, "library": library, "expression": "__import__('attnlib').__name__"})
    told = child.listen()
    child.close()
    assert (told["missing"], told["value"]) == (None, {"text": "attnlib"})


def judged(judge, exercise, source, expression):
    cells = [{"name": "answer", "source": source, "role": "answer"}]
    question = Question("test", exercises()[exercise], expression, "answer", exercises()[exercise].points)
    terms = Terms(frozenset(), frozenset(), frozenset())
    judge.together.groups = {question.test: (terms, terms)}
    return judge._ask(Run(cells, []), question, frozenset(), []).report


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("ablate_head", "ablated_by_einops"),
        ("ablate_head", "ablated_in_the_weights"),
        ("ov_circuit", "circuit_by_the_layers"),
        ("path_patch", "patched_from_a_cache"),
    ],
)
def test_a_right_answer_gets_a_model_of_attnlib(judge, exercise, answer):
    report = judged(judge, exercise, RIGHT.read_text(encoding="utf-8"), answer)
    assert report.passed, report.message


@pytest.mark.parametrize(
    ("removed", "diagnosis"),
    [("handle.remove()", "hook_left_after_an_error"), ("", "hook_left_behind")],
)
def test_a_hook_that_is_left_in_the_model_is_seen(judge, removed, diagnosis):
    report = judged(judge, "ablate_head", HOOKED.format(removed=removed), "ablated")
    assert (report.diagnosis, report.points) == (diagnosis, 3.0)


def test_another_model_in_attnlib_is_the_student_s_own_loss(judge):
    source = "import attnlib\nattnlib.AttentionOnly = None\n" + HOOKED.format(removed="handle.remove()")
    assert judged(judge, "ablate_head", source, "ablated").points == 0


def test_a_demonstration_that_is_shown_is_lent_what_the_answers_are(judge):
    cell = {"name": "shown", "role": "given"}
    lends = "yours_or_ours('causal_mask', globals())(3, 3).shape[0]"
    cell["source"] = f"from attnlib.checks import yours_or_ours\nwidth = {lends}"
    attempt = Run([cell], [], show=("shown",))
    assert judge._shown(attempt, frozenset(), frozenset({"causal_mask"})) == {"shown": {"width": 3}}
