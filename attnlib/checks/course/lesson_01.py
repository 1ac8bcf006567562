"""Lesson 01, queries, keys and values: the look-up, three matrices, one matrix for all, three layers."""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.slips.bilinear import GiveMatrixAndVector, OneMatrix, OneVector
from attnlib.checks.course.slips.company import ByChance, CountNeighbours, MeetMore
from attnlib.checks.course.slips.projections import Layers, OfItself, Product, ProjectWithLayers, Three, ThreeLayers
from attnlib.checks.course.slips.projections import bias as bias_of
from attnlib.checks.course.slips.qkv import (
    Cut,
    CutInOrder,
    GiveThree,
    InOrder,
    MultiplyByHand,
    ProjectThree,
    SideBySide,
    ThreeMatrices,
    three,
)
from attnlib.checks.course.slips.qkv import Layers as Functions
from attnlib.checks.course.slips.recurrent import CollectStates, ReadWords, fold_in, read
from attnlib.checks.course.steps import CourseExercise, Step, each, spells
from attnlib.checks.course.usual import as_given, usual_cases, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise, Inputs

LESSON = "01_qkv_projections"
QKV = ("q", "k", "v")
LAYERS = ("nothing_projected", "queries_and_keys_not_projected", "values_not_projected", "chained")
"""Slips that mean something only where there is a layer, or a matrix, for each of the three."""
PAIRS = ("scaled_query", "q_k_exchanged", "keys_values_exchanged", "order_returned")
NO_PAIRS = ("q_k_exchanged_and_order_returned", "keys_values_exchanged_and_order_returned")
"""Two exchanges, which are no more than another order."""


