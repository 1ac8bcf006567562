# %% [markdown]
# # 11 · Reading heads: watch a head learn to copy
#
# A small model is training. For two hundred steps its loss only creeps down, and you're about to give up on it. Then,
# within fifty steps, the loss falls off a cliff. What happened in there? In this lesson you first build such a model
# by hand, so you know what to look for. Then you train one, film it while it learns, find the heads that do the work,
# and take them away to see what they were good for.
#
# | | |
# | --- | --- |
# | **You will build** | a head that copies, by hand; a film of one being born; experiments that show what heads do |
# | **You will understand** | how a model copies, why that takes two layers, and what an attention picture proves |
# | **You need** | heads from lesson 03, the residual stream of 06, rotary positions of 07, the loss of 08 |
# | **First evening** | where heads look, and what is lost without them: core 1 hour 35 minutes, everything 2 hours |
# | **Second evening** | what the weights say: none of it is core, everything 1 hour |
#
# The model trains with your own loop once that has passed its check, and your own functions read it. All symbols are in
# the [table of symbols](00_start_here.ipynb#Symbols).

# %%
import inspect
import math
import time
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, trained, yours_or_ours
from attnlib.checks.your_turn import NotUsable, usable_text
from attnlib.plot import ACCENT, GREY, INK, PALE, film, show, training, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 11_reading_heads 0 1 2` runs this lesson with three
seed = 0

# %% [markdown]
# ## Set a task that rewards nothing but looking back · core
#
# Everything a large language model knows about the world would hide what we're looking for, so here nothing means
# anything. The words are the numbers 1 to 63, drawn at random. Every sequence begins with token 0, called *BOS* for
# *beginning of sequence*. A block of 8 to 32 random tokens follows, and then the same block again and again, to the
# end. Nobody tells the model how long the block is. Its length, the *period* $p$, is drawn anew for every sequence.

# %%
VOCAB, BOS, PERIOD = 64, 0, 16


def draw(b: int, n: int, period: int | None = None) -> Tensor:
    """Sequences (b, n): BOS, then a random block over and over."""
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
# You can see how the sequence continues. How large should your loss be, in nats, as in lesson 08? There are three
# levels of knowledge, and each has its own loss. Suppose the block has 16 tokens:
#
# - You know only that it's one of 63 tokens: $\ln 63 = 4.14$.
# - You know *which* tokens are in the block, but not their order: $\ln 16 = 2.77$.
# - You've found where in the block you are: nearly 0. (Not quite, since a token may be in the block twice.)
#
# Nothing can be known in the first block, so only the repeats count. The first query that has seen its own token before
# is at position 17.


# %%
def losses(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits (b, n, V), ids (b, n) -> the loss at each position but the last."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


def on_repeats(logits: Tensor, ids: Tensor, period: int = PERIOD) -> float:
    """The mean loss, starting at the first token that is a repeat."""
    return losses(logits, ids)[:, period + 1 :].mean().item()


def right_on_repeats(logits: Tensor, ids: Tensor, period: int = PERIOD) -> float:
    """The share of these tokens that the likeliest guess gets right."""
    hits = logits[:, :-1].argmax(dim=-1) == ids[:, 1:]
    return hits[:, period + 1 :].float().mean().item()


def short(numbers: Tensor, digits: int = 2) -> list:
    """The numbers, rounded, for printing."""
    if numbers.dim() == 0:
        return round(numbers.item(), digits)
    return [short(part, digits) for part in numbers]


# %% [markdown]
# ## Work out what it takes · core
#
# How could you find the next token *without* knowing the period? Say the sequence so far is `A B C A`, so B has to come
# next. The last token is A. There was an A before, and B came after it. So:
#
# 1. Find the position *after* the previous occurrence of your token.
# 2. Predict the token you find there.
#
# The second step is easy. The first is a problem. The query is made from A, so it can ask for things that have to do
# with A. But the key at that position is made from B, and B, drawn at random, knows nothing about A unless somebody
# has told it. That takes an earlier layer, in which every token looks one position back and keeps what it finds:
#
# - **Layer 0**: a *previous-token head*. B looks at A and notes *before me there was an A*.
# - **Layer 1**: an *induction head*. The second A asks *who had an A before?* B answers, and B is copied.
#
# A note needs room. Lesson 06's residual stream is a vector that everybody adds to, so give each thing columns of its
# own. Then a head is nothing but wires between columns: $W^{QK} = W^Q (W^K)^\top$ connects the columns a query asks
# with to the columns a key answers with, and $W^{OV} = W^V W^O$ the columns a head reads to those it writes.
#
# Read the picture from the bottom up. Each token has three parts, *token*, *before* and *guess*. Layer 0 copies each
# token one place to the right, into *before*. Then follow the orange wire from the last A to the note that answers it,
# and the dark one from the token beside that note, B, to the last *guess*.

# %%
words_of = ["BOS", "A", "B", "C", "A"]
noted = ["BOS", "BOS", "A", "B", "C"]
_, ax = plt.subplots(figsize=(9.4, 5.0), layout="constrained")
ax.set(xlim=(-1.35, 16.3), ylim=(-0.75, 5.6))
ax.set_title(
    "Layer 0 notes the token before; layer 1 looks for its own token in the notes"
)
ax.axis("off")


def column(x: int, part: int) -> float:
    return 3.05 * x + 0.95 * part


for y, row in ((0.0, "embedding"), (2.2, "after layer 0"), (4.6, "after layer 1")):
    ax.text(-0.55, y, row, ha="right", va="center", color=GREY, rotation=90)
    for x, word in enumerate(words_of):
        written = [word, noted[x] if y > 0 else "", "B" if y > 3 and x == 4 else ""]
        for part, text in enumerate(written):
            edge = ACCENT if text and part == 2 else INK if text else "0.75"
            box = {"boxstyle": "square,pad=0.28", "fc": PALE if text else "white"}
            ax.text(
                column(x, part),
                y,
                f"{text:^5}",
                ha="center",
                va="center",
                family="monospace",
                fontsize=8,
                bbox=box | {"ec": edge, "lw": 1.2},
            )
for x in range(5):
    for part, name in enumerate(("token", "before", "guess")):
        ax.text(column(x, part), -0.55, name, ha="center", color=GREY, fontsize=7)


def wire(start: tuple, end: tuple, colour: str, bend: float = 0.0) -> None:
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.6}
    arrow["connectionstyle"] = f"arc3,rad={bend}"
    ax.annotate("", end, start, arrowprops=arrow)


for x in range(1, 5):
    wire((column(x - 1, 0), 0.28), (column(x, 1), 1.92), INK if x == 2 else "0.75")
clear = {"fc": "white", "ec": "none", "pad": 1}
ax.text(7.1, 1.1, "V: the token one back", color=INK, ha="left", bbox=clear)
wire((column(4, 0), 2.48), (column(2, 1) + 0.1, 2.48), ACCENT, 0.32)
ax.text(12.0, 3.15, "Q: who had an A before?", color=ACCENT, ha="left")
ax.text(8.3, 2.58, "K: I had", color=ACCENT, ha="left")
wire((column(2, 0), 2.48), (column(4, 2), 4.32), INK, -0.12)
ax.text(9.0, 3.95, "V: then take my token, B", color=INK, ha="right")
wire((column(1, 0), 3.1), (column(2, 0), 3.1), GREY)
ax.text((column(1, 0) + column(2, 0)) / 2, 3.22, "+1", color=GREY, ha="center")
ax.text(column(1, 0), 2.72, "same token", color=GREY, ha="center", fontsize=8)
show(
    "Tokens BOS, A, B, C, A, each a stream of three parts: token, before, guess. In "
    "layer 0 a wire goes from each token to the part before of the next position, so B "
    "holds the note A. In layer 1 the query of the second A comes from its token, the "
    "key of B from its note, and B's token is written into the guess of the second A. "
    "The position found is one after the position of the same token."
)

# %% [markdown]
# If that's how it works, you need no training. Write the matrices yourself.
#
# ### Exercise: build an induction head by hand ({points}, difficulty 4, 20 minutes)
#
# Write `induction_by_hand(vocab, n)`, for a model of two layers with one head each.
#
# - The stream has four parts, $D = 3 \cdot$ `vocab` $+\, n$ numbers in all: *token*, `vocab` columns with a 1 in
#   the token's; *before*, `vocab` zeros; *guess*, `vocab` zeros; *position*, `n` columns with a 1 in the position's.
# - A layer computes the weights from the scores $x\,W^{QK} x^\top$, causal, no $\sqrt d$, and then
#   $x \leftarrow x + \text{weights} \cdot x\,W^{OV}$. The prediction is the largest number in *guess*.
# - Return one tensor `(4, D, D)`: $W^{QK}$ and $W^{OV}$ of layer 0, then those of layer 1.
# - It's judged by what it does. On blocks that contain no token twice, every repeat must be predicted. The parts are
#   yours to use as you like.


# %%
def induction_by_hand(vocab: int, n: int) -> Tensor:
    """W^QK and W^OV of layer 0 and of layer 1, (4, D, D), D = 3 * vocab + n."""
    ### BEGIN SOLUTION
    matrices = torch.zeros(4, 3 * vocab + n, 3 * vocab + n)
    qk_0, ov_0, qk_1, ov_1 = matrices
    token, before = slice(0, vocab), slice(vocab, 2 * vocab)
    guess, position = slice(2 * vocab, 3 * vocab), slice(3 * vocab, None)
    sharp = 100
    qk_0[position, position] = sharp * torch.ones(n - 1).diag(-1)
    ov_0[token, before] = torch.eye(vocab)
    qk_1[token, before] = sharp * torch.eye(vocab)
    ov_1[token, guess] = torch.eye(vocab)
    return matrices
    ### END SOLUTION


# %%
check("induction_by_hand", induction_by_hand)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four wires, one per matrix. For each, say which part it reads and which part it ends in. The picture has all four.
#
# </details>
# <details><summary>Hint 2</summary>
#
# $x_q W^{QK} x_k^\top$ with one-hot parts picks a single entry: row = what the query has, column = what the key has.
# In which column does row $i$ of the position part need its 1, if the query at $i$ is to look one back?
#
# </details>
# <details><summary>Hint 3</summary>
#
# `torch.zeros(4, D, D)`, and then four assignments to blocks such as `qk_1[token, before]`, with slices for the parts.
# `torch.ones(n - 1).diag(-1)` has its ones to the left of the diagonal. A score of 1 hardly beats dozens of zeros in a
# softmax, so multiply both $W^{QK}$ by something large.
#
# </details>

# %%
# nbval-ignore-output: it says whose functions are used
by_hand = yours_or_ours("induction_by_hand", globals())


def run_by_hand(ids: Tensor, matrices: Tensor) -> Tensor:
    """The guesses (b, n, vocab) of two layers in a stream of four parts."""
    b, n = ids.shape
    parts = F.one_hot(ids, VOCAB).float(), torch.zeros(b, n, 2 * VOCAB)
    x = torch.cat([*parts, torch.eye(n).expand(b, n, n)], dim=-1)
    future = torch.ones(n, n).triu(1).bool()
    for w_qk, w_ov in matrices.view(2, 2, *matrices.shape[1:]):
        scores = (x @ w_qk @ x.mT).masked_fill(future, -torch.inf)
        x = x + scores.softmax(dim=-1) @ x @ w_ov
    return x[..., 2 * VOCAB : 3 * VOCAB]


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed)
matrices = by_hand(VOCAB, 128).float()
no_notes = matrices.clone()
no_notes[1] = 0  # layer 0 looks, and writes nothing
for period in (4, 16, 48):
    ids = draw(32, 128, period)
    whole = right_on_repeats(run_by_hand(ids, matrices), ids, period)
    without = right_on_repeats(run_by_hand(ids, no_notes), ids, period)
    print(f"period {period:2}: {whole:.0%} right, {without:.0%} without the notes")
    assert whole > 0.5
    assert without < 0.3 * whole

# %% [markdown]
# Nothing was trained, and any period will do. Without the notes about one token in ten is right, or fewer, so in *this*
# machine neither head is of use alone. What goes wrong with long blocks? A token may be in the block twice, with a
# different token after it each time, and this head can't tell the two apart.
#
# Will training find these two heads? And if it does, how would you know?
#
# ## Strip the model down to attention · core
#
# The model to be trained has two layers of attention and nothing else: no MLP, no norm, no bias. Positions are lesson
# 07's rotations, inside the heads, and each layer has four heads. Anything the model does with earlier tokens is done
# by its heads, and apart from the softmax every step is a product of matrices, which you can multiply out. The idea is
# from [Elhage and others](https://transformer-circuits.pub/2021/framework/index.html). Here is the whole model in code:

# %%
print(inspect.getsource(attnlib.AttentionOnly.forward).split('"""')[2])

# %% [markdown]
# Train it, and keep a copy of the weights every ten steps, like the frames of a film.
#
# ### Exercise: train and film ({points}, difficulty 3, 20 minutes)
#
# Write `train_and_film(model, batches, lr, every, make=torch.optim.AdamW)`.
#
# - `batches` is `(steps, b, n)`, one batch of ids for each step. The loss is the mean over all predictions of a next
#   token, as in lesson 08. `make(model.parameters(), lr=lr)` makes the optimiser, which trains `model` itself, not a
#   copy.
# - Return `losses`, `(steps,)`, each one before its step, and `frames`, `(1 + steps / every, P)`. A frame is all $P$
#   weights in one row, in the order of `model.parameters()`. Frame $f$ shows them after $f \cdot$ `every` steps.
# - `every` divides the number of steps. Neither result remembers how it was computed (`detach`). Dtype as
#   always.


# %%
def train_and_film(
    model: nn.Module,
    batches: Tensor,
    lr: float,
    every: int,
    make: type = torch.optim.AdamW,
) -> tuple[Tensor, Tensor]:
    """Train on each batch in turn -> losses (steps,), frames (1 + steps / every, P)."""
    ### BEGIN SOLUTION
    optimiser = make(model.parameters(), lr=lr)
    frames, found = [parameters_to_vector(model.parameters()).detach()], []
    for step, ids in enumerate(batches, start=1):
        logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].mT, ids[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.detach())
        if step % every == 0:
            frames.append(parameters_to_vector(model.parameters()).detach())
    return torch.stack(found), torch.stack(frames)
    ### END SOLUTION


# %%
check("train_and_film", train_and_film)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It's lesson 08's loop with one more line, which takes a picture. Where in the loop does it belong, if frame 1 shows
# the model after `every` steps? And which frame is taken before the loop?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `torch.nn.utils.parameters_to_vector(model.parameters())` copies all weights into one row. A list of the parameters
# themselves would be no film: every step changes them where they are.
#
# </details>

# %% [markdown]
# A twin with a single layer trains on the same sequences. *What do you think the second layer is good for?*

# %%
# nbval-ignore-output: it says whose functions are used
film_it = yours_or_ours("train_and_film", globals())


class Filmed(nn.Module):
    """A model and its film, so that both are kept on disk."""

    def __init__(self, depth: int, steps: int, period: int | None = None):
        super().__init__()
        torch.manual_seed(seed)
        self.model = attnlib.AttentionOnly(VOCAB, 64, 4, depth=depth)
        size = parameters_to_vector(self.model.parameters()).numel()
        self.register_buffer("frames", torch.zeros(1 + steps // 10, size))
        self.steps, self.period = steps, period

    def shoot(self) -> None:
        torch.manual_seed(seed + 1)
        batches = torch.stack([draw(32, 65, self.period) for _ in range(self.steps)])
        bar = training(self.steps)
        steps = iter(bar)

        def watch(_, inputs, logits):
            next(steps, None)
            bar.loss(losses(logits.detach(), inputs[0]).mean())

        with self.model.register_forward_hook(watch):
            self.frames[:] = film_it(self.model, batches, 3e-3, 10)[1]
        bar.close()


# %%
# nbval-ignore-output: it says how long the training took
def shot(name: str, depth: int, steps: int, period: int | None = None) -> Filmed:
    """A trained model with its film, from the disk if it was trained before."""
    made = trained(f"{name}_{seed}", Filmed(depth, steps, period), Filmed.shoot)
    return made.eval().requires_grad_(False)


started = time.process_time()
filmed, filmed_one = shot("two_layers", 2, 500), shot("one_layer", 1, 500)
model, one_layer = filmed.model, filmed_one.model
print(f"that took {time.process_time() - started:.0f} seconds of one processor")

# %%
torch.manual_seed(seed + 2)
probe = draw(32, 64, PERIOD)  # never trained on


def at(filmed: Filmed, step: int) -> nn.Module:
    """The model as it was after so many steps."""
    layers = len(filmed.model.layers)
    frame = attnlib.AttentionOnly(VOCAB, 64, 4, depth=layers).requires_grad_(False)
    vector_to_parameters(filmed.frames[step // 10], frame.parameters())
    return frame


every_step = range(0, 501, 10)
two = {step: on_repeats(at(filmed, step)(probe), probe) for step in every_step}
one = {step: on_repeats(at(filmed_one, step)(probe), probe) for step in every_step}

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
cliff = max(range(0, 450, 10), key=lambda step: two[step] - two[step + 50])
print(f"two layers: {two[0]:.2f} at first, {two[cliff]:.2f} at step {cliff}, ", end="")
print(f"{two[cliff + 50]:.2f} fifty steps later")
print(f"at the end: {two[500]:.2f} with two layers, {one[500]:.2f} with one")
assert two[cliff] - two[cliff + 50] > 1.2  # a drop, not a slope
assert two[cliff] > math.log(PERIOD)  # it began where nobody knew the order
assert two[500] < 0.6
assert min(one.values()) > math.log(PERIOD)

in_block = torch.zeros(32, VOCAB).scatter(1, probe[:, 1 : PERIOD + 1], 1)
on_block = one_layer(probe)[:, PERIOD:].softmax(dim=-1) @ in_block[:, :, None]
print(f"one layer puts {on_block.mean():.0%} on the block's tokens, ", end="")
print(f"which are {in_block.mean():.0%} of all")
assert on_block.mean() > 2 * in_block.mean()

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
# Both creep in the same way: they learn that a token they've seen is likelier to come again. One layer is enough for
# that, as the last line printed above the picture says. Order is another matter, and only the model with two layers
# learns it.
#
# ### Predict, then run: always the same period ({points}, difficulty 2, 3 minutes)
#
# The length of the block is drawn anew for each sequence. What would a model learn if it were 16 in every one?
#
# - **A**: the same as before: to find the token's last occurrence, and say what came after it
# - **B**: to look 15 places back, without comparing any tokens; one layer is enough, for this period only
# - **C**: nothing: with a fixed distance there's nothing left to learn
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
by_place = shot("one_layer_period_16", 1, 250, period=PERIOD).model
torch.manual_seed(seed + 3)
others = {period: draw(32, 64, period) for period in (15, 16, 17)}
by_period = {p: on_repeats(by_place(ids), ids, p) for p, ids in others.items()}
print("one layer, trained on period 16 only:")
print({period: round(loss, 2) for period, loss in by_period.items()})
assert by_period[16] < 0.3
assert min(by_period[15], by_period[17]) > math.log(63)  # worse than knowing nothing

# %% [markdown]
# One layer solves it in half the time, almost perfectly, and has understood nothing. If the block is one token longer
# or shorter, it does worse than a blind guess. That's why the period has to vary. A model learns the cheapest rule that
# works on what it is shown, and it's up to you to show it cases where the cheap rule fails.
#
# ## Write a detector, and find the heads · core
#
# Has the model with two layers found *your* two heads? If so, that should show in the attention weights. In a table of
# weights the rows are queries and the columns are keys. Here is `BOS A B A B`, a period of 2, for some head:
#
# | | BOS | A | B | A | B |
# | --- | --- | --- | --- | --- | --- |
# | **BOS** (0) | 1 | | | | |
# | **A** (1) | 0.8 | 0.2 | | | |
# | **B** (2) | *0.5* | **0.4** | 0.1 | | |
# | **A** (3) | 0.1 | 0.1 | **0.7** | 0.1 | |
# | **B** (4) | 0.1 | 0.1 | 0.1 | **0.6** | 0.1 |
#
# - A *previous-token head* has its weight just below the diagonal, at key $i - 1$. Its score is the mean of the bold
#   numbers, $(0.4 + 0.7 + 0.6)/3 = 0.57$. Query 1 doesn't count, since nobody knows whether it looks back or at BOS.
# - An *induction head* looks at the position after the last occurrence. For query 3 that occurrence is at $3 - p = 1$,
#   so it looks at 2: key $i - p + 1$. The first query that counts is $p + 1$, and the score is $(0.7 + 0.6)/2 = 0.65$.
# - A head that has found nothing must still put its weight somewhere. If it rests on BOS, that's an *attention sink*
#   (lesson 09). It shows in the first block, queries 2 to $p$: here the one italic number, 0.5.
#
# Is 0.65 a lot? With a period of 2 both detectors even read the same numbers. A score means nothing without a
# *baseline*: what would a head score that spreads its weight evenly over all keys it may see? For query $i$ that's
# $1/(i + 1)$ for each key, so the induction baseline here is $(\tfrac14 + \tfrac15)/2 = 0.225$.
#
# ### Exercise: find the heads ({points}, difficulty 4, 25 minutes)
#
# Write `find_heads(model, ids, period)`.
#
# - `model(ids, return_weights=True)` returns the logits and a list of weights `(b, h, n, n)`, one for each layer. `ids`
#   is `(b, n)`: BOS, and a block of `period` $\ge 2$ tokens over and over, $n \ge$ `period` $+ 2$.
# - Return `scores`, `(3, depth, h)`: previous token (queries from 2 on), induction (from `period` + 1 on) and sink
#   (from 2 to `period`), each the mean over the batch and these queries.
# - Then `baseline`, `(3,)`: the same three scores of a head with even weights. Dtype as always.
# - Then `best`, `(3, 2)`, int64: layer and head of the highest score of each kind. No gradients are needed.


# %%
def find_heads(
    model: nn.Module, ids: Tensor, period: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (3, depth, h), those of even weights (3,), and the best heads (3, 2)."""
    ### BEGIN SOLUTION
    weights = torch.stack(model(ids, return_weights=True)[1]).mean(dim=1)
    n, h = weights.shape[-1], weights.shape[1]
    allowed = torch.ones(n, n, dtype=weights.dtype).tril()
    even = allowed / allowed.sum(dim=-1, keepdim=True)

    def detect(table):
        back = table.diagonal(-1, dim1=-2, dim2=-1)[..., 1:]
        copy = table.diagonal(1 - period, dim1=-2, dim2=-1)[..., 2:]
        rest = table[..., 2 : period + 1, 0]
        return torch.stack([kind.mean(dim=-1) for kind in (back, copy, rest)])

    scores = detect(weights)
    flat = scores.flatten(1).argmax(dim=-1)
    best = torch.stack([flat // h, flat % h], dim=-1)
    return scores, detect(even), best
    ### END SOLUTION


# %%
check("find_heads", find_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write a detector first: a function from a table `(…, n, n)` to three numbers `(3, …)`. You can call it on the model's
# weights and on an even table alike. The mean over the batch may come first, as all scores are means.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Two of the three are diagonals. `Tensor.diagonal` takes an `offset` and the two axes, and puts the diagonal at the
# end. At which query does the diagonal with offset $1 - p$ begin, and how many of its entries must go?
#
# </details>
# <details><summary>Hint 3</summary>
#
# The even table is a lower triangle of ones, each row divided by its sum. For `best`, flatten `(depth, h)`, take the
# `argmax`, and get layer and head back with `//` and `%`.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
search = yours_or_ours("find_heads", globals())

