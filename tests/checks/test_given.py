"""A case can give an attempt a small model, or a generator: they travel as tensors and are made where it lives."""

import pytest
import torch

from attnlib.checks.asking.attempt import Local, Terms
from attnlib.checks.asking.given import GENERATOR, HELD, MODEL, SmallModel, made, note
from autograder.sandbox.inside.wire import LENGTHS, decode, encode


def described(training: bool = False) -> dict[str, object]:
    torch.manual_seed(0)
    return {MODEL: (torch.randn(7, 4), torch.randn(5, 4), torch.tensor(training))}


def test_over_the_wire_it_is_the_same_model() -> None:
    ids, frame = torch.randint(0, 7, (2, 5)), encode({"inputs": [described(), {GENERATOR: 3}]})
    header, _ = LENGTHS.unpack(frame[: LENGTHS.size])
    body = frame[LENGTHS.size :]
    there, generator = made(tuple(decode(body[:header], body[header:])["inputs"]))
    here, again = made((described(), {GENERATOR: 3}))
    assert torch.equal(there(ids), here(ids))
    assert torch.equal(torch.rand(5, generator=generator), torch.rand(5, generator=again))


def test_it_is_causal_knows_its_positions_and_has_another_mode() -> None:
    (model,) = made((described(),))
    ids = torch.randint(0, 7, (2, 5))
    other = ids.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 7
    assert torch.equal(model(ids)[:, :3], model(other)[:, :3])
    assert not torch.allclose(model(ids), model(ids, torch.tensor([1, 0, 2, 3, 4])))
    assert not torch.allclose(model(ids), model.train()(ids))
    with pytest.raises(IndexError, match="the model has max_len = 5 positions"):
        model(torch.zeros(1, 6, dtype=torch.long))


def test_the_mode_in_which_it_is_left_is_an_input_that_changed() -> None:
    inputs = (described(training=True),)
    objects = made(inputs)
    objects[0].eval()
    note(objects, inputs)
    assert not inputs[0][MODEL][2]


def test_an_attempt_gets_the_model_and_the_caller_sees_the_mode() -> None:
    def attempt(model: SmallModel, ids: torch.Tensor) -> torch.Tensor:
        model.eval()
        return model(ids)

    session = Local(attempt).open(Terms(outputs=("logits",)))
    given, ids = described(training=True), torch.randint(0, 7, (2, 3))
    (logits,) = session.call((given, ids))
    assert torch.equal(logits, made((described(),))[0](ids).detach())
    *_, mode, _ = session.inputs()
    assert not mode
    assert given[MODEL][2]  # what the case drew is left alone


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
