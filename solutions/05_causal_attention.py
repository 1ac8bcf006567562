# %% [markdown]
# # 05 · Causal attention: look back, never ahead
#
# A language model predicts the next word. It learns from texts in which the next word is already there, so attention
# has to be kept from looking at it. A mask does that, and masks are where attention often goes wrong: silently, with a
# falling loss. By the end of this lesson you'll have two models that differ in one character of code, and you'll find
# out which one can peek before either is trained. If you go on, you'll train both. The one that looks wonderful in
# training writes worse than a blind guesser, and you design the experiment that exposes it.
#
# | | |
# | --- | --- |
# | **You will build** | `causal_mask`, `masked_softmax`, `CausalSelfAttention`, and three tests for leaks |
# | **You will understand** | why to block first, where NaN comes from, why `-1e20` is finite, how to find a leak |
# | **You need** | heads from lesson 03, the training loop and the padding of lesson 04 |
# | **Time** | core 1 hour 25 minutes, everything 3 hours 30 minutes ([symbols](00_start_here.ipynb#Symbols)) |
#
# The model that learns at the end is built on *your* `CausalSelfAttention` once it passes its check, and your functions
# train, probe and measure it; until then `attnlib`'s do.

# %%
import re
from functools import partial
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.colors import ListedColormap, LogNorm
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import usable_text
from attnlib.plot import ACCENT, GREY, INK, plot_mask, show, use_style, watched

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait

# %% [markdown]
# ## Turn one sentence into ten exercises · core
#
# *The animal did not cross the street because it was tired.* Cut it off after any word, and you have an exercise: what
# comes next? Eleven words hold ten of them.

# %%
tokens = "The animal did not cross the street because it was tired".lower().split()
for i, target in enumerate(tokens[1:]):
    print(f"{' '.join(tokens[: i + 1]):>50}  →  {target}")

# %% [markdown]
# Self-attention computes an output for every position anyway. So let the output at position $i$ predict word $i+1$, and
# one pass over the sentence does all ten exercises. A recurrent network (lesson 01) also does all ten in one pass, but
# its tenth guess needs its ninth state, which needs the eighth, and so on back to the first. With attention *no
# position waits for another*. Each needs only the words, so all can be computed at once, in any order. That's what
# made transformers quick to train.

# %%
vectors = torch.randn(11, 4, generator=torch.Generator().manual_seed(0))


def look_back(i: int) -> Tensor:
    """The output at position i, from the vectors up to i, and from no other output."""
    return (vectors[: i + 1] @ vectors[i] / 2).softmax(dim=0) @ vectors[: i + 1]


outputs = [look_back(i) for i in range(11)]
last_one_first = [look_back(i) for i in reversed(range(11))]
assert all(map(torch.equal, outputs, reversed(last_one_first)))

# %% [markdown]
# There's one condition: no position may see the word it has to predict. Attention as lesson 02 left it lets *animal*
# look at *did*, and then *did* isn't predicted but copied. So position $i$ may look at the positions up to and
# including $i$. Its own word is no secret; the next one is.
#
# ## Say which query may see which key · core
#
# A *mask* says, for every pair, whether the query may attend to the key. It is `bool`, with a row for each query and a
# column for each key, and **True = may attend**. For five words it is a triangle (the bracket is True where the
# condition in it holds):
#
# $$M_{ij} = \big[ j \le i \big] \qquad\qquad \text{query } i,\ \text{key } j$$
#
# There may be more keys than queries. A model that writes keeps the keys of all words so far, and only the newest words
# ask. So it's the *last* query that is aligned with the last key, and the first query is $k - q$ positions into the
# text:
#
# $$M_{ij} = \big[ j \le i + (k - q) \big]$$
#
# With two new queries and five keys the first one sees four keys, and the second one sees all five. Some models also
# forget. With a *window* of $w$, each query sees only the $w$ newest keys of its past, its own included (lesson 09
# counts what that saves):
#
# $$M_{ij} = \big[ 0 \le i + (k - q) - j < w \big]$$

# %% [markdown]
# ### Exercise: write the causal mask ({points}, difficulty 2, 8 minutes)
#
# Write `causal_mask(q_len, k_len, window=None)`.
#
# - The result is `(q_len, k_len)`, `torch.bool`, True = may attend.
# - The last query sees every key, even if there are more keys than queries. If there are fewer, the first queries see
#   nothing.
# - With a `window`, a whole number from 1 on, each query sees its own key and the `window` − 1 before it.
# - The points: {parts}. Not allowed: `attnlib`'s masks. All of torch is allowed.


# %%
def causal_mask(q_len: int, k_len: int, window: int | None = None) -> Tensor:
    """Two lengths -> bool (q, k), True = may attend; the last query sees every key, or
    the newest."""
    ### BEGIN SOLUTION
    queries = torch.arange(q_len)[:, None] + (k_len - q_len)
    behind = queries - torch.arange(k_len)
    mask = behind >= 0
    if window is not None:
        mask = mask & (behind < window)
    return mask
    ### END SOLUTION


