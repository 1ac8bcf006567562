"""`python -m attnlib practice`: 60 columns, an editor or none, an input that ends, a home that cannot be written."""

import os
import re
import subprocess
import sys

import pytest
from practised import opened

from attnlib.checks.practising import terminal
from attnlib.checks.practising.bug import bug_of
from attnlib.checks.practising.play import Practice
from attnlib.checks.standing import kept


def answered(monkeypatch, capsys, *lines, arguments=(), width=60):
    """What a terminal of this width shows for these lines, and the exit status."""
    given = iter(lines)

    def line(prompt=""):
        try:
            return next(given)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", line)
    monkeypatch.setenv("COLUMNS", str(width))
    status = terminal.main(list(arguments))
    return status, capsys.readouterr().out


def test_a_terminal_of_60_columns_is_kept(file, monkeypatch, capsys):
    status, out = answered(monkeypatch, capsys, "A", "h", "h", "h", "s", "g", "", "g", "q")
    assert status == 0
    assert max(map(len, out.split("\n"))) < 60
    assert out.count("Find the bug in") == 2


def test_no_line_of_code_is_cut(file, monkeypatch, capsys):
    bug = bug_of("masked_softmax", "scores_times_mask_2")
    shown = terminal.in_width(bug.code, 60)
    assert re.sub(r"\s+", "", re.sub(r"^ ?\d+( |$)", "", shown, flags=re.MULTILINE)) == re.sub(r"\s+", "", bug.code)


def test_a_small_c_is_an_explanation_as_a_large_one_is(file, monkeypatch, capsys):
    told = [answered(monkeypatch, capsys, letter, "q")[1] for letter in "cC"]
    assert told[0] == told[1]
    assert "Right: C" in told[0] or "C is not true of this code" in told[0]


def test_a_terminal_gets_colours_and_a_file_gets_none(file, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, plain = answered(monkeypatch, capsys, "s", "q")
    assert "\033" not in plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _, out = answered(monkeypatch, capsys, "s", "q")
    assert "\033[1mFind the bug in" in out
    assert out.count("\033[34mdef\033[39;49;00m") == 2  # the code, shown twice
    assert re.sub(r"\033\[[\d;]*m", "", out) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert answered(monkeypatch, capsys, "s", "q")[1] == plain


def test_an_input_that_ends_ends_it(file, monkeypatch, capsys):
    assert answered(monkeypatch, capsys)[0] == 0


def test_an_answer_that_is_none_is_told(file, monkeypatch, capsys):
    _, out = answered(monkeypatch, capsys, "z", "", "999", "q")
    assert "'z' is no answer" in out
    assert "line 999 is empty or not" in " ".join(out.split())


def test_without_an_editor_one_sentence_says_what_is_needed(file, monkeypatch, capsys):
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    _, out = answered(monkeypatch, capsys, "e", "q")
    assert "No editor is set: `export EDITOR=nano`, say." in " ".join(out.split())


def test_an_editor_that_does_not_exist_is_named(file, monkeypatch, capsys):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor --wait")
    _, out = answered(monkeypatch, capsys, "e", "q")
    assert "The editor `no-such-editor --wait` could not be used: No such file" in " ".join(out.split())


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("pass", "Nothing was changed."),
        ("text = right", "Right: the check passes"),
        ("text = text.replace('return', 'retrun')", "The code does not run: SyntaxError"),
        ("text = text.replace('return', 'return 2 *')", "Not yet"),
        ("text = right + '\\n# \\udcfc'", "Right: the check passes"),  # ü as an editor may save it that knows no UTF-8
    ],
)
def test_the_editor_repairs_the_code(file, tmp_path, monkeypatch, capsys, edit, said):
    probe = Practice(terminal=True)
    probe()
    right = opened(probe).right
    editor = tmp_path / "editor.py"
    opens = f"import sys\npath = sys.argv[1]\ntext = open(path).read()\nright = {right!r}\n"
    editor.write_text(f"{opens}{edit}\nopen(path, 'w', encoding='utf-8', errors='surrogateescape').write(text)")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    _, out = answered(monkeypatch, capsys, "e", "q")
    assert said in " ".join(out.split())


def test_the_editor_opens_what_was_saved_last(file, tmp_path, monkeypatch, capsys):
    editor, seen = tmp_path / "editor.py", tmp_path / "seen"
    editor.write_text(
        "import sys\ntext = open(sys.argv[1]).read()\n"
        f"open({str(seen)!r}, 'a').write(text + '#' * 20)\nopen(sys.argv[1], 'w').write('# mine\\n' + text)"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    answered(monkeypatch, capsys, "e", "e", "q")
    first, second, _ = seen.read_text().split("#" * 20)
    assert "# mine" not in first
    assert second == f"# mine\n{first}"


@pytest.mark.parametrize("width", [60, 70, 80, 90, 100])
def test_no_key_is_cut_from_its_meaning(file, monkeypatch, capsys, width):
    _, out = answered(monkeypatch, capsys, "g", "q", width=width)
    keys = [line for line in out.split("\n") if " · " in line or line.endswith(" ·")]
    told = " ".join(keys[:3]).split(" · ")
    assert len(told) >= 6
    for line in keys:
        assert all(re.fullmatch(r"[\w ]+ = [\w ]+( ·)?", part) for part in line.split(" · ")), line


def test_in_a_terminal_nothing_passed_is_one_sentence_and_a_failure(file, monkeypatch, capsys):
    file.unlink()
    status, out = answered(monkeypatch, capsys)
    assert status == 1
    assert " ".join(out.split()).startswith("Practice asks about exercises that you have passed, and none has")


@pytest.mark.slow
def test_the_command_runs_from_anywhere_with_a_home_that_cannot_be_written(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path / "nowhere"), "COLUMNS": "60"}
    env.pop(kept.PLACE, None)
    command = [sys.executable, "-m", "attnlib", "practice", "--everything"]
    done = subprocess.run(command, input="g\nq\n", capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert " ".join(done.stdout.split()).count("cannot be written") == 1
    wrong = subprocess.run([sys.executable, "-m", "attnlib", "practise"], capture_output=True, text=True, env=env)
    assert wrong.returncode == 2
    assert "invalid choice: 'practise' (choose from" in wrong.stderr


def test_two_wrong_lines_are_named_as_the_keys_say(file, monkeypatch, capsys):
    probe = Practice(terminal=True)
    probe(only="two")
    one, other = (change.lines[0] for change in opened(probe).changes)
    _, out = answered(monkeypatch, capsys, f"{one}", f"{one}, {other}", "q", arguments=["--only", "two"])
    told = " ".join(out.split())
    assert "7 9 = both wrong lines" in told
    assert "it is not the only one: name both at once." in told
    assert f"Right: lines {one} and {other}" in told
    assert "7 = that line" in " ".join(answered(monkeypatch, capsys, arguments=["--only", "silent"])[1].split())


def test_enter_by_itself_is_no_answer_and_costs_nothing(file, monkeypatch, capsys):
    _, out = answered(monkeypatch, capsys, "", "", "g", "q")
    assert "is no answer" not in out
    assert out.count("g = give up") == 3