two_blocks = probe[:, : 2 * PERIOD + 1]  # in a third, a token has two earlier ones
scores, baseline, best = search(model, two_blocks, PERIOD)
before_training, _, _ = search(at(filmed, 0), two_blocks, PERIOD)
for kind, name in enumerate(("previous token", "induction", "sink")):
    layer, head = best[kind].tolist()
    print(f"{name}: layer {layer}, head {head}; even weights {baseline[kind]:.2f}")
    print("  before training", short(before_training[kind]))
    print("  after training ", short(scores[kind]))
(back_layer, back_head), (copy_layer, copy_head) = best[:2].tolist()
assert (back_layer, copy_layer) == (0, 1)
assert scores[0, 0, back_head] > 0.7 > 0.15 > before_training[0].max()
assert scores[1, 1].min() > 5 * baseline[1] > before_training[1].max()
assert scores[1, 0].max() < 0.1
assert scores[2, 1].mean() > 0.5

# %% [markdown]
# There they are, in the layers where you put them. But look at the other numbers. In layer 0 one head looks back with
# most of its weight, and two or three others do so with part of theirs. In layer 1 *all four* are induction heads, each
# far above even weights. Your machine had two heads, and the trained one has a crowd.
#
# Now run the film, and search every frame.

# %%
found = [search(at(filmed, step), two_blocks, PERIOD)[0] for step in every_step]
back, copy, rest = torch.stack(found, dim=1)  # each (frames, depth, h)
back, copy, rest = back[:, 0], copy[:, 1], rest[:, 1]


