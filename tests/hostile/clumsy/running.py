"""Cells that fail, hang, kill the kernel or leave something behind, and helpers in files."""

from clumsy.making import code, leads_to


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
def a_file_of_data_that_is_copied(s):
    text = "import shutil\n\nshutil.copy('one.txt', 'copy.txt')\nshutil.copy2('one.txt', 'other.txt')\n"
    text = f"open('one.txt', 'w').write('1')\n{text}one = float(open('copy.txt').read())"
    s.cells.insert(s.place("pairwise_dot"), code(text))
    s.cell("pairwise_dot")["source"] = "def pairwise_dot(x, y):\n    return one * x @ y.mT"


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


@leads_to()
def half_a_magic_above_the_answer(s):
    s.cells.insert(s.place("pairwise_dot"), code("a = %\\"))


@leads_to(pairwise_dot=0)
def an_answer_nested_too_deep_to_be_read_above_a_wrong_one(s):
    place = s.place("pairwise_dot")
    s.cells[place]["source"] = "not " * 20_000 + "a"
    s.cells.insert(place + 1, code("def pairwise_dot(x, y):\n    return 2 * x @ y.mT"))


@leads_to()
def annotations_of_a_library_that_is_not_installed(s):
    kinds = "q: nobodys.Kind['b q d'], k: nobodys.Kind | None = None"
    s.cell("pairwise_dot")["source"] = f"import nobodys\n\ndef pairwise_dot({kinds}):\n    return q @ k.mT"


@leads_to()
def a_decorator_of_a_library_that_is_not_installed(s):
    lines = "from nobodys import checked\n\n@checked\ndef pairwise_dot(x, y):\n    return x @ y.mT"
    s.cell("pairwise_dot")["source"] = lines


@leads_to()
def a_library_that_is_not_installed_used_above_the_answer(s):
    above = "import nobodys\nimport torch\n\nnobodys.set_theme(1)\ntorch.manual_seed(nobodys.seed(1))\n\n"
    s.cell("pairwise_dot")["source"] = above + s.cell("pairwise_dot")["source"]


@leads_to(pairwise_dot=0)
def a_library_that_is_not_installed_used_by_the_answer(s):
    s.cell("pairwise_dot")["source"] = "import nobodys\n\ndef pairwise_dot(x, y):\n    return nobodys.dot(x, y)"