def _tokens(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    return draw.integers(0, vocabulary, (b, n)), draw.normal(vocabulary, d_model)


def _every_token(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    """Each token comes up, the first one and the last one, too."""
    ids = draw.normal(b * n).argsort().reshape(b, n) % vocabulary
    return ids, draw.normal(vocabulary, d_model)


def _rare_tokens(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    """The last two tokens do not come up."""
    return draw.integers(0, vocabulary - 2, (b, n)), draw.normal(vocabulary, d_model)


class LookUp(Step):
    """A row of the table for each id."""

    makes = ("rows",)

    def right(self, token_ids: Tensor, table: Tensor) -> Tensor:
        return table[token_ids]

    @each(shift=(-1, 1))
    def counted_from_one(self, token_ids: Tensor, table: Tensor, shift: int) -> Tensor:
        """The row next to the right one is taken.

        Every id fetches the row before its own, or the row after it. Ids count from zero, as rows do: id 0 is the
        table's first row.
        """
        return table[token_ids + shift]

    def ignores_ids(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """The first rows of the table, whatever the ids are.

        The ids are not used: position i gets row i. The id at position i says which row it gets.
        """
        rows = table[torch.arange(token_ids.shape[1], device=token_ids.device) % len(table)]
        return rows.expand(*token_ids.shape, table.shape[1])

    def columns_taken(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """Columns are taken instead of rows.

        `table[:, ids]` and `table.T[ids]` count along the second axis, the features. A token's vector is a row:
        table[ids].
        """
        return table[:, token_ids]

    @spells(columns_taken)
    def table_transposed(self, token_ids: Tensor, table: Tensor) -> Tensor:
        return table.T[token_ids]

    def columns_reshaped(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """reshape where an axis has to be moved.

        `table.T[:, ids]` is (d_model, b, n). `reshape` keeps the numbers in their order in memory and only draws the
        lines elsewhere, so that a vector is made of one feature of several tokens. Take rows: table[ids].
        """
        return table.T[:, token_ids].reshape(*token_ids.shape, table.shape[1])

    def one_hot_integers(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """The one-hot vectors and the table differ in dtype.

        `one_hot` gives integers, `.float()` float32, whatever the table is; a matrix product wants one dtype:
        F.one_hot(...).to(table.dtype) @ table. Or take the rows by their number: table[token_ids].
        """
        return F.one_hot(token_ids, len(table)) @ table

    @spells(one_hot_integers)
    def one_hot_float32(self, token_ids: Tensor, table: Tensor) -> Tensor:
        return F.one_hot(token_ids, len(table)).float() @ table

    def one_hot_returned(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """The one-hot vectors themselves come back.

        A one-hot vector says which row to take, and has one number for each token of the vocabulary. Multiply it with
        the table, or take the rows by their number: table[token_ids].
        """
        return F.one_hot(token_ids, len(table)).to(table.dtype)

    @each(width=(-1, 12))
    def one_hot_without_vocabulary(self, token_ids: Tensor, table: Tensor, width: int) -> Tensor:
        """The one-hot vectors have another width than the vocabulary.

        Without a number of classes, `one_hot` counts up to the largest id that it sees; and only the lesson's own
        vocabulary has 12 tokens. The table has a row for every token: F.one_hot(token_ids, len(table)).
        """
        return F.one_hot(token_ids, width).to(table.dtype) @ table

    @spells(one_hot_without_vocabulary)
    def vocabulary_of_12_by_einsum(self, token_ids: Tensor, table: Tensor) -> Tensor:
        return torch.einsum("abc,cd->abd", F.one_hot(token_ids, 12).to(table.dtype), table)

    def new_layer(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """A new nn.Embedding has a table of its own.

        nn.Embedding(...) is made with random numbers, and the table that you were given is not used. Take the rows from
        `table`.
        """
        rows: Tensor = nn.Embedding(table.shape[0], table.shape[1])(token_ids)
        return rows

    def copied_to_a_parameter(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """The table is copied into a parameter.

        nn.Parameter(table), or the weight of a new layer, is a new leaf: the gradient stops there and never reaches
        `table`. Take the rows from `table` itself.
        """
        return nn.Parameter(table)[token_ids]

    def padding_row_zero(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """Token 0 is taken for padding.

        Its vector comes out as zeros; or, with padding_idx=0, gets no gradient and would never learn. Nothing here says
        that token 0 is special: it has a row like any other.
        """
        return table[token_ids] * (token_ids != 0).unsqueeze(-1)

    @spells(padding_row_zero)
    def padding_gradient(self, token_ids: Tensor, table: Tensor) -> Tensor:
        return F.embedding(token_ids, table, padding_idx=0)

    def two_axes_for_index_select(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """index_select and gather do not take rows by two axes of ids.

        `index_select` takes one axis of ids only, and `gather` an index for each number of the result. Index the table
        with all ids: table[ids].
        """
        return table.index_select(0, token_ids)

    @spells(two_axes_for_index_select)
    def gathered(self, token_ids: Tensor, table: Tensor) -> Tensor:
        return table.gather(0, token_ids)

    def arguments_exchanged(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """The index is not made of whole numbers.

        Ids are whole numbers, and have to stay so. Either they were made floats, or ids and table changed places: it is
        the table that is looked up, table[token_ids], or F.embedding(token_ids, table).
        """
        return token_ids[table]

    @spells(arguments_exchanged)
    def arguments_of_embedding_exchanged(self, token_ids: Tensor, table: Tensor) -> Tensor:
        return F.embedding(table, token_ids)


class Rows(Step):
    """The rows as they are."""

    def right(self, rows: Tensor) -> Tensor:
        return rows

    @each(power=(0.5, -0.5))
    def scaled_by_root_d(self, rows: Tensor, power: float) -> Tensor:
        """The vectors are scaled.

        They are multiplied or divided by √d_model, or brought to length 1. Some models do that after the look-up
        (Vaswani et al. 2017, section 3.4). Here the look-up copies rows, and does not change them.
        """
        return rows * math.pow(rows.shape[-1], power)

    @spells(scaled_by_root_d)
    def normalised(self, rows: Tensor) -> Tensor:
        return F.normalize(rows, dim=-1)

    def summed(self, rows: Tensor) -> Tensor:
        """The words of a sentence are added up, or averaged.

        A bag of words: one vector a sentence, with the order lost. Every token keeps a vector of its own here.
        """
        return rows.sum(dim=1)

    @spells(summed)
    def averaged(self, rows: Tensor) -> Tensor:
        return rows.mean(dim=1)


class CutWidths(Cut):
    """Values may be wider or narrower than queries and keys."""

    @staticmethod
    def _cut(product: Product, w_qkv: Tensor, *widths: int) -> Functions:
        return three(lambda x: product(x, w_qkv).split(widths, dim=-1))

    @each(order=("vqk", "qvk", "vkq"))
    def columns_v_first(self, product: Product, w_qkv: Tensor, d_k: int, d_v: int, order: str) -> Functions:
        """The columns are read in another order.

        First come the d_k columns of q, then the d_k columns of k, and the d_v columns of v last.
        """
        pieces = self._cut(product, w_qkv, *({"q": d_k, "k": d_k, "v": d_v}[name] for name in order))
        w_q, w_k, w_v = (pieces[order.index(name)] for name in QKV)
        return w_q, w_k, w_v

    def second_piece_d_v_wide(self, product: Product, w_qkv: Tensor, d_k: int, d_v: int) -> Functions:
        """The widths are in another order.

        Queries and keys share the width d_k, because they meet in a dot product; the values come last:
        [d_k, d_k, d_v].
        """
        return self._cut(product, w_qkv, d_k, d_v, d_k)

    @spells(second_piece_d_v_wide)
    def first_piece_d_v_wide(self, product: Product, w_qkv: Tensor, d_k: int, d_v: int) -> Functions:
        return self._cut(product, w_qkv, d_v, d_k, d_k)

    @spells(second_piece_d_v_wide)
    def widths_exchanged(self, w_qkv: Tensor, d_v: int) -> Functions:
        return self._slices(w_qkv, (0, d_v), (d_v, 2 * d_v), (2 * d_v, None))

    @spells(second_piece_d_v_wide)
    def split_widths_exchanged(self, product: Product, w_qkv: Tensor, d_k: int, d_v: int) -> Functions:
        return self._cut(product, w_qkv, d_v, d_v, d_k)

    @spells(InOrder.values_d_k_wide)
    def values_last_d_k(self, w_qkv: Tensor, d_k: int) -> Functions:
        return self._slices(w_qkv, (0, d_k), (d_k, 2 * d_k), (-d_k, None))

    def interleaved(self, w_qkv: Tensor, d_k: int) -> Functions:
        """The columns are read as if they took turns.

        Every second or third column went to one of them. Some codebases pack q, k, v column by column like that; here
        they are in blocks: first all of q, then all of k, then all of v.
        """
        return three(
            lambda x: (
                [(x @ w_qkv)[..., : 2 * d_k].unflatten(-1, (-1, 2))[..., i] for i in (0, 1)]
                + [(x @ w_qkv)[..., 2 * d_k :]]
            )
        )

    @spells(interleaved)
    def every_third_column(self, w_qkv: Tensor) -> Functions:
        return three(lambda x: [(x @ w_qkv)[..., i::3] for i in range(3)])

    @spells(Cut.fixed_places)
    def fixed_widths(self, product: Product, w_qkv: Tensor) -> Functions:
        return self._cut(product, w_qkv, 4, 4, 5)

    @each(matrix=(True, False))
    def rows_of_the_matrix(self, w_qkv: Tensor, d_k: int, d_v: int, matrix: bool) -> Functions:
        """The rows of the matrix are cut.

        The columns of w_qkv belong to q, k and v: w_qkv[:, :d_k]. Its rows are d_model, which all three share.
        """
        pieces = w_qkv.split([d_k, d_k, d_v]) if matrix else (w_qkv[:d_k], w_qkv[d_k : 2 * d_k], w_qkv[2 * d_k :])
        return three(lambda x: [x @ piece for piece in pieces])


class FusedInOrder(CutInOrder):
    """The cuts are made at widths that are arguments."""

    @spells(InOrder.values_d_k_wide)
    def pieces_of_d_k(self, x: Tensor, w_qkv: Tensor, d_k: int) -> tuple[Tensor, ...]:
        return torch.split(x @ w_qkv, d_k, dim=-1)

    @spells(InOrder.values_d_k_wide)
    def pieces_of_d_k_unpacked(self, x: Tensor, w_qkv: Tensor, d_k: int) -> Three:
        q, k, v = torch.split(x @ w_qkv, d_k, dim=-1)
        return q, k, v

    def widths_taken_for_places(self, x: Tensor, w_qkv: Tensor, d_k: int) -> tuple[Tensor, ...]:
        """The widths are taken for the places of the cuts.

        Slices and `tensor_split` go by the columns at which to cut: the keys go from d_k to 2·d_k, the values from
        there to 2·d_k + d_v. It is `split` that takes widths.
        """
        return (x @ w_qkv).tensor_split([d_k, d_k], dim=-1)

    @spells(widths_taken_for_places)
    def widths_taken_for_cuts(self, x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> Three:
        fused = x @ w_qkv
        return fused[..., :d_k], fused[..., d_k:d_v], fused[..., d_v:]

    @spells(widths_taken_for_places)
    def widths_taken_for_ends(self, x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> Three:
        fused = x @ w_qkv
        return fused[..., :d_k], fused[..., d_k:d_k], fused[..., 2 * d_k : d_v]


class Thirds(Step):
    """All three are as wide as a third of the columns."""

    makes = ("d_k", "d_v")

    def right(self, w_qkv: Tensor) -> tuple[int, int]:
        return w_qkv.shape[1] // 3, w_qkv.shape[1] // 3


class CutThirds(Cut):
    """Three pieces of one width."""

    def take_turns(self, w_qkv: Tensor) -> Functions:
        """q, k and v still take turns.

        Columns 0, 3, 6 … are cut out as one. The weights have blocks: `(three d)`.
        """
        return three(lambda x: (x @ w_qkv).unflatten(-1, (-1, 3)).unbind(dim=-1))

    def weights_shuffled(self, w_qkv: Tensor) -> Functions:
        """The weights are reordered the wrong way.

        The columns are in three blocks already. Reordering them as if they took turns mixes them. Cut in blocks,
        `(three d)`, and leave the weights alone.
        """
        shuffled = w_qkv.unflatten(-1, (3, -1)).mT.flatten(-2)
        return three(lambda x: (x @ shuffled).chunk(3, dim=-1))

    @spells(weights_shuffled)
    def shuffled_and_in_turns(self, w_qkv: Tensor) -> Functions:
        return self.take_turns(w_qkv.unflatten(-1, (-1, 3)).mT.flatten(-2))

    def as_wide_as_x(self, w_qkv: Tensor) -> Functions:
        """The pieces are as wide as x.

        The cuts are made at d_model and 2·d_model, or pieces of d_model columns are cut. d is a third of the columns,
        and need not be d_model: chunk(3, dim=-1), or w_qkv.shape[1] // 3.
        """
        d = len(w_qkv)
        return three(lambda x: (x @ w_qkv).tensor_split([d, 2 * d], dim=-1))

    @spells(as_wide_as_x)
    def sliced_as_wide_as_x(self, w_qkv: Tensor) -> Functions:
        d = len(w_qkv)
        return self._slices(w_qkv, (0, d), (d, 2 * d), (2 * d, 3 * d))


class ThirdsInOrder(CutInOrder):
    """The pieces of one product, picked."""

    @spells(CutThirds.as_wide_as_x)
    def split_as_wide_as_x(self, x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
        return torch.split(x @ w_qkv, x.shape[-1], dim=-1)

    @spells(CutThirds.as_wide_as_x)
    def split_as_wide_as_x_unpacked(self, x: Tensor, w_qkv: Tensor) -> Three:
        q, k, v = torch.split(x @ w_qkv, x.shape[-1], dim=-1)
        return q, k, v

    def pieces_of_three(self, x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
        """Pieces of three columns, not three pieces.

        `split(3)`, or `(three d)` with d=3, says that each vector has three numbers. It is the number of pieces that is
        3: three=3, or chunk(3, dim=-1).
        """
        return torch.split(x @ w_qkv, 3, dim=-1)

    @spells(pieces_of_three)
    def three_in_place_of_d(self, x: Tensor, w_qkv: Tensor) -> Three:
        q, k, v = (x @ w_qkv).unflatten(-1, (-1, 3)).movedim(-2, 0)
        return q, k, v

    @spells(pieces_of_three)
    def three_in_place_of_d_in_turns(self, x: Tensor, w_qkv: Tensor) -> Three:
        q, k, v = (x @ w_qkv).unflatten(-1, (3, -1)).movedim(-1, 0)
        return q, k, v

    def picked_from_last_axis(self, x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
        """q, k and v are picked along the wrong axis.

        After the split the axes are (b, n, 3, d). The one to pick from is the 3, not the last: p[..., 0, :], or
        unbind(dim=-2).
        """
        return tuple((x @ w_qkv).unflatten(-1, (3, -1))[..., i] for i in range(3))


class QKVProjection(attnlib.QKVProjection):
    """The contract's signature: `bias` by position."""

    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, bias=bias)


class LayersWithBias(ThreeLayers):
    """Whether the layers have a bias is an argument."""

    def _biased(self, d_model: int, d_k: int, d_v: int, *biased: bool) -> Layers:
        widths = zip((d_k, d_k, d_v), biased, strict=True)
        return tuple(nn.Linear(d_model, width, bias=bias) for width, bias in widths)

    @each(names=("qkv", "k", "v", "kv"))
    def always_bias(self, d_model: int, d_k: int, d_v: int, bias: bool, names: str) -> Layers:
        """`bias=False` is not passed on.

        At least one layer has a bias although bias=False was asked for. Pass the argument on to all three:
        nn.Linear(…, bias=bias).
        """
        return self._biased(d_model, d_k, d_v, *(bias or name in names for name in QKV))

    @each(names=("qkv", "q", "k", "v", "qk", "kv", "qv"))
    def never_bias(self, d_model: int, d_k: int, d_v: int, bias: bool, names: str) -> Layers:
        """`bias=True` is not passed on.

        At least one layer never has a bias. Pass the argument on to all three: nn.Linear(…, bias=bias).
        """
        return self._biased(d_model, d_k, d_v, *(bias and name not in names for name in QKV))

    def no_bias_by_default(self, d_model: int, d_k: int, d_v: int, given: dict[str, Any]) -> Layers:
        """`bias` is False by default.

        The contract is QKVProjection(d_model, d_k, d_v, bias=True): if the caller does not mention a bias, there is
        one.
        """
        return self.right(d_model, d_k, d_v, given.get("bias", False))

    def bias_turned_round(self, d_model: int, d_k: int, d_v: int, bias: bool) -> Layers:
        """The bias is there when it should not be.

        With bias=True the layers have none, with bias=False they have one. Pass the argument on as it is.
        """
        return self.right(d_model, d_k, d_v, not bias)

    def layers_by_number(self, module: Any, d_model: int, d_k: int, d_v: int, bias: bool) -> Layers:
        """The layers have numbers in place of names.

        nn.ModuleList and nn.Sequential number what they hold: 0, 1, 2. Make each layer an attribute under its own name:
        self.w_q, self.w_k and self.w_v.
        """
        module.layers = nn.ModuleList(nn.Linear(d_model, d, bias=bias) for d in (d_k, d_k, d_v))
        return None, None, None


class ProjectThreeWithLayers(ProjectThree, ProjectWithLayers):
    """What layers do is done by hand, or left undone."""

    def weight_reshaped(self, x: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear) -> tuple[Tensor, ...]:
        """A layer's weight is reshaped.

        `reshape` (or `view`) keeps the numbers in their order in memory and draws the lines elsewhere: no column is
        what it was. To turn a weight, use .T; calling the layer does it for you: self.w_q(x).
        """
        return tuple(x @ w.weight.reshape(w.in_features, w.out_features) + bias_of(w) for w in (w_q, w_k, w_v))

    def bias_twice(self, x: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear) -> tuple[Tensor, ...]:
        """The bias is added twice.

        A layer adds its bias itself: self.w_q(x) is the product and the bias.
        """
        return tuple(w(x) + bias_of(w) for w in (w_q, w_k, w_v))

    def new_layers(self, x: Tensor, w_q: nn.Linear, w_k: nn.Linear, w_v: nn.Linear) -> tuple[Tensor, ...]:
        """Layers are made in `forward`.

        They start with random numbers at every call, and what they learn is lost. Make layers in __init__, once, and
        call those: self.w_q(x).
        """
        return tuple(nn.Linear(x.shape[-1], w.out_features)(x) for w in (w_q, w_k, w_v))


PREDICT_QUERY_OF_IT = Exercise(
    name="predict_query_of_it",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": is the query of “it” the same in both sentences?',
    parts={"prediction": 1},
    kind="choice",
    reference="A",
    explanation="The same token has the same row of the table, and the same row times the same matrix is the same "
    "query. A projection never looks at another word. Only attention, in lesson 02, lets one word learn about another.",
    wrong=(
        wrong(
            "query_sees_context",
            "A projection sees only one word",
            "That is what we would like, and what attention is for. But the query is computed from the vector of "
            "“it” alone, and this vector is the same row of the table in both sentences. Nothing has told it what "
            "follows.",
            "B",
        ),
        wrong(
            "product_mixes_words",
            "A product X W mixes features, not words",
            "Row n of X W is row n of X times W: it mixes the six numbers of one word. To mix words, you need a "
            "matrix on the other side of X, and that is exactly what attention puts there in lesson 02.",
            "C",
        ),
        wrong(
            "training_would_differ",
            "Training changes the matrix, not what it is given",
            "Whatever the numbers in the matrix, it gets the same six numbers in both sentences, and returns the same "
            "four. No training can make one matrix give two answers to one question.",
            "D",
        ),
    ),
)


EMBED = CourseExercise(
    name="embed",
    lesson=LESSON,
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
            part="gradient",
            gradient=True,
        ),
        Case(
            name="the last tokens do not come up",
            inputs=lambda draw: _rare_tokens(draw, b=3, n=2, vocabulary=7, d_model=2),
        ),
        Case(name="vectors of one number", inputs=partial(_tokens, b=2, n=5, vocabulary=11, d_model=1)),
        Case(name="a vocabulary of one token", inputs=partial(_tokens, b=2, n=5, vocabulary=1, d_model=3)),
    ),
    example=lambda: (torch.tensor([[2, 0, 2]]), torch.tensor([[0.0, 1.0], [5.0, 5.0], [20.0, 21.0]])),
    made_of=(LookUp, Rows),
)


def _three_matrices(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    scale = d_model**-0.5
    x = draw.normal(b, n, d_model)
    shapes = ((d_model, d_k), (d_model, d_k), (d_model, d_v))
    return (x, *(draw.normal(*shape, scale=scale) for shape in shapes))


PROJECT_QKV = CourseExercise(
    name="project_qkv",
    lesson=LESSON,
    contract="(b, n, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.project_qkv,
    outputs=QKV,
    forbidden=("attnlib.project_qkv", "attnlib.project_qkv_fused"),
    cases=(
        *usual_cases(
            _three_matrices,
            {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
            one={"b": 1, "n": 3, "d_model": 5, "d_k": 2, "d_v": 7},
            more=[
                {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
                {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
                {"b": 2, "n": 7, "d_model": 5, "d_k": 5, "d_v": 5},
            ],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="all axes of one length", inputs=partial(_three_matrices, b=3, n=3, d_model=3, d_k=3, d_v=3)),
        Case(name="every width is 1", inputs=partial(_three_matrices, b=2, n=5, d_model=1, d_k=1, d_v=1)),
    ),
    example=lambda: (
        torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
        torch.tensor([[9.0], [10.0]]),
    ),
    made_of=(MultiplyByHand, SideBySide, ThreeMatrices, OfItself, ProjectThree, GiveThree, InOrder),
    pairs=PAIRS,
    without=NO_PAIRS,
)


def _one_matrix(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, int, int]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 2 * d_k + d_v, scale=d_model**-0.5), d_k, d_v


PROJECT_QKV_FUSED = CourseExercise(
    name="project_qkv_fused",
    lesson=LESSON,
    contract="(b, n, d_model), (d_model, 2·d_k + d_v), d_k, d_v -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.project_qkv_fused,
    outputs=QKV,
    forbidden=("attnlib.project_qkv", "attnlib.project_qkv_fused"),
    cases=(
        *usual_cases(
            _one_matrix,
            {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
            one={"b": 1, "n": 3, "d_model": 7, "d_k": 2, "d_v": 5},  # three thirds of 9 are whole, and wrong
            more=[
                {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
                {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
                {"b": 2, "n": 3, "d_model": 7, "d_k": 2, "d_v": 3},
            ],
        ),
        # where nothing raises an error, the numbers tell which axis was cut
        Case(name="as many of everything as columns", inputs=partial(_one_matrix, b=9, n=9, d_model=9, d_k=3, d_v=3)),
        Case(name="every width is 1", inputs=partial(_one_matrix, b=2, n=5, d_model=1, d_k=1, d_v=1)),
    ),
    example=lambda: (
        torch.eye(2).unsqueeze(0),
        torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]]),
        2,
        1,
    ),
    made_of=(MultiplyByHand, CutWidths, OfItself, ProjectThree, GiveThree, FusedInOrder),
    pairs=PAIRS,
    without=(*LAYERS, *NO_PAIRS),
)


def _packed(draw: Draw, *, b: int, n: int, d_model: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 3 * d, scale=d_model**-0.5)


MEND_UNPACK_QKV = CourseExercise(
    name="mend_unpack_qkv",
    lesson=LESSON,
    contract="(b, n, d_model), (d_model, 3·d) -> q, k, v; columns: all of q, then all of k, then all of v",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=lambda x, w_qkv: (x @ w_qkv).chunk(3, dim=-1),
    outputs=QKV,
    cases=(
        *usual_cases(
            _packed,
            {"b": 2, "n": 5, "d_model": 7, "d": 11},
            one={"b": 1, "n": 3, "d_model": 5, "d": 2},
            more=[{"b": 3, "n": 11, "d_model": 13, "d": 5}, {"b": 5, "n": 2, "d_model": 3, "d": 7}],
        ),
        Case(name="as many columns as features, and d = 3", inputs=partial(_packed, b=2, n=5, d_model=9, d=3)),
        Case(name="every width is 1", inputs=partial(_packed, b=2, n=5, d_model=1, d=1)),
    ),
    example=lambda: (torch.ones(1, 1, 1), torch.arange(6.0).unsqueeze(0)),
    made_of=(MultiplyByHand, Thirds, CutThirds, OfItself, ProjectThree, GiveThree, ThirdsInOrder),
    pairs=("take_turns", *PAIRS),
    without=(
        *LAYERS,
        *NO_PAIRS,
        "values_overlap",
        "values_from_the_front",
        "equal_thirds",
        "values_d_k_wide",
        "stacked",
    ),
    same={"take_turns": "as_given"},
    own=(as_given(lambda x, w_qkv: (x @ w_qkv).unflatten(-1, (-1, 3)).unbind(dim=-1)),),
)


def _module_inputs(draw: Draw, *, b: int, n: int, sizes: tuple[int, ...]) -> tuple[Inputs, Inputs]:
    return sizes, (draw.normal(b, n, sizes[0]),)


QKV_PROJECTION = CourseExercise(
    name="QKVProjection",
    lesson=LESSON,
    contract="QKVProjection(d_model, d_k, d_v, bias=True), forward: (b, n, d_model) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=QKVProjection,
    outputs=QKV,
    forbidden=("attnlib.QKVProjection.forward",),
    cases=(
        *usual_cases(
            _module_inputs,
            {"b": 2, "n": 5, "sizes": (7, 3, 11)},
            one={"b": 1, "n": 3, "sizes": (5, 2, 7, False)},
            more=[
                {"b": 3, "n": 11, "sizes": (13, 5, 2, True)},
                {"b": 5, "n": 2, "sizes": (3, 3, 3)},
                {"b": 2, "n": 7, "sizes": (5, 7, 3, False)},
            ],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="all axes of one length", inputs=partial(_module_inputs, b=3, n=3, sizes=(3, 3, 3))),
        Case(name="bias=True is said", inputs=partial(_module_inputs, b=2, n=5, sizes=(7, 3, 11, True))),
        Case(name="every width is 1", inputs=partial(_module_inputs, b=2, n=5, sizes=(1, 1, 1))),
    ),
    made_of=(LayersWithBias, OfItself, ProjectThreeWithLayers, GiveThree, InOrder),
    pairs=PAIRS,
    without=NO_PAIRS,
)


def _fold_query_key(w_q: Tensor, b_q: Tensor, w_k: Tensor, b_k: Tensor) -> tuple[Tensor, Tensor]:
    return w_q @ w_k.mT, w_k @ b_q


def _query_key(draw: Draw, *, d_model: int, d_k: int) -> tuple[Tensor, ...]:
    return draw.normal(d_model, d_k), draw.normal(d_k), draw.normal(d_model, d_k), draw.normal(d_k)


FOLD_QUERY_KEY = CourseExercise(
    name="fold_query_key",
    lesson=LESSON,
    contract="w_q (d_model, d_k), b_q (d_k), w_k (d_model, d_k), b_k (d_k) -> m (d_model, d_model), u (d_model)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    stretch=True,
    reference=_fold_query_key,
    outputs=("m", "u"),
    cases=(
        *usual_cases(
            _query_key,
            {"d_model": 7, "d_k": 3},
            one={"d_model": 5, "d_k": 2},
            more=[{"d_model": 3, "d_k": 11}, {"d_model": 13, "d_k": 5}, {"d_model": 2, "d_k": 7}],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="a square", inputs=partial(_query_key, d_model=5, d_k=5)),
        Case(name="queries and keys of one number", inputs=partial(_query_key, d_model=5, d_k=1)),
        Case(name="words of one number", inputs=partial(_query_key, d_model=1, d_k=3)),
        Case(name="every width is 1", inputs=partial(_query_key, d_model=1, d_k=1)),
    ),
    made_of=(OneMatrix, OneVector, GiveMatrixAndVector),
)


def _recurrent_states(x: Tensor, w: Tensor) -> Tensor:
    return torch.stack(read(x, w, fold_in), dim=1)


def _words_to_read(draw: Draw, *, b: int, n: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, n, d, scale=0.7), draw.normal(d, d, scale=d**-0.5)


RECURRENT_STATES = CourseExercise(
    name="recurrent_states",
    lesson=LESSON,
    contract="words (b, n, d), one matrix (d, d) -> the state after each word (b, n, d)",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    stretch=True,
    reference=_recurrent_states,
    cases=(
        *usual_cases(
            _words_to_read,
            {"b": 2, "n": 5, "d": 7},
            one={"b": 1, "n": 3, "d": 5},
            more=[{"b": 3, "n": 11, "d": 2}, {"b": 5, "n": 2, "d": 13}],
        ),
        Case(name="all axes of one length", inputs=partial(_words_to_read, b=3, n=3, d=3)),
        Case(name="vectors of one number", inputs=partial(_words_to_read, b=2, n=5, d=1)),
    ),
    made_of=(ReadWords, CollectStates),
    pairs=("no_tanh", "matrix_transposed", "last_state_alone", "batch_second"),
)


def _company(texts: Tensor, vocabulary: int, window: int) -> Tensor:
    counts = CountNeighbours().right(texts, vocabulary, window)
    return MeetMore().right(counts, ByChance().right(counts))


def _texts(draw: Draw, *, b: int, n: int, vocabulary: int, window: int, absent: int = 0) -> tuple[Any, ...]:
    """The last `absent` words of the vocabulary are in no text."""
    return draw.integers(0, vocabulary - absent, (b, n)), vocabulary, window


COMPANY = CourseExercise(
    name="company",
    lesson=LESSON,
    contract="texts (b, n) of ids, vocabulary, window -> (vocabulary, vocabulary), ln(met / by chance) where positive",
    parts={"values": 3, "robustness": 1},
    stretch=True,
    reference=_company,
    excused={
        "the device that was given": "The pairs may be counted in Python.",
    },
    cases=(
        Case(name="texts of seven words", inputs=partial(_texts, b=5, n=7, vocabulary=6, window=2)),
        Case(name="a window of one", inputs=partial(_texts, b=3, n=5, vocabulary=4, window=1)),
        Case(name="a single text", inputs=partial(_texts, b=1, n=13, vocabulary=5, window=3)),
        Case(name="a window wider than the texts", inputs=partial(_texts, b=5, n=3, vocabulary=7, window=11)),
        Case(name="a window that just fits", inputs=partial(_texts, b=5, n=4, vocabulary=5, window=3)),
        Case(
            name="words that are in no text",
            inputs=partial(_texts, b=3, n=7, vocabulary=11, window=2, absent=3),
            part="robustness",
        ),
        Case(name="texts of one word", inputs=partial(_texts, b=3, n=1, vocabulary=5, window=2), part="robustness"),
        Case(
            name="a vocabulary of one word", inputs=partial(_texts, b=2, n=5, vocabulary=1, window=2), part="robustness"
        ),
        Case(
            name="the texts after the call",
            inputs=partial(_texts, b=5, n=7, vocabulary=6, window=2),
            part="robustness",
            mutation=True,
        ),
        Case(name="other texts", inputs=partial(_texts, b=11, n=5, vocabulary=7, window=2), hidden=True),
        Case(name="longer texts", inputs=partial(_texts, b=2, n=17, vocabulary=13, window=5), hidden=True),
    ),
    made_of=(CountNeighbours, ByChance, MeetMore),
    pairs=("own_place_counted", "following_words_alone", "negative_kept", "no_logarithm"),
)

EXERCISES = (
    RECURRENT_STATES,
    EMBED,
    COMPANY,
    PREDICT_QUERY_OF_IT,
    PROJECT_QKV,
    PROJECT_QKV_FUSED,
    MEND_UNPACK_QKV,
    QKV_PROJECTION,
    FOLD_QUERY_KEY,
)
