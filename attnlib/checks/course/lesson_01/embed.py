"""The exercise `embed` of lesson 01."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.lesson_00.slips import slips
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


def _tokens(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    return draw.integers(0, vocabulary, (b, n)), draw.normal(vocabulary, d_model)


def _every_token(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    """Each token comes up, the first one and the last one, too."""
    ids = draw.normal(b * n).argsort().reshape(b, n) % vocabulary
    return ids, draw.normal(vocabulary, d_model)


def _rare_tokens(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    """The last two tokens do not come up."""
    return draw.integers(0, vocabulary - 2, (b, n)), draw.normal(vocabulary, d_model)


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
    cases=(
        *usual_cases(
            _tokens,
            {"b": 2, "n": 5, "vocabulary": 11, "d_model": 3},
            one={"b": 1, "n": 7, "vocabulary": 5, "d_model": 2},
            more=[{"b": 3, "n": 2, "vocabulary": 13, "d_model": 7}, {"b": 5, "n": 17, "vocabulary": 3, "d_model": 11}],
        ),
        Case(
            name="every token, more features than tokens",
            inputs=lambda draw: _every_token(draw, b=2, n=7, vocabulary=3, d_model=5),
            gradient=True,
        ),
        Case(
            name="the last tokens do not come up",
            inputs=lambda draw: _rare_tokens(draw, b=3, n=2, vocabulary=7, d_model=2),
        ),
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
        wrong(
            "one_hot_float32",
            "The one-hot vectors are always float32",
            "`.float()` makes float32, whatever the table is, and a matrix product wants one dtype: "
            "F.one_hot(...).to(table.dtype) @ table. Or take the rows by their number: table[token_ids].",
            lambda token_ids, table: F.one_hot(token_ids, len(table)).float() @ table,
        ),
        wrong(
            "one_hot_returned",
            "The one-hot vectors themselves come back",
            "A one-hot vector says which row to take, and has one number for each token of the vocabulary. Multiply it "
            "with the table, or take the rows by their number: table[token_ids].",
            lambda token_ids, table: F.one_hot(token_ids, len(table)).to(table.dtype),
        ),
        wrong(
            "one_hot_without_vocabulary",
            "The one-hot vectors are as wide as the largest id",
            "Without a number of classes, `one_hot` counts up to the largest id that it sees. The table has a row for "
            "every token, whether it comes up or not: F.one_hot(token_ids, len(table)).",
            lambda token_ids, table: F.one_hot(token_ids).to(table.dtype) @ table,
        ),
        wrong(
            "next_row",
            "The row behind the right one is taken",
            "Every id fetches the row after its own. Ids count from zero, as rows do: id 0 is the table's first row.",
            lambda ids, table: table[ids + 1],
        ),
        wrong(
            "new_layer",
            "A new nn.Embedding has a table of its own",
            "nn.Embedding(...) is made with random numbers, and the table that you were given is not used. Take the "
            "rows from `table`.",
            lambda ids, table: nn.Embedding(table.shape[0], table.shape[1])(ids),
        ),
        wrong(
            "copied_to_a_parameter",
            "The table is copied into a parameter",
            "nn.Parameter(table) is a new leaf: the gradient stops there and never reaches `table`. Take the rows from "
            "`table` itself.",
            lambda ids, table: nn.Parameter(table)[ids],
        ),
        wrong(
            "padding_row_zero",
            "Token 0 is taken for padding",
            "Its vector comes out as zeros. Nothing here says that token 0 is special: it has a row like any other.",
            lambda ids, table: table[ids] * (ids != 0).unsqueeze(-1),
        ),
        wrong(
            "padding_gradient",
            "Token 0 is taken for padding",
            "With padding_idx=0 the row of token 0 gets no gradient, so it would never learn. Leave the argument out.",
            lambda ids, table: F.embedding(ids, table, padding_idx=0),
        ),
        wrong(
            "columns_taken",
            "Columns are taken instead of rows",
            "`table[:, ids]` counts along the second axis, the features. A token's vector is a row: table[ids].",
            lambda ids, table: table[:, ids],
        ),
        wrong(
            "table_transposed",
            "The table is transposed",
            "`table.T[ids]` takes columns of the table. A token's vector is a row: table[ids].",
            lambda ids, table: table.T[ids],
        ),
        wrong(
            "columns_reshaped",
            "reshape where an axis has to be moved",
            "`table.T[:, ids]` is (d_model, b, n). `reshape` keeps the numbers in their order in memory and only draws "
            "the lines elsewhere, so that a vector is made of one feature of several tokens. Take rows: table[ids].",
            lambda ids, table: table.T[:, ids].reshape(*ids.shape, table.shape[1]),
        ),
        wrong(
            "features_first",
            "The features stand in front",
            "`table.T[:, ids]` is (d_model, b, n). Attention wants one row per token, (b, n, d_model): table[ids].",
            lambda ids, table: table.T[:, ids],
        ),
        *(
            wrong(
                f"vocabulary_of_12_{how}",
                "The size of the vocabulary is a fixed number",
                "The one-hot vectors have 12 numbers, as the lesson's own vocabulary has 12 tokens. Take the number "
                "from the table: len(table).",
                implementation,
            )
            for how, implementation in (
                ("by_product", lambda ids, table: F.one_hot(ids, 12).to(table.dtype) @ table),
                (
                    "by_einsum",
                    lambda ids, table: torch.einsum("abc,cd->abd", F.one_hot(ids, 12).to(table.dtype), table),
                ),
            )
        ),
        wrong(
            "divided_by_root_d",
            "The vectors are divided by √d_model",
            "Tables are often *made* with small numbers. The look-up copies rows; it does not change them.",
            lambda ids, table: table[ids] / table.shape[1] ** 0.5,
        ),
        wrong(
            "two_axes_for_index_select",
            "index_select takes one axis of ids only",
            "The ids have two axes, (b, n). Index the table with them, table[ids], or flatten them first and give the "
            "result its shape back.",
            lambda ids, table: table.index_select(0, ids),
        ),
        wrong(
            "gathered",
            "gather takes single numbers, not rows",
            "`gather` wants an index for each number of the result. Rows are taken by indexing: table[ids].",
            lambda ids, table: table.gather(0, ids),
        ),
        wrong(
            "arguments_exchanged",
            "The index is not made of whole numbers",
            "Ids are whole numbers, and have to stay so. Either they were made floats, or the ids were indexed with "
            "the table: it is the table that is looked up, table[token_ids].",
            lambda ids, table: ids[table],
        ),
        wrong(
            "arguments_of_embedding_exchanged",
            "Ids and table are exchanged",
            "F.embedding takes the ids first, then the table.",
            lambda ids, table: F.embedding(table, ids),
        ),
        wrong(
            "averaged",
            "The words of a sentence are averaged",
            "One vector a sentence, with the order lost. Every token keeps a vector of its own here: (b, n, d_model).",
            lambda ids, table: table[ids].mean(dim=1),
        ),
        *slips(_embed),
        *usual_misconceptions(_embed, batch=False, example=_example),
    ),
)
