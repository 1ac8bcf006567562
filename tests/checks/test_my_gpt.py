"""A GPT in one file, out of the answers of a member of the class; and what is said where parts are missing."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_own_code import Notebook, another, own  # noqa: F401  a fixture

from attnlib.checks import check
from attnlib.checks.course import gpt_of_parts
from attnlib.checks.my_gpt import my_gpt
from attnlib.checks.practising.dialects import of_the_bank
from attnlib.checks.practising.programs import with_imports
from attnlib.checks.standing import one_file
from attnlib.checks.standing.one_file import OneFile
from autograder.lesson_text.regions import solved_source

pytestmark = pytest.mark.slow

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
WRITTEN = {
    "05_causal_attention": ("causal_mask", "masked_softmax", "CausalSelfAttention"),
    "06_encoder_block": ("layer_norm",),
    "08_language_model": (
        "next_token_loss",
        "DecoderBlock",
        "LanguageModel",
        "train_language_model",
        "sample_next",
        "generate",
    ),
    "09_fast_decoding": ("append_to_cache", "cached_attention", "write_with_cache"),
}


def take(lesson: str, notebook: Notebook) -> None:
    """Run the imports of a lesson, what its answers build on, and the answers, each with its check."""
    cells = re.split(r"^# %%.*\n", (SOLUTIONS / f"{lesson}.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
    code = [cell for cell in cells if cell.strip() and not cell.startswith("# ")]
    notebook.run(code[0])
    for cell in code[1:]:
        lends = cell.startswith(("Attention = yours_or_ours",))
        name = next((n for n in WRITTEN[lesson] if re.search(rf"^(def|class) {n}\b", cell, re.MULTILINE)), None)
        if lends or name:
            notebook.run(solved_source(cell))
        if name:
            check(name, notebook.user_ns[name])


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Where the first test leaves the package for the others."""
    return tmp_path_factory.mktemp("built") / "my_attention"


@pytest.fixture
def package(own, built, monkeypatch) -> Path:  # noqa: F811
    """`my_attention/` of somebody who has written all parts."""
    if built.exists():
        shutil.copytree(built, own)
        return own
    for lesson in WRITTEN:
        take(lesson, another(monkeypatch))
    shutil.copytree(own, built)
    return own


def test_all_parts_of_a_member_of_the_class_train_as_attnlibs_do(package, capsys):
    capsys.readouterr()
    gpt = my_gpt()
    told = capsys.readouterr().out
    assert "and attnlib's to the same." in told
    assert f"Written: {package / 'my_gpt.py'}." in told
    written = {name for names in WRITTEN.values() for name in names}
    mine = {part for part, whose in gpt.WHOSE.items() if whose.startswith("mine, lesson 0")}
    assert mine >= {
        *("CausalSelfAttention", "layer_norm", "DecoderBlock", "LanguageModel", "next_token_loss"),
        *("train_language_model", "sample_next", "generate", "cached_attention", "write_with_cache"),
    }
    assert mine <= written
    text = (package / "my_gpt.py").read_text()
    assert "my_attention" not in re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    assert not re.search(r"^from \.", text, re.MULTILINE)
    assert "attnlib.checks" not in text


@pytest.mark.parametrize("dialect", range(3))
def test_parts_in_other_words_train_as_attnlibs_do(own, monkeypatch, capsys, dialect):  # noqa: F811
    for names in WRITTEN.values():
        notebook = another(monkeypatch)
        for name in names:
            if texts := [text for text in of_the_bank(name) if text]:
                notebook.run(with_imports(texts[dialect % len(texts)], "")[0])
                check(name, notebook.user_ns[name])
    capsys.readouterr()
    whose = my_gpt().WHOSE
    assert {part for part, owner in whose.items() if owner.startswith("mine")} >= set(gpt_of_parts.PARTS)
    assert "to the same." in capsys.readouterr().out


