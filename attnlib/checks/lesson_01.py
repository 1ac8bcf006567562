"""Exercises of lesson 01: queries, keys and values."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong

LESSON = "01_qkv_projections"
QKV = ("q", "k", "v")


def _tokens(draw: Draw, *, b: int, n: int, vocabulary: int, d_model: int) -> tuple[Tensor, Tensor]:
    return draw.integers(0, vocabulary, (b, n)), draw.normal(vocabulary, d_model)


def _embed(token_ids: Tensor, table: Tensor) -> Tensor:
    return table[token_ids]


EMBED = Exercise(
    name="embed",
    lesson=LESSON,
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
    example=lambda: (torch.tensor([[2, 0, 2]]), torch.tensor([[0.0, 1.0], [5.0, 5.0], [20.0, 21.0]])),
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
        *usual_misconceptions(_embed),
    ),
)

PREDICT_QUERY_OF_IT = Exercise(
    name="predict_query_of_it",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": is the query of “it” the same in both sentences?',
    parts={"prediction": 1},
    kind="choice",
    reference="A",
    explanation="The same token has the same row of the table, and the same row times the same matrix is the same "
    "query. A projection never looks at another word. Only attention, in lesson 02, lets one word learn of another.",
    misconceptions=(
        wrong(
            "query_sees_context",
            "A projection sees one word only",
            "That is what we would like, and what attention is for. But the query is computed from the vector of "
            "“it” alone, and this vector is the same row of the table in both sentences. Nothing has told it what "
            "follows.",
            "B",
        ),
        wrong(
            "product_mixes_words",
            "A product X W mixes features, not words",
            "Row n of X W is row n of X times W: it mixes the six numbers of one word. Words would be mixed by a "
            "matrix on the other side of X, and exactly that is what attention puts there in lesson 02.",
            "C",
        ),
        wrong(
            "training_would_differ",
            "Training changes the matrix, not what it is given",
            "Whatever the numbers in the matrix are, it gets the same six numbers in both sentences, and returns "
            "the same four. No training can make one matrix give two answers to one question.",
            "D",
        ),
    ),
)


def _three_matrices(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    scale = d_model**-0.5
    x = draw.normal(b, n, d_model)
    shapes = ((d_model, d_k), (d_model, d_k), (d_model, d_v))
    return (x, *(draw.normal(*shape, scale=scale) for shape in shapes))


def _small_projection() -> tuple[Tensor, ...]:
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    return (
        x,
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
        torch.tensor([[9.0], [10.0]]),
    )


def _project(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
    return x @ w_q, x @ w_k, x @ w_v


PROJECT_QKV = Exercise(
    name="project_qkv",
    lesson=LESSON,
    contract="(b, n, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.project_qkv,
    outputs=QKV,
    forbidden=("attnlib.project_qkv", "attnlib.project_qkv_fused"),
    cases=usual_cases(
        _three_matrices,
        {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
        one={"b": 1, "n": 3, "d_model": 5, "d_k": 2, "d_v": 7},
        more=[
            {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
            {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
            {"b": 2, "n": 7, "d_model": 5, "d_k": 5, "d_v": 5},
        ],
    ),
    example=_small_projection,
    misconceptions=(
        wrong(
            "all_from_w_q",
            "Queries and keys come from the same matrix",
            "k is computed with w_q. Then every word looks for exactly what it offers, and fits itself best. The "
            "query and the key of a word answer two questions, and need two matrices.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_v),
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "q is computed with w_k, and k with w_q. The shapes cannot tell, the meaning can: in lesson 02 row i of "
            "the scores belongs to query i.",
            lambda x, w_q, w_k, w_v: (x @ w_k, x @ w_q, x @ w_v),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The three come back as v, k, q. Some codebases pass them in that order; here it is q, k, v.",
            lambda x, w_q, w_k, w_v: (x @ w_v, x @ w_k, x @ w_q),
        ),
        wrong(
            "keys_values_exchanged",
            "Keys and values are exchanged",
            "k is computed with w_v, and v with w_k. The key is what a word is found by, the value what it brings "
            "along.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_v, x @ w_k),
        ),
        wrong(
            "value_is_x",
            "The value is x itself",
            "w_v is not used. What a word brings along is not the word's whole vector but the part that w_v picks out.",
            lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, x),
        ),
        wrong(
            "scaled_query",
            "The query is scaled",
            "q is divided by the root of d_k. Many libraries hide the scale there; here it has its place in lesson 02.",
            lambda x, w_q, w_k, w_v: (x @ w_q / w_q.shape[1] ** 0.5, x @ w_k, x @ w_v),
        ),
        wrong(
            "nonlinear",
            "A nonlinearity after the projection",
            "The negative numbers have become zero. A projection is one matrix product and nothing else.",
            lambda x, w_q, w_k, w_v: (F.relu(x @ w_q), F.relu(x @ w_k), F.relu(x @ w_v)),
        ),
        wrong(
            "normalised_inputs",
            "The tokens are normalised first",
            "x is brought to mean 0 and variance 1 before the projection. That is LayerNorm, and it comes in lesson "
            "06.",
            lambda x, w_q, w_k, w_v: tuple(F.layer_norm(x, x.shape[-1:]) @ w for w in (w_q, w_k, w_v)),
        ),
        wrong(
            "transposed_weights",
            "The matrices are transposed",
            "`x @ w.T` is what nn.Linear does with *its* weight, which is stored as (out, in). These are (in, out): x "
            "@ w.",
            lambda x, w_q, w_k, w_v: (x @ w_q.T, x @ w_k.T, x @ w_v.T),
        ),
        *usual_misconceptions(_project),
    ),
)


def _one_matrix(draw: Draw, *, b: int, n: int, d_model: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, int, int]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 2 * d_k + d_v, scale=d_model**-0.5), d_k, d_v


def _cut(x: Tensor, w_qkv: Tensor, *sizes: int) -> tuple[Tensor, ...]:
    return (x @ w_qkv).split(sizes, dim=-1)


def _cut_qkv(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> tuple[Tensor, ...]:
    return _cut(x, w_qkv, d_k, d_k, d_v)


def _interleaved(x: Tensor, w_qkv: Tensor, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    packed = x @ w_qkv
    return packed[..., 0 : 2 * d_k : 2], packed[..., 1 : 2 * d_k : 2], packed[..., 2 * d_k :]


PROJECT_QKV_FUSED = Exercise(
    name="project_qkv_fused",
    lesson=LESSON,
    contract="(b, n, d_model), (d_model, 2·d_k + d_v), d_k, d_v -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.project_qkv_fused,
    outputs=QKV,
    forbidden=("attnlib.project_qkv", "attnlib.project_qkv_fused"),
    cases=usual_cases(
        _one_matrix,
        {"b": 2, "n": 5, "d_model": 7, "d_k": 3, "d_v": 11},
        one={"b": 1, "n": 3, "d_model": 5, "d_k": 2, "d_v": 7},
        more=[
            {"b": 3, "n": 11, "d_model": 13, "d_k": 5, "d_v": 2},
            {"b": 5, "n": 2, "d_model": 3, "d_k": 3, "d_v": 3},
            {"b": 2, "n": 3, "d_model": 7, "d_k": 2, "d_v": 3},
        ],
    ),
    example=lambda: (
        torch.eye(2).unsqueeze(0),
        torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]]),
        2,
        1,
    ),
    misconceptions=(
        wrong(
            "columns_k_q_v",
            "Keys taken from the first columns",
            "The columns stand in the order q, k, v, but your first d_k columns came back as k.",
            lambda x, w, d_k, d_v: tuple(_cut(x, w, d_k, d_k, d_v)[i] for i in (1, 0, 2)),
        ),
        wrong(
            "columns_v_first",
            "Values taken from the first columns",
            "The columns stand in the order q, k, v, but your first d_v columns came back as v.",
            lambda x, w, d_k, d_v: tuple(_cut(x, w, d_v, d_k, d_k)[i] for i in (1, 2, 0)),
        ),
        wrong(
            "equal_thirds",
            "Cut into three equal parts",
            "`chunk(3)` makes three parts of one size. The values may be wider or narrower than the keys: the widths "
            "are d_k, d_k and d_v.",
            lambda x, w, d_k, d_v: (x @ w).chunk(3, dim=-1),
        ),
        wrong(
            "widths_exchanged",
            "d_k and d_v are exchanged",
            "The cut was made at d_v, d_v and d_k. Queries and keys share the width d_k, because they meet in a dot "
            "product.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_v], (x @ w)[..., d_v : 2 * d_v], (x @ w)[..., 2 * d_v :]),
        ),
        wrong(
            "interleaved",
            "The columns are read interleaved",
            "Every second column went to k. Some codebases pack q, k, v column by column like that; here they stand "
            "in blocks: first all of q, then all of k, then all of v.",
            _interleaved,
        ),
        wrong(
            "same_block_twice",
            "Keys cut from the queries' columns",
            "q and k are the same columns. After the first d_k columns, the next d_k belong to the keys.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., :d_k], (x @ w)[..., 2 * d_k :]),
        ),
        wrong(
            "values_overlap",
            "The values start d_k columns too early",
            "v was cut from column d_k on, where the keys stand. It begins after both blocks, at column 2·d_k.",
            lambda x, w, d_k, d_v: ((x @ w)[..., :d_k], (x @ w)[..., d_k : 2 * d_k], (x @ w)[..., d_k : d_k + d_v]),
        ),
        wrong(
            "scaled_query",
            "The query is scaled",
            "q is divided by the root of d_k. Many libraries hide the scale there; here it has its place in lesson 02.",
            lambda x, w, d_k, d_v: (_cut(x, w, d_k, d_k, d_v)[0] / d_k**0.5, *_cut(x, w, d_k, d_k, d_v)[1:]),
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "q, k and v came back as (b, d, n). Cut along the last axis and leave the tokens where they are: (b, n, "
            "d).",
            lambda x, w, d_k, d_v: tuple(part.mT for part in _cut(x, w, d_k, d_k, d_v)),
        ),
        *usual_misconceptions(_cut_qkv),
    ),
)


class QKVProjection(attnlib.QKVProjection):
    """The contract's signature: `bias` by position."""

    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, bias=bias)


