"""A case can give an attempt a small model, or a generator: they travel as tensors and are made where it lives."""

from typing import Any

import pytest
import torch

import attnlib
from attnlib.checks.asking.attempt import Local, Terms
from attnlib.checks.asking.given import GENERATOR, HELD, MODEL, SmallModel, described, made, note
from attnlib.checks.asking.observe import observe
from attnlib.checks.check import run
from attnlib.checks.exercise import Case, Exercise
from autograder.sandbox.inside.wire import LENGTHS, decode, encode


def small(training: bool = False) -> dict[str, Any]:
    torch.manual_seed(0)
    weights = {"embed": torch.randn(7, 4), "places": torch.randn(5, 4)}
    return described("SmallModel", (7, 5, 4), weights, training=training)


def test_over_the_wire_it_is_the_same_model() -> None:
    ids, frame = torch.randint(0, 7, (2, 5)), encode({"inputs": [small(), {GENERATOR: 3}]})
    header, _ = LENGTHS.unpack(frame[: LENGTHS.size])
    body = frame[LENGTHS.size :]
    there, generator = made(tuple(decode(body[:header], body[header:])["inputs"]))
    here, again = made((small(), {GENERATOR: 3}))
    assert torch.equal(there(ids), here(ids))
    assert torch.equal(torch.rand(5, generator=generator), torch.rand(5, generator=again))


@pytest.mark.parametrize(
    ("exercise", "shown"),
    [
        ("train_and_film", ("model, 6 tensors, the first (7, 4)", "make = torch.optim.SGD")),
        ("append_to_cache", ("cache, 2 tensors (2, 3, 11, 5), length = 2",)),
        ("invent_control", ("generator = torch.Generator().manual_seed(",)),
    ],
)
def test_a_person_sees_weights_and_what_a_caller_would_write(exercise: str, shown: tuple[str, ...]) -> None:
    message = " ".join(str(run(exercise, lambda *_: 0)).split())
    assert [text for text in shown if text not in message] == []


def test_it_is_causal_knows_its_positions_and_has_another_mode() -> None:
    (model,) = made((small(),))
    ids = torch.randint(0, 7, (2, 5))
    other = ids.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 7
    assert torch.equal(model(ids)[:, :3], model(other)[:, :3])
    assert not torch.allclose(model(ids), model(ids, torch.tensor([1, 0, 2, 3, 4])))
    assert not torch.allclose(model(ids), model.train()(ids))
    with pytest.raises(IndexError, match="the model has max_len = 5 positions"):
        model(torch.zeros(1, 6, dtype=torch.long))


def test_with_a_window_it_forgets() -> None:
    weights = {"embed": torch.randn(7, 4), "places": torch.randn(5, 4)}
    (model,) = made((described("SmallModel", (7, 5, 4, 0, 2), weights),))
    ids = torch.randint(0, 7, (1, 5))
    other = ids.clone()
    other[:, 0] = (ids[:, 0] + 1) % 7
    changed = (model(ids) != model(other)).any(dim=-1)[0]
    assert changed.tolist() == [True, True, False, False, False]


def test_attention_has_so_many_heads() -> None:
    weights = {name: torch.randn(6, 6) for name in ("w_q", "w_k", "w_v", "w_o")}
    (heads,) = made((described("SmallHeads", (6, 3), weights),))
    output, looks = heads(torch.randn(2, 5, 6))
    assert (output.shape, looks.shape) == ((2, 5, 6), (2, 3, 5, 5))
    assert torch.allclose(looks.sum(dim=-1), torch.ones(2, 3, 5))


def test_a_translator_asks_its_memory_and_looks_at_no_later_id() -> None:
    torch.manual_seed(0)
    weights = {"embed": torch.randn(7, 4), "places": torch.randn(5, 4)}
    (translator,) = made((described("SmallTranslator", (7, 5, 4), weights),))
    ids, memory = torch.randint(0, 7, (2, 5)), torch.randn(2, 3, 4)
    logits = translator(memory, ids)
    assert torch.allclose(translator(memory, ids[:, :3]), logits[:, :3], atol=1e-6)
    assert torch.allclose(translator(memory.flip(1), ids), logits, atol=1e-6)  # a memory is a set
    assert not torch.allclose(translator(-memory, ids), logits)


