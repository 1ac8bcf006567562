"""Keep what a learner wrote: each answer that passes goes to `my_attention/`, and later lessons find it there."""

import ast
import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from attnlib.checks.exercise import Exercise
from attnlib.checks.standing.folder import day, own_folder, shown
from attnlib.checks.standing.kept import locked, running_shell
from attnlib.checks.standing.own_file import ABOUT, answers_in, changed_in, with_answer
from attnlib.checks.standing.own_source import PACKAGE, NotKept, own_source
from attnlib.checks.standing.stale import cell_of

AS_WRITTEN = ".as_written"
"""A folder with each file as last written: a file that differs from it has been edited."""
HISTORY, INIT = "history", "__init__.py"
Passes = Callable[[str, Any], bool]
"""Tells if an answer passes the check of the exercise that is named."""


def keep_answer(exercise: Exercise, attempt: Any, passes: Passes, *, even_if_edited: bool = False) -> str:
    """Write an answer that has passed into the learner's package; say where, or why not.

    Empty where nothing is to be kept, where there is nothing to say, and for a letter that answers a question. An
    earlier answer to the same exercise goes to `history/`. A file that was edited by hand stays as it is, unless the
    learner says otherwise; and so does one in which the answer would not pass, or others would not any more.
    """
    place, shell = own_folder(), running_shell()
    if place is None or shell is None or exercise.kind == "choice":
        return ""
    file = place / f"lesson_{exercise.lesson[:2]}.py"
    try:
        name = _name_of(attempt, exercise.name, shell.user_ns)
        cells = shell.history_manager.input_hist_parsed
        source = own_source(name, cells, shell.user_ns, partial(cell_of, shell=shell), file.stem)
    except NotKept as why:
        return f"Not kept in {shown(file)}: {why}"
    try:
        before = _read(file) or ABOUT.format(lesson=exercise.lesson.replace("_", " "))
        nonetheless = f'from attnlib.checks import keep; keep("{exercise.name}", {name})'
        if not even_if_edited and file.exists() and _read(_as_written(file)) != before:
            edited = f"you have edited {shown(file)}, so it stays as it is"
            return f"Not kept: {edited}. To write this answer into it: {nonetheless}"
        after, replaced = with_answer(before, exercise.name, name, source, day(date.today()))
        if after == before:
            return ""
        if told := _spoilt(file, before, after, exercise.name, passes, "" if even_if_edited else nonetheless):
            return f"Not kept in {shown(file)}: {told}"
        place.mkdir(parents=True, exist_ok=True)
        with locked(place / INIT):  # which lists the answers of all lessons
            if at_once := (_read(file) or before) == before:
                if replaced:
                    _append(place / HISTORY / file.name, f"# until {day(date.today())}\n{replaced}\n")
                _write(file, after)
                _write_init(place)
        if not at_once:  # another notebook has written into it meanwhile
            return keep_answer(exercise, attempt, passes, even_if_edited=even_if_edited)
    except OSError as error:
        return f"Not kept: {shown(file)} cannot be written ({error.strerror})"
    except (SyntaxError, ValueError) as error:
        return f"Not kept: {shown(file)} cannot be read ({fault_of(error)})"
    return f"Kept in {shown(file)}"


def kept_answer(exercise: Exercise) -> tuple[Any, str]:
    """Return the package's answer to an exercise, or None; and where it is, or why it can't be used."""
    place = own_folder()
    if place is None:
        return None, ""
    file = place / f"lesson_{exercise.lesson[:2]}.py"
    try:
        text = _read(file)
        if text is None:
            return None, ""
        name = answers_in(text).get(exercise.name)
        if name is None:
            return None, ""
        return getattr(_load(file), name), shown(file)
    except (Exception, SystemExit) as error:  # the file is the learner's: it may raise anything
        return None, f"{shown(file)} cannot be used ({_why(error, file)})"


def _why(error: BaseException, file: Path) -> str:
    """Say what the file raised, or which line of which file isn't Python: it may be one that the file imports."""
    if not isinstance(error, SyntaxError) or error.lineno is None:
        return f"{type(error).__name__}: {error}"
    parsed = error.filename in (None, "<unknown>")  # by `ast`, which knows no file
    return f"line {error.lineno} of {file.name if parsed else Path(str(error.filename)).name} isn't valid Python"


def imported_answers(exercise: Exercise) -> list[str]:
    """The exercises of earlier lessons whose answers the file of this one's imports."""
    place, found = own_folder(), []
    file = place / f"lesson_{exercise.lesson[:2]}.py" if place else None
    for statement in ast.parse((file and _read(file)) or "").body:
        if file and isinstance(statement, ast.ImportFrom) and statement.level and (statement.module or "~") < file.stem:
            names = {alias.name for alias in statement.names}
            there = answers_in(_read(file.with_name(f"{statement.module}.py")) or "")
            found += [other for other, name in there.items() if name in names]
    return found