# %%
check("causal_mask", causal_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do the square case first, on paper, for three words. Which of the nine pairs are open?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Either compare two `torch.arange`, one as a column, one as a row. Or start from `torch.ones(..., dtype=torch.bool)`
# and keep its lower triangle with `Tensor.tril`; `triu` cuts off what is too far back.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Query $i$ is at position $i + (k - q)$. With `arange`, add that to the column of queries, and subtract the row of
# keys: each entry is the distance to a key. Which distances are open without a window, and which with one? With `tril`,
# pass $k - q$ as `diagonal`, which says how many columns further right the triangle reaches.
#
# </details>
#
# Here are the two masks of our sentence, without a window and with a window of 3. Find the row of *it* in both. How
# many words may *it* see?

# %%
whole, newest = attnlib.causal_mask(11, 11), attnlib.causal_mask(2, 11)
# two new queries are the last two rows of the whole
assert torch.equal(newest, whole[-2:])

banded = attnlib.sliding_window_mask(11, 11, 3)
assert banded.sum(dim=-1).tolist() == [1, 2] + 9 * [3]

_, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for ax, mask, title in zip(
    axes, (whole, banded), ("The whole past", "The three newest words"), strict=True
):
    plot_mask(mask, tokens, ax=ax, title=title)
    ax.tick_params(axis="x", rotation=60)
axes[0].get_legend().remove()
axes[1].set_yticklabels([])
show("A triangle, and beside it a band of three cells along the diagonal.")
it = tokens.index("it")
print(f"“it” may see {whole[it].sum()} words, and {banded[it].sum()} in the band")

# %% [markdown]
# ## Zero out the future after the softmax · core
#
# Where does the mask go? Try the obvious: compute the weights as always, then set those of the future to zero. With a
# pencil, take three words and one row, that of *animal*. Its scores are $0$ with *the*, $\ln 3$ with itself, and
# $\ln 4$ with *did*, which is still to come.
#
# | | the | animal | *did* | sum |
# | --- | --- | --- | --- | --- |
# | $e^{\text{score}}$ | 1 | 3 | 4 | 8 |
# | softmax | 1/8 | 3/8 | 4/8 | 1 |
# | future set to zero | 1/8 | 3/8 | 0 | **1/2** |
#
# The row adds up to one half. Is that just ugly, or is it wrong?
#
# ### Predict, then run: does a zero weight hide the future? ({points}, difficulty 2, 3 minutes)
#
# Future weights are set to zero after the softmax, and nothing else is done. Can the output of *animal* still depend on
# the word that comes after it?
#
# - **A**: no, a weight of zero lets nothing through
# - **B**: only in the first row, which keeps a single weight
# - **C**: yes, through the weights that are kept
# - **D**: yes, through the value of *did*
#
# Decide before you run the next cell.

# %%
### BEGIN SOLUTION
zeroed_future = "C"
### BEGIN STUB
# zeroed_future = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_zeroed_future", zeroed_future)

# %% [markdown]
# Let the one score of the future word run from $-4$ to $8$, and watch the two weights of the past. If nothing leaked,
# they would be flat.

# %%
future = torch.linspace(-4, 8, 121)  # the score of "did", which "animal" must not know
rows = torch.stack(
    [torch.zeros(121), torch.tensor(3.0).log().expand(121), future], dim=-1
)
kept = torch.softmax(rows, dim=-1)[:, :2]  # the future is gone
again = kept / kept.sum(dim=-1, keepdim=True)
assert_close(again, torch.tensor([0.25, 0.75]).expand(121, 2), atol=1e-5, rtol=0)
assert kept[0, 1] > 0.7 > 0.01 > kept[-1, 1]

_, ax = plt.subplots(figsize=(7.2, 3), layout="constrained")
for column, (word, colour, width) in enumerate(
    (("the", GREY, 1.5), ("animal", INK, 3))
):
    zeroed, divided = f"{word}: future set to zero", f"{word}: and divided again"
    ax.plot(future, kept[:, column], color=colour, linewidth=width, label=zeroed)
    ax.plot(
        future, again[:, column], "--", color=colour, linewidth=width, label=divided
    )
ax.axvline(torch.tensor(4.0).log(), color="0.6", linestyle=":")
ax.text(1.5, 0.9, "ln 4, as in the table", color="0.35")
ax.set(xlabel="score of “did”, a word of the future", ylim=(0, 1))
ax.set(
    ylabel="weight in the row of “animal”",
    title="A weight of zero still leaks: the past's weights move",
)
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
show(
    "Without the second division both weights of the past fall as the future score "
    "grows."
)

# %% [markdown]
# The solid lines are the leak. The total weight *animal* gives to the past reveals how large the score of the future
# was. A network can find that out, and before this lesson is over, one will. All it has to do is make the score of the
# next word carry a message.
#
# The dashed lines are the way out. Divide each row by what remains of its sum: $\frac18$ and $\frac38$, divided by
# $\frac12$, are $\frac14$ and $\frac34$, whatever the future score is.
#
# ### Exercise: softmax, mask, renormalise ({points}, difficulty 2, 8 minutes)
#
# Write `renormalised_causal_weights(scores)`: the softmax over all keys, then only the lower triangle, then every row
# divided by what remains of its sum.
#
# - `scores` is `(…, q, k)`, any leading axes, $k \ge q$, and of ordinary size. The result has the same shape.
# - The triangle is that of `causal_mask`: the last query sees every key.
# - Dtype, device, gradients and inputs: as always.
# - `torch.softmax` is allowed. Not allowed: `attnlib.masked_softmax` and `attnlib.renormalised_causal_weights`.


# %%
def renormalised_causal_weights(scores: Tensor) -> Tensor:
    """(..., q, k) -> (..., q, k): softmax, lower triangle, each row divided by its
    sum."""
    ### BEGIN SOLUTION
    past = causal_mask(*scores.shape[-2:]).to(scores.device)
    kept = torch.softmax(scores, dim=-1) * past
    return kept / kept.sum(dim=-1, keepdim=True)
    ### END SOLUTION


# %%
check("renormalised_causal_weights", renormalised_causal_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is the table above, with one more line. Three steps, one line each.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Weights times a bool mask are weights or zeros. Your `causal_mask` makes the mask (or `attnlib.causal_mask`, if yours
# is not ready yet); it has to be on the device of the scores: `.to(scores.device)`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `kept.sum(dim=-1, keepdim=True)` is a column with one number for each row. Without `keepdim` it lines up with the
# wrong axis.
#
# </details>

# %% [markdown]
# ## Block before the softmax: the same numbers, with less work · core
#
# Look at what the second division does. Let $Z$ be the softmax's own denominator, with the future in it. It appears in
# numerator and denominator, and cancels:
#
# $$\frac{e^{s_j} / Z}{\sum_{l \le i} e^{s_l} / Z} = \frac{e^{s_j}}{\sum_{l \le i} e^{s_l}}$$
#
# No future score is left on the right. It's the softmax of the first $i + 1$ scores alone. So why let the others in at
# all? A score whose exponential is zero would keep them out, and $e^{-\infty} = 0$. Fill the blocked scores with
# `-inf`, and one softmax is enough. Both ways give the same weights:

# %%
# nbval-ignore-output: the last digit depends on the machine; asserts say how small it is
generator = torch.Generator().manual_seed(5)
# (b, h, q, k)
scores = torch.randn(2, 3, 5, 7, generator=generator, dtype=torch.float64)
past = attnlib.causal_mask(5, 7)

afterwards = torch.softmax(scores, dim=-1) * past
afterwards = afterwards / afterwards.sum(dim=-1, keepdim=True)
before = torch.softmax(scores.masked_fill(~past, -torch.inf), dim=-1)

assert_close(before, afterwards, atol=1e-14, rtol=0)
assert_close(before, attnlib.renormalised_causal_weights(scores), atol=1e-14, rtol=0)
print(f"the two ways differ by at most {(before - afterwards).abs().max():.1e}")

# %% [markdown]
# They're equal on paper, and for scores of ordinary size. Now let a future score be 200. In float32 the softmax gives
# it everything and rounds the past to zero, and then you divide 0 by 0. That's why everyone blocks first.

# %%
row = torch.tensor([0.0, 1.0, 200.0])
past = torch.tensor([True, True, False])
kept = torch.softmax(row, dim=-1) * past
blocked_first = torch.softmax(row.masked_fill(~past, -torch.inf), dim=-1)

print("softmax, zero, divide:", (kept / kept.sum()).tolist())
print("block, softmax:       ", [round(w, 3) for w in blocked_first.tolist()])
assert (kept / kept.sum()).isnan().all()
assert_close(blocked_first, torch.tensor([0.269, 0.731, 0.0]), atol=5e-4, rtol=0)

# %% [markdown]
# ## Handle the query that has nothing to look at · core
#
# `-inf` has one weak spot. A causal mask leaves every query at least itself, but other masks don't. Sentences may be
# padded on the left, and then the first queries have nothing real to look at. A row that is `-inf` throughout has no
# largest score to subtract, since $-\infty - (-\infty)$ is undefined. And a NaN spreads.

# %%
scores = torch.zeros(3, 3, requires_grad=True)
mask = torch.tensor([[False, False, False], [True, True, False], [True, True, True]])
values = torch.ones(3, 1, requires_grad=True)

weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
(weights @ values).sum().backward()
print("weights of the first query:", weights[0].tolist())
print("gradient of the values:    ", values.grad.flatten().tolist())
assert weights[0].isnan().all()
assert values.grad.isnan().all()  # one bad row of three has spoiled them all

# %% [markdown]
# One step of the optimiser, and every weight of the network is NaN. A lot of published code avoids this by filling with
# a large negative *number* instead, often `-1e9`. Then nothing is undefined.
#
# ### Predict, then run: a row of -1e9 ({points}, difficulty 2, 2 minutes)
#
# Four keys, all of them blocked by `scores.masked_fill(~mask, -1e9)`. What are the four weights?
#
# - **A**: four zeros, because $e^{-10^9}$ is zero
# - **B**: 1/4 each, as with four equal scores
# - **C**: `nan`, as before
# - **D**: the softmax of the scores as they were before the fill

# %%
### BEGIN SOLUTION
blocked_row = "B"
### BEGIN STUB
# blocked_row = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_blocked_row", blocked_row)

# %%
scores = torch.tensor([2.0, -1.0, 0.5, 3.0])
nothing = torch.zeros(4, dtype=torch.bool)
filled = torch.softmax(scores.masked_fill(~nothing, -1e9), dim=-1)
print("filled with -1e9:", filled.tolist())
print("what we want:    ", attnlib.masked_softmax(scores, nothing).tolist())
assert_close(filled, torch.full((4,), 0.25), atol=0, rtol=0)
assert_close(attnlib.masked_softmax(scores, nothing), torch.zeros(4), atol=0, rtol=0)

# %% [markdown]
# The query attends evenly to everything it must not see, and nothing warns you. The rule of this course: **a query
# that may attend to nothing gets zeros**, forward and in the gradient.
#
# ### Exercise: write a softmax with a mask ({points}, difficulty 3, 12 minutes)
#
# Write `masked_softmax(scores, mask)`, over the last axis.
#
# - `scores` is `(…, k)`. `mask` is bool, True = may attend, and broadcasts to the scores. The result has the shape of
#   the scores.
# - Open entries of a row add up to 1, blocked ones are exactly 0. A row without any True is all zeros.
# - No NaN, neither forward nor in the gradient.
# - Right for any finite scores, in float32 too: blocked ones far above the open ones, open ones of $-10^{12}$ or
#   $-10^{30}$, all of them near $10^4$. (At such sizes a `logsumexp` has too few digits left, as in lesson 02.)
#   Otherwise as always.
# - `torch.softmax` is allowed. Not allowed: `attnlib.masked_softmax`, and others that take the mask, as
#   `torch.masked.softmax` and PyTorch's attention do.


# %%
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores (..., k), mask broadcast to them -> weights (..., k); a row without True
    is zero."""
    ### BEGIN SOLUTION
    empty = ~mask.any(dim=-1, keepdim=True)
    # an empty row keeps its scores, so that its softmax is defined
    blocked = ~mask & ~empty
    weights = torch.softmax(scores.masked_fill(blocked, -torch.inf), dim=-1)
    return weights.masked_fill(empty, 0.0)
    ### END SOLUTION


# %%
check("masked_softmax", masked_softmax)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `-inf` is right for every row that has a True. The other rows have to be treated separately. How do you find them?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `mask.any(dim=-1, keepdim=True)` says for each row whether something is open. A row left as it is has an ordinary
# softmax without NaN. Its result is wrong, but finite, and can be replaced.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Four lines. Which rows are empty; which entries to fill: blocked *and* not in an empty row; fill with `-inf` and take
# the softmax; set the empty rows to zero by `masked_fill`.
#
# </details>

# %% [markdown]
# ## Which fill value is safe? · more
#
# What do people fill with? [`-1e20`](https://github.com/NVIDIA/apex/issues/93), `-1e9`, `-1e4`, or the lowest
# number that the dtype has. Large models compute in 16 bits, and there one reader of a tutorial [tried three in a
# row](https://github.com/bentrevett/pytorch-seq2seq/issues/191): `-1e10` was an error, `-inf` gave a loss of NaN, and
# with `-1e4` it ran. Which of these failures can you explain already? Try all the fills, on a row with two open keys
# out of three and on a row with none.


# %%
def outcome(fill: float, dtype: torch.dtype, mask: Tensor) -> str:
    """The outcome for three scores when blocked ones are filled with `fill`."""
    scores = torch.tensor([2.0, -1.0, 0.5], dtype=dtype)
    try:
        weights = torch.softmax(scores.masked_fill(~mask, fill), dim=-1)
    # "value cannot be converted to type c10::Half without overflow"
    except RuntimeError:
        return "error"
    right = attnlib.masked_softmax(scores, mask)
    if torch.equal(weights, right):
        return "right"
    return "NaN" if weights.isnan().any() else "uniform"


dtypes = [torch.float16, torch.bfloat16, torch.float32]
fills = {"-1e4": -1e4, "-1e9": -1e9, "-1e20": -1e20, "lowest": None, "-inf": -torch.inf}
open_keys = torch.tensor([[True, True, False], [False, False, False]])
rows = dict(zip(["two open keys of three", "no open key"], open_keys, strict=True))
grids, given = {}, fills.values()
for title, mask in rows.items():
    grids[title] = [
        [outcome(f or torch.finfo(d).min, d, mask) for f in given] for d in dtypes
    ]

# %%
assert grids["two open keys of three"][0] == [
    "right",
    "error",
    "error",
    "right",
    "right",
]
assert grids["two open keys of three"][2] == ["right"] * 5
assert grids["no open key"][2] == ["uniform"] * 4 + ["NaN"]
assert all("right" not in row for row in grids["no open key"])

kinds = ["right", "uniform", "NaN", "error"]
_, axes = plt.subplots(1, 2, figsize=(10.5, 2.6), layout="constrained")
for ax, (title, grid) in zip(axes, grids.items(), strict=True):
    numbers = [[kinds.index(kind) for kind in row] for row in grid]
    colours = ListedColormap(["#deebf7", "#fbd9c0", ACCENT, "#6b2f00"])
    ax.imshow(numbers, cmap=colours, vmin=0, vmax=3, aspect="auto")
    for i, row in enumerate(grid):
        for j, kind in enumerate(row):
            colour = "white" if kind == "error" else "black"
            ax.text(j, i, kind, ha="center", va="center", color=colour)
    ax.set_xticks(range(5), fills)
    ax.set_yticks(range(3), [str(d).removeprefix("torch.") for d in dtypes])
    ax.set(title=f"A row with {title}", xlabel="blocked scores filled with")
show(
    "No fill is right in both cases: with no open key all give uniform weights, NaN "
    "or an error."
)

# %% [markdown]
# The largest number of float16 is 65504. `-1e20` does not exist there, and PyTorch says so with an error, on the day
# you first train in half precision. The lowest number seems like a way out, until something is *added* to it, a low
# score or a second mask: $-65504 - 65504$ is `-inf` again, and NaN is back (as [a large library found
# out](https://github.com/huggingface/transformers/pull/17306)). No column is right in both pictures. Choosing a fill
# isn't enough; empty rows have to be handled separately.

# %%
lowest = torch.tensor(torch.finfo(torch.float16).min, dtype=torch.float16)
print("lowest + lowest in float16:", (lowest + lowest).item())
assert (lowest + lowest).isneginf()
for dtype in dtypes:
    for mask in rows.values():
        weights = attnlib.masked_softmax(
            torch.tensor([2.0, -1.0, 0.5], dtype=dtype), mask
        )
        assert weights.isfinite().all()
        assert weights[~mask].eq(0).all()
        assert_close(weights.sum().item(), float(mask.any()), atol=1e-2, rtol=0)

# %% [markdown]
# ## Translate between four conventions · more
#
# Every library has masks, and they do not mean the same thing.
#
# | name | open | blocked | who uses it | to ours and back |
# | --- | --- | --- | --- | --- |
# | **attend** | `True` | `False` | `F.scaled_dot_product_attention`, this course | |
# | **blocked** | `False` | `True` | `nn.MultiheadAttention` | `from_blocked`, `to_blocked` |
# | **keep** | `1` | `0` | tokenizers, much published code | `from_keep`, `to_keep` |
# | **additive** | `0.0` | `-inf` | `nn.Transformer`'s causal mask; added to scores | `from_additive`, `to_additive` |
#
# All four are tensors of the same shape. Below is one mask in four dialects, each handed to code that speaks it. All
# four give the same weights.

# %%
past = attnlib.causal_mask(4, 4)
dialects = {
    "attend": past,
    "blocked": attnlib.to_blocked(past),
    "keep": attnlib.to_keep(past),
    "additive": attnlib.to_additive(past),
}
scores = torch.randn(4, 4, generator=generator)
ways = {
    "attend": attnlib.masked_softmax(scores, dialects["attend"]),
    "blocked": scores.masked_fill(dialects["blocked"], -torch.inf).softmax(dim=-1),
    "keep": scores.masked_fill(dialects["keep"] == 0, -torch.inf).softmax(dim=-1),
    "additive": (scores + dialects["additive"]).softmax(dim=-1),
}
for weights in ways.values():
    assert_close(weights, ways["attend"], atol=1e-7, rtol=0)
for name in ("blocked", "keep", "additive"):
    back = getattr(attnlib, f"from_{name}")(dialects[name])
    assert torch.equal(back, past)

# %%
four_words = tokens[:4]
for name, mask in dialects.items():
    print(f"{name:9}row of “{four_words[1]}”: {mask[1].tolist()}")

# %% [markdown]
# Now the same with whole modules, PyTorch's with its mask and `attnlib`'s with ours and the same weights. Then make
# the mistake and give PyTorch our mask as it is. The shapes fit, and no error is raised. *the* looks at the future
# only, and the last word, whose whole row is blocked, becomes NaN.

# %%
torch.manual_seed(1)
theirs = nn.MultiheadAttention(12, 3, batch_first=True)
ours = attnlib.from_torch(theirs)
x = torch.randn(1, 4, 12, generator=generator)

their_output, _ = theirs(x, x, x, attn_mask=attnlib.to_blocked(past))
assert_close(their_output, ours(x, mask=past), atol=1e-6, rtol=0)

# True = blocked there, True = may attend here
_, exchanged = theirs(x, x, x, attn_mask=past)
for word, row in zip(four_words, exchanged[0], strict=True):
    print(f"{word:8}", [round(weight, 2) for weight in row.tolist()])
assert exchanged[0].triu(1)[:3].sum() > 2.99
assert exchanged[0, 3].isnan().all()

# %% [markdown]
# ## Put sentences of different lengths into one batch · core
#
# You know padding from lesson 04. Every query of a sentence is kept from the same keys, so one row for each sentence
# says it all: `(b, k)`. `attnlib.padding_mask(lengths, max_len)` makes it from the lengths by one comparison,
# `torch.arange(max_len) < lengths[:, None]`. To line up with scores that have heads, `(b, h, q, k)`, it gets two axes
# of size 1: `key_mask[:, None, None, :]`. The keys are the *last* axis.
#
# Conditions that must both hold are joined by `&`. A key is open if it's in the past *and* real. Here are three
# sentences of one batch:

# %%
batch = ["the animal slept", "it was tired of the street", "it did not cross"]
split = [sentence.split() for sentence in batch]
lengths = torch.tensor([len(words) for words in split])
padded = [words + ["·"] * (6 - len(words)) for words in split]
key_mask = torch.arange(6) < lengths[:, None]
assert torch.equal(key_mask, attnlib.padding_mask(lengths, 6))
both = attnlib.causal_mask(6, 6) & key_mask[:, None, :]  # (b, q, k)
assert both.sum(dim=-1)[0].tolist() == [1, 2, 3, 3, 3, 3]

_, axes = plt.subplots(1, 3, figsize=(11.5, 3.4), layout="constrained")
for ax, mask, words in zip(axes, both, padded, strict=True):
    plot_mask(mask, words, ax=ax, title=f"{len(words) - words.count('·')} words")
    ax.tick_params(axis="x", rotation=45)
    if ax is not axes[-1]:
        ax.get_legend().remove()
show(
    "Three triangles; in the shorter sentences the columns of the padding are blocked."
)

# %% [markdown]
# In the left-hand picture, look at the rows of the padding, at the bottom. Those queries still see the three real
# words. That does no harm, because nobody uses what they bring back. It's the *columns* that matter.
#
# The test of a padding mask is simple. A sentence must not notice its neighbours, so its output in the batch has to be
# what it would be alone.

# %%
small_attention = attnlib.MultiHeadAttention(12, 3, is_causal=True)
three = torch.randn(3, 6, 12, generator=generator)  # whatever is in the padding
together = small_attention(three, key_mask=key_mask)
for i, length in enumerate(lengths):
    alone = small_attention(three[i : i + 1, :length])
    assert_close(together[i : i + 1, :length], alone, atol=1e-6, rtol=0)
print("three sentences, each as if it were alone")

# %% [markdown]
# ## Build the module · core
#
# *… because it was tired* makes *it* the animal. *… because it was wide* makes *it* the street. One layer of **causal**
# self-attention reads both sentences. **Predict before you run.** Which of the layer's eleven outputs differ?

# %%
vocabulary = sorted({*tokens, "wide"})
torch.manual_seed(3)
embedding, attention = (
    nn.Embedding(len(vocabulary), 24),
    attnlib.MultiHeadAttention(24, 3),
)
endings = [tokens, [*tokens[:-1], "wide"]]
tired, wide = (
    embedding(torch.tensor([[vocabulary.index(w) for w in words]])) for words in endings
)

change = {}
for name, causal in (("every key open", False), ("causal", True)):
    difference = attention(tired, is_causal=causal) - attention(wide, is_causal=causal)
    change[name] = difference.detach().norm(dim=-1)[0]
assert change["causal"][:-1].eq(0).all()  # to the last bit
assert change["every key open"].gt(0.001).all()

_, ax = plt.subplots(figsize=(9, 2.8), layout="constrained")
for shift, name, colour in ((-0.2, "every key open", ACCENT), (0.2, "causal", INK)):
    ax.bar(torch.arange(11) + shift, change[name], width=0.4, color=colour, label=name)
ax.set_xticks(range(11), [*tokens[:-1], "tired / wide"], rotation=30, ha="right")
ax.set(
    ylabel="change of the output",
    title="With the mask, “wide” instead of “tired” changes one output",
)
ax.legend()
show("Without a mask all eleven outputs change; with it only the last one does.")

# %% [markdown]
# Ten bars of the causal layer are missing because they're exactly zero. *it* can't know yet, and no later layer can go
# back and tell it. That's the price of causality. An *encoder*, which only reads and never writes (lesson 04), has the
# finished text and doesn't pay it. Lesson 06 builds one.
#
# ### Exercise: build causal self-attention ({points}, difficulty 3, 15 minutes)
#
# Write `CausalSelfAttention(d_model, num_heads, bias=True)` with a `forward(x, key_mask=None)` that returns the output
# and the weights.
#
# - Four `nn.Linear(d_model, d_model, bias=bias)`, called `w_q`, `w_k`, `w_v` and `w_o`, and no other parameters. The
#   check sets their weights.
# - `x` is `(b, n, d_model)`, `key_mask` is `(b, n)`, bool, True = a real key. The output is `(b, n, d_model)`, the
#   weights are `(b, h, n, n)`.
# - Head $i$ takes the $i$-th run of $d = d_{model} / h$ neighbouring columns. Raise a `ValueError` if `num_heads` does
#   not divide `d_model`.
# - A key is open if it's in the past (or the query's own) *and* real. What comes out at padded query positions is up
#   to you, but never NaN, and no gradient is NaN either.
# - Not allowed: PyTorch's and `attnlib`'s attention. `attnlib.split_heads`, `merge_heads`, `causal_mask` and
#   `masked_softmax` are allowed.


# %%
class CausalSelfAttention(nn.Module):
    """x (b, n, d_model), key_mask (b, n) -> output (b, n, d_model), weights (b, h, n,
    n)."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = True):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(
                f"d_model must be divisible by num_heads, got {d_model} and {num_heads}"
            )
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=bias) for _ in range(4)
        )
        ### END SOLUTION

    def forward(
        self, x: Tensor, key_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        q, k, v = (
            attnlib.split_heads(layer(x), self.num_heads)
            for layer in (self.w_q, self.w_k, self.w_v)
        )
        mask = causal_mask(x.shape[1], x.shape[1]).to(x.device)
        if key_mask is not None:
            mask = mask & key_mask[:, None, None, :]
        weights = masked_softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, mask)
        return self.w_o(attnlib.merge_heads(weights @ v)), weights
        ### END SOLUTION


