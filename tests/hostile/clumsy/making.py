"""How a clumsy submission is made of a right one, and written down with what it must lead to."""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field

import nbformat

FULL = "full"
Files = dict[str, bytes]


@dataclass
class Submission:
    """A right submission to the tiny lesson, to be spoilt: its notebook as JSON, and the files that are handed in."""

    notebook: dict
    lesson: str = "00_tiny"
    files: Files = field(default_factory=dict)
    raw: bytes | None = None

    @property
    def cells(self) -> list[dict]:
        return self.notebook["cells"]

    def place(self, name: str) -> int:
        """Where the cell with a grade id stands."""
        return next(i for i, c in enumerate(self.cells) if c["metadata"].get("nbgrader", {}).get("grade_id") == name)

    def cell(self, name: str) -> dict:
        return self.cells[self.place(name)]

    def json(self) -> bytes:
        return json.dumps(self.notebook, ensure_ascii=False).encode()

    def handed_in(self) -> Files:
        if self.files:
            return self.files
        return {f"{self.lesson}.ipynb": self.json() if self.raw is None else self.raw}


@dataclass(frozen=True)
class Clumsy:
    """What is done to a submission, and what must come of it: points by exercise, or why it is not graded."""

    name: str
    spoil: Callable[[Submission], object]
    points: dict[str, float | str]
    problem: str | None = None
    remark: str = ""


CLUMSY: list[Clumsy] = []
STUB = 'def pairwise_dot(x: Tensor, y: Tensor) -> Tensor:\n    """(b, q, d), (b, k, d) -> (b, q, k)"""\n' + (
    '    # your code here\n    raise NotImplementedError("pairwise_dot")'
)


def leads_to(problem: str | None = None, *, remark: str = "", **points: float | str) -> Callable:
    """All points unless said otherwise; `problem` is what stands behind "not graded"."""

    def add(spoil: Callable[[Submission], object]) -> Callable:
        given = {"predict_largest_dot": FULL, "pairwise_dot": FULL, **points}
        CLUMSY.append(Clumsy(spoil.__name__, spoil, given, problem, remark))
        return spoil

    return add


def code(source: str, **metadata: object) -> dict:
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def zipped(files: Files) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def spoilt(clumsy: Clumsy, right: nbformat.NotebookNode) -> Files:
    """The files of a right submission that something was done to."""
    submission = Submission(json.loads(json.dumps(right)))
    clumsy.spoil(submission)
    return submission.handed_in()
