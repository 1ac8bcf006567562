# %% [markdown]
# # 07 · Positions: tell the words where they are
#
# *The animal did not cross the street.* *The street did not cross the animal.* You see two different stories.
# Attention, as you've built it so far, sees the same bag of words in both. In this lesson you tell it the order, in
# three of the ways real models do it, and then train models with all of them to find out what each way can and can't
# do.
#
# (There are more ways. The simplest is a learned table of positions, as in lesson 06, in BERT and in GPT-2. You'll
# train that one here too.)
#
# | | |
# | --- | --- |
# | **You will build** | sinusoidal positions, rotary positions, ALiBi, a training loop, a measurement |
# | **You will understand** | why a rotation leaves only the distance, and what happens beyond the trained length |
# | **You need** | the clock of lesson 03, the masks of 05, the norms and MLPs of 06, and a pencil |
# | **Time** | core 70 minutes, everything 2 hours 15 minutes |
#
# The models at the end use each of your functions as soon as it passes its check. All symbols are in the [table of
# symbols](00_start_here.ipynb#Symbols).

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
from attnlib.plot import ACCENT, GREY, INK, PALE, film, show, training, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
seed = 0  # `python -m benchmarks.other_seeds 07_positions` runs this lesson with others

# %% [markdown]
# ## Swap two words, and attention can't tell · core
#
# Take any embeddings and any matrices, and send both sentences through self-attention. Then compare what the word
# *animal* has learned about its sentence. It's second in one and last in the other.

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
# They're equal, up to rounding. Who crossed whom is lost, and no training can bring it back, because nothing in the
# computation treats one position differently from another. What's the least we have to add?
#
# A causal mask might be enough. It knows an order, after all, since it lets each word see only those before it.
#
# ### Predict, then run: the first two words change places ({points}, difficulty 2, 3 minutes)
#
# Take one layer of *causal* self-attention, without positions, and two sentences that differ in one thing only: their
# first two words have swapped places. Compare the outputs word by word. Whose output differs?
#
# - **A**: every word's, because later words look back at a different beginning
# - **B**: the first word's and the second's, because later ones still see the same words
# - **C**: no word's, because each word's output moves with it
# - **D**: the first word's, the second's and the last one's, which sees the whole sentence

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
swap = [1, 0, 2, 3, 4, 5, 6]
before, after = attend(x, is_causal=True), attend(x[swap], is_causal=True)
apart = (before - after[swap]).abs().amax(dim=-1)
print(
    "largest difference by word:",
    [round(difference, 3) for difference in apart.tolist()],
)
assert apart[:2].min() > 0.01
assert apart[2:].max() < 1e-5

# %% [markdown]
# The mask tells a word *how many* words come before it, and that's something. An even share of attention is $1/2$ at
# the second position and $1/3$ at the third, and a deeper network can use that to count. But one layer never sees the
# order those words came in. A second layer can find traces of it, because the first two outputs did change. But
# learning is much easier if we tell the model where each word is.

# %% [markdown]
# ## Write each position as the hands of a clock · core
#
# Could you add the number itself, 0, 1, 2, …, to one feature of each word? At position 1000 it would drown out every
# other feature. Divide by the length, then? Now *the word before* is at distance 0.1 in one text and at 0.01 in
# another. We want something bounded, the same in every text, and different at every position.
#
# A clock is like that. Its hands never leave the face, and three of them tell 43,200 seconds apart, because each turns
# at a different speed. So give each position a set of hands, and write down where each one points, as a sine and a
# cosine. With $d$ features there are $d/2$ hands, and hand $i$ turns by $\theta_i$ radians for each word:
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
# - Compute the angles in float64 and convert at the very end. The value at position 4096 has to be right to $10^{-6}$,
#   and a float32 angle that far out is only good to about $10^{-4}$.
# - Not allowed: `attnlib.sinusoidal_positions`.


# %%
def sinusoidal_positions(n: int, d_model: int, base: float = 10000.0) -> Tensor:
    """(n, d_model): sin and cos of position / base^(2i / d_model) in the columns 2i and
    2i + 1."""
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
# First the speeds, one for each pair of columns. `torch.arange(0, d_model, 2)` already is $0, 2, 4, …$, that is, $2i$.
# Then the angles, every position times every speed, `(n, pairs)`.
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
# With an odd `d_model` there's one cosine fewer than there are sines, so cut the finished table to `d_model` columns.
# Use `dtype=torch.float64` in both calls of `arange`, and `.float()` at the end.
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
    "goes around nearly twice, in the second more than half around, in the third a "
    "fifth, and in the fourth it hardly moves."
)

