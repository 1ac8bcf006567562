"""Files and folders: other names, archives, links, pipes, and what is handed in beside the notebook."""

import os

from clumsy.making import leads_to, zipped


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


@leads_to(remark="not read: draft.ipynb")
def two_notebooks(s):
    s.files = {"00_tiny.ipynb": s.json(), "draft.ipynb": b"nothing"}


@leads_to(remark="handed in as")
def a_zip_whose_notebook_comes_last(s):
    s.files = {"homework.zip": zipped({**{f"{n}.txt": b"" for n in range(2500)}, "00_tiny.ipynb": s.json()})}


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


@leads_to("has a line break")
def a_folder_whose_name_has_a_line_break(s):
    """Handed in by a student whose folder's name is two lines."""


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


@leads_to(remark="handed in as homework.ipynb")
def folders_with_the_names_of_files(s):
    folders = ("00_tiny.ipynb", "00_tiny.html", "timestamp.txt")
    s.files = {"homework.ipynb": s.json(), **{f"{folder}/data.csv": b"1" for folder in folders}}


@leads_to(remark="nested more than 10 deep")
def folders_nested_without_end(s):
    s.files = {"00_tiny.ipynb": s.json(), "deep": b"nested:"}


@leads_to(remark="is not a regular file")
def a_pipe_beside_it(s):
    s.files = {"00_tiny.ipynb": s.json(), "data.csv": b"pipe:"}


@leads_to("is not a regular file")
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
