# %% [markdown]
# # 07 · Positions: tell the words where they are
#
# *The animal did not cross the street.* *The street did not cross the animal.* A reader sees two different stories.
# Attention, as you have built it so far, sees one bag of words. In this lesson you give it an order, in the three ways
# that have mattered, and then you train all of them to find out what each one can and cannot do.
#
# | | |
# | --- | --- |
# | **You will build** | sinusoidal positions, rotary positions, ALiBi, and a bridge between two rotary layouts |
# | **You will understand** | why a rotation leaves only the distance, and what happens beyond the trained length |
# | **You need** | the clock of lesson 03, the masks of 05, the norms and MLPs of 06, a pencil, about two hours |
#
# The models at the end run on your own functions, each as soon as it passes its check.

# %%
import functools
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import usable_text
from attnlib.plot import ACCENT, GREY, INK, PALE, show, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
seed = 0  # `python -m benchmarks.other_seeds 07_positions` runs this lesson with others

# %% [markdown]
# ## Exchange two words, and nobody notices
#
# Take any embeddings and any matrices. Both sentences go through self-attention. Then compare what the word *animal*
# has learned about its sentence: it is second in one and last in the other.

# %%
torch.manual_seed(seed)
one = ["the", "animal", "did", "not", "cross", "the", "street"]
other = ["the", "street", "did", "not", "cross", "the", "animal"]
vectors = {word: torch.randn(16) for word in one}
w_q, w_k, w_v = (torch.randn(16, 16) / 4 for _ in range(3))


def attend(x: Tensor, *, is_causal: bool = False) -> Tensor:
    """Self-attention without positions, (n, d_model) -> (n, d_model)."""
    return attnlib.scaled_dot_product_attention(
        x @ w_q, x @ w_k, x @ w_v, is_causal=is_causal
    )


first, second = (
    attend(torch.stack([vectors[word] for word in text])) for text in (one, other)
)
assert_close(
    first[one.index("animal")], second[other.index("animal")], atol=1e-6, rtol=0
)
assert_close(first[one.index("cross")], second[other.index("cross")], atol=1e-6, rtol=0)
words, order = torch.randn(7, 16), torch.randperm(7)
# shuffled in, shuffled out
assert_close(attend(words[order]), attend(words)[order], atol=1e-6, rtol=0)
print("animal:", [round(x, 3) for x in first[1, :4].tolist()], "in both sentences")

# %% [markdown]
# They are equal, up to rounding. Who crossed whom is lost, and no training can bring it back, because nothing in the
# chain treats one position differently from another. What is the least that you have to add?
#
# A causal mask might be enough. It knows an order, after all: it lets each word see only those before it.
#
# ### Predict, then run: the first two words change places ({points}, difficulty 2, 3 minutes)
#
# One layer of *causal* self-attention, without positions. Two sentences differ in one thing only: their first two words
# have changed places. Compare the outputs position by position. Which of them differ?
#
# - **A**: all of them: every later word looks back at a different beginning
# - **B**: only those at the first and at the second position
# - **C**: none: the outputs of the two words change places, and that is all
# - **D**: the first, the second, and the last, which sees the whole sentence

# %%
### BEGIN SOLUTION
no_position = "B"
### BEGIN STUB
# no_position = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_no_position", no_position)

# %%
x = torch.randn(7, 16)
swapped = x[[1, 0, 2, 3, 4, 5, 6]]
before, after = attend(x, is_causal=True), attend(swapped, is_causal=True)
apart = (before - after).abs().amax(dim=-1)
print(
    "largest difference by position:",
    [round(difference, 3) for difference in apart.tolist()],
)
assert apart[:2].min() > 0.01
assert apart[2:].max() < 1e-5
# nor did the two outputs merely change places
assert (before[0] - after[1]).abs().max() > 0.01

# %% [markdown]
# The mask tells a word *how many* words come before it, and that is something: an even share of attention is $1/2$ at
# the second position and $1/3$ at the third, and a deeper network can use that to count. But it never sees the order in
# which they came. That takes more.

# %% [markdown]
# ## Write the position down as hands of a clock
#
# Could you add the number itself, 0, 1, 2, …, to one feature of each word? At position 1000 it would drown out all
# other features. Divide by the length, then? Now *the word before* is at distance 0.1 in one text and at 0.01 in
# another. What you want is bounded, the same in every text, and different at every position.
#
# A clock is like that. Its hands never leave the face, and three of them tell 43,200 seconds apart, because each turns
# at its own speed. So give each position a set of hands, and write down where each one points: its sine and its cosine.
# With $d$ features there are $d/2$ hands, and hand $i$ turns by $\theta_i$ radians for each word:
#
# $$\theta_i = \frac{1}{\mathrm{base}^{2i/d}}, \qquad
# \mathrm{PE}(p, 2i) = \sin(p\,\theta_i), \quad \mathrm{PE}(p, 2i+1) = \cos(p\,\theta_i)$$
#
# By hand, for $d = 4$ and base 10000: $\theta_0 = 1$ and $\theta_1 = 1/10000^{2/4} = 0.01$.
#
# | position | sin p | cos p | sin 0.01p | cos 0.01p |
# |---|---|---|---|---|
# | 0 | 0 | 1 | 0 | 1 |
# | 1 | 0.841 | 0.540 | 0.010 | 1.000 |
# | 2 | 0.909 | −0.416 | 0.020 | 1.000 |
#
# ### Exercise: make the table ({points}, difficulty 2, 12 minutes)
#
# Write `sinusoidal_positions(n, d_model, base=10000.0)`.
#
# - The result is `(n, d_model)`, float32. Even columns hold sines, odd columns cosines, as in the table above.
# - `d_model` may be odd; then the last cosine is left out.
# - Compute the angles in float64 and convert at the very end: the value at position 4096 has to be right to $10^{-6}$,
#   and far out a float32 angle no longer knows where it is.
# - Not allowed: `attnlib.sinusoidal_positions`.