# %% [markdown]
# Compare columns two at a time. Neighbours differ in the top row, distant ones in the bottom rows.
#
# Why two numbers for one hand? Because a step forward is then a *rotation*, the same one from any start. To go from
# position $p$ to $p + s$, turn each hand by $s\,\theta_i$. As a matrix $R(s)$, for one hand (its rows are the addition
# formulas for sine and cosine):
#
# $$\begin{pmatrix} \sin (p+s)\theta \\ \cos (p+s)\theta \end{pmatrix} =
# \begin{pmatrix} \cos s\theta & \sin s\theta \\ -\sin s\theta & \cos s\theta \end{pmatrix}
# \begin{pmatrix} \sin p\theta \\ \cos p\theta \end{pmatrix}$$
#
# (The hands are written as a column here, as in the papers. Our positions are rows, so the code multiplies by $R^\top$
# from the right.) There is no $p$ in the matrix, so a matrix learned once, such as $W^Q$, can mean "three words back"
# at every position. Here is $R(3)$ for four columns, and a test over a hundred positions.


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
# ## Turn the queries and keys instead · core
#
# The 2017 paper *added* this table to the embeddings, and left it to $W^Q$ and $W^K$ to get it out again. Leave the
# two matrices out for a moment, and look at the score, with $x$ for what a word is and $p$ for where it is:
#
# $$(x_i + p_i) \cdot (x_j + p_j) = x_i \cdot x_j + x_i \cdot p_j + p_i \cdot x_j + p_i \cdot p_j$$
#
# Four terms, and two of them mix *what* with *where*. The score depends on both positions, and "two words back" has to
# be learned in spite of these two terms.
#
# In 2021 [Su and others](https://arxiv.org/abs/2104.09864) used the rotation itself. Leave the embeddings alone, they
# said, and turn the queries and keys by their positions. Take two columns, and one hand with $\theta = 30°$, as on the
# clock of lesson 03.
#
# - A query $(1, 0)$ at position 5 is turned by $150°$, a key $(1, 0)$ at position 3 by $90°$. Their dot product is
#   $\cos(150° - 90°) = \cos 60° = 0.5$.
# - Move both by seven words, to 12 and 10: $360°$ and $300°$. Their dot product is $\cos 60° = 0.5$ again.
#
# A dot product depends on the angle *between* two vectors. Turn both by the same angle and it doesn't change, so it
# depends only on the difference between the two positions. In lesson 03 a matrix turned the query's hand back by one
# hour, to find the word before. Here is that clock again, one for every pair of columns, each with its own speed.

# %%
for place_q, place_k in ((5, 3), (12, 10)):
    q, k = (
        torch.tensor([math.cos(a), math.sin(a)])
        for a in (math.radians(30 * place_q), math.radians(30 * place_k))
    )
    print(f"query at {place_q:2}, key at {place_k:2}: {q @ k:.3f}")
    assert_close((q @ k).item(), 0.5, atol=1e-6, rtol=0)

