# %% [markdown]
# # 10 · Flash attention: never write the table down
#
# Attention compares every word with every word. For a text of 100,000 words that is a table of ten billion weights: 40
# GB, for one head of one layer. Yet models read texts of that length, some of them on a laptop. They compute the very
# same numbers, but the table is never there. In this lesson you write the algorithm that does it.
#
# | | |
# | --- | --- |
# | **You will build** | a softmax that reads its row once, a merge of two halves, attention in tiles, its gradient |
# | **You will understand** | what is kept in place of the table, what that saves, and what it does not save |
# | **You need** | the stable softmax of lesson 02, the causal mask of lesson 05, a pencil, about two hours |
#
# At the end the language model of lesson 09 trains through your own functions, and the table is gone from it.

# %%
import itertools
import math
import os
import time
from types import SimpleNamespace

import torch

# for the last section: where there is Triton and no GPU, its interpreter
os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")

import matplotlib.pyplot as plt
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import usable_number
from attnlib.plot import ACCENT, GREY, INK, PALE, show, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 10_flash_attention` runs this lesson with others
seed = 0

# %% [markdown]
# ## Count what is made
#
# How much memory does attention take? The memory of the process is not a good answer: it also holds PyTorch, and freed
# memory is not given back at once. Two other numbers are exact, and the same on every machine: the largest tensor that
# any operation makes, and the bytes that autograd keeps for the backward pass. PyTorch lets you watch both. A *dispatch
# mode* sees each operation and what it makes:


# %%
class Watched(TorchDispatchMode):
    """Note the bytes of the largest tensor that any operation makes."""

    largest = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        tensors = made if isinstance(made, (tuple, list)) else [made]
        self.largest = max(
            [self.largest, *(x.nbytes for x in tensors if isinstance(x, Tensor))]
        )
        return made


def largest_tensor(call, *inputs: object) -> int:
    """The bytes of the largest tensor that call(*inputs) makes."""
    with Watched() as watched:
        call(*inputs)
    return watched.largest


# %% [markdown]
# And whatever autograd keeps for the backward pass goes through a *hook*, a function that you may supply:


# %%
def bytes_kept(call, *inputs: object) -> int:
    """The bytes that autograd keeps for the backward pass of call(*inputs)."""
    kept = {}

    def note(tensor: Tensor) -> Tensor:
        # two views count once
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        call(*inputs)
    return sum(kept.values())


# %% [markdown]
# Here is attention as in lesson 02, with the whole table of scores and the whole table of weights:


# %%
def naive_attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """Attention by way of the table (…, n, n)."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        scores = scores.masked_fill(
            ~attnlib.causal_mask(q.shape[-2], k.shape[-2]), -torch.inf
        )
    return scores.softmax(dim=-1) @ v


# %% [markdown]
# Put it beside PyTorch's own function, for one head and 2048 words.

# %%
torch.manual_seed(seed)
q, k, v = (torch.randn(1, 1, 2048, 16, requires_grad=True) for _ in range(3))
assert_close(F.scaled_dot_product_attention(q, k, v), naive_attention(q, k, v))
print(f"2048 words, one head 16 wide; the result has {v.nbytes / 1000:.0f} kB")
table, fused = (
    largest_tensor(attend, q, k, v)
    for attend in (naive_attention, F.scaled_dot_product_attention)
)
print(f"your attention so far: largest tensor {table / 1000:,.0f} kB, ", end="")
print(f"kept {bytes_kept(naive_attention, q, k, v) / 1000:,.0f} kB")
print(f"PyTorch's function:    largest tensor {fused / 1000:,.0f} kB, ", end="")
print(f"kept {bytes_kept(F.scaled_dot_product_attention, q, k, v) / 1000:,.0f} kB")
assert table == 2048 * 2048 * 4
assert fused < table / 50

# %% [markdown]
# The same result, and no tensor larger than the result itself. What does it know that we do not?
#
# ## Read a row once
#
# To turn a row of scores into weights, a softmax needs the sum of their exponentials, so it seems to need the whole row
# before it can begin. Suppose that the scores come in blocks, and each block is gone when the next one arrives. Keep
# two numbers: the largest score so far, $m$, and the sum so far, $l = \sum_j e^{s_j - m}$. (The letters are the
# papers'. In lesson 02 $l$ was an index.) When a block brings a larger score $m'$, all terms of the old sum are too
# large by the same factor, so a single multiplication puts them right:
#
# $$e^{s_j - m'} = e^{s_j - m} \cdot e^{m - m'}$$
#
# By hand, with scores 1, 3 in the first block and 2, 5 in the second:
#
# | | $m$ | $l$ |
# | --- | --- | --- |
# | after 1, 3 | 3 | $e^{1-3} + e^{3-3} = 0.135 + 1 = 1.135$ |
# | the old sum, rescaled | 5 | $1.135 \cdot e^{3-5} = 1.135 \cdot 0.135 = 0.154$ |
# | after 2, 5 | 5 | $0.154 + e^{2-5} + e^{5-5} = 0.154 + 0.050 + 1 = 1.203$ |
#
# And in one go: $e^{-4} + e^{-2} + e^{-3} + e^{0} = 0.018 + 0.135 + 0.050 + 1 = 1.203$.
#
# ### Exercise: sum up a softmax block by block ({points}, difficulty 3, 15 minutes)
#
# Write `online_softmax(blocks)`.
#
# - `blocks` is an iterator of scores, each `(…, k)` with its own $k$. It gives every block once, from left to right;
#   there is at least one, and the iterator has no length.
# - Return `m` and `l`, both `(…)`: the largest score of each row, and $\sum_j e^{s_j - m}$.
# - A score of −inf is a closed key. Where all keys so far are closed, $m$ is −inf and $l$ is 0. Nothing becomes NaN.
# - Never hold more than one block: neither keep the blocks nor join them. (A loop's variable still holds the last block
#   while the next is made. That is fine.)
# - Scores may be ±10,000. Dtype and device as always; no gradient is needed.


# %%
def online_softmax(blocks) -> tuple[Tensor, Tensor]:
    """Blocks of scores (…, k), one after another -> largest score (…) and sum of exp(s - m) (…)."""
    ### BEGIN SOLUTION
    m = l = None
    for block in blocks:
        if m is None:
            m = torch.full_like(block[..., 0], -torch.inf)
            l = torch.zeros_like(m)
        new = torch.maximum(m, block.amax(dim=-1))
        base = torch.where(new == -torch.inf, 0.0, new)  # -inf - (-inf) would be NaN
        l = (m - base).exp() * l + (block - base[..., None]).exp().sum(dim=-1)
        m = new
    return m, l
    ### END SOLUTION


# %%
check("online_softmax", online_softmax)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# In the loop: the new largest score is the larger one of the old $m$ and of the block's own, `block.amax(dim=-1)`.
# First rescale the old sum to it. Then add the terms of the block, computed with the new $m$.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Start with $m = -\infty$ and $l = 0$, made like `block[..., 0]`. The factor for the old sum is then
# $e^{-\infty - m'} = 0$, and the first block needs no special case.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Only one thing can go wrong: a first block that is closed. Then old and new $m$ are both −inf, and their difference is
# NaN. Subtract something finite there, `torch.where(new == -torch.inf, 0.0, new)`: the exponents stay −inf, and the
# terms stay 0.
#
# </details>

# %%
in_blocks = yours_or_ours("online_softmax", globals())

m, l = in_blocks(iter([torch.tensor([1.0, 3.0]), torch.tensor([2.0, 5.0])]))
print(f"m = {m.item():.0f}, l = {l.item():.3f}; by hand 5 and 1.203")
assert_close(torch.stack([m, l]), torch.tensor([5, 1.203]), atol=5e-4, rtol=0)

# %% [markdown]
# However you cut the row, $m + \ln l$ is the logarithm of the sum of all $e^{s}$, the *log-sum-exp*. Here are rows of
# 1000 scores around ±10,000, of which the first 300 are closed, in four different cuts:

# %%
torch.manual_seed(seed)
scores = 1e4 * torch.randn(5, 1000, dtype=torch.float64)
scores[:, :300] = -torch.inf
for size in (1, 7, 300, 1000):
    m, l = in_blocks(iter(scores.split(size, dim=-1)))
    assert_close(m + l.log(), scores.logsumexp(dim=-1))

# %% [markdown]
# How much does the rescaling matter? Sort each row, so that every block brings a larger score, and leave it out:

# %%
rising = torch.randn(5, 1000, dtype=torch.float64).sort(dim=-1).values
blocks = rising.split(100, dim=-1)
m, l = in_blocks(iter(blocks))
not_rescaled = sum((block - block[:, -1:]).exp().sum(dim=-1) for block in blocks)
print(
    f"l, in blocks of 100: {l[0]:.1f}; if the old sums were not rescaled: {not_rescaled[0]:.1f}"
)
assert_close(l, (rising - m[:, None]).exp().sum(dim=-1))
assert (not_rescaled > 2 * l).all()

# %% [markdown]
# Milakov and Gimelshein published this as the online softmax in 2018. They wanted to save one of the passes over the
# row.
#
# ## Take the values along
#
# Nobody needs the weights themselves. What we want is $\sum_j w_j v_j$, and that sum can be built up in the same way:
# $o = \sum_j e^{s_j - m} v_j$ is in the same unit as $l$, so the same factor puts it right. At the end the result is
# $o / l$. By hand again, with the values 10, 20 and 30, 40:
#
# | | $m$ | $l$ | $o$ |
# | --- | --- | --- | --- |
# | after 1, 3 | 3 | 1.135 | $0.135 \cdot 10 + 1 \cdot 20 = 21.353$ |
# | rescaled by $e^{3-5} = 0.135$ | 5 | 0.154 | $0.135 \cdot 21.353 = 2.890$ |
# | after 2, 5 | 5 | 1.203 | $2.890 + 0.050 \cdot 30 + 1 \cdot 40 = 44.383$ |
#
# The result is $44.383 / 1.203 = 36.88$. At no point was there a row of four weights.
#
# ### Fix: attention in one pass ({points}, difficulty 3, 8 minutes)
#
# The function below was written in a hurry, and has two mistakes. One shows whenever a later block has a larger score
# than an earlier one; the other only where a row begins with closed keys. Fix both.
#
# - `scores` is `(…, k)`, `v` is `(…, k, d)`, and the result is `(…, d)`: softmax of the scores, times the values.
# - `block_size` need not divide $k$. In every row at least one key is open.


# %%
def attend_in_blocks(scores: Tensor, v: Tensor, block_size: int) -> Tensor:
    """Scores (…, k) and values (…, k, d), one block of keys after another -> (…, d)."""
    m = torch.full_like(scores[..., 0], -torch.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(v[..., 0, :])
    for start in range(0, scores.shape[-1], block_size):
        block = scores[..., start : start + block_size]
        new = torch.maximum(m, block.amax(dim=-1))
        ### BEGIN SOLUTION
        base = torch.where(new == -torch.inf, 0.0, new)
        shrink, terms = (m - base).exp(), (block - base[..., None]).exp()
        l = shrink * l + terms.sum(dim=-1)
        ### BEGIN STUB
        # shrink, terms = (m - new).exp(), (block - new[..., None]).exp()
        # l = l + terms.sum(dim=-1)
        ### END SOLUTION
        o = shrink[..., None] * o + (
            terms[..., None] * v[..., start : start + block_size, :]
        ).sum(dim=-2)
        m = new
    return o / l[..., None]


# %%
check("mend_online", attend_in_blocks)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go through the table by hand with the code beside it: which of $m$, $l$ and $o$ is not what the table says after the
# second block?
#
# </details>
# <details><summary>Hint 2</summary>
#
# For the other mistake, take a first block of −inf, −inf. What are `m`, `new` and `m - new`?
#
# </details>

# %%
one_pass = yours_or_ours("mend_online", globals(), called="attend_in_blocks")

row, values = torch.tensor([1.0, 3, 2, 5]), torch.tensor([[10.0], [20], [30], [40]])
at_once = row.softmax(dim=-1) @ values
assert_close(one_pass(row, values, 2), at_once)
assert_close(at_once, torch.tensor([36.88]), atol=0.005, rtol=0)
print(
    f"block by block: {one_pass(row, values, 2).item():.2f}; all at once: {at_once.item():.2f}"
)

# %%
_, ax = plt.subplots(figsize=(9, 2.7), layout="constrained")
ax.set(
    xlim=(0, 9.2),
    ylim=(0, 2.5),
    title="Three numbers go along; when m grows, l and o shrink together",
)
ax.axis("off")
boxes = [
    (0.1, "scores 1, 3\nvalues 10, 20", PALE, INK),
    (2.0, "m = 3\nl = 1.135\no = 21.35", "white", INK),
    (4.1, "m = 5\nl = 0.154\no = 2.89", "white", ACCENT),
    (6.2, "m = 5\nl = 1.203\no = 44.38", "white", INK),
    (8.0, "o / l\n= 36.88", PALE, INK),
]
for left, text, colour, edge in boxes:
    ax.text(
        left + 0.5,
        1.9,
        text,
        ha="center",
        va="center",
        bbox={"boxstyle": "round,pad=0.5", "fc": colour, "ec": edge},
    )
ax.text(
    5.65,
    0.5,
    "scores 2, 5\nvalues 30, 40",
    ha="center",
    va="center",
    bbox={"boxstyle": "round,pad=0.5", "fc": PALE, "ec": INK},
)
for start, end, y in (
    (1.25, 1.95, 1.9),
    (3.1, 4.0, 1.9),
    (5.2, 6.05, 1.9),
    (7.35, 7.95, 1.9),
):
    ax.annotate("", (end, y), (start, y), arrowprops={"arrowstyle": "->", "color": INK})
ax.annotate(
    "", (5.65, 1.8), (5.65, 0.95), arrowprops={"arrowstyle": "->", "color": INK}
)
ax.text(3.55, 2.15, "· $e^{3-5}$", ha="center", color=ACCENT)
show(
    "Five boxes in a row. The first block makes m = 3, l = 1.135, o = 21.35. With m = "
    "5, l and o shrink by e to the minus 2. The second block is added, and o divided "
    "by l is 36.88."
)

# %% [markdown]
# ## Put two halves together
#
# So far the blocks come one after another. Must they? All there is to know about a part of the keys is in its $o$, $m$
# and $l$. Two such parts can be put together by the rule that you have already used, except that now neither of them is
# the new one: both are rescaled to the larger $m$.
#
# $$m = \max(m_1, m_2) \qquad l = e^{m_1 - m}\, l_1 + e^{m_2 - m}\, l_2 \qquad
# o = e^{m_1 - m}\, o_1 + e^{m_2 - m}\, o_2$$
#
# By hand: part 1 is $(21.353, 3, 1.135)$, as above. Part 2 alone has $m_2 = 5$, $l_2 = 0.050 + 1 = 1.050$ and
# $o_2 = 0.050 \cdot 30 + 40 = 41.494$. Together: $o = 0.135 \cdot 21.353 + 1 \cdot 41.494 = 44.383$, as before.
#
# ### Exercise: merge two parts ({points}, difficulty 3, 15 minutes)
#
# Write `merge(o1, m1, l1, o2, m2, l2)`.
#
# - `o` is `(…, d)`, *not* divided by `l`; `m` and `l` are `(…)`. Both parts belong to the same queries, but to
#   different keys.
# - Return `o`, `m`, `l` of both parts together, with `o` again not divided, so that they can be merged further.
# - A part may be empty in some rows ($m = -\infty$, $l = 0$, $o = 0$), and so may both.
# - As always; no gradient is asked for.


# %%
def merge(
    o1: Tensor, m1: Tensor, l1: Tensor, o2: Tensor, m2: Tensor, l2: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Two parts of the keys, o (…, d), m (…), l (…) -> the same three for both together."""
    ### BEGIN SOLUTION
    m = torch.maximum(m1, m2)
    base = torch.where(m == -torch.inf, 0.0, m)
    first, second = (m1 - base).exp(), (m2 - base).exp()
    return first[..., None] * o1 + second[..., None] * o2, m, first * l1 + second * l2
    ### END SOLUTION


# %%
check("merge", merge)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Give each of the two factors a name. Either of the two largest scores may be the larger one, and its factor is
# $e^0 = 1$. No `if` is needed.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The factors are `(…)` and the outputs `(…, d)`: add one axis at the end, `factor[..., None]`. Where both parts are
# empty, the same trick helps as before.
#
# </details>

# %% [markdown]
# Does the order matter? To find out, cut 60 keys into four parts of different lengths, each with its own $o$, $m$
# and $l$.

# %%
join = yours_or_ours("merge", globals())


def part(scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What some of the keys contribute: scores (q, k), values (k, d) -> o, m, l."""
    m = scores.amax(dim=-1)
    terms = (scores - m[..., None]).exp()
    return terms @ v, m, terms.sum(dim=-1)


# %%
torch.manual_seed(seed)
scores, values = (
    3 * torch.randn(7, 60, dtype=torch.float64),
    torch.randn(60, 5, dtype=torch.float64),
)
whole = scores.softmax(dim=-1) @ values
sizes = [10, 25, 5, 20]
parts = [
    part(s, x)
    for s, x in zip(scores.split(sizes, dim=-1), values.split(sizes), strict=True)
]

# %% [markdown]
# Now put them together in all 24 orders, one after another and in pairs. The control is what you might do without $m$
# and $l$: average the four outputs.

# %%
worst = 0.0
for a, b, c, d in itertools.permutations(parts):
    in_a_row = join(*join(*join(*a, *b), *c), *d)
    in_pairs = join(*join(*a, *b), *join(*c, *d))
    for o, _, l in (in_a_row, in_pairs):
        worst = max(worst, (o / l[..., None] - whole).abs().max().item())
average = sum(o / l[..., None] for o, _, l in parts) / 4
control = (average - whole).abs().max().item()
print(
    f"24 orders, two ways each: off by at most {worst:.0e}; the average of the four: off by {control:.1f}"
)
assert worst < 1e-12
assert control > 0.1

# %% [markdown]
# The merge is *associative* and *commutative*, as a sum is. Three well-known things follow from that alone:
#
# - **Flash attention** merges block after block, on one GPU.
# - **Flash decoding** cuts the long cache of lesson 09 into pieces, lets many processors each read one of them for the
#   same single query, and merges their results.
# - **Ring attention** has each of several machines hold a part of the text. Keys and values are passed around in a
#   ring, and every machine merges them as they come by, in its own order. That is how a model reads a million words at
#   once.
#
# ## Go tile by tile
#
# Now for all queries. Cut the queries into blocks as well, and the table becomes a grid of *tiles*: a block of queries
# against a block of keys. For each block of queries, go through the blocks of keys with $m$, $l$ and $o$. A tile is
# made, used, and thrown away.
#
# ### Predict, then run: how large should a block be? ({points}, difficulty 1, 3 minutes)
#
# A text has $n = 1024$ words. You can use blocks of 1, 64 or 1024 words. Which is true?
#
# - **A**: the smaller the blocks, the less exact the result
# - **B**: a block of 1024 makes the whole table; blocks of 1 need the least room and by far the most time
# - **C**: blocks of 1 need the least room, and the least time as well
# - **D**: all of them need the same room, because the result has the same shape

# %%
### BEGIN SOLUTION
block_size_claim = "B"
### BEGIN STUB
# block_size_claim = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_block_size", block_size_claim)

# %% [markdown]
# ### Exercise: attention without the table ({points}, difficulty 4, 35 minutes)
#
# Write `flash_attention(q, k, v, block_size, is_causal)`.
#
# - `q` and `k` are `(…, n, d)`, `v` is `(…, n, d_v)`, with any number of axes in front. Blocks of queries and blocks of
#   keys have `block_size` words; it need not divide $n$, and may be larger.
# - Return two tensors: the output `(…, n, d_v)`, and for each query the log-sum-exp of its scaled scores, $m + \ln l$,
#   `(…, n)`. You will need it for the gradient.
# - While the blocks are short, no tensor may have $n \times n$ numbers, not even a mask. The check watches the largest
#   one that is made: it may have as many as the scores of all queries with $4 \cdot$ `block_size` keys.
# - With `is_causal`, query $i$ sees the keys 0 to $i$. Tiles that are entirely in the future must be *skipped*, not
#   masked: the check finds out which tiles you visit.
# - Dtype and device as always; no gradient is needed. Not allowed: ready-made attention, PyTorch's or attnlib's.


# %%
def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """q, k (…, n, d), v (…, n, d_v) -> output (…, n, d_v), log-sum-exp (…, n)."""
    ### BEGIN SOLUTION
    n, scale = q.shape[-2], 1 / math.sqrt(q.shape[-1])
    outputs, sums = [], []
    for i in range(0, n, block_size):
        rows = q[..., i : i + block_size, :]
        m = torch.full_like(rows[..., 0], -torch.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(v[..., i : i + block_size, :])
        stop = min(i + block_size, n) if is_causal else n
        for j in range(0, stop, block_size):
            tile = rows @ k[..., j : j + block_size, :].mT * scale
            if is_causal and j == i:  # only the tile on the diagonal is open in part
                tile = tile.masked_fill(
                    ~attnlib.causal_mask(*tile.shape[-2:], device=q.device), -torch.inf
                )
            new = torch.maximum(m, tile.amax(dim=-1))
            shrink, terms = (m - new).exp(), (tile - new[..., None]).exp()
            l = shrink * l + terms.sum(dim=-1)
            o = shrink[..., None] * o + terms @ v[..., j : j + block_size, :]
            m = new
        outputs.append(o / l[..., None])
        sums.append(m + l.log())
    return torch.cat(outputs, dim=-2), torch.cat(sums, dim=-1)
    ### END SOLUTION


# %%
check("flash_attention", flash_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Leave causality out at first. Two loops, over `range(0, n, block_size)` each: the outer one takes a block of queries
# and starts $m$, $l$, $o$ for it; the inner one takes a block of keys and does what `attend_in_blocks` does. The last
# block may be shorter, and slices take care of that.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `attend_in_blocks` had one row, so its values were multiplied and summed. A tile has many rows: that is
# `terms @ v_block`, and the factors need an axis at the end, `shrink[..., None]`. Collect the finished blocks in a
# list, and `torch.cat` them along the words.
#
# </details>
# <details><summary>Hint 3</summary>
#
# With causality there are three kinds of tiles. Before the diagonal: all open. On the diagonal: the mask of lesson 05.
# After it: closed, so let the inner loop end there. Every query can see the first key, so no row starts with a closed
# block, and no guard is needed.
#
# </details>

# %% [markdown]
# Here are five ways to the same numbers, with a block size that does not divide 50. First your function in tiles, with
# and without causality, beside the table, attnlib's function, and PyTorch's:

# %%
flash = yours_or_ours("flash_attention", globals())

torch.manual_seed(seed)
q, k, v = torch.randn(3, 2, 4, 50, 8, dtype=torch.float64).unbind()
for is_causal in (False, True):
    others = (
        naive_attention(q, k, v, is_causal),
        attnlib.tiled_attention(q, k, v, is_causal=is_causal, block_q=16, block_k=16),
        F.scaled_dot_product_attention(q, k, v, is_causal=is_causal),
    )
    for other in others:
        assert_close(flash(q, k, v, 16, is_causal)[0], other, atol=1e-12, rtol=0)

# %% [markdown]
# The fifth way: cut the keys in two halves, and merge them. And the second result, the log-sum-exp, is that of the
# table's rows.

# %%
scores = q @ k.mT / math.sqrt(8)  # (2, 4, 50, 50)
o, _, l = join(
    *part(scores[..., :20], v[..., :20, :]), *part(scores[..., 20:], v[..., 20:, :])
)
assert_close(flash(q, k, v, 16, False)[0], o / l[..., None], atol=1e-12, rtol=0)
open_scores = scores.masked_fill(~attnlib.causal_mask(50, 50), -torch.inf)
assert_close(
    flash(q, k, v, 16, True)[1], open_scores.logsumexp(dim=-1), atol=1e-12, rtol=0
)
print("the table, tiles, two halves, attnlib and PyTorch agree to 12 digits")

# %% [markdown]
# Which tiles does it visit? There is a way to find out from outside. Write NaN into one block of values: it spoils each
# output into which it is multiplied, even with a weight of zero.


# %%
def visited(attend, n: int, size: int) -> Tensor:
    """Which block of queries (rows) has multiplied with which block of keys (columns), bool."""
    q, k, v = torch.randn(3, n, 8).unbind()
    columns = []
    for block in torch.arange(n).split(size):
        output = attend(q, k, v.index_fill(0, block, torch.nan))
        columns.append(torch.stack([rows.isnan().any() for rows in output.split(size)]))
    return torch.stack(columns, dim=1)


# %% [markdown]
# With $T$ blocks, causality should leave $T(T + 1)/2$ of the $T^2$ tiles.

# %%
tiles = visited(lambda q, k, v: flash(q, k, v, 16, True)[0], 128, 16)
masked = visited(lambda q, k, v: naive_attention(q, k, v, True), 128, 16)
print(
    f"8 blocks: {int(tiles.sum())} of 64 tiles visited; with a mask over the whole table: {int(masked.sum())}"
)
assert torch.equal(tiles, attnlib.causal_mask(8, 8))
assert masked.all()

# %%
_, axes = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
for ax, found, title in zip(
    axes,
    (masked, tiles),
    ("A mask computes all 64 tiles", "Tiles: 28 of 64 are never made"),
    strict=True,
):
    kind = found.int() + (found & torch.eye(8, dtype=torch.bool)).int()
    if found.all():
        kind = torch.where(attnlib.causal_mask(8, 8), kind, 3)
    for (i, j), what in zip(
        itertools.product(range(8), range(8)), kind.flatten().tolist(), strict=True
    ):
        colour, hatch = {
            0: ("white", ""),
            1: (INK, ""),
            2: (ACCENT, ""),
            3: (GREY, "///"),
        }[what]
        ax.add_patch(
            plt.Rectangle(
                (j, i), 1, 1, fc=colour, ec="white" if what else GREY, hatch=hatch
            )
        )
    ax.set(
        xlim=(0, 8),
        ylim=(8, 0),
        aspect="equal",
        title=title,
        xlabel="block of keys",
        ylabel="block of queries",
    )
    ax.set_xticks([x + 0.5 for x in range(8)], range(8))
    ax.set_yticks([x + 0.5 for x in range(8)], range(8))
legend = [
    plt.Rectangle((0, 0), 1, 1, fc=INK, label="all open"),
    plt.Rectangle((0, 0), 1, 1, fc=ACCENT, label="open in part"),
    plt.Rectangle(
        (0, 0), 1, 1, fc=GREY, ec="white", hatch="///", label="made, and masked"
    ),
    plt.Rectangle((0, 0), 1, 1, fc="white", ec=GREY, label="skipped"),
]
axes[1].legend(handles=legend, loc="upper left", bbox_to_anchor=(1.02, 1))
show(
    "Two grids of 8 by 8 tiles. Left all are made, 28 of them only to be masked; on "
    "the right those above the diagonal are white: they are skipped. Only the tiles "
    "on the diagonal are open in part."
)

# %% [markdown]
# Now the bill, for texts of 256 to 4096 words.

# %%
lengths = [256, 512, 1024, 2048, 4096]
ways = {
    "the table": naive_attention,
    "in tiles of 64": lambda q, k, v: flash(q, k, v, 64, False)[0],
    "PyTorch": F.scaled_dot_product_attention,
}
texts = [torch.randn(3, 1, 1, n, 16).unbind() for n in lengths]
largest = {
    name: [largest_tensor(attend, *qkv) for qkv in texts]
    for name, attend in ways.items()
}

# %% [markdown]
# On a plot with two logarithmic axes, a cost that grows like $n^2$ is a line with slope 2, and one that grows like $n$
# has slope 1.


# %%
def slope(costs: list[int]) -> float:
    """By which power of n the costs grow, from the last length but one to the last."""
    return math.log(costs[-1] / costs[-2]) / math.log(lengths[-1] / lengths[-2])


print("largest tensor at 4096 words:")
for name, costs in largest.items():
    print(
        f"  {name:15} {costs[-1] / 1000:6,.0f} kB; grows like n to the {slope(costs):.2f}"
    )
assert abs(slope(largest["the table"]) - 2) < 0.01
assert abs(slope(largest["in tiles of 64"]) - 1) < 0.01

# %% [markdown]
# And what does the block size do? From the smallest block to the largest, the room grows from that of the result to
# that of the table.

# %%
block_sizes = [8, 32, 128, 512, 1024]
q, k, v = torch.randn(3, 1024, 16).unbind()
rooms = [largest_tensor(flash, q, k, v, size, False) for size in block_sizes]
print(
    "largest tensor, kB:",
    {size: round(room / 1000) for size, room in zip(block_sizes, rooms, strict=True)},
)
assert rooms[-1] == 1024 * 1024 * 4
assert rooms[0] <= 1024 * 16 * 4
for size in block_sizes:
    assert_close(
        flash(q, k, v, size, False)[0], naive_attention(q, k, v), atol=1e-5, rtol=0
    )

# %% [markdown]
# And the time? Each block size gets two turns, and the faster one counts.


# %%
# nbval-ignore-output: times differ from machine to machine
def milliseconds(size: int) -> float:
    """Processor time of flash_attention in blocks of this size."""
    started = time.process_time()
    flash(q, k, v, size, False)
    return 1000 * (time.process_time() - started)


took = {size: min(milliseconds(size) for _ in range(2)) for size in block_sizes}
print("ms, by block size:", {size: round(ms, 1) for size, ms in took.items()})
assert took[8] > 3 * took[128]

# %% [markdown]
# In Python each step costs a few microseconds whatever it does, so tiny blocks drown in overhead; beyond a hundred
# words the size hardly matters here. On a GPU it does: there a tile and its keys have to fit into the small fast memory
# beside the processors, and blocks have 64 or 128 words.
#
# **Your turn.** How long a text can you afford? Change `n` and `size` and run the cell. Before you do, work out what
# `n` costs with the table. Try the 100,000 words with which this lesson began, in blocks of 1024: it takes a while, but
# not 40 GB. When do smaller blocks still save room, and when do they only cost time?

# %%
# nbval-ignore-output: times differ from machine to machine, and the numbers are yours
n, size = 16_384, 512

n = usable_number(n, "n", 1, 100_000)
# smaller blocks would take too long
size = usable_number(size, "size", math.ceil(n / 200), 4096)
started, blocks = time.process_time(), math.ceil(n / size)
made = largest_tensor(flash, *torch.randn(3, n, 16), size, True)
print(
    f"{n:,} words: the table would take {4 * n * n / 1e6:,.0f} MB; the largest tensor takes {made / 1e6:,.1f} MB"
)
print(f"{blocks * (blocks + 1) // 2:,} tiles in {time.process_time() - started:.1f} s")

# %% [markdown]
# ## Go back without the table
#
# For training there is a second table: autograd keeps all weights for the backward pass. But with the log-sum-exp $L_i$
# of each row, any weight can be computed again when it is needed, in a tile, and without a second softmax:
#
# $$P_{ij} = e^{s_{ij} - L_i}$$
#
# The rest is the chain rule. With $O = PV$ and $S = QK^\top / \sqrt d$ (the papers write $P$ for the weights, which
# lesson 02 called $A$), and $dO$ the gradient that arrives:
#
# $$dV = P^\top dO \qquad dP = dO\, V^\top \qquad dS_{ij} = P_{ij}\,(dP_{ij} - D_i)$$
#
# $$dQ = dS\,K / \sqrt d \qquad dK = dS^\top Q / \sqrt d$$
#
# $D_i = \sum_j P_{ij}\, dP_{ij}$ is what a softmax subtracts: more weight for one key means less for the others. It
# seems to need the whole row. It does not, because
# $\sum_j P_{ij} (dO_i \cdot v_j) = dO_i \cdot \sum_j P_{ij} v_j = dO_i \cdot O_i$: one dot product with the output,
# which you already have.
#
# By hand: two keys with weights 0.25 and 0.75, values 10 and 20, so $O = 17.5$. Let $dO = 1$. Then $dP = (10, 20)$,
# $D = 17.5$, and $dS = (0.25 \cdot (10 - 17.5), 0.75 \cdot (20 - 17.5)) = (-1.875, 1.875)$. The sum is 0, as it must
# be.
#
# ### Stretch: the gradient in tiles ({points}, difficulty 5, 45 minutes)
#
# Write `flash_backward(q, k, v, o, lse, grad_o, block_size, is_causal)`.
#
# - `q`, `k`, `v`, `block_size`, `is_causal` are as before; `o` and `lse` are what the forward pass has returned, and
#   `grad_o` has the shape of `o`.
# - Return the gradients of `q`, `k` and `v`, in this order, each in the shape of its input.
# - No tensor of $n \times n$ numbers, as before. You may skip closed tiles or not: nothing counts them here.
# - Not allowed: ready-made attention, PyTorch's or attnlib's.


# %%
def flash_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    grad_o: Tensor,
    block_size: int,
    is_causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, from the output (…, n, d_v), the log-sum-exp (…, n) and the output's gradient."""
    ### BEGIN SOLUTION
    n, scale = q.shape[-2], 1 / math.sqrt(q.shape[-1])
    along = (grad_o * o).sum(dim=-1, keepdim=True)
    grad_q, grad_k, grad_v = (
        torch.zeros_like(q),
        torch.zeros_like(k),
        torch.zeros_like(v),
    )
    for i in range(0, n, block_size):
        rows = slice(i, i + block_size)
        for j in range(0, min(i + block_size, n) if is_causal else n, block_size):
            columns = slice(j, j + block_size)
            tile = q[..., rows, :] @ k[..., columns, :].mT * scale
            if is_causal and j == i:
                tile = tile.masked_fill(
                    ~attnlib.causal_mask(*tile.shape[-2:], device=q.device), -torch.inf
                )
            weights = (tile - lse[..., rows, None]).exp()
            grad_tile = (
                weights
                * (grad_o[..., rows, :] @ v[..., columns, :].mT - along[..., rows, :])
                * scale
            )
            grad_q[..., rows, :] += grad_tile @ k[..., columns, :]
            grad_k[..., columns, :] += grad_tile.mT @ q[..., rows, :]
            grad_v[..., columns, :] += weights.mT @ grad_o[..., rows, :]
    return grad_q, grad_k, grad_v
    ### END SOLUTION


# %%
check("flash_backward", flash_backward)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First write it with the whole table, four lines from the formulas above, and compare with autograd. Only then cut.
#
# </details>
# <details><summary>Hint 2</summary>
#
# In tiles: make three tensors of zeros like `q`, `k` and `v`. Each tile adds to one block of `grad_q`, and to one block
# of `grad_k` and `grad_v`. Use `+=` for all three: a query looks at many keys, and a key is looked at by many queries.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The shapes of a tile with $a$ queries and $b$ keys: scores, weights, $dP$ and $dS$ are `(…, a, b)`; `lse[..., rows]`
# and $D$ need an axis at the end. $P^\top$ is `weights.mT`.
#
# </details>

# %% [markdown]
# Does it agree with autograd? Here is the test, in float64, with and without causality.

# %%
backward = yours_or_ours("flash_backward", globals())

torch.manual_seed(seed)
q, k, v = (
    torch.randn(2, 3, 50, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)
)
gradient = torch.randn_like(v)
for is_causal in (False, True):
    wanted = torch.autograd.grad(
        naive_attention(q, k, v, is_causal), (q, k, v), gradient
    )
    with torch.no_grad():
        o, lse = flash(q, k, v, 16, is_causal)
        found = backward(q, k, v, o, lse, gradient, 16, is_causal)
    off = max((a - b).abs().max().item() for a, b in zip(found, wanted, strict=True))
    print(f"causal: {is_causal!s:5}  off by at most {off:.0e}")
    assert off < 1e-10

# %% [markdown]
# And what if you leave out $D$? An output of zeros makes it 0.

# %%
for is_causal in (False, True):
    (wanted,) = torch.autograd.grad(naive_attention(q, k, v, is_causal), q, gradient)
    with torch.no_grad():
        o, lse = flash(q, k, v, 16, is_causal)
        found, _, _ = backward(
            q, k, v, torch.zeros_like(o), lse, gradient, 16, is_causal
        )
    print(
        f"causal: {is_causal!s:5}  with D = 0 the gradient of q is off by {(found - wanted).abs().max():.1f}"
    )
    assert (found - wanted).abs().max() > 0.1

# %% [markdown]
# ## Train through it
#
# Forward and backward together make a function that autograd can use. It keeps five tensors, and none of them is a
# table.


# %%
class Flash(torch.autograd.Function):
    """Attention that keeps q, k, v, its output and one number for each row."""

    @staticmethod
    def forward(ctx, q, k, v, block_size, is_causal):
        output, lse = flash(q, k, v, block_size, is_causal)
        ctx.save_for_backward(q, k, v, output, lse)
        ctx.settings = block_size, is_causal
        return output

    @staticmethod
    def backward(ctx, grad_output):
        return *backward(*ctx.saved_tensors, grad_output, *ctx.settings), None, None


# %% [markdown]
# How much is that, beside what autograd keeps for the table?

# %%
tiled = lambda q, k, v: Flash.apply(q, k, v, 64, False)  # noqa: E731
trained = [[x.requires_grad_() for x in qkv] for qkv in texts]
saved = {"the table": [bytes_kept(naive_attention, *qkv) for qkv in trained]}
saved["in tiles of 64"] = [bytes_kept(tiled, *qkv) for qkv in trained]
print("kept for the backward pass at 4096 words:")
for name, costs in saved.items():
    print(
        f"  {name:15} {costs[-1] / 1000:6,.0f} kB; grows like n to the {slope(costs):.2f}"
    )
assert abs(slope(saved["the table"]) - 2) < 0.05
assert abs(slope(saved["in tiles of 64"]) - 1) < 0.01

# %%
_, axes = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained", sharey=True)
for ax, costs, title in zip(
    axes,
    (largest, saved),
    (
        "The largest tensor: slope 2 becomes 1",
        "Kept for the backward pass: slope 2 becomes 1",
    ),
    strict=True,
):
    for name, line, colour in (
        ("the table", "s--", GREY),
        ("in tiles of 64", "o-", ACCENT),
    ):
        ax.plot(lengths, [c / 1e6 for c in costs[name]], line, color=colour, label=name)
    ax.set(xscale="log", yscale="log", xlabel="words", title=title)
    ax.set_xticks(lengths, lengths)
    ax.minorticks_off()
    ax.legend()
axes[0].set_ylabel("MB, one head 16 wide")
axes[0].set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
show(
    "Two panels on logarithmic axes, from 256 to 4096 words. In both the cost of the "
    "table rises by a factor of 256, slope 2, and that of the tiles by a factor of "
    "16, slope 1."
)

# %% [markdown]
# Now the model of lesson 09: two layers, four heads, Python's own documentation, but windows of 512 letters instead of
# only 64.

# %%
from pydoc_data.topics import topics

text = "\n".join(topics[name] for name in sorted(topics))
letters = sorted(set(text))
number = {letter: i for i, letter in enumerate(letters)}
encoded = torch.tensor([number[letter] for letter in text])

# %% [markdown]
# In each of its layers only one line changes: `attended` comes from the table, or from your functions.


# %%
def attention_layer(layer: attnlib.MultiHeadAttention, in_tiles: bool):
    """What the layer does with x (b, n, d_model)."""

    def forward(x: Tensor, **_) -> Tensor:
        q, k, v = (
            attnlib.split_heads(w(x), layer.num_heads)
            for w in (layer.w_q, layer.w_k, layer.w_v)
        )
        q, k = layer.rotary(q), layer.rotary(k)
        attended = (
            Flash.apply(q, k, v, 128, True)
            if in_tiles
            else naive_attention(q, k, v, True)
        )
        return layer.w_o(attnlib.merge_heads(attended))

    return forward


def new_model(in_tiles: bool) -> attnlib.LanguageModel:
    """The model of lesson 09, with a table of weights in each head or without."""
    torch.manual_seed(seed)
    model = attnlib.LanguageModel(
        len(letters), 64, 4, 2, 512, bias=False, rotary=attnlib.Rotary(16)
    )
    nn.init.zeros_(model.positions.table).requires_grad_(False)
    for block in model.blocks.layers:
        block.attn.forward = attention_layer(block.attn, in_tiles)
    return model


# %% [markdown]
# Train twins. They start from the same weights and see the same text, 25 batches of it. *Will their losses differ?*


# %%
def loss_of(model: nn.Module, at: Tensor) -> Tensor:
    """The loss on 512 letters from each place `at` (b)."""
    pieces = encoded[at[:, None] + torch.arange(513)]
    return F.cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())


def train(model: nn.Module) -> list[float]:
    """25 steps of AdamW -> the loss before each of them."""
    optimiser = torch.optim.AdamW(
        [w for w in model.parameters() if w.requires_grad], lr=6e-3
    )
    torch.manual_seed(seed + 1)
    curve = []
    for _ in range(25):
        loss = loss_of(model, torch.randint(0, len(encoded) - 513, (2,)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        curve.append(loss.item())
    return curve


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
table, flashed = new_model(in_tiles=False), new_model(in_tiles=True)
curves = train(table), train(flashed)
for name, curve in zip(("the table", "in tiles"), curves, strict=True):
    print(f"{name:10} loss {curve[0]:.4f} -> {curve[-1]:.4f}")
apart = max(abs(a - b) for a, b in zip(*curves, strict=True))
print(f"the two losses are never further apart than {apart:.0e}")
assert curves[1][-1] < curves[1][0] - 0.8  # it learns
assert apart < 0.02

# %% [markdown]
# And what is kept for the backward pass of each step?

# %%
bills = [bytes_kept(loss_of, model, torch.arange(2)) for model in (table, flashed)]
print(f"with the table {bills[0] / 1e6:.1f} MB, in tiles {bills[1] / 1e6:.1f} MB")
assert bills[1] < 0.75 * bills[0]

# %% [markdown]
# Nothing was approximated, so nothing changes but the bill. (The losses do not agree to the last bit: sums in a
# different order round differently, and training makes such differences grow.) What is left of the bill is the MLP, the
# norms and the logits, whose share grows like $n$.
#
# ## Say what the win is, and what it is not
#
# *Are these fewer multiplications?* Count them, forward and backward, without causality.

# %%
q, k, v = (torch.randn(1, 512, 16, requires_grad=True) for _ in range(3))
theirs = lambda q, k, v: attnlib.tiled_attention(q, k, v, block_q=64, block_k=64)  # noqa: E731
multiplications = {}
for name, attend in {
    "the table": naive_attention,
    "in tiles": tiled,
    "attnlib's tiles": theirs,
}.items():
    with FlopCounterMode(display=False) as counter:
        attend(q, k, v).sum().backward()
    multiplications[name] = counter.get_total_flops() / 2 / (512 * 512 * 16)
    print(f"{name:15} {multiplications[name]:.0f} · n² d multiplications")
assert multiplications["the table"] == 6
assert multiplications["attnlib's tiles"] == 7

# %% [markdown]
# More, not fewer: two products forward and four backward with the table, and a fifth one backward in tiles, which
# computes the scores again. And still flash attention is faster on a GPU, by a factor of two to four in its authors'
# measurements. A GPU can do hundreds of multiplications in the time it takes to fetch one number from its main memory.
# The table is written there, read by the softmax, written, and read again. A tile stays in fast memory beside the
# processor. It is *traffic* that was saved; the multiplications were cheap all along. (In Python it is slower, of
# course: the loops cost more than the traffic.)
#
# ## Read how others write it
#
# **FlexAttention**, in PyTorch since 2.5, lets you write the rule for one pair of positions as a small function, and
# compiles a kernel for it. The tiles to be skipped are worked out beforehand, in a `BlockMask`:
#
# | what your lines do | FlexAttention |
# | --- | --- |
# | the inner loop ends on the diagonal | `mask = create_block_mask(causal, None, None, n, n, BLOCK_SIZE=64)` |
# | the tile on the diagonal is masked | `def causal(b, h, q, k): return q >= k` |
# | scores are made, and scaled | `score_mod(score, b, h, q, k)`: here you may add ALiBi, or anything else |
# | all of `flash_attention` | `torch.compile(flex_attention)(q, k, v, block_mask=mask)` |
#
# **Triton** is a language for such kernels, inside Python. Below is the forward pass of your function, causal, as a
# kernel. The outer loop is gone: the GPU runs the function once for each block of queries and each head, all at the
# same time. What is left is the inner loop, and you will recognise its lines:
#
# | what your lines do | Triton |
# | --- | --- |
# | the outer loop takes a block of queries | `block = tl.program_id(0)`: which one am I? |
# | a slice of `q` | `tl.load(Q + rows[:, None] * D + d, …)`: a table of addresses |
# | the inner loop ends on the diagonal | `for start in range(0, (block + 1) * B, B)` |
# | $m' = \max(m, \max_j s_j)$ | `top = tl.maximum(m, tl.max(s, axis=1))` |
# | $l' = e^{m - m'} l + \sum_j e^{s_j - m'}$ | `l = shrink * l + tl.sum(p, axis=1)` |
# | $o' = e^{m - m'} o + \sum_j e^{s_j - m'} v_j$ | `o = shrink[:, None] * o + tl.dot(p, v)` |
# | $o / l$ is put among the results | `tl.store(O + …, o / l[:, None], …)` |

# %%
try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton, tl = None, SimpleNamespace(constexpr=int)  # then the kernel is for reading


# %%
def flash_kernel(Q, K, V, O, LSE, n, scale, B: tl.constexpr, D: tl.constexpr):
    """One block of B queries of one head; Q, K, V, O are addresses of (heads, n, D), LSE of (heads, n)."""
    block, head = tl.program_id(0), tl.program_id(1)
    Q, K, V, O, LSE = (
        Q + head * n * D,
        K + head * n * D,
        V + head * n * D,
        O + head * n * D,
        LSE + head * n,
    )
    rows, d = block * B + tl.arange(0, B), tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + d, mask=rows[:, None] < n, other=0.0)
    m, l, o = (
        tl.full([B], float("-inf"), tl.float32),
        tl.zeros([B], tl.float32),
        tl.zeros([B, D], tl.float32),
    )
    for start in range(0, (block + 1) * B, B):
        columns = start + tl.arange(0, B)
        k = tl.load(K + columns[:, None] * D + d, mask=columns[:, None] < n, other=0.0)
        v = tl.load(V + columns[:, None] * D + d, mask=columns[:, None] < n, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(rows[:, None] >= columns, s, float("-inf"))
        top = tl.maximum(m, tl.max(s, axis=1))
        shrink, p = tl.exp(m - top), tl.exp(s - top[:, None])
        l = shrink * l + tl.sum(p, axis=1)
        o = shrink[:, None] * o + tl.dot(p, v, input_precision="ieee")
        m = top
    tl.store(O + rows[:, None] * D + d, o / l[:, None], mask=rows[:, None] < n)
    tl.store(LSE + rows, m + tl.log(l), mask=rows < n)


# %% [markdown]
# Triton is not among this course's packages. Where it is installed, the next cell runs the kernel and compares it with
# your function: on the GPU if there is one, and otherwise in Triton's own interpreter. Where it is not installed, the
# cell says so, and the kernel is there to be read.

# %%
# nbval-ignore-output: what it says depends on whether Triton is installed
if triton is not None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q, k, v = torch.randn(3, 6, 50, 16, device=device).unbind()
    output, lse = torch.empty_like(q), torch.empty(6, 50, device=device)
    triton.jit(flash_kernel)[(triton.cdiv(50, 16), 6)](
        q, k, v, output, lse, 50, 16**-0.5, B=16, D=16
    )
    for theirs, mine in zip((output, lse), flash(q, k, v, 16, True), strict=True):
        assert_close(theirs, mine, atol=1e-5, rtol=0)
    print(
        f"the kernel was run ({'on the GPU' if device == 'cuda' else 'in the interpreter'}): equal to yours"
    )
else:
    print(
        "Triton is not installed here: the kernel above is for reading, and was not "
        "run."
    )

# %% [markdown]
# ## Take this with you
#
# **A softmax can be built up from parts, in any order, if each part brings its largest score, its sum and its output.**
#
# | | |
# | --- | --- |
# | formula | $m = \max(m_1, m_2)$, $l = e^{m_1 - m} l_1 + e^{m_2 - m} l_2$, $o$ likewise; at the end $o / l$ |
# | shapes | `o` `(…, n, d_v)`, `m` and `l` `(…, n)`; a tile `(…, block, block)` |
# | trap 1 | $o$ is rescaled and $l$ is not, or the other way round |
# | trap 2 | −inf − (−inf) in a row that begins with closed keys |
# | trap 3 | closed tiles are masked, not skipped: right, and twice the work |
# | in PyTorch | `F.scaled_dot_product_attention` does this whenever it can; it keeps `q`, `k`, `v`, `o` and `lse` |
#
# **What real models do today**
#
# - Most are trained with FlashAttention 2 or 3 (Dao 2023; Shah and others 2024), which share out the tiles better and
#   use the 8-bit units of new GPUs. The mathematics is what you have written.
# - Long contexts are trained with ring attention or its relatives (Liu and others 2023), with each machine holding a
#   part of the text.
# - Windows, documents packed into one row, and other masks are written as block masks (FlexAttention, 2024): a closed
#   tile costs nothing, whatever the rule.
#
# ## Think further
#
# 1. In `flash_attention` no row ever begins with closed keys, so no guard is needed. With a sliding window (lesson 09)
#    there may be such rows. Where, and what would happen?
# 2. Dropout on the weights needs the same random numbers in the backward pass. How can it get them without keeping an
#    $n \times n$ table of them?
# 3. With ring attention and a causal mask, the machine with the first words soon has nothing to do. What would you do
#    about that?
#
# <details><summary>Answers</summary>
#
# 1. In a tile at the left edge of the band, the later queries may have a window that begins behind the last key of the
#    tile. For them all keys so far are closed, old and new $m$ are −inf, and the difference is NaN. So kernels have the
#    guard, or go through the tiles from the diagonal leftwards.
# 2. A GPU makes random numbers from a seed and a counter. Let the counter be the position in the table: then the
#    backward pass can make the same numbers again in each tile, just as it computes the weights again.
# 3. Give every machine two pieces, one from the beginning of the text and one from the end, or every k-th word
#    (striped attention). Then all of them have about the same number of open tiles.
#
# </details>
#
# ## Read on
#
# - [Milakov and Gimelshein 2018](https://arxiv.org/abs/1805.02867), the online softmax: short, with the proof of your
#   first exercise.
# - [Rabe and Staats 2021](https://arxiv.org/abs/2112.05682), *Self-attention Does Not Need O(n²) Memory*: what you
#   have built, half a year before it got its name, in a page of JAX.
# - [Dao et al. 2022](https://arxiv.org/abs/2205.14135), FlashAttention: section 2 on the memory of a GPU is the reason
#   for everything; appendix B is your backward pass.
# - [Dao 2023](https://arxiv.org/abs/2307.08691), FlashAttention-2: how the same tiles are shared out among the
#   processors for twice the speed.
# - [Liu et al. 2023](https://arxiv.org/abs/2310.01889), ring attention: your `merge`, between machines.
#
# **Next:** you can build all of it now, and make it fast. But what has the model learned? Lesson 11, the last one,
# opens a model up and watches a head as it learns to copy.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/10_flash_attention.ipynb`.*
