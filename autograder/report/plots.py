"""The plots of the page, as SVG: lightness and hatching tell them apart, so that they are legible in grey."""

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from autograder.grading.results import NOT_ANSWERED
from autograder.report.analysis import MISCONCEPTION, OTHER, Item, Shared

INK = "#08306b"
KINDS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("all right", {"facecolor": INK, "edgecolor": INK}, "white"),
    ("a named misconception", {"facecolor": "#f0a04b", "edgecolor": "#6b3d00"}, "black"),
    ("another mistake", {"facecolor": "white", "edgecolor": "#777777", "hatch": "////"}, "black"),
    (NOT_ANSWERED, {"facecolor": "white", "edgecolor": "#777777"}, "black"),
)
SETTINGS: Any = {"font.size": 10, "svg.hashsalt": "attnlib", "hatch.linewidth": 0.6, "text.parse_math": False}
ROW = 0.34  # inches


def outcomes(items: Sequence[Item]) -> str:
    """Plot each exercise's outcomes as stacked counts, and beside them the share that passed with its interval."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(10, ROW * len(items) + 1.15), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
        _stack(left, items)
        _intervals(right, items)
        left.set_yticks(range(len(items)), [item.exercise for item in items])
        left.set_ylim(len(items) - 0.5, -0.5)
        handles, labels = left.get_legend_handles_labels()
        marks, meanings = right.get_legend_handles_labels()
        figure.legend([*handles, *marks], [*labels, *meanings], loc="outside upper center", ncols=3, frameon=False)
        return _svg(figure)


def most_shared(shared: Sequence[Shared]) -> str:
    """Plot how many students have each misconception in at least one exercise."""
    with mpl.rc_context(SETTINGS):
        labels = [textwrap.fill(f"{one.what}: {one.titles[0]}", 58) for one in shared]
        lines = sum(label.count("\n") + 1 for label in labels)
        figure = Figure(figsize=(10, 0.2 * lines + 0.14 * len(shared) + 0.6), layout="constrained")
        axes = figure.subplots()
        bars = axes.barh(range(len(shared)), [one.count for one in shared], height=0.7, color=INK)
        axes.bar_label(bars, padding=3)
        axes.set_yticks(range(len(shared)), labels)
        axes.set_ylim(len(shared) - 0.5, -0.5)
        axes.set_xlabel("students")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _quiet(axes)
        return _svg(figure)


def _stack(axes: Axes, items: Sequence[Item]) -> None:
    counts = [(item.passed, item.count(MISCONCEPTION), item.count(OTHER), item.not_answered.count) for item in items]
    start = [0] * len(items)
    for number, (label, style, ink) in enumerate(KINDS):
        widths = [row[number] for row in counts]
        bars = axes.barh(range(len(items)), widths, left=start, height=0.74, label=label, linewidth=0.8, **style)
        texts = axes.bar_label(bars, [str(width) if width else "" for width in widths], label_type="center", color=ink)
        if "hatch" in style:
            for text in texts:
                text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.8} if text.get_text() else None)
        start = [begin + width for begin, width in zip(start, widths, strict=True)]
    axes.set_xlim(0, max(start))
    axes.set_xlabel("submissions")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _quiet(axes)


def _intervals(axes: Axes, items: Sequence[Item]) -> None:
    for row, item in enumerate(items):
        axes.plot([100 * end for end in item.interval], [row, row], color=INK, linewidth=2, solid_capstyle="butt")
    shares, rows = [100 * item.share for item in items], range(len(items))
    axes.plot(shares, rows, "o", color=INK, markersize=7, label="passed, with 95 % interval")
    points = [100 * item.points for item in items]
    axes.plot(points, rows, "D", color="white", markeredgecolor="black", markersize=5, label="mean share of points")
    axes.set_xlim(-2, 102)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("%")
    axes.grid(axis="x", color="0.85")
    axes.set_axisbelow(True)
    axes.tick_params(left=False)
    _quiet(axes)


def _quiet(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