# %%
_, axes = plt.subplots(1, 3, figsize=(9.6, 3.5), layout="constrained")
views = (0, 0, "not turned"), (5, 3, "query at 5, key at 3"), (12, 10, "both 7 further")
for ax, (place_q, place_k, view) in zip(axes, views, strict=True):
    ax.add_patch(plt.Circle((0, 0), 1, facecolor=PALE, edgecolor="none"))
    for name, place, colour, reach in (
        ("q", place_q, ACCENT, 0.98),
        ("k", place_k, INK, 0.8 if place_q == place_k else 0.98),
    ):
        x, y = math.cos(math.radians(30 * place)), math.sin(math.radians(30 * place))
        head = {"arrowstyle": "-|>", "color": colour, "lw": 2.5, "mutation_scale": 16}
        ax.annotate("", (reach * x, reach * y), (0, 0), arrowprops=head)
        far = 1.16 if reach > 0.9 else 0.62
        lift = 0 if reach > 0.9 else 0.16
        ax.text(far * x, far * y + lift, name, color=colour, ha="center", va="center")
    if place_q != place_k:
        degrees = range(30 * place_k, 30 * place_q + 1)
        arc = [(math.cos(math.radians(a)), math.sin(math.radians(a))) for a in degrees]
        ax.plot([0.42 * x for x, _ in arc], [0.42 * y for _, y in arc], color=GREY)
        x, y = arc[len(arc) // 2]
        ax.text(0.62 * x, 0.62 * y, "60°", ha="center", va="center")
    product = math.cos(math.radians(30 * (place_q - place_k)))
    ax.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    ax.set_title(f"{view}: q · k = {product:g}".replace("0.5", "½"))
    ax.axis("off")
show(
    "Three clock faces with a query q and a key k as arrows. Not turned, both point "
    "to the right. Query at 5 and key at 3: turned to 150 and 90 degrees, 60 degrees "
    "apart. Both seven positions further: turned to 360 and 300 degrees, still 60 "
    "degrees apart."
)

# %% [markdown]
# ### Exercise: turn every pair of columns ({points}, difficulty 3, 20 minutes)
#
# Write `rotate(x, positions, base=10000.0)`. The pairs are neighbours, the columns (0, 1), (2, 3), …, and pair $i$ at
# position $p$ is turned by $\alpha = p\,\theta_i$, with the $\theta_i$ from above:
#
# $$(a, b) \;\mapsto\; (a \cos\alpha - b \sin\alpha,\; a \sin\alpha + b \cos\alpha)$$
#
# - `x` is `(…, n, d)`, and so is the result. As always.
# - `positions` is `(n,)`, or anything that broadcasts to `(…, n)`, such as `(b, 1, n)` for a batch whose sentences
#   begin at different positions. They may be any numbers, even out of order, negative, or fractions.
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
# Speeds and angles are those of the table, with the positions now given: `positions[..., None] * speeds` has the shape
# `(…, n, d/2)`, an angle for each pair.
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
# To interleave the pairs again, stack the two results along a new last axis, `(…, n, d/2, 2)`, and flatten the last two
# axes. (`cat` would put all first columns in front.) Make `arange` on `x.device`, in float64.
#
# </details>

# %% [markdown]
# Now test it. Turn a query and a key at any two positions, move both by the same $s$, and the score must stay the same.
# Rotating a pair of columns is also multiplying one complex number $a + bi$ by $e^{i\alpha}$, which is how some models
# write it. And the sinusoidal table is in there as well: it's a single vector, turned to each position.

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
# The last assertion has a minus sign because the table puts the sine first. Drawn that way, the hands turn clockwise.
#
# Here it is in motion, with your function: four pairs of columns, a query in orange, a key in blue two words behind it,
# and both walking through the text.

# %% tags=["picture:films/clock_hands.gif"]
figure, axes = plt.subplots(1, 4, figsize=(7.6, 2.4), dpi=90, layout="constrained")
pair = torch.tensor([1.0, 0.0]).repeat(4)[None]  # four hands, all pointing right
arrows = []
for i, ax in enumerate(axes):
    ax.add_patch(plt.Circle((0, 0), 1, facecolor=PALE, edgecolor="none"))
    (key,) = ax.plot([], [], color=INK, linewidth=3)
    (query,) = ax.plot([], [], "--", color=ACCENT, linewidth=3)
    arrows.append((query, key))
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
    ax.set_title(f"pair {i}: {100 ** (-i / 4):.2f} per word")
    ax.axis("off")
where = figure.supxlabel("query at 26, key at 24", fontsize=11)


def walk(place: float) -> None:
    """Query at place + 2, key at place."""
    for lines, q_pair, k_pair in zip(
        arrows,
        turn(pair, at([place + 2.0]), 100.0).reshape(4, 2),
        turn(pair, at([place]), 100.0).reshape(4, 2),
        strict=True,
    ):
        for line, hand in zip(lines, (q_pair, k_pair), strict=True):
            line.set_data([0, hand[0].item()], [0, hand[1].item()])
    where.set_text(f"query at {int(place) + 2}, key at {int(place)}")


film(
    walk,
    [step / 2 for step in range(49)],
    alt="Four clock faces, each with an orange hand for a query and a blue one for a "
    "key two words behind it. Both hands go around, in the first face quickly, in the "
    "last one hardly at all, and on each face the angle between them never changes.",
    seconds=9,
)

# %% [markdown]
# Each pair turns at a different speed, and on no face does the angle between query and key ever change. That angle is
# all the score can see.

# %% [markdown]
# ## Read somebody else's weights · more
#
# Neighbours aren't the only possible pairs. RoFormer and GPT-J turn the columns (0, 1), (2, 3), … GPT-NeoX, and LLaMA
# as it comes with `transformers`, pair the *halves*, (0, d/2), (1, d/2 + 1), … Both are rotary, and one is as good as
# the other. But load the weights of one into the code of the other, and the scores are wrong, with no error anywhere.
#
# The fix is to reorder the columns once. For a head of six columns:
#
# ```text
# neighbours   0 1 2 3 4 5      pairs (0,1) (2,3) (4,5)
# halves       0 2 4 1 3 5      the same pairs, now at distance 3
# ```
#
# If the columns of $W^Q$ and $W^K$ are reordered the same way, so are those of the queries and keys, and a dot product
# doesn't care in what order its terms are added. `attnlib.to_half_pairs` does that for all heads at once. It splits the
# columns into `(heads, pairs, 2)`, swaps the last two axes, and flattens.


# %%
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
    turn_halves(
        (x @ attnlib.to_half_pairs(w, 3)).unflatten(-1, (3, 16)).transpose(0, 1), places
    )
    for w in (w_q, w_k)
]
unsorted = [
    turn_halves((x @ w).unflatten(-1, (3, 16)).transpose(0, 1), places)
    for w in (w_q, w_k)
]
expected = by_neighbours[0] @ by_neighbours[1].mT  # (h, n, n)
assert_close(by_halves[0] @ by_halves[1].mT, expected, atol=1e-4, rtol=0)
off = (unsorted[0] @ unsorted[1].mT - expected).abs().max()
print(f"reordered: equal.  Not reordered: a score is off by {off:.1f}")
assert off > 1

