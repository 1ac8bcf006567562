"""Predictions with other numbers: the right option is what attnlib, torch or counting says, and no option is twice."""

import calendar
import math
import re
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attnlib
from attnlib.checks import exercises
from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, asked_again, counted, ordinal
from attnlib.checks.practising.opened import OpenedQuestion
from attnlib.checks.practising.shown import Shown

DRAWS = 50
ROWS, COLUMNS = 22, 59  # of a terminal of 24 by 60, with a line for the answer
LESSONS = Path(__file__).resolve().parents[2] / "solutions"
AGAIN = asked_again()
WITH_NUMBERS = [name for name, one in AGAIN.items() if one.draw]
LETTERS_ALONE = {
    "predict_query_of_it",
    "predict_overfitted",
    "predict_what_to_keep",
    "predict_what_is_needed",
    "predict_other_spelling",
}


def close(one, other):
    return torch.allclose(one, other, atol=1e-5, rtol=0)


def largest_dot(word, best, tied, longest):
    rows = torch.stack(
        [torch.bincount(torch.tensor([*w.encode()]), minlength=128) for w in (word, best, tied, longest)]
    )
    products = rows @ rows[0]
    assert (products == products.max()).sum() == 1
    common = [len({*w} & {*word}) for w in (best, tied, longest, word)]
    assert common[0] == common[1] > common[2]  # who counts a letter once leaves out the longest
    return f"“{(word, best, tied, longest)[int(products.argmax())]}”"


def dot_spread(root):
    q, k = torch.randn(2, 4000, root**2, generator=torch.Generator().manual_seed(root))
    return str(round((q * k).sum(dim=-1).std().item() / root) * root)  # 4,000 pairs tell it to about 1 %


def swapped_words(sentence, one, other, third):
    torch.manual_seed(0)
    words = sentence.split()
    table = {word: torch.randn(8) for word in words}
    changed = [{one: other, other: one}.get(word, word) for word in words]
    attend = attnlib.SelfAttention(8, 4, 4)
    before, after = (attend(torch.stack([table[word] for word in text])[None])[0] for text in (words, changed))
    assert all(words.count(word) == 1 for word in (one, other, third))
    assert all(close(before[words.index(w)], after[changed.index(w)]) for w in (one, other, third))
    assert not close(before, after)
    others = "the other two trade places, because each word's output moves with it."
    return f"The output of “{third}” stays the same, and {others}"


def reshaped_heads(words, columns, heads):
    number_of_word = torch.arange(words).repeat_interleave(columns)
    head = number_of_word.reshape(1, heads, words, columns // heads)[0, 0]
    inside = head.unique()
    assert inside.tolist() == [*range(len(inside))]
    assert all((head == word).sum() == columns for word in inside)
    assert int((head == 0).any(dim=-1).sum()) == heads
    return f"all {counted(columns)} columns of the first {counted(len(inside))} words"


def shuffled_memory(english, german, column):
    torch.manual_seed(english)
    asks, answers = torch.randn(1, german, 5), torch.randn(1, english, 7)
    matrices = torch.randn(5, 3), torch.randn(7, 3), torch.randn(7, 4)
    order = [*range(1, english)]
    order.insert(column, 0)
    before, weights = attnlib.cross_attention(asks, answers, *matrices)
    after, shuffled = attnlib.cross_attention(asks, answers[:, order], *matrices)
    assert close(before, after)
    assert close(weights[..., order], shuffled)
    assert not close(weights, shuffled)
    return "only the columns of the weights change places"


def longer_source(day, date):
    assert calendar.day_name[datetime.strptime(date, "%d %B %Y").weekday()] == day
    longer = f"{day}, {date}"
    torch.manual_seed(0)
    table, look = nn.Embedding(128, 6), nn.Conv1d(6, 4, 5, padding=2)
    keys, moved = (look(table(torch.tensor([*text.encode()])).T[None])[0].T for text in (date, longer))
    assert close(keys[-1], moved[-1])
    asked = AGAIN["predict_longer_source"].question(day, date).text
    assert f"was character {date.rindex(date[-1])} and is now character {longer.rindex(date[-1])}." in asked
    return "the keys, because the digit takes its key along, and the same query still fits it"


def zeroed_future(first, own, future):
    rows = []
    for there in (future, 2 * future):
        weights = torch.tensor([first, own, there], dtype=torch.float64).log().softmax(dim=-1)
        rows.append(weights * torch.tensor([1, 1, 0]))
    assert not close(*rows)
    sum_told = re.search(r"adds up to (\S+)\. Can", AGAIN["predict_zeroed_future"].question(first, own, future).text)[1]
    assert float(Fraction(sum_told)) == pytest.approx(rows[0].sum().item())
    return "yes, through the weights that are kept"


def blocked_row(keys, fill):
    scores = torch.randn(keys).masked_fill(torch.ones(keys, dtype=torch.bool), float(fill))
    assert torch.tensor(float(fill)).exp() == 0
    row = scores.softmax(dim=-1)
    assert row.eq(row[0]).all()
    return f"1/{round(1 / row[0].item())} each, as with {counted(keys)} equal scores"


def no_residuals(words, width, layers, heads):
    torch.manual_seed(words)
    x = torch.randn(words, width)
    with torch.no_grad():
        for _ in range(layers):
            attend = attnlib.MultiHeadAttention(width, heads)
            for parameter in attend.parameters():
                if parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)
            x = attend(F.layer_norm(x, (width,))[None])[0]
    unit = F.normalize(x, dim=-1)
    cosine = (unit @ unit.T).sum().sub(words).div(words * (words - 1))
    return f"near {cosine:.1f}: all {counted(words)} words have become one and the same vector".replace("1.0", "1")


