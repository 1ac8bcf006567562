"""`python -m autograder doctor`: it finds that promises hold, and it would find that one does not."""

import dataclasses
import os

import pytest
from click.testing import CliRunner

from autograder import doctor
from autograder.__main__ import main
from autograder.doctor import Attack, judged, said
from autograder.errors import CourseError
from autograder.sandbox.layers import Layers, probe
from autograder.sandbox.process import Sandbox


@pytest.fixture(scope="module")
def sandbox():
    try:
        layers = probe()
    except CourseError as error:
        pytest.skip(f"NOT TESTED: there is no sandbox on this machine. {error}")
    with Sandbox(layers, doctor.LIMITS) as sandbox:
        yield sandbox


def examined(sandbox, code, *expected):
    attack = Attack("a promise", "an attack", code, expected)
    return judged(attack, said(sandbox, attack))


def test_what_is_refused_has_held(sandbox):
    assert examined(sandbox, "os.fork()").held


def test_what_is_not_refused_has_not_held(sandbox):
    finding = examined(sandbox, "open('mine', 'w').write('x')")
    assert not finding.held
    assert finding.how == doctor.OPEN


def test_a_limit_holds_by_its_own_words_alone(sandbox):
    assert examined(sandbox, "while True: pass", "did not end").held
    assert not examined(sandbox, "1 / 0", "did not end").held


def test_an_attack_that_is_no_python_proves_nothing(sandbox):
    assert not examined(sandbox, "this is no python").held


def test_the_command_fails_where_nothing_confines(monkeypatch, tmp_path):
    """Without a sandbox, only what harms nobody is tried."""
    harmless = ("opens a unix socket", "reads the secret", "starts /bin/true")
    every = doctor.attacks
    monkeypatch.setattr(
        doctor,
        "attacks",
        lambda secret, course: [
            attack
            for attack in (
                dataclasses.replace(a, attack=a.attack.replace(secret.name, "the secret"))
                for a in every(secret, course)
            )
            if attack.attack in harmless
        ],
    )
    monkeypatch.setattr("autograder.sandbox.layers.probe", lambda choice: Layers("none", seccomp=False, landlock=False))
    result = CliRunner().invoke(main, ["doctor", "--sandbox", "none"])
    assert result.exit_code == 1
    assert result.output.count("BROKEN") == len(harmless)
    assert "3 of 3 attacks got through" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["auto", "landlock", *os.environ.get("AUTOGRADER_IMAGE", "").split()])
def test_every_promise_holds(choice):
    try:
        probe(choice)
    except CourseError as error:
        pytest.skip(f"NOT TESTED: {error}")
    result = CliRunner().invoke(main, ["doctor", "--sandbox", choice])
    assert "BROKEN" not in result.output
    assert result.exit_code == 0, result.output