# %% [markdown]
# ## Charge for distance: ALiBi · more
#
# The third way is the simplest. [Press and others](https://arxiv.org/abs/2108.12409) leave queries and keys alone and
# take something off each score, a fixed price per word of distance. Nothing is learned. Suppose that four keys have the
# same score, and that the price is $\frac12$ a word:
#
# | distance | 3 | 2 | 1 | 0 |
# |---|---|---|---|---|
# | taken off | 1.5 | 1 | 0.5 | 0 |
# | $e^{-\text{that}}$ | 0.223 | 0.368 | 0.607 | 1 |
# | weight | 0.10 | 0.17 | 0.28 | 0.46 |
#
# Each head has a price of its own, the *slope*. For eight heads the slopes are $\frac12, \frac14, \frac18, …,
# \frac1{256}$. The first head hardly attends beyond the last few words. For the last head, a word a hundred positions
# back still weighs two thirds as much as the nearest. The method is called ALiBi, *attention with linear biases*.
#
# When the number of heads $h$ is a power of two, head $i$, counted from 1, has the slope $2^{-8i/h}$. GPT-2 has 12
# heads and GPT-2 XL has 25. For such numbers the paper's code takes the slopes for the next *lower* power of two,
# unchanged. The remaining heads take every other slope of twice as many heads, starting from the steep end:
#
# ```text
# four heads     2^-2        2^-4        2^-6        2^-8
# eight heads    2^-1  2^-2  2^-3  2^-4  2^-5  2^-6  2^-7  2^-8
# six heads      2^-2        2^-4        2^-6        2^-8    and then    2^-1   2^-3
# ```
#
# ### Exercise: write the bias ({points}, difficulty 4, 25 minutes)
#
# Write `alibi_bias(num_heads, q_len, k_len)`, for any number of heads from 1.
#
# - The result is `(num_heads, q_len, k_len)`, float32: minus the slope of the head, times how far the key is behind the
#   query. It is 0 where a query meets its own key.
# - The *last* query is at the last key, whether there are more queries or more keys, as in lesson 05's causal mask.
# - The bias is for causal attention. What you write into the future, numbers or -inf, is up to you, since the mask
#   covers it.
# - Slopes are in the order shown above: first those of the lower power, then the others.
# - Not allowed: `attnlib.alibi_bias`, `attnlib.alibi_slopes`.


# %%
def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """(num_heads, q_len, k_len): what is added to the scores of each head."""
    ### BEGIN SOLUTION
    below = 2 ** int(math.log2(num_heads))  # the next lower power of two
    series = 2.0 ** (-8 * torch.arange(1, below + 1) / below)
    longer = 2.0 ** (-4 * torch.arange(1, 2 * below + 1) / below)
    slopes = torch.cat([series, longer[0::2]])[:num_heads]
    distance = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    return -slopes[:, None, None] * distance
    ### END SOLUTION


# %%
check("alibi_bias", alibi_bias)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two parts, the slopes, one for each head, and the distances, `(q_len, k_len)`. Compute each, look at each, then
# multiply: `slopes[:, None, None]` is `(h, 1, 1)`, and times `(q, k)` it is `(h, q, k)`.
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
# Begin with powers of two, and write the series for `below`, the next lower power. Then the series for `2 * below`.
# Half of its slopes are in the shorter series already. Which are new, those at even or at odd indices?
#
# </details>

# %% [markdown]
# An additive mask is just what `F.scaled_dot_product_attention` takes as `attn_mask`, so ALiBi costs one addition.

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
# ## See what the score depends on · core
#
# Take one query vector and one key vector, and three schemes: the table added, the rotation, and ALiBi, which leaves
# queries and keys alone and takes a fixed price off the score for each word of distance. Put the query at position 40
# and move the key back, word by word. Then do the same from position 90. If a scheme knows distance and nothing else,
# the two curves coincide.

# %%
# again, for those who skipped the section above
bias_of = yours_or_ours("alibi_bias", globals())
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
# Two of the three know only the distance, but they differ. The rotation gives a curve with hills and valleys, and where
# those are depends on the query and the key. ALiBi's ramp can only go down. That will matter in a moment.
#
# ## Train them: name the word two back · core
#
# *Which one wins?* Write down your guess, for two tasks.
#
# - **Two back.** Texts of 16 random tokens. At each position the model has to name the token two positions before. Only
#   position counts. Then the same model gets texts of 64 tokens, four times what it was trained on.
# - **English text.** Predict the next character. The model is trained on 64 characters at a time, and then reads 256.
#
# All models are the same except for their positions, which take a few lines around your functions. There are five
# kinds: no positions at all, a *learned* table (lesson 06's list), the sinusoidal table, rotary, and ALiBi. For two
# back they have one layer and no MLP, for English two layers with MLPs (`thinks=True`). `window` is for the test: with
# a window of 16, each token sees only the last 16, itself included.

# %%
bias_for = functools.cache(bias_of)  # asked once for each length


class PlacedAttention(nn.Module):
    """Causal self-attention; `kind` says how positions enter. x (b, n, d_model)."""

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