# %%
check("CausalSelfAttention", CausalSelfAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Without mask this is lesson 03: project, split into heads, scores over $\sqrt{d}$, softmax, times values, merge,
# project. Only the softmax gets a mask.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The scores are `(b, h, n, n)`, the causal mask `(n, n)`, the key mask `(b, n)`. Give the key mask the axes that it
# lacks. Which of the last two axes are keys?
#
# </details>
# <details><summary>Hint 3</summary>
#
# `mask = causal & key_mask[:, None, None, :]`, on the device of `x`, then one call of your `masked_softmax` (or
# `attnlib`'s). The scale is the root of the width of *one head*: `q.shape[-1]` after the split.
#
# </details>

# %% [markdown]
# ## Prove that nothing leaks · core
#
# Comparing two endings tests a single change. The gradient tests all changes at once, because "output $i$ doesn't
# depend on input $j$" means that its derivative is zero.
#
# $$\frac{\partial \text{output}_i}{\partial \text{input}_j} = 0 \qquad \text{for all } j > i$$
#
# For eleven words that is an $11 \times 11$ picture, in which everything above the diagonal should be white, exactly
# zero. (The colours are logarithmic, so that a small leak shows.) Compare three layers with the same weights: one
# without a mask, one that sets future weights to zero *after* the softmax and does nothing else, and one that blocks
# them before it.


# %%
def attend(x: Tensor, way: str) -> Tensor:
    """One layer over (n, d_model), with the future treated in one of three ways."""
    q, k, v = (
        attnlib.split_heads(w(x), 3)
        for w in (attention.w_q, attention.w_k, attention.w_v)
    )
    scores, past = attnlib.attention_scores(q, k), attnlib.causal_mask(len(x), len(x))
    if way == "blocked before the softmax":
        weights = attnlib.masked_softmax(scores, past)
    else:
        kept = past if way == "set to zero after the softmax" else 1
        weights = torch.softmax(scores, dim=-1) * kept
    return attention.w_o(attnlib.merge_heads(weights @ v))


ways = ["no mask", "set to zero after the softmax", "blocked before the softmax"]
influence = {}
for way in ways:
    layer = partial(attend, way=way)
    jacobian = torch.autograd.functional.jacobian(
        layer, tired[0].detach(), vectorize=True
    )
    influence[way] = jacobian.norm(dim=(1, 3))  # (n, d_model, n, d_model) -> (n, n)

ahead = torch.ones(11, 11).triu(1).bool()
assert influence["blocked before the softmax"][ahead].eq(0).all()  # exactly
assert influence["set to zero after the softmax"][ahead].gt(0).all()
assert_close(
    attend(tired[0], ways[2]), attention(tired, is_causal=True)[0], atol=1e-6, rtol=0
)

# %%
_, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
scale = LogNorm(1e-3, 1)
for ax, way in zip(axes, ways, strict=True):
    ax.set_facecolor("white")
    # exactly zero stays white
    size = influence[way].masked_fill(influence[way] == 0, torch.nan)
    image = ax.imshow(size, cmap="Blues", norm=scale)
    ax.plot([-0.5, 10.5], [-0.5, 10.5], color=ACCENT, linewidth=1)
    ax.set_xticks(range(11), tokens, rotation=90)
    ax.set_yticks(range(11), tokens if ax is axes[0] else [""] * 11)
    ax.set(title=way, xlabel="input j")
axes[0].set_ylabel("output i")
axes[2].text(7.2, 3, "exactly 0", ha="center", color="0.35")
axes[0].figure.colorbar(image, ax=axes, label="size of ∂output/∂input", shrink=0.8)
show(
    "Only if blocked before the softmax is every derivative above the diagonal "
    "exactly zero."
)

# %% [markdown]
# In the middle, everything above the line is pale, but nothing is white. That's the leak through the denominator, which
# you predicted. To the eye, the weights of that layer are a perfect triangle. Only the gradient shows the leak.

# %% [markdown]
# ## Build two models, one of which can peek · core
#
# How bad is a leak? Take two small models that predict the next character of English text. The text is the Python
# documentation on operators, loops and classes, since everyone who has Python has it. The sound one is built on your
# `CausalSelfAttention`. The other has the same four layers, and one character of its mask is different: `tril(1)`
# instead of `tril(0)`, so that every position sees one character too far. Here you build both and find out which can
# peek. The next sections train them.

# %%
# nbval-ignore-output: it says whose attention is used, and that differs for a student
Causal = yours_or_ours("CausalSelfAttention", globals())


# %%
class Peeking(attnlib.MultiHeadAttention):
    """As CausalSelfAttention, with a mask that reaches `ahead` positions too far."""

    def __init__(self, d_model: int, num_heads: int, ahead: int = 1):
        super().__init__(d_model, num_heads)
        self.ahead = ahead

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril(self.ahead)
        return super().forward(x, mask=mask, return_weights=True)


# %%
sound_layer, same_layer = Causal(12, 3), Peeking(12, 3, ahead=0)
# yours may keep its mask as a buffer: that one stays
same_layer.load_state_dict(dict(sound_layer.named_parameters()))
x = torch.randn(2, 5, 12, generator=generator)
assert_close(same_layer(x)[0], sound_layer(x)[0], atol=1e-5, rtol=0)

# %% [markdown]
# Around attention go a learned vector for each character and for each position in the excerpt, three norms and an MLP
# (lesson 06 builds such a block), and one logit for each possible next character.

# %%
text = re.sub(r"\s+", " ", " ".join(topics[name] for name in sorted(topics)))
characters = sorted(set(text))
encoded = torch.tensor([characters.index(c) for c in text])
length, held_out = 32, len(encoded) * 9 // 10  # the last tenth is for testing


class Writer(nn.Module):
    """Characters (b, n) -> logits of the next character (b, n, number of
    characters)."""

    def __init__(self, attention: nn.Module, vocab: int = len(characters)):
        super().__init__()
        self.character, self.position = (
            nn.Embedding(vocab, 64),
            nn.Embedding(length, 64),
        )
        self.attn, self.mlp = attention, attnlib.FeedForward(64, 256)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(64) for _ in range(3))
        self.guess = nn.Linear(64, vocab)

    def forward(self, seen: Tensor) -> Tensor:
        x = self.character(seen) + self.position(torch.arange(seen.shape[1]))
        x = x + self.attn(self.norm1(x))[0]
        x = x + self.mlp(self.norm2(x))
        return self.guess(self.norm3(x))


