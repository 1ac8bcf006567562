"""Broken and clumsy submissions, each a few lines that change a right one, with what it must lead to."""

import io
import json
import os
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


# Cells


@leads_to()
def an_answer_twice(s):
    s.cells.insert(s.place("pairwise_dot"), dict(s.cell("pairwise_dot")))


@leads_to()
def the_stub_below_the_answer(s):
    s.cells.insert(s.place("pairwise_dot") + 1, {**s.cell("pairwise_dot"), "source": STUB})


@leads_to()
def the_stub_below_an_answer_in_a_new_cell(s):
    place = s.place("pairwise_dot")
    s.cells.insert(place, code(s.cells[place]["source"]))
    s.cells[place + 1]["source"] = STUB


@leads_to()
def the_answer_in_a_new_cell_below(s):
    place = s.place("pairwise_dot")
    s.cells.insert(place + 1, code(s.cells[place]["source"]))
    s.cells[place]["source"] = STUB


@leads_to()
def both_answers_in_one_cell(s):
    s.cell("predict_largest_dot")["source"] += "\n\n" + s.cell("pairwise_dot")["source"]
    s.cell("pairwise_dot")["source"] = STUB


@leads_to()
def an_answer_over_two_cells(s):
    place = s.place("pairwise_dot")
    s.cells.insert(place, code("def helper(x, y):\n    return x @ y.mT"))
    s.cell("pairwise_dot")["source"] = "def pairwise_dot(x, y):\n    return helper(x, y)"


@leads_to()
def an_answer_over_two_cells_the_helper_below(s):
    place = s.place("pairwise_dot")
    s.cells.insert(place + 1, code("def helper(x, y):\n    return x @ y.mT"))
    s.cell("pairwise_dot")["source"] = "def pairwise_dot(x, y):\n    return helper(x, y)"


@leads_to()
def a_helper_below_the_test(s):
    s.cell("pairwise_dot")["source"] = "def pairwise_dot(x, y):\n    return helper(x, y)"
    s.cells.append(code("def helper(x, y):\n    return x @ y.mT"))


@leads_to()
def answers_in_each_others_cells(s):
    one, other = s.cell("predict_largest_dot"), s.cell("pairwise_dot")
    one["source"], other["source"] = other["source"], one["source"]


@leads_to()
def an_answer_below_its_test_alone(s):
    s.cells.append(code(s.cell("pairwise_dot")["source"]))
    s.cell("pairwise_dot")["source"] = STUB


@leads_to()
def annotations_that_a_cell_above_keeps_from_being_read(s):
    s.cells.insert(0, code("from __future__ import annotations"))
    s.cell("pairwise_dot")["source"] = "def pairwise_dot(x: Float['b q d'], y: Float) -> Float:\n    return x @ y.mT"


@leads_to()
def a_gradient_mode_left_off(s):
    s.cell("pairwise_dot")["source"] += "\n\ntorch.set_grad_enabled(False)"


@leads_to()
def a_compiled_answer(s):
    s.cell("pairwise_dot")["source"] += "\n\npairwise_dot = torch.compile(pairwise_dot)"


@leads_to(pairwise_dot=0)
def an_answer_deleted(s):
    del s.cells[s.place("pairwise_dot")]


@leads_to()
def the_tests_deleted(s):
    for name in ("test_pairwise_dot", "test_predict_largest_dot"):
        del s.cells[s.place(name)]


@leads_to()
def a_test_copied_with_more_points(s):
    copy = json.loads(json.dumps(s.cell("test_pairwise_dot")))
    copy["metadata"]["nbgrader"]["points"] = 100
    s.cells.append(copy)