def halfway(curve: list[float]) -> int:
    """The step at which a curve has gone half of its way."""
    middle, way = (curve[0] + curve[-1]) / 2, curve[-1] - curve[0]
    steps = zip(every_step, curve, strict=True)
    return next(step for step, y in steps if (y - middle) * way > 0)


three = (list(two.values()), back[:, back_head].tolist(), copy[:, copy_head].tolist())
turns = [halfway(curve) for curve in three]

# %%
# nbval-ignore-output: the steps vary by machine; the assertions say what it shows
print("halfway at step: loss {}, previous token {}, induction {}".format(*turns))
assert max(turns) - min(turns) <= 80
assert halfway(rest.mean(dim=1).tolist()) < min(turns)  # BOS comes first

# %%
_, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
ax.plot(list(two), list(two.values()), color=ACCENT, linewidth=3)
ax.set(xlabel="step", ylim=(0, 4.6), xlim=(0, 500))
ax.set_ylabel("loss on the repeats, nats", color=ACCENT)
right = ax.twinx()
right.spines["right"].set_visible(True)
right.set(ylim=(0, 1), ylabel="mean weight")
for curves, best_one, line, colour in (
    (back, back_head, "--", GREY),
    (copy, copy_head, "-", INK),
):
    right.plot(every_step, curves, color=colour, linewidth=0.8, alpha=0.4)
    right.plot(every_step, curves[:, best_one], line, color=colour, linewidth=3)