def _spoilt(file: Path, before: str, after: str, exercise: str, passes: Passes, nonetheless: str) -> str:
    """Say why the file would not do, as a clause: in it the answer has to pass, and the others as before.

    The others are tried if a helper or an import is another now; not where the learner has written it `nonetheless`.
    """
    answers = answers_in(after)
    try:
        old = _run(file, before)
    except (Exception, SystemExit):  # edited by hand, or another lesson's file is gone: this answer is not to blame
        return ""
    try:
        new = _run(file, after)
    except (Exception, SystemExit) as error:
        return f"without the rest of the notebook it does not run ({type(error).__name__}: {error})"
    if not passes(exercise, getattr(new, answers[exercise])):
        return "without the rest of the notebook it does not pass"
    changed = changed_in(before, after) - {answers[exercise]}
    for other, name in answers_in(before).items() if changed and nonetheless else ():
        if other != exercise and not passes(other, getattr(new, name)) and passes(other, getattr(old, name)):
            shared = f"{name} there uses another {' and '.join(sorted(changed))}, and would not pass with yours"
            return f"{shared}. Give yours another name, or write it there: {nonetheless}"
    return ""


def fault_of(error: SyntaxError | ValueError) -> str:
    """Say what is wrong with a file of the package that somebody edited, as a clause."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    return f"line {line} isn't valid Python" if line else "it isn't Python in UTF-8"


def read_own(file: Path) -> tuple[str | None, str | None]:
    """Return what a file of the package holds, and what was last written into it: they differ if it was edited."""
    return _read(file), _read(_as_written(file))


def write_own(file: Path, text: str) -> None:
    """Write a whole file of the package; the one before it goes to `history/`."""
    before = _read(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file):
        if before not in (None, text):
            _append(file.parent / HISTORY / file.name, f"# until {day(date.today())}\n{before}\n")
        _write(file, text)


def _name_of(attempt: Any, exercise: str, written: dict[str, Any]) -> str:
    """The name under which the notebook has the answer."""
    candidates = [exercise, getattr(attempt, "__name__", ""), *written]
    for name in candidates:
        if name.isidentifier() and not name.startswith("_") and written.get(name) is attempt:
            return name
    raise NotKept("it has no name in the notebook")


def _load(file: Path) -> ModuleType:
    """Load the file as a module of the package without running its `__init__`: lessons don't depend on each other."""
    name = f"{PACKAGE}.{file.stem}"
    with _package(file.parent):
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _run(file: Path, text: str) -> ModuleType:
    """Run what the file may come to hold, as a module of the package that nobody can import."""
    module = ModuleType(f"{PACKAGE}.{file.stem}_to_be")
    module.__package__ = PACKAGE
    with _package(file.parent):
        exec(compile(text, f"{file} to be", "exec"), module.__dict__)
    return module


@contextlib.contextmanager
def _package(folder: Path) -> Iterator[None]:
    """Let `from .lesson_02 import …` find the folder, without leaving a package behind that nobody imported.

    It finds the files as they are now, and not what was loaded before somebody edited one.
    """
    loaded = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith(f"{PACKAGE}.")}
    imported = PACKAGE in sys.modules
    if not imported:
        sys.modules[PACKAGE] = ModuleType(PACKAGE)
        sys.modules[PACKAGE].__path__ = [str(folder)]
    try:
        yield
    finally:
        if not imported:
            del sys.modules[PACKAGE]
        sys.modules.update({name: module for name, module in loaded.items() if name not in sys.modules})


def _as_written(file: Path) -> Path:
    return file.parent / AS_WRITTEN / file.name


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8-sig")  # Windows has editors that begin with a mark
    except FileNotFoundError:
        return None


def _write(file: Path, text: str) -> None:
    """Write both or, on a full disk or where another program has the file open, none: else it would count as edited."""
    fresh = {each.with_name(f"{each.name}.fresh"): each for each in (file, _as_written(file))}
    for new in fresh:
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")
    for new, each in fresh.items():
        new.replace(each)


def _append(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as history:
        history.write(f"\n\n{text}" if file.stat().st_size else text)


def _write_init(place: Path) -> None:
    """Write the package's `__init__` with the names of all answers, by lesson; one that was edited stays.

    A lesson whose file is no Python any more would keep the others from being imported.
    """
    file = place / INIT
    before = _read(file)
    if before is not None and before != _read(_as_written(file)):
        return
    lines = ['"""Attention, written by me: `from my_attention import …`."""', ""]
    for lesson in sorted(place.glob("lesson_*.py")):
        with contextlib.suppress(SyntaxError, ValueError):
            names = sorted(answers_in(_read(lesson) or "").values())
            lines += [f"from .{lesson.stem} import {name} as {name}" for name in names]
    _write(file, "\n".join([*lines, ""]))
