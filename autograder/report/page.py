"""The item analysis as one HTML page that needs no network and runs no script."""

import base64
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from autograder.report.analysis import LessonAnalysis, Shared
from autograder.report.plots import most_shared, outcomes
from autograder.report.statistics import SMALLEST_CLASS, SMALLEST_GROUP
from autograder.report.tables import figure, percent
from autograder.showing.pages import fill_in

MOST_SHARED = 15


def page(analyses: Sequence[LessonAnalysis], shared: Sequence[Shared], day: date, *, names: bool = True) -> str:
    """The page's HTML; everything that comes from a submission is escaped."""
    return fill_in(
        Path(__file__).with_name("page.html"),
        {"percent": percent, "figure": figure},
        analyses=analyses,
        shared=shared,
        plot_of_shared=_image(most_shared(shared[:MOST_SHARED])) if shared else None,
        most_shared=MOST_SHARED,
        plots={one.lesson: _image(outcomes(one.items)) for one in analyses if one.items},
        day=f"{day.day} {day:%B %Y}",
        names=names,
        smallest_class=SMALLEST_CLASS,
        smallest_group=SMALLEST_GROUP,
    )


def _image(svg: str) -> str:
    """Return the plot as a data address, which keeps its ids apart from those of the other plots."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