right.plot(every_step, rest.mean(dim=1), color=INK, linewidth=1.5, linestyle=":")
for label, style in (
    ("loss", {"color": ACCENT, "linewidth": 3}),
    ("layer 0, previous token", {"color": GREY, "linewidth": 3, "linestyle": "--"}),
    ("layer 1, induction", {"color": INK, "linewidth": 3}),
    ("layer 1, sink", {"color": INK, "linewidth": 1.5, "linestyle": ":"}),
):
    ax.plot([], [], label=label, **style)
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
# For two hundred steps neither head is there, and then both are. And here is the film itself: one sequence, the two
# heads you found, and the loss.

# %% tags=["picture:films/induction_head.gif"]
torch.manual_seed(seed + 4)
shown = draw(1, 49, PERIOD)
filmstrip = []
for step in every_step:
    _, (first, second) = at(filmed, step)(shown, return_weights=True)
    filmstrip.append((step, first[0, back_head], second[0, copy_head]))
_, axes = plt.subplots(1, 3, figsize=(7.2, 2.7), layout="constrained")
drawn = [ax.imshow(filmstrip[-1][1], cmap="Blues", vmin=0, vmax=1) for ax in axes[:2]]
for ax, layer in zip(axes, ("0", "1"), strict=False):
    ax.set(title=f"layer {layer}", xticks=[0, 16, 32, 48], yticks=[0, 16, 32, 48])
    ax.set(xlabel="key", ylabel="query")
axes[2].plot(list(two), list(two.values()), color=GREY, linewidth=1)
(dot,) = axes[2].plot([0], [two[0]], "o", color=ACCENT, markersize=9)
axes[2].set(xlabel="step", title="loss on the repeats", ylim=(0, 4.6))


def draw_frame(frame: tuple[int, Tensor, Tensor]) -> None:
    step, first, second = frame
    drawn[0].set_data(first)
    drawn[1].set_data(second)
    dot.set_data([step], [two[step]])


film(
    draw_frame,
    filmstrip,
    "An induction head is born. Two tables of weights and a loss curve, 500 steps: "
    "both tables are a blur for 200 steps. Then, while the loss falls, layer 0 draws a "
    "line just below the diagonal, and layer 1 stripes parallel to it, one block down.",
)

# %% [markdown]
# Olsson and others found the same drop in [every model with more than one layer that they
# trained](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html), from two layers up
# to 13 billion weights. Why do the two appear together? As long as no head of layer 1 asks, there's little to gain from
# noting who came before, and as long as nobody has noted it, there's nothing to ask for. Think of two factors of a
# product that both start near zero: slow at first, then faster and faster. That's what a cliff looks like. (This is an
# argument, not a measurement.)
#
# What does the model do with these heads? Here is the same sequence: after each token, the probability it gave to the
# token that came next, and to each token of the block. In the lower panel, look for a dark line that walks down the
# block once for each repeat.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
# (n - 1, V): row i is said after token i, about token i + 1
predicted = model(shown)[0, :-1].softmax(dim=-1)
came = predicted.gather(-1, shown[0, 1:, None])[:, 0]
right_one = predicted.argmax(dim=-1) == shown[0, 1:]
# the first query that can know is at 17
first_time, again = slice(0, PERIOD), slice(PERIOD + 1, None)
for name, part in (("the first time", first_time), ("when it comes again", again)):
    print(f"{name}: probability {came[part].mean():.2f} on average, ", end="")
    print(f"{right_one[part].float().mean():.0%} right")
assert came[first_time].mean() < 3 / 63  # 1/63 is an even guess
assert came[again].mean() > 0.65
assert right_one[again].float().mean() > 0.8

# %%
_, (above, below) = plt.subplots(
    2, 1, figsize=(9, 4.8), layout="constrained", sharex=True, height_ratios=(1, 1.6)
)
above.bar(range(48), came, color=[ACCENT if i > PERIOD else GREY for i in range(48)])
above.set(
    ylabel="probability of the\ntoken that came",
    ylim=(0, 1.05),
    title="A guess the first time, and mostly right after that",
)
# the tokens of the block, in its order
candidates = list(dict.fromkeys(shown[0, 1:].tolist()))
drawn = below.imshow(
    predicted[:, candidates].T, cmap="Blues", vmin=0, vmax=1, aspect="auto"
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
# ## Design a control · more
#
# You found heads that put their weight on key $i - p + 1$. You'd like to say they look there *because their own token
# was there before*. But you've already met a model that looks 15 places back whatever the tokens are, the one trained
# on a fixed period. On the probe its heads make the same picture:

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
by_token, by_distance = scores[1, 1], search(by_place, two_blocks, PERIOD)[0][1, 0]
print("induction, trained on all periods:", short(by_token))
print("induction, trained on period 16:  ", short(by_distance))
print(f"even weights: {baseline[1]:.2f}")
assert min(by_token.min(), by_distance.mean()) > 5 * baseline[1]

# %% [markdown]
# Both are far above even weights, so the score can't tell you why a head looks there. A *control* can: an input on
# which one explanation predicts a high score and the other a low one, while everything else stays as it is. What would
# you feed the model?
#
# ### Exercise: break the repeats ({points}, difficulty 3, 12 minutes)
#
# Design the control. Write `break_repeats(ids, period)`.
#
# - `ids` is `(b, n)`: BOS, and a block of `period` tokens over and over. Return a control `(b, n)`, ids again.
# - A control changes one thing. BOS stays at the front, and each sequence keeps its tokens, each as often as before.
# - In the control, a perfect induction head, which spreads its weight evenly over all positions right after an earlier
#   copy of its own token, must put less than a quarter of it on key $i - p + 1$, on average over queries from $p + 1$
#   on.
# - How you do that is up to you. It may be random.


# %%
def break_repeats(ids: Tensor, period: int) -> Tensor:
    """Sequences (b, n) that repeat -> the same tokens (b, n), and no repeat."""
    ### BEGIN SOLUTION
    bos, tokens = ids[:, :1], ids[:, 1:]
    order = torch.rand(tokens.shape).argsort(dim=-1)
    control = tokens.gather(1, order)
    return torch.cat([bos, control], dim=1)
    ### END SOLUTION


# %%
check("break_repeats", break_repeats)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which of these still repeats: the sequence backwards? Every block in the same new order? Each block in an order of its
# own?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `torch.rand(shape).argsort(dim=-1)` is a random order for each row, and `gather` puts the row into it.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
broken = yours_or_ours("break_repeats", globals())

torch.manual_seed(seed + 5)
control = broken(two_blocks, PERIOD)
on_control = search(model, control, PERIOD)[0][1, 1]
distance_on_control = search(by_place, control, PERIOD)[0][1, 0]
for name, repeats, controlled in (
    ("all periods", by_token, on_control),
    ("period 16", by_distance, distance_on_control),
):
    print(f"trained on {name}: {repeats.mean():.2f}, control {controlled.mean():.2f}")
assert on_control.max() < 0.25 * by_token.min()
assert distance_on_control.mean() > 0.6 * by_distance.mean()

# %% [markdown]
# Now the two models come apart. Without repeats the heads you found have nothing to look for, and their score drops to
# about that of even weights. The heads that go by distance hardly notice. The picture was the same, the reasons were
# not, and only the control can tell which is which.
#
# %% [markdown]
# ## Ask where a head looks when there is nothing to find · more
#
# Look at the first 16 rows of layer 1 in the film's last frame. The block hasn't come a second time yet, so there's
# nothing to find. But a row of weights has to add up to 1, and your detector says where it goes: to BOS, the *attention
# sink* of lesson 09. BOS is always there and says nothing about the next token, so the model can make looking at it
# harmless.
#
# Is a head that rests on BOS undecided? Measure its *entropy* (lesson 02), which is 0 if all the weight is on one key,
# and $\ln k$ if $k$ keys share it evenly: $H = -\sum_j w_j \ln w_j$. By hand: $(1, 0, 0)$ has 0, $(\tfrac12, \tfrac14,
# \tfrac14)$ has $\tfrac12 \ln 2 + 2 \cdot \tfrac14 \ln 4 = 0.347 + 0.693 = 1.040$, and three even weights have $\ln 3 =
# 1.099$. (`torch.special.entr` is $-w \ln w$, and 0 for a closed key.)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
def entropy(weights: Tensor) -> Tensor:
    """Weights (..., q, k) -> the entropy of each row in nats, (..., q)."""
    return torch.special.entr(weights).sum(dim=-1)


on_paper = torch.tensor([[1.0, 0, 0], [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])
assert_close(entropy(on_paper), torch.tensor([0.0, 1.040, 1.099]), atol=1e-3, rtol=0)
_, (_, second) = model(probe, return_weights=True)
undecided = entropy(second).mean(dim=(0, 1))  # (n,)
on_bos = second[..., 0].mean(dim=(0, 1))
# from query 15 on
after_match = second.diagonal(1 - PERIOD, dim1=-2, dim2=-1).mean(dim=(0, 1))
even = torch.arange(1, 65).log()
print(f"on BOS: {on_bos[2:17].mean():.2f} in the first block, ", end="")
print(f"{on_bos[17:].mean():.2f} when the block repeats")
assert on_bos[2:17].mean() > 0.5 > 0.15 > on_bos[17:].mean()
assert (undecided[8:] < 0.6 * even[8:]).all()
# from query 33 on there are two positions to share the weight
assert after_match[18:].mean() < after_match[2:18].mean() - 0.1
assert undecided[33:].mean() > undecided[17:33].mean() + 0.1

# %%
_, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.4), layout="constrained")
left.plot(on_bos, color=INK, label="on BOS")
left.plot(
    range(PERIOD + 1, 64), after_match[2:], "--", color=ACCENT, label="after the match"
)
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
    title="Low entropy in both blocks, for different reasons",
)
right.legend(loc="center right")
for ax in (left, right):
    ax.axvline(PERIOD + 0.5, color=GREY, linewidth=1)