@leads_to(pairwise_dot=0)
def a_test_that_gives_points_by_itself(s):
    s.cell("pairwise_dot")["source"] = "def pairwise_dot(x, y):\n    return x"
    test = s.cell("test_pairwise_dot")
    test["source"], test["metadata"]["tags"] = "4.0", ["skip-execution", "raises-exception"]
    test["outputs"] = [
        {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": "4.0"}}
    ]


@leads_to(pairwise_dot=0)
def a_wrong_answer_marked_as_a_test(s):
    answer = s.cell("pairwise_dot")
    answer["source"] = "def pairwise_dot(x, y):\n    return x"
    answer["metadata"]["nbgrader"] |= {"grade": True, "solution": False, "points": 1000, "locked": True}


@leads_to()
def ids_of_cells_exchanged(s):
    one, other = s.cell("pairwise_dot"), s.cell("predict_largest_dot")
    one["id"], other["id"] = other.get("id", "x"), one.get("id", "y")


@leads_to()
def ids_of_cells_that_are_all_alike(s):
    for cell in s.cells:
        cell["id"] = "same"


@leads_to()
def no_ids_at_all(s):
    for cell in s.cells:
        cell.pop("id", None)


@leads_to()
def an_id_that_is_no_id(s):
    for cell in s.cells:
        cell["id"] = {"no": ["id"]}


@leads_to()
def tests_renamed(s):
    for name in ("test_pairwise_dot", "test_predict_largest_dot"):
        s.cell(name)["metadata"]["nbgrader"]["grade_id"] = f"my_{name}"


@leads_to()
def an_answer_renamed(s):
    s.cell("pairwise_dot")["metadata"]["nbgrader"]["grade_id"] = "my_dot"


@leads_to()
def answers_that_are_text(s):
    for name in ("pairwise_dot", "predict_largest_dot"):
        s.cell(name)["cell_type"] = "markdown"


@leads_to()
def an_answer_that_is_raw(s):
    s.cell("pairwise_dot")["cell_type"] = "raw"


@leads_to()
def cells_the_other_way_round(s):
    s.cells.reverse()


@leads_to()
def a_drive_mounted_where_the_answer_is(s):
    mounted = "from google.colab import drive\n\ndrive.mount('/content/drive')\n\n\n"
    s.cell("pairwise_dot")["source"] = mounted + s.cell("pairwise_dot")["source"]


@leads_to()
def metadata_gone_as_colab_does(s):
    for cell in s.cells:
        cell["metadata"] = {"id": "AbCdEf", "colab": {"base_uri": "https://localhost:8080/"}}
    s.notebook["metadata"] = {
        "colab": {"provenance": []},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
    }


@leads_to()
def no_metadata_at_all(s):
    for cell in s.cells:
        del cell["metadata"]
    del s.notebook["metadata"]


@leads_to()
def metadata_of_wrong_types(s):
    for cell in s.cells:
        if "nbgrader" not in cell["metadata"]:
            cell["metadata"] = ["none"]
        else:
            cell["metadata"]["nbgrader"] |= {"points": "many", "schema_version": None, "checksum": 7, "task": []}
    s.notebook["metadata"] = "none"


@leads_to(pairwise_dot=0)
def a_grade_id_that_is_a_list(s):
    s.cell("pairwise_dot")["metadata"]["nbgrader"]["grade_id"] = ["pairwise_dot"]
    s.cell("test_pairwise_dot")["metadata"]["nbgrader"]["grade_id"] = {"a": "b"}
    s.cells.pop(next(i for i, c in enumerate(s.cells) if "def pairwise_dot" in str(c["source"])))


@leads_to()
def a_syntax_error_in_another_cell(s):
    s.cells.insert(1, code("this is (no python"))


@leads_to()
def an_exception_in_another_cell(s):
    s.cells.insert(1, code("1 / 0"))


@leads_to()
def an_endless_loop_in_another_cell(s):
    s.cells.insert(1, code("while True:\n    pass"))


@leads_to()
def an_endless_loop_below_an_answer(s):
    s.cell("pairwise_dot")["source"] += "\n\n\nwhile True:\n    pass"


@leads_to()
def a_sleep_below_an_answer(s):
    s.cell("pairwise_dot")["source"] += "\n\n\nimport time\n\ntime.sleep(10**6)"


@leads_to()
def a_lock_never_released_below_an_answer(s):
    s.cell("pairwise_dot")["source"] += "\n\n\nimport threading\n\nlock = threading.Lock()" + 2 * "\nlock.acquire()"


def above_both_answers(s, source):
    """A cell that binds `nothing`, which both answers use."""
    s.cells.insert(1, code(source))
    for name in ("predict_largest_dot", "pairwise_dot"):
        s.cell(name)["source"] = f"nothing + 0\n{s.cell(name)['source']}"


@leads_to()
def an_endless_loop_below_a_name_that_both_answers_use(s):
    above_both_answers(s, "nothing = 0\nwhile True:\n    pass")


@leads_to()
def a_sleep_below_a_name_that_both_answers_use(s):
    above_both_answers(s, "import time\n\nnothing = 0\ntime.sleep(10**6)")


@leads_to()
def a_name_made_larger_below_the_cell_that_makes_it(s):
    s.cells.insert(1, code("nothing = 0"))
    s.cell("pairwise_dot")["source"] = "nothing += 0\n\n" + s.cell("pairwise_dot")["source"] + " + nothing"


@leads_to()
def a_kernel_killed_in_another_cell(s):
    s.cells.insert(1, code("import os\nos._exit(1)"))


@leads_to()
def a_kernel_killed_where_names_hide(s):
    s.cells.insert(1, code("import os\nexec('os._exit(1)')"))


@leads_to(predict_largest_dot=0)
def a_kernel_killed_in_the_other_answer(s):
    s.cell("predict_largest_dot")["source"] = "import os\neval('os._exit(1)')"


@leads_to(predict_largest_dot=0)
def more_magics_than_ipython_reads(s):
    s.cell("predict_largest_dot")["source"] = "!ls\n" * 600


@leads_to(predict_largest_dot=0)
def the_other_answer_deeply_nested(s):
    s.cell("predict_largest_dot")["source"] = "largest_dot = " + "(" * 5000 + ")" * 5000


@leads_to(predict_largest_dot=0)
def the_other_answer_of_very_many_terms(s):
    s.cell("predict_largest_dot")["source"] = "largest_dot = 1" + " + 1" * 50000


@leads_to()
def a_helper_in_a_file(s):
    place = s.place("pairwise_dot")
    s.cells[place:place] = [
        code("%load_ext autoreload\n%autoreload 2\n!mkdir -p parts"),
        code("%%writefile helper.py\nimport torch\n"),
        code("%%writefile -a helper.py\n\ndef dot(x, y):\n    return x @ y.mT\n"),
    ]
    s.cell("pairwise_dot")["source"] = "from helper import dot\n\ndef pairwise_dot(x, y):\n    return dot(x, y)"


@leads_to()
def a_helper_in_a_file_that_is_run(s):
    s.cells.insert(s.place("pairwise_dot"), code("%%file helper.py\ndef dot(x, y):\n    return x @ y.mT\n"))
    s.cell("pairwise_dot")["source"] = "%run helper.py\n\ndef pairwise_dot(x, y):\n    return dot(x, y)"


@leads_to()
def a_helper_in_a_file_written_without_magic(s):
    text = "from pathlib import Path\n\nPath('helper.py').write_text('def dot(x, y): return x @ y.mT')"
    s.cells.insert(s.place("pairwise_dot"), code(text))
    s.cell("pairwise_dot")["source"] = "def pairwise_dot(x, y):\n    import helper\n\n    return helper.dot(x, y)"


@leads_to()
def a_helper_in_a_file_imported_by_its_name_in_a_text(s):
    s.cells.insert(s.place("pairwise_dot"), code("%%writefile helper.py\ndef dot(x, y):\n    return x @ y.mT\n"))
    text = "import importlib\n\nhelper = importlib.import_module('helper')\n\n\n"
    s.cell("pairwise_dot")["source"] = text + "def pairwise_dot(x, y):\n    return helper.dot(x, y)"


@leads_to()
def a_helper_in_a_file_written_in_the_last_cell(s):
    s.cells.append(code("%%writefile helper.py\ndef dot(x, y):\n    return x @ y.mT\n"))
    s.cell("pairwise_dot")["source"] = "import helper as h\n\ndef pairwise_dot(x, y):\n    return h.dot(x, y)"


@leads_to()
def a_state_of_torch_left_on_above_both_answers(s):
    above_both_answers(s, "import torch\nnothing = 0\ntorch.set_default_device('meta')")


@leads_to()
def an_await_in_another_cell(s):
    s.cells.insert(1, code("import asyncio\n\nnothing = await asyncio.sleep(0, 0)"))
    s.cell("pairwise_dot")["source"] += " + nothing"


# Sources


@leads_to()
def sources_as_lists(s):
    for cell in s.cells:
        cell["source"] = cell["source"].splitlines(keepends=True)


@leads_to()
def lines_that_end_as_on_windows(s):
    for cell in s.cells:
        cell["source"] = cell["source"].replace("\n", "\r\n")


@leads_to()
def lines_that_end_as_on_an_old_mac(s):
    for cell in s.cells:
        cell["source"] = cell["source"].replace("\n", "\r")


@leads_to()
def very_many_terms(s):
    s.cell("pairwise_dot")["source"] += "\n\nnumber = 0" + " + 1" * 700


@leads_to()
def half_a_character_printed(s):
    s.cell("pairwise_dot")["source"] += "\n\nprint('\\ud83d')"


@leads_to(pairwise_dot=0)
def half_a_character_in_an_error(s):
    s.cell("pairwise_dot")["source"] = "raise ValueError('\\ud83d')"


@leads_to()
def a_lone_surrogate(s):
    s.cells.append(code("print('x')"))
    s.raw = json.dumps(s.notebook).replace("print('x')", "print('\\\\ud800 \\ud800')").encode()


@leads_to("MB of source")
def a_huge_source(s):
    s.cell("pairwise_dot")["source"] += "\n#" + "x" * (2 << 20)


@leads_to("MB of code")
def much_code(s):
    s.cells.extend(code("#" + "x" * (900 << 10)) for _ in range(3))


@leads_to(remark="is no cell")
def cells_that_are_strings(s):
    s.cells.insert(0, "import torch")
    s.cells.append(None)
    s.cells.append([])


@leads_to("cells; 5000 are the most")
def very_many_cells(s):
    s.cells.extend(code("1") for _ in range(6000))


# Formats


@leads_to()
def format_3(s):
    cells = [{**c, "input": c["source"], "language": "python"} if c["cell_type"] == "code" else c for c in s.cells]
    for cell in cells:
        if cell["cell_type"] == "code":
            del cell["source"]
    s.notebook = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells, "metadata": {}}]}