# %%
def sinusoidal_positions(n: int, d_model: int, base: float = 10000.0) -> Tensor:
    """(n, d_model): sin and cos of position / base^(2i / d_model) in the columns 2i and 2i + 1."""
    ### BEGIN SOLUTION
    speeds = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * speeds  # (n, pairs)
    return (
        torch.stack([angles.sin(), angles.cos()], dim=-1)
        .flatten(-2)[:, :d_model]
        .float()
    )
    ### END SOLUTION


# %%
check("sinusoidal_positions", sinusoidal_positions)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First the speeds, one for each pair of columns: `torch.arange(0, d_model, 2)` already is $0, 2, 4, …$, that is, $2i$.
# Then the angles: every position times every speed, `(n, pairs)`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Sines and cosines have to alternate. Stack the two along a new last axis, `(n, pairs, 2)`, and flatten the last two
# axes. Or make an empty table, and fill `table[:, 0::2]` and `table[:, 1::2]`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# With an odd `d_model` there are as many sines as pairs, and one cosine fewer: cut the finished table to `d_model`
# columns. Use `dtype=torch.float64` in both calls of `arange`, and `.float()` at the end.
#
# </details>

# %%
table_of = yours_or_ours("sinusoidal_positions", globals())

# %%
hands = table_of(13, 8, 100.0)  # a small base, so that you can see the slow hands move

_, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
for pair in range(4):
    for position in range(13):
        sine, cosine = hands[position, 2 * pair : 2 * pair + 2].tolist()
        ax.add_patch(
            plt.Circle((position, -pair), 0.4, facecolor=PALE, edgecolor="none")
        )
        # 0 is at the top, as on a clock
        tip = position + 0.38 * sine, -pair + 0.38 * cosine
        ax.plot([position, tip[0]], [-pair, tip[1]], color=INK if pair else ACCENT)
ax.set(
    xlim=(-0.6, 12.6),
    ylim=(-3.6, 0.6),
    aspect="equal",
    xlabel="position",
    xticks=range(13),
)
ax.set_yticks(
    [0, -1, -2, -3], [f"hand {i}: {100 ** (-i / 4):.2f} per word" for i in range(4)]
)
ax.set_title(
    "Each column is one position: fast hands tell neighbours apart, slow ones regions"
)
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
show(
    "Four rows of clock faces for the positions 0 to 12. In the first row the hand "
    "goes around twice, in the second more than half around, in the third a fifth, "
    "and in the fourth it hardly moves."
)

# %% [markdown]
# Why two numbers for one hand? Because a step forward is then a *rotation*, the same one wherever you start. To go from
# position $p$ to $p + s$, turn each hand by $s\,\theta_i$. As a matrix $R(s)$, for one hand:
#
# $$\begin{pmatrix} \sin (p+s)\theta \\ \cos (p+s)\theta \end{pmatrix} =
# \begin{pmatrix} \cos s\theta & \sin s\theta \\ -\sin s\theta & \cos s\theta \end{pmatrix}
# \begin{pmatrix} \sin p\theta \\ \cos p\theta \end{pmatrix}$$
#
# (The hands are written as a column here, as in the papers. Our positions are rows, so the code multiplies by $R^\top$
# from the right.) There is no $p$ in the matrix. So a matrix that is learned once, such as $W^Q$, can mean "three words
# back" at every position. Here is $R(3)$ for four columns, and a test over a hundred positions.


# %%
def step(s: float, d: int, base: float = 10000.0) -> Tensor:
    """R(s), (d, d): a block of 2 × 2 for each hand."""
    angles = [s / base ** (2 * i / d) for i in range(d // 2)]
    return torch.block_diag(
        *(
            torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]])
            for a in angles
        )
    )


print(step(3, 4).numpy().round(3))
table = table_of(103, 32)
assert_close(table[3:], table[:-3] @ step(3, 32).T, atol=1e-5, rtol=0)
assert_close(table[40:50], table[:10] @ step(40, 32).T, atol=1e-5, rtol=0)

# %% [markdown]
# ## Turn the words instead
#
# The paper of 2017 *added* this table to the embeddings, and left it to $W^Q$ and $W^K$ to get it out again. Look at
# the score that results, with $x$ for what a word is and $p$ for where it is:
#
# $$(x_i + p_i) \cdot (x_j + p_j) = x_i \cdot x_j + x_i \cdot p_j + p_i \cdot x_j + p_i \cdot p_j$$
#
# Four terms, and two of them mix *what* with *where*. The score depends on both positions, and "two words back" has to
# be learned so that these two terms do not disturb it.
#
# In 2021 [Su and others](https://arxiv.org/abs/2104.09864) drew the conclusion from the rotation: leave the embeddings
# alone, and turn queries and keys by their positions. Take two columns, and one hand with $\theta = 30°$, as on the
# clock of lesson 03.
#
# - A query $(1, 0)$ at position 5 is turned by $150°$, a key $(1, 0)$ at position 3 by $90°$. Their dot product is
#   $\cos(150° - 90°) = \cos 60° = 0.5$.
# - Move both by seven words, to 12 and 10: $360°$ and $300°$. Their dot product is $\cos 60° = 0.5$ again.
#
# A dot product depends on the angle *between* two vectors. Turn both by the same angle and it does not change. So only
# the difference between the two positions is left in it. In lesson 03 a matrix turned the query's hand back by one
# hour, to find the word before. This is that clock, for every pair of columns, each with its own speed.

# %%
for place_q, place_k in ((5, 3), (12, 10)):
    q, k = (
        torch.tensor([math.cos(a), math.sin(a)])
        for a in (math.radians(30 * place_q), math.radians(30 * place_k))
    )
    print(f"query at {place_q:2}, key at {place_k:2}: {q @ k:.3f}")
    assert_close((q @ k).item(), 0.5, atol=1e-6, rtol=0)

