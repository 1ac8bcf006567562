"""A trained model is trained once: its weights are kept in the learner's package, unless nothing is to be kept."""

import os

import pytest
import torch
from torch import nn

from attnlib.checks import keep_weights, trained
from attnlib.checks.standing import folder, kept


@pytest.fixture
def own(monkeypatch, tmp_path):
    monkeypatch.delenv(kept.PLACE)
    monkeypatch.setenv(folder.PLACE, str(tmp_path / "my_attention"))
    return tmp_path / "my_attention"


def fill(number):
    def train(model):
        model.train()
        for weight in model.parameters():
            nn.init.constant_(weight, number)

    return train


def never(model):
    raise AssertionError("it was trained")


def numbers(model):
    return {value for weight in model.parameters() for value in weight.flatten().tolist()}


def test_what_was_trained_is_loaded_the_next_time(own, capsys):
    assert numbers(trained("writer", nn.Linear(3, 2).eval(), fill(2.0))) == {2.0}
    file = own / "weights" / "writer.pt"
    assert capsys.readouterr().out == f"writer was trained here; its weights are kept in {file}.\n"
    model = nn.Linear(3, 2)
    assert trained("writer", model, never) is model
    assert numbers(model) == {2.0}
    assert capsys.readouterr().out.startswith("writer was trained on ")
    assert numbers(trained("writer", nn.Linear(3, 2))) == {2.0}
    assert os.listdir(own / "weights") == ["writer.pt"]


@pytest.mark.parametrize("mode", [True, False])
def test_the_mode_stays_as_it_was(own, mode):
    assert trained("writer", nn.Linear(3, 2).train(mode), fill(1.0)).training == mode
    assert trained("writer", nn.Linear(3, 2).train(mode), never).training == mode


@pytest.mark.parametrize("other", [nn.Linear(2, 2), nn.Linear(3, 2, bias=False), nn.Sequential(nn.Linear(3, 2))])
def test_another_model_s_weights_go_aside(own, other, capsys):
    keep_weights("writer", fill(3.0)(other) or other)
    capsys.readouterr()
    assert numbers(trained("writer", nn.Linear(3, 2), fill(1.0))) == {1.0}
    assert "are another model's, so writer was trained again; its weights are kept in" in capsys.readouterr().out
    assert sorted(os.listdir(own / "weights")) == ["writer.old.pt", "writer.pt"]
    old = torch.load(own / "weights" / "writer.old.pt", weights_only=True)
    assert {name: tuple(value.shape) for name, value in old.items()} == {
        name: tuple(value.shape) for name, value in other.state_dict().items()
    }


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil",))


@pytest.mark.parametrize("broken", [b"", b"no weights", "cut", "evil", "a list"])
def test_a_broken_file_is_said_in_one_sentence_and_replaced(own, broken, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    keep_weights("writer", nn.Linear(3, 2))
    file = own / "weights" / "writer.pt"
    if broken == "evil":
        torch.save(Evil(), file)
    elif broken == "a list":
        torch.save([1, 2], file)
    else:
        file.write_bytes(file.read_bytes()[:200] if broken == "cut" else broken)
    capsys.readouterr()
    assert numbers(trained("writer", nn.Linear(3, 2), fill(1.0))) == {1.0}
    told = capsys.readouterr().out
    assert told.count("\n") == 1
    assert "so writer was trained again; its weights are kept in" in told
    assert numbers(trained("writer", nn.Linear(3, 2), never)) == {1.0}
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("off", [{kept.PLACE: ""}, {folder.PLACE: ""}, {"NBGRADER_EXECUTION": "autograde"}])
def test_where_nothing_is_kept_it_is_always_trained(own, off, monkeypatch, capsys):
    trained("writer", nn.Linear(3, 2), fill(2.0))
    capsys.readouterr()
    for name, value in off.items():
        monkeypatch.setenv(name, value)
    assert numbers(trained("writer", nn.Linear(3, 2), fill(1.0))) == {1.0}
    keep_weights("another", nn.Linear(3, 2))
    assert capsys.readouterr().out == "writer was trained here.\n"
    assert os.listdir(own / "weights") == ["writer.pt"]


def test_a_folder_of_one_s_own(own, tmp_path, monkeypatch):
    trained("writer", nn.Linear(3, 2), fill(2.0), folder=tmp_path / "here")
    assert numbers(trained("writer", nn.Linear(3, 2), never, tmp_path / "here")) == {2.0}
    assert not own.exists()
    monkeypatch.setenv(kept.PLACE, "")
    assert numbers(trained("writer", nn.Linear(3, 2), fill(1.0), tmp_path / "here")) == {1.0}


def test_a_folder_that_cannot_be_written_costs_a_training_alone(own, capsys):
    own.write_text("in its place")
    assert numbers(trained("writer", nn.Linear(3, 2), fill(2.0))) == {2.0}
    assert "; its weights cannot be kept in" in capsys.readouterr().out


def test_a_training_that_ends_with_an_error_keeps_nothing(own):
    with pytest.raises(AssertionError, match="it was trained"):
        trained("writer", nn.Linear(3, 2), never)
    assert not own.exists()


def test_without_weights_and_without_a_training_there_is_no_model(own):
    with pytest.raises(ValueError, match="no weights of 'writer' can be loaded, and there is no `train`"):
        trained("writer", nn.Linear(3, 2))


@pytest.mark.parametrize("name", ["", "../writer", "a/b", "-a", "a.pt"])
def test_a_name_is_no_path(own, name):
    with pytest.raises(ValueError, match="a name of weights is made of letters"):
        trained(name, nn.Linear(3, 2), never)
