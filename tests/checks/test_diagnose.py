"""In which order the rivals are asked changes what a diagnosis costs, never the diagnosis."""

from collections import Counter
from typing import Any

import pytest
import torch
from told_of_masks_and_models import cross
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

import attnlib
from attnlib.checks import exercises, run
from attnlib.checks.asking import observe as observing
from attnlib.checks.asking.observation import Asking, Memory
from attnlib.checks.course.wronglines import made
from attnlib.checks.naming.diagnose import diagnose
from attnlib.checks.verdict.judge import cases_of, run_exercise, try_case


@pytest.mark.slow
@pytest.mark.parametrize("name", ["split_heads", "QKVProjection", "causal_mask"])
def test_a_diagnosis_does_not_depend_on_the_order_of_the_cases(name: str) -> None:
    exercise, memory = exercises()[name], Memory()
    for misconception in exercise.misconceptions:
        trials = [
            try_case(exercise, misconception.implementation, case, Asking(memory=memory))
            for case in cases_of(exercise, hidden=False)
        ]
        named = [diagnose(exercise, t, Asking(memory=memory)) for t in (trials, trials[::-1])]
        assert [[m.id for m in known] for known in named] == [[misconception.same_as or misconception.id]] * 2


def test_what_fails_for_another_reason_is_said_to_be_another_mistake() -> None:
    def taking_turns(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if q.shape[1] % k.shape[1]:
            raise ValueError("the number of heads must be a multiple of the number of groups")
        return of_any_number(q, k, v)

    def of_any_number(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        h = q.shape[1]
        k, v = (t.repeat(1, h, 1, 1)[:, :h] for t in (k, v))
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1) @ v

    one, two = (
        run_exercise(exercises()["grouped_query_attention"], attempt) for attempt in (taking_turns, of_any_number)
    )
    assert one.diagnosis == two.diagnosis == "groups_taking_turns"
    more = [s.heading for report in (one, two) for s in report.sections if s.heading.startswith("Not explained by it")]
    assert more == ["Not explained by it: the case “six heads, four groups”"]


def test_a_tensor_made_on_the_cpu_does_not_hide_what_the_numbers_show() -> None:
    def transposed(model: nn.Module, layer: int, head: int) -> Tensor:
        circuit: Tensor = exercises()["ov_circuit"].reference(model, layer, head)
        return circuit.T[torch.arange(len(circuit))] * torch.ones(len(circuit))

    assert run("ov_circuit", transposed).diagnosis == "circuit_transposed"


def test_a_result_without_the_inputs_dtype_does_not_hide_what_the_numbers_show() -> None:
    def transposed(x: Tensor, w: Tensor) -> Tensor:
        state, states = torch.zeros(x.shape[0], x.shape[2]), []
        for word in x.float().unbind(1):
            state = torch.tanh(state @ w.float().T + word)
            states.append(state)
        return torch.stack(states, dim=1)

    report = run("recurrent_states", transposed)
    assert report.diagnosis == "matrix_transposed"
    assert "the values are not right" in report.headline
    assert "the dtype of the result, in the case “float64”" in " ".join(report.message.split())


def test_a_tensor_made_on_the_cpu_does_not_hide_a_mistake_of_another_part() -> None:
    wrong = {m.id: m.implementation for m in exercises()["generate"].misconceptions}["put_into_training"]

    def into_training(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None):
        ids = wrong(model, ids, num_tokens, temperature, top_k, top_p, stop_id, generator)
        return ids if stop_id is None else torch.where(torch.zeros(len(ids), 1) > 0, stop_id, ids)

    report = run("generate", into_training)
    assert report.diagnosis == "put_into_training"
    assert "changes its input" in report.headline
    assert "Not explained by it: “stop”" in report.message


def test_a_second_mistake_is_told_where_it_shows_in_one_case_alone() -> None:
    def remembering(model: nn.Module, excerpts: Tensor, rates: Tensor, make: Any = torch.optim.SGD) -> Tensor:
        model.train()
        optimiser, losses = make(model.parameters(), lr=1.0), []
        for excerpt, rate in zip(excerpts, rates.tolist(), strict=True):
            optimiser.param_groups[0]["lr"] = rate
            losses.append(nn.functional.cross_entropy(model(excerpt[:, :-1]).mT, excerpt[:, 1:]))
            losses[-1].backward()
            optimiser.step()
        return torch.stack(losses)

    report = run("train_writer", remembering)
    assert report.diagnosis == "gradients_pile_up"
    assert "Not explained by it: the case “losses without a history”" in report.message


def test_what_is_wrong_in_another_way_is_told_beside_a_parameter_and_by_shapes_alone() -> None:
    class CausalSelfAttention(nn.Module):
        def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
            super().__init__()
            self.h = num_heads
            self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model, bias=bias) for _ in range(3))
            self.w_o = nn.Linear(d_model, d_model)

        def forward(self, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
            q, k, v = (attnlib.split_heads(w(x), self.h) for w in (self.w_q, self.w_k, self.w_v))
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(1)
            mask = mask if key_mask is None else mask & key_mask[:, None, None]
            weights = attnlib.masked_softmax((q @ k.mT).sin(), mask)
            return self.w_o(attnlib.merge_heads(weights @ v)), weights

    def in_another_order(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
        weights = ((x @ w_q) @ (memory @ w_k).mT).sin().softmax(dim=-1)
        return weights, weights @ memory @ w_v

    assert run("cross_attention", in_another_order).diagnosis == "shapes_in_another_order"
    report = run("CausalSelfAttention", CausalSelfAttention)
    assert report.diagnosis == "one_parameter_more"
    assert "Not explained by it: the case “every axis of another length”" in report.message


def test_only_rivals_that_are_right_otherwise_are_asked_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    class Counting(observing.AskedSession):
        def __init__(self, session: Any, **options: Any) -> None:
            super().__init__(session, **options)
            asked[session.terms.device] += 1

    monkeypatch.setattr(observing, "AskedSession", Counting)
    exercise = exercises()["MultiHeadSelfAttention"]

    class OnTheCpuOnly(made(exercise.right, exercise.name)):  # type: ignore[misc, attr-defined]
        def forward(self, *inputs: Any) -> Any:
            return tree_map_only(Tensor, lambda t: t + torch.zeros(t.shape, dtype=t.dtype), super().forward(*inputs))

    assert run_exercise(exercise, OnTheCpuOnly).diagnosis == "on_the_cpu_only"
    assert 2 < asked["meta"] < len(exercise.misconceptions) / 2


def test_the_check_of_a_module_leaves_the_random_state_alone() -> None:
    exercise, state = exercises()["QKVProjection"], torch.get_rng_state()
    assert not run(exercise.name, exercise.misconceptions[0].implementation, seed=12).passed
    assert torch.equal(torch.get_rng_state(), state)


def test_a_misconception_that_never_raises_is_not_told_of_what_raises_nearly_everywhere() -> None:
    def triangle_of_another_axis(scores: torch.Tensor) -> torch.Tensor:
        n = scores.shape[0]
        kept = scores.softmax(dim=-1) * torch.ones(n, n).tril()
        return kept / kept.sum(dim=-1, keepdim=True)

    exercise = exercises()["renormalised_causal_weights"]
    assert run(exercise.name, triangle_of_another_axis).diagnosis not in {m.id for m in exercise.misconceptions}


def test_a_misconception_is_not_told_of_an_attempt_that_is_right_where_it_is_wrong() -> None:
    def overflows_where_it_is_blocked(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        largest = scores.masked_fill(~mask, -torch.inf).amax(dim=-1, keepdim=True).nan_to_num(neginf=0.0)
        grown = (scores - largest).exp() * mask
        return grown / grown.sum(dim=-1, keepdim=True).clamp(min=1e-9)

    report = run("masked_softmax", overflows_where_it_is_blocked)
    assert report.parts["rows without True"]
    assert "a row without any True" not in " ".join(report.message.split())


def test_a_changed_input_is_not_explained_by_what_changes_none() -> None:
    def fills_the_scores(scores: Tensor, mask: Tensor) -> Tensor:
        scores.masked_fill_(~mask, -torch.inf)
        return scores.softmax(dim=-1).nan_to_num(0.0)

    assert run("masked_softmax", fills_the_scores).diagnosis == "one_change_in_place"


@pytest.mark.parametrize("hidden", [False, True])
def test_a_softmax_over_another_axis_does_not_overflow(hidden: bool) -> None:
    def over_axis_one(scores: Tensor) -> Tensor:
        powers = (scores - scores.amax(dim=1, keepdim=True)).exp()
        return powers / powers.sum(dim=1, keepdim=True)

    assert run("softmax", over_axis_one, hidden=hidden).diagnosis == "over_axis_one"


@pytest.mark.parametrize("name", ["key_mask_as_memory", "key_mask_as_mask"])
def test_an_error_that_attnlib_raises_is_told_by_its_words(name: str) -> None:
    exercise = exercises()["EncoderBlock"]
    wrong = next(m for m in exercise.misconceptions if m.id == name)
    assert run(exercise.name, wrong.implementation).diagnosis == name


def test_a_learners_own_refusal_does_not_hide_another_mistake() -> None:
    class EncoderBlock(torch.nn.Module):
        def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
            super().__init__()
            if d_model % num_heads:
                raise ValueError(f"num_heads = {num_heads} must divide d_model = {d_model}")
            self.ln_1, self.ln_2 = torch.nn.LayerNorm(d_model), torch.nn.LayerNorm(d_model)
            self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
            self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    assert run("EncoderBlock", EncoderBlock).diagnosis == "layers_renamed"


@pytest.mark.parametrize(
    ("second", "diagnosis"),
    [
        (lambda self: {"query": self.w_q}, "layer_under_two_names"),
        (lambda self: {"layers": nn.ModuleList([self.w_q, self.w_k])}, "layer_under_two_names"),
        (lambda self: {"layers": [self.w_q, self.w_k], "drop": nn.Dropout(), "drop_too": None}, None),
    ],
)
def test_a_layer_has_one_name(second: Any, diagnosis: str | None) -> None:
    class Projections(nn.Module):
        def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
            super().__init__()
            self.w_q, self.w_k = nn.Linear(d_model, d_k, bias=bias), nn.Linear(d_model, d_k, bias=bias)
            self.w_v = nn.Linear(d_model, d_v, bias=bias)
            for name, layer in second(self).items():
                setattr(self, name, layer)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self.w_q(x), self.w_k(x), self.w_v(x)

    report = run("QKVProjection", Projections)
    assert report.passed is (diagnosis is None)
    assert report.diagnosis == diagnosis
    assert diagnosis is None or "'w_q' and " in report.message


def test_one_layer_for_two_is_a_missing_one_and_not_a_second_name() -> None:
    class Shared(nn.Module):
        def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
            super().__init__()
            self.w_q = self.w_k = nn.Linear(d_model, d_k, bias=bias)
            self.w_v = nn.Linear(d_model, d_v, bias=bias)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self.w_q(x), self.w_k(x), self.w_v(x)

    report = run("QKVProjection", Shared)
    assert not report.passed
    assert report.diagnosis != "layer_under_two_names"


@pytest.mark.parametrize(
    ("blocked", "named"),
    [
        (lambda mask: mask[:, None, None, :], "padding_upside_down"),
        (lambda mask: ~mask[:, None, :, None], "padding_on_queries"),
        (lambda mask: ~mask, "padding_not_lined_up"),
        (lambda mask: ~mask[:, None, :], "padding_on_the_heads"),
    ],
)
def test_a_mask_that_is_wrong_only_where_there_is_one_is_named(blocked: Any, named: str) -> None:
    attempt = type("MultiHeadCrossAttention", (cross(-torch.inf),), {"blocked": staticmethod(blocked)})
    assert run("MultiHeadCrossAttention", attempt).diagnosis == named


def test_what_a_probe_measures_is_not_said_of_an_output() -> None:
    def floor_of_others(vocab: int, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        texts = torch.randint(2, shape, generator=generator) * (vocab - 1)
        return texts, torch.tensor(float(vocab)).log()

    assert "\n  guessers below the floor" in run("invent_control", floor_of_others).message


def test_an_answer_that_subtracts_a_maximum_is_not_told_to_subtract_one() -> None:
    def one_maximum_and_an_axis_lost(scores: Tensor) -> Tensor:
        powers = (scores - scores.max()).exp()
        return powers / powers.sum(dim=-1)

    assert "exp overflows" not in run("softmax", one_maximum_and_an_axis_lost).message