show(
    "Left: the weight on BOS is high up to query 16 and then drops, to about a fifth "
    "at once and to nearly 0 by query 32. The weight on the token after the last time "
    "is high from query 17 on, and falls by nearly half after 32. Right: the entropy "
    "stays far below that of even weights, in the first block and later."
)

# %% [markdown]
# A low entropy says a head has made up its mind. It doesn't say the head has found anything. (From query 33 on there
# are two positions after the same token, one and two periods back. The heads share their weight between them, so the
# orange curve falls and the entropy rises.)
#
# ## Test it on periods it never saw · more
#
# Is this a rule or a habit? Try periods it was trained on, shorter ones and a longer one. One column isn't enough,
# though. A block of 4 that repeats is also a block of 8 that repeats, which the model *was* trained on. Only in the
# first repeat is 4 back all there is. So count the first repeat by itself, with the one-layer model as a control.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed + 5)


def first_and_later(model: nn.Module, ids: Tensor, period: int) -> tuple[float, float]:
    """The share that is right in the second block, and from the third on."""
    hits = (model(ids)[:, :-1].argmax(dim=-1) == ids[:, 1:]).float()
    second_block = hits[:, period + 1 : 2 * period]
    return second_block.mean().item(), hits[:, 2 * period :].mean().item()


right_in = {}
print("period  first repeat  later   one layer: first  later")
for period in (3, 4, 6, 8, 16, 32, 48):
    ids = draw(64, 128 if period > 16 else 64, period)
    right_in[period] = first_and_later(model, ids, period)
    one_right = first_and_later(one_layer, ids, period)
    print(("{:6}" + "{:13.0%}" * 4).format(period, *right_in[period], *one_right))
    assert one_right[0] < 0.2
assert 0.2 < right_in[4][0] < 0.7 < 0.9 < right_in[4][1]
assert min(right_in[p][0] for p in (8, 16, 32)) > 0.8
assert right_in[48][0] < right_in[32][0] - 0.1

# %% [markdown]
# In the first repeat of a block of 4 the model is right in a third to two thirds of the cases, depending on the start.
# That's far better than one layer and far worse than within the lengths of its training, 8 to 32. In the later repeats
# it's nearly perfect, but by then 8 back matches as well. So it has learned more than a list of lengths, but the rule
# fades outside of what it was trained on. Its queries and keys are turned by their positions, and in training the
# nearest match was 7 to 31 positions back, apart from chance repeats. That looks like lesson 07's limit again, on both
# sides.
#
# What if a token has come twice, each time with a different token after it? Counting pairs, as in lesson 08, would give
# each of these a half. Take 47 random tokens, none of them twice, and put token 1 at the end and at two earlier
# positions.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed + 6)
mixed = F.pad(2 + torch.rand(512, 62).argsort(dim=-1)[:, :47], (1, 0))  # (512, 48)
mixed[:, -1] = 1


def chances(*back: int, before: int | None = None) -> list[float]:
    """Token 1 at the end and before each position that is so far back: what follows?

    With `before`, the token before the last 1 is the same as before that earlier 1.
    """
    ids = mixed.clone()
    for distance in back:
        ids[:, -2 - distance] = 1
    if before is not None:
        ids[:, -2] = ids[:, -3 - before]
    said = model(ids)[:, -1].softmax(dim=-1)
    keys = [ids[:, [-1 - distance]] for distance in back]
    return [round(said.gather(1, key).mean().item(), 2) for key in keys]


print("one token to follow:", {back: chances(back)[0] for back in (3, 8, 14, 20, 26)})
print("two, 26 and 14 back:", chances(26, 14))
print("two, 24 and 20 back:", chances(24, 20))
print("  the token before as at the first: ", chances(24, 20, before=24))
print("  the token before as at the second:", chances(24, 20, before=20))
far, near = chances(26, 14)
assert far > 2 * near
assert abs(chances(24, 20)[0] - chances(24, 20)[1]) < (far - near) / 2
assert chances(3)[0] < chances(26)[0] / 2
assert chances(24, 20, before=24)[0] > chances(24, 20)[0] + 0.1
assert chances(24, 20, before=20)[1] > chances(24, 20)[1] + 0.1

# %% [markdown]
# No, the model doesn't split evenly. At 26 and 14 it clearly prefers the farther one, while at 24 and 20 the two are
# much closer. The first row is the control: even alone, a near token gets less than a far one. And the model uses more
# than one token of context: if the token *before* also agrees with one of the two places, that one gains. The textbook
# induction head would do neither. What you've found in this model is an induction head with habits.
#
# And words? The model's 63 tokens mean nothing to it, so they can be any 63 words.
#
# **Your turn.** Write a sentence of your own into the next cell, run it and the two cells below it, and see which words
# the model predicts. Some of your words should come again, followed by the same words as before. Then let one of them
# be followed by another word. What does the model say the next time?

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
said = model(ids)[0].softmax(dim=-1)
# at i, words[i] is still to come
guesses = [(word, said[i, number[word]].item()) for i, word in enumerate(words)]
for start in range(0, len(guesses), 6):
    print(
        "   ".join(
            f"{word} {chance:.0%}" for word, chance in guesses[start : start + 6]
        )
    )
likeliest = said[len(words) - 1].argmax().item()
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
    title="A word is predicted where it has followed the same word before",
)
show(
    "A bar for each word of the sentence: the probability that the model gave it. "
    "The grey words get next to nothing; most of those that have followed the same "
    "word before, orange, get a high probability."
)

# %% [markdown]
# In the second of our two sentences it predicts most of the words that repeat, and for the last one it says what came
# in the first. Copying isn't understanding. Still, this is *in-context learning* in its smallest form: no weight has
# changed, and yet the second time, the model knows.
#
# ## Knock heads out · core
#
# So far you've only looked. Seeing a head look at a token doesn't prove that the look has any effect. So intervene, as
# you did with the two heads of lesson 03 and with the dates of lesson 04. Take away what one head says, and see what
# the model can no longer do.
#
# There are two usual ways: replace what the head hands to `w_o` by zeros, or by its mean. Zero is a value the rest of
# the model may never have met. The mean takes away what the head says about *this* token, and leaves what it says about
# every token.
#
# ### Exercise: knock out a head ({points}, difficulty 3, 15 minutes)
#
# Write `ablate_head(model, ids, layer, head, mean=False)`.
#
# - `model` is an `attnlib.AttentionOnly`, `ids` is `(b, n)`. Return the logits `(b, n, V)` of the model without this
#   head: what the head hands to `w_o` of its layer is replaced by 0, or, with `mean`, by its mean over batch and
#   positions.
# - `w_o` gets the heads side by side, `(b, n, h * d_head)`, and `model.layers[layer].num_heads` is $h$.
# - Afterwards the model is as it was. No hook stays behind, even if `model(ids)` raises an error.
# - As always; no gradients are needed.


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
# If it returns a tuple, the module gets that instead. `module.register_forward_pre_hook(f)` puts it on.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Each head has $d_{head}$ columns, side by side, head 0 the first ones. Clone the input, and write to the columns of
# your head.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `register_forward_pre_hook` returns a handle with `remove()`. It also works in a `with` statement, which removes the
# hook at the end, no matter what happens inside.
#
# </details>

