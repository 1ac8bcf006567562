"""causal_mask(q_len, k_len): who may look at whom when nobody may look ahead."""

from collections.abc import Callable

import torch
from torch import Tensor

import attnlib
from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Case, Exercise

LESSON = "05_causal_attention"


def _causal_mask(q_len: int, k_len: int) -> Tensor:
    """The contract's form, without the device."""
    return attnlib.causal_mask(q_len, k_len)


def _distance(q_len: int, k_len: int) -> Tensor:
    """How many positions key j lies behind query i, the last query at the last key."""
    return torch.arange(q_len)[:, None] + (k_len - q_len) - torch.arange(k_len)


def _by_distance(rule: Callable[[Tensor], Tensor]) -> Callable[[int, int], Tensor]:
    return lambda q_len, k_len: rule(_distance(q_len, k_len))


def _top_left(q_len: int, k_len: int) -> Tensor:
    return torch.ones(q_len, k_len, dtype=torch.bool).tril()


def _right(q_len: int, k_len: int) -> Tensor:
    return _distance(q_len, k_len) >= 0


def _sliced(q_len: int, k_len: int) -> Tensor:
    mask = torch.zeros(q_len, k_len, dtype=torch.bool)
    for i in range(q_len):
        mask[i, : k_len - q_len + i + 1] = True
    return mask


def _case(q_len: int, k_len: int, name: str, *, part: str = "values", hidden: bool = False) -> Case:
    return Case(name=name, inputs=lambda draw: (q_len, k_len), part=part, hidden=hidden)


