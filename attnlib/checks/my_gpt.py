"""`my_gpt()`: the learner's own parts of a GPT, from the lessons where they passed, in one file."""

import ast
import inspect
from pathlib import Path
from types import ModuleType

import torch

from attnlib.checks.course import gpt_of_parts
from attnlib.checks.standing.folder import own_folder, shown
from attnlib.checks.standing.one_file import OneFile
from attnlib.checks.standing.own_code import fault_of, read_own, write_own
from attnlib.checks.standing.own_file import answers_in
from attnlib.checks.yours_or_ours import passing

FILE = "my_gpt.py"
MAIN = "my_gpt"
STEPS = 10
OURS = "attnlib's"


def my_gpt() -> ModuleType:
    """Write `my_attention/my_gpt.py` out of the parts that passed, and try it beside attnlib's.

    A part that did not pass is imported from attnlib, and the file says whose each part is. Ten steps are trained with
    both, from the same weights, and the losses compared. The result is the file as a module: `my_gpt().main()` trains
    for longer and writes. A file that was edited by hand stays as it is. Where nothing is kept (`ATTNLIB_MY_ATTENTION`
    is empty, or this is no notebook), only the module is made.

    >>> gpt = my_gpt()
    No part is yours yet: they're attnlib's.
    Ten steps take the loss from 3.68 to 2.64, and attnlib's to the same.
    >>> gpt.WHOSE["generate"]
    "attnlib's"
    """
    text, whose = assembled()
    mine = [part for part, owner in whose.items() if owner != OURS]
    theirs = [part for part, owner in whose.items() if owner == OURS]
    count = "1 part is" if len(mine) == 1 else f"{len(mine)} parts are"
    told = f"{count} yours: {', '.join(mine)}." if mine else "No part is yours yet: they're attnlib's."
    print(told + (f" attnlib's: {', '.join(theirs)}." if mine and theirs else ""))
    if folder := own_folder():
        print(_written(folder / FILE, text))
    module = loaded(text)
    print(compared(module))
    return module


def _written(file: Path, text: str) -> str:
    edited = f"You have edited {shown(file)}, so it stays as it is. Rename it to get a new one."
    try:
        before, as_written = read_own(file)
        if before is not None and before != as_written:
            return edited
        write_own(file, text)
    except OSError as error:
        return f"Not written: {shown(file)} cannot be written ({error.strerror})."
    except ValueError:  # it isn't text in UTF-8 any more
        return edited
    return f"Written: {shown(file)}. `python {shown(file)}` trains it, and lets it write."


def assembled() -> tuple[str, dict[str, str]]:
    """Return the text of the file, and whose each of its parts is."""
    files = {MAIN: inspect.getsource(gpt_of_parts), **_lessons()}
    answers = {(file, name): part for file in files for part, name in answers_in(files[file]).items()}
    instead = {(MAIN, part): place for place, part in answers.items() if part in gpt_of_parts.PARTS and _passes(part)}
    made = OneFile(files, instead)
    for part in gpt_of_parts.PARTS:
        made.add((MAIN, part))
    own = {name: f"# lesson {made.home[name][-2:]}\n{source}" for name, source in made.statements.items()}
    whose = {made.names[place]: f"mine, lesson {place[0][-2:]}" for place in answers if place in made.names}
    whose |= {part: OURS for part in gpt_of_parts.PARTS if (MAIN, part) not in instead}
    for name, (statement, _) in made.read[MAIN].items():
        if name != "PARTS" and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            made.add((MAIN, name))
    rest = {name: source for name, source in made.statements.items() if name not in own}
    rest["WHOSE"] = "WHOSE = {\n" + "".join(f'    "{part}": "{owner}",\n' for part, owner in whose.items()) + "}"
    head = f'"""{gpt_of_parts.__doc__}"""\n\n' + "\n".join(made.import_lines())
    last = 'if __name__ == "__main__":\n    main()\n'
    return "\n\n\n".join([head, *own.values(), *rest.values(), last]), whose


def _lessons() -> dict[str, str]:
    """The files of the learner's package that are Python, by name."""
    folder, found = own_folder(), {}
    for file in sorted(folder.glob("lesson_*.py")) if folder else ():
        try:
            text, _ = read_own(file)
            ast.parse(text or "")
        except (SyntaxError, ValueError) as error:
            print(f"{shown(file)} is not used: {fault_of(error)}.")
        else:
            found[file.stem] = text or ""
    return found


def _passes(part: str) -> bool:
    answer, told = passing(part)
    if answer is None:
        print(f"attnlib's {part} is used: {told}.")
    return answer is not None


def loaded(text: str) -> ModuleType:
    """The file as a module."""
    module = ModuleType(MAIN)
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def compared(module: ModuleType) -> str:
    """A sentence on ten steps with the learner's parts, and with attnlib's from the same weights."""
    lines = gpt_of_parts.lines_of(None)
    letters = gpt_of_parts.Letters(lines)
    ours = gpt_of_parts.new_model(len(letters.all))
    try:
        own = module.new_model(len(letters.all))
        weights = {name: weight.clone() for name, weight in own.state_dict().items()}
        mine = module.train(own, lines, letters, STEPS, STEPS)
    except Exception as error:  # the parts are the learner's: they may raise anything
        return f"It doesn't run yet ({type(error).__name__}: {error})."
    try:
        ours.load_state_dict(weights)
    except RuntimeError:
        return "Your layers have other names than attnlib's, so the two can't start from the same weights."
    theirs = gpt_of_parts.train(ours, lines, letters, STEPS, STEPS)
    told = f"Ten steps take the loss from {mine[0]:.2f} to {mine[-1]:.2f}, and attnlib's to "
    if torch.allclose(mine, theirs, atol=1e-4, rtol=0):
        return f"{told}the same."
    return f"{told}{theirs[-1]:.2f}: they differ, so look for the part that does."