# %% [markdown]
# *Which heads will the model miss?* The scores above let you guess.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
ablate = yours_or_ours("ablate_head", globals())

whole = on_repeats(model(probe), probe)
missed = torch.zeros(2, 4)
print(f"loss with all heads: {whole:.2f}; rise without one head (mean ablation):")
for layer in range(2):
    for head in range(4):
        without = on_repeats(ablate(model, probe, layer, head, True), probe)
        missed[layer, head] = without - whole
        score = scores[layer, layer, head]
        name = f"  layer {layer}, head {head}"
        print(f"{name}: score {score:.2f}, loss +{without - whole:.2f}")
assert missed[0].argmax() == back_head
assert missed[0, back_head] > missed[1].max() + 0.2
assert whole + missed[0, back_head] < one[500] - 0.5
assert torch.corrcoef(torch.stack([scores[0, 0], missed[0]]))[0, 1] > 0.8


# %% [markdown]
# In layer 0 the picture told the truth: the more of its weight a head puts one back, the more it's missed. (From this
# start one head stands out by far. From others two or three share the work.) And yet, without the one that's missed the
# most, the loss is far below that of the one-layer model, which is more than 3, so *something* still works. In layer 1
# no head is missed much. Are they useless, then? One at a time won't tell. Knock out several at once.


# %%
def only(layer: int, heads: list[int], volume: float = 1.0) -> Tensor:
    """The logits if only these heads of a layer speak, at this volume; the others are
    replaced by their means."""
    chosen = model.layers[layer]

    def replaced(_, inputs):
        merged = inputs[0].unflatten(-1, (chosen.num_heads, -1))
        usual = merged.mean(dim=(0, 1)).expand_as(merged).clone()
        change = merged - usual
        usual[:, :, heads] += volume * change[:, :, heads]
        return (usual.flatten(-2),)

    with chosen.w_o.register_forward_pre_hook(replaced):
        return model(probe)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
partly = [head for head in range(4) if head != back_head]
backs = {
    "all four heads of layer 0": only(0, [0, 1, 2, 3]),
    "the previous-token head alone": only(0, [back_head]),
    "the three others alone": only(0, partly),
    "none of them": only(0, []),
}
for name, logits in backs.items():
    print(f"{name}: loss {on_repeats(logits, probe):.2f}")
told = [on_repeats(logits, probe) for logits in backs.values()]
assert told[1] - told[0] > 0.4  # so the others look back, too
assert told[2] < one[500] - 0.5  # and they do it for themselves
assert max(told[1:3]) + 1 < told[3]
assert told[3] > 3.5

# %% [markdown]
# So layer 0 doesn't depend on a single head, as the machine you built does. The other three carry part of the load,
# because two or three of them look back as well. From some starts those three together even do more than the one that
# stands out. Only without all four is nothing left. And in layer 1?

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
ranking = scores[1, 1].argsort(descending=True).tolist()
print("layer 1 with   loss   right")
for count in (4, 3, 2, 1, 0):
    logits = only(1, ranking[:count])
    print(f"  {count} heads     {on_repeats(logits, probe):.2f}    ", end="")
    print(f"{right_on_repeats(logits, probe):.0%}")
alone = [only(1, [head]) for head in range(4)]
louder = [only(1, [head], 3.0) for head in range(4)]
for name, logits in (("alone", alone), ("alone, 3 times as loud", louder)):
    lost = [round(on_repeats(each, probe), 2) for each in logits]
    hit = [round(right_on_repeats(each, probe), 2) for each in logits]
    print(f"one head {name}: loss {lost}, right {hit}")
quiet, loud = ([on_repeats(each, probe) for each in some] for some in (alone, louder))
assert min(quiet) > whole + 1.5
assert all(b < a - 0.2 for a, b in zip(quiet, loud, strict=True))
assert min(right_on_repeats(each, probe) for each in alone) > 0.4
assert max(right_on_repeats(each, probe) for each in louder) < 0.9
assert right_on_repeats(model(probe), probe) > 0.92

# %% [markdown]
# All four do the same kind of job, but none can stand in for the others. With a single head the loss is more than 2,
# close to that of knowing only which tokens are in the block (2.77). And yet the likeliest guess is right about half of
# the time, or more often. Is it only too quiet? The control lets it speak three times as loud. That helps, so part of
# it is volume: logits add up, and each head supplies a part of the sum. But the loud head is still right less often
# than all four together, so they also cover for each other's mistakes.
#
# An ablation tells you what the *rest* can't do without a head. If the loss stays low, the head may be useless, or the
# others may carry on. Even GPT-2 small has heads that start to work only when another is knocked out ([Wang and
# others](https://arxiv.org/abs/2211.00593) call them backup heads).
#
# The first evening ends here. Read *Take this with you* at the end of the lesson, and you can go on to lesson 12.

# %% [markdown]
# ---
#
# ## Second evening: read it from the weights · more
#
# You know where the heads look, and what is lost without them. Now read from the weights what a head writes and which
# heads it listens to, and then cut a single wire between two of them. You need the two trained models of the first
# evening; run the cells above first (*Run → Run All Above Selected Cell*).

# %% [markdown]
# ## Read what a head writes: the OV circuit · more
#
# What does a head *say* when it looks at a token? Lesson 03 cut a head into two halves, and this is the second one:
# what travels is made by $W_i^V W_i^O$ alone. In a model without MLPs and norms you need no experiment to read it. A
# token is embedded, goes through the two matrices of head $i$, and the result is read by the *unembedding*, the last
# matrix of the model. (Lesson 08 called it `head`, a word that's taken here.) Four matrices, one product:
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
# A raises A the most. B raises A the most as well, so that isn't a copy. C lowers everything, but C the least, and
# after a softmax that's what counts. Two of the three rows copy, which makes a *copying score* of 0.67.
#
# ### Exercise: what does a head write? ({points}, difficulty 4, 15 minutes)
#
# Write `ov_circuit(model, layer, head)`.
#
# - `model` is an `attnlib.AttentionOnly` with `embed`, `layers`, `unembed`; a layer has `w_v`, `w_o` and `num_heads`.
#   Return `(V, V)`: row = token attended to, column = token whose logit it moves.
# - Only this head's part of $W^V$ and $W^O$ belongs to it.
# - Remember that `nn.Linear` computes `x @ weight.T`, so $W^V$ is `w_v.weight.T`.
# - As always; no gradients are needed.


# %%
def ov_circuit(model: nn.Module, layer: int, head: int) -> Tensor:
    """What the head adds to each logit (columns) for each token it looks at (rows)."""
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

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
circuit_of = yours_or_ours("ov_circuit", globals())


def copying(circuit: Tensor) -> float:
    """The share of the tokens that raise themselves the most."""
    return (circuit.argmax(dim=-1) == torch.arange(len(circuit))).float().mean().item()


assert_close(copying(torch.tensor([[2.0, 1, 0], [3, 1, 0], [-1, -2, -0.5]])), 2 / 3)
circuits = [[circuit_of(model, layer, head) for head in range(4)] for layer in (0, 1)]
for layer in (0, 1):
    print(f"layer {layer}:", [round(copying(each), 2) for each in circuits[layer]])
together = sum(circuits[1])
u, s, v = torch.linalg.svd(together)
by_rank = {r: copying(u[:, :r] * s[:r] @ v[:r]) for r in (4, 8, 16, 32)}
print(f"all of layer 1 together: {copying(together):.2f}, and cut down to rank")
print({rank: round(score, 2) for rank, score in by_rank.items()})
alone_copies = [copying(each) for each in circuits[1]]
assert min(alone_copies) > 0.5 > max(copying(each) for each in circuits[0])
assert copying(together) > max(0.95, *alone_copies)
assert by_rank[16] > max(0.95, *alone_copies)
assert by_rank[4] < min(alone_copies)

