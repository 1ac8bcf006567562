"""Where no misconception fits, the result is named by what it shows; and the name is true."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from einops import einsum
from torch import Tensor, nn

from attnlib.checks import exercises, run
from attnlib.checks.naming.errors import exception
from attnlib.checks.naming.symptoms import broken_contract, one_property, relation_of_numbers
from attnlib.checks.verdict.judge import cases_of, try_case


def names(exercise: str, attempt: Any) -> list[str]:
    """All that the symptoms say, those behind the first, too."""
    it = exercises()[exercise]
    trials = [try_case(it, attempt, case) for case in cases_of(it, hidden=False)]
    found = (broken_contract(trials), one_property(it, trials), relation_of_numbers(it, trials), exception(it, trials))
    return [finding.id for finding in found if finding is not None]


def dots(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.mT


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda r, x, y: r * 3, "one_factor_more"),
        (lambda r, x, y: -r, "one_factor_more"),
        (lambda r, x, y: r + 3, "one_term_more"),
        (lambda r, x, y: torch.cat([r[:, :1], 0 * r[:, 1:]], dim=1), "rows_left_at_zero"),
        (lambda r, x, y: r / r.norm(dim=-1, keepdim=True), "rows_with_a_factor"),
        (lambda r, x, y: r - r.amax(dim=-1, keepdim=True), "rows_with_a_term"),
        (lambda r, x, y: r.permute(2, 0, 1), "axes_in_another_order"),
        (lambda r, x, y: r.flatten(1), "in_another_shape"),
        (lambda r, x, y: r[:, -1], "one_entry_only"),
        (lambda r, x, y: r[:, :1].expand_as(r), "one_entry_for_all"),
        (lambda r, x, y: r.mean(dim=1), "summed_away"),
        (lambda r, x, y: r.roll(1, dims=-1), "in_other_places"),
        (lambda r, x, y: r.tanh(), "one_function_more"),
        (lambda r, x, y: r.softmax(dim=1), "one_function_more"),
        (lambda r, x, y: x, "input_comes_back"),
        (lambda r, x, y: r.sqrt(), "not_a_number"),
        (lambda r, x, y: r.half().to(r.dtype), "less_exact"),
        (lambda r, x, y: r.mean(dim=1, keepdim=True) * r.new_ones(r.shape[1], 1), "the_same_along_an_axis"),
        (lambda r, x, y: torch.tensordot(x, y, dims=([2], [2])), "entries_crossed"),
        (lambda r, x, y: torch.cat([r, r.flip(1)], dim=1), "goes_on"),
        (lambda r, x, y: r[:, :, :-1], "ends_early"),
        (lambda r, x, y: r.to(torch.float64 if r.dtype == torch.float32 else torch.float32), "another_dtype"),
    ],
)
def test_a_relation_of_the_numbers_has_a_name(change: Callable[..., Tensor], name: str) -> None:
    assert names("pairwise_dot", lambda x, y: change(dots(x, y), x, y))[-1] == name


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.where(r > 0, r * 2),
        lambda r: r + torch.linspace(0, 1, r.numel(), dtype=r.dtype).reshape(r.shape) * r.abs().sqrt(),
    ],
)
def test_numbers_in_no_such_relation_have_no_name(change: Callable[[Tensor], Tensor]) -> None:
    assert names("pairwise_dot", lambda x, y: change(dots(x, y))) == []


def test_a_relation_has_to_hold_in_every_case() -> None:
    def sometimes(x: Tensor, y: Tensor) -> Tensor:
        return dots(x, y) * 3 if len(x) == 1 else dots(x, y) + 3

    assert "one_factor_more" not in names("pairwise_dot", sometimes)


def test_a_mask_and_outputs_have_relations_of_their_own() -> None:
    def blocked(q: int, k: int, window: int | None = None) -> Tensor:
        future = torch.ones(q, k, dtype=torch.bool).triu(1 + k - q)
        return future if window is None else future | torch.ones(q, k, dtype=torch.bool).tril(k - q - window)

    assert names("causal_mask", blocked) == ["upside_down"]

    def weights_twice(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        grown = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        weights = grown / grown.sum(dim=-1, keepdim=True)
        return weights, weights

    assert names("scaled_dot_product_attention", weights_twice) == ["outputs_in_another_order"]


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        ({"w_q": (7, 5), "w_k": (7, 5)}, "parameter_missing"),
        ({"w_q": (7, 5), "w_k": (7, 5), "w_v": (7, 5), "w_x": (7, 5)}, "one_parameter_more"),
        ({"w_q": (5, 7), "w_k": (5, 7), "w_v": (5, 7)}, "parameter_of_another_shape"),
    ],
)
def test_parameters_that_the_contract_does_not_have_are_named(layers: dict[str, tuple[int, int]], name: str) -> None:
    class Projections(nn.Module):
        def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
            super().__init__()
            for layer, sizes in layers.items():
                setattr(self, layer, nn.Linear(*sizes))

    assert names("QKVProjection", Projections) == [name]


def test_a_parameter_that_the_module_has_without_knowing_it_is_named() -> None:
    def with_a_buffer() -> nn.Module:
        layer = nn.Module()
        layer.register_buffer("weight", torch.ones(7, 5))
        return layer

    def projections(w_q: Any) -> type[nn.Module]:
        class Projections(nn.Module):
            def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
                super().__init__()
                self.w_q = w_q

        return Projections

    assert names("QKVProjection", projections([nn.Linear(7, 5)])) == ["layers_in_a_list"]
    assert names("QKVProjection", projections(with_a_buffer())) == ["tensor_for_parameter"]
    assert names("QKVProjection", projections([7, 5])) == ["parameter_missing"]


def test_a_result_of_another_kind_is_named() -> None:
    assert names("pairwise_dot", lambda x, y: (dots(x, y), x)) == ["returns_something_else"]
    report = run("pairwise_dot", eval("lambda x, y: (x @ y.mT, x)"))  # no source: no change can be tried
    assert report.diagnosis == "returns_something_else"
    assert "What comes back returned" not in report.message


def test_inputs_that_have_to_be_refused_are_named() -> None:
    def taken(x: Tensor, num_heads: int) -> Tensor:
        width = x.shape[-1] // num_heads
        return x[..., : num_heads * width].unflatten(-1, (num_heads, width)).transpose(1, 2)

    def asserted(x: Tensor, num_heads: int) -> Tensor:
        assert x.shape[-1] % num_heads == 0
        return taken(x, num_heads)

    assert names("split_heads", taken)[0] == "not_refused"
    assert names("split_heads", asserted)[0] == "refused_otherwise"


def test_inputs_that_are_refused_and_changed_are_not_said_to_be_accepted() -> None:
    def path_patch(model: Any, ids: Tensor, other: Tensor, head: int) -> Tensor:
        first, seen = model.layers[0], []
        handle = first.w_o.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        model(other)
        model(ids)
        handle.remove()  # not reached after an error
        d = seen[0].shape[-1] // first.num_heads
        own = slice(head * d, (head + 1) * d)
        new, old = (merged[..., own] @ first.w_o.weight[:, own].T for merged in seen)
        with model.layers[1].w_k.register_forward_pre_hook(lambda _, inputs: (inputs[0] - old + new,)):
            return model(ids)

    report = run("path_patch", path_patch)
    assert "changes its input model (hooks)" in report.message
    assert "refuse" not in report.message
    assert report.diagnosis not in ("not_refused", "refused_otherwise")


def test_a_huge_number_beside_others_does_not_make_them_alike() -> None:
    def merge(o1: Tensor, m1: Tensor, l1: Tensor, o2: Tensor, m2: Tensor, l2: Tensor) -> tuple[Tensor, ...]:
        m = torch.maximum(m1, m2).clamp_min(torch.finfo(m1.dtype).min)
        first, second = (m1 - m).exp(), (m2 - m).exp()
        return first[..., None] * o1 + second[..., None] * o2, m, first * l1 + second * l2

    assert names("merge", merge) == []


def test_no_other_size_is_proposed_where_only_the_device_is_wrong() -> None:
    def dot(x: Tensor, y: Tensor) -> Tensor:
        return x @ y.mT + torch.zeros(x.shape[:-1])[..., None]

    report = run("pairwise_dot", dot)
    assert report.diagnosis == "on_the_cpu_only" or "Another number" not in report.message


def test_an_exception_of_the_learners_own_kind_counts_as_the_one_that_it_is() -> None:
    class HeadsDoNotFit(ValueError):
        pass

    class Strange(Exception):
        pass

    def with_error(error: type[Exception]) -> Any:
        def split_heads(x: Tensor, num_heads: int) -> Tensor:
            if x.shape[-1] % num_heads:
                raise error(f"num_heads = {num_heads} must divide {x.shape[-1]}")
            return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

        return split_heads

    assert run("split_heads", with_error(HeadsDoNotFit), hidden=True).passed
    assert run("split_heads", with_error(UnicodeError), hidden=True).passed
    assert names("split_heads", with_error(Strange)) == ["refused_otherwise"]


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        (lambda x, y: dots(x.detach(), y), "gradient_cut_off"),
        (lambda x, y: dots(0.5 * x + 0.5 * x.detach(), y), "gradient_of_something_else"),
        (lambda x, y: dots(x, y) if x.is_contiguous() else dots(x, y).exp(), "in_contiguous_memory_only"),
        (lambda x, y: dots(x.float(), y.float()).to(x.dtype), "in_float32_only"),
        (lambda x, y: dots(x[:1], y[:1]).expand(len(x), -1, -1), "for_a_batch_of_one_only"),
        (lambda x, y: dots(x, y) if len(x) > 1 else dots(x, y).exp(), "not_for_a_batch_of_one"),
        (lambda x, y: (dots(x.clone(), y), x.data.mul_(2))[0], "input_changed"),
        (lambda x, y: (x.data.mul_(2), dots(x, y) / 2)[1], "input_changed"),  # and with it the gradient
        (lambda x, y: dots(x, y) + torch.zeros(1, dtype=x.dtype, device="cpu"), "on_the_cpu_only"),
    ],
)
def test_the_one_property_that_is_missing_is_named(attempt: Any, name: str) -> None:
    assert names("pairwise_dot", attempt)[0] == name


def test_all_inputs_that_the_gradient_does_not_reach_are_named() -> None:
    def of_layers(x: Tensor, *matrices: Tensor) -> tuple[Tensor, ...]:
        return tuple(x @ w.detach() for w in matrices)

    message = run("project_qkv", of_layers).message
    assert "no gradient reaches w_q, w_k, w_v" in message
    assert "The gradient is cut off on its way to w_q, w_k, w_v" in message


def test_a_relation_of_one_output_is_not_told_of_the_others() -> None:
    def cut_elsewhere(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
        columns = x @ torch.cat([w_q, w_k, w_v], dim=1)
        return columns[..., : w_q.shape[1] + 1], columns[..., w_q.shape[1] + 1 : 9], columns[..., 9:]

    assert "too long (q):" in run("project_qkv", cut_elsewhere).message


def test_two_numbers_that_happen_to_be_those_of_the_right_case_are_not_blamed() -> None:
    def smoothed(texts: Tensor, vocabulary: int, window: int) -> Tensor:
        right = exercises()["company"].reference(texts, vocabulary, window)
        return right + 0.1 if texts.shape[1] > 1 else right

    assert "where vocabulary is not" not in run("company", smoothed).message


def test_a_model_that_is_copied_is_not_called_changed() -> None:
    def train(model: nn.Module, words: Tensor, wanted: Tensor, position: int, lr: float) -> Tensor:
        model, losses = copy.deepcopy(model), []
        optimiser = torch.optim.Adam(model.parameters(), lr=lr)
        for x, target in zip(words, wanted, strict=True):
            losses.append(nn.functional.mse_loss(model(x)[0][:, position], target))
            optimiser.zero_grad()
            losses[-1].backward()
            optimiser.step()
        return torch.stack(losses).detach()

    report = run("train_with_adam", train)
    assert "with `model` in place of `copy.deepcopy(model)`" in " ".join(report.message.split())
    assert "changes its input" not in report.message


def _undefined(x: Tensor, y: Tensor) -> Tensor:
    return x @ keys.mT  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        (_undefined, "name_not_defined"),
        (lambda x, y: x @ y.wordwise, "no_such_attribute"),
        (lambda x, y: x @ y.transpose(1), "arguments_do_not_fit"),
        (lambda x, y: x @ y.mT.half(), "dtypes_do_not_fit"),
        (lambda x, y: einsum(x, y, "b q d, k d -> b q k"), "pattern_does_not_fit"),
        (lambda x, y: x @ y, "shapes_do_not_fit"),
        (lambda x, y: next(x @ y for b, h, n, d in [x.shape]), "unpacked_otherwise"),
        (lambda x, y: torch.stack([x, y]), "pieces_do_not_fit"),
        (lambda x, y: (x @ y.mT)[..., 100], "index_out_of_range"),
    ],
)
def test_an_exception_has_a_name_besides_its_words(attempt: Any, name: str) -> None:
    assert names("pairwise_dot", attempt) == [name]
    assert run("pairwise_dot", attempt).headline.startswith("raised ")


def test_several_exceptions_have_no_common_name() -> None:
    def one_or_the_other(x: Tensor, y: Tensor) -> Tensor:
        return x @ y if len(x) == 1 else x[100]

    assert names("pairwise_dot", one_or_the_other) == []


def test_numbers_in_place_of_truth_values_are_a_wrong_answer_and_no_fault_of_the_check() -> None:
    report = run("causal_mask", lambda q_len, k_len, window=None: torch.full((q_len, k_len), 0.3))
    assert not report.passed
    assert "expected dtype bool, got float32" in report.message
