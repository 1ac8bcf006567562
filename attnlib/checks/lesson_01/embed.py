"""The exercise `embed` of lesson 01."""

import torch
import torch.nn.functional as F
from torch import Tensor

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong


def _tokens(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    return draw.integers(0, vocabulary, (b, n)), draw.normal(vocabulary, d_model)


def _embed(token_ids: Tensor, table: Tensor) -> Tensor:
    return table[token_ids]


def _example() -> tuple[Tensor, ...]:
    return torch.tensor([[2, 0, 2]]), torch.tensor([[0.0, 1.0], [5.0, 5.0], [20.0, 21.0]])


EMBED = Exercise(
    name="embed",
    lesson="01_qkv_projections",
    contract="int (b, n), (vocabulary, d_model) -> (b, n, d_model)",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.embed,
    forbidden=("attnlib.embed",),
    cases=usual_cases(
        _tokens,
        {"b": 2, "n": 5, "vocabulary": 11, "d_model": 3},
        one={"b": 1, "n": 7, "vocabulary": 5, "d_model": 2},
        more=[{"b": 3, "n": 2, "vocabulary": 13, "d_model": 7}, {"b": 5, "n": 17, "vocabulary": 3, "d_model": 11}],
    ),
    example=_example,
    misconceptions=(
        wrong(
            "counted_from_one",
            "The token ids are counted from one",
            "Every id fetches the row before its own. Ids count from zero, as rows do: id 0 is the table's first row.",
            lambda ids, table: table[ids - 1],
        ),
        wrong(
            "scaled_by_root_d",
            "The vectors are multiplied by √d_model",
            "Some models do that after the look-up (Vaswani et al. 2017, section 3.4). Here the rows are wanted as "
            "they are.",
            lambda ids, table: table[ids] * table.shape[1] ** 0.5,
        ),
        wrong(
            "normalised",
            "The rows are brought to length 1",
            "The look-up copies rows; it does not change them.",
            lambda ids, table: F.normalize(table, dim=-1)[ids],
        ),
        wrong(
            "ignores_ids",
            "The first rows of the table, whatever the ids are",
            "The ids are not used: position i gets row i. The id at position i says which row it gets.",
            lambda ids, table: table[torch.arange(ids.shape[1], device=ids.device) % len(table)].expand(
                *ids.shape, table.shape[1]
            ),
        ),
        wrong(
            "first_sentence_only",
            "Every sentence gets the first one's vectors",
            "Only ids[0] is looked up. Index the table with all ids at once: an index of shape (b, n) gives (b, n, "
            "d_model).",
            lambda ids, table: table[ids[0]].expand(*ids.shape, table.shape[1]),
        ),
        wrong(
            "summed",
            "The words of a sentence are added up",
            "A bag of words: one vector a sentence, with the order lost. Every token keeps a vector of its own here.",
            lambda ids, table: table[ids].sum(dim=1),
        ),
        wrong(
            "flattened",
            "The sentences run into one another",
            "The batch axis is gone: the result has shape (b·n, d_model). Keep the shape of the ids, and add d_model "
            "behind.",
            lambda ids, table: table[ids.reshape(-1)],
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "The result has shape (b, d_model, n). Attention wants one row per token: (b, n, d_model).",
            lambda ids, table: table[ids].mT,
        ),
        wrong(
            "one_hot_integers",
            "Integers times floats",
            "`one_hot` gives integers, and a matrix product wants one dtype: F.one_hot(...).to(table.dtype) @ table. "
            "Or take the rows by their number, which needs no product: table[token_ids].",
            lambda token_ids, table: torch.nn.functional.one_hot(token_ids, len(table)) @ table,
        ),
        *usual_misconceptions(_embed, batch=False, example=_example),
    ),
)