# %% [markdown]
# ### Exercise: turn every pair of columns ({points}, difficulty 3, 20 minutes)
#
# Write `rotate(x, positions, base=10000.0)`. The pairs are neighbours, the columns (0, 1), (2, 3), …, and pair $i$ at
# position $p$ is turned by $\alpha = p\,\theta_i$, with the $\theta_i$ from above:
#
# $$(a, b) \;\mapsto\; (a \cos\alpha - b \sin\alpha,\; a \sin\alpha + b \cos\alpha)$$
#
# - `x` is `(…, n, d)`, and so is the result. As always.
# - `positions` is `(n,)`, or anything that broadcasts to `(…, n)`, such as `(b, 1, n)` for a batch in which each
#   sentence begins somewhere else. They may be any numbers: out of order, negative, or fractions.
# - Compute the angles in float64, as you did for the table, then convert sine and cosine to the dtype of `x`.
# - For an odd `d`, raise a `ValueError`.
# - Not allowed: `attnlib.rotate`, `attnlib.apply_rotary`, `attnlib.Rotary`.


# %%
def rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """x (..., n, d), positions (n,) or broadcast to (..., n) -> (..., n, d)."""
    ### BEGIN SOLUTION
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"d must be even (columns are rotated in pairs), got {d}")
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d)
    angles = positions.double()[..., None] * speeds  # (..., n, pairs)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    ### END SOLUTION


# %%
check("rotate", rotate)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Speeds and angles are those of the table. Only the positions are now given: `positions[..., None] * speeds` has the
# shape `(…, n, d/2)`, an angle for each pair.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `x[..., 0::2]` are the first columns of all pairs, `x[..., 1::2]` the second ones, each `(…, n, d/2)`. Give them names
# and compute both new columns from the old ones.
#
# </details>
# <details><summary>Hint 3</summary>
#
# To put the pairs back in their places, stack the two results along a new last axis, `(…, n, d/2, 2)`, and flatten the
# last two axes. (`cat` would put all first columns in front.) Make `arange` on `x.device`, in float64.
#
# </details>

# %% [markdown]
# Now test it. Turn a query and a key at any two positions, move both by the same $s$, and the score must stay the same.
# Rotating a pair of columns is also multiplying one complex number $a + bi$ by $e^{i\alpha}$, which is how some models
# write it. And the sinusoidal table is in there, too: it is one vector, turned.

# %%
turn = yours_or_ours("rotate", globals())

torch.manual_seed(seed + 1)
q, k = torch.randn(2, 32, dtype=torch.float64)
at = torch.tensor
score = turn(q[None], at([5])) @ turn(k[None], at([3])).T
for s in (1, 7, 100, 12345, -2.5):
    moved = turn(q[None], at([5 + s])) @ turn(k[None], at([3 + s])).T
    assert_close(moved, score, atol=1e-9, rtol=0)
# before is not behind
assert (turn(q[None], at([3])) @ turn(k[None], at([5])).T - score).abs() > 1e-3

x, places = torch.randn(2, 4, 11, 32, dtype=torch.float64), torch.arange(11)
speeds = 10000 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
# e^(iα)
unit = torch.polar(torch.ones(11, 16, dtype=torch.float64), places[:, None] * speeds)
by_complex = torch.view_as_real(
    torch.view_as_complex(x.unflatten(-1, (16, 2))) * unit
).flatten(-2)
assert_close(turn(x, places), by_complex, atol=1e-12, rtol=0)
# no length changes
assert_close(turn(x, places).norm(dim=-1), x.norm(dim=-1), atol=1e-12, rtol=0)
assert_close(turn(table[:1].expand(11, 32), -places), table[:11], atol=1e-5, rtol=0)
print(f"score at 5 and 3, and at every other pair two apart: {score.item():.4f}")

# %% [markdown]
# The last assertion has a minus in it, because the table keeps its sine in front: seen that way round, the hands turn
# clockwise.

# %% [markdown]
# ## Read somebody else's weights
#
# Neighbours are not the only possible pairs. RoFormer and GPT-J turn the columns (0, 1), (2, 3), … GPT-NeoX, and LLaMA
# as it comes with `transformers`, pair the *halves*, (0, d/2), (1, d/2 + 1), … Both are rotary, and one is as good as
# the other. But load the weights of one into the code of the other, and the scores are wrong, with no error anywhere.
#
# The cure is to sort the columns once. For a head of six columns:
#
# ```text
# neighbours   0 1 2 3 4 5      pairs (0,1) (2,3) (4,5)
# halves       0 2 4 1 3 5      the same pairs, now at distance 3
# ```
#
# If the columns of $W^Q$ and $W^K$ are sorted alike, queries and keys are sorted alike, and a dot product does not care
# in which order its terms are added.
#
# ### Exercise: from neighbours to halves, and back ({points}, difficulty 4, 15 minutes)
#
# Write `to_half_pairs(w, num_heads, back=False)`.
#
# - `w` is `(d_model, h·d)`, where `x @ w` are the queries or keys of all heads side by side, as in lesson 03: the first
#   `d` columns are those of head 0, and `d` is even.
# - Within each head, put the first columns of all pairs in front, in order, and then the second columns.
# - With `back=True` do the reverse: halves become neighbours again.
# - Dtype, device and gradients as always.
# - Not allowed: `attnlib.to_half_pairs`.


# %%
def to_half_pairs(w: Tensor, num_heads: int, back: bool = False) -> Tensor:
    """(d_model, h * d) -> the same shape, with the columns of each head in another order."""
    ### BEGIN SOLUTION
    shape = (num_heads, 2, -1) if back else (num_heads, -1, 2)
    return w.unflatten(-1, shape).transpose(-1, -2).flatten(-3)
    ### END SOLUTION


# %%
check("to_half_pairs", to_half_pairs)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take one head of six columns, and write its columns as a table with a row for each pair: 0 1 / 2 3 / 4 5. How do you
# have to read the table to get 0 2 4 1 3 5?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Split the last axis into (heads, pairs, 2). Swap the last two. Flatten.
#
# </details>
# <details><summary>Hint 3</summary>
#
# In einops, which you would have to import here, the pattern on the left is `"d_model (h pairs two)"`, with `two=2`.
# For the way back the same axes come in the other order: split into (heads, 2, pairs).
#
# </details>