def _module_inputs(draw: Draw, *, b: int, n: int, sizes: tuple) -> tuple[tuple, tuple[Tensor]]:
    return sizes, (draw.normal(b, n, sizes[0]),)


class _Right(QKVProjection):
    """The same without attnlib's forward, for the mistakes below to change."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(x), self.w_v(x)


class _BiasForgotten(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x @ self.w_q.weight.T, x @ self.w_k.weight.T, x @ self.w_v.weight.T


class _OneForBoth(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_q(x), self.w_v(x)


class _QKExchanged(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_k(x), self.w_q(x), self.w_v(x)


class _OrderReturned(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_v(x), self.w_k(x), self.w_q(x)


class _Nonlinear(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return F.relu(self.w_q(x)), F.relu(self.w_k(x)), F.relu(self.w_v(x))


class _ScaledQuery(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x) / self.w_q.out_features**0.5, self.w_k(x), self.w_v(x)


class _ValueIsX(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(x), x


class _AlwaysBias(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v)


class _NeverBias(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, False)


class _ValueWidth(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, bias)
        self.w_v = nn.Linear(d_model, d_k, bias=bias)


QKV_PROJECTION = Exercise(
    name="QKVProjection",
    lesson=LESSON,
    contract="QKVProjection(d_model, d_k, d_v, bias=True), forward: (b, n, d_model) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=QKVProjection,
    outputs=QKV,
    forbidden=("attnlib.QKVProjection.forward",),
    cases=usual_cases(
        _module_inputs,
        {"b": 2, "n": 5, "sizes": (7, 3, 11)},
        one={"b": 1, "n": 3, "sizes": (5, 2, 7, False)},
        more=[
            {"b": 3, "n": 11, "sizes": (13, 5, 2, True)},
            {"b": 5, "n": 2, "sizes": (3, 3, 3)},
            {"b": 2, "n": 7, "sizes": (5, 7, 3, False)},
        ],
    ),
    misconceptions=(
        wrong(
            "bias_forgotten",
            "The bias is not added",
            "The layers have a bias, but only their weight is used. Call the layer, `self.w_q(x)`, and it adds it for "
            "you.",
            _BiasForgotten,
        ),
        wrong(
            "all_from_w_q",
            "Queries and keys come from the same layer",
            "k is computed with w_q; w_k exists and is never used, so it would never learn.",
            _OneForBoth,
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "q is computed with w_k, and k with w_q. The shapes cannot tell, the meaning can.",
            _QKExchanged,
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The three come back as v, k, q. Some codebases pass them in that order; here it is q, k, v.",
            _OrderReturned,
        ),
        wrong(
            "nonlinear",
            "A nonlinearity after the projection",
            "The negative numbers have become zero. A projection is a matrix product and a bias, nothing else.",
            _Nonlinear,
        ),
        wrong(
            "scaled_query",
            "The query is scaled",
            "q is divided by the root of d_k. Many libraries hide the scale there; here it has its place in lesson 02.",
            _ScaledQuery,
        ),
        wrong(
            "value_is_x",
            "The value is x itself",
            "w_v is not used. What a word brings along is the part of its vector that w_v picks out.",
            _ValueIsX,
        ),
        wrong(
            "always_bias",
            "`bias=False` is not passed on",
            "The layers have a bias although bias=False was asked for. Pass the argument on: nn.Linear(…, bias=bias).",
            _AlwaysBias,
        ),
        wrong(
            "never_bias",
            "The layers never have a bias",
            "bias=True is the default here, but your layers were made with bias=False.",
            _NeverBias,
        ),
        wrong(
            "value_width",
            "w_v has the width of the keys",
            "w_v maps to d_k. Values may have a width of their own, d_v: they never meet the keys in a dot product.",
            _ValueWidth,
        ),
        *usual_misconceptions(_Right),
    ),
)


def _packed(draw: Draw, *, b: int, n: int, d_model: int, d: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, n, d_model), draw.normal(d_model, 3 * d, scale=d_model**-0.5)


def _unpack_qkv(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return (x @ w_qkv).chunk(3, dim=-1)


def _take_turns(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, ...]:
    return (x @ w_qkv).unflatten(-1, (-1, 3)).unbind(dim=-1)


MEND_UNPACK_QKV = Exercise(
    name="mend_unpack_qkv",
    lesson=LESSON,
    contract="(b, n, d_model), (d_model, 3·d) -> q, k, v; columns: all of q, then all of k, then all of v",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=_unpack_qkv,
    outputs=QKV,
    cases=usual_cases(
        _packed,
        {"b": 2, "n": 5, "d_model": 7, "d": 3},
        one={"b": 1, "n": 3, "d_model": 5, "d": 2},
        more=[{"b": 3, "n": 11, "d_model": 13, "d": 5}, {"b": 5, "n": 2, "d_model": 3, "d": 7}],
    ),
    example=lambda: (torch.ones(1, 1, 1), torch.arange(6.0).unsqueeze(0)),
    misconceptions=(
        wrong(
            "take_turns",
            "q, k and v take turns",
            "With `(d three)` the name on the right runs fastest, so columns 0, 3, 6 … become q. The weights here "
            "have all of q first: the place inside one vector has to run fastest, and the choice among q, k and v "
            "slowest.",
            _take_turns,
        ),
        wrong(
            "reshaped_across",
            "The positions are mixed",
            "The reshape put the axis of q, k and v in front, although its numbers stand on the last axis in "
            "memory. A reshape never moves an axis. Split the last axis where it is, and then move the new one.",
            lambda x, w: (x @ w).reshape(3, x.shape[0], x.shape[1], -1).unbind(0),
        ),
        wrong(
            "reshaped_positions",
            "The positions are mixed",
            "The reshape put the axis of q, k and v before the positions, although its numbers stand on the last "
            "axis in memory. Split the last axis where it is, and then move the new one.",
            lambda x, w: (x @ w).reshape(x.shape[0], 3, x.shape[1], -1).unbind(1),
        ),
        wrong(
            "order_k_q_v",
            "Queries and keys are exchanged",
            "The first third of the columns came back as k. The order is q, k, v.",
            lambda x, w: tuple(_unpack_qkv(x, w)[i] for i in (1, 0, 2)),
        ),
        wrong(
            "order_v_k_q",
            "Returned in reverse order",
            "The first third of the columns came back as v. The order is q, k, v.",
            lambda x, w: _unpack_qkv(x, w)[::-1],
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "q, k and v came back as (b, d, n). Leave the tokens where they are: (b, n, d).",
            lambda x, w: tuple(part.mT for part in _unpack_qkv(x, w)),
        ),
        *usual_misconceptions(_unpack_qkv),
    ),
)

EXERCISES = (EMBED, PREDICT_QUERY_OF_IT, PROJECT_QKV, PROJECT_QKV_FUSED, MEND_UNPACK_QKV, QKV_PROJECTION)
