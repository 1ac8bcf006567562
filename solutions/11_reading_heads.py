# %% [markdown]
# # 11 · Reading heads: watch a head learn to copy
#
# A small model is training. For two hundred steps its loss only creeps down, and you are about to give up on it. Then,
# within fifty steps, the loss falls off a cliff. What happened in there? In this lesson you open the model up while it
# learns, and find two heads, neither of which is any use without the other.
#
# | | |
# | --- | --- |
# | **You will build** | scores that find a head by what it looks at, and experiments that show what it does |
# | **You will understand** | how a model copies, why that takes two layers, and what an attention picture proves |
# | **You need** | heads from lesson 03, the residual stream of 06, rotary positions of 07, the loss of 08; two hours |
#
# The model is trained in the first minute. Most of the lesson is spent reading it, with your own functions as soon as
# they pass their checks.

# %%
import inspect
import math
import time
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import NotUsable, usable_text
from attnlib.plot import ACCENT, GREY, INK, PALE, show, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 11_reading_heads 0 1 2 3 4` runs this lesson with
# five of them
seed = 0

# %% [markdown]
# ## Set a task that rewards nothing but looking back
#
# Whatever a large language model knows about the world would hide what we are looking for, so here nothing means
# anything. The words are the numbers 1 to 63, drawn at random. Every sequence begins with token 0, called *BOS* for
# *beginning of sequence*. A block of 8 to 32 random tokens follows, and then the same block again and again, to the
# end. Nobody tells the model how long the block is: its length, the *period* $p$, is drawn anew for every sequence.

# %%
VOCAB, BOS, PERIOD = 64, 0, 16


def draw(b: int, n: int, period: int | None = None) -> Tensor:
    """Sequences (b, n): BOS, then a random block over and over. Its length is drawn, unless it is given."""
    lengths = (
        torch.randint(8, 33, (b, 1)) if period is None else torch.full((b, 1), period)
    )
    block = torch.randint(1, VOCAB, (b, n))
    return F.pad(block.gather(1, torch.arange(n - 1) % lengths), (1, 0), value=BOS)


# %%
torch.manual_seed(seed)
example = draw(1, 20, period=6)
print(*example[0].tolist())
assert torch.equal(example[0, 7:13], example[0, 1:7])

# %% [markdown]
# You can tell how it goes on. How large should your loss be, in nats, as in lesson 08? There are three levels of
# knowledge, and each has its price. Suppose that the block has 16 tokens:
#
# - You know only that it is one of 63 tokens: $\ln 63 = 4.14$.
# - You know *which* tokens are in the block, but not their order: $\ln 16 = 2.77$.
# - You have found where in the block you are: nearly 0. (Not quite, since a token may be in the block twice.)
#
# Nothing can be known in the first block, so only the repeats count. The first query that has seen its own token before
# is at position 17.


# %%
def losses(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits (b, n, V), ids (b, n) -> the loss at each position but the last, (b, n - 1)."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


def on_repeats(logits: Tensor, ids: Tensor, period: int = PERIOD) -> float:
    """The mean loss from the first token on that has been there before."""
    return losses(logits, ids)[:, period + 1 :].mean().item()


# %% [markdown]
# ## Take everything away but attention
#
# The model has two layers of attention and nothing else: no MLP, no norm, no bias. Positions are lesson 07's rotations,
# inside the heads. So whatever the model does, its heads do, and apart from the softmax every step is a product of
# matrices, which you can multiply out. The idea is from [Elhage and
# others](https://transformer-circuits.pub/2021/framework/index.html). Here is the whole of it, in code:

# %%
print(inspect.getsource(attnlib.AttentionOnly.forward).split('"""')[2])

# %% [markdown]
# Train it, and save a copy of the weights every ten steps, like the frames of a film. A twin with a single layer trains
# on the same sequences. *What do you think the second layer is good for?*


# %%
def train(
    depth: int, steps: int, period: int | None = None
) -> tuple[nn.Module, dict[int, dict[str, Tensor]]]:
    """A model, and its weights after every tenth step."""
    torch.manual_seed(seed)
    model = attnlib.AttentionOnly(VOCAB, 64, 4, depth=depth)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(seed + 1)
    film = {}
    for step in range(steps + 1):
        if step % 10 == 0:
            film[step] = {
                name: weight.detach().clone()
                for name, weight in model.named_parameters()
            }
        ids = draw(32, 65, period)
        loss = losses(model(ids), ids).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.load_state_dict(film[steps])
    return model.eval().requires_grad_(False), film


# %%
# nbval-ignore-output: it says how long the training took
started = time.process_time()
model, film = train(depth=2, steps=500)
one_layer, film_of_one = train(depth=1, steps=500)
print(
    f"two models trained in {time.process_time() - started:.0f} seconds of one processor"
)

# %%
torch.manual_seed(seed + 2)
probe = draw(32, 64, PERIOD)  # never trained on


def loss_in(depth: int, weights: dict[str, Tensor]) -> float:
    """The loss on the repeats of a frame of the film."""
    frame = attnlib.AttentionOnly(VOCAB, 64, 4, depth=depth)
    frame.load_state_dict(weights)
    with torch.no_grad():
        return on_repeats(frame(probe), probe)


two = {step: loss_in(2, weights) for step, weights in film.items()}
one = {step: loss_in(1, weights) for step, weights in film_of_one.items()}

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
cliff = max(range(0, 450, 10), key=lambda step: two[step] - two[step + 50])
print(
    f"two layers: {two[0]:.2f} at first, {two[cliff]:.2f} at step {cliff}, {two[cliff + 50]:.2f} fifty steps later"
)
print(f"at the end: {two[500]:.2f} with two layers, {one[500]:.2f} with one")
assert two[cliff] - two[cliff + 50] > 1.2  # a drop, not a slope
assert two[cliff] > math.log(PERIOD)  # it began where nobody knew the order
assert two[500] < 0.6
assert min(one.values()) > math.log(PERIOD)

# %%
_, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.plot(list(one), list(one.values()), "--", color=GREY, label="one layer")
ax.plot(list(two), list(two.values()), color=ACCENT, label="two layers")
for level, text in (
    (math.log(63), "one of 63 tokens"),
    (math.log(PERIOD), "one of the block's 16 tokens"),
):
    ax.axhline(level, color=GREY, linewidth=1, linestyle=":")
    ax.text(500, level + 0.06, text, ha="right", color=GREY)
ax.set(xlabel="step", ylabel="loss on the repeats, nats", ylim=(0, 4.8), xlim=(0, 505))
ax.set_title("Two layers creep, and then fall off a cliff; one layer only creeps")
ax.legend(loc="lower left")
show(
    "Loss on the repeats over 500 steps. Both models creep down from 4.3; the one "
    "with two layers falls steeply to under 1 between steps 200 and 300. The one with "
    "one layer stays above the line of ln 16."
)

# %% [markdown]
# Both creep in the same way: they learn that a token that has been seen is likelier to come again. One layer is enough
# for that. Order is another matter, and only the model with two layers learns it.
#
# ### Predict, then run: always the same period ({points}, difficulty 2, 3 minutes)
#
# The length of the block is drawn anew for each sequence. What would a model learn if it were 16 in every one?
#
# - **A**: the same as before: to find the token's last occurrence, and say what came after it
# - **B**: to look 15 places back, without comparing any tokens; one layer is enough, and other periods fail
# - **C**: nothing: with a fixed distance there is nothing left to be learned
# - **D**: the blocks by heart

# %%
### BEGIN SOLUTION
fixed_period_claim = "B"
### BEGIN STUB
# fixed_period_claim = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_fixed_period", fixed_period_claim)

# %% [markdown]
# Try it with the one-layer twin, which has just failed for 500 steps.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
by_place, _ = train(depth=1, steps=250, period=PERIOD)
torch.manual_seed(seed + 3)
others = {period: draw(32, 64, period) for period in (15, 16, 17)}
by_period = {
    period: on_repeats(by_place(ids), ids, period) for period, ids in others.items()
}
print(
    "one layer, trained on period 16 only:",
    {period: round(loss, 2) for period, loss in by_period.items()},
)
assert by_period[16] < 0.3
assert min(by_period[15], by_period[17]) > math.log(63)  # worse than knowing nothing

# %% [markdown]
# One layer solves it in half the time, almost perfectly, and has understood nothing: if the block is one token longer
# or shorter, it does worse than a blind guess. That is why the period has to vary. A model learns the cheapest rule
# that works on what it is shown, and it is up to you to show it cases where the cheap rule fails.
#
# ## Work out what it takes
#
# How could you find the next token *without* knowing the period? Say the sequence so far is `A B C A`, so B has to come
# next. The last token is A. There was an A before, and B came after it. So:
#
# 1. Find the position *after* the previous occurrence of your token.
# 2. Predict the token that you find there.
#
# The second step is easy. The first is a problem. The query is made from A, so it can ask for things that have to do
# with A. But the key at that position is made from B, and B, drawn at random, knows nothing about A, unless somebody
# has told it. So there has to be an earlier layer, in which every token looks one position back and keeps what it
# finds:
#
# - **Layer 0**: a *previous-token head*. B looks at A and notes: *before me there was an A*.
# - **Layer 1**: an *induction head*. The second A asks: *who had an A before?* B answers, and B is copied.
#
# Neither head is any use without the other, and that would explain a cliff.

# %%
_, ax = plt.subplots(figsize=(8.4, 3.1), layout="constrained")
ax.set(
    xlim=(-0.7, 5.9),
    ylim=(-0.55, 2.75),
    title="A head that looks one place back, and one that asks for what it noted",
)
ax.axis("off")
tokens = ["BOS", "A", "B", "C", "A", "?"]
for x, token in enumerate(tokens):
    ax.text(
        x,
        0,
        token,
        ha="center",
        va="center",
        bbox={"boxstyle": "round,pad=0.5", "fc": PALE, "ec": INK},
    )
ax.text(
    2,
    1.1,
    "B\nbefore me: A",
    ha="center",
    va="center",
    bbox={"boxstyle": "round,pad=0.4", "fc": "white", "ec": INK},
)
ax.text(
    4,
    2.2,
    "A\nwho had an A before?",
    ha="center",
    va="center",
    bbox={"boxstyle": "round,pad=0.4", "fc": "white", "ec": ACCENT},
)
for start, end, colour, style in (
    ((1.1, 0.25), (1.65, 0.8), INK, "->"),
    ((2, 0.28), (2, 0.75), GREY, "->"),
    ((4, 0.28), (4, 1.85), GREY, "->"),
    ((2.47, 1.3), (3.25, 2.0), ACCENT, "->"),
    ((4.5, 1.85), (4.95, 0.3), ACCENT, "->"),
):
    ax.annotate(
        "", end, start, arrowprops={"arrowstyle": style, "color": colour, "lw": 1.6}
    )
ax.text(1.05, 0.62, "layer 0", color=INK, ha="right")
ax.text(2.8, 1.8, "layer 1", color=ACCENT, ha="right")
ax.text(4.85, 1.25, "so B", color=ACCENT)
show(
    "Tokens BOS, A, B, C, A. In layer 0 an arrow from A to B: B notes that A was "
    "before it. In layer 1 the second A asks who had an A before, gets B, and "
    "predicts B."
)

# %% [markdown]
# So far, that is a guess. Now for the evidence. Both heads would show in their attention weights, so measure how much
# of its weight each head puts where it should.
#
# ## Find the head that looks back
#
# In a table of weights the rows are queries and the columns are keys. A previous-token head has its weight just below
# the diagonal:
#
# | | A | B | C | D |
# | --- | --- | --- | --- | --- |
# | **A** | 1 | | | |
# | **B** | **0.9** | 0.1 | | |
# | **C** | 0.1 | **0.8** | 0.1 | |
# | **D** | 0.1 | 0.1 | **0.7** | 0.1 |
#
# Its score is the mean of the three, $(0.9 + 0.8 + 0.7)/3 = 0.8$. The first token has none before it, and does not
# count.
#
# ### Exercise: score the previous token ({points}, difficulty 2, 8 minutes)
#
# Write `previous_token_score(weights)`.
#
# - `weights` is `(b, h, n, n)`, with $n \ge 2$; rows are queries.
# - Return `(h,)`: for each head the mean weight on key $i - 1$, over the batch and all queries $i \ge 1$.
# - Dtype and device as always; no gradient is asked for.


# %%
def previous_token_score(weights: Tensor) -> Tensor:
    """Weights (b, h, n, n) -> for each head the mean weight on the token before, (h,)."""
    ### BEGIN SOLUTION
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, -1))
    ### END SOLUTION


# %%
check("previous_token_score", previous_token_score)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The weights that count are those at (1, 0), (2, 1), (3, 2), …: a diagonal of the last two axes, one below the main
# one.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `Tensor.diagonal` takes an `offset` and the two axes, and puts the diagonal at the end: `(b, h, n - 1)`. Then take the
# mean over all axes but the heads'.
#
# </details>

# %% [markdown]
# ## Find the head that copies
#
# For the second head take `A B C A B`, with a period of 3:
#
# | | A | B | C | A | B |
# | --- | --- | --- | --- | --- | --- |
# | **A** (3) | 0.1 | **0.7** | 0.1 | 0.1 | |
# | **B** (4) | 0.1 | 0.1 | **0.5** | 0.2 | 0.1 |
#
# The query at 3 is an A. The A before it was at $3 - 3 = 0$, and the head should look at the position after that,
# key 1. So for query $i$ and period $p$ the key is $i - p + 1$, and the score here is $(0.7 + 0.5)/2 = 0.6$. Mind the
# $+1$: without it, the head would look at its own token, which does not say what comes next.
#
# ### Exercise: score the induction ({points}, difficulty 3, 10 minutes)
#
# Write `induction_score(weights, period)`.
#
# - `weights` is `(b, h, n, n)`, of sequences that repeat after `period` tokens, from the very first token on;
#   $2 \le$ `period` $< n$.
# - Return `(h,)`: the mean weight on key $i - $ `period` $ + 1$, over the batch and all queries $i \ge $ `period`.
# - As always; no gradient is asked for.


# %%
def induction_score(weights: Tensor, period: int) -> Tensor:
    """Weights (b, h, n, n) -> for each head the mean weight on what followed the same token, (h,)."""
    ### BEGIN SOLUTION
    return weights.diagonal(1 - period, dim1=-2, dim2=-1)[..., 1:].mean(dim=(0, -1))
    ### END SOLUTION


# %%
check("induction_score", induction_score)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A diagonal again, but further down. Write down the pairs of query and key for a period of 3, and subtract: which
# offset do they have in common?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The diagonal with offset $1 - p$ begins at query $p - 1$, which has not seen its token before. That one does not
# count.
#
# </details>

# %% [markdown]
# Now run the film, and measure both in every frame. The induction score is computed without BOS, which is no part of
# what repeats, and without the third block, in which a token has two earlier ones to follow. A third number comes
# along: the weight that layer 1 gives to BOS in the first block. You will soon see what it is for.

# %%
# nbval-ignore-output: it says whose functions are used
previous = yours_or_ours("previous_token_score", globals())
induction = yours_or_ours("induction_score", globals())


# %%
def looks(weights: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Of one frame: the previous-token scores of layer 0, induction scores of layer 1, and its weights on BOS."""
    frame = attnlib.AttentionOnly(VOCAB, 64, 4, depth=2)
    frame.load_state_dict(weights)
    with torch.no_grad():
        _, (first, second) = frame(probe, return_weights=True)
    two_blocks = slice(1, 2 * PERIOD + 1)
    on_bos = second[..., 1:PERIOD, 0].mean(dim=(0, -1))
    return (
        previous(first),
        induction(second[..., two_blocks, two_blocks], PERIOD),
        on_bos,
    )


scores = {step: looks(weights) for step, weights in film.items()}
# (frames, h)
back, copy, rest = (torch.stack(heads) for heads in zip(*scores.values(), strict=True))

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
back_head, copy_head = back[-1].argmax().item(), copy[-1].argmax().item()
print(
    "layer 0, previous token:",
    [round(x, 2) for x in back[-1].tolist()],
    "before:",
    round(back[0].max().item(), 2),
)
print(
    "layer 1, induction:     ",
    [round(x, 2) for x in copy[-1].tolist()],
    "before:",
    round(copy[0].max().item(), 2),
)
assert back[-1].max() > 0.6
assert copy[-1].max() > 0.55
assert max(back[0].max(), copy[0].max()) < 0.15

# %% [markdown]
# Now put everything into one figure, the one that this lesson is about. Do the three curves turn together?


# %%
def halfway(curve: list[float]) -> int:
    """The step at which a curve has gone half of its way."""
    middle = (curve[0] + curve[-1]) / 2
    return next(
        step
        for step, y in zip(film, curve, strict=True)
        if (y - middle) * (curve[-1] - curve[0]) > 0
    )


turns = [
    halfway(list(two.values())),
    halfway(back[:, back_head].tolist()),
    halfway(copy[:, copy_head].tolist()),
]

# %%
# nbval-ignore-output: the steps vary by machine; the assertions say what it shows
print("halfway at step: loss {}, previous token {}, induction {}".format(*turns))
assert max(turns) - min(turns) <= 80

# %%
_, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
ax.plot(list(two), list(two.values()), color=ACCENT, linewidth=3)
ax.set(xlabel="step", ylim=(0, 4.6), xlim=(0, 500))
ax.set_ylabel("loss on the repeats, nats", color=ACCENT)
right = ax.twinx()
right.spines["right"].set_visible(True)
right.set(ylim=(0, 1), ylabel="mean weight")
for curves, best, line, colour in (
    (back, back_head, "--", GREY),
    (copy, copy_head, "-", INK),
):
    right.plot(list(film), curves, color=colour, linewidth=0.8, alpha=0.4)
    right.plot(list(film), curves[:, best], line, color=colour, linewidth=3)
right.plot(list(film), rest.mean(dim=1), color=INK, linewidth=1.5, linestyle=":")
ax.plot([], [], color=ACCENT, linewidth=3, label="loss")
ax.plot([], [], "--", color=GREY, linewidth=3, label="layer 0, on the previous token")
ax.plot([], [], color=INK, linewidth=3, label="layer 1, after the last time")
ax.plot(
    [],
    [],
    color=INK,
    linewidth=1.5,
    linestyle=":",
    label="layer 1, first block, on BOS",
)
ax.axvspan(min(turns), max(turns), color=PALE, zorder=0)
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4)
ax.set_title("Loss, previous-token head and induction head turn at the same time")
show(
    "Three curves over 500 steps. When the loss falls off its cliff, the "
    "previous-token score of a head of layer 0 and the induction score of a head of "
    "layer 1 rise from nearly 0 to their height. Thin lines are the other heads. A "
    "dotted line, the weight on BOS, rises before."
)

# %% [markdown]
# For two hundred steps neither head is there, and then both are. Something is learned before that (the dotted line
# moves first), but half of this machine is no use. As long as no head of layer 1 asks, it does not pay to note who came
# before, and as long as nobody has noted it, it does not pay to ask. Olsson and others found the same drop in [every
# model with more than one layer that they
# trained](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html), from two layers up
# to 13 billion weights.
#
# Was it luck? `python -m benchmarks.other_seeds 11_reading_heads 0 1 2 3 4` runs the whole lesson from five starts, and
# says in how many of them all of its assertions hold, the drop among them.
#
# Here are the two heads at work on one sequence.

# %%
torch.manual_seed(seed + 4)
shown = draw(1, 49, PERIOD)
logits, (first, second) = model(shown, return_weights=True)
_, axes = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
pictures = (
    (first[0, back_head], f"Layer 0, head {back_head}: a line below the diagonal"),
    (second[0, copy_head], f"Layer 1, head {copy_head}: BOS at first, then stripes"),
)
for ax, (picture, title) in zip(axes, pictures, strict=True):
    drawn = ax.imshow(picture, cmap="Blues", vmin=0, vmax=1)
    ax.set(title=title, xlabel="key", xticks=[0, 16, 32, 48], yticks=[0, 16, 32, 48])
axes[0].set_ylabel("query")
plt.colorbar(drawn, ax=axes, label="attention weight", shrink=0.8)
show(
    "Two tables of weights. Left, a dark line right below the diagonal. Right, the "
    "first column is dark for the first 16 queries; then stripes run parallel to the "
    "diagonal, one and two periods below it, a step to the right."
)

# %% [markdown]
# And what comes of it? Here is what the model makes of the same sequence: after each token, the probability that it
# gave to the token that came next, and to each token of the block. (One that is in the block twice has its turn twice.)

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
# (n - 1, V): row i is said after token i, about token i + 1
foretold = logits[0, :-1].softmax(dim=-1)
came = foretold.gather(-1, shown[0, 1:, None])[:, 0]
right_one = foretold.argmax(dim=-1) == shown[0, 1:]
# the first query that can know is at 17
first_time, again = slice(0, PERIOD), slice(PERIOD + 1, None)
for name, part in (("the first time", first_time), ("when it comes again", again)):
    print(
        f"{name}: probability {came[part].mean():.2f} on average, {right_one[part].float().mean():.0%} right"
    )
assert came[first_time].mean() < 3 / 63  # 1/63 is an even guess
assert came[again].mean() > 0.7
assert right_one[again].float().mean() > 0.85

# %%
_, (above, below) = plt.subplots(
    2, 1, figsize=(9, 4.8), layout="constrained", sharex=True, height_ratios=(1, 1.6)
)
above.bar(range(48), came, color=[ACCENT if i > PERIOD else GREY for i in range(48)])
above.set(
    ylabel="probability of the\ntoken that came",
    ylim=(0, 1.05),
    title="A guess the first time, and nearly always right after that",
)
# the tokens of the block, in its order
candidates = list(dict.fromkeys(shown[0, 1:].tolist()))
drawn = below.imshow(
    foretold[:, candidates].T, cmap="Blues", vmin=0, vmax=1, aspect="auto"
)
below.set(
    xlabel="position of the last token read",
    ylabel="next token",
    xticks=[0, 16, 32, 47],
)
below.set_yticks(range(len(candidates)), candidates, fontsize=7)
plt.colorbar(drawn, ax=(above, below), label="probability", shrink=0.8)
show(
    "Above, a bar for each position: the probability of the token that came next, "
    "nearly 0 up to position 16, and most often over 0.9 after that. Below, a table "
    "with a row for each token of the block: pale on the left, and then a dark line "
    "that goes down the rows in the order of the block, once for each time that it "
    "repeats."
)

# %% [markdown]
# ## Ask where a head looks when there is nothing to find
#
# Go back to the picture of layer 1 and look at its first 16 rows. The block has not come a second time yet, so there is
# nothing to find. But a row of weights has to add up to 1.
#
# ### Predict, then run: nothing to find ({points}, difficulty 2, 3 minutes)
#
# Where do the heads of layer 1 look in the first block, while nothing repeats yet?
#
# - **A**: at all tokens alike, as none fits better than another
# - **B**: at BOS, which is always there and says nothing
# - **C**: nowhere: their weights become small
# - **D**: at the previous token, as the head below

# %%
### BEGIN SOLUTION
sink_claim = "B"
### BEGIN STUB
# sink_claim = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_sink", sink_claim)

# %% [markdown]
# ### Exercise: score the sink ({points}, difficulty 1, 5 minutes)
#
# Write `sink_score(weights)`. In the first table above it is the mean of the first column without its first entry, by
# hand $(0.9 + 0.1 + 0.1)/3 = 0.37$.
#
# - `weights` is `(b, h, n, n)`, with $n \ge 2$. Return `(h,)`: the mean weight on key 0, over the batch and all queries
#   $i \ge 1$. (Query 0 has no choice.)
# - As always; no gradient is asked for.


# %%
def sink_score(weights: Tensor) -> Tensor:
    """Weights (b, h, n, n) -> for each head the mean weight on the first key, (h,)."""
    ### BEGIN SOLUTION
    return weights[..., 1:, 0].mean(dim=(0, -1))
    ### END SOLUTION


# %%
check("sink_score", sink_score)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take the column of key 0 for all queries but the first: one index and one slice on the last two axes. What is left is
# `(b, h, n - 1)`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `mean` takes a tuple of axes: all but that of the heads.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
sink = yours_or_ours("sink_score", globals())

_, (_, second) = model(probe, return_weights=True)
nothing = sink(second[..., :PERIOD, :PERIOD])  # the first block, but its last token
later = second[..., PERIOD + 1 :, 0].mean(dim=(0, -1))
print("weight on BOS in the first block:", [round(x, 2) for x in nothing.tolist()])
print("as soon as the block repeats:    ", [round(x, 2) for x in later.tolist()])
assert nothing.mean() > 0.5
assert later.mean() < 0.15

# %% [markdown]
# This is the *attention sink* of lesson 09, and here you can see why it is there. A head that has nothing to say has to
# look at something that does no harm. BOS is always there, and the model can make whatever is fetched from it harmless.
# (The model of letters in lesson 09 had no such token, and no such head.)
#
# Is a head that rests on BOS undecided? Ask its *entropy* (lesson 02), which is 0 if all the weight is on one key, and
# $\ln k$ if $k$ keys share it evenly:
#
# $$H = -\sum_j w_j \ln w_j$$
#
# By hand: $(1, 0, 0)$ has 0. $(\tfrac12, \tfrac14, \tfrac14)$ has $\tfrac12 \ln 2 + 2 \cdot \tfrac14 \ln 4 = 0.347 +
# 0.693 = 1.040$, and three even weights have $\ln 3 = 1.099$. A weight of 0 contributes nothing, since $x \ln x$ goes
# to 0 with $x$.
#
# ### Exercise: measure how undecided a head is ({points}, difficulty 2, 8 minutes)
#
# Write `attention_entropy(weights)`.
#
# - `weights` is `(…, q, k)`, and each row adds up to 1. Return `(…, q)`, in nats.
# - A closed key has a weight of exactly 0, and adds 0, not NaN.
# - As always; no gradient is asked for.


# %%
def attention_entropy(weights: Tensor) -> Tensor:
    """Weights (…, q, k) -> the entropy of each row in nats, (…, q)."""
    ### BEGIN SOLUTION
    return -torch.xlogy(weights, weights).sum(dim=-1)
    ### END SOLUTION


# %%
check("attention_entropy", attention_entropy)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `weights * weights.log()` is right but for one thing: $0 \cdot (-\infty)$ is NaN. Which rows would that hit in a
# causal model?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `torch.xlogy(x, y)` is $x \ln y$, and 0 where $x$ is 0. `torch.where` does it as well.
#
# </details>

# %%
entropy = yours_or_ours("attention_entropy", globals())

by_hand = torch.tensor([[1.0, 0, 0], [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])
assert_close(entropy(by_hand), torch.tensor([0.0, 1.040, 1.099]), atol=1e-3, rtol=0)
undecided = entropy(second).mean(dim=(0, 1))  # (n,)
on_bos = second[..., 0].mean(dim=(0, 1))
# from query 15 on
found = second.diagonal(1 - PERIOD, dim1=-2, dim2=-1).mean(dim=(0, 1))
even = torch.arange(1, 65).log()
assert (undecided[8:] < 0.6 * even[8:]).all()

# %%
_, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.4), layout="constrained")
left.plot(on_bos, color=INK, label="on BOS")
left.plot(range(PERIOD + 1, 64), found[2:], color=ACCENT, label="after the last time")
left.set(
    xlabel="query",
    ylabel="mean weight, layer 1",
    ylim=(0, 1.05),
    title="Nothing to find: all eyes on BOS",
)
left.legend(loc="center right")
right.plot(even, color=GREY, linestyle=":", label="if all keys had the same weight")
right.plot(undecided, color=INK, label="layer 1")
right.set(
    xlabel="query",
    ylabel="entropy, nats",
    title="Decided in both blocks, for different reasons",
)
right.legend(loc="center right")
for ax in (left, right):
    ax.axvline(PERIOD + 0.5, color=GREY, linewidth=1)
show(
    "Left: the weight on BOS is high up to query 16 and then drops to nearly 0, where "
    "the weight on the token after the last time rises. Right: the entropy stays far "
    "below that of even weights, in the first block and later."
)

# %% [markdown]
# A low entropy says that a head has made up its mind. It does not say that it has found anything. (From query 33 on
# there are two positions after the same token, one and two periods back. The heads share their weight between them: the
# orange curve falls, and the entropy rises.)
#
# ## Test it on what it never saw
#
# Is this a rule or a habit? Try periods that it was trained on, a shorter one, a longer one, and sequences twice as
# long.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed + 5)
right_answers = {}
for period, n in ((4, 64), (8, 64), (16, 64), (32, 64), (48, 128), (16, 128)):
    ids = draw(32, n, period)
    hits = model(ids)[:, :-1].argmax(dim=-1) == ids[:, 1:]
    right_answers[period, n] = hits[:, period + 1 :].float().mean().item()
    print(
        f"period {period:2}, {n:3} tokens: {right_answers[period, n]:.0%} of the repeats right"
    )
assert min(right_answers[p, 64] for p in (4, 8, 16, 32)) > 0.85
assert right_answers[16, 128] > 0.6
assert right_answers[48, 128] < 0.6

# %% [markdown]
# The model was never shown a period of 4, and yet it gets it right: the rule is not a list of lengths. Sequences twice
# as long still work for the most part. But with a period of 48 the head would have to look 47 positions back, and in
# training it never had to look further back than 31. Its queries and keys are turned by their positions, and the angles
# of such a distance were never trained. That is lesson 07's limit, not the rule's.
#
# And words? The model's 63 tokens mean nothing to it, so they can be any 63 words.
#
# **Your turn.** Write a sentence of your own into the next cell, run it and the two cells below it, and see which words
# the model foretells. Some of your words should come again, followed by the same words as before. Then let one of them
# be followed by another word: what does the model say the next time?

# %%
scene = "the animal did not cross the street because it was"
sentence = f"{scene} tired and {scene} wide"

# %%
# nbval-ignore-output: the last digits vary by machine, and the sentence is yours
words = usable_text(sentence, longest=500).lower().split()
# the first word gets 1, the next new one 2
number = {word: i for i, word in enumerate(dict.fromkeys(words), start=1)}
if not 2 <= len(number) < VOCAB:
    raise NotUsable(
        f"A sentence of 2 to {VOCAB - 1} different words is needed, got {len(number)}."
    )
ids = torch.tensor([[BOS, *(number[word] for word in words)]])
chances = model(ids)[0].softmax(dim=-1)
# at i, words[i] is still to come
guesses = [(word, chances[i, number[word]].item()) for i, word in enumerate(words)]
for start in range(0, len(guesses), 6):
    print(
        "   ".join(
            f"{word} {chance:.0%}" for word, chance in guesses[start : start + 6]
        )
    )
likeliest = chances[len(words) - 1].argmax().item()
print(
    "for the last word it would have said:",
    next((w for w, i in number.items() if i == likeliest), "none of these"),
)

# %%
_, ax = plt.subplots(figsize=(9.4, 2.9), layout="constrained")
pairs_of_words = list(pairwise(words))
known = [
    i > 0 and pairs_of_words[i - 1] in pairs_of_words[: i - 1]
    for i in range(len(words))
]
ax.bar(
    range(len(words)),
    [chance for _, chance in guesses],
    color=[ACCENT if seen else GREY for seen in known],
)
ax.set_xticks(range(len(words)), words, rotation=60, ha="right")
ax.set(
    ylabel="probability",
    ylim=(0, 1),
    title="A word is foretold where it has followed the same word before",
)
show(
    "A bar for each word of the sentence: the probability that the model gave it. "
    "Most words, grey, get next to nothing; those that have followed the same word "
    "before, orange, get a high probability."
)

# %% [markdown]
# Of our two sentences it foretells most of the second one, and for its last word it repeats what it has read in the
# first: copying is not understanding. (After *the* it has read two different words, so it cannot be sure.) Still, this
# is *in-context learning* in its smallest form: no weight has changed, and yet the second time, the model knows.
#
# ## Knock heads out
#
# So far you have only looked. That a head looks at a token does not prove that anything comes of it. So intervene, as
# you did with the two heads of lesson 03 and with the dates of lesson 04. Take away what one head says, and see what
# the model can no longer do.
#
# There are two usual ways: replace what the head hands to `w_o` by zeros, or by its mean. Zero is a value that the rest
# of the model may never have met. The mean takes away what the head says about *this* token, and leaves what it says
# about every token.
#
# ### Exercise: knock out a head ({points}, difficulty 3, 15 minutes)
#
# Write `ablate_head(model, ids, layer, head, mean=False)`.
#
# - `model` is an `attnlib.AttentionOnly`, `ids` is `(b, n)`. Return the logits `(b, n, V)` of the model without this
#   head: what the head hands to `w_o` of its layer is replaced by 0, or, with `mean`, by its mean over batch and
#   positions.
# - `w_o` gets the heads side by side, `(b, n, h * d_head)`, and `model.layers[layer].num_heads` is $h$.
# - Afterwards the model is as it was. No hook stays behind, also if `model(ids)` raises an error.
# - As always; no gradient is asked for.


# %%
def ablate_head(
    model: nn.Module, ids: Tensor, layer: int, head: int, mean: bool = False
) -> Tensor:
    """The logits (b, n, V) of the model without one of its heads."""
    ### BEGIN SOLUTION
    at = model.layers[layer]
    d_head = at.w_o.in_features // at.num_heads
    own = slice(head * d_head, (head + 1) * d_head)

    def without(_, inputs):
        merged = inputs[0].clone()
        merged[..., own] = merged[..., own].mean(dim=(0, 1)) if mean else 0.0
        return (merged,)

    with at.w_o.register_forward_pre_hook(without):
        return model(ids)
    ### END SOLUTION


# %%
check("ablate_head", ablate_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A *forward pre-hook* is a function that PyTorch calls before a module runs, with the module and a tuple of its inputs.
# If it returns a tuple, the module gets that in their place. `module.register_forward_pre_hook(f)` puts it on.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Each head has $d_{head}$ columns of its own, side by side: head 0 the first ones. Clone the input, and write to the
# columns of your head.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `register_forward_pre_hook` returns a handle with `remove()`. It also works in a `with` statement, which removes the
# hook at the end, whatever happens inside.
#
# </details>

# %% [markdown]
# *Which heads will the model miss?* The scores above let you guess.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
ablate = yours_or_ours("ablate_head", globals())

whole = on_repeats(model(probe), probe)
missed = torch.tensor(
    [
        [
            on_repeats(ablate(model, probe, layer, head, True), probe) - whole
            for head in range(4)
        ]
        for layer in range(2)
    ]
)
print(
    f"loss with all heads: {whole:.2f}; what it loses without one of them (mean ablation):"
)
for layer, looked in enumerate((back[-1], copy[-1])):
    for head in range(4):
        print(
            f"  layer {layer}, head {head}: score {looked[head]:.2f}, loss +{missed[layer, head]:.2f}"
        )
assert missed[0].argmax() == back_head
assert missed[0, back_head] > 0.5
assert missed[0, back_head] > 1.5 * missed[1].max()

# %% [markdown]
# In layer 0 the picture told the truth: the head that looks back is missed the most, by far. In layer 1 no head is
# missed much: any one of the four can be spared. Are they useless, then? Knock out several at once.


# %%
def without_heads(layer: int, heads: list[int]) -> float:
    """The loss on the repeats if these heads of a layer say what they say on average."""
    chosen = model.layers[layer]

    def replaced(_, inputs):
        merged = inputs[0].unflatten(-1, (chosen.num_heads, -1)).clone()
        merged[:, :, heads] = merged[:, :, heads].mean(dim=(0, 1))
        return (merged.flatten(-2),)

    with chosen.w_o.register_forward_pre_hook(replaced):
        return on_repeats(model(probe), probe)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
ranking = copy[-1].argsort(descending=True).tolist()
steps = [without_heads(1, ranking[:count]) for count in range(5)]
print(
    "layer 1 without 0, 1, 2, 3, 4 of its heads: loss",
    [round(loss, 2) for loss in steps],
)
assert steps[1] < whole + 0.6
assert steps[4] > 3.5

# %% [markdown]
# All four do the same job, so each can stand in for the others. Knocked out one at a time, they look superfluous; take
# all four away, and nothing is left. An ablation tells you what the *rest* cannot do without a head. If the loss stays
# low, the head may be useless, or the others may cover for it. Large models even have heads that start to work only
# when another one is knocked out ([Wang and others](https://arxiv.org/abs/2211.00593) call them backup heads).

# %% [markdown]
# ## Multiply a head out
#
# So you know where a head looks, and that it matters. What does it *say* when it looks at a token? Lesson 03 cut a head
# into two halves, and this is the second one: what travels is made by $W_i^V W_i^O$ alone. In a model without MLPs and
# norms you need no experiment to read it. A token is embedded, goes through the two matrices of head $i$, and the
# result is read by the *unembedding*, the last matrix of the model. (Lesson 08 called it `head`, a word that is taken
# here.) Four matrices, one product:
#
# $$C = W_E \, W_i^V \, W_i^O \, W_U, \qquad (V, V)$$
#
# The shape is the vocabulary's size, twice. Row $a$ and column $b$ say by how much the logit of $b$ rises if the head
# puts all of its weight on $a$. This is the *OV circuit*. An induction head should say what it sees, so the largest
# entry of each row should be on the diagonal. By hand, with three tokens:
#
# | | A | B | C |
# | --- | --- | --- | --- |
# | **A** | **2** | 1 | 0 |
# | **B** | **3** | 1 | 0 |
# | **C** | −1 | −2 | **−0.5** |
#
# A raises A the most. B raises A the most, too: that is not a copy. C lowers everything, but C the least, and after a
# softmax that is what counts. Two rows of three copy, which makes a copying score of 0.67.
#
# ### Exercise: what does a head write? ({points}, difficulty 4, 15 minutes)
#
# Write `ov_circuit(model, layer, head)`.
#
# - `model` is an `attnlib.AttentionOnly` with `embed`, `layers`, `unembed`; a layer has `w_v`, `w_o` and `num_heads`.
#   Return `(V, V)`: row = token attended to, column = token whose logit it moves.
# - Only this head's part of $W^V$ and $W^O$ belongs to it.
# - Mind that `nn.Linear` computes `x @ weight.T`, so $W^V$ is `w_v.weight.T`.
# - As always; no gradient is asked for.


# %%
def ov_circuit(model: nn.Module, layer: int, head: int) -> Tensor:
    """What the head adds to each logit (columns) for each token that it looks at (rows), (V, V)."""
    ### BEGIN SOLUTION
    at = model.layers[layer]
    d_head = at.w_o.in_features // at.num_heads
    own = slice(head * d_head, (head + 1) * d_head)
    values = model.embed.weight @ at.w_v.weight[own].T  # (V, d_head)
    written = at.w_o.weight[:, own].T @ model.unembed.weight.T  # (d_head, V)
    return values @ written
    ### END SOLUTION


# %%
check("ov_circuit", ov_circuit)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take the shapes as a guide: `embed.weight` is (V, d_model), one head's part of $W^V$ (d_model, d_head), of $W^O$
# (d_head, d_model), and $W_U$ (d_model, V).
#
# </details>
# <details><summary>Hint 2</summary>
#
# The columns of $W^V$ that belong to the head are *rows* of `w_v.weight`. The rows of $W^O$ that belong to it are
# *columns* of `w_o.weight`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Multiply two and two, and then the results: (V, d_head) and (d_head, V). That never makes a matrix of d_model ×
# d_model, and with a real vocabulary you would stop there.
#
# </details>

# %% [markdown]
# ### Exercise: does it copy? ({points}, difficulty 1, 5 minutes)
#
# Write `copying_score(circuit)`.
#
# - `circuit` is `(V, V)`, and no row has its largest entry twice. Return a scalar tensor of a floating dtype: the share
#   of the rows whose largest entry is on the diagonal.
# - As always; no gradient is asked for.


# %%
def copying_score(circuit: Tensor) -> Tensor:
    """An OV circuit (V, V) -> the share of the tokens that raise themselves the most."""
    ### BEGIN SOLUTION
    own = torch.arange(len(circuit), device=circuit.device)
    return (circuit.argmax(dim=-1) == own).to(circuit.dtype).mean()
    ### END SOLUTION


# %%
check("copying_score", copying_score)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `argmax` along each row gives a column; compare it with the row's own number.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
circuit_of = yours_or_ours("ov_circuit", globals())
copies = yours_or_ours("copying_score", globals())

assert_close(
    copies(torch.tensor([[2.0, 1, 0], [3, 1, 0], [-1, -2, -0.5]])).item(),
    2 / 3,
    atol=1e-6,
    rtol=0,
)
copying = [
    [copies(circuit_of(model, layer, head)).item() for head in range(4)]
    for layer in range(2)
]
together = sum(circuit_of(model, 1, head) for head in range(4))
for layer in range(2):
    print(
        f"copying scores of layer {layer}:",
        [round(score, 2) for score in copying[layer]],
    )
print(f"the four heads of layer 1 together: {copies(together).item():.2f}")
assert min(copying[1]) > 0.5 > max(copying[0])
assert copies(together) > 0.9

# %% [markdown]
# No sequence went through the model for this: it was read from the weights alone. Each head of layer 1 copies most
# tokens, and together they copy nearly all. Those of layer 0 do not copy. What they write is not meant for the output.
#
# ## Ask who listens to whom
#
# It is meant for layer 1. There, a head makes keys from the residual stream, $x W^K$, and compares them with queries.
# Write $W^{QK}$ for $W^Q (W^K)^\top$, which lesson 01 called $M$, and $W^{OV}$ for $W^V W^O$. If you leave the rotation
# out, the score is $x_q\, W^{QK} x_k^\top$. If $x_k$ is what a head of layer 0 wrote, $x W^{OV}$, the two matrices
# meet:
#
# $$x_q\, W^{QK} (x W^{OV})^\top = x_q \left( W^{QK}\, (W^{OV})^\top \right) x^\top$$
#
# How large is the product in the middle? If one head writes in directions that the other does not read, it is 0. Elhage
# and others compare Frobenius norms, and call the result *K-composition*:
#
# $$\frac{\lVert W^{QK} (W^{OV})^\top \rVert}{\lVert W^{QK} \rVert \, \lVert W^{OV} \rVert}$$
#
# By hand, in two dimensions: $W^{OV} = \begin{pmatrix} 0 & 2 \\ 0 & 0 \end{pmatrix}$ reads the first number of a vector
# and writes to the second one. $W^{QK} = \begin{pmatrix} 0 & 3 \\ 0 & 4 \end{pmatrix}$ takes its keys from the second.
# The product $\begin{pmatrix} 6 & 0 \\ 8 & 0 \end{pmatrix}$ has the norm 10, and its factors have 5 and 2, so the
# composition is 1, the largest there is. If the keys came from the first number, it would be 0.
#
# ### Exercise: measure the K-composition ({points}, difficulty 4, 10 minutes)
#
# Write `qk_composition(w_ov, w_qk)`.
#
# - Both are `(d_model, d_model)`. `x @ w_ov` is what the first head writes; the rows of `w_qk` belong to queries, its
#   columns to keys.
# - Return a scalar tensor, from the formula above.
# - As always; no gradient is asked for.


# %%
def qk_composition(w_ov: Tensor, w_qk: Tensor) -> Tensor:
    """How much the keys of the second head read of what the first head writes: a scalar from 0 to 1."""
    ### BEGIN SOLUTION
    norm = torch.linalg.matrix_norm
    return norm(w_qk @ w_ov.T) / (norm(w_qk) * norm(w_ov))
    ### END SOLUTION


# %%
check("qk_composition", qk_composition)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `torch.linalg.matrix_norm` is the Frobenius norm, unless you say otherwise: the root of the sum of all squares.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Test your order of factors with the pencil's example, and with keys that come from the first number.
#
# </details>

# %% [markdown]
# A number like 0.2 says nothing by itself. So compare it with two controls: random matrices of the same shapes, and the
# *queries* of layer 1, which have no reason to listen.


# %%
def matrices(layer: int, head: int) -> tuple[Tensor, Tensor]:
    """W^OV and W^QK of a head, both (d_model, d_model)."""
    attn, own = model.layers[layer], slice(16 * head, 16 * (head + 1))
    return attn.w_v.weight[own].T @ attn.w_o.weight[:, own].T, attn.w_q.weight[
        own
    ].T @ attn.w_k.weight[own]


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
compose = yours_or_ours("qk_composition", globals())

w_ov, w_qk = torch.tensor([[0.0, 2], [0, 0]]), torch.tensor([[0.0, 3], [0, 4]])
assert_close(compose(w_ov, w_qk).item(), 1.0)
assert_close(compose(w_ov, w_qk[:, [1, 0]]).item(), 0.0)
pairs = [
    (matrices(0, first)[0], matrices(1, second)[1])
    for first in range(4)
    for second in range(4)
]
by_key = torch.stack([compose(w_ov, w_qk) for w_ov, w_qk in pairs]).view(4, 4)
by_query = torch.stack([compose(w_ov, w_qk.T) for w_ov, w_qk in pairs]).view(4, 4)
torch.manual_seed(seed + 6)
chance = torch.stack(
    [
        compose(
            torch.randn(64, 16) @ torch.randn(16, 64),
            torch.randn(64, 16) @ torch.randn(16, 64),
        )
        for _ in range(100)
    ]
)
print(
    f"random heads: {chance.mean():.3f}, at most {chance.max():.3f}; queries of layer 1: {by_query.mean():.3f}"
)
print(
    "keys of layer 1, for each head of layer 0:",
    [round(x, 3) for x in by_key.mean(dim=1).tolist()],
)
assert by_key[back_head].min() > chance.max()
assert by_query.mean() < chance.mean() + 0.01

# %%
_, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
ax.axhspan(chance.min(), chance.max(), color=PALE, zorder=0)
ax.axhline(chance.mean(), color=GREY, linewidth=1)
for head in range(4):
    colour = ACCENT if head == back_head else INK
    ax.plot([head - 0.1] * 4, by_key[head], "o", color=colour)
    ax.plot([head + 0.1] * 4, by_query[head], "x", color=GREY)
    ax.text(head, 0.275, f"looks back: {back[-1, head]:.2f}", ha="center", color=colour)
ax.plot([], [], "o", color=INK, label="into the keys")
ax.plot([], [], "x", color=GREY, label="into the queries")
ax.set(
    xticks=range(4),
    xlabel="head of layer 0",
    ylabel="composition",
    ylim=(0.05, 0.3),
    xlim=(-0.5, 4.4),
)
ax.set_title(
    "The keys of layer 1 listen to layer 0, and most to the head that looks back"
)
ax.legend(loc="center right")
show(
    "For each head of layer 0 four dots, its composition with the keys of the four "
    "heads of layer 1: above the band of random matrices, highest for the head that "
    "looks back. Crosses, for the queries, are in the band or below it."
)

# %% [markdown]
# ## Cut a single wire
#
# An ablation takes away everything that a head says, whoever is listening. Our claim is sharper: what the
# previous-token head says works through the *keys* of layer 1, and not through its queries or values. So cut that wire
# alone. Let the head speak as if it had read another sequence, but only on the way into `w_k` of layer 1. Everybody
# else still hears the truth. This is called *path patching*.
#
# ### Stretch: patch a path ({points}, difficulty 5, 30 minutes)
#
# Write `path_patch(model, ids, other, head)`.
#
# - `ids` and `other` are `(b, n)`. Return the logits `(b, n, V)` on `ids`, with one change: what head `head` of layer 0
#   writes into the residual stream is replaced by what it writes on `other`, but only in the input of `w_k` of layer 1.
# - Nothing else is touched: the queries and values of layer 1 still read what the head writes on `ids`, and so does
#   whatever follows.
# - Afterwards the model is as it was, also after an error. As always; no gradient is asked for.


# %%
def path_patch(model: nn.Module, ids: Tensor, other: Tensor, head: int) -> Tensor:
    """Logits (b, n, V) on ids, where the keys of layer 1 hear what the head would say on `other`."""
    ### BEGIN SOLUTION
    first, second = model.layers[0], model.layers[1]
    d_head = first.w_o.in_features // first.num_heads
    own, merged = slice(head * d_head, (head + 1) * d_head), []
    with first.w_o.register_forward_pre_hook(
        lambda _, inputs: merged.append(inputs[0][..., own])
    ):
        model(other)
        model(ids)
    there, here = (part @ first.w_o.weight[:, own].T for part in merged)
    with second.w_k.register_forward_pre_hook(
        lambda _, inputs: (inputs[0] - here + there,)
    ):
        return model(ids)
    ### END SOLUTION


# %%
check("path_patch", path_patch)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three runs of the model. In the first two, on `other` and on `ids`, a hook notes what `w_o` of layer 0 is given. From
# the head's columns you can compute what the head alone writes.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The stream is a sum, so to replace a part of it is to subtract the old part and to add the new one. In the third run
# do that in a pre-hook on `w_k` of layer 1.
#
# </details>
# <details><summary>Hint 3</summary>
#
# A hook that returns None leaves the input as it is, so `list.append` will do for noting. What the head writes is
# `part @ w_o.weight[:, own].T`.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
patch = yours_or_ours("path_patch", globals())

torch.manual_seed(seed + 7)
stranger = draw(32, 64, PERIOD)
harm = [
    on_repeats(patch(model, probe, stranger, head), probe) - whole for head in range(4)
]
for head in range(4):
    print(
        f"head {head} of layer 0: knocked out +{missed[0, head]:.2f}, only the wire to the keys +{harm[head]:.2f}"
    )
assert max(range(4), key=harm.__getitem__) == back_head
assert harm[back_head] > 0.5

# %% [markdown]
# What the head noted reaches layer 1 through its keys: spoil that one wire, and most of the copying is gone. A wrong
# note can even do more harm than none, as it points somewhere else.
#
# ## Attention is not explanation: try it
#
# In this model the pictures were honest: the head that looked back was the one that was missed. Can you rely on that?
# Jain and Wallace asked in 2019 whether the *same* answer could have come from quite different weights. If so, the
# picture that you are shown is one of many, and does not explain the answer. Try it yourself, on lesson 06's digits:
# two encoder blocks, sixteen patches of 2×2 pixels, and a softmax over ten digits.

# %%
from sklearn.datasets import load_digits

digits = load_digits()
images, labels = (
    torch.tensor(digits.images, dtype=torch.float32) / 16,
    torch.tensor(digits.target),
)
rows = images.unflatten(1, (4, 2)).unflatten(3, (4, 2))  # (b, row, p, column, q)
patches = rows.transpose(2, 3).flatten(3).flatten(1, 2)  # (b, 16, 4)


class DigitReader(nn.Module):
    """Lesson 06's reader in two parts, so that one can reach in before the last block."""

    def __init__(self):
        super().__init__()
        self.embed, self.positions = (
            nn.Linear(4, 48),
            nn.Parameter(0.5 * torch.randn(16, 48)),
        )
        self.first, self.last = (
            attnlib.EncoderBlock(48, 4, mlp_ratio=2.0) for _ in range(2)
        )
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

    def forward(self, patches: Tensor) -> Tensor:
        return self.answer(self.last(self.before(patches)))

    def before(self, patches: Tensor) -> Tensor:
        return self.first(self.embed(patches) + self.positions)

    def answer(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x).mean(dim=1))


# %%
torch.manual_seed(seed)
order = torch.randperm(len(images))
training, test = order[:1437], order[1437:]
reader = DigitReader()
optimiser = torch.optim.AdamW(reader.parameters(), lr=5e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimiser, 5e-3, total_steps=8 * 23, pct_start=0.2
)
for _ in range(8):
    for batch in training[torch.randperm(1437)].split(64):
        loss = F.cross_entropy(reader(patches[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
reader.eval().requires_grad_(False)

# %% [markdown]
# The attention weights of the last block are $4 \cdot 16 \cdot 16$ numbers for each image. Take them out, and put in
# any others:


# %%
def read_with(x: Tensor, weights: Tensor) -> Tensor:
    """The last block with these weights (b, h, n, n) in place of its own -> the probabilities of the ten digits."""
    block = reader.last
    values = attnlib.split_heads(block.attn.w_v(block.norm1(x)), 4)
    x = x + block.attn.w_o(attnlib.merge_heads(weights @ values))
    return reader.answer(x + block.mlp(block.norm2(x))).softmax(dim=-1)


x, truth = reader.before(patches[test]), labels[test]
own = reader.last.attn(reader.last.norm1(x), return_weights=True)[1]  # (b, h, n, n)
answers = reader(patches[test]).softmax(dim=-1)
assert_close(read_with(x, own), answers, atol=1e-5, rtol=0)

# %% [markdown]
# How different are two rows of weights? The *Jensen-Shannon divergence* is the entropy of their mean, minus the mean of
# their entropies: 0 if they are equal, and $\ln 2 = 0.69$ if they have no key in common. Now search by gradient, for
# fifty test images: make the divergence as large as you can, while the ten probabilities stay as they are.


# %%
def divergence(a: Tensor, b: Tensor) -> Tensor:
    """Jensen-Shannon, of each row (…, q, k) -> (…, q)."""
    parts = torch.stack([a, b, (a + b) / 2])
    entropies = -torch.xlogy(parts, parts.clamp(min=1e-12)).sum(dim=-1)
    return entropies[2] - (entropies[0] + entropies[1]) / 2


def second_pattern(x: Tensor, own: Tensor, answers: Tensor) -> Tensor:
    """Weights as far from their own as they can be while the answers stay."""
    logits = (own.log() + 0.5 * torch.randn_like(own)).requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=0.2)
    for _ in range(250):
        weights = logits.softmax(dim=-1)
        moved = (read_with(x, weights) - answers).abs().sum(dim=-1) / 2
        loss = 20 * F.relu(moved - 0.005) - divergence(weights, own).mean(dim=(1, 2))
        optimiser.zero_grad()
        loss.sum().backward()
        optimiser.step()
    return logits.detach().softmax(dim=-1)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
some = slice(0, 50)
other = second_pattern(x[some], own[some], answers[some])
same = read_with(x[some], other)
moved = (same - answers[some]).abs().sum(dim=-1) / 2
apart = divergence(other, own[some]).mean(dim=(1, 2))
accuracy = (answers.argmax(dim=-1) == truth).float().mean().item()
print(f"the reader gets {accuracy:.1%} of the test digits right")
print(
    f"50 other patterns: apart {apart.mean():.2f} of at most 0.69; probability moved: at most {moved.max():.3f}"
)
assert accuracy > 0.9
assert apart.mean() > 0.3
assert moved.max() < 0.02
assert torch.equal(same.argmax(dim=-1), answers[some].argmax(dim=-1))

# %%
best = apart.argmax().item()
_, axes = plt.subplots(2, 5, figsize=(9.6, 4.2), layout="constrained")
axes[0, 0].imshow(images[test[best]], cmap="gray_r")
axes[0, 0].set_title(f"read as {answers[best].argmax()}")
axes[1, 0].bar(range(10), answers[best], color=INK, width=0.4)
axes[1, 0].bar([d + 0.4 for d in range(10)], same[best], color=ACCENT, width=0.4)
axes[1, 0].set(xticks=range(10), yticks=[0, 1])
for row, (weights, name) in enumerate(
    ((own[best], "its own weights"), (other[best], "other weights"))
):
    for head in range(4):
        ax = axes[row, head + 1]
        drawn = ax.imshow(weights[head], cmap="Blues", vmin=0, vmax=1)
        ax.set(
            xticks=[], yticks=[], title=f"{name}, {head}" if head == 0 else str(head)
        )
for ax in axes[:, 0]:
    ax.set_anchor("C")
axes[0, 0].set(xticks=[], yticks=[])
plt.suptitle("Two pictures, one answer")
plt.colorbar(drawn, ax=axes, label="attention weight", shrink=0.7)
show(
    "A digit, and two rows of four tables of weights, the reader's own and others "
    "that look quite different. A bar chart shows the same probabilities for both."
)

# %% [markdown]
# So the picture is one of many. Does that mean that the weights do not matter? No, answered Wiegreffe and Pinter: look
# closer. A pattern made for one image is not a rule that a model could follow. Here are three controls:

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
even = read_with(x, torch.full_like(own, 1 / 16)).argmax(dim=-1) == truth
swapped = read_with(x[some], other.roll(1, dims=0)).argmax(dim=-1) == same.argmax(
    dim=-1
)
erased = torch.stack(
    [reader(patches[test] * (torch.arange(16) != k)[:, None]) for k in range(16)], dim=1
)
told = answers.argmax(dim=-1)[:, None, None].expand(-1, 16, 1)
# (b, 16): the answer's loss without this patch
harm = 1 - erased.softmax(dim=-1).gather(-1, told).squeeze(-1)
agree = (
    (own.mean(dim=(1, 2)).argmax(dim=-1) == harm.argmax(dim=-1)).float().mean().item()
)
print(
    f"with even weights:                           {even.float().mean():.0%} of all test digits right"
)
print(
    f"with the second pattern of another image:    {swapped.float().mean():.0%} of 50 answers stay"
)
print(
    f"most-attended patch = patch most sorely missed: {agree:.0%} of all test digits (by chance: 6%)"
)
assert even.float().mean() < accuracy - 0.15
assert swapped.float().mean() < 0.95
assert agree < 0.5

# %% [markdown]
# With even weights the reader reads far worse, so the weights do matter. And the second pattern is not a rule: given to
# another image, it spoils answers. But you cannot read off the picture which patch matters. Erase the patches one at a
# time, as lesson 04 did with characters: the patch that is missed most is usually not the one that gets the most
# weight. (By the time the last block looks, much has already been passed on between patches.) Both papers are right.
# The weights do matter, but a picture of them is not yet a reason. If you want a reason, intervene.

# %% [markdown]
# ## Look into real models
#
# The same test finds such heads in models that were trained on text: give them a block of random tokens, twice, and
# compute your `induction_score`. For GPT-2 small, [ARENA's course](https://github.com/callummcdougall/ARENA_3.0) lists
# the heads 5.1, 5.5, 6.9, 7.2 and 7.10 (layer, then head). We quote the list and have not measured it: the weights are
# not part of this course. If you have them, `attnlib.from_gpt2` (lesson 08) loads them.
#
# ## Take this with you
#
# **A picture of attention says where a head looks; only an intervention says what comes of it.**
#
# | | |
# | --- | --- |
# | formula | $C = W_E W_i^V W_i^O W_U$ (what head $i$ says), $W_i^Q (W_i^K)^\top$ (whom it asks) |
# | shapes | weights `(b, h, n, n)`, a score of them `(h,)`; a circuit `(V, V)`, of rank $d_{head}$ at most |
# | trap 1 | the stripe of an induction head is at $i - p + 1$, after the token, not on it |
# | trap 2 | calling a head useless because nothing happens without it: others may stand in for it |
# | trap 3 | a number without a control: also measure random matrices, and a model that cannot do it |
# | in PyTorch | `module.register_forward_pre_hook(f)`, in a `with` statement |
#
# **What is known about real models today**
#
# - In models of 8 and 20 billion weights, knocking out a few of the strongest induction heads costs much of what they
#   learn from examples in the prompt ([Crosbie and Shutova 2024](https://arxiv.org/abs/2407.07011)).
# - Attention sinks are kept on purpose in long conversations (StreamingLLM), or given a place of their own: gpt-oss
#   learns a score for *nobody* in each head.
# - MLPs hold more than attention does, and are harder to read. Sparse autoencoders and transcoders try to take apart
#   what they write ([Ameisen and others 2025](https://transformer-circuits.pub/2025/attribution-graphs/methods.html)).
#
# ## Think further
#
# 1. In GPT-2 positions are added to the embedding, so heads can read and write them. How could an induction head work
#    there without any head looking one position back?
# 2. A word comes twice in a sentence, each time with another word after it. What will our model predict when the word
#    comes a third time?
# 3. Why did the two heads appear together, and not one after the other?
#
# <details><summary>Answers</summary>
#
# 1. By way of the query. A head of layer 0 finds the same token earlier in the text and fetches its *position*. Layer 1
#    then asks for that position plus one. That is Q-composition.
# 2. The weights go to all positions after that word, in about equal parts, so it predicts a mixture of what is there:
#    the 2-gram counts of the sentence so far. To match two words in a row, it would need one more head, which looks two
#    positions back.
# 3. Each is useless without the other, so its gradient is small, and grows as the other gets stronger. They are like
#    two factors of a product that both start near zero: slow at first, then faster and faster. That is what a cliff
#    looks like.
#
# </details>
#
# ## Read on
#
# - [Elhage et al. 2021](https://transformer-circuits.pub/2021/framework/index.html), *A Mathematical Framework for
#   Transformer Circuits*: where OV, QK and composition come from; read it with your own functions beside it.
# - [Olsson et al. 2022](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html): the
#   cliff, in 34 models, and six arguments that these heads are behind it, each with its weak points.
# - [Jain and Wallace 2019](https://arxiv.org/abs/1902.10186) and [Wiegreffe and Pinter
#   2019](https://arxiv.org/abs/1908.04626): *Attention is not Explanation*, and *Attention is not not Explanation*;
#   read both, in this order.
# - [Xiao et al. 2023](https://arxiv.org/abs/2309.17453), attention sinks: what becomes of a long conversation when the
#   first tokens are forgotten.
# - [Wang et al. 2022](https://arxiv.org/abs/2211.00593), a circuit of 26 heads in GPT-2 that finds out who gets the
#   drink: the method of this lesson, on a sentence.
#
# ## Farewell
#
# In lesson 00 you multiplied two vectors with a pencil. Since then you have built everything that a transformer is made
# of, made it fast, and taken it apart again. You can now open the source of any transformer and find your own lines in
# it.
#
# What next? Here are three ways on, each good for a few weekends:
#
# - **Build on.** [A small GPT](../docs/a_small_gpt.md) puts the parts of this course together on one page. Make it
#   yours: another text, a tokeniser, an optimiser of your own.
# - **Take apart.** Add an MLP to the model of this lesson, or a second task, and see which of its findings still hold.
#   Whatever you find, knock it out before you believe it.
# - **Give it away.** Explain to somebody, with a pencil, why $\sqrt d$ is there. What you cannot explain yet is your
#   next lesson.
#
# The animal, by the way, has still not crossed the street. It was too tired. Now you know how a model can tell.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/11_reading_heads.ipynb`.*