# %% [markdown]
# ### Exercise: train with a warm-up ({points}, difficulty 3, 15 minutes)
#
# In lesson 05 you were given the learning rates. Now you compute them yourself. Write `train_with_warmup(model, ids,
# targets, lr, warmup, make)`, the loop nearly every transformer is trained with.
#
# - `ids` is `(steps, b, n)`, a batch for each step. `targets` is `(steps, b, m)`, one for each of the *last* $m$
#   tokens, with $m \le n$. (The first tokens of a text may have nothing to name.) `model(ids[0])` gives logits `(b, n,
#   vocabulary)`.
# - The loss is the cross-entropy of those last $m$ positions, averaged over all $b \cdot m$ of them.
# - The rate at step $i$, counted from 0, is $\mathrm{lr} \cdot \min(1, \frac{i + 1}{\mathrm{warmup}}) \cdot
#   (1 - \frac{i}{\mathrm{steps}})$. It rises, then falls along a straight line.
# - `make` is an optimiser's class, such as `torch.optim.AdamW`. Make one for the model's parameters. `model` comes in
#   training mode.
# - Return the losses `(steps,)`, each before its step. Dtype as always.


# %%
def train_with_warmup(
    model: nn.Module,
    ids: Tensor,
    targets: Tensor,
    lr: float,
    warmup: int,
    make=torch.optim.SGD,
) -> Tensor:
    """A step of the optimiser on each batch; the rate rises over `warmup` steps, then
    falls."""
    ### BEGIN SOLUTION
    optimiser = make(model.parameters(), lr=lr)
    steps, m = len(ids), targets.shape[-1]
    losses = []
    for step in (bar := training(steps)):
        rate = lr * min(1.0, (step + 1) / warmup) * (1 - step / steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        logits = model(ids[step])[:, -m:]
        loss = F.cross_entropy(logits.flatten(0, 1), targets[step].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
        bar.loss(loss.detach())
    return torch.stack(losses)
    ### END SOLUTION


# %%
check("train_with_warmup", train_with_warmup)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The optimiser keeps its rate in `optimiser.param_groups`, a list of dictionaries: set `group["lr"]` in each of them
# before every step. Everything else is the loop of lesson 05.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `logits[:, -m:]` are those of the last $m$ tokens. `F.cross_entropy` wants `(many, vocabulary)` and `(many,)`, so
# flatten the batch and the positions together.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Instead of `range(steps)`, `bar = training(steps)` shows a bar while the loop runs, and `bar.loss(loss)` puts the loss
# beside it. It's imported above.
#
# </details>

# %%
teach = yours_or_ours("train_with_warmup", globals())


def two_back(batch: int, n: int) -> tuple[Tensor, Tensor]:
    """Random tokens (batch, n), and for each but the first two the token two before."""
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
    model = PlacedModel(kind, 32, 64, 4, 1, thinks=False)
    ids, targets = two_back(220 * 32, 16)
    ids, targets = ids.unflatten(0, (220, 32)), targets.unflatten(0, (220, 32))
    teach(model, ids, targets, 8e-3, 20, torch.optim.AdamW)
    if kind == "rotary":
        rotary = model  # to be looked into below
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
# two jumps: index 0 is position 2
by_place = found["rotary"]["all"]
assert by_place[:19].min() > 0.95
assert by_place[19] < 0.85
assert by_place[39:50].mean() < 0.6 * by_place[20:38].mean()
assert all(0.15 < found["ALiBi"][where] < 0.4 for where in spans)
assert found["none"]["32-63"] < 0.2
assert min(found["rotary, window of 16"][where] for where in spans) > 0.95
assert found["sinusoidal, window of 16"]["16-31"] < 0.4

# %% [markdown]
# These are the shares of right answers, by position. The model was trained on positions up to 15. Five kinds, five ways
# to fail. Before you read on: why can't ALiBi do it at all, although it never gets worse? And why does a *window*
# repair rotary, but not the sinusoidal table?
#
# Now the text, the English of Python's documentation, which comes with Python. The last tenth is kept for the test.

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
for kind in ("rotary", "ALiBi", "sinusoidal"):
    torch.manual_seed(seed)
    reader = PlacedModel(kind, len(letters), 64, 4, 2, thinks=True)
    ids, targets = (x.unflatten(0, (220, 8)) for x in next_letter(220 * 8))
    teach(reader, ids, targets, 6e-3, 20, torch.optim.AdamW)
    readers[kind] = reader

# %% [markdown]
# All three models get the same test, pieces of 256 characters. Each model reads them twice, once seeing everything, and
# once seeing only the last 32 characters. The picture shows both tasks. A pale band marks the lengths seen in training:
# watch what each line does when it leaves the band.

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
            f"{name:25} loss at 0-63: {parts[0]:.2f}   64-127: {parts[1]:.2f}   "
            f"128-255: {parts[2]:.2f}"
        )

# %%
end = {name: by_place[128:].mean() for name, by_place in losses.items()}
start = {name: by_place[:64].mean() for name, by_place in losses.items()}
assert end["ALiBi"] < start["ALiBi"] + 0.1
assert end["rotary"] > start["rotary"] + 0.1
assert end["rotary"] > end["ALiBi"] + 0.15
assert end["rotary, window of 32"] < start["rotary"] + 0.1
# no repair where the positions themselves are new
assert end["sinusoidal, window of 32"] > start["sinusoidal"] + 0.15
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
    title="Two back: only rotary in a window keeps going",
)
left.legend(loc="upper right", bbox_to_anchor=(1, 0.9))
for place, height, colour in ((21, 0.62, ACCENT), (40, 0.37, ACCENT)):
    left.text(place + 0.6, height, str(place), color=colour)
