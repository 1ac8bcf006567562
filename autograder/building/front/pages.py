"""The first page of the site, and the page to try: two files of HTML that load nothing but pictures."""

import json
from pathlib import Path
from typing import Any

from autograder.building.front.date_reader import LANGUAGES, LESSON, Trained, exported
from autograder.lesson_text.layout import Layout
from autograder.showing.pages import fill_in

HERE = Path(__file__).parent


def shared(layout: Layout) -> dict[str, Any]:
    """What the head of both pages needs."""
    return {"first_lesson": f"notebooks/{layout.lessons()[0]}.html"}


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