def test_the_file_stands_alone_trains_writes_and_says_whose_it_is(package, tmp_path):
    my_gpt()
    file = (package / "my_gpt.py").rename(tmp_path / "elsewhere.py")
    poem = tmp_path / "poem.txt"
    poem.write_text("\n".join(f"the {n} cats sat on the {n + 1} mats" for n in range(40)))
    command = [sys.executable, file.name, poem.name, "12"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    losses = re.search(r"never saw: (.*)", done.stdout)[1].split(", ")
    assert float(losses[-1]) < float(losses[0])
    assert re.search(r"CausalSelfAttention +mine, lesson 05", done.stdout)
    short = tmp_path / "short.txt"
    short.write_text("one line\n")
    done = subprocess.run([sys.executable, file.name, short.name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "at least 10 lines of text are needed, got 1 in short.txt\n"


def test_a_part_that_is_missing_is_attnlibs(own, monkeypatch, capsys):  # noqa: F811
    take("09_fast_decoding", another(monkeypatch))
    capsys.readouterr()
    gpt = my_gpt()
    told = capsys.readouterr().out
    assert "yours: append_to_cache, cached_attention, write_with_cache." in told.replace("3 parts are ", "")
    assert gpt.WHOSE["LanguageModel"] == "attnlib's"
    assert "to the same." in told


def test_it_is_written_where_nothing_has_passed_yet(own, capsys):  # noqa: F811
    assert not own.exists()
    my_gpt()
    told = capsys.readouterr().out
    assert "No part is yours yet" in told
    assert f"Written: {own / 'my_gpt.py'}." in told
    assert (own / "my_gpt.py").exists()


def test_a_part_that_no_longer_passes_is_attnlibs(package, capsys):
    file = package / "lesson_08.py"
    file.write_text(file.read_text().replace("return ids\n", "return ids + 1\n"))
    capsys.readouterr()
    assert my_gpt().WHOSE["generate"] == "attnlib's"
    told = capsys.readouterr().out
    assert f"attnlib's generate is used: the one in {file} does not pass its check any more." in told
    assert "attnlib's: generate." in told
    assert "to the same." in told


def test_a_file_that_is_no_python_is_said_and_left_out(package, capsys):
    with (package / "lesson_09.py").open("a") as file:
        file.write("def half(:\n")
    capsys.readouterr()
    assert my_gpt().WHOSE["write_with_cache"] == "attnlib's"
    assert re.search(r"lesson_09.py is not used: line \d+ isn't valid Python\.", capsys.readouterr().out)


def test_a_file_that_was_edited_stays_and_another_one_goes_to_the_history(package, capsys):
    my_gpt()
    file = package / "my_gpt.py"
    first = file.read_text()
    (package / "lesson_09.py").unlink()
    my_gpt()
    assert file.read_text() != first
    assert first in (package / "history" / "my_gpt.py").read_text()
    file.write_text(first + "\n# mine\n")
    capsys.readouterr()
    my_gpt()
    assert "You have edited" in capsys.readouterr().out
    assert file.read_text().endswith("# mine\n")


def test_losses_that_differ_are_told(package, capsys, monkeypatch):
    monkeypatch.setattr(gpt_of_parts, "train", lambda *_: torch.zeros(2))
    my_gpt()
    assert "and attnlib's to 0.00: they differ" in capsys.readouterr().out


def test_a_file_that_does_not_run_is_told(package, capsys, monkeypatch):
    monkeypatch.setattr(one_file, "renamed", lambda source, names: source.replace("LanguageModel(v", "Lost(v"))
    my_gpt()
    assert "It doesn't run yet (NameError" in capsys.readouterr().out


def test_a_micro_sign_is_a_name():
    """Python reads it as a Greek μ, in one more place: a ligature has more bytes than its letters."""
    made = OneFile({"lesson_06": "def µ(x):\n    return x.mean()\ndef ﬁt(x):\n    return µ(x) + ﬁt"}, {})
    made.add(("lesson_06", "fit"))
    assert made.statements == {"μ": "def μ(x):\n    return x.mean()", "fit": "def fit(x):\n    return μ(x) + fit"}


def test_two_things_of_one_name_are_kept_apart():
    files = {
        "main": "from lib import run, walk",
        "lesson_05": "HALF = 0.5\ndef scaled(x):\n    return HALF * x.HALF",
        "lesson_08": "from .lesson_05 import scaled\nHALF = 2\ndef run(x):\n    return scaled(x) + HALF",
    }
    made = OneFile(files, {("main", "run"): ("lesson_08", "run")})
    made.add(("main", "run"))
    assert made.statements == {
        "HALF": "HALF = 2",
        "HALF_05": "HALF_05 = 0.5",
        "scaled": "def scaled(x):\n    return HALF_05 * x.HALF",
        "run": "def run(x):\n    return scaled(x) + HALF",
    }