# %%
sort = yours_or_ours("to_half_pairs", globals())


def turn_halves(x: Tensor, positions: Tensor) -> Tensor:
    """As in `transformers`: x cos + rotate_half(x) sin, pairs (i, i + d/2)."""
    width = x.shape[-1]
    halves = positions[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    halves = torch.cat([halves, halves], dim=-1)
    front, rear = x.chunk(2, dim=-1)
    return x * halves.cos() + torch.cat([-rear, front], dim=-1) * halves.sin()


x, places = torch.randn(11, 48), torch.arange(11)
w_q, w_k = torch.randn(48, 3 * 16) / 7, torch.randn(48, 3 * 16) / 7
by_neighbours = [
    turn((x @ w).unflatten(-1, (3, 16)).transpose(0, 1), places) for w in (w_q, w_k)
]
by_halves = [
    turn_halves((x @ sort(w, 3)).unflatten(-1, (3, 16)).transpose(0, 1), places)
    for w in (w_q, w_k)
]
unsorted = [
    turn_halves((x @ w).unflatten(-1, (3, 16)).transpose(0, 1), places)
    for w in (w_q, w_k)
]
expected = by_neighbours[0] @ by_neighbours[1].mT  # (h, n, n)
assert_close(by_halves[0] @ by_halves[1].mT, expected, atol=1e-4, rtol=0)
assert_close(sort(sort(w_q, 3), 3, True), w_q, atol=0, rtol=0)
off = (unsorted[0] @ unsorted[1].mT - expected).abs().max()
print(f"sorted: equal.  Not sorted: a score is off by {off:.1f}")
assert off > 1

# %% [markdown]
# ## Charge for distance
#
# The third way is the simplest. [Press and others](https://arxiv.org/abs/2108.12409) leave queries and keys alone, and
# take something off each score: a fixed price per word of distance. Nothing is learned. Suppose that four keys score
# alike, and that the price is $\frac12$ a word:
#
# | distance | 3 | 2 | 1 | 0 |
# |---|---|---|---|---|
# | taken off | 1.5 | 1 | 0.5 | 0 |
# | $e^{-\text{that}}$ | 0.223 | 0.368 | 0.607 | 1 |
# | weight | 0.10 | 0.17 | 0.28 | 0.46 |
#
# Each head has its own price, the *slope*: for eight heads $\frac12, \frac14, \frac18, …, \frac1{256}$. The first head
# hardly looks further than a few words. For the last one, a word a hundred places back still weighs two thirds as much
# as the nearest. In general head $i$ of $h$, counted from 1, has the slope $2^{-8i/h}$. The method is called ALiBi,
# *attention with linear biases*.
#
# ### Exercise: write the bias ({points}, difficulty 3, 12 minutes)
#
# Write `alibi_bias(num_heads, q_len, k_len)`.
#
# - The result is `(num_heads, q_len, k_len)`, float32: minus the slope of the head, times how far the key is behind the
#   query. It is 0 where a query meets its own key.
# - The *last* query is at the last key, whichever there are more of, as in lesson 05's `causal_mask`.
# - The bias is for causal attention. What you write into the future, numbers or -inf, is up to you: the mask covers it.
# - For a number of heads that is not a power of two, raise a `ValueError`. (The stretch exercise handles those.)
# - Not allowed: `attnlib.alibi_bias`, `attnlib.alibi_slopes`.


# %%
def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """(num_heads, q_len, k_len): what is added to the scores of each head."""
    ### BEGIN SOLUTION
    if num_heads & (num_heads - 1):
        raise ValueError(f"num_heads must be a power of two, got {num_heads}")
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    distance = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    return -slopes[:, None, None] * distance
    ### END SOLUTION


# %%
check("alibi_bias", alibi_bias)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two parts: the slopes, one for each head, and the distances, `(q_len, k_len)`. Compute each, look at each, then
# multiply.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Query $i$ is at position $i + (k\_len - q\_len)$, key $j$ at position $j$. A column of query positions minus a row of
# key positions is a table of distances.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `slopes[:, None, None]` is `(h, 1, 1)`, and times `(q, k)` it is `(h, q, k)`. A power of two has exactly one bit set,
# so `num_heads & (num_heads - 1)` is 0; or ask whether `math.log2(num_heads)` is whole.
#
# </details>

# %% [markdown]
# An additive mask is exactly what `F.scaled_dot_product_attention` takes as `attn_mask`, so ALiBi costs one addition.

# %%
bias_of = yours_or_ours("alibi_bias", globals())

by_hand = (-0.5 * torch.tensor([3.0, 2.0, 1.0, 0.0])).softmax(dim=-1)
assert_close(bias_of(8, 1, 4)[0, 0].softmax(dim=-1), by_hand, atol=1e-6, rtol=0)
assert_close(by_hand, torch.tensor([0.10, 0.17, 0.28, 0.46]), atol=6e-3, rtol=0)
# the last head, a hundred back
assert_close(bias_of(8, 1, 101)[7, 0, 0].exp().item(), 2 / 3, atol=0.02, rtol=0)

q, k, v = torch.randn(3, 2, 4, 11, 8).unbind()
# (h, n, n)
bias = bias_of(4, 11, 11).masked_fill(~attnlib.causal_mask(11, 11), -math.inf)
written_out = (q @ k.mT / math.sqrt(8) + bias).softmax(dim=-1) @ v
assert_close(
    F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
    written_out,
    atol=1e-6,
    rtol=0,
)
print("slopes of four heads:", (-bias_of(4, 1, 2)[:, 0, 0]).tolist())

# %% [markdown]
# ## See what the score knows
#
# One query vector, one key vector. Put the query at position 40 and move the key back, word by word. Then do the same
# from position 90. If a scheme knows distance and nothing else, the two curves coincide.

# %%
torch.manual_seed(seed)
q, k = torch.randn(32), torch.randn(32)
w_q, w_k = torch.randn(2, 32, 32) / math.sqrt(32)
table, distances = table_of(128, 32), torch.arange(31)


def scores_from(place: int) -> dict[str, Tensor]:
    """The score at each distance, for a query at `place`."""
    added = ((q + table[place]) @ w_q) @ ((k + table[place - distances]) @ w_k).T
    turned = turn(q[None], at([place])) @ turn(k.expand(31, 32), place - distances).T
    # the second head's slope, 1/16
    charge = bias_of(4, 1, place + 1)[1, 0, place - distances]
    root = math.sqrt(32)
    return {
        "sinusoidal": added / root,
        "rotary": turned[0] / root,
        "ALiBi": q @ k / root + charge,
    }


near, far = scores_from(40), scores_from(90)
assert (near["sinusoidal"] - far["sinusoidal"]).abs().max() > 0.2
assert_close(near["rotary"], far["rotary"], atol=1e-4, rtol=0)
assert_close(near["ALiBi"], far["ALiBi"], atol=1e-5, rtol=0)

# %%
_, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
titles = "Added: it depends on both positions", "Turned: one curve", "Charged: a ramp"
for ax, kind, title in zip(axes, near, titles, strict=True):
    ax.plot(
        distances, near[kind], color=INK, linewidth=5, alpha=0.35, label="query at 40"
    )
    ax.plot(distances, far[kind], color=ACCENT, linewidth=1.5, label="query at 90")
    ax.set(title=title, xlabel=f"{kind}: distance of the key")
axes[0].set_ylabel("score")
axes[0].legend()
show(
    "The score against the distance of the key, from two positions of the query. With "
    "the sinusoidal table two different waves; with rotary one wave, the same twice; "
    "with ALiBi one straight line downwards."
)

# %% [markdown]
# Two of the three know only the distance, but they are not alike. The rotation gives a curve with hills and valleys,
# and where these are depends on the query and the key. ALiBi's ramp can only go down. Keep that in mind for what comes
# next.
#
# ## Train them: say the word two places back
#
# *Which one wins?* Write down your guess, for two tasks.
#
# - **Two places back.** Random tokens, 16 of them. At each position the model has to name the token two places back.
#   Only position counts. Then the same model gets 64 tokens, four times what it was trained on.
# - **English text.** Guess the next character. The model is trained on 64 characters at a time, and then reads 256.
#
# The model is the same for all, a few lines around your functions. There are five kinds: no positions at all, a
# *learned* table (lesson 06's list), the sinusoidal table, rotary, and ALiBi.

# %%
bias_for = functools.cache(bias_of)  # asked once for each length


class PlacedAttention(nn.Module):
    """Causal self-attention in which `kind` says how positions get in; x (b, n, d_model)."""

    def __init__(self, kind: str, d_model: int, num_heads: int):
        super().__init__()
        self.kind, self.num_heads = kind, num_heads
        layers = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.w_q, self.w_k, self.w_v, self.w_o = layers

    def forward(self, x: Tensor, window: int) -> Tensor:
        n = x.shape[1]
        q, k, v = (
            attnlib.split_heads(w(x), self.num_heads)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        bias = torch.zeros(n, n)
        if self.kind == "rotary":
            q, k = turn(q, torch.arange(n)), turn(k, torch.arange(n))
        if self.kind == "ALiBi":
            bias = bias_for(self.num_heads, n, n)
        bias = bias.masked_fill(~attnlib.sliding_window_mask(n, n, window), -math.inf)
        return self.w_o(
            attnlib.merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))
        )