for place in (34, 59):
    top = found["sinusoidal"]["all"][place - 4 : place].max().item()
    left.text(place, top + 0.03, str(place), color="#2171b5", ha="center")
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
    "to nearly 0 at 16 or soon after, but the sinusoidal has spikes at 34 and 59. "
    "Rotary falls to a third at 21 and to nearly 0 at 40; ALiBi stays at a quarter "
    "throughout; rotary in a window of 16 stays at 1. Right: the loss on text by "
    "position, trained up to 63. ALiBi is flat, rotary rises, rotary in a window of 32 "
    "is flat."
)

# %% [markdown]
# So which one wins? None of them, because they answer different questions.
#
# - **Learned and sinusoidal** tables know the position exactly, but only as far as they were trained. The learned table
#   has random numbers in the rows it never used. The sinusoidal one has well-defined rows there, but $W^Q$ and $W^K$
#   have never seen them. A window doesn't make those positions any less new.
# - **Rotary** says *where*, exactly two back, and keeps doing so for a few words beyond the trained length. Then it
#   breaks, and not because the positions are too large: the score at distance 2 is the same everywhere, as you saw
#   above. But there are more and more *other* distances, and nothing in training taught the query and these keys to
#   score low there. A window shuts those distances out, and that's the whole repair.
# - **ALiBi** says *how far*: near, not two back. Its ramp has no peak at 2, so in the left picture it's wrong three
#   times out of four, at every length. In the right picture, nearness is most of what the next letter needs, and ALiBi
#   doesn't break.
#
# *Why does rotary fall at exactly 21, and again at 40?* You can read it off the clock. Beyond the trained length, a
# distance is mistaken for 2 if the fast hands point where they point at 2. From 2 to 21 there are 19 words. Heads are
# 16 wide, so the fastest hand turns by 1 radian a word and the next by $10000^{-2/16} = 0.32$:

# %%
width = 16  # d_model 64, four heads


def turns(words: int, hand: int, d: int) -> float:
    """How many turns a hand makes over this many words."""
    return words * 10000 ** (-2 * hand / d) / (2 * math.pi)


for far in (21, 40):
    print(
        f"from 2 to {far}: {turns(far - 2, 0, width):.2f} turns of the fastest hand, "
        f"{turns(far - 2, 1, width):.2f} of the next"
    )
looks_like_two = [
    far
    for far in range(16, 64)
    if sum(math.cos(2 * math.pi * turns(far - 2, i, width)) for i in (0, 1)) > 1.75
]
print("distances at which both look like 2:", looks_like_two)
assert looks_like_two[:2] == [21, 40]

# %% [markdown]
# At a distance of 21 the two fastest hands are back where they were at 2, to within a twentieth of a turn. The first
# query with a key that far back is at position 21, and from position 40 on there is a second such distance.
#
# If that were all, two keys would look right from 21 on, and three from 40 on, and a half and a third of the answers
# would be right. That isn't what the picture shows. There are six slower hands, which could tell 21 from 2. But in 16
# words even the fastest of them makes only a quarter of a turn. What has the model learned to do with them? Blank them
# in every query.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed)
ids, targets = two_back(256, 64)
with torch.no_grad():
    by_head = rotary.attention[0].w_q.weight.unflatten(0, (4, width))
    by_head[:, 4:] = 0.0  # a hand has two columns; hands 0 and 1 stay
    fast = (rotary(ids)[:, 2:].argmax(dim=-1) == targets).float().mean(dim=0)
for where, span in (
    ("2-20", slice(0, 19)),
    ("21-39", slice(19, 38)),
    ("40-63", slice(38, 62)),
):
    print(
        f"{where}: {found['rotary']['all'][span].mean():.2f} with all hands, "
        f"{fast[span].mean():.2f} with the two fastest"
    )
assert fast[:19].min() > 0.95
assert 0.3 < fast[19:38].mean() < 0.55
assert found["rotary"]["all"][38:].mean() < fast[38:].mean() < 0.4

# %% [markdown]
# Within the trained lengths nothing changes: training left the slow hands nothing to do. Beyond them, about four in ten
# and three in ten are right, not far from the half and the third of keys that look alike. So the slow hands do speak up
# out there, but nobody has taught them what to say. Between 21 and 39 they do harm in this model, and good in models
# trained from other starts. From 40 on they've made it worse from every start we tried.