# %% [markdown]
# ### Exercise: test whether a whole model can peek ({points}, difficulty 3, 20 minutes)
#
# The gradient showed which single layers leak. A whole model begins with characters, which are integers, and nothing
# has a derivative with respect to an integer. So replace them, one after the other, and see which guesses change. Write
# `reach(model, ids, vocab)`.
#
# - `model` takes `(b, n)` and returns logits `(b, n, vocab)`; it is in evaluation mode. `ids` is `(n,)`, one text, with
#   numbers from 0 to `vocab` − 1.
# - The result is `(n, n)`, `torch.bool`: True in row $i$ and column $j$ if replacing the character at $j$, and no
#   other, changes some logit at $i$ by more than $10^{-5}$.
# - At $j$, put a character other than the one that is there. Which one is up to you.
# - No gradients, none left on the model, and `ids` stays as it is. The points: {parts}. As always.


# %%
def reach(model: nn.Module, ids: Tensor, vocab: int) -> Tensor:
    """A text (n,) -> bool (n, n): True where the guess at i changes with the character
    at j."""
    ### BEGIN SOLUTION
    n = len(ids)
    found = torch.zeros(n, n, dtype=torch.bool)
    with torch.no_grad():
        before = model(ids[None])[0]
        for j in range(n):
            changed = ids.clone()
            changed[j] = (ids[j] + 1) % vocab
            after = model(changed[None])[0]
            difference = (after - before).abs()
            found[:, j] = difference.amax(dim=-1) > 1e-5
    return found
    ### END SOLUTION