def test_the_mode_in_which_it_is_left_is_an_input_that_changed() -> None:
    inputs = (small(training=True),)
    objects = made(inputs)
    objects[0].eval()
    note(objects, inputs)
    assert not inputs[0][MODEL]["mode"]


def test_an_attempt_gets_the_model_and_the_caller_sees_the_mode() -> None:
    def attempt(model: SmallModel, ids: torch.Tensor) -> torch.Tensor:
        model.eval()
        return model(ids)

    session = Local(attempt).open(Terms(outputs=("logits",)))
    given, ids = small(training=True), torch.randint(0, 7, (2, 3))
    (logits,) = session.call((given, ids))
    assert torch.equal(logits, made((small(),))[0](ids).detach())
    *_, mode, _hooks, _ids = session.inputs()
    assert not mode
    assert given[MODEL]["mode"]  # what the case drew is left alone


def a_transformer() -> tuple[attnlib.AttentionOnly, dict[str, Any]]:
    model = attnlib.AttentionOnly(7, 12, 3, 2)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    return model, described("AttentionOnly", (7, 12, 3, 2), weights)


def test_a_model_of_attnlib_has_its_class_and_its_weights() -> None:
    model, inputs = a_transformer()
    (same,) = made((inputs,))
    ids = torch.randint(0, 7, (2, 5))
    assert type(same) is attnlib.AttentionOnly
    assert torch.equal(same(ids), model(ids))


def changes_a_weight(layer: torch.nn.Linear) -> None:
    with torch.no_grad():
        layer.weight[0, 0] += 1


def replaces_its_weight(layer: torch.nn.Linear) -> None:
    layer.weight = torch.nn.Parameter(torch.zeros(1, 1))


def leaves_a_hook(layer: torch.nn.Linear) -> None:
    layer.register_forward_pre_hook(lambda *_: None)


def leaves_its_own_forward(layer: torch.nn.Linear) -> None:
    layer.forward = lambda x: x


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("change", "left"),
    [
        (changes_a_weight, "weights"),
        (replaces_its_weight, "weights"),
        (leaves_a_hook, "hooks"),
        (leaves_its_own_forward, "hooks"),
        (lambda layer: layer.train(), ""),
    ],
)
def test_whatever_an_attempt_leaves_in_a_model_is_a_changed_input(change: Any, left: str, fails: bool) -> None:
    def attempt(model: attnlib.AttentionOnly, ids: torch.Tensor) -> torch.Tensor:
        change(model.layers[1].w_o)
        return ids.double() / ids.sum() if not fails else model(ids + 7)

    _, model = a_transformer()
    case = Case(name="a case", inputs=lambda draw: (model, draw.integers(0, 7, (2, 3))), mutation=True, raises=fails)
    exercise = Exercise(name="x", lesson="", contract="", parts={"values": 1}, reference=attempt, cases=(case,))
    seen = observe(exercise, attempt, case)
    assert (seen.failure is not None) == fails
    assert seen.mutated == ((f"model ({left})",) if left else ())


def test_what_the_caller_holds_shows_whether_it_was_written_to() -> None:
    def left(*, replaced: bool) -> torch.Tensor:
        def attempt(cache: dict[str, torch.Tensor]) -> torch.Tensor:
            if replaced:
                cache["k"] = cache["k"].clone()
            cache["k"][:] = 1.0
            return cache["k"]

        session = Local(attempt).open(Terms(outputs=("keys",)))
        (keys,) = session.call(({HELD: {"k": torch.zeros(3)}},))
        assert torch.equal(keys, torch.ones(3))
        return session.inputs()[0]

    assert torch.equal(left(replaced=False), torch.ones(3))
    assert torch.equal(left(replaced=True), torch.zeros(3))