# %% [markdown]
# ## Test the diagnosis · more
#
# First the two spikes of the sinusoidal table in the picture, at 34 and 59. The clock explains them as well: from 9 to
# 34 there are 25 words, and again from 34 to 59. The table is 64 wide. In 25 words its fastest hand makes nearly four
# turns and the next one nearly three (the cell below counts), so both positions look like position 9, which was
# trained. (Where the spikes are varies with the start.) A window of 16 puts the key that looks alike out of sight, and
# the spikes grow into hills. That's how a window gets the table more answers right at 32-63 in the list above. Between
# the hills, few are right.

# %%
for hand in (0, 1):
    print(f"25 words: {turns(25, hand, 64):.2f} turns of hand {hand} of 32")
assert abs(turns(25, 0, 64) - 4) < 0.03
assert abs(turns(25, 1, 64) - 3) < 0.03
windowed = found["sinusoidal, window of 16"]["all"]
hills = windowed[[*range(28, 37), *range(53, 60)]]  # 30 to 38 and 55 to 61
assert hills.mean() > 2 * windowed[39:49].mean()

# %% [markdown]
# Rotary broke at new *distances*, the sinusoidal table at new *positions*. If that's so, there must be a way to help
# the table as well, with the same weights. Keep the window, and start counting at 0 in each one. Every token then needs
# a pass of its own through the model, which reads the last few tokens as if they were a whole text.
#
# ### Exercise: read in windows ({points}, difficulty 3, 15 minutes)
#
# Write `read_in_windows(model, ids, window)`.
#
# - `ids` is `(b, n)`, and `model(ids)` gives logits `(b, n, vocabulary)` for the token that comes next.
# - For each token but the first, give the model only the last `window` tokens before it, or all of them where there are
#   fewer. The logits of the last of these are the prediction for the token.
# - Return the cross-entropies, averaged over the batch, `(n - 1,)`. No gradients are recorded. Dtype as always.


# %%
def read_in_windows(model: nn.Module, ids: Tensor, window: int) -> Tensor:
    """(n - 1,): the loss at each token but the first, from the last `window` tokens
    alone."""
    ### BEGIN SOLUTION
    losses = []
    with torch.no_grad():
        for i in range(1, ids.shape[1]):
            start = max(0, i - window)
            logits = model(ids[:, start:i])[:, -1]
            losses.append(F.cross_entropy(logits, ids[:, i]))
    return torch.stack(losses)
    ### END SOLUTION


# %%
check("read_in_windows", read_in_windows)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# One pass for each token to be predicted, from 1 to $n - 1$. Token $i$ comes after the tokens 0 to $i - 1$. Which of
# them are the last `window`?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `ids[:, start:i]`, with a `start` that must not be negative, because Python would count from the end.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
in_windows = yours_or_ours("read_in_windows", globals())

torch.manual_seed(1000)
ids, _ = next_letter(16, 192, start=kept, end=len(encoded))
anew = {}
for kind, reader in readers.items():
    with torch.no_grad():
        scores = reader(ids[:, :-1])
    whole = F.cross_entropy(scores.mT, ids[:, 1:], reduction="none").mean(dim=0)
    anew[kind] = in_windows(reader, ids, 48)
    print(
        f"{kind:10} loss beyond 64, reading everything: {whole[64:].mean():.2f}   "
        f"in windows that start at 0: {anew[kind][64:].mean():.2f}"
    )
    if kind == "sinusoidal":
        assert anew[kind][64:].mean() < whole[64:].mean() - 0.1
assert anew["sinusoidal"][64:].mean() < anew["sinusoidal"][:64].mean() + 0.1

# %% [markdown]
# So the diagnosis holds. With positions that start over, the table reads on as if nothing had happened, at a price:
# each character takes a pass over 48 characters, so the text costs about 48 times as much. Rotary in a masked window
# gets the same from a single pass. (Lesson 09 uses such windows to save memory.)
#
# All this is one model, from one random start. `python -m benchmarks.other_seeds 07_positions` repeats the whole
# lesson, with all its assertions, from three other seeds.

# %% [markdown]
# **Your turn.** Let two of the readers read a text of yours. Change `mine` and run the cell. It prints how surprised
# they are, in nats per character, by the first 64 characters and by those after them. Try a text of 500 characters or
# more, a page of a manual, a poem, another language. Which reader suffers beyond position 64, and does the window help?

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
        f"{kind:6}, window {window}: first 64: {loss[:64].mean():.2f}, after them: "
        f"{loss[64:].mean():.2f}"
    )

# %% [markdown]
# ## Find the bugs · more
#
# ### Fix: rotary attention with a cache ({points}, difficulty 3, 8 minutes)
#
# When a model writes, the keys and values of all earlier words are kept (lesson 09), and only the new words go through.
# `past_k` holds the keys of the first $m$ words, already turned; `past_v` holds their values. The function below gets
# the queries, keys and values of the next words, not turned yet. It has two bugs.
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
# Seven words are in the cache, and one new word comes. What's its position? And where does the code put it?
#
# </details>
# <details><summary>Hint 2</summary>
#
# A score is a product of two turned vectors, and only the difference between their angles is left in it. What's a
# *value* multiplied by?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Positions run from $m$ to $m + n - 1$, where $m$ is `past_k.shape[-2]`. Only two of the three tensors are turned.
#
# </details>

