"""padding_mask(lengths, max_len): which keys of a batch are real."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import attnlib
from attnlib.checks.course.usual import usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LESSON = "05_causal_attention"


def _lengths(draw: Draw, *, b: int, max_len: int) -> tuple[Tensor, int]:
    """Lengths from 1 to max_len - 1, so that no sequence fills its row."""
    return draw.integers(1, max_len, (b,)), max_len


def _listed(draw: Draw, *, lengths: tuple[int, ...], max_len: int) -> tuple[Tensor, int]:
    return torch.tensor(lengths), max_len


def _right(lengths: Tensor, max_len: int) -> Tensor:
    return torch.arange(max_len, device=lengths.device) < lengths[:, None]


def _with(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """A mask by `rule(position, length)`, broadcast to (b, k)."""
    return lambda lengths, max_len: rule(torch.arange(max_len, device=lengths.device)[None], lengths[:, None])


def _blocked_from_the_end(lengths: Tensor, max_len: int) -> Tensor:
    """`mask[i, -pads:] = False`, which for no padding at all means `mask[i, 0:]`."""
    mask = torch.ones(len(lengths), max_len, dtype=torch.bool, device=lengths.device)
    for row, length in zip(mask, lengths, strict=True):
        row[-(max_len - length) :] = False
    return mask


_MANY = partial(_lengths, b=11, max_len=23)

PADDING_MASK = Exercise(
    name="padding_mask",
    lesson=LESSON,
    contract="lengths (b,), max_len -> bool (b, k), True = a real key",
    parts={"values": 2, "robustness": 1},
    reference=attnlib.padding_mask,
    forbidden=("attnlib.padding_mask",),
    cases=(
        Case(name="five sentences", inputs=partial(_listed, lengths=(3, 1, 6, 4, 2), max_len=7)),
        Case(name="one sentence", inputs=partial(_listed, lengths=(2,), max_len=5)),
        Case(name="a full sentence and an empty one", inputs=partial(_listed, lengths=(5, 0, 3), max_len=5)),
        Case(
            name="called a second time, with other lengths",
            inputs=_MANY,
            after=(_MANY,),
        ),
        Case(
            name="called before with other sizes",
            inputs=partial(_listed, lengths=(3, 11, 1, 6), max_len=13),
            after=(
                partial(_listed, lengths=(7, 2, 11, 5), max_len=13),
                partial(_listed, lengths=(11, 4), max_len=13),
                partial(_listed, lengths=(3, 11, 1, 6), max_len=17),
            ),
        ),
        Case(
            name="the lengths stay as they are",
            inputs=partial(_lengths, b=3, max_len=11),
            mutation=True,
            part="robustness",
        ),
        Case(name="on another device", inputs=partial(_lengths, b=3, max_len=7), other_device=True, part="robustness"),
        Case(name="other sizes (1)", inputs=partial(_lengths, b=7, max_len=13), hidden=True),
        Case(name="other sizes (2)", inputs=partial(_listed, lengths=(2, 2), max_len=2), hidden=True),
    ),
    example=lambda: (torch.tensor([3, 1, 4]), 4),
    misconceptions=(
        wrong(
            "upside_down",
            "True marks the padding",
            "You mark what is *not* there. That is the convention of nn.MultiheadAttention's key_padding_mask; here "
            "True = may attend, so a real key is True.",
            _with(lambda position, length: position >= length),
        ),
        wrong(
            "one_pad_too_many",
            "One padding token counts as real",
            "<= where < was needed. Positions start at 0, so a sentence of length 3 fills the positions 0, 1 and 2; "
            "position 3 is padding.",
            _with(lambda position, length: position <= length),
        ),
        wrong(
            "last_word_lost",
            "The last word of every sentence is blocked",
            "A sentence of length 3 fills the positions 0, 1 and 2, and 2 < 3. You stop one position too early.",
            _with(lambda position, length: position < length - 1),
        ),
        wrong(
            "first_word_lost",
            "The first word of every sentence is blocked",
            "Positions start at 0, not at 1. Compare torch.arange(max_len), which starts at 0, with the lengths.",
            _with(lambda position, length: (position > 0) & (position < length)),
        ),
        wrong(
            "padded_on_the_left",
            "The padding is taken to stand on the left",
            "You mark the *last* tokens as real. That is how batches are padded for generation, but this contract says "
            "that the first `lengths[b]` keys are real.",
            lambda lengths, max_len: _right(lengths, max_len).flip(-1),
        ),
        wrong(
            "last_word_only",
            "Only one position is True",
            "== where < was needed: you mark the last word, not all words up to it.",
            _with(lambda position, length: position == length - 1),
        ),
        wrong(
            "minus_zero",
            "A sentence without padding is blocked whole",
            "`mask[i, -pads:] = False` blocks the last `pads` positions, except for pads = 0: -0 is 0, and `[0:]` is "
            "everything. Block from the front, `mask[i, length:] = False`, or compare positions with lengths.",
            _blocked_from_the_end,
        ),
        wrong(
            "first_length_for_all",
            "All sentences get the first one's length",
            "With a batch of one nobody notices. Each row has its own length: give `lengths` a second axis "
            "(`lengths[:, None]`), so that it broadcasts down the rows.",
            lambda lengths, max_len: _right(lengths[:1].expand(len(lengths)), max_len),
        ),
        wrong(
            "longest_instead_of_max_len",
            "As wide as the longest sentence",
            "The mask has lengths.max() columns. The batch may be padded further than its longest sentence needs; "
            "max_len says how far.",
            lambda lengths, max_len: _right(lengths, int(lengths.max())),
        ),
        wrong(
            "integers",
            "Integers instead of bool",
            "Your mask is made of 1 and 0, as tokenizers return it. Here a mask is bool: compare "
            "something, or call `.bool()`.",
            lambda lengths, max_len: _right(lengths, max_len).long(),
        ),
        wrong(
            "integers_of_32_bits",
            "Integers instead of bool",
            "Your mask is made of 1 and 0. Here a mask is bool: compare something, or call `.bool()`.",
            lambda lengths, max_len: _right(lengths, max_len).int(),
        ),
        wrong(
            "additive",
            "A mask to be added, instead of bool",
            "You return 0 and -inf, to be added to the scores: another convention. Here a mask is bool, True = a real "
            "key. Only where it is used does it become -inf.",
            lambda lengths, max_len: torch.zeros(len(lengths), max_len, device=lengths.device).masked_fill(
                ~_right(lengths, max_len), -torch.inf
            ),
        ),
        wrong(
            "padding_without_its_first",
            "True marks the padding, but for its first token",
            "True = a real key: what you mark is not there. And > leaves out position `length`, the first of the "
            "padding. A position is real if it is < the length.",
            _with(lambda position, length: position > length),
        ),
        wrong(
            "no_column",
            "The lengths are lined up with the positions",
            "(k) against (b) is compared entry by entry, or fails. The lengths have to be a column, lengths[:, None], "
            "so that each sentence gets a row of its own.",
            lambda lengths, max_len: torch.arange(max_len, device=lengths.device) < lengths,
        ),
        wrong(
            "no_column_expanded",
            "The lengths are lined up with the positions",
            "(k) against (b) is compared entry by entry, or fails, and `expand` cannot mend it. The lengths have to be "
            "a column, lengths[:, None], so that each sentence gets a row of its own.",
            lambda lengths, max_len: (torch.arange(max_len, device=lengths.device) < lengths).expand(
                len(lengths), max_len
            ),
        ),
        wrong(
            "empty_sentence_opened",
            "An empty sentence gets a real key",
            "A length of 0 was taken for 1. All keys of an empty sentence are padding: its row is False throughout.",
            _with(lambda position, length: position < length.clamp(min=1)),
        ),
        *(
            wrong(
                f"exchanged_{name}",
                f"Rows and columns are exchanged, and {also}",
                "Two things at once: one row for each sentence, one column for each key, (b, k); and True = a real "
                "key, the first `lengths[i]` of row i.",
                lambda lengths, max_len, rule=rule: rule(
                    torch.arange(max_len, device=lengths.device)[:, None], lengths[None]
                ),
            )
            for name, also, rule in (
                ("upside_down", "True marks the padding", lambda position, length: position >= length),
                ("one_pad_too_many", "one padding token counts as real", lambda position, length: position <= length),
                (
                    "without_first",
                    "the padding is marked, but for its first",
                    lambda position, length: position > length,
                ),
            )
        ),
        *(
            wrong(
                f"left_{name}",
                f"The padding is taken to stand on the left, and {also}",
                "Two things at once: the first `lengths[b]` keys are real; and True marks them, no more and no fewer.",
                lambda lengths, max_len, rule=rule: rule(
                    torch.arange(max_len, device=lengths.device)[None], max_len - lengths[:, None]
                ),
            )
            for name, also, rule in (
                ("upside_down", "True marks it", lambda position, first: position < first),
                ("one_word_lost", "one word is lost", lambda position, first: position > first),
            )
        ),
        *(
            wrong(
                f"{name}_numbers",
                f"{title}, in numbers instead of bool",
                "Two things at once: True = a real key, the first `lengths[i]` of row i; and a mask is bool. Leave the "
                "comparison as it is, without .float() or .int().",
                _with(lambda position, length, rule=rule: rule(position, length).float()),  # type: ignore[misc]
            )
            for name, title, rule in (
                ("upside_down", "The padding is marked", lambda position, length: position >= length),
                ("one_pad_too_many", "One padding token counts as real", lambda position, length: position <= length),
            )
        ),
        wrong(
            "pairs",
            "A table of pairs for each sentence",
            "Yours is (b, k, k), True where both words are real. The contract wants one row for each sentence, (b, k): "
            "all its queries are kept from the same keys.",
            lambda lengths, max_len: _right(lengths, max_len)[:, :, None] & _right(lengths, max_len)[:, None],
        ),
        wrong(
            "numbers",
            "Numbers instead of bool",
            "Your mask is made of 1.0 and 0.0. Make it bool: PyTorch's attention would *add* these "
            "numbers to the scores.",
            lambda lengths, max_len: _right(lengths, max_len).float(),
        ),
        wrong(
            "exchanged",
            "Rows and columns are exchanged",
            "The mask is (k, b). One row for each sentence, one column for each key: (b, k).",
            lambda lengths, max_len: _right(lengths, max_len).mT,
        ),
        wrong(
            "one_axis_too_many",
            "Broadcast too early",
            "The mask is (b, 1, k). Further axes are added where the mask is used, because only there it is known "
            "whether the scores have an axis for heads. (b, k) is what is wanted.",
            lambda lengths, max_len: _right(lengths, max_len)[:, None],
        ),
        wrong(
            "listed",
            "A list of lists, not a tensor",
            "The entries are right. torch.tensor(the_list, device=lengths.device) makes a mask of them.",
            lambda lengths, max_len: [[place < length for place in range(max_len)] for length in lengths.tolist()],
        ),
        wrong(
            "all_real",
            "Nothing is marked as padding",
            "Every entry is True. Only the first `lengths[i]` keys of row i are real.",
            lambda lengths, max_len: torch.ones_like(_right(lengths, max_len)),
        ),
        wrong(
            "length_marked",
            "Only one position is True",
            "== where < was needed: you mark the position behind the last word, not all words before it.",
            _with(lambda position, length: position == length),
        ),
        wrong(
            "leading_axes",
            "Broadcast too early",
            "The mask has further axes of size 1. They are added where the mask is used, `[:, None, None, :]`, because "
            "only there it is known whether the scores have an axis for heads. (b, k) is what is wanted.",
            lambda lengths, max_len: _right(lengths, max_len)[:, None, None],
        ),
        *(
            m
            for m in usual_misconceptions(_right, gradient=False)
            if m.id in ("mutates_input", "cpu_only", "keeps_first_answer")
        ),
    ),
)
