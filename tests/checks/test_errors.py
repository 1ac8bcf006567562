"""An exception is explained by its words and by the names around it; the same in a notebook and in the grader."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlib.checks import exercises, run
from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.observation import Observation
from attnlib.checks.naming.error_readers import IMPORTS
from attnlib.checks.naming.errors import exception
from attnlib.checks.trial.compare import Difference
from attnlib.checks.trial.trial import Trial
from attnlib.checks.verdict.judge import cases_of
from attnlib.checks.verdict.words import headline


def explained(exercise: str, *texts: str, own: bool = False, hidden: bool = False) -> Any:
    """What is said of an attempt of unknown source that raises these errors in the first cases."""
    it = exercises()[exercise]
    failures = [
        Failure("raised", said, own=own, exception=name) for name, _, said in (text.partition(": ") for text in texts)
    ]
    trials = [
        Trial(replace(case, hidden=hidden), Observation(), Observation(failure=failure), Difference("failure"))
        for case, failure in zip(cases_of(it, hidden=False), failures, strict=False)
    ]
    return exception(it, trials)


MEANINGS = {
    ("softmax", "NameError: name 'F' is not defined"): "`F` is not imported",
    ("SelfAttention", "NameError: name 'd_k' is not defined"): "`d_k` is not defined in this function",
    ("softmax", "NameError: name 'zebra' is not defined"): "`zebra` is not defined",
    ("QKVProjection", "NameError: name 'w_q' is not defined"): "`w_q` needs `self.` before it",
    (
        "CausalSelfAttention",
        "NameError: name 'key_maks' is not defined",
    ): "There is no `key_maks`; perhaps you meant `key_mask`",
    (
        "softmax",
        "UnboundLocalError: cannot access local variable 'out' where it is not associated with a value",
    ): "`out` is used before it has a value",
    (
        "EncoderBlock",
        "AttributeError: cannot assign module before Module.__init__() call",
    ): "super().__init__() is missing",
    ("EncoderBlock", "AttributeError: 'Mine' object has no attribute '_modules'"): "super().__init__() is missing",
    (
        "SelfAttention",
        "AttributeError: 'SelfAttention' object has no attribute 'd_k'",
    ): "`self.d_k` is used, but nothing sets it",
    (
        "SelfAttention",
        "AttributeError: 'SelfAttention' object has no attribute 'wq'",
    ): "There is no `self.wq`; perhaps you meant `self.w_q`",
    (
        "SelfAttention",
        "AttributeError: module 'torch.nn' has no attribute 'linear'",
    ): "There is no `torch.nn.linear`; perhaps you meant `torch.nn.Linear`",
    (
        "softmax",
        "AttributeError: 'Tensor' object has no attribute 'soft_max'",
    ): "There is no `Tensor.soft_max`; perhaps you meant `Tensor.softmax`",
    (
        "softmax",
        "ModuleNotFoundError: No module named 'my_attention.lesson_02'",
    ): "`my_attention` cannot be imported where this is checked",
    ("softmax", "AttributeError: 'list' object has no attribute 'sum'"): "A Python list has no `sum`",
    ("softmax", "TypeError: 'Tensor' object is not callable"): "A tensor is called as if it were a function",
    (
        "CausalSelfAttention",
        "TypeError: 'NoneType' object is not subscriptable",
    ): "None is used as if it were a tensor",
    (
        "EncoderBlock",
        "TypeError: bad operand type for unary ~: 'NoneType'",
    ): "None is used as if it were a tensor",
    (
        "CausalSelfAttention",
        "TypeError: unsupported operand type(s) for &: 'Tensor' and 'NoneType'",
    ): "None is used as if it were a tensor",
    (
        "softmax",
        "TypeError: sqrt(): argument 'input' (position 1) must be Tensor, not int",
    ): "A torch function gets a Python int",
    (
        "DecoderBlock",
        "TypeError: unsupported operand type(s) for +: 'Tensor' and 'tuple'",
    ): "Several results are used as if they were one tensor",
    (
        "train_reader",
        "TypeError: cross_entropy_loss(): argument 'input' (position 1) must be Tensor, not tuple",
    ): "Several results are used as if they were one tensor",
    (
        "LanguageModel",
        "TypeError: cannot assign 'torch.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None expected)",
    ): "A plain tensor is assigned where a parameter is",
    (
        "losses_by_place",
        "IndexError: index -1 is out of bounds for dimension 1 with size 0",
    ): "This axis is empty, so it has no entry to take",
    (
        "EncoderBlock",
        "TypeError: dropout(): argument 'input' (position 1) must be Tensor, not GELU",
    ): "A GELU is passed where a tensor is needed",
    ("company", "RuntimeError: index 9 is out of bounds for dimension 1 with size 3"): "An index goes beyond the end",
    (
        "masked_softmax",
        "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
    ): "A tensor that requires a gradient is changed in place",
    (
        "train_head",
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    ): "No tensor behind the loss requires a gradient",
    (
        "train_head",
        "ValueError: can't optimize a non-leaf Tensor",
    ): "The optimiser gets a tensor that was computed from another",
    (
        "train_head",
        "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after …)",
    ): "`backward()` goes through the same computation twice",
    (
        "softmax",
        "TypeError: 'torch.Size' object is not callable",
    ): "`shape` takes square brackets, and a method parentheses",
    (
        "softmax",
        "RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    ): "NumPy knows no gradients",
    (
        "QKVProjection",
        "TypeError: unsupported operand type(s) for @: 'Tensor' and 'Linear'",
    ): "A layer is used as if it were a matrix",
    (
        "CausalSelfAttention",
        "NotImplementedError: \"bitwise_and_cpu\" not implemented for 'Float'",
    ): "A mask holds numbers instead of True and False",
    (
        "split_heads",
        "IndexError: Dimension out of range (expected to be in range of [-4, 3], but got 4)",
    ): "A tensor does not have the axes that this line expects",
    (
        "write_with_cache",
        "RuntimeError: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int",
    ): "An index is not a whole number",
    (
        "masked_softmax",
        "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
    ): "Python asks a whole tensor whether it is true",
    (
        "layer_norm",
        "ValueError: only one element tensors can be converted to Python scalars",
    ): "A whole tensor is converted to one Python number",
    (
        "EncoderBlock",
        "TypeError: empty(): argument 'size' (position 1) must be tuple of ints, but found element of type float",
    ): "A size is a float",
    (
        "SelfAttention",
        'NotImplementedError: Module [SelfAttention] is missing the required "forward" function',
    ): "The class has no `forward`",
    (
        "pairwise_dot",
        "ValueError: The last argument passed to `einops.einsum` must be a string, representing the einsum pattern.",
    ): "In einops the pattern comes last",
}


@pytest.mark.parametrize(("exercise", "text"), MEANINGS)
def test_an_exception_is_explained_by_the_names_in_it(exercise: str, text: str) -> None:
    assert explained(exercise, text).title == MEANINGS[exercise, text]


@pytest.mark.parametrize("name", IMPORTS)
def test_the_line_that_is_given_for_a_missing_import_defines_the_name(name: str) -> None:
    found: dict[str, Any] = {}
    exec(IMPORTS[name], found)
    assert name in found
    assert IMPORTS[name] in explained("softmax", f"NameError: name '{name}' is not defined").explanation


def test_the_words_of_an_older_torch_for_wrong_arguments_are_known() -> None:
    text = "TypeError: transpose() received an invalid combination of arguments - got (int), but expected one of:"
    assert explained("softmax", text).id == "arguments_do_not_fit"


def test_what_the_learner_raises_is_not_explained() -> None:
    text = "ValueError: the shape does not fit"
    assert explained("softmax", text).id == "shapes_do_not_fit"
    assert explained("softmax", text, own=True) is None


def test_a_missing_module_is_explained_wherever_the_error_comes_from() -> None:
    def softmax(scores: Tensor) -> Tensor:  # as what stands in for a module while grading does
        raise ModuleNotFoundError("No module named 'my_attention'", name="my_attention")

    assert run("softmax", softmax).diagnosis == "module_missing"


def test_errors_of_several_kinds_are_not_explained_as_one() -> None:
    assert explained("softmax", "NameError: name 'F' is not defined", "IndexError: list index out of range") is None


def test_an_exception_in_a_hidden_case_is_not_explained() -> None:
    assert explained("softmax", "NameError: name 'F' is not defined", hidden=True) is None


def test_an_error_of_the_learners_own_is_not_called_that_of_torch() -> None:
    def split_heads(x: Any, num_heads: int) -> Any:
        if x.shape[-1] % num_heads:
            raise RuntimeError(f"shape of {x.shape[-1]} for {num_heads}")
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    report = run("split_heads", split_heads)
    assert report.diagnosis == "refused_otherwise"
    assert "torch's" not in report.message


def not_transposed(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_of_a_traceback_in_an_error_s_words_the_last_line_is_told() -> None:
    message = run("pairwise_dot", torch.jit.script(not_transposed)).message
    assert "RuntimeError: Expected size for first two dimensions" in " ".join(message.split())


@pytest.mark.slow
@pytest.mark.parametrize(("beside", "name"), [(True, "RuntimeError: ShapeError"), (False, "ShapeError")])
def test_a_package_need_not_lie_in_site_packages(tmp_path: Path, beside: bool, name: str) -> None:
    """`pip install --target` puts packages in any folder; the folder of the notebook stays the learner's own."""
    (tmp_path / "packages" / "shaped-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "packages" / "shaped.py").write_text(
        "class ShapeError(RuntimeError): pass\ndef cut(x, num_heads):\n    raise ShapeError('cannot cut')\n"
    )
    program = "import shaped\nfrom attnlib.checks import run\nprint(run('split_heads', shaped.cut).headline)"
    packages = [str(tmp_path / "packages"), str(Path(__file__).parents[2])]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=packages[not beside],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(packages)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"raised {name}: cannot cut\n", done.stderr


