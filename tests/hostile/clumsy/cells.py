"""Cells moved, copied, renamed or gone, and metadata of every kind."""

import json

from clumsy.making import STUB, code, leads_to


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


REGISTER = "FORMS = {}\n\ndef register(f):\n    FORMS[f.__name__] = f\n    return f"
CLASSES = "class Form:\n    all = []\n\n    def __init_subclass__(cls):\n        Form.all.append(cls)"


def over_three_cells(s, *above, returns):
    place = s.place("pairwise_dot")
    s.cell("pairwise_dot")["source"] = f"def pairwise_dot(x, y):\n    return {returns}"
    s.cells[place:place] = [code(text) for text in above]


@leads_to()
def a_helper_that_a_decorator_registers(s):
    over_three_cells(s, REGISTER, "@register\ndef dot(x, y):\n    return x @ y.mT", returns="FORMS['dot'](x, y)")


@leads_to()
def a_helper_that_a_call_registers(s):
    over_three_cells(s, "FORMS = []", REGISTER, "register(torch.matmul)", returns="FORMS['matmul'](x, y.mT)")


@leads_to()
def a_helper_that_its_base_registers(s):
    form = "class Dot(Form):\n    def __call__(self, x, y):\n        return x @ y.mT"
    over_three_cells(s, CLASSES, form, returns="Form.all[0]()(x, y)")


@leads_to()
def a_helper_for_each_type(s):
    above = "import functools\n\n@functools.singledispatch\ndef dot(x, y):\n    raise TypeError"
    form = "@dot.register(torch.Tensor)\ndef _(x, y):\n    return x @ y.mT"
    over_three_cells(s, above, form, returns="dot(x, y)")


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
