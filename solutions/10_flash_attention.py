# %% [markdown]
# # 10 · Flash attention: never write the table down
#
# Attention compares every word with every word. For a text of 100,000 words that's a table of ten billion weights, 40
# GB for one head of one layer. Yet models read texts of that length, some of them on a laptop. They compute the very
# same numbers without ever storing the table. In this lesson you write the algorithm that does it.
#
# | | |
# | --- | --- |
# | **You will build** | a softmax that reads its row once, a merge of two parts, attention in tiles, its gradient |
# | **You will understand** | what is kept instead of the table, what that saves, and what it doesn't |
# | **You need** | the stable softmax of lesson 02, the causal mask of lesson 05, and a pencil |
# | **Time** | core 90 minutes, everything 3 hours |
#
# At the end the model of lesson 08 trains through your functions, with no table left in it. All symbols are in the
# [table of symbols](00_start_here.ipynb#Symbols).

# %%
import copy
import itertools
import math
import time
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

import attnlib
from attnlib.checks import check, trained, yours_or_ours
from attnlib.checks.your_turn import usable_number
from attnlib.colours import colour_lines
from attnlib.memory import bytes_kept, largest_tensor
from attnlib.plot import ACCENT, GREY, INK, PALE, show, training, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 10_flash_attention` runs this lesson with others
seed = 0

# %% [markdown]
# ## Measure the memory · core
#
# How much memory does attention take? The memory of the whole process says little, but two numbers can be counted
# exactly: the largest tensor any operation makes, `largest_tensor(call, *inputs)`, and the bytes autograd keeps for the
# backward pass, `bytes_kept(call, *inputs)`. (Scratch memory inside a fused operation isn't seen.) Here is attention as
# in lesson 02, with the whole table of scores and of weights:


# %%
def naive_attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """Attention that stores the whole table (…, n, n)."""
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
assert fused <= v.nbytes

# %% [markdown]
# PyTorch's function gets the same result, and makes no tensor larger than the result itself. What does it know that we
# don't?
#
# ## Compute a softmax in one pass · core
#
# To turn a row of scores into weights, a softmax needs the sum of their exponentials, so it seems to need the whole row
# before it can begin. Suppose the scores come in blocks, and each block is gone when the next one arrives. Keep two
# numbers, the largest score so far, $m$, and the sum so far, $l = \sum_j e^{s_j - m}$. When a block brings a larger
# score $m'$, all terms of the old sum are too large by the same factor, so a single multiplication puts them right:
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
# - `blocks` is an iterator of scores, each `(…, k)` and not all of the same $k$. It gives every block once, from left
#   to right. There is at least one, and the iterator has no length.
# - Return `m` and `l`, both `(…)`: the largest score of each row, and $\sum_j e^{s_j - m}$.
# - A score of −inf is a closed key. Where all keys so far are closed, $m$ is −inf and $l$ is 0. Nothing becomes NaN.
# - Never hold more than one block, so neither keep the blocks nor join them. (A loop's variable still holds the last
#   block while the next is made. That's fine.)
# - Scores may be ±10,000. Dtype and device as always; no gradient is needed.


# %%
def online_softmax(blocks) -> tuple[Tensor, Tensor]:
    """Blocks of scores (…, k), one after another -> largest score (…) and sum of exp(s
    - m) (…)."""
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
# In the loop, the new largest score is the larger of the old $m$ and the block's, `block.amax(dim=-1)`. First rescale
# the old sum to it. Then add the terms of the block, computed with the new $m$.
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
# Only one thing can go wrong, a first block that is closed. Then old and new $m$ are both −inf, and their difference is
# NaN. Subtract something finite there, `torch.where(new == -torch.inf, 0.0, new)`. The exponents stay −inf, and the
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
# 1000 scores around ±10,000, of which the first 300 are closed, cut in four different ways:

# %%
torch.manual_seed(seed)
scores = 1e4 * torch.randn(5, 1000, dtype=torch.float64)
scores[:, :300] = -torch.inf
for size in (1, 7, 300, 1000):
    m, l = in_blocks(iter(scores.split(size, dim=-1)))
    assert_close(m + l.log(), scores.logsumexp(dim=-1))

# %% [markdown]
# How much does the rescaling matter? Sort each row, so that every block brings a larger score, and leave the rescaling
# out:

# %%
rising = torch.randn(5, 1000, dtype=torch.float64).sort(dim=-1).values
blocks = rising.split(100, dim=-1)
m, l = in_blocks(iter(blocks))
not_rescaled = sum((block - block[:, -1:]).exp().sum(dim=-1) for block in blocks)
print(
    f"l, in blocks of 100: {l[0]:.1f}; if the old sums were not rescaled: "
    f"{not_rescaled[0]:.1f}"
)
assert_close(l, (rising - m[:, None]).exp().sum(dim=-1))
assert (not_rescaled > 2 * l).all()

# %% [markdown]
# Milakov and Gimelshein published this as the online softmax in 2018, to save one of the passes over the row.
#
# ## Accumulate the values too · core
#
# Nobody needs the weights themselves. We want $\sum_j w_j v_j$, and that sum can be built up in the same way. The sum
# $o = \sum_j e^{s_j - m} v_j$ is scaled by the same $e^{-m}$ as $l$, so the same factor puts it right. At the end the
# result is $o / l$. By hand again, with the values 10, 20 and 30, 40:
#
# | | $m$ | $l$ | $o$ |
# | --- | --- | --- | --- |
# | after 1, 3 | 3 | 1.135 | $0.135 \cdot 10 + 1 \cdot 20 = 21.353$ |
# | rescaled by $e^{3-5} = 0.135$ | 5 | 0.154 | $0.135 \cdot 21.353 = 2.890$ |
# | after 2, 5 | 5 | 1.203 | $2.890 + 0.050 \cdot 30 + 1 \cdot 40 = 44.383$ |
#
# The result is $44.383 / 1.203 = 36.88$. At no point was there a row of four weights. The picture shows the same steps.
# Watch what happens to $l$ and $o$ when $m$ grows.

# %%
_, ax = plt.subplots(figsize=(9, 2.7), layout="constrained")
ax.set(
    xlim=(0, 9.2),
    ylim=(0, 2.5),
    title="Three running numbers: when m grows, l and o shrink together",
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
# ### Fix: attention in one pass ({points}, difficulty 3, 8 minutes)
#
# The function below was written in a hurry and has two bugs. One shows whenever a later block has a larger score than
# an earlier one, the other only where a row begins with closed keys. Fix both.
#
# - `scores` is `(…, k)`, `v` is `(…, k, d)`, and the result is `(…, d)`: softmax of the scores, times the values.
# - `block_size` doesn't have to divide $k$. In every row at least one key is open. No gradient is needed.


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
# Go through the table by hand with the code beside it. Which of $m$, $l$ and $o$ isn't what the table says after the
# second block?
#
# </details>
# <details><summary>Hint 2</summary>
#
# For the other bug, take a first block of −inf, −inf. What are `m`, `new` and `m - new`?
#
# </details>

# %%
one_pass = yours_or_ours("mend_online", globals(), called="attend_in_blocks")

row = torch.tensor([[1.0, 3, 2, 5]])  # one query and four keys
values = torch.tensor([[[10.0], [20], [30], [40]]])
at_once = (row.softmax(dim=-1)[..., None] * values).sum(dim=-2)
assert_close(one_pass(row, values, 2), at_once)
assert_close(at_once, torch.tensor([[36.88]]), atol=0.005, rtol=0)
print(
    f"block by block: {one_pass(row, values, 2).item():.2f}; all at once: "
    f"{at_once.item():.2f}"
)

# %% [markdown]
# ## Merge two parts · core
#
# So far three numbers are carried from one block to the next. Must the blocks come in order? Everything we need to know
# about a part of the keys is in its $o$, $m$ and $l$. Two such parts can be put together by the rule you've already
# used, except that now neither is the new one, and both are rescaled to the larger $m$.
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
# - Return `o`, `m`, `l` of both parts together, with `o` again not divided, so they can be merged further.
# - A part may be empty in some rows ($m = -\infty$, $l = 0$, $o = 0$), and so may both.
# - As always; no gradients are needed.


# %%
def merge(
    o1: Tensor, m1: Tensor, l1: Tensor, o2: Tensor, m2: Tensor, l2: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Two parts of the keys, o (…, d), m (…), l (…) -> the same three for both
    together."""
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
# $e^0 = 1$. You don't need an `if`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The factors are `(…)` and the outputs `(…, d)`, so add one axis at the end, `factor[..., None]`. Where both parts are
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
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
worst = 0.0
for a, b, c, d in itertools.permutations(parts):
    in_a_row = join(*join(*join(*a, *b), *c), *d)
    in_pairs = join(*join(*a, *b), *join(*c, *d))
    for o, _, l in (in_a_row, in_pairs):
        worst = max(worst, (o / l[..., None] - whole).abs().max().item())
average = sum(o / l[..., None] for o, _, l in parts) / 4
control = (average - whole).abs().max().item()
print(
    f"24 orders, two ways each: off by at most {worst:.0e}; the average of the four: "
    f"off by {control:.1f}"
)
assert worst < 1e-12
assert control > 0.1

# %% [markdown]
# The merge is *associative* and *commutative*, as a sum is. Three well-known methods rest on that:
#
# - **Flash attention** merges block after block, on one GPU.
# - **Flash decoding** cuts the long cache of lesson 09 into pieces, lets many processors each read one of them for the
#   same single query, and merges their results.
# - **Ring attention** gives each of several machines a part of the text. Keys and values are passed around in a ring,
#   and every machine merges them as they come by, each in a different order. That's one way to read a million words at
#   once.
#
# ## Run ring attention in one process · more
#
# Here is the ring in one process, with four machines that each hold 15 of 60 words. At each step every machine merges
# the keys and values it's holding, then passes them on to the next one.

# %%
torch.manual_seed(seed)
q, k, v = torch.randn(3, 60, 8, dtype=torch.float64).unbind()
queries, held = q.split(15), list(zip(k.split(15), v.split(15), strict=True))
states, came_by = [None] * 4, [[] for _ in range(4)]
holds = [0, 1, 2, 3]  # which piece of keys and values each machine has now
for _ in range(4):
    for machine, piece in enumerate(holds):
        keys, values = held[piece]
        new = part(queries[machine] @ keys.T / math.sqrt(8), values)
        old = states[machine]
        states[machine] = new if old is None else join(*old, *new)
        came_by[machine].append(piece)
    holds = [holds[-1], *holds[:-1]]  # each gets what the one before it had
print("pieces in the order in which they came by:", came_by)
ringed = torch.cat([o / l[..., None] for o, _, l in states])
assert_close(ringed, naive_attention(q, k, v), atol=1e-12, rtol=0)
assert len({tuple(order) for order in came_by}) == 4

# %%
_, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
corners = [(1.0, 2.4), (4.0, 2.4), (4.0, 0.6), (1.0, 0.6)]
for machine, (x, y) in enumerate(corners):
    box = {"boxstyle": "round,pad=0.5", "fc": PALE, "ec": INK}
    stays = f"machine {machine}\nkeeps q{machine}, o, m, l"
    ax.text(x, y, stays, ha="center", va="center", bbox=box)
ways = [((2.0, 2.4), (3.0, 2.4)), ((4.0, 1.95), (4.0, 1.05))]
ways += [((3.0, 0.6), (2.0, 0.6)), ((1.0, 1.05), (1.0, 1.95))]
labels = [(2.5, 2.58), (4.42, 1.5), (2.5, 0.78), (0.58, 1.5)]
for piece, ((start, end), (x, y)) in enumerate(zip(ways, labels, strict=True)):
    head = {"arrowstyle": "-|>", "color": ACCENT, "lw": 2, "mutation_scale": 16}
    ax.annotate("", end, start, arrowprops=head)
    ax.text(x, y, f"k{piece}, v{piece}", ha="center", va="center", color=ACCENT)
ax.text(6.9, 2.75, "merged at each step", ha="center", va="center")
for machine, order in enumerate(came_by):
    y = 2.35 - 0.5 * machine
    ax.text(5.55, y, f"machine {machine}", va="center", ha="center")
    for turn, piece in enumerate(order):
        box = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": ACCENT}
        ax.text(6.4 + 0.55 * turn, y, f"{piece}", ha="center", va="center", bbox=box)
ax.set(xlim=(0, 8.6), ylim=(0.1, 3), title="Queries stay, keys and values go around")
ax.axis("off")
show(
    "Four machines at the corners of a ring. Each keeps its queries and its o, m and "
    "l; arrows pass a piece of keys and values from each machine to the next. Beside "
    "it the order in which the pieces are merged: 0, 3, 2, 1 on machine 0, and a "
    "different order on each of the others."
)

# %% [markdown]
# ## Work tile by tile · core
#
# Now for all queries on one machine. Cut the queries into blocks as well, and the table becomes a grid of *tiles*, a
# block of queries against a block of keys. For each block of queries, go through the blocks of keys with $m$, $l$ and
# $o$. A tile is made, used, and thrown away.
#
# Why go to all that trouble? A GPU has two kinds of memory. The large one beside the chip holds tens of gigabytes and
# is slow (*HBM*). The small one on the chip, next to the units that multiply, holds about two hundred kilobytes for
# each of them and is about ten times as fast (*SRAM*). A tile lives and dies in the fast one.

# %%
_, ax = plt.subplots(figsize=(10, 4), layout="constrained")
for x, wide, name in (
    (0.1, 4.4, "slow memory (HBM), GB"),
    (5.7, 5.6, "fast (SRAM), kB"),
):
    ax.add_patch(plt.Rectangle((x, 0.1), wide, 3.9, fc="white", ec=INK, lw=1.5))
    ax.text(x + wide / 2, 3.8, name, ha="center", va="center")
for column, (name, now) in enumerate({"Q": 2, "K": 1, "V": 1, "O": 2}.items()):
    x = 0.35 + 1.05 * column
    for row in range(6):
        colour = ACCENT if row == now else GREY if name == "O" and row < now else PALE
        ax.add_patch(plt.Rectangle((x, 2.75 - 0.45 * row), 0.7, 0.4, fc=colour))
    ax.text(x + 0.35, 3.35, name, ha="center", va="center")
for row, column in itertools.product(range(6), range(6)):
    x, y = 7.8 + 0.36 * column, 2.75 - 0.36 * row
    past = row == 2 and column < 1
    fill = {"fc": PALE if past else "white", "ec": GREY, "ls": ":"}
    if (row, column) == (2, 1):
        fill = {"fc": ACCENT, "ec": ACCENT}
    ax.add_patch(plt.Rectangle((x, y), 0.36, 0.36, **fill))
ax.text(8.88, 3.35, "one tile at a time", ha="center", va="center")
head = {"arrowstyle": "-|>", "color": ACCENT, "lw": 2, "mutation_scale": 16}
ax.annotate("", (9.9, 2.21), (8.55, 2.21), arrowprops=head)
for y, name in ((3.0, "block of Q"), (2.2, "block of K"), (1.4, "block of V")):
    box = {"boxstyle": "round,pad=0.4", "fc": PALE, "ec": ACCENT}
    ax.text(6.6, y, name, ha="center", va="center", bbox=box)
    loop = "outer loop" if name.endswith("Q") else "inner loop"
    ax.annotate("", (5.65, y), (4.55, y), arrowprops=head)
    ax.text(5.08, y + 0.1, loop, ha="center", va="bottom", fontsize=9)
box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": INK}
ax.text(8.88, 0.5, "m, l, o of these queries", ha="center", va="center", bbox=box)
ax.annotate("", (4.55, 0.5), (5.65, 0.5), arrowprops=head)
ax.text(5.08, 0.6, "o / l, once", ha="center", va="bottom", fontsize=9)
ax.set(xlim=(0, 11.4), ylim=(0, 4.1), title="A tile never leaves the fast memory")
ax.axis("off")
show(
    "Two boxes, slow memory with Q, K, V and O cut into six blocks each, and fast "
    "memory. A block of Q is fetched in the outer loop, blocks of K and V in the "
    "inner loop. In fast memory, of a dotted table of 36 tiles only one is there; it "
    "moves along its row and updates m, l and o. Only o divided by l goes back to "
    "slow memory, once for each block of Q."
)

# %% [markdown]
# How many numbers cross between the two? With the table, $Q$, $K$, $V$ are read and $O$ is written, and the table
# itself crosses four times: scores written and read by the softmax, weights written and read again. With tiles, each
# block of queries reads all keys and values once.


# %%
def crossing(n: int, d: int, block: int | None) -> int:
    """Numbers that go between slow and fast memory for one head; without a block,
    with the table."""
    if block is None:
        return 4 * n * d + 4 * n * n
    return 2 * n * d + (n // block) * 2 * n * d


for n in (1024, 16_384):
    table, tiled = crossing(n, 64, None), crossing(n, 64, 128)
    print(
        f"{n:6} words: {table / 1e6:7.1f} million with the table, {tiled / 1e6:6.1f} "
        "in tiles"
    )
    assert 3.5 < table / tiled < 4.1

# %% [markdown]
# A quarter of the traffic, for heads 64 wide and blocks of 128. *What if a block were a single word, or all $n$ words
# at once?* Blocks of one word take hardly any room, but every query then reads all keys and values for itself. A block
# of $n$ words makes the whole table. The right size is in between, and fast memory sets the limit.

# %% [markdown]
# ### Exercise: attention without the table ({points}, difficulty 4, 35 minutes)
#
# Write `flash_attention(q, k, v, block_size, is_causal)`.
#
# - `q` and `k` are `(…, n, d)`, `v` is `(…, n, d_v)`, with any number of axes in front. Blocks of queries and blocks of
#   keys have `block_size` words. It doesn't have to divide $n$, and may be larger.
# - Return two tensors: the output `(…, n, d_v)`, and for each query the log-sum-exp of its scaled scores, $m + \ln l$,
#   `(…, n)`. You will need it for the gradient.
# - While the blocks are short, no tensor may have $n \times n$ numbers, not even a mask. The check watches the largest
#   one you make. It may have as many as the scores of all queries with $4 \cdot$ `block_size` keys.
# - With `is_causal`, query $i$ sees the keys 0 to $i$. Tiles that are entirely in the future must be *skipped*, not
#   masked. The check finds out whether their values enter a product, even with weights of 0.
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
# Leave causality out at first. There are two loops, over `range(0, n, block_size)` each. The outer one takes a block of
# queries and starts $m$, $l$, $o$ for it. The inner one takes a block of keys and does what `attend_in_blocks` does.
# The last block may be shorter, and slices take care of that.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `attend_in_blocks` had one row, so its values were multiplied and summed. A tile has many rows, so that's
# `terms @ v_block`, and the factors need an axis at the end, `shrink[..., None]`. Collect the finished blocks in a
# list, and `torch.cat` them along the words.
#
# </details>
# <details><summary>Hint 3</summary>
#
# With causality there are three kinds of tiles. Those before the diagonal are all open. Those on it take the mask of
# lesson 05. Those after it are closed, so let the inner loop end there. Every query can see the first key, so no row
# starts with a closed block, and you don't need the guard.
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
# Which tiles does it visit? You can find out from outside. Write NaN into one block of values, and it spoils every
# output it's multiplied into, even with a weight of zero.


# %%
def visited(attend, n: int, size: int) -> Tensor:
    """Which block of queries (rows) has multiplied with which block of keys (columns),
    bool."""
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
    f"8 blocks: {int(tiles.sum())} of 64 tiles visited; with a mask over the whole "
    f"table: {int(masked.sum())}"
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
# Now measure the memory, for texts of 256 to 4096 words.

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
# By which power of $n$ does a cost grow? Double $n$: a cost that grows like $n^2$ becomes four times as large, one that
# grows like $n$ twice as large.


# %%
def slope(costs: list[int]) -> float:
    """By which power of n the costs grow, from the last length but one to the last."""
    return math.log(costs[-1] / costs[-2]) / math.log(lengths[-1] / lengths[-2])


print("largest tensor at 4096 words:")
for name, costs in largest.items():
    print(
        f"  {name:15} {costs[-1] / 1000:6,.0f} kB; grows like n to the "
        f"{slope(costs):.2f}"
    )
assert abs(slope(largest["the table"]) - 2) < 0.01
assert abs(slope(largest["in tiles of 64"]) - 1) < 0.01

# %% [markdown]
# And the block size? From the smallest block to the largest, the room grows from that of the result to that of the
# table. (If your function takes only a row of each tile at a time, it never needs that much.)

# %%
block_sizes = [8, 32, 128, 512, 1024]
q, k, v = torch.randn(3, 1024, 16).unbind()
rooms = [largest_tensor(flash, q, k, v, size, False) for size in block_sizes]
print(
    "largest tensor, kB:",
    {size: round(room / 1000) for size, room in zip(block_sizes, rooms, strict=True)},
)
one_tile = partial(attnlib.tiled_attention, block_q=1024, block_k=1024)
assert rooms[-1] <= largest_tensor(one_tile, q, k, v) == 1024 * 1024 * 4
assert rooms[0] <= 1024 * (16 + 2) * 4  # o, and at most m and l beside it
for size in block_sizes:
    assert_close(
        flash(q, k, v, size, False)[0], naive_attention(q, k, v), atol=1e-5, rtol=0
    )

# %% [markdown]
# In Python each step costs a few microseconds, so tiny blocks drown in overhead. (And here you have no say in what's
# kept in fast memory. A *kernel*, a program for the GPU itself, does. It uses blocks of 64 or 128 words, because that's
# what fits.)
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
    f"{n:,} words: the table would take {4 * n * n / 1e6:,.0f} MB; the largest tensor "
    f"takes {made / 1e6:,.1f} MB"
)
print(f"{blocks * (blocks + 1) // 2:,} tiles in {time.process_time() - started:.1f} s")

# %% [markdown]
# ## Derive the gradient of a softmax · more
#
# Training has a table of its own: autograd keeps all the weights for the backward pass. To do without it you have to
# know what the backward pass computes, so let's derive it. The papers write $S$ for the scores, $P$ for their softmax,
# and $dP$ for the gradient of the loss with respect to $P$. Given $P$ and $dP$, what is $dS$?
#
# By hand: two keys with weights 0.25 and 0.75, values 10 and 20, and the output itself as the loss. The output is $0.25
# \cdot 10 + 0.75 \cdot 20 = 17.5$, so $dP$ is the two values, $(10, 20)$. Now nudge the first score up by 0.01. Its
# exponential grows by 1 %, so the weights become $0.2525 / 1.0025$ and $0.75 / 1.0025$, or 0.2519 and 0.7481, and the
# output 17.481. It has changed by −0.0187, which is −1.87 for each unit of the score. So the first entry of $dS$ must
# be about −1.87.
#
# You can do the same with any function and any formula. Nudge each number up and down, and see what the loss does. This
# is called *gradient checking*, and nobody should trust a derivation that hasn't been through it.


# %%
def by_nudging(scores: Tensor, grad_weights: Tensor, step: float = 1e-6) -> Tensor:
    """dS without a formula: how much sum(softmax(S) * dP) changes as each score is
    nudged."""
    gradient = torch.zeros_like(scores)
    for i in range(scores.numel()):
        nudge = torch.zeros_like(scores)
        nudge.view(-1)[i] = step
        up, down = (
            ((scores + sign * nudge).softmax(dim=-1) * grad_weights).sum()
            for sign in (1, -1)
        )
        gradient.view(-1)[i] = (up - down) / (2 * step)
    return gradient


pencil = by_nudging(
    torch.tensor([0.25, 0.75]).double().log(), torch.tensor([10.0, 20.0]).double()
)
print("by nudging:", [round(x, 3) for x in pencil.tolist()])
assert_close(pencil, torch.tensor([-1.875, 1.875]).double(), atol=1e-6, rtol=0)

# %% [markdown]
# ### Exercise: from dP to dS ({points}, difficulty 4, 25 minutes)
#
# Derive $dS$ on paper, for one row. How does weight $P_i$ change with score $S_j$, when $i = j$ and when it isn't? The
# chain rule adds up what all the weights do to the loss. Then simplify until you need no table of derivatives.
#
# Write it as `softmax_gradient(weights, grad_weights)`.
#
# - `weights` and `grad_weights` are $P$ and $dP$, both `(…, k)`. Return $dS$ in the same shape.
# - A key with no weight has no gradient, and nothing becomes NaN. $dS$ itself needn't be differentiable.
# - Nothing is built with $k \times k$ numbers for each row (the check doesn't count them, but you'll want to use this).


# %%
def softmax_gradient(weights: Tensor, grad_weights: Tensor) -> Tensor:
    """P and dP (…, k) -> dS (…, k)."""
    ### BEGIN SOLUTION
    products = weights * grad_weights
    shared = products.sum(dim=-1, keepdim=True)
    return weights * (grad_weights - shared)
    ### END SOLUTION


# %%
check("softmax_gradient", softmax_gradient)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# $P_i = e^{S_i} / Z$ with $Z = \sum_j e^{S_j}$. A score $S_j$ is in $Z$ for every $i$, and in the numerator only for
# $i = j$. Use the quotient rule, and write the results with $P$ alone.
#
# </details>
# <details><summary>Hint 2</summary>
#
# That makes two cases, and in both of them $P_i P_j$ is subtracted. So put them into $dS_j = \sum_i dP_i\, \partial P_i
# / \partial S_j$ as *one* sum over all $i$, and the rest for $i = j$ beside it. What can you factor out?
#
# </details>
# <details><summary>Hint 3</summary>
#
# The derivative is $P_j (1 - P_j)$ for $i = j$ and $-P_i P_j$ otherwise, so $dS_j = dP_j\, P_j - \sum_i dP_i\, P_i
# P_j$. The sum over $i$ is the same for every key of the row, so compute it once with `keepdim=True`. Then check the
# two-key example by hand.
#
# </details>

# %% [markdown]
# Now check your gradient, on scores of a shape nobody has worked out by hand. The control is what you get if you take
# each weight by itself, $P(1 - P)\,dP$.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
derived = yours_or_ours("softmax_gradient", globals())

torch.manual_seed(seed)
scores, grad_weights = torch.randn(2, 3, 5, dtype=torch.float64).unbind()
weights = scores.softmax(dim=-1)
numeric = by_nudging(scores, grad_weights)
off = (derived(weights, grad_weights) - numeric).abs().max().item()
alone = (weights * (1 - weights) * grad_weights - numeric).abs().max().item()
print(f"your dS is off by {off:.0e}; each weight by itself, by {alone:.1f}")
assert off < 1e-8
assert alone > 0.05
# adding the same to all scores changes nothing
assert derived(weights, grad_weights).sum(dim=-1).abs().max() < 1e-12

# %% [markdown]
# ## Run the backward pass without the table · more
#
# With the log-sum-exp $L_i$ of each row, any weight can be computed again when it's needed, in a tile, and without a
# second softmax:
#
# $$P_{ij} = e^{s_{ij} - L_i}$$
#
# The rest is the chain rule. Since $O_i = \sum_j P_{ij} v_j$, a change of $v_j$ reaches every output $O_i$, times
# $P_{ij}$, and a change of $P_{ij}$ reaches $O_i$, times $v_j$. Written as matrices, with $O = PV$,
# $S = QK^\top / \sqrt d$, and $dO$ for the gradient that arrives:
#
# $$dV = P^\top dO \qquad dP = dO\, V^\top \qquad dS_{ij} = P_{ij}\,(dP_{ij} - D_i)$$
#
# $$dQ = dS\,K / \sqrt d \qquad dK = dS^\top Q / \sqrt d$$
#
# The formula for $dS$ is the one you derived, with $D_i = \sum_j P_{ij}\, dP_{ij}$. That seems to need the whole row.
# It doesn't, because $\sum_j P_{ij} (dO_i \cdot v_j) = dO_i \cdot \sum_j P_{ij} v_j = dO_i \cdot O_i$, one dot product
# with the output, which you already have. (In the two-key example it's 17.5, and $0.25 \cdot (10 - 17.5) = -1.875$.)
#
# ### Exercise: the gradient in tiles ({points}, difficulty 5, 45 minutes)
#
# Write `flash_backward(q, k, v, o, lse, grad_o, block_size, is_causal)`.
#
# - `q`, `k`, `v`, `block_size`, `is_causal` are as before; `o` and `lse` are what the forward pass has returned, and
#   `grad_o` has the shape of `o`.
# - Return the gradients of `q`, `k` and `v`, in this order, each in the shape of its input.
# - No tensor of $n \times n$ numbers, as before. You may skip closed tiles or not, since nothing counts them here.
#   The gradients themselves needn't be differentiable.
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
    """Gradients of q, k and v, from the output (…, n, d_v), the log-sum-exp (…, n) and
    the output's gradient."""
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
# First write it with the whole table, five lines from the formulas above, and compare with autograd. Only then cut.
#
# </details>
# <details><summary>Hint 2</summary>
#
# In tiles, make three tensors of zeros like `q`, `k` and `v`. Each tile adds to one block of `grad_q`, and to one block
# of `grad_k` and `grad_v`. Use `+=` for all three, because a query attends to many keys, and many queries attend to a
# key.
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
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
eye, zero = torch.eye(2), torch.zeros(2, 2)
backward = yours_or_ours(
    "flash_backward",
    globals(),  # and does it take D from o? Below, o is set to 0
    asked=lambda backward: backward(eye, eye, eye, zero, zero[0], eye, 2, False),
)

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
# What if you leave out $D$? An output of zeros makes it 0.

# %%
for is_causal in (False, True):
    (wanted,) = torch.autograd.grad(naive_attention(q, k, v, is_causal), q, gradient)
    with torch.no_grad():
        o, lse = flash(q, k, v, 16, is_causal)
        found, _, _ = backward(
            q, k, v, torch.zeros_like(o), lse, gradient, 16, is_causal
        )
    print(
        f"causal: {is_causal!s:5}  with D = 0 the gradient of q is off by "
        f"{(found - wanted).abs().max():.1f}"
    )
    assert (found - wanted).abs().max() > 0.1

# %% [markdown]
# ## Train a model through it · more
#
# Forward and backward together make a function autograd can use. It keeps five tensors, and none of them is a table.


# %%
class Flash(torch.autograd.Function):
    """Attention that keeps q, k, v, its output and one number for each row."""

    @staticmethod
    def forward(ctx, q, k, v, block_size, is_causal):
        # copies, for what is made in inference mode can't be saved
        output, lse = (x.clone() for x in flash(q, k, v, block_size, is_causal))
        ctx.save_for_backward(q, k, v, output, lse)
        ctx.settings = block_size, is_causal
        return output

    @staticmethod
    def backward(ctx, grad_output):
        return *backward(*ctx.saved_tensors, grad_output, *ctx.settings), None, None


# %% [markdown]
# How much is that, compared with what autograd keeps for the table? In the picture both axes are logarithmic, so a cost
# that grows like $n^2$ is a line of slope 2, and one that grows like $n$ has slope 1.

# %%
tiled = lambda q, k, v: Flash.apply(q, k, v, 64, False)  # noqa: E731
remembered = [[x.requires_grad_() for x in qkv] for qkv in texts]
saved = {"the table": [bytes_kept(naive_attention, *qkv) for qkv in remembered]}
saved["in tiles of 64"] = [bytes_kept(tiled, *qkv) for qkv in remembered]
print("kept for the backward pass at 4096 words:")
for name, costs in saved.items():
    print(
        f"  {name:15} {costs[-1] / 1000:6,.0f} kB; grows like n to the "
        f"{slope(costs):.2f}"
    )
assert abs(slope(saved["the table"]) - 2) < 0.05
assert largest["the table"][-1] == 256 * largest["the table"][0]
assert 200 < saved["the table"][-1] / saved["the table"][0] < 256
for costs in (largest["in tiles of 64"], saved["in tiles of 64"]):
    assert 14 < costs[-1] / costs[0] < 18
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
    "Two panels on logarithmic axes, from 256 to 4096 words. The cost of the table "
    "rises by a factor of 256 on the left and of nearly 220 on the right, slope 2, and "
    "that of the tiles by a factor of 16 in both, slope 1."
)

# %% [markdown]
# Now the model of lesson 08, which writes a name for a colour. If you've trained it there, it's loaded with the weights
# you trained; otherwise it's trained here. In each of its attention layers only one line changes: `attended` comes from
# the table, or from your functions.


# %%
def attention_layer(layer: nn.Module, num_heads: int, in_tiles: bool):
    """What the layer does with x (b, n, d_model)."""
    gives_weights = isinstance(layer(torch.zeros(1, 1, layer.w_q.in_features)), tuple)

    def forward(x: Tensor, *_, **__) -> Tensor | tuple[Tensor, None]:
        q, k, v = (
            attnlib.split_heads(w(x), num_heads)
            for w in (layer.w_q, layer.w_k, layer.w_v)
        )
        attended = (
            Flash.apply(q, k, v, 16, True)
            if in_tiles
            else naive_attention(q, k, v, True)
        )
        output = layer.w_o(attnlib.merge_heads(attended))
        return (output, None) if gives_weights else output  # lesson 05's gives both

    return forward


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The layers of the model that have the four matrices."""
    names = "w_q", "w_k", "w_v", "w_o"
    return [x for x in model.modules() if all(hasattr(x, name) for name in names)]


def with_attention(model: nn.Module, in_tiles: bool) -> nn.Module:
    """The model, with a table of weights in each head or without."""
    for layer in attention_layers(model):
        layer.forward = attention_layer(layer, 4, in_tiles)
    return model


def calls(model: nn.Module) -> int:
    """How often attention layers are called for one text."""
    called = []
    for layer in attention_layers(model):
        layer.register_forward_hook(lambda *_: called.append(True))
    model(torch.zeros(1, 5, dtype=torch.long))
    return len(called)


# %%
Model = yours_or_ours(
    "LanguageModel",
    globals(),  # does it call its layers, and can they be changed?
    asked=lambda model: calls(with_attention(model(9, 8, 4, 2, 5), in_tiles=True)),
)
colours = colour_lines()
letters = ["\n", *sorted(set("".join(colours)))]
rows = [torch.tensor([letters.index(x) for x in f"\n{line}\n"]) for line in colours]
lines = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
lines = lines[: len(lines) * 9 // 10]  # the others are for tests


def loss_of(model: nn.Module, ids: Tensor) -> Tensor:
    """The loss at each character but the first; -100 fills a line up and doesn't
    count."""
    logits = model(ids[:, :-1].clamp(min=0))
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


# %%
# nbval-ignore-output: says whether lesson 08's weights are there
def train_writer(model: nn.Module) -> None:
    """Lesson 08's training: 440 steps, the rate rises over 20 of them, then falls."""
    for table in (model.embed, model.positions):
        nn.init.normal_(table.weight, std=0.05)
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01)
    for step in (bar := training(440)):
        loss = loss_of(model, lines[torch.randint(0, len(lines), (32,))])
        for group in optimiser.param_groups:
            group["lr"] = 6e-3 * min(1, (step + 1) / 20) * (1 - step / 440)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        bar.loss(loss.detach())


torch.manual_seed(seed)
writer = trained(
    "colour_writer", Model(len(letters), 64, 4, 2, lines.shape[1]), train_writer
)
with torch.no_grad():
    print(f"loss on the {len(lines)} lines: {loss_of(writer, lines).item():.2f}")
    assert loss_of(writer, lines) < 1.6

# %% [markdown]
# Make twins of the model: two copies with the same weights, both trained on the same 25 further batches. *Will their
# losses differ?*


# %%
def train_on(model: nn.Module) -> list[float]:
    """25 more steps of AdamW -> the loss before each of them."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(seed + 1)
    curve = []
    for _ in range(25):
        loss = loss_of(model, lines[torch.randint(0, len(lines), (64,))])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        curve.append(loss.item())
    return curve


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
twins = [with_attention(copy.deepcopy(writer), in_tiles) for in_tiles in (False, True)]
curves = [train_on(model) for model in twins]
for name, curve in zip(("the table", "in tiles"), curves, strict=True):
    print(f"{name:10} loss {curve[0]:.4f} -> {sum(curve[-5:]) / 5:.4f}")
apart = max(abs(a - b) for a, b in zip(*curves, strict=True))
print(f"the two losses are never further apart than {apart:.0e}")
assert abs(curves[0][0] - curves[1][0]) < 1e-5
assert apart < 1e-3
changed = [
    (a - b).abs().max().item()
    for a, b in zip(twins[1].parameters(), writer.parameters(), strict=True)
]
print(f"25 steps have moved the weights by up to {max(changed):.2f}")
assert max(changed) > 0.01  # the losses agree although the weights have moved

# %% [markdown]
# And the bill of a single step? A name is too short for that, so here is a model of the same size for texts of 512,
# with random weights.

# %%
longer = torch.randint(0, len(letters), (2, 513))
bills = []
for in_tiles in (False, True):
    torch.manual_seed(seed)
    model = with_attention(Model(len(letters), 64, 4, 2, 512), in_tiles)
    bills.append(bytes_kept(loss_of, model, longer))
print(f"with the table {bills[0] / 1e6:.1f} MB, in tiles {bills[1] / 1e6:.1f} MB")
assert bills[1] < 0.75 * bills[0]

# %% [markdown]
# Nothing was approximated, so nothing changes but the bill. (The losses don't always agree to the last bit, because
# sums in a different order round differently.) What's left of the bill is the inputs and results of the heads, the MLP,
# the norms and the logits, and all of these grow like $n$.
#
# ## Say what the win is, and what it isn't · more
#
# *Are these fewer multiplications?* Count them, forward and backward, without causality.

# %%
q, k, v = (torch.randn(1, 512, 16, requires_grad=True) for _ in range(3))
theirs = partial(attnlib.tiled_attention, block_q=64, block_k=64)
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
# measurements. A GPU can do hundreds of multiplications in the time it takes to fetch one number from slow memory. You
# counted the traffic above, and *traffic* is what was saved. The multiplications were cheap all along.
#
# ## Read how others write it · more
#
# **FlexAttention**, in PyTorch since 2.5, lets you write the rule for one pair of positions as a small function, and
# compiles a kernel for it. The tiles to be skipped are worked out beforehand, in a `BlockMask`:
#
# | in your function | FlexAttention |
# | --- | --- |
# | the inner loop ends on the diagonal | `mask = create_block_mask(causal, None, None, n, n, BLOCK_SIZE=64)` |
# | the tile on the diagonal is masked | `def causal(b, h, q, k): return q >= k` |
# | scores are made, and scaled | `score_mod(score, b, h, q, k)`, where you may add ALiBi, or anything else |
# | all of `flash_attention` | `torch.compile(flex_attention)(q, k, v, block_mask=mask)` |
#
# **Triton** is a language for such kernels, inside Python. The outer loop is gone, because the GPU runs the function
# once for each block of queries and each head, all at the same time. The inner loop is left, and you'll recognise its
# lines in [Triton's tutorial](https://triton-lang.org/main/getting-started/tutorials/06-fused-attention.html):
#
# | in your function | Triton |
# | --- | --- |
# | the outer loop takes a block of queries | `block = tl.program_id(0)`: which one am I? |
# | a slice of `q` | `tl.load(Q + rows[:, None] * width + d, …)`, a table of addresses |
# | the inner loop ends on the diagonal | `for start in range(0, (block + 1) * B, B)` |
# | $m' = \max(m, \max_j s_j)$ | `top = tl.maximum(m, tl.max(s, axis=1))` |
# | $l' = e^{m - m'} l + \sum_j e^{s_j - m'}$ | `l = shrink * l + tl.sum(p, axis=1)` |
# | $o' = e^{m - m'} o + \sum_j e^{s_j - m'} v_j$ | `o = shrink[:, None] * o + tl.dot(p, v)` |
# | $o / l$ is stored in the result | `tl.store(O + …, o / l[:, None], …)` |

# %% [markdown]
# ## Take this with you · core
#
# **A softmax can be built up from parts, in any order, if each part brings its largest score, its sum and its output.**
#
# You can now compute attention without making the table, split it among processors, and say what that saves. What you
# can't do with PyTorch's operations alone is make it fast. That takes a kernel.
#
# | | |
# | --- | --- |
# | formula | $m = \max(m_1, m_2)$, $l = e^{m_1 - m} l_1 + e^{m_2 - m} l_2$, $o$ likewise; at the end $o / l$ |
# | gradient | $dS = P \circ (dP - D)$, where $D$ is the sum of $P \circ dP$ along a row, and also $dO \cdot O$ |
# | shapes | `o` `(…, n, d_v)`, `m` and `l` `(…, n)`; a tile `(…, block, block)` |
# | trap 1 | $o$ is rescaled and $l$ is not, or the other way round |
# | trap 2 | −inf − (−inf) in a row that begins with closed keys |
# | trap 3 | closed tiles are masked, not skipped: right, and twice the work |
# | in PyTorch | `F.scaled_dot_product_attention` does this whenever it can; it keeps `q`, `k`, `v`, `o` and `lse` |
#
# **What real models do today**
#
# - Most are trained with a kernel of this kind, such as FlashAttention 2 (Dao 2023), which shares out the tiles better,
#   or 3 (Shah and others 2024), which can also use the 8-bit units of new GPUs. The mathematics is what you have
#   written.
# - Long contexts are trained with ring attention or its relatives (Liu and others 2023).
# - Windows, documents packed into one row, and other masks are written as block masks (FlexAttention, 2024): a closed
#   tile costs nothing, whatever the rule.
#
# ## Think further · more
#
# 1. In `flash_attention` no row ever begins with closed keys, so you don't need the guard. With a sliding window
#    (lesson 09) there may be such rows. Which, and what would happen?
# 2. Dropout on the weights needs the same random numbers in the backward pass. How can it get them without keeping an
#    $n \times n$ table of them?
# 3. With ring attention and a causal mask, the machine with the first words soon has nothing to do. What would you do
#    about that?
#
# <details><summary>Answers</summary>
#
# 1. In a tile at the left edge of the band, the later queries may have a window that begins after the last key of the
#    tile. For them all keys so far are closed, old and new $m$ are −inf, and the difference is NaN. So kernels have the
#    guard, or go through the tiles from the diagonal leftwards.
# 2. A GPU makes random numbers from a seed and a counter. Let the counter be the position in the table. Then the
#    backward pass can make the same numbers again in each tile, just as it computes the weights again.
# 3. Give every machine two pieces, one from the beginning of the text and one from the end, or every k-th word
#    (striped attention). Then all of them have about the same number of open tiles.
#
# </details>
#
# ## Read on · more
#
# - [Milakov and Gimelshein 2018](https://arxiv.org/abs/1805.02867), the online softmax: short, with the proof of your
#   first exercise.
# - [Rabe and Staats 2021](https://arxiv.org/abs/2112.05682), *Self-attention Does Not Need O(n²) Memory*: what you've
#   built, half a year before it got its name, in a page of JAX.
# - [Dao et al. 2022](https://arxiv.org/abs/2205.14135), FlashAttention: figure 1 is your drawing of the two memories,
#   with the sizes and speeds of a real GPU, and appendix B is your backward pass.
# - [Dao 2023](https://arxiv.org/abs/2307.08691), FlashAttention-2: how the same tiles are shared out among the
#   processors for twice the speed.
# - [Liu et al. 2023](https://arxiv.org/abs/2310.01889), ring attention: your `merge`, between machines.
#
# **Next:** you can build all of it now, and make it fast. But what has the model learned? Lesson 11 opens a model up
# and watches a head as it learns to copy.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/10_flash_attention.ipynb`.*
