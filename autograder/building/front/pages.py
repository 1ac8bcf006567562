"""The first page of the site, the page to try, and the page of bugs: files of HTML that load nothing but pictures."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup
from PIL import Image

from attnlib.checks import exercises, run
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.records import ten_bugs
from attnlib.checks.practising.table import rows
from attnlib.checks.verdict.report import as_html, marked_up
from autograder.building.colab import repository_url
from autograder.building.front.date_reader import LANGUAGES, LESSON, Trained, exported, train_reader
from autograder.lesson_text.layout import ROOT, Layout
from autograder.showing.errors import CourseError
from autograder.showing.pages import fill_in

HERE = Path(__file__).parent
EXERCISE, DIAGNOSIS = "split_heads", "reshaped"
WRONG = """\
def split_heads(x, num_heads):
    b, n, width = x.shape
    d, left_over = divmod(width, num_heads)
    if left_over:
        raise ValueError(num_heads, width)
    return x.reshape(b, num_heads, n, d)
"""
MARKED = 6
SEED = 7
"""The seed of the ten bugs."""
PICTURES = ["attention.png", "course.png", "films/date_writer.gif", "films/induction_head.gif", "reaction.png"]


def write_front(folder: Path, titles: dict[str, str], layout: Layout) -> None:
    """Write the pages and their pictures to `folder`, with the lessons' titles."""
    for path in PICTURES:
        for one in {path, path.replace(".gif", ".png")}:
            (folder / "pictures").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(layout.solutions / one, folder / "pictures" / Path(one).name)
    (folder / "index.html").write_text(first_page(titles, layout), encoding="utf-8")
    (folder / "bugs.html").write_text(bugs_page(layout), encoding="utf-8")
    (folder / "try.html").write_text(try_page(train_reader(layout.solutions), layout), encoding="utf-8")


def first_page(titles: dict[str, str], layout: Layout) -> str:
    """The first page: what this is, three doors, what will be built, a diagnosis, and the lessons by their titles."""
    url, told = repository_url(ROOT), exercises().values()
    return fill_in(
        HERE / "index.html",
        {},
        **shared(layout),
        lessons=[{"link": f"notebooks/{name}.html", "title": title} for name, title in titles.items()],
        repository=url,
        command=f"git clone {url} attention && make -C attention lab" if url else "make lab",
        wrong=[{"text": text, "marked": row == MARKED} for row, text in enumerate(WRONG.splitlines(), 1)],
        verdict=verdict(),
        known=f"misconceptions/{exercises()[EXERCISE].lesson}.html",
        mistakes=sum(len(exercise.misconceptions) for exercise in told),
        exercises=sum(exercise.points > 0 for exercise in told),
        points=sum(exercise.points for exercise in told),
        pictures={Path(path).stem: picture(layout.solutions / path) for path in PICTURES},
    )


def picture(path: Path) -> dict[str, Any]:
    """Return a picture's address on the site, its size, and for a film its last frame."""
    with Image.open(path) as image:
        width, height = image.size
    return {"path": f"pictures/{path.name}", "still": f"pictures/{path.stem}.png", "width": width, "height": height}


def verdict() -> str:
    """Return the check's verdict on `WRONG` as a notebook shows it; a CourseError if it names something else."""
    written: dict[str, Any] = {}
    exec(WRONG, written)
    report = run(EXERCISE, written[EXERCISE])
    if report.diagnosis != DIAGNOSIS:
        raise CourseError(f"The first page shows {DIAGNOSIS!r}, and the check of {EXERCISE} says {report.diagnosis!r}.")
    return as_html(report)


def try_page(trained: Trained, layout: Layout) -> str:
    """The page on which the reader reads what a visitor types."""
    return fill_in(
        HERE / "try.html",
        {},
        **shared(layout),
        weights=json.dumps(exported(trained)).replace("<", r"\u003c"),
        numbers=sum(parameter.numel() for parameter in trained.reader.parameters()),
        lines=len((HERE / "reader.js").read_text(encoding="utf-8").splitlines()),
        languages=LANGUAGES,
        samples=trained.samples,
        tested=len(trained.texts),
        missed=trained.missed(),
        lesson=f"notebooks/{LESSON}.html",
    )


def bugs_page(layout: Layout) -> str:
    """The page of ten bugs: contract, symptom, code with lines to press, and the folded answer."""
    return fill_in(
        HERE / "bugs.html",
        {"stressed": lambda text: Markup(marked_up(text))},
        **shared(layout),
        bugs=[bug | {"rows": [*_lines(bug["code"])]} for bug in ten_bugs(SEED)],
        levels=LEVELS,
        known=len(rows()),
    )


def _lines(code: str) -> Iterator[dict[str, Any]]:
    """Each line without its indentation, and the width of that: narrow screens break the line there."""
    for line in code.split("\n"):
        yield {"text": line.strip(), "indent": len(line) - len(line.lstrip())}


def shared(layout: Layout) -> dict[str, Any]:
    """Return what the head of every page needs."""
    icon = (ROOT / "docs" / "site" / "static" / "favicon.svg").read_text(encoding="utf-8")
    return {"first_lesson": f"notebooks/{layout.lessons()[0]}.html", "icon": icon}