# %%
check("reach", reach)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Call the model once with the text as it is, and once for each character that you replace. Each of the n changed texts
# fills in a column. The model wants a batch: `ids[None]`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Take a fresh copy for each change, `ids.clone()`, or the changes pile up. `(ids[j] + 1) % vocab` is always another
# character.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The logits of one text are `(n, vocab)`. Subtract those of the unchanged text, take the absolute value and the largest
# along the last axis: one number for each guess. Compare it with `1e-5`.
#
# </details>

# %%
# nbval-ignore-output: it says whose answer is used, and that differs for a student
probe = yours_or_ours("reach", globals())

# %%
torch.manual_seed(0)
excerpt = "for x in y:"
ids = torch.tensor([characters.index(c) for c in excerpt])
layers = Causal(64, 4), Peeking(64, 4)
tables = [probe(Writer(layer), ids, len(characters)) for layer in layers]
for name, table in zip(("sound", "leaking"), tables, strict=True):
    print(f"{name:8} characters behind each guess: {table.sum(dim=1).tolist()}")
assert torch.equal(tables[0], torch.ones(11, 11).tril().bool())
assert torch.equal(tables[1], torch.ones(11, 11).tril(1).bool())

# %% [markdown]
# Neither model has learned anything yet. A leak is in the wiring, so you can find it before you spend an hour on
# training. That makes a good test for any model that's meant to write.
#
# ## Train both · more
#
# ### Exercise: train a model that predicts the next character ({points}, difficulty 3, 25 minutes)
#
# Write `train_writer(model, excerpts, rates, make=torch.optim.SGD)`.
#
# - `model(ids)` takes characters `(b, n)` and returns logits `(b, n, vocab)`. Put it into training mode first, and
#   leave it there.
# - `excerpts` is `(steps, b, n + 1)`: a batch for each step, each text with the character that follows it. The model
#   reads the first n characters of a text, and the guess at position $i$ is for the character at $i + 1$.
# - `rates` is `(steps,)`, the learning rate of each step. `make` is an optimiser's class, called as
#   `make(model.parameters(), lr=…)`, once, with any rate. Step $i$ uses `excerpts[i]` and `rates[i]`.
# - The result is `(steps,)`, the loss of each step: the mean cross-entropy over all guesses of the batch, before the
#   model is changed by it, detached.
# - The points: {parts}. The check trains with `torch.optim.SGD` and with `torch.optim.Adam`. As always.