# %%
class PlacedModel(nn.Module):
    """Ids (b, n) -> scores for each token of the vocabulary (b, n, vocabulary)."""

    def __init__(
        self,
        kind: str,
        vocabulary: int,
        d_model: int,
        num_heads: int,
        depth: int,
        *,
        thinks: bool,
    ):
        super().__init__()
        self.kind = kind
        self.embed = nn.Parameter(0.5 * torch.randn(vocabulary, d_model))
        self.learned = (
            nn.Parameter(0.5 * torch.randn(64, d_model)) if kind == "learned" else None
        )
        self.attention = nn.ModuleList(
            PlacedAttention(kind, d_model, num_heads) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2 * depth + 1))
        mlps = (
            attnlib.FeedForward(d_model, 4 * d_model) if thinks else None
            for _ in range(depth)
        )
        self.mlps = nn.ModuleList(mlps)
        self.head = nn.Linear(d_model, vocabulary)

    def forward(self, ids: Tensor, window: int | None = None) -> Tensor:
        n = ids.shape[1]
        x = self.embed[ids]
        if self.kind == "learned":
            x = x + self.learned[:n]
        if self.kind == "sinusoidal":
            x = x + table_of(n, x.shape[-1])
        for i, (attention, mlp) in enumerate(
            zip(self.attention, self.mlps, strict=True)
        ):
            x = x + attention(self.norms[2 * i](x), window or n)
            x = x if mlp is None else x + mlp(self.norms[2 * i + 1](x))
        return self.head(self.norms[-1](x))