def test_a_parameter_that_opens_a_sentence_keeps_its_name() -> None:
    details = f"{', '.join(f'mlp.{n}.weight' for n in range(7))} cannot learn, because requires_grad is False"
    frozen = Failure("parameters", "has frozen parameters", reason="frozen", details=details)
    assert headline(frozen) == ("has frozen parameters", details)


def test_an_error_is_explained_though_other_cases_are_wrong_without_one() -> None:
    def stacked(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
        return x @ torch.stack([w_q, w_k, w_v])[:, None]  # of equal widths it is no error, and no three tensors

    assert run("project_qkv", stacked).diagnosis == "pieces_do_not_fit"


def test_the_name_of_one_output_says_which_others_are_wrong() -> None:
    def cut_at_fixed_columns(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
        packed = x @ torch.cat([w_q, w_k, w_v], dim=1)
        return packed[..., :4], packed[..., 4:8], packed[..., 8:13]

    message = " ".join(run("project_qkv", cut_at_fixed_columns).message.split())
    assert "too long (q)" in message
    assert "Wrong as well: k, v." in message


def test_numbers_that_agree_to_some_digits_are_not_said_to_do_so_where_they_do_not() -> None:
    def largest_in_size(scores: Tensor) -> Tensor:
        grown = torch.exp(scores - scores.abs().amax(dim=-1, keepdim=True))
        return grown / (grown.sum(dim=-1, keepdim=True) + 1e-6)

    message = " ".join(run("softmax", largest_in_size).message.split())
    assert "digits or so, but not in “scores near 10000 and -10000”" in message


def test_a_gap_that_is_nothing_beside_the_largest_number_is_a_difference_of_dtype_alone() -> None:
    def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
        slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
        bias = -slopes[:, None, None] * (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len))
        return bias.double().where(bias != 0, 5e-324)

    assert "the dtype is not right" in run("alibi_bias", alibi_bias).message