@leads_to()
def format_4_0(s):
    s.notebook |= {"nbformat": 4, "nbformat_minor": 0}


@leads_to()
def format_of_the_future(s):
    s.notebook |= {"nbformat": 99, "nbformat_minor": "x"}


@leads_to()
def no_format(s):
    del s.notebook["nbformat"], s.notebook["nbformat_minor"]


@leads_to()
def outputs_of_wrong_types(s):
    for cell in s.cells:
        cell["outputs"], cell["execution_count"] = "none", "first"


@leads_to(remark="graded as Python")
def a_kernel_for_r(s):
    s.notebook["metadata"]["kernelspec"] = {"name": "ir", "language": "R", "display_name": "R"}


@leads_to(remark="graded as Python")
def a_kernel_for_julia(s):
    s.notebook["metadata"]["kernelspec"] = {"name": "julia-1.9", "language": "julia", "display_name": "Julia"}


@leads_to()
def a_byte_order_mark(s):
    s.raw = b"\xef\xbb\xbf" + s.json()


@leads_to("UTF-8")
def utf_16(s):
    s.raw = s.json().decode().encode("utf-16")


@leads_to("not JSON")
def a_nul_in_the_file(s):
    s.raw = s.json()[:100] + b"\0" + s.json()[100:]


@leads_to("is empty")
def an_empty_file(s):
    s.raw = b""