def no_position(place, words):
    torch.manual_seed(place)
    x, swapped = torch.randn(words, 6), [*range(words)]
    swapped[place - 1 : place + 1] = place, place - 1
    q, k, v = torch.randn(3, 6, 6) / 3  # larger ones would put all weight on one word
    outputs = [attnlib.scaled_dot_product_attention(t @ q, t @ k, t @ v, is_causal=True) for t in (x, x[swapped])]
    one, other = (n for n in range(words) if not close(outputs[0][n], outputs[1][swapped.index(n)]))
    return f"the {ordinal(one + 1)} word's and the {ordinal(other + 1)}'s, because later ones still see the same words"


def first_loss(vocabulary):
    return f"{F.cross_entropy(torch.zeros(1, vocabulary), torch.tensor([0])).item():.1f}"


def bits(first, second):
    each = [Fraction(str(loss)) / characters for characters, loss in (first, second)]
    assert all(
        f"a loss of {loss} nats" in AGAIN["predict_bits"].question(first, second).text for _, loss in (first, second)
    )
    return "neither, they're equal" if each[0] == each[1] else ("the first", "the second")[each.index(min(each))]


def cache_size(layers, heads, d_head, tokens):
    buffers = [torch.empty(2, heads, tokens, d_head, dtype=torch.float16, device="meta") for _ in range(layers)]
    number = Fraction(sum(buffer.nbytes for buffer in buffers))
    unit = int(math.log(number, 1024) + 1e-12)
    return f"{float(number / 1024**unit):.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def reach(layers, window):
    length = layers * window + 5
    one_layer = attnlib.sliding_window_mask(length, length, window).long()
    seen = torch.linalg.matrix_power(one_layer.double(), layers)[-1]
    return str(length - 1 - int(seen.nonzero()[0]))


def fixed_period(period):
    text = torch.randperm(period).repeat(3)
    back = next(n for n in range(2 * period) if text[n + 1 :].equal(text[: len(text) - n - 1]))
    return f"to look {back} places back, without comparing any tokens; one layer is enough, for this period only"


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_the_right_option_is_right_by_another_computation(name):
    compute, one, chance = globals()[name.removeprefix("predict_")], AGAIN[name], Random(name)
    drawn = [one.draw(chance) for _ in range(DRAWS)]
    assert [one.question(**numbers).right for numbers in drawn] == [compute(**numbers) for numbers in drawn]
    assert len({str(numbers) for numbers in drawn}) > 3


@pytest.mark.parametrize("name", AGAIN)
def test_fifty_questions_have_no_option_twice_and_fit_a_screen(name):
    for seed in range(DRAWS):
        opened = OpenedQuestion(AGAIN[name], f"{name} {seed}")
        assert sorted(opened.options.values()) == sorted({*opened.question.options})
        headline, sections = opened.asked(known=True, terminal=True)
        shown = repr(Shown(headline, tuple(sections), COLUMNS)).split("\n")
        assert len(shown) <= ROWS, "\n".join(shown)
        assert max(map(len, shown)) <= COLUMNS


