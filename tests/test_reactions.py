"""Reactions as text, their truth, and the published model, where it is installed."""

import importlib.util

import pytest
import torch
from oracles import assert_agrees

from attnlib import from_albert, reactions
from attnlib.reactions import atoms, element, tokens


def test_every_reaction_is_read_as_it_was_written():
    found = reactions.reactions()
    assert len(found) == 168
    assert {reaction.kind for reaction in found if "," in reaction.kind} == {"ester, respelled"}
    for reaction in found:
        text = tokens(reaction.text)
        before, after = atoms(text)
        assert "".join(text[1:-1]) == reaction.text
        assert len(reaction.origins) == len(after)
        for origins, atom in zip(reaction.origins, after, strict=True):
            assert origins
            assert {element(text[before[i]]) for i in origins} == {element(text[atom])}
        if reaction.points:
            assert len(reaction.points) == len(before) + len(after)
            assert {end for *ends, _ in reaction.bonds for end in ends} == set(range(len(reaction.points)))


def test_each_atom_on_the_left_is_used_once_at_most():
    for reaction in reactions.reactions():
        alone = [origins[0] for origins in reaction.origins if len(origins) == 1]
        assert len(alone) == len(set(alone))


@pytest.mark.parametrize("text", ["", "C>>!C", "CC(=O)O.CCO>>water", "C → C"])
def test_what_is_no_smiles_is_refused(text):
    if text:
        with pytest.raises(ValueError, match="must be written in SMILES"):
            tokens(text)
    else:
        assert tokens(text) == ["[CLS]", "[SEP]"]


def test_without_the_package_one_sentence_says_the_command(monkeypatch):
    monkeypatch.setattr(reactions, "find_spec", lambda _name: None)
    with pytest.raises(ImportError, match=r"python -m pip install --no-deps rxnmapper==0\.4\.3$") as raised:
        reactions.reaction_model()
    assert len(raised.value._render_traceback_()) == 1


needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("rxnmapper") is None,
    reason=f"the published weights are not installed: NOT TESTED ({reactions.INSTALL})",
)


@needs_weights
def test_the_published_model_is_transformers_own():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: NOT COMPARED with it")
    theirs = transformers.AlbertForMaskedLM.from_pretrained(reactions.published(), attn_implementation="eager")
    weights = {name: weight.double() for name, weight in reactions.published_weights().items()}
    theirs = theirs.double().eval()
    ours = from_albert(weights, num_heads=reactions.NUM_HEADS, depth=reactions.DEPTH)
    number = reactions.vocabulary()
    for reaction in reactions.reactions()[::24]:
        ids = torch.tensor([[number[token] for token in tokens(reaction.text)]])
        with torch.no_grad():
            expected = theirs(ids, output_attentions=True)
            logits, tables = ours(ids, return_weights=True)
        assert_agrees(logits, expected.logits, tolerance=1e-10)
        assert_agrees(tables, torch.stack(expected.attentions, dim=1), tolerance=1e-10)