# %% [markdown]
# No sequence went through the model for this. It was read from the weights alone. Each head of layer 1 copies most
# tokens, and together they copy nearly all. Those of layer 0 don't copy. What do they write, then, and for whom?
#
# Why does it take several? In large models, one reason may be rank: a head's circuit has rank $d_{head}$ at most, and
# thousands of tokens get in one another's way in so narrow a channel. Is that the reason here? The control says no. Cut
# the sum of all four down to rank 16, which a single head could have, and it copies as well as before. With 64 tokens,
# 16 numbers would do. Training just didn't put all of the copying into one head.
#
# ## Measure which head reads which: composition · more
#
# What layer 0 writes is meant for layer 1. A head of layer 1 can read it in three places, and [ARENA's
# course](https://github.com/callummcdougall/ARENA_3.0) draws them as the three wires that enter a head:
#
# - **Q-composition**: its *queries* read what the earlier head wrote. (The head asks differently.)
# - **K-composition**: its *keys* read it. (The head finds differently. Your machine does this.)
# - **V-composition**: its *values* read it. (The head passes on what the earlier head fetched.)
#
# How much does a wire carry? Take keys. They're made by $x W^K$ and compared with queries, so without the rotation
# the score is $x_q\, W^{QK} x_k^\top$. If $x_k$ is what a head of layer 0 wrote, $x W^{OV}$, then
#
# $$x_q\, W^{QK} (x W^{OV})^\top = x_q \left( W^{QK}\, (W^{OV})^\top \right) x^\top$$
#
# How large is the product in the middle? If one head writes in directions that the other doesn't read, it's 0. Elhage
# and others compare *Frobenius norms*, the root of the sum of all squared entries. In the same way the query side gives
# $W^{OV} W^{QK}$, and the values of the second head give $W^{OV}_0 W^{OV}_1$:
#
# $$\text{K:}\ \frac{\lVert W^{QK} (W^{OV})^\top \rVert}{\lVert W^{QK} \rVert \, \lVert W^{OV} \rVert} \qquad
# \text{Q:}\ \frac{\lVert W^{OV}\, W^{QK} \rVert}{\lVert W^{OV} \rVert \, \lVert W^{QK} \rVert} \qquad
# \text{V:}\ \frac{\lVert W^{OV}_0\, W^{OV}_1 \rVert}{\lVert W^{OV}_0 \rVert \, \lVert W^{OV}_1 \rVert}$$
#
# By hand, in two dimensions: $W^{OV} = \begin{pmatrix} 0 & 2 \\ 0 & 0 \end{pmatrix}$ reads the first number of a vector
# and writes to the second one. $W^{QK} = \begin{pmatrix} 0 & 3 \\ 0 & 4 \end{pmatrix}$ takes its keys from the second.
# The product $\begin{pmatrix} 6 & 0 \\ 8 & 0 \end{pmatrix}$ has the norm 10, and its factors have 5 and 2, so the
# K-composition is 1, the largest there is. If the keys came from the first number, it would be 0.
#
# A number like 0.2 says nothing by itself. There are two baselines: random matrices of the same shapes, and the same
# model before training.


# %%
def composed(a: Tensor, b: Tensor) -> Tensor:
    """The norm of a product, divided by the product of the norms."""
    norm = torch.linalg.matrix_norm
    return norm(a @ b) / (norm(a) * norm(b))


def composition(model: nn.Module) -> Tensor:
    """Q, K, V (3), each head of layer 0 (4) with each head of layer 1 (4)."""
    ov, qk = [], []
    for attn in model.layers:
        w_q, w_k, w_v = (
            w.weight.unflatten(0, (4, -1)) for w in (attn.w_q, attn.w_k, attn.w_v)
        )
        w_o = attn.w_o.weight.unflatten(1, (4, -1)).transpose(0, 1)
        ov.append(w_v.mT @ w_o.mT)  # (h, d_model, d_model)
        qk.append(w_q.mT @ w_k)
    first = ov[0][:, None]
    return torch.stack(
        [composed(first, qk[1]), composed(qk[1], first.mT), composed(first, ov[1])]
    )


w_ov, w_qk = torch.tensor([[0.0, 2], [0, 0]]), torch.tensor([[0.0, 3], [0, 4]])
assert_close(composed(w_qk, w_ov.T).item(), 1.0)
assert_close(composed(w_qk[:, [1, 0]], w_ov.T).item(), 0.0)

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
wires, untrained = composition(model), composition(at(filmed, 0))
torch.manual_seed(seed + 7)
factors = torch.randn(2, 100, 64, 16) @ torch.randn(2, 100, 16, 64)
chance = composed(*factors)
print(
    f"random heads: {chance.mean():.3f}, from {chance.min():.3f} to {chance.max():.3f}"
)
for kind, name in enumerate("QKV"):
    print(f"{name}-composition, for each head of layer 0:", end=" ")
    print(short(wires[kind].mean(dim=1), 3), end=" ")
    print(f"(before training {untrained[kind].mean():.3f})")
assert (untrained.mean(dim=(1, 2)) - chance.mean()).abs().max() < 0.01
assert wires[1, back_head].min() > chance.max()
assert wires[1].mean(dim=1).argmax() == back_head
assert max(wires[0].mean(), wires[2].mean()) < chance.mean()

# %%
_, axes = plt.subplots(1, 3, figsize=(9.4, 3.3), layout="constrained", sharey=True)
for ax, wire, name in zip(axes, wires, ("queries", "keys", "values"), strict=True):
    ax.axhspan(chance.min(), chance.max(), color=PALE, zorder=0)
    ax.axhline(chance.mean(), color=GREY, linewidth=1)
    for head in range(4):
        style = ("D", ACCENT) if head == back_head else ("o", INK)
        ax.plot([head] * 4, wire[head], style[0], color=style[1], alpha=0.8)
    ax.set(xticks=range(4), xlim=(-0.5, 3.5), xlabel="head of layer 0")
    ax.set_title(f"into the {name} of layer 1")
axes[0].set(ylabel="composition", ylim=(0, 0.27))
axes[0].text(-0.4, chance.max() + 0.004, "random matrices", color=GREY)
axes[1].annotate(
    "looks back",
    (back_head, wires[1, back_head].max()),
    xytext=(0, 8),
    textcoords="offset points",
    ha="center",
    color=ACCENT,
)
show(
    "Three panels: queries, keys, values of layer 1. In each, four dots for each head "
    "of layer 0 and a band of random matrices. Keys: all dots above the band, highest "
    "for the head that looks back. Queries and values: in the band or below it."
)

# %% [markdown]
# Only the keys read more of layer 0 than random matrices would, and the head they read most is the one that looks back.
# Queries and values read *less* than random matrices would, on average: training has turned them away. It's
# K-composition, as in your machine. These are norms, though, of matrices without the rotation. They say a wire is
# there, not what it's used for.
#
# ## Cut a single wire: path patching · more
#
# An ablation takes away everything a head says, no matter who listens. Our claim is sharper: what the previous-token
# head says works through the *keys* of layer 1. So cut that wire alone. Let the head speak as if it had read another
# sequence, but only on the way into `w_k` of layer 1. Everybody else still hears the truth. This is called *path
# patching*.
#
# ### Exercise: patch a path ({points}, difficulty 5, 30 minutes)
#
# Write `path_patch(model, ids, other, head)`.
#
# - `ids` and `other` are `(b, n)`. Return the logits `(b, n, V)` on `ids`, with one change: what head `head` of layer 0
#   writes into the residual stream is replaced by what it writes on `other`, but only in the input of `w_k` of layer 1.
# - Nothing else is touched: the queries and values of layer 1 still read what the head writes on `ids`, and so does
#   everything that follows.
# - Afterwards the model is as it was, even after an error. As always; no gradients are needed.


# %%
def path_patch(model: nn.Module, ids: Tensor, other: Tensor, head: int) -> Tensor:
    """Logits on ids, where the keys of layer 1 hear what the head says on `other`."""
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
# The stream is a sum, so to replace a part of it, subtract the old part and add the new one. In the third run do that
# in a pre-hook on `w_k` of layer 1.
#
# </details>
# <details><summary>Hint 3</summary>
#
# A hook that returns None leaves the input as it is, so `list.append` will do for noting. What the head writes is
# `part @ w_o.weight[:, own].T`.
#
# </details>

# %% [markdown]
# A control comes with it. Patch each head of layer 0 in turn, and patch in what the head says on the *same* sequence,
# which must change nothing.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
patch = yours_or_ours("path_patch", globals())

torch.manual_seed(seed + 8)
stranger = draw(32, 64, PERIOD)
assert_close(patch(model, probe, probe, back_head), model(probe), atol=1e-3, rtol=0)
patched = [patch(model, probe, stranger, head) for head in range(4)]
harm = [on_repeats(logits, probe) - whole for logits in patched]
left = [right_on_repeats(logits, probe) for logits in patched]
for head in range(4):
    print(f"head {head} of layer 0: knocked out +{missed[0, head]:.2f}, ", end="")
    print(f"only the wire to the keys +{harm[head]:.2f}, {left[head]:.0%} right")
assert max(range(4), key=harm.__getitem__) == back_head
assert harm[back_head] > missed[0, back_head]
assert left[back_head] < right_on_repeats(model(probe), probe) - 0.25