REASON = re.compile(r"\b(because|since|which|as (in|with))\b|: ")


@pytest.mark.parametrize("name", AGAIN)
def test_the_right_option_cannot_be_told_by_its_length_or_its_reason(name):
    drawn = [OpenedQuestion(AGAIN[name], f"{name} {seed}").question for seed in range(DRAWS)]
    lengths = [(len(one.right), [len(wrong.text) for wrong in one.wrong]) for one in drawn]
    assert sum(right > max(others) for right, others in lengths) <= DRAWS / 2
    assert sum(right < min(others) for right, others in lengths) <= DRAWS / 2
    for one in drawn:
        given = [bool(REASON.search(text)) for text in (one.right, *(wrong.text for wrong in one.wrong))]
        assert given.count(given[0]) > 1, one.options


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_other_numbers_are_never_those_of_the_lesson_and_nothing_speaks_of_those(name):
    one = AGAIN[name]
    lesson = one.question(**one.lesson)
    assert len({one.drawn(Random(seed)).text for seed in range(DRAWS)} | {lesson.text}) > 4
    told = {m.id: f"{m.title} {m.explanation}" for m in one.declared.misconceptions}
    large = [n for n in one.lesson.values() if isinstance(n, int) and n > 4]  # "one" is a word, too
    numbers = {name_of(n) for n in large for name_of in (str, counted)}
    for wrong in lesson.wrong:
        left = "" if wrong.explanation else told[wrong.id].partition(" ")[2]
        assert not numbers & {*re.findall(r"\w+", left)}, (wrong.id, left)


def test_every_prediction_can_be_asked_again_and_which_have_letters_alone_is_known():
    assert [*AGAIN] == [name for name, exercise in exercises().items() if exercise.kind == "choice"]
    assert {name for name, one in AGAIN.items() if one.draw is None} == LETTERS_ALONE


def test_the_guide_counts_them():
    guide = (LESSONS.parent / "docs" / "practice.md").read_text(encoding="utf-8")
    told = re.search(
        r"Of the course's (\d+) predictions,\s(\d+) come back .* The other (\d+) have no", guide, re.DOTALL
    )
    assert [*map(int, told.groups())] == [len(AGAIN), len(WITH_NUMBERS), len(LETTERS_ALONE)]


def plain(option):
    """An option without marks, quotes and the final full stop."""
    return re.sub(r"[*“”`$.]", "", " ".join(option.split()))


OTHER_WORDS = {
    "low_scores_low_weights": "an exponential in the lesson's mathematics",
    "nan_from_finite": "as before, there",
    "same_two_heads": "as before, there",
}
"""Options that read otherwise without the lesson around them."""


@pytest.mark.parametrize("name", AGAIN)
def test_with_the_lesson_s_numbers_each_option_is_the_lesson_s(name):
    one = AGAIN[name]
    source = (LESSONS / f"{one.declared.lesson}.py").read_text(encoding="utf-8")
    above = source.partition(f'check("{name}"')[0].rpartition("### Predict, then run:")[2].replace("\n# ", "\n")
    options = {a: plain(text) for a, text in re.findall(r"^- \*\*([A-D])\*\*: (.+(?:\n  .+)*)", above, re.MULTILINE)}
    question = one.question(**one.lesson)
    assert options.pop(one.declared.reference) == plain(question.right)
    letters = {m.id: m.implementation for m in one.declared.misconceptions}
    assert {*letters} == {wrong.id for wrong in question.wrong}
    for wrong in question.wrong:
        assert plain(wrong.text) == options[letters[wrong.id]] or wrong.id in OTHER_WORDS


def test_draws_that_give_nothing_else_are_an_error_and_no_endless_loop():
    wrong = (WrongOption("a", "1"),)
    same = AskedAgain("p", lambda n: Question(text="", right="1", wrong=wrong), {"n": 0}, lambda _chance: {"n": 1})
    with pytest.raises(ValueError, match="p: none of 1000 draws has other numbers and no option twice"):
        same.drawn(Random(0))
