"""Sources of odd characters, sizes and types; notebooks of other formats, or of none."""

import json

from clumsy.making import code, leads_to


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


@leads_to(remark="is not a cell")
def cells_that_are_strings(s):
    s.cells.insert(0, "import torch")
    s.cells.append(None)
    s.cells.append([])


@leads_to("cells; at most 5000 are allowed")
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


@leads_to()
def much_printed_in_brackets(s):
    text = "[[0.1, 0.2], [0.3, 0.4]]\n" * 400_000
    s.cell("pairwise_dot")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]


@leads_to("clear its outputs")
def outputs_of_40_megabytes(s):
    s.cell("pairwise_dot")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 40_000_000}]


@leads_to(pairwise_dot=0, predict_largest_dot=0, remark="another lesson's notebook")
def another_lesson_s_notebook(s):
    for name in ("pairwise_dot", "predict_largest_dot"):
        for kind in ("", "test_"):
            s.cell(f"{kind}{name}")["metadata"]["nbgrader"]["grade_id"] = f"{kind}other_{name}"
        s.cell(f"other_{name}")["source"] = "1"