# %%
def train(model: nn.Module, batch_of, steps: int, rate: float) -> nn.Module:
    """Steps of AdamW on batches (ids, targets); the rate rises over 20 steps, then falls to 0."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    shape = lambda step: min(1, (step + 1) / 20) * (1 - step / steps)  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, shape)
    for _ in range(steps):
        ids, targets = batch_of()
        # the first tokens may have no target
        scores = model(ids)[:, -targets.shape[1] :]
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model


def two_back(batch: int = 32, n: int = 16) -> tuple[Tensor, Tensor]:
    """Random tokens (b, n), and for each but the first two the token two places before."""
    ids = torch.randint(0, 32, (batch, n))
    return ids, ids[:, :-2]


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
spans = {"2-15": slice(0, 14), "16-31": slice(14, 30), "32-63": slice(30, 62)}
# and a window to try
kinds = {"none": None, "learned": None, "sinusoidal": 16, "rotary": 16, "ALiBi": None}
found = {}
for kind, window in kinds.items():
    torch.manual_seed(seed)
    model = train(
        PlacedModel(kind, 32, 64, 4, 1, thinks=False), two_back, steps=220, rate=8e-3
    )
    ids, targets = two_back(256, 64)
    for width in [None, window] if window else [None]:
        with torch.no_grad():
            # by position
            right = (
                (model(ids, width)[:, 2:].argmax(dim=-1) == targets).float().mean(dim=0)
            )
        name = kind if width is None else f"{kind}, window of {width}"
        found[name] = {"all": right} | {
            where: right[span].mean().item() for where, span in spans.items()
        }
        print(
            f"{name:24}",
            "   ".join(f"{where}: {found[name][where]:.2f}" for where in spans),
        )

# %%
for kind in ("learned", "sinusoidal", "rotary"):
    assert found[kind]["2-15"] > 0.95
assert max(found["learned"]["16-31"], found["sinusoidal"]["16-31"]) < 0.25
assert 0.4 < found["rotary"]["16-31"] < 0.95
assert found["rotary"]["32-63"] < 0.5
assert all(0.15 < found["ALiBi"][where] < 0.4 for where in spans)
assert found["none"]["32-63"] < 0.2
assert min(found["rotary, window of 16"][where] for where in spans) > 0.95
assert found["sinusoidal, window of 16"]["16-31"] < 0.4

# %% [markdown]
# These are the shares of right answers, by position; the model was trained on positions up to 15. Five kinds, five ways
# to fail. Before you read on: why can ALiBi not do it at all, although it never gets worse? And why does a *window*
# (each token sees only the last 16) repair rotary, and not the sinusoidal table?
#
# Now the text: the English of Python's own documentation, which comes with Python. The last tenth is kept for the test.

# %%
from pydoc_data.topics import topics

text = "\n".join(topics[name] for name in sorted(topics))
letters = sorted(set(text))
number = {letter: i for i, letter in enumerate(letters)}
encoded = torch.tensor([number[letter] for letter in text])
kept = len(encoded) * 9 // 10


def next_letter(
    batch: int = 8, n: int = 64, *, start: int = 0, end: int = kept
) -> tuple[Tensor, Tensor]:
    """Pieces of text (b, n), and the same pieces one letter further."""
    at = torch.randint(start, end - n - 1, (batch, 1)) + torch.arange(n + 1)
    return encoded[at][:, :-1], encoded[at][:, 1:]


print(f"{len(text)} characters, {len(letters)} different ones")

# %%
readers = {}
for kind in ("rotary", "ALiBi"):
    torch.manual_seed(seed)
    readers[kind] = train(
        PlacedModel(kind, len(letters), 64, 4, 2, thinks=True),
        next_letter,
        steps=220,
        rate=6e-3,
    )

# %% [markdown]
# Both get the same test, pieces of 256 characters. Each reads them twice: once it sees everything, and once only the
# last 32 characters.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(1000)
ids, targets = next_letter(128, 256, start=kept, end=len(encoded))
losses = {}
for kind, reader in readers.items():
    for window in (None, 32):
        with torch.no_grad():
            scores = reader(ids, window)
        name = kind if window is None else f"{kind}, window of {window}"
        losses[name] = F.cross_entropy(
            scores.transpose(1, 2), targets, reduction="none"
        ).mean(dim=0)
        parts = [
            losses[name][a:b].mean().item() for a, b in ((0, 64), (64, 128), (128, 256))
        ]
        print(
            f"{name:21} loss at 0-63: {parts[0]:.2f}   64-127: {parts[1]:.2f}   128-255: {parts[2]:.2f}"
        )

# %%
end = {name: by_place[128:].mean() for name, by_place in losses.items()}
start = {name: by_place[:64].mean() for name, by_place in losses.items()}
assert end["ALiBi"] < start["ALiBi"] + 0.1
assert end["rotary"] > start["rotary"] + 0.1
assert end["rotary"] > end["ALiBi"] + 0.15
assert end["rotary, window of 32"] < start["rotary"] + 0.1
# the control: it needed no repair
assert abs(end["ALiBi, window of 32"] - end["ALiBi"]) < 0.1

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained")
colours = {
    "none": GREY,
    "learned": "#6baed6",
    "sinusoidal": "#6baed6",
    "rotary": ACCENT,
    "ALiBi": INK,
}
for name in [*colours, "rotary, window of 16"]:
    kind, _, window = name.partition(",")
    style = ":" if window else {"none": "-.", "sinusoidal": "--"}.get(kind, "-")
    width = 3 if kind == "rotary" else 2
    left.plot(
        range(2, 64),
        found[name]["all"],
        style,
        color=colours[kind],
        linewidth=width,
        label=name,
    )
left.set(
    xlabel="position",
    ylabel="share right",
    ylim=(-0.09, 1.09),
    title="Two places back: only a rotary window goes on",
)
left.legend(loc="upper right", bbox_to_anchor=(1, 0.9))
for name in ("rotary", "ALiBi", "rotary, window of 32"):
    kind, _, window = name.partition(",")
    blocks = losses[name].reshape(16, 16).mean(dim=-1)
    right.plot(
        range(8, 256, 16),
        blocks,
        ":" if window else "-",
        color=colours[kind],
        label=name,
    )
right.set(
    xlabel="position",
    ylabel="loss per character",
    title="English: rotary breaks, a window repairs it",
)
right.set_ylim(right.get_ylim()[0] - 0.1, right.get_ylim()[1] + 0.1)
right.legend(loc="upper left", bbox_to_anchor=(0.25, 1))
for ax, trained in ((left, 16), (right, 64)):
    ax.axvspan(0, trained, color=PALE, zorder=0)
    ax.text(
        trained / 2, ax.get_ylim()[0], "trained", ha="center", va="bottom", color="0.4"
    )
show(
    "Left: the share right by position, trained up to 15. Learned and sinusoidal fall "
    "to nearly 0 at 16, rotary some words later; ALiBi stays at a quarter throughout; "
    "rotary in a window of 16 stays at 1. Right: the loss on text by position, "
    "trained up to 63. ALiBi is flat, rotary rises, rotary in a window of 32 is flat."
)

# %% [markdown]
# So which one wins? None of them: they answer different questions.
#
# - **Learned and sinusoidal** tables know the position exactly, but only as far as they were trained. The learned table
#   has random numbers in the rows that it never used. The sinusoidal one has well-defined rows there, but $W^Q$ and
#   $W^K$ have never seen them.
# - **Rotary** says *where*: exactly two places back, and it goes on doing so for a few words beyond the trained length.
#   Then it breaks, and not because the positions are too large: the score at distance 2 is the same everywhere, as you
#   saw above. But there are more and more *other* distances, at which this query and these keys were never trained to
#   keep quiet.
# - **ALiBi** says *how far*: near, not two back. Its ramp has no peak at 2, so in the left picture it is wrong three
#   times out of four, at every length. In the right picture, nearness is most of what the next letter needs, and ALiBi
#   does not break.
#
# The dotted lines show it. Let each token see only as many tokens as in training, or fewer, without any further
# training: the same rotary weights are right at all 64 positions, and read 256 characters as well as they read 64. It
# was the *distance* that was too large, and a window takes large distances away. It cannot repair the sinusoidal table,
# where the positions themselves are new. (Lesson 09 uses such windows to save memory.)
#
# All this is one model, from one random start. `python -m benchmarks.other_seeds 07_positions` repeats the whole
# lesson, with all of its assertions, from three other seeds.

# %% [markdown]
# **Your turn.** Let the two readers read a text of yours. Change `mine` and run the cell: it prints how surprised they
# are, in nats per character, by the first 64 characters and by those after them. Try a text of 500 characters or more,
# a page of a manual, a poem, another language. Which reader suffers beyond position 64, and does the window help?

# %%
# nbval-ignore-output: the last digits vary by machine, and the text is yours
mine = (
    "The animal did not cross the street because it was too tired, and the street is "
    "too wide for it. " * 3
)

mine = usable_text(mine, letters, shortest=100, longest=2000)
ids = torch.tensor([[number[letter] for letter in mine]])
for kind, window in (("rotary", None), ("rotary", 32), ("ALiBi", None)):
    loss = F.cross_entropy(
        readers[kind](ids[:, :-1], window)[0], ids[0, 1:], reduction="none"
    )
    print(
        f"{kind:6}, window {window}: first 64: {loss[:64].mean():.2f}, after them: {loss[64:].mean():.2f}"
    )

# %% [markdown]
# ## Find the bugs
#
# ### Fix: rotary attention with a cache ({points}, difficulty 3, 8 minutes)
#
# When a model writes, the keys and values of all earlier words are kept (lesson 09), and only the new words go through.
# `past_k` holds the keys of the first $m$ words, already turned; `past_v` holds their values. The function below gets
# the queries, keys and values of the next words, not turned yet. It has two mistakes.
#
# The first is what [rotary-embedding-torch](https://github.com/lucidrains/rotary-embedding-torch/issues/11) computed
# for a while, and what [ExecuTorch](https://github.com/pytorch/executorch/pull/2010) had to fix. Behind the second is a
# question that [people ask](https://github.com/mistralai/mistral-inference/issues/147) when they read such code for the
# first time: why only these two? Fix both.
#
# - All inputs are `(b, h, …, d)`: `q`, `k`, `v` for the new words, `past_k`, `past_v` for the $m$ words before them.
# - The result is `(b, h, n, d)`: what these words would get if the whole text went through at once.


# %%
def attend_after_cache(
    q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor
) -> Tensor:
    """New words after a cache: causal attention with rotary positions."""
    ### BEGIN SOLUTION
    m = past_k.shape[-2]
    positions = torch.arange(m, m + q.shape[-2], device=q.device)
    q, k = (attnlib.rotate(x, positions) for x in (q, k))
    ### BEGIN STUB
    # positions = torch.arange(q.shape[-2], device=q.device)
    # q, k, v = (attnlib.rotate(x, positions) for x in (q, k, v))
    ### END SOLUTION
    keys, values = torch.cat([past_k, k], dim=-2), torch.cat([past_v, v], dim=-2)
    return attnlib.scaled_dot_product_attention(q, keys, values, is_causal=True)


# %%
check("mend_rotary", attend_after_cache)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Seven words are in the cache, and one new word comes. At which position is it? At which position does the code put it?
#
# </details>
# <details><summary>Hint 2</summary>
#
# A score is a product of two turned vectors, and only the difference between their angles is left in it. What is a
# *value* multiplied by?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Positions run from $m$ to $m + n - 1$, where $m$ is `past_k.shape[-2]`. Only two of the three tensors are turned.
#
# </details>

# %% [markdown]
# Both mistakes are hard to see. With an empty cache the first one makes no difference, so a test with a single pass
# succeeds. With the second one every shape is right, and no number looks odd. They are found by the question of every
# lesson: what must stay the same if I do the same thing in another way? Here: the whole text at once, and in two
# pieces.

# %%
step_by_step = yours_or_ours("mend_rotary", globals(), called="attend_after_cache")
q, k, v = torch.randn(3, 2, 4, 11, 8).unbind()
whole = attnlib.scaled_dot_product_attention(
    turn(q, torch.arange(11)), turn(k, torch.arange(11)), v, is_causal=True
)
past_k, past_v = turn(k[:, :, :7], torch.arange(7)), v[:, :, :7]
pieces = step_by_step(q[:, :, 7:], k[:, :, 7:], v[:, :, 7:], past_k, past_v)
assert_close(pieces, whole[:, :, 7:], atol=1e-5, rtol=0)
print("seven words, then four more: the same as eleven at once")

# %% [markdown]
# ## For those who want more
#
# ### Stretch: ALiBi's slopes for twelve heads ({points}, difficulty 4, 30 minutes)
#
# GPT-2 has 12 heads and GPT-2 XL has 25, and neither is a power of two. The paper's code has an answer. Take the slopes
# for the next *lower* power of two, unchanged. The remaining heads take every other slope of twice as many heads,
# starting from the steep end. For 3 heads: $2^{-4}$ and $2^{-8}$ are the slopes of two heads, and $2^{-2}$ is the first
# of four. For 6 heads:
#
# ```text
# four heads     2^-2        2^-4        2^-6        2^-8
# eight heads    2^-1  2^-2  2^-3  2^-4  2^-5  2^-6  2^-7  2^-8
# six heads      2^-2        2^-4        2^-6        2^-8    and then    2^-1   2^-3
# ```
#
# Write `alibi_slopes(num_heads)` for any number from 1. The result is `(num_heads,)`, float32, in this order: first
# those of the lower power, then the others. Not allowed: `attnlib.alibi_slopes`, `attnlib.alibi_bias`.


# %%
def alibi_slopes(num_heads: int) -> Tensor:
    """(num_heads,): the slopes of the paper's code, for any number of heads."""
    ### BEGIN SOLUTION
    below = 2 ** int(math.log2(num_heads))
    series = 2.0 ** (-8 * torch.arange(1, below + 1) / below)
    longer = 2.0 ** (-4 * torch.arange(1, 2 * below + 1) / below)
    return torch.cat([series, longer[0::2]])[:num_heads]
    ### END SOLUTION