# %% [markdown]
# Both bugs are hard to see. With an empty cache the first one makes no difference, so a single-pass test passes. With
# the second one every shape is right, and nothing looks wrong. The question this course keeps asking finds them both:
# what must stay the same if I compute it another way? Here that means the whole text at once, and the text in two
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
# ## What you can now do · core
#
# - Show that attention knows no order, and say how little a causal mask adds.
# - Write positions as hands of a clock, and prove that a step is a rotation.
# - Turn queries and keys by any positions, and load weights trained with the other pairs.
# - Charge for distance, and say what can and can't be found that way.
# - Predict what a model does beyond the length it was trained on, say why, and test that with a control.
#
# ## Take this with you · core
#
# **Turn queries and keys, not values, and only the distance is left in the score.**
#
# | | |
# | --- | --- |
# | formula | pair $i$ at position $p$ is turned by $p\,\theta_i$, with $\theta_i = \mathrm{base}^{-2i/d}$ |
# | shapes | table `(n, d_model)`, added to $x$; `rotate` `(…, n, d)` → the same; bias `(h, q, k)`, added to scores |
# | trap 1 | values are turned as well: every shape is right, and every mixture wrong |
# | trap 2 | positions begin at 0 again after a cache |
# | trap 3 | weights for pairs of neighbours, read as pairs of halves: no error, wrong scores |
# | in LLaMA 3 (8B) | rotary with a base of 500,000; heads are 128 wide, so each has 64 hands |
#
# **What real models do today**
#
# - Rotary is nearly everywhere: LLaMA, Mistral, Qwen, Gemma. A larger base makes slower hands, for longer texts.
# - Models are extended to longer texts by squeezing the positions and training a little more: position interpolation
#   (Chen et al. 2023), and YaRN (Peng et al. 2023), which squeezes the slow hands and leaves the fast ones alone.
#   `rotate` takes fractions.
# - BLOOM and MPT use ALiBi. Some recent models leave positions out of some layers altogether; Kazemnejad et al. (2023)
#   found that a causal decoder without any can do surprisingly well.
#
# ## Think further · more
#
# 1. What happens to `rotate` with a base of 1? And with an extremely large one?
# 2. ALiBi couldn't say "two back". Give the model two layers of it. Does that help, and should it?
# 3. Squeeze the positions of the rotary reader at the test, `torch.arange(n) * 64 / n`, instead of using a window. Does
#    it help without further training? Try it.
#
# <details><summary>Answers</summary>
#
# 1. With base 1 all hands turn at the same speed, one radian per word. After 44 words, almost exactly seven turns, they
#    are back where they began, and distances 0 and 44 look the same. With a huge base all hands but the first stand
#    still, and those columns are plain attention without positions.
# 2. The first layer can write into each word a mixture that its neighbour dominates, and the second can compare such
#    mixtures. No head has a peak at one distance, but a *difference* of two heads can. Learning that takes time. After
#    220 steps two layers are hardly better than one (0.26 to 0.29 instead of 0.25), but with ten times as many, seven
#    such models named 66 to 98 % of the tokens within the trained length. A single layer stayed below a quarter.
# 3. Not by itself. In three runs of ours the loss was 2.4 from the eighth character on, even where it's 2.0 without
#    squeezing. The distances are within what was trained, but neighbours are now a quarter of a word apart, and the
#    weights have never seen that. That's why position interpolation trains a little more with squeezed positions.
#
# </details>
#
# ## Read on · more
#
# - [Vaswani et al. 2017](https://arxiv.org/abs/1706.03762), section 3.5: half a page, with the reason for the
#   sinusoids, "it may allow the model to extrapolate to sequence lengths longer than the ones encountered during
#   training". You've tested that.
# - [Su et al. 2021](https://arxiv.org/abs/2104.09864), RoFormer: section 3.1 requires that only the distance counts,
#   3.2 offers the rotation, and 3.4.1 derives it from the requirement.
# - [Press et al. 2021](https://arxiv.org/abs/2108.12409), *Train Short, Test Long*: figure 1 is your right picture, on
#   a large model.
# - [Chen et al. 2023](https://arxiv.org/abs/2306.15595), position interpolation: how one factor in `positions` made
#   models read sixteen times as far.
# - [Raffel et al. 2020](https://arxiv.org/abs/1910.10683), T5: section 2.1, one paragraph on one more way. The model
#   learns a number for each *bucket* of distances (1, 2, 3, …, 16 to 18, 19 and 20, …) and adds it to the score.
# - [Kazemnejad et al. 2023](https://arxiv.org/abs/2305.19466): what each kind does on tasks where length is everything.
#
# **Next:** you have attention, masks, blocks and positions. What's still missing before all of that can write text, and
# how would you know it writes well? Lesson 08 puts the pieces together.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/07_positions.ipynb`.*