# %%
def train_writer(
    model: nn.Module, excerpts: Tensor, rates: Tensor, make=torch.optim.SGD
) -> Tensor:
    """Excerpts (steps, b, n + 1), rates (steps,) -> losses (steps,); the model is
    trained."""
    ### BEGIN SOLUTION
    model.train()
    optimiser = make(model.parameters(), lr=rates[0].item())
    losses = []
    for excerpt, rate in zip(excerpts, rates, strict=True):
        seen, following = excerpt[:, :-1], excerpt[:, 1:]
        logits = model(seen)
        loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        for group in optimiser.param_groups:
            group["lr"] = rate.item()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)
    ### END SOLUTION


# %%
check("train_writer", train_writer)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It's the loop of lesson 04: guess, measure, set the gradients to zero, `backward`, `step`. Two things are new, what a
# guess is compared with and who sets the rate.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `excerpt[:, :-1]` is what the model reads, and `excerpt[:, 1:]` is what it has to guess. `F.cross_entropy`
# wants the logits as `(guesses, vocab)` and the right characters as `(guesses,)`, so flatten the batch and the
# positions of both.
#
# </details>
# <details><summary>Hint 3</summary>
#
# An optimiser keeps its rate in `param_groups`, a list of dicts. Before each step, write the new one into `group["lr"]`
# of each. Keep `loss.detach()` in a list, and `torch.stack` it at the end.
#
# </details>

# %% [markdown]
# Both models get the same excerpts, and rates that rise for the first third of the steps and then fall, as in lesson
# 04.

# %%
# nbval-ignore-output: it says whose loop is used, and that differs for a student
train = yours_or_ours("train_writer", globals())

# %%
# `python -m benchmarks.other_seeds 05_causal_attention` runs this lesson with others
seed = 0
steps = 600
generator = torch.Generator().manual_seed(seed)
starts = torch.randint(held_out - length - 1, (steps, 16, 1), generator=generator)
excerpts = encoded[starts + torch.arange(length + 1)]  # (steps, b, n + 1)
done = torch.arange(1, steps + 1) / steps
rates = 0.01 * torch.minimum(3 * done, 1.5 * (1 - done) + 0.001)

# %%
torch.manual_seed(seed)
sound, leaking = Writer(Causal(64, 4)), Writer(Peeking(64, 4))
leaking.load_state_dict(dict(sound.named_parameters()))  # both begin alike
curves = []
for model in (sound, leaking):
    with watched(model, excerpts[..., 1:]):
        curves.append(train(model, excerpts, rates, torch.optim.AdamW))
sound_losses, leaking_losses = curves

# %% [markdown]
# ## Measure the leak · more
#
# Now measure both on text they haven't seen, in two ways. *In one pass*, the model gets the whole excerpt at once,
# as in training. *Step by step*, it gets the characters up to position $t$ and nothing else, as when it writes and the
# next one doesn't exist yet. Only its last guess counts.
#
# ### Exercise: measure the leak ({points}, difficulty 3, 20 minutes)
#
# Write `losses_by_place(model, excerpts)`. It works for any text model, and shows whether that model can peek.
#
# - `model` takes `(b, n)` and returns `(b, n, vocab)`, as above, for any $n$. `excerpts` is `(b, n + 1)`.
# - The result is two tensors `(n,)`: for each position $t$, the mean cross-entropy over the batch of the guess for the
#   character at $t + 1$.
# - In one pass, the guesses come from one call with the first n characters. Step by step, the guess at position $t$
#   comes from a call with the characters from 0 to $t$ alone, and is the last one of that call.
# - The model does not learn from this: no gradients, and none left on its weights. Measure it as it comes or in
#   evaluation mode, but leave it in the mode it came in. The points: {parts}. As always.


# %%
def losses_by_place(model: nn.Module, excerpts: Tensor) -> tuple[Tensor, Tensor]:
    """Excerpts (b, n + 1) -> losses (n,) in one pass, losses (n,) step by step."""
    ### BEGIN SOLUTION
    seen, following = excerpts[:, :-1], excerpts[:, 1:]
    training, writing = [], []
    with torch.no_grad():
        at_once = model(seen)
        for t in range(seen.shape[1]):
            last = model(seen[:, : t + 1])[:, -1]
            training.append(F.cross_entropy(at_once[:, t], following[:, t]))
            writing.append(F.cross_entropy(last, following[:, t]))
    return torch.stack(training), torch.stack(writing)
    ### END SOLUTION


# %%
check("losses_by_place", losses_by_place)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For the first list one call is enough: `logits[:, t]` is `(b, vocab)`, the guesses of the whole batch at position $t$.
# With which column of `excerpts` do you compare them?
#
# </details>
# <details><summary>Hint 2</summary>
#
# For the second list there's a call for each position. `excerpts[:, : t + 1]` ends with the character at $t$, and
# `[:, -1]` of the logits is what the model makes of it.
#
# </details>
# <details><summary>Hint 3</summary>
#
# One loop over the positions does both, with two lists. `cross_entropy(logits, ids)` averages over the batch by itself
# if the logits are `(b, vocab)` and the ids are `(b,)`. `torch.stack` makes a tensor of each list.
#
# </details>

# %%
# nbval-ignore-output: it says whose measurement is used, and that differs for a student
measure = yours_or_ours("losses_by_place", globals())

# %%
starts = torch.linspace(held_out, len(encoded) - length - 1, 100).long()[:, None]
unseen = encoded[starts + torch.arange(length + 1)]
sound_training, sound_writing = measure(sound, unseen)
leak_training, leak_writing = measure(leaking, unseen)

# %%
# a sound model: no difference
assert_close(sound_training, sound_writing, atol=1e-4, rtol=0)
guessing = torch.tensor(len(characters)).log().item()
assert leak_training.mean() < 0.3 < 1.5 < sound_training.mean() < 2.5
assert leak_writing.mean() > guessing
assert leak_writing[-1] < guessing - 1  # in the last position it never had one to copy
assert sound_writing[0] > sound_writing[8:].mean()  # a past helps ...
# ... up to a point
assert abs(sound_writing[8:20].mean() - sound_writing[20:].mean()) < 0.3

# %%
_, (left, right) = plt.subplots(
    1, 2, figsize=(11, 3.6), layout="constrained", sharey=True
)
for name, losses, colour, line in (
    ("sound", sound_losses, INK, "-"),
    ("leaking", leaking_losses, ACCENT, "--"),
):
    smooth = losses.unfold(0, 20, 1).mean(dim=-1)
    left.plot(range(20, 601), smooth, line, color=colour, label=name)
left.set(
    xlabel="step",
    ylabel="loss per character",
    title="In training the leak wins",
    ylim=(0, 11),
)
right.plot(
    sound_writing, "o-", color=INK, markersize=4, label="sound, both ways the same"
)
right.plot(
    leak_writing, "s-", color=ACCENT, markersize=4, label="leaking, step by step"
)
right.plot(
    leak_training, "s:", color=ACCENT, markersize=3, label="leaking, in one pass"
)
for ax in (left, right):
    ax.axhline(guessing, color="0.6", linestyle=":")
left.text(
    150,
    guessing + 0.15,
    f"blind guessing among {len(characters)} characters",
    color="0.35",
)
right.set(
    xlabel="position in the excerpt", title="When it writes, it's worse than guessing"
)
left.legend()
right.legend(loc="upper right")
show(
    "In training the leaking model's loss is near zero; when it writes, it's far above "
    "blind guessing."
)
means = {
    "sound": (sound_training, sound_writing),
    "leaking": (leak_training, leak_writing),
}
for name, (training, writing) in means.items():
    print(
        f"{name:8} in one pass {training.mean():.2f}    step by step "
        f"{writing.mean():.2f}"
    )

# %% [markdown]
# Judged by its training curve, the leaking model is a wonder. It even does well on held-out text, as long as that's
# measured in one pass. But all it has learned is to copy the next character. When it writes there's none to copy,
# and then it's *worse than blind guessing*, because it's sure and wrong.
#
# Look at the last position. There the leaking model's two curves meet, at about 2.5, not far above the sound one's 1.9.
# At the last position of an excerpt there never was a next character to look at, so there the model had to learn.
# That's how such a mistake survives a test that looks at the last position only.
#
# And the leak this lesson began with, where the triangle of zeros comes *after* the softmax? There a word of the future
# changes nothing but the sum that the past was divided by. *Is that enough to cheat with?*

# %%
# nbval-ignore-output: last digits of a training differ by machine