# %%
check("alibi_slopes", alibi_slopes)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write a helper for powers of two first: the slopes of `h` heads are $2^{-8i/h}$ for $i = 1 … h$. You need it twice,
# for the lower power and for twice that.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Every second slope of the longer series is one of the shorter. Which ones are new: those at even or at odd indices?
# You need `num_heads` minus the lower power of them.
#
# </details>

# %% [markdown]
# ## What you can now do
#
# - Show that attention does not know an order, and say how little a causal mask adds.
# - Write positions as hands of a clock, and prove that a step is a rotation.
# - Turn queries and keys by any positions, and load weights that were trained with the other pairs.
# - Charge for distance, and say what can and cannot be found that way.
# - Predict what a model does beyond the length that it was trained on, and check it with a control.
#
# ## Take this with you
#
# **Turn queries and keys, not values, and only the distance is left in the score.**
#
# | | |
# | --- | --- |
# | formula | pair $i$ at position $p$ is turned by $p\,\theta_i$, with $\theta_i = \mathrm{base}^{-2i/d}$ |
# | shapes | table `(n, d_model)`, added to $x$; `rotate` `(…, n, d)` → the same; bias `(h, q, k)`, added to scores |
# | trap 1 | values are turned, too: every shape is right, and every mixture wrong |
# | trap 2 | positions begin at 0 again after a cache |
# | trap 3 | weights for pairs of neighbours, read as pairs of halves: no error, wrong scores |
# | in LLaMA 3 (8B) | rotary with a base of 500,000; heads are 128 wide, so each has 64 hands |
#
# **What real models do today**
#
# - Rotary is nearly everywhere: LLaMA, Mistral, Qwen, Gemma. LLaMA 3 has a base of 500000, for slower hands.
# - Longer texts come from squeezed positions and a little more training: position interpolation (Chen et al. 2023), and
#   YaRN (Peng et al. 2023), which squeezes the slow hands and leaves the fast ones alone. `rotate` takes fractions.
# - BLOOM and MPT use ALiBi. Some recent models leave positions out of some layers altogether; Kazemnejad et al. (2023)
#   found that a causal decoder without any can do surprisingly well.
#
# ## Think further
#
# 1. What happens to `rotate` with a base of 1? And with an extremely large one?
# 2. ALiBi could not say "two places back". Give the model two layers of it. Does that help, and should it?
# 3. Squeeze the positions of the rotary reader at the test, `torch.arange(n) * 64 / n`, in place of the window. Does it
#    help without further training? Try it.
#
# <details><summary>Answers</summary>
#
# 1. With base 1 all hands turn at the same speed, one radian per word. After 44 words, almost exactly seven turns, they
#    are where they began: distances 0 and 44 look alike. With a huge base all hands but the first stand still, and
#    those columns are plain attention without positions.
# 2. The first layer can write into each word a mixture in which its neighbour weighs most, and the second can compare
#    such mixtures. We got from 0.25 to 0.29: no head has a peak at one distance, and a mixture of ramps has none.
# 3. Not by itself. We got a loss of 2.4 at every position, including the first: the distances are within what was
#    trained, but neighbours are now a quarter of a word apart, and the weights have never seen that. Position
#    interpolation therefore trains a little more with squeezed positions.
#
# </details>
#
# ## Read on
#
# - [Vaswani et al. 2017](https://arxiv.org/abs/1706.03762), section 3.5: half a page, with the hope that the model
#   "may extrapolate", which you have tested.
# - [Su et al. 2021](https://arxiv.org/abs/2104.09864), RoFormer: sections 3.1 and 3.2 derive the rotation from the wish
#   that only the distance counts.
# - [Press et al. 2021](https://arxiv.org/abs/2108.12409), *Train Short, Test Long*: figure 1 is your right picture, on
#   a large model.
# - [Chen et al. 2023](https://arxiv.org/abs/2306.15595), position interpolation: how one number in `positions` made
#   models read sixteen times as far.
# - [Kazemnejad et al. 2023](https://arxiv.org/abs/2305.19466): what each kind does on tasks where length is everything.
#
# **Next:** you have attention, masks, blocks and positions. What is still missing before all of it writes, and how
# would you know that it writes well? 08 puts it together.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/07_positions.ipynb`.*