# %% [markdown]
# What the head noted reaches layer 1 through its keys. Spoil that one wire, and more than a third of the guesses are
# wrong, from some starts more than half, where fewer than one in ten was. A wrong note can do even more harm than none,
# since it points somewhere else.
#
# ## Attention is not explanation: try it · stretch
#
# In layer 0 the picture was honest: the head that looked back was the one that was missed. Can you rely on that? Jain
# and Wallace asked in 2019 whether the *same* answer could have come from quite different weights. If so, the picture
# you're shown is one of many, and doesn't explain the answer. Try it yourself, on lesson 06's digits: two encoder
# blocks, sixteen patches of 2×2 pixels, and a softmax over ten digits.

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
    """Lesson 06's reader in two parts, to reach in before the last block."""

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
adamw = torch.optim.AdamW(reader.parameters(), lr=5e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.OneCycleLR(
    adamw, 5e-3, total_steps=8 * 23, pct_start=0.2
)
for _ in range(8):
    for batch in training[torch.randperm(1437)].split(64):
        error = F.cross_entropy(reader(patches[batch]), labels[batch])
        adamw.zero_grad()
        error.backward()
        adamw.step()
        schedule.step()
reader.eval().requires_grad_(False)

# %% [markdown]
# The attention weights of the last block are $4 \cdot 16 \cdot 16$ numbers for each image. Take them out, and put in
# any others.


# %%
def read_with(x: Tensor, weights: Tensor) -> Tensor:
    """The last block with these weights (b, h, n, n) -> the ten probabilities."""
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
# their entropies. It's 0 if they are equal, and $\ln 2 = 0.69$ if they have no key in common. Now search by gradient,
# for fifty test images. Make the divergence as large as you can while the ten probabilities stay as they are.


# %%
def divergence(a: Tensor, b: Tensor) -> Tensor:
    """Jensen-Shannon, of each row (…, q, k) -> (…, q)."""
    parts = torch.stack([a, b, (a + b) / 2])
    entropies = -torch.xlogy(parts, parts.clamp(min=1e-12)).sum(dim=-1)
    return entropies[2] - (entropies[0] + entropies[1]) / 2


def second_pattern(x: Tensor, own: Tensor, answers: Tensor) -> Tensor:
    """Weights as far from the model's as can be while the answers stay."""
    logits = (own.log() + 0.5 * torch.randn_like(own)).requires_grad_()
    adam = torch.optim.Adam([logits], lr=0.2)
    for _ in range(250):
        weights = logits.softmax(dim=-1)
        moved = (read_with(x, weights) - answers).abs().sum(dim=-1) / 2
        loss = 20 * F.relu(moved - 0.005) - divergence(weights, own).mean(dim=(1, 2))
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
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
    f"50 other patterns: apart {apart.mean():.2f} of at most 0.69; "
    f"probability moved: at most {moved.max():.3f}"
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
# So the picture is one of many. Does that mean the weights don't matter? No, answered Wiegreffe and Pinter: a pattern
# made for one image isn't a rule that a model could follow. Here are three experiments, and one of them needs a control
# of its own.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
even = read_with(x, torch.full_like(own, 1 / 16)).argmax(dim=-1) == truth
stay = {}
for name, patterns in (("second", other), ("own", own[some])):
    lent = read_with(x[some], patterns.roll(1, dims=0))
    unmoved = lent.argmax(dim=-1) == answers[some].argmax(dim=-1)
    stay[name] = unmoved.float().mean().item()
erased = torch.stack(
    [reader(patches[test] * (torch.arange(16) != k)[:, None]) for k in range(16)], dim=1
)
told = answers.argmax(dim=-1)[:, None, None].expand(-1, 16, 1)
# (b, 16): the answer's loss without this patch
harm = 1 - erased.softmax(dim=-1).gather(-1, told).squeeze(-1)
agree = (
    (own.mean(dim=(1, 2)).argmax(dim=-1) == harm.argmax(dim=-1)).float().mean().item()
)
print(f"with even weights: {even.float().mean():.0%} of all test digits right")
print(
    f"with another image's second pattern {stay['second']:.0%} of 50 answers stay, ",
    end="",
)
print(f"with that image's own {stay['own']:.0%}")
print(f"patch most attended to = patch most missed: {agree:.0%} (by chance: 6%)")
assert even.float().mean() < accuracy - 0.15
assert stay["second"] < 0.95
assert abs(stay["second"] - stay["own"]) < 0.2
assert agree < 0.5

# %% [markdown]
# With even weights the reader does far worse, so the weights do matter. The second experiment looks like proof that an
# invented pattern isn't a rule: lend it to another image, and answers change. But lend the reader's *own* patterns, and
# about as many change. A pattern belongs to its image, whoever made it, so this says nothing about the invented ones.
# (Wiegreffe and Pinter asked in a better way: they trained a simple model on frozen patterns, and the invented ones
# taught it less.) Nor can you read off the picture which patch matters. Erase the patches one at a time, as lesson 04
# did with characters, and the patch that is missed most is usually not the one that gets the most weight. (By the time
# the last block looks, much has already been passed on between patches.) Both papers are right. The weights do matter,
# but a picture of them isn't a reason yet. If you want a reason, intervene.

# %% [markdown]
# ## Look into real models · more
#
# The same test finds such heads in models trained on text. Give them a block of random tokens, twice, and run your
# `find_heads`. For GPT-2 small, [ARENA's course](https://github.com/callummcdougall/ARENA_3.0) lists
# the heads 5.1, 5.5, 6.9, 7.2 and 7.10 (layer, then head). We quote the list and haven't measured it, since the weights
# aren't part of this course. If you have them, `attnlib.from_gpt2` (lesson 08) loads them.
#
# ## Take this with you · core
#
# **A picture of attention says where a head looks; only an intervention says what that does.**
#
# You can now build an induction head, find one, and test by ablation what it does, all in a model without MLPs and
# norms. What carries over to a large model has to be tested there.
#
# | | |
# | --- | --- |
# | formula | $C = W_E W_i^V W_i^O W_U$ (what head $i$ says), $W_i^Q (W_i^K)^\top$ (whom it asks) |
# | shapes | weights `(b, h, n, n)`, scores of them `(depth, h)`; a circuit `(V, V)`, of rank $d_{head}$ at most |
# | trap 1 | the stripe of an induction head is at $i - p + 1$, after the token, not on it |
# | trap 2 | calling a head useless because nothing happens without it: others may carry on |
# | trap 3 | a number without a control: measure even weights, random matrices, a model that can't do it |
# | in PyTorch | `module.register_forward_pre_hook(f)`, in a `with` statement |
#
# **What is known about real models today**
#
# - In models of 8 and 20 billion weights, knocking out a few of the strongest induction heads costs much of what they
#   learn from examples in the prompt ([Crosbie and Shutova 2024](https://arxiv.org/abs/2407.07011)).
# - MLPs have most of the weights, and are harder to read. Sparse autoencoders and transcoders try to take apart what
#   they write ([Ameisen and others 2025](https://transformer-circuits.pub/2025/attribution-graphs/methods.html)).
#
# ## Think further · more
#
# 1. In GPT-2 positions are added to the embedding, so heads can read and write them. How could an induction head work
#    there without any head looking one position back?
# 2. Our model used the token *before* the last one to choose between two candidates. What would a head of layer 0 have
#    to note for that, and which wire would have to read it?
#
# <details><summary>Answers</summary>
#
# 1. By way of the query. A head of layer 0 finds the same token earlier in the text and fetches its *position*. Layer 1
#    then asks for that position plus one. That's Q-composition, and `induction_by_hand` accepts it: try it.
# 2. A note of the token *two* positions back would do. The key after the match holds it, and the query holds, as its
#    own note, the token one back. So the queries would have to read what layer 0 wrote as well, a little Q-composition.
#    The heads of layer 0 that look back with half of their weight are candidates. You have the tools to test it.
#
# </details>
#
# ## Read on · more
#
# - [Elhage et al. 2021](https://transformer-circuits.pub/2021/framework/index.html), *A Mathematical Framework for
#   Transformer Circuits*: where OV, QK and composition come from; read it with your own functions beside it.
# - [Olsson et al. 2022](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html): the
#   cliff, in 34 models (all but those with one layer), and six arguments that these heads are behind it.
# - [Jain and Wallace 2019](https://arxiv.org/abs/1902.10186) and [Wiegreffe and Pinter
#   2019](https://arxiv.org/abs/1908.04626): *Attention is not Explanation*, and *Attention is not not Explanation*;
#   read both, in this order.
# - [Wang et al. 2022](https://arxiv.org/abs/2211.00593), a circuit of 26 heads in GPT-2 that finds out who gets the
#   drink: the method of this lesson, on a sentence.
#
# **Next:** everything in this lesson was a model of ours, small enough to film. Lesson 12 opens one that other people
# trained and published. Your code runs it, and your tools find in it something nobody ever taught it.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/11_reading_heads.ipynb`.*