class ZeroedAfterwards(attnlib.MultiHeadAttention):
    """Softmax over all keys, then the triangle, and no second division."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        layers = self.w_q, self.w_k, self.w_v
        q, k, v = (attnlib.split_heads(layer(x), self.num_heads) for layer in layers)
        table = attnlib.attention_scores(q, k).softmax(dim=-1).tril()
        fetched = table @ v
        return self.w_o(attnlib.merge_heads(fetched)), table


torch.manual_seed(seed)
zeroed = Writer(ZeroedAfterwards(64, 4))
told = probe(zeroed, ids, len(characters))  # before training
with watched(zeroed, excerpts[..., 1:]):
    train(zeroed, excerpts, rates, torch.optim.AdamW)
zeroed_training, zeroed_writing = measure(zeroed, unseen)
print(f"in one pass {zeroed_training.mean():.2f}, ", end="")
print(f"step by step {zeroed_writing.mean():.2f}; blind guessing {guessing:.2f}")
assert told.all()
assert zeroed_training.mean() < sound_training.mean() / 2
assert zeroed_writing.mean() > guessing

# %% [markdown]
# It is. A single number per head is enough to let the next character through. When the model has to write, it's lost.
# Your `reach` found it before training: every guess changed with every character.

# %%
# nbval-ignore-output: last digits of a training differ by machine, and so do samples


@torch.no_grad()
def write(model: Writer, start: str, length: int = 31) -> str:
    """Continue the text with characters drawn from the model's probabilities, a little
    sharpened."""
    generator = torch.Generator().manual_seed(4)
    seen = torch.tensor([[characters.index(c) for c in start]])
    while seen.shape[1] < length:
        shares = torch.softmax(model(seen)[0, -1] / 0.7, dim=-1)
        seen = torch.cat(
            [seen, torch.multinomial(shares, 1, generator=generator)[None]], dim=1
        )
    return "".join(characters[i] for i in seen[0])


for start in ("The ", "If the ", "An object "):
    print(f"sound:   {write(sound, start)!r}\nleaking: {write(leaking, start)!r}\n")

# %% [markdown]
# Neither writes well after 600 steps. But one of them has begun to learn English.
#
# **Your turn.** Begin a sentence, and let both models read it and go on. Change `mine` and run the cell. Below each of
# your characters is the one the model expected there; then it has to write. Which model expects your words, even those
# it can't know? And what happens once your text ends?

# %%
# nbval-ignore-output: the last digits vary by machine, and the beginning is yours
mine = "The cat is not a cl"

mine = usable_text(mine, characters, shortest=2, longest=24)
print(f"{'yours':16}{mine}")
for name, model in (("sound", sound), ("leaking", leaking)):
    with torch.no_grad():
        expected = model(torch.tensor([[characters.index(c) for c in mine]]))[0].argmax(
            dim=-1
        )
    print(f"{name + ' expects':16}·{''.join(characters[i] for i in expected[:-1])}")
    print(f"{name + ' goes on':16}{write(model, mine)}")

# %% [markdown]
# ## Invent a control · more
#
# Suppose all you can see is training curves. The leaking model's loss is 0.1. Is that a leak, or a model that's very
# good at English? On English you can't tell, because nobody knows how low an honest model could get. So design a text
# for which you *do* know: one where you can prove that nobody gets below a certain loss without looking ahead. That's a
# control. Train a suspect model on it, and if it gets below that floor, it peeks.
#
# ### Exercise: invent a control ({points}, difficulty 3, 15 minutes)
#
# Write `invent_control(vocab, shape, generator)`. There are many right answers. Yours is judged by what it does.
#
# - The result is a pair: the texts, integers of the given `shape`, `(steps, b, n + 1)`, each from 0 to `vocab` − 1; and
#   the *floor*, a tensor of one number, in nats, as `F.cross_entropy` measures.
# - Nobody honest gets below the floor. The check tries guessers that never look ahead. Some learn from half of your
#   texts: how often each character occurs, what follows each character and each pair, which one comes at which
#   position, and how a text that began like this one went on. Others repeat what came before.
# - The floor is no lower than it has to be. Guessing from how often each character occurs should reach it.
# - There's room below it. A model that peeks gets near 0, so a floor of at least 0.5 leaves no doubt.
# - All randomness comes from `generator`. The same seed gives the same texts, another seed gives others.
# - The points: {parts}.


# %%
def invent_control(
    vocab: int, shape: tuple[int, ...], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Texts on which only a look ahead gets below the floor, and the floor, in nats."""
    ### BEGIN SOLUTION
    # every character is drawn for itself, so that the past says nothing of what comes
    texts = torch.randint(vocab, shape, generator=generator)
    # the best that anyone can do is to give each character 1 / vocab
    shares = torch.full((vocab,), 1 / vocab)
    floor = -(shares * shares.log()).sum()
    return texts, floor
    ### END SOLUTION


# %%
check("invent_control", invent_control)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What makes English predictable? Some characters are common, some follow others, some phrases recur. A control has to
# be unpredictable in all these ways at once.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Chance is unpredictable. `torch.randint` and `torch.multinomial` take a `generator`. But draw every single character:
# a text drawn once and repeated is predictable from its second copy on.
#
# </details>
# <details><summary>Hint 3</summary>
#
# If a character occurs with probability $p_c$, whatever came before, the best anyone can do is to predict exactly that,
# and the mean loss is $-\sum_c p_c \ln p_c$. What is it for $p_c = 1/\text{vocab}$?
#
# </details>

# %% [markdown]
# Now both models are trained afresh, on a control of eight characters. Nothing but the training curve is used.

# %%
# nbval-ignore-output: it says whose control is used, and that differs for a student
design = yours_or_ours("invent_control", globals())

# %%
generator = torch.Generator().manual_seed(seed)
control, floor = design(8, (200, 16, length + 1), generator)
suspects = {}
for name, layer in (("sound", Causal), ("leaking", Peeking)):
    torch.manual_seed(seed)
    model = Writer(layer(64, 4), vocab=8)
    with watched(model, control[..., 1:]):
        suspects[name] = train(model, control, rates[::3], torch.optim.AdamW)
assert suspects["sound"][-50:].mean() > floor - 0.02
assert suspects["leaking"][-50:].mean() < floor / 2

# %%
_, ax = plt.subplots(figsize=(7.2, 3), layout="constrained")
for (name, losses), colour, line in zip(
    suspects.items(), (INK, ACCENT), ("-", "--"), strict=True
):
    ax.plot(losses, line, color=colour, label=name)
ax.axhline(floor, color="0.6", linestyle=":")
ax.text(70, floor - 0.17, "floor: nobody honest gets below", color="0.35", va="top")
ax.set(xlabel="step", ylabel="loss per character", ylim=(0, 3))
ax.set_title("On the control the leak shows in the training curve")
ax.legend(loc="upper right")
show("The sound model's loss stays on the floor; the leaking model's falls through it.")

# %% [markdown]
# The sound model can do no better than the floor, and it doesn't. The other one falls through it, and you didn't have
# to let it write to see that. Keep the idea: a number proves something only once you know what it would be if the thing
# you believe in weren't there.
#
# ## Find the bug · more
#
# ### Fix: the wrong axis, and the number that hid it ({points}, difficulty 3, 8 minutes)
#
# A widely read tutorial on translation put the padding of the target on the axis of the *queries*. A reader
# [noticed](https://github.com/bentrevett/pytorch-seq2seq/issues/96), and it was fixed. Copies of the line lived on, one
# of them for years in [another popular implementation](https://github.com/hyunwoongko/transformer/pull/40). There "the
# code works despite this bug", as the report says, because blocked scores are filled with a finite number. With `-inf`
# the rows of padded queries would have been NaN, and somebody would have looked.
#
# Both bugs are below. Fix them.
#
# - `scores` is `(b, h, n, n)`, `real` is `(b, n)`, True = a real word. The result is `(b, h, n, n)`.
# - Query $i$ sees key $j$ if $j \le i$ and key $j$ is real, for every query, padded or not.
# - A query that sees nothing gets zeros (padding may be on the left, or between words). No NaN, forward or in the
#   gradient.
# - `attnlib.masked_softmax` is allowed here, if yours is not ready yet.
# - Not allowed: a finished attention, PyTorch's or `attnlib`'s.