CAUSAL_MASK = Exercise(
    name="causal_mask",
    lesson=LESSON,
    contract="two lengths -> bool (q, k), True = may attend, the last query sees every key",
    parts={"values": 2, "more keys than queries, or fewer": 1},
    reference=_causal_mask,
    forbidden=("attnlib.causal_mask", "attnlib.sliding_window_mask", "attnlib.attention_sink_mask"),
    cases=(
        _case(5, 5, "as many queries as keys"),
        _case(2, 2, "two words"),
        _case(1, 1, "one word"),
        _case(3, 7, "more keys than queries", part="more keys than queries, or fewer"),
        _case(1, 5, "one new query", part="more keys than queries, or fewer"),
        _case(5, 2, "more queries than keys", part="more keys than queries, or fewer"),
        _case(11, 11, "a longer text", hidden=True),
        _case(2, 13, "two new queries", part="more keys than queries, or fewer", hidden=True),
        _case(7, 5, "two queries before the first key", part="more keys than queries, or fewer", hidden=True),
    ),
    example=lambda: (2, 4),
    misconceptions=(
        wrong(
            "upside_down",
            "True stands where it should be False",
            "Your mask has True where a key is *blocked*. That is another library's convention; here True = may "
            "attend. Put a `~` in front, or turn the comparison round.",
            _by_distance(lambda d: d < 0),
        ),
        wrong(
            "future_only",
            "The triangle is the upper one",
            "Each query sees itself and what comes after it, and nothing of what came before. The future has to be "
            "hidden, so the True lie on and *below* the diagonal: `tril`, or key position <= query position.",
            _by_distance(lambda d: d <= 0),
        ),
        wrong(
            "strict",
            "A word may not see itself",
            "The diagonal is missing: < where <= was needed. A query may look at its own position, which holds no "
            "secret: what is to be guessed is the *next* token. And the first query would see nothing at all.",
            _by_distance(lambda d: d > 0),
        ),
        wrong(
            "one_ahead",
            "Every word sees one word too many",
            "The triangle reaches one column too far: query i sees key i + 1. That is the very token that position i "
            "has to guess. This is the costliest of all off-by-one mistakes, because training looks wonderful.",
            _by_distance(lambda d: d >= -1),
        ),
        wrong(
            "top_left",
            "The first query is aligned with the first key",
            "With as many queries as keys this is right. With more keys the *last* query stands at the last key: the "
            "keys before the first query are older words, and all of them may be seen. Shift the diagonal by "
            "k_len - q_len.",
            _top_left,
        ),
        wrong(
            "shifted_the_other_way",
            "The diagonal is shifted the wrong way",
            "The shift has the right size and the wrong sign. `tril(diagonal=s)` with s > 0 opens *more* keys. With "
            "k_len - q_len older keys, every query sees that many more.",
            lambda q_len, k_len: torch.ones(q_len, k_len, dtype=torch.bool).tril(q_len - k_len),
        ),
        wrong(
            "upper_from_top_left",
            "The triangle is the upper one, from the first key on",
            "`triu` keeps what stands on and above the diagonal: the future. The past lies below: `tril`. And with "
            "more keys than queries the diagonal is shifted by k_len - q_len.",
            lambda q_len, k_len: torch.ones(q_len, k_len, dtype=torch.bool).triu(),
        ),
        wrong(
            "blocked_from_top_left",
            "True marks what is blocked, from the first key on",
            "`triu` with diagonal 1 is the future, and True means: may attend. Put a `~` in front. And with more keys "
            "than queries the diagonal is shifted by k_len - q_len.",
            lambda q_len, k_len: torch.ones(q_len, k_len, dtype=torch.bool).triu(1),
        ),
        wrong(
            "never_shifted_back",
            "The diagonal is not shifted where there are fewer keys",
            "With more queries than keys, k_len - q_len is negative, and that is right: the last query stands at the "
            "last key, and the first queries see nothing. Do not cut the shift off at 0.",
            lambda q_len, k_len: torch.ones(q_len, k_len, dtype=torch.bool).tril(max(0, k_len - q_len)),
        ),
        wrong(
            "shifted_without_sign",
            "The shift has lost its sign",
            "With more queries than keys, k_len - q_len is negative, and that is right: the first queries see nothing. "
            "abs() opens keys instead.",
            lambda q_len, k_len: torch.ones(q_len, k_len, dtype=torch.bool).tril(abs(k_len - q_len)),
        ),
        wrong(
            "slice_from_behind",
            "A slice with a negative end counts from behind",
            "With more queries than keys, k_len - q_len + i + 1 is below 0 for the first queries, and `[:-2]` is all "
            "but the last two. Those queries see nothing: cut off at 0, max(0, ...), or compare positions.",
            _sliced,
        ),
        *(
            wrong(
                f"{name}_from_top_left",
                f"{title}, and the first query is aligned with the first key",
                "Two things at once: a query sees itself and what came before it; and the *last* query stands at the "
                "last key, so that with more keys than queries the diagonal is shifted by k_len - q_len.",
                lambda q_len, k_len, further=further: torch.ones(q_len, k_len, dtype=torch.bool).tril(further),
            )
            for name, title, further in (
                ("strict", "A word may not see itself", -1),
                ("one_ahead", "Every word sees one word too many", 1),
            )
        ),
        *(
            wrong(
                f"{name}_numbers",
                f"{title}, in numbers instead of bool",
                "Two things at once: True = may attend, for a query itself and what came before it; and a mask is "
                "bool. Compare something, or say dtype=torch.bool.",
                _by_distance(lambda d, rule=rule: rule(d).float()),  # type: ignore[misc]
            )
            for name, title, rule in (
                ("upside_down", "What is blocked is marked", lambda d: d < 0),
                ("strict", "A word may not see itself", lambda d: d > 0),
                ("one_ahead", "Every word sees one word too many", lambda d: d >= -1),
                ("future_only", "The triangle is the upper one", lambda d: d <= 0),
            )
        ),
        wrong(
            "top_left_numbers",
            "The first query is aligned with the first key, in numbers instead of bool",
            "Two things at once: with more keys than queries the diagonal is shifted by k_len - q_len; and a mask is "
            "bool: torch.ones(q_len, k_len, dtype=torch.bool).",
            lambda q_len, k_len: torch.ones(q_len, k_len).tril(),
        ),
        wrong(
            "listed",
            "A list of lists, not a tensor",
            "The entries are right. torch.tensor(the_list) makes a mask of them.",
            lambda q_len, k_len: _right(q_len, k_len).tolist(),
        ),
        wrong(
            "array",
            "A NumPy array, not a tensor",
            "torch.from_numpy(the_array) makes a tensor of it; torch has arange, ones and tril of its own.",
            lambda q_len, k_len: _right(q_len, k_len).numpy(),
        ),
        wrong(
            "integers_of_32_bits",
            "Integers instead of bool",
            "Your mask is made of the integers 1 and 0. `~1` is -2, so the first `~mask` further down goes wrong "
            "without an error. Make it bool: dtype=torch.bool, or compare something.",
            lambda q_len, k_len: _right(q_len, k_len).int(),
        ),
        wrong(
            "integers_of_8_bits",
            "Integers instead of bool",
            "Your mask is made of the integers 1 and 0. `~1` is 254 in uint8, so the first `~mask` further down goes "
            "wrong without an error. Make it bool: dtype=torch.bool, or compare something.",
            lambda q_len, k_len: _right(q_len, k_len).byte(),
        ),
        wrong(
            "keys_reversed",
            "The triangle leans the other way",
            "The columns are in reverse order: the first query sees the last key, and nothing else. Key 0 "
            "is the oldest, and stands on the left.",
            lambda q_len, k_len: _right(q_len, k_len).flip(1),
        ),
        wrong(
            "reversed",
            "The triangle leans the other way",
            "The first query sees every key, and the last sees one: the rows (or columns) are in reverse order. Query "
            "0 has the shortest past.",
            _by_distance(lambda d: (d >= 0).flip(0)),
        ),
        wrong(
            "nothing_blocked",
            "Nothing is blocked",
            "Every entry is True: each query sees the whole text, its future included.",
            _by_distance(lambda d: d == d),
        ),
        wrong(
            "itself_only",
            "Only the own position is open",
            "Each query sees its own key and no other. With == in place of >= the past is lost, too.",
            _by_distance(lambda d: d == 0),
        ),
        wrong(
            "numbers",
            "Numbers instead of bool",
            "Your mask is made of the numbers 1 and 0. `~mask` and indexing do other things with numbers than "
            "with bool, and PyTorch's attention *adds* a mask of floats to the scores. Make it bool: dtype=torch.bool.",
            lambda q_len, k_len: _right(q_len, k_len).float(),
        ),
        wrong(
            "integers",
            "Integers instead of bool",
            "Your mask is made of the integers 1 and 0. `~1` is -2, so the first `~mask` further "
            "down goes wrong without an error. Make it bool: dtype=torch.bool, or compare something.",
            lambda q_len, k_len: _right(q_len, k_len).long(),
        ),
        wrong(
            "additive",
            "A mask to be added, instead of bool",
            "You return 0 and -inf, to be added to the scores: another convention. Here a mask is bool, True = may "
            "attend. Only where it is used does it become -inf.",
            lambda q_len, k_len: torch.zeros(q_len, k_len).masked_fill(~_right(q_len, k_len), -torch.inf),
        ),
        wrong(
            "square_of_keys",
            "A row for each key",
            "The mask is (k, k). It has a row for each *query* and a column for each key: (q_len, k_len).",
            lambda q_len, k_len: _right(k_len, k_len),
        ),
        wrong(
            "square_of_queries",
            "A column for each query",
            "The mask is (q, q). It has a row for each query and a column for each *key*: (q_len, k_len).",
            lambda q_len, k_len: _right(q_len, q_len),
        ),
        wrong(
            "exchanged",
            "Rows and columns are exchanged",
            "The mask is (k, q). Rows belong to queries, as in the scores: (q_len, k_len).",
            lambda q_len, k_len: _right(q_len, k_len).mT,
        ),
        wrong(
            "sizes_exchanged",
            "Rows and columns are exchanged",
            "The mask is (k, q). Rows belong to queries, as in the scores: (q_len, k_len).",
            lambda q_len, k_len: _right(k_len, q_len),
        ),
        wrong(
            "leading_axis",
            "One axis too many",
            "The mask has a leading axis of size 1. Broadcasting adds it by itself where it is needed: (q, k) is what "
            "is wanted.",
            lambda q_len, k_len: _right(q_len, k_len)[None],
        ),
        wrong(
            "leading_axes",
            "Two axes too many",
            "The mask has leading axes of size 1. They come where batch and heads are known, and broadcasting adds "
            "them by itself: (q, k) is what is wanted.",
            lambda q_len, k_len: _right(q_len, k_len)[None, None],
        ),
        wrong(
            "one_dimensional",
            "A row of answers, not a table",
            "Two vectors are compared entry by entry. For every query with every key one of them has to stand up: "
            "(q, 1) against (k), positions[:, None].",
            lambda q_len, k_len: torch.arange(q_len) >= torch.arange(k_len),
        ),
        wrong(
            "all_blocked",
            "Nothing is allowed",
            "Every entry is False, so no query sees any key. In this course True means: may attend.",
            lambda q_len, k_len: torch.zeros(q_len, k_len, dtype=torch.bool),
        ),
    ),
)
