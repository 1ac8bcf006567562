"""`python -m autograder doctor`: it finds that promises hold, and it would find that one does not."""

import os

import pytest
from click.testing import CliRunner

from autograder.__main__ import main
from autograder.sandbox.doctor import examine
from autograder.sandbox.doctor.attacks import LIMITS, Attack, attacks
from autograder.sandbox.doctor.examine import judged, said
from autograder.sandbox.layers import Layers
from autograder.sandbox.probe import probe
from autograder.sandbox.process import Sandbox
from autograder.showing.errors import CourseError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sandbox(request):
    """A sandbox: behind what works here, or behind what a test names."""
    try:
        layers = probe(getattr(request, "param", "auto"))
    except CourseError as error:
        pytest.skip(f"NOT TESTED: there is no such sandbox on this machine. {error}")
    with Sandbox(layers, LIMITS) as sandbox:
        yield sandbox


def examined(sandbox, code, *expected):
    attack = Attack("a promise", "an attack", code, expected)
    return judged(attack, said(sandbox, attack))


def test_what_is_refused_has_held(sandbox):
    assert examined(sandbox, "os.fork()").held


def test_what_is_not_refused_has_not_held(sandbox):
    finding = examined(sandbox, "open('mine', 'w').write('x')")
    assert not finding.held
    assert finding.how == examine.OPEN


COPIES = """import shutil
    open('data.csv', 'w').write('1,2')
    os.mkdir('folder')
    for copy in (shutil.copyfile, shutil.copy, shutil.copy2):
        copy('data.csv', 'folder/' + copy.__name__)
    shutil.copytree('folder', 'other')
    assert open('other/copy2').read() == '1,2'"""


OTHERS = "os.chmod('/usr', 0o755)\n    os.utime('/usr')"  # goes through, and yet nothing has changed
MODE = "open('x', 'w')\n    os.chmod('x', 0)\n    assert os.stat('x').st_mode & 0o777"  # the same


def test_a_student_may_copy_files_in_any_way(sandbox):
    assert [examined(sandbox, code).how for code in (COPIES, OTHERS, MODE)] == [examine.OPEN] * 3


def test_a_limit_holds_by_itself_alone(sandbox):
    loop = said(sandbox, Attack("a promise", "an attack", "while True: pass"))
    assert judged(Attack("a promise", "an attack", "", ("time",)), loop).held
    assert not judged(Attack("a promise", "an attack", "", ("files",)), loop).held
    assert not examined(sandbox, "1 / 0", "time").held


def test_an_attack_that_is_no_python_proves_nothing(sandbox):
    assert not examined(sandbox, "this is no python").held


@pytest.mark.parametrize("sandbox", ["landlock"], indirect=True)
def test_a_student_may_copy_files_in_any_way_behind_landlock_alone(sandbox):
    assert [examined(sandbox, code).how for code in (COPIES, OTHERS, MODE)] == [examine.OPEN] * 3


def test_where_nothing_confines_it_refuses(tmp_path):
    result = CliRunner().invoke(main, ["doctor", "--sandbox", "none"])
    assert result.exit_code == 1
    assert "--sandbox none is no sandbox" in result.output


HARMLESS = (
    "opens a unix socket",
    "lists /",
    "starts /bin/true",
    "may send its parent a signal",
    "writes too much into one",
)


def test_a_promise_that_is_not_kept_is_found(tmp_path):
    """Without a sandbox, and by attacks that harm nobody."""
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret", encoding="utf-8")
    with Sandbox(Layers("none", seccomp=False, landlock=False), LIMITS) as sandbox:
        tried = [attack for attack in attacks(secret, tmp_path) if attack.attack in (*HARMLESS, "reads secret.txt")]
        assert len(tried) == len(HARMLESS) + 1
        for attack in tried:
            assert judged(attack, said(sandbox, attack)).how == examine.OPEN, attack


@pytest.mark.parametrize(
    "choice",
    ["auto", pytest.param("landlock", marks=pytest.mark.again), *os.environ.get("AUTOGRADER_IMAGE", "").split()],
)
def test_every_promise_holds(choice):
    assert doctor(choice) == (0, "")


ENDED_FROM_OUTSIDE = ("loops", "loops in one call", "sleeps")


def test_every_promise_holds_behind_landlock_alone_that_is_a_matter_of_layers(monkeypatch):
    """Without the attacks that compute and sleep until they are ended, which no layer does."""

    def without(*places):
        kept = [one for one in attacks(*places) if one.attack not in ENDED_FROM_OUTSIDE]
        assert len(kept) == len(list(attacks(*places))) - len(ENDED_FROM_OUTSIDE)
        return kept

    monkeypatch.setattr(examine, "attacks", without)
    assert doctor("landlock") == (0, "")


def doctor(choice):
    """The exit code, and what it says if anything is broken."""
    try:
        probe(choice)
    except CourseError as error:
        pytest.skip(f"NOT TESTED: {error}")
    result = CliRunner().invoke(main, ["doctor", "--sandbox", choice])
    is_whole = result.exit_code == 0 and "BROKEN" not in result.output
    return result.exit_code, "" if is_whole else result.output