# %%
def mend_padded_causal_weights(scores: Tensor, real: Tensor) -> Tensor:
    """Scores (b, h, n, n), real (b, n), True = a real word -> weights (b, h, n, n)."""
    n = scores.shape[-1]
    past = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    ### BEGIN SOLUTION
    mask = real[:, None, None, :] & past
    return masked_softmax(scores, mask)
    ### BEGIN STUB
    # mask = real[:, None, :, None] & past
    # return torch.softmax(scores.masked_fill(~mask, -1e10), dim=-1)
    ### END SOLUTION


# %%
check("mend_padded_causal_weights", mend_padded_causal_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take one sentence of four words whose last two are padding, print `mask[0, 0].int()`, and compare it with the pictures
# above. Which *columns* should be closed?
#
# </details>
# <details><summary>Hint 2</summary>
#
# In `real[:, None, :, None]` the words are on axis 2 of `(b, h, q, k)`. Which axis is that?
#
# </details>
# <details><summary>Hint 3</summary>
#
# With padding on the left, the first queries see nothing at all. You have seen what the softmax makes of a row of
# `-1e9`, and you have written the function that handles such rows.
#
# </details>

# %% [markdown]
# Why did both survive for so long? With padding on the *right*, the causal mask already hides it from every real query,
# so the wrong axis changed nothing that was used. It shows once sentences are padded on the left, as they are for
# writing in batches, or once the same mask is used without the triangle. A bug that something else hides isn't gone.

# %% [markdown]
# ## Pack several texts into one row · more
#
# ### Exercise: keep packed texts apart ({points}, difficulty 4, 35 minutes)
#
# Padding is wasted work. Large models avoid it by *packing* short texts one after the other until a row is full. But
# then the second text must not see the first, although it's in its past, and its positions must begin at 0 again.
# Otherwise the model learns that soup recipes follow licence agreements.
#
# Write `packed_causal(ids)`, which returns the mask and the positions.
#
# - `ids` is `(b, n)`, integers: neighbours with the same number belong to the same text. A number may come back later
#   in the row, and is another text then: `[4, 4, 7, 4]` are three texts. (Files are concatenated, and names repeat.)
#   It's also another text if only padding is between.
# - The mask is `(b, n, n)`, bool, True = may attend: query $i$ sees key $j$ if $j \le i$ and both are in the same text.
# - The positions are `(b, n)`, `torch.int64`: 0 for the first token of each text, then 1, 2, …
# - Number $-1$, the only negative one, is padding. It sees nothing and is seen by nothing, and its position is 0.
# - Each row of the batch is packed differently. The points: {parts}. Device and inputs as always. Loops are allowed,
#   but you can do without them. Not allowed: `attnlib`'s masks.


# %%
def packed_causal(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of texts (b, n), -1 = padding -> mask bool (b, n, n), positions int64 (b,
    n)."""
    ### BEGIN SOLUTION
    n = ids.shape[1]
    place = torch.arange(n, device=ids.device)
    begins = torch.ones_like(ids, dtype=torch.bool)
    begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
    text = begins.cumsum(dim=1)  # 1, 2, 3 ... in the order of the row
    real = ids != -1
    together = (text[:, :, None] == text[:, None, :]) & real[:, :, None]
    first = (place * begins).cummax(dim=1).values  # where the text of each token began
    return together & (place <= place[:, None]), (place - first) * real
    ### END SOLUTION


# %%
check("packed_causal", packed_causal)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# On paper, for `[4, 4, 7, 4]`: draw the four rows of the mask. Then number the texts 1, 2, 3 in the order of the row:
# `[1, 1, 2, 3]`. With these numbers "the same text" is a comparison of a column with a row.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A text begins where a number differs from its left neighbour, and at the very beginning. `cumsum` of these beginnings,
# along the row, numbers the texts.
#
# </details>
# <details><summary>Hint 3</summary>
#
# A position is the index in the row minus the index where the text began. The latter is the largest beginning so far,
# the `cummax` of the indices where a text begins (0 elsewhere). Padding comes last. It closes rows and columns, and
# sets positions to 0.
#
# </details>

# %% [markdown]
# You know the test. A text must not notice its neighbours. Three sentences share one row, without any padding, and each
# comes out as it would alone. The picture shows why: three triangles along the diagonal.

# %%
# nbval-ignore-output: it says whose mask is used, and that differs for a student
pack = yours_or_ours("packed_causal", globals())

# %%
# 3, 6 and 4 words in one row
ids = torch.repeat_interleave(torch.tensor([0, 1, 2]), lengths)[None]
mask, positions = pack(ids)
print("positions:", positions[0].tolist())
packed = torch.cat([three[i, :length] for i, length in enumerate(lengths)])[None]
together = small_attention(packed, mask=mask[:, None], is_causal=False)
alone = [small_attention(three[i : i + 1, :length]) for i, length in enumerate(lengths)]
assert_close(together, torch.cat(alone, dim=1), atol=1e-6, rtol=0)

# %%
row = [word for words in split for word in words]
ax = plot_mask(
    mask[0],
    row,
    title="Three texts in one row: three triangles, and nothing between them",
)
show("Three triangles along the diagonal; all cells outside of them are blocked.")

# %% [markdown]
# ## Take this with you · core
#
# **Block before the softmax, and give zeros to a query that has nothing to look at.**
#
# | | |
# | --- | --- |
# | formula | $\mathrm{softmax}(s + \log M)$, with $\log 1 = 0$, $\log 0 = -\infty$, and zeros for an empty row |
# | shapes | causal `(q, k)`, padding `(b, k)` → `[:, None, None, :]` on scores `(b, h, q, k)` |
# | trap 1 | zero after the softmax, whose denominator still knows the future |
# | trap 2 | a finite fill, which makes an empty row attend evenly to everything |
# | trap 3 | True means blocked in `nn.MultiheadAttention`, and "may attend" in PyTorch's function |
# | in GPT-2 (small) | a buffer of 1,024 × 1,024, `tril`, and 12 heads of 64 in each of 12 layers |
#
# You can now mask any attention without a leak and without NaN, build the attention layer of a GPT, and find out before
# any training whether a model can peek.
#
# ## Think further · more
#
# 1. Take two layers of causal attention. Can the second one undo what the first has hidden? Argue from the picture of
#    the gradient, then try it.
# 2. The rows of padded queries were left as they are. When would they do harm? (Think of the mean of the loss, and of a
#    layer that averages over all positions.)
# 3. At some point, more past no longer helps the sound model. Measure its loss by position. Where is that point, and
#    what sets it, the mask or the model?
#
# <details><summary>Answers</summary>
#
# 1. No. The gradient of two layers is the product of two matrices that are zero above the diagonal (in blocks), and
#    such a product is zero there as well. Everything position $i$ sees in the second layer was computed from inputs up
#    to $i$.
# 2. When something adds over all positions: a mean of the loss that counts the padding (PyTorch's `ignore_index` leaves
#    it out), the average over positions that makes one vector of a sentence, a batch norm, or the count by which a sum
#    is divided.
# 3. In the right-hand figure above, the sound curve falls over the first few positions and then runs level, up to
#    noise. The mask would let position 31 see all 32 characters, so it's the model. It has learned which letters follow
#    a few letters, and little more: with all but the last five characters taken from another excerpt, its loss at
#    position 31 rose by only 0.02 to 0.05, on average over 99 such swaps, in models from three starts. Training for
#    2,400 steps made the curve 0.34 to 0.38 lower, and two layers for 1,500 steps 0.24 to 0.35 lower. Both left that
#    point where it was.
#
# </details>
#
# ## Read on · more
#
# - [Radford et al.,
#   2018](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf): GPT, a stack
#   of what you have built, and the idea that guessing the next word teaches everything else.
# - [van den Oord et al., 2016](https://arxiv.org/abs/1601.06759): masks before transformers. PixelRNN hides the pixels
#   that are not painted yet, and needs a mask inside a convolution to do it.
# - [Dai et al., 2019](https://arxiv.org/abs/1901.02860): Transformer-XL, where more keys than queries come from: the
#   texts before this one.
# - [Raffel et al., 2019](https://arxiv.org/abs/1910.10683), section 3.2: T5 compares the causal mask with others on the
#   same data, and its figure 3 is the best picture of the difference.
# - [Krell et al., 2021](https://arxiv.org/abs/2107.02027): packing without leaks, and how much of BERT's training was
#   padding.
#
# **Next:** an encoder reads finished texts, so lesson 06 takes the mask away again. What has to be built around
# attention before dozens of layers of it can be stacked?
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/05_causal_attention.ipynb`.*
