"""`python -m attnlib practice`: bugs and questions in a terminal, without Jupyter; code is repaired in $EDITOR."""

import argparse
import contextlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill, wrap

from attnlib.checks.course.places import BadCourse
from attnlib.checks.practising.bug import Bug, defined
from attnlib.checks.practising.choose import ONLY, Refused
from attnlib.checks.practising.opened import Opened, OpenedBug
from attnlib.checks.practising.play import Practice
from attnlib.checks.practising.shown import WIDTH, Shown

NO_EDITOR = "No editor is set: `export EDITOR=nano`, say. To name the wrong line or to choose a letter, none is needed."
KEYS = "{line} · A to D = what is true · e = edit · h = hint · g = give up · s = show the code · q = quit"
ONE, BOTH = "7 = that line", "7 9 = both wrong lines"
TO_A_QUESTION = "A to {last} = your answer · h = hint · g = give up · s = show the question · q = quit"
AFTER = "Enter = next · q = quit"
HARD = "\N{NO-BREAK SPACE}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask until the learner quits, the minutes are over, or the input ends; return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m attnlib practice", description="Find the bug in what you have passed, and predict again."
    )
    parser.add_argument("lesson", nargs="?", help="only of this lesson, such as 05_causal_attention")
    parser.add_argument(
        "--only", choices=ONLY, help="silent: no exceptions; two: two wrong lines at once; questions: no bugs"
    )
    parser.add_argument("--minutes", type=float, help="stop after this many")
    parser.add_argument("--everything", action="store_true", help="also what has not passed yet")
    asked = parser.parse_args(arguments)
    practice = Practice(terminal=True)
    try:
        shown = practice(asked.lesson, only=asked.only, minutes=asked.minutes, everything=asked.everything)
    except (Refused, BadCourse) as error:
        _say(str(error))
        return 1
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while practice.opened is not None and not practice.opened.closed:
            _show(shown)
            if isinstance(practice.opened, OpenedBug):
                _show_code(practice.opened.bug)
            if not _ask_about(practice, shown):
                break
            shown = practice.next()
            if practice.opened.closed:
                _show(shown)
    print()
    return 0


def _ask_about(practice: Practice, asked: Shown) -> bool:
    """Prompt until the open bug or question is answered or given up; False if the learner quits."""
    opened = practice.opened
    assert opened is not None
    while not opened.closed:
        _say("\n" + _kept_together(_keys(opened)))
        answer = input("> ").strip()
        if answer.lower() in ("q", "quit", "exit"):
            return False
        if not answer:
            continue
        try:
            shown = _answered(practice, answer, asked)
        except Refused as error:
            _say(str(error))
        else:
            if shown is not None:
                _show(shown)
    _say("\n" + _kept_together(AFTER))
    return input("> ").strip().lower() not in ("q", "quit", "exit")


def _keys(opened: Opened) -> str:
    if isinstance(opened, OpenedBug):
        return KEYS.format(line=BOTH if len(opened.bug.changes) > 1 else ONE)
    return TO_A_QUESTION.format(last=max(opened.options))


def _kept_together(keys: str) -> str:
    """Join each key with its meaning, so that a line ends between two of them: behind the dot."""
    return " · ".join(one.replace(" ", HARD) for one in keys.split(" · ")).replace(" ·", f"{HARD}·")


def _answered(practice: Practice, answer: str, asked: Shown) -> Shown | None:
    """Act on the learner's input; return what to show, or None if it has been printed already."""
    opened = practice.opened
    assert opened is not None
    numbers = answer.replace(",", " ").split()
    if isinstance(opened, OpenedBug) and numbers and all(number.isdecimal() for number in numbers):
        return practice.line(*map(int, numbers))
    commands: dict[str, Callable[[], Shown | None]] = {"h": practice.hint, "g": practice.give_up}
    if isinstance(opened, OpenedBug):
        open_bug, bug = opened, opened.bug
        commands |= {"e": lambda: _edited(practice, open_bug), "s": lambda: _show_code(bug)}
    else:
        commands["s"] = lambda: asked
    if answer.lower() in commands:
        return commands[answer.lower()]()
    if answer.upper() in opened.options:
        return practice.because(answer) if isinstance(opened, OpenedBug) else practice.answer(answer)
    raise Refused(f"{answer!r:.40} is no answer.")


def _edited(practice: Practice, opened: OpenedBug) -> Shown | None:
    """Open the code in an editor, then run its check; None, after saying why, if there is nothing to check.

    The editor opens what was saved last, so that nobody has to write a repair twice.
    """
    bug, before = opened.bug, opened.edited or opened.bug.code
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        _say(NO_EDITOR)
        return None
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"{bug.exercise}.py")
            file.write_text(before + "\n", encoding="utf-8")
            said = editor.replace("\\", "\\\\") if sys.platform == "win32" else editor  # its paths have backslashes
            subprocess.run([*shlex.split(said), str(file)], check=True)
            code = file.read_text(encoding="utf-8", errors="replace")  # in a comment, say
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        _say(f"The editor `{editor}` could not be used: {getattr(error, 'strerror', '') or error}")
        return None
    if code.strip() == before.strip():
        _say("Nothing was changed.")
        return None
    opened.edited = code.rstrip("\n")
    try:
        attempt = defined(code, bug.exercise, "edited")
    except Exception as error:  # the learner's code may raise anything
        _say(f"The code does not run: {type(error).__name__}: {error}")
        return None
    return practice.repaired(attempt)


def in_width(code: str, width: int | None = None) -> str:
    """Number the code's lines, and continue long ones below, under their own indent.

    >>> print(in_width("total = one_number + another_number", 30))
     1  total = one_number +
            another_number
    """
    width = width or _width()
    rows = []
    for number, line in enumerate(code.split("\n"), 1):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        room = max(20, width - 4)
        pieces = wrap(line, room, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False) or [""]
        rows += [f"{f'{number:>2}' if not place else '  '}  {piece}".rstrip() for place, piece in enumerate(pieces)]
    return "\n".join(rows)


def _show(shown: Shown) -> None:
    text = repr(Shown(shown.headline, shown.sections, _width()))
    print("\n" + (re.sub(r"^(?=\S)(.*)$", "\033[1m\\1\033[0m", text, flags=re.MULTILINE) if _is_styled() else text))


def _show_code(bug: Bug) -> None:
    print("\n" + _coloured(in_width(bug.code)))


def _coloured(code: str) -> str:
    """Colour the code if the terminal has colours and Pygments is installed, as it is with IPython."""
    if not _is_styled():
        return code
    try:
        pygments, lexers = importlib.import_module("pygments"), importlib.import_module("pygments.lexers")
        formatter = importlib.import_module("pygments.formatters").TerminalFormatter()
    except ModuleNotFoundError:
        return code
    return str(pygments.highlight(code, lexers.PythonLexer(stripnl=False, ensurenl=False), formatter))


def _is_styled() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _say(text: str) -> None:
    """Print a text in the terminal's width; its hard spaces become spaces that no line ends at."""
    print("\n".join(fill(line, _width()) for line in text.split("\n")).replace(HARD, " "))


def _width() -> int:
    return min(WIDTH + 20, max(40, shutil.get_terminal_size().columns - 1))


if __name__ == "__main__":
    sys.exit(main())