@leads_to("not JSON")
def half_a_file(s):
    s.raw = s.json()[: len(s.json()) // 2]


@leads_to("not JSON")
def a_merge_conflict(s):
    s.raw = b"<<<<<<< HEAD\n" + s.json() + b"\n=======\n" + s.json() + b"\n>>>>>>> main\n"


@leads_to("JSON list")
def a_list(s):
    s.raw = json.dumps(s.cells).encode()


@leads_to("no list of cells")
def an_object_without_cells(s):
    s.raw = b'{"nbformat": 4}'


@leads_to("sensible depth")
def json_of_great_depth(s):
    s.raw = b'{"cells": ' + b"[" * 200000 + b"]" * 200000 + b"}"


@leads_to("not JSON")
def a_web_page(s):
    s.raw = b"<!DOCTYPE html><html><script>alert(1)</script></html>"


@leads_to("MB; a notebook may have")
def a_file_of_100_megabytes(s):
    s.raw = s.json() + b" " * (100 << 20)


# Files


@leads_to(remark="handed in as tiny (1).ipynb")
def another_name(s):
    s.files = {"tiny (1).ipynb": s.json()}


@leads_to(remark="handed in as homework/00_tiny.ipynb")
def a_folder_in_the_folder(s):
    s.files = {"homework/00_tiny.ipynb": s.json()}


@leads_to(remark="handed in as 00_TINY.ipynb")
def capital_letters(s):
    s.files = {"00_TINY.ipynb": s.json()}


@leads_to(remark="handed in as 00_tiny.IPYNB")
def a_capital_ending(s):
    s.files = {"00_tiny.IPYNB": s.json()}


@leads_to(remark="handed in as")
def a_zip(s):
    s.files = {"homework.zip": zipped({"homework/00_tiny.ipynb": s.json()})}


@leads_to("no other")
def a_zip_in_a_zip(s):
    s.files = {"homework.zip": zipped({"inner.zip": zipped({"00_tiny.ipynb": s.json()})})}


@leads_to("hold more than")
def a_zip_of_many_large_notebooks(s):
    s.files = {"homework.zip": zipped({f"{number}.ipynb": b" " * (30 << 20) for number in range(6)})}


@leads_to(remark="handed in as \\udcff\\x1b[2J.ipynb")
def a_name_that_is_no_text(s):
    s.files = {os.fsdecode(b"\xff\x1b[2J.ipynb"): s.json()}


@leads_to("holds a notebook of")
def a_zip_bomb(s):
    s.files = {"homework.zip": zipped({"00_tiny.ipynb": b" " * (300 << 20)})}


@leads_to(remark="handed in as")
def a_zip_with_paths_that_lead_out(s):
    s.files = {"homework.zip": zipped({"../../../00_tiny.ipynb": s.json(), "/etc/passwd": b"root"})}


@leads_to("cannot be opened")
def a_zip_that_is_none(s):
    s.files = {"homework.zip": b"PK\3\4 this is none"}


@leads_to()
def two_notebooks(s):
    s.files = {"00_tiny.ipynb": s.json(), "draft.ipynb": b"nothing"}


@leads_to("no notebook is called")
def two_notebooks_of_other_names(s):
    s.files = {"one.ipynb": s.json(), "two.ipynb": s.json()}


@leads_to()
def checkpoints(s):
    s.files = {"00_tiny.ipynb": s.json(), ".ipynb_checkpoints/00_tiny-checkpoint.ipynb": b"{"}


@leads_to("no other")
def checkpoints_alone(s):
    s.files = {".ipynb_checkpoints/00_tiny-checkpoint.ipynb": s.json()}


@leads_to("no other")
def a_script(s):
    s.files = {"00_tiny.py": b"pairwise_dot = None"}


@leads_to("is a link")
def a_link_to_another_submission(s):
    s.files = {"00_tiny.ipynb": b"link:../../honest/00_tiny/00_tiny.ipynb"}


@leads_to("is a link")
def a_link_to_the_solution(s):
    s.files = {"00_tiny.ipynb": b"link:../../../source/00_tiny/00_tiny.ipynb"}


@leads_to("the folder is a link")
def a_link_as_the_folder(s):
    s.files = {"": b"link:../../source/00_tiny"}


@leads_to("not text in UTF-8")
def a_folder_whose_name_is_no_text(s):
    """Handed in by a student whose folder's name is b"clumsy-M\\xfcller"."""


def with_files(s, answer, **files):
    """A right submission whose answer needs files that are handed in beside the notebook."""
    s.cell("pairwise_dot")["source"] = answer
    names = {name.replace("__", "/").replace("_DOT_", "."): text.encode() for name, text in files.items()}
    s.files = {"00_tiny.ipynb": s.json(), **names}


DOT = "def dot(x, y):\n    return x @ y.mT\n"
USES_HELPER = "from helper import dot\n\n\ndef pairwise_dot(x, y):\n    return dot(x, y)"


@leads_to()
def a_helper_handed_in_beside_the_notebook(s):
    with_files(s, USES_HELPER, helper_DOT_py=DOT)


@leads_to()
def a_helper_handed_in_in_a_folder(s):
    with_files(s, USES_HELPER.replace("helper", "parts.helper"), parts__helper_DOT_py=DOT)


@leads_to()
def a_number_read_from_a_file(s):
    with_files(s, "def pairwise_dot(x, y):\n    return x @ y.mT * float(open('one.txt').read())", one_DOT_txt="1.0")


@leads_to(remark="handed in as homework.zip/homework/00_tiny.ipynb")
def a_helper_in_the_zip(s):
    with_files(s, USES_HELPER)
    s.files = {"homework.zip": zipped({"homework/00_tiny.ipynb": s.json(), "homework/helper.py": DOT.encode()})}


@leads_to(pairwise_dot=0)
def a_file_that_is_missing(s):
    with_files(s, USES_HELPER)


@leads_to()
def files_that_have_the_names_of_modules_to_be_imported_yet(s):
    names = ("random", "statistics", "sympy", "torch", "attnlib", "inside", "colorsys", "wave")
    source = (
        "import colorsys\nimport statistics\nimport wave\n\nfrom attnlib import softmax\n\n\ncolorsys.rgb_to_hls\n\n\n"
    )
    with_files(s, source + s.cell("pairwise_dot")["source"], **{f"{name}_DOT_py": "1 / 0" for name in names})


@leads_to()
def files_beside_it_that_shadow_modules(s):
    files = dict.fromkeys(("torch.py", "attnlib.py", "usercustomize.py", "json.py"), b"raise SystemExit('all right')")
    s.files = {"00_tiny.ipynb": s.json(), **files}


@leads_to("is in no lesson's folder")
def a_notebook_without_a_folder_for_the_lesson(s):
    s.files = {"../00_tiny.ipynb": s.json()}


@leads_to("must not begin with a dot")
def a_folder_whose_name_begins_with_a_dot(s):
    """Handed in by a student whose folder is called .clumsy."""


@leads_to("it is no student's folder")
def a_file_in_place_of_a_folder(s):
    s.files = {"..": s.json()}


@leads_to("it is a link")
def a_link_to_another_student_s_folder(s):
    s.files = {"..": b"link:honest-tiny_0"}


@leads_to(remark="nested more than 10 deep")
def folders_nested_without_end(s):
    s.files = {"00_tiny.ipynb": s.json(), "deep": b"nested:"}


@leads_to(remark="is no regular file")
def a_pipe_beside_it(s):
    s.files = {"00_tiny.ipynb": s.json(), "data.csv": b"pipe:"}


@leads_to("is no regular file")
def a_pipe_as_the_notebook(s):
    s.files = {"00_tiny.ipynb": b"pipe:"}


@leads_to(remark="more than 2000 files")
def very_many_files_beside_it(s):
    s.files = {"00_tiny.ipynb": s.json(), **{f"{number}.txt": b"" for number in range(2500)}}


@leads_to(remark="data.bin has 300 MB")
def a_large_file_beside_it(s):
    s.files = {"00_tiny.ipynb": s.json(), "data.bin": b"sparse:314572800"}


def with_timestamp(name, data, remark="was ignored"):
    """A right submission whose timestamp.txt is this."""

    def spoil(s):
        s.files = {"00_tiny.ipynb": s.json(), "timestamp.txt": data}

    spoil.__name__ = f"a_timestamp_{name}"
    leads_to(remark=remark)(spoil)


with_timestamp("in_words", b"the day before yesterday")
with_timestamp("that_is_a_pipe", b"pipe:")
with_timestamp("that_is_a_folder", b"nested:")
with_timestamp("that_is_a_link", b"link:/dev/zero")
with_timestamp("of_40_digits", b"1" * 40)
with_timestamp("of_the_year_1", b"0001-01-01 00:00:00 UTC")
with_timestamp("of_the_year_1_east_of_greenwich", b"0001-01-01 00:00:00 +23:00")
with_timestamp("of_300_megabytes", b"sparse:314572800")
with_timestamp("from_the_future", b"2999-01-01 00:00:00 UTC")
with_timestamp("of_long_ago", b"2020-01-01 00:00:00 UTC", remark="the notebook was changed later")


@leads_to()
def a_name_beyond_ascii(s):
    """Handed in by the student Zoë Müller."""


@leads_to()
def text_that_runs_scripts(s):
    s.cells.append({"cell_type": "markdown", "source": "<script>document.title = 'hostile'</script>", "metadata": {}})


@leads_to()
def text_that_takes_long_to_show(s):
    for unit in ("](", "*a ", "\\\\(a ", "1. a\n", "$$", "`"):
        s.cells.append({"cell_type": "markdown", "source": (unit * 50_000)[:48_000], "metadata": {}})


@leads_to("lists and objects")
def a_notebook_of_very_many_empty_lists(s):
    s.raw = b'{"cells": [' + b"[]," * 1_000_000 + b"[]]}"


def spoilt(clumsy: Clumsy, right: nbformat.NotebookNode) -> Files:
    """The files of a right submission that something was done to."""
    submission = Submission(json.loads(json.dumps(right)))
    clumsy.spoil(submission)
    return submission.handed_in()
