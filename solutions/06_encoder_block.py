# %% [markdown]
# # 06 · The encoder block: add, normalise, think
#
# Attention lets words exchange what they know. By itself it isn't something you can stack. Two things are missing:
# something that keeps a deep stack from falling apart, and something that works on what attention has fetched. In this
# lesson you add both, and two blocks of your own learn to read handwritten digits.
#
# | | |
# | --- | --- |
# | **You will build** | `layer_norm`, an MLP by hand, `EncoderBlock` (ViT's and, with a mask, GPT-2's), `DigitReader` |
# | **You will understand** | why there are residuals, why the norm comes first, what an MLP adds to attention |
# | **You need** | multi-head attention from lesson 03, the training loop from lesson 04, a pencil |
# | **First evening** | the block, and the digits it reads: core 1 hour 50 minutes, everything 2 hours 30 minutes |
# | **Second evening** | where the norm goes, and what a block costs: none of it is core, everything 1 hour 30 minutes |
#
# The symbols are explained in the course's [table of symbols](00_start_here.ipynb#Symbols). As soon as your block
# passes its check, it's *yours* that reads the digits. If you skipped lesson 03, 04 or 05, you can still start here:
# `attnlib.MultiHeadAttention` stands in for yours.

# %%
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import NotUsable, usable_text
from attnlib.plot import (
    ACCENT,
    GREY,
    INK,
    hover_links,
    plot_block,
    plot_links,
    show,
    training,
    use_style,
)

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 06_encoder_block` runs this lesson with others
seed = 0

# %% [markdown]
# ## See the whole thing first · core
#
# Follow the orange line downwards: it's the word's own vector, carried through the block. Twice a branch leaves the
# line, and its result is added back. The numbers are for the word *it* in our sentence; the next sections compute them.
# (The column *animal* is what the MLP will conclude.)

# %%
it_comes_in = torch.tensor([0.0, 0.0, 1.0, 0.0])
it_fetches = torch.tensor([3.08, 0.21, 0.0, 0.0])  # what attention gave it in lesson 02
it_concludes = torch.tensor([0.0, 0.0, 0.0, 1.58])  # what the MLP will make of that
columns = ["legs", "lanes", "it", "animal"]
plot_block(it_comes_in, it_fetches, it_concludes, columns=columns)
show("The stream of a word: norm1 and attention, added; norm2 and the MLP, added.")

# %% [markdown]
# In words: each word normalises what it has, looks around, and *adds* what it found. Then it normalises again, thinks
# by itself, and *adds* what it concluded. In two formulas:
#
# $$x \leftarrow x + \mathrm{attn}(\mathrm{norm}_1(x)), \qquad x \leftarrow x + \mathrm{mlp}(\mathrm{norm}_2(x))$$
#
# That's all. You know `attn` already. This lesson is about the plus signs, the norms and the `mlp`, in that order.

# %% [markdown]
# ## Add, don't replace · core
#
# Think back to *it* in lesson 02. It came in as a pronoun, without legs or lanes. Attention gave it 0.77 times the
# four legs of *animal*, and 0.10 times the two lanes of *street*. Write the vector as (legs, lanes, pronoun); the
# picture calls the third column *it*:
#
# | | legs | lanes | pronoun |
# |---|---|---|---|
# | *it* comes in | 0 | 0 | 1 |
# | attention brings | 3.08 | 0.21 | 0 |
# | **replaced** | 3.08 | 0.21 | 0 |
# | **added** | 3.08 | 0.21 | 1 |
#
# If we replace the vector, *it* has three legs but has forgotten that it's a pronoun. If we add, it keeps both. The sum
# that runs through all blocks is called the *residual stream*, and each sub-layer adds its contribution to it.
#
# ### Let two layers find out what *it* is
#
# Lesson 01 made a promise: two layers of attention can tell *it* in *… it was tired* from *it* in *… it was wide*. Now
# they can, because there's a stream that carries what the first layer found to the second. Six features are enough.
# *tired* is a state that needs something alive, and *wide* a state that needs a place.
#
# - **First layer**: a pronoun asks for a state. The last word scores 4, the ten others score 0, so *it* gives that word
#   $e^4/(e^4 + 10) \approx 0.85$ of its attention. Now *it* is 0.85 "wants alive" in one sentence and 0.85 "wants
#   place" in the other.
# - **Second layer**: a word that wants something alive asks for it. A wish of 1 would score 6; with 0.85, *it* scores
#   about $0.85 \cdot 6 = 5.1$.

# %%
features = ["alive", "place", "pronoun", "state", "wants alive", "wants place"]
meaning = {
    "animal": ["alive"], "street": ["place"], "it": ["pronoun"],
    "tired": ["state", "wants alive"], "wide": ["state", "wants place"],
}  # fmt: skip
# W^K and W^V are the identity in both layers
w_q1, w_q2 = torch.zeros(6, 6), torch.zeros(6, 6)
# the scale is √6
w_q1[features.index("pronoun"), features.index("state")] = 4 * math.sqrt(6)
w_q2[features.index("wants alive"), features.index("alive")] = 6 * math.sqrt(6)
w_q2[features.index("wants place"), features.index("place")] = 6 * math.sqrt(6)

sentence = "The animal did not cross the street because it was"
endings = {last: [*sentence.lower().split(), last] for last in ("tired", "wide")}
animal, street, it = (
    endings["tired"].index(word) for word in ("animal", "street", "it")
)

# %% [markdown]
# Run both layers on both sentences, once with $x + \mathrm{attn}(x)$, and once with $\mathrm{attn}(x)$ alone. Before
# you do: without the sum *it* arrives at the second layer with the very same wish. Why does no word answer it?


# %%
def second_look(tokens: list[str], *, added: bool) -> Tensor:
    """Where each word looks in the second layer: weights (n, n)."""
    words = [meaning.get(token, []) for token in tokens]
    x = torch.tensor(
        [[float(feature in word) for feature in features] for word in words]
    )
    found = attnlib.scaled_dot_product_attention(x @ w_q1, x, x)
    wish = math.exp(4) / (math.exp(4) + 10)
    assert_close(found[it, 3].item(), wish, atol=1e-6, rtol=0)
    x = x + found if added else found
    return attnlib.scaled_dot_product_attention(x @ w_q2, x, x, return_weights=True)[1]


added = {last: second_look(tokens, added=True) for last, tokens in endings.items()}
replaced = {last: second_look(tokens, added=False) for last, tokens in endings.items()}
assert added["tired"][it].argmax() == animal
assert added["wide"][it].argmax() == street
assert all(
    weights[it].max() < 0.1 for weights in replaced.values()
)  # nobody stands out
print(f"it looks at its noun: {added['tired'][it].max():.2f}")
print(f"without the sum:      {replaced['tired'][it, animal]:.2f}")

# %%
hover_links(
    added["tired"],
    endings["tired"],
    query=it,
    title="Added, “… tired”: “it” looks at “animal”. Point at any word",
)

# %%
hover_links(
    added["wide"],
    endings["wide"],
    query=it,
    title="Added, “… wide”: “it” looks at “street”. Point at any word",
)

# %%
_, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for ax, (last, tokens) in zip(axes, endings.items(), strict=True):
    plot_links(replaced[last], tokens, ax=ax, query=it, title=f"replaced: … {last}")
show("Replaced, it looks at all words alike, no matter how the sentence ends.")

# %% [markdown]
# With the sum, one set of weights reads both sentences: *it* finds the animal in the one and the street in the other.
# Without the sum, *animal*, which asked for nothing in the first layer, got the average of all eleven words and lost
# what it was. *it* still asks for something alive, but now every other word is 1/11 alive. Notice also that *it* had to
# look at a word after it. Lesson 05's mask would have forbidden that. An encoder has no such mask, because it reads the
# finished text.
#
# ### Predict, then run: 24 layers of nothing but attention ({points}, difficulty 2, 3 minutes)
#
# Now 24 layers, and nothing made by hand: eleven random words of width 32 go through multi-head attention with random
# matrices, $x \leftarrow \mathrm{attn}(\mathrm{norm}(x))$, no residual. (The norm only keeps the numbers from growing;
# it comes next.) We measure how alike the words are: the mean cosine between two of them, 0 for unrelated, 1 for the
# same direction. It starts near 0. Where does it end?
#
# - **A**: near 0: random words through random matrices stay random
# - **B**: near 1: all eleven words have become one and the same vector
# - **C**: below 0: four heads pick different words, which drives them apart
# - **D**: it doesn't settle: after 24 layers the numbers have exploded

# %%
### BEGIN SOLUTION
no_residuals = "B"
### BEGIN STUB
# no_residuals = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_no_residuals", no_residuals)


# %%
def likeness(words: Tensor) -> float:
    """(n, d_model): the mean cosine between two different words."""
    unit = F.normalize(words, dim=-1)
    n = len(words)
    return ((unit @ unit.T).sum().item() - n) / (n * (n - 1))


def initialised(layers: nn.ModuleList) -> nn.ModuleList:
    """Every matrix drawn as in the paper's code, by Xavier's rule."""
    for parameter in layers.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return layers


def norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, (32,))


torch.manual_seed(seed + 1)
words = torch.randn(11, 32)
layers = initialised(
    nn.ModuleList(attnlib.MultiHeadAttention(32, 4) for _ in range(24))
)
mlps = initialised(nn.ModuleList(attnlib.FeedForward(32, 128) for _ in range(24)))
replaced, added, blocks = [words], [words], [words]
with torch.no_grad():
    for attention, mlp in zip(layers, mlps, strict=True):
        replaced.append(attention(norm(replaced[-1])[None])[0])
        added.append(added[-1] + attention(norm(added[-1])[None])[0])
        found = blocks[-1] + attention(norm(blocks[-1])[None])[0]
        blocks.append(found + mlp(norm(found)))

# %%
_, ax = plt.subplots(figsize=(7.2, 3), layout="constrained")
for several, style, label in (
    (replaced, {"color": ACCENT, "marker": "s"}, "replaced: x ← attn(norm(x))"),
    (added, {"color": INK, "marker": "o"}, "added: x ← x + attn(norm(x))"),
    (blocks, {"color": GREY, "marker": "^"}, "added, with an MLP in each layer"),
):
    ax.plot([likeness(x) for x in several], label=label, **style)
ax.set(xlabel="layers of attention", ylabel="mean cosine of two words")
ax.set(
    ylim=(-0.1, 1.08),
    title="Without residuals, eleven words become one in three layers",
)
ax.legend(loc="lower right")
show(
    "Without residuals the mean cosine is 1 from the third layer on. With them, and "
    "with an MLP in each layer, it passes one half by the eighth layer and comes near "
    "1 by the last."
)
for depth in (4, 24):
    alike = [likeness(x[depth]) for x in (replaced, added, blocks)]
    print(
        f"after {depth:2} layers: replaced {alike[0]:.3f}, added {alike[1]:.2f},",
        f"with an MLP {alike[2]:.2f}",
    )
assert abs(likeness(words)) < 0.1
assert likeness(replaced[4]) > 0.99
assert likeness(added[4]) < 0.6
assert min(likeness(added[24]), likeness(blocks[24])) > 0.75  # a delay, not a cure

# %% [markdown]
# After three or four layers you can't tell the eleven words apart. Attention averages, and an average of averages of
# the same things forgets what the things were. The residual buys time, but it's no cure: after the 24 layers of the
# question the words are nearly one *with* it as well. Dong, Cordonnier and Loukas, who proved the collapse, give the
# MLPs some credit too. In the grey curve each layer has one, with random weights, and it delays the end only a little.
# So residuals make a deep stack possible at the *start* of training. What happens to the words after that depends on
# what the layers learn to add.
#
# The plus sign has a second advantage, in the backward pass. The derivative of $x + f(x)$ is $1 + f'(x)$: whatever $f$
# does to the gradient, the 1 lets a copy of it through unchanged.

# %% [markdown]
# ## Normalise with a pencil · core
#
# Every layer adds to the stream, so its numbers grow. Attention can't ignore that: scores are products, so if words
# become twice as large, scores become four times as large, and lesson 02 showed what large scores do to a softmax. So
# before a sub-layer sees a word, we bring the word to a fixed size. Take one word's vector, $(1, 3, 4, 5, 7)$.
#
# - **Mean**: $(1+3+4+5+7)/5 = 4$. Subtract it: $(-3, -1, 0, 1, 3)$.
# - **Variance**: the mean of the squares, $(9+1+0+1+9)/5 = 4$. Its root, the standard deviation, is 2.
# - **Divide** by it: $(-1.5, -0.5, 0, 0.5, 1.5)$. Mean 0, variance 1.
#
# $$\mathrm{norm}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot g + b,
# \qquad \mu = \frac1d\sum_c x_c, \quad \sigma^2 = \frac1d\sum_c (x_c - \mu)^2$$
#
# The *gain* $g$ and the *bias* $b$ are learned, one number of each for each feature, the same for all words. ($\odot$
# multiplies number by number.) With them the network can choose another size. The small $\epsilon$ is there for a word
# whose entries are all equal: without it, that would be $0/0$.

# %%
word = torch.tensor([1.0, 3.0, 4.0, 5.0, 7.0])
by_hand = torch.tensor([-1.5, -0.5, 0.0, 0.5, 1.5])
ones, zeros = torch.ones(5), torch.zeros(5)
for same in (word, 10 * word, word + 100, 10 * word - 7):
    assert_close(attnlib.layer_norm(same, ones, zeros), by_hand, atol=1e-5, rtol=0)
assert_close(F.layer_norm(word, (5,)), by_hand, atol=1e-5, rtol=0)
print("divided by d:", word.var(correction=0).item(), " by d - 1:", word.var().item())

# %% [markdown]
# Multiply the word by ten, or add 100 to every entry: the norm can't tell the difference. Now look at the line the cell
# printed. `Tensor.var` divides by $d - 1$ unless you say otherwise, which is right for estimating a population from a
# sample. Here nothing is estimated: the five numbers are all there are.
#
# What does the norm do to a whole cloud of words? With $d = 3$ you can see it. Subtracting the mean drops every word
# into one plane (the entries add up to 0), and dividing puts it on a circle of radius $\sqrt{3}$. Only the *direction*
# is left.

# %%
generator = torch.Generator().manual_seed(3)
cloud = 5 + torch.randn(200, 3, generator=generator) * torch.tensor([1.0, 2.0, 1.5])
flat = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])
plane = F.normalize(flat, dim=-1)  # (2, 3): the axes below
normed = attnlib.layer_norm(cloud, torch.ones(3), torch.zeros(3))
assert_close(normed.sum(dim=-1), torch.zeros(200), atol=1e-4, rtol=0)
assert_close(normed.norm(dim=-1), torch.full((200,), math.sqrt(3)), atol=1e-2, rtol=0)

# %%
_, axes = plt.subplots(
    1, 2, figsize=(8, 3.9), layout="constrained", sharex=True, sharey=True
)
titles = "200 words, long and short", "After the norm, all on one circle"
dots = {"s": 12, "cmap": "Blues", "edgecolors": GREY, "linewidths": 0.3}
for ax, points, title in zip(axes, (cloud, normed), titles, strict=True):
    ax.scatter(*(points @ plane.T).T, c=cloud.norm(dim=-1), **dots)
    ax.set(title=title, xlabel="along (1, −1, 0)", aspect="equal")
axes[0].set_ylabel("along (1, 1, −2)")
show("A cloud of 200 points before the norm; after it they lie on a circle.")

# %% [markdown]
# Short words and long ones (light and dark dots) all end up on the circle. No word needed another word to get there. In
# *batch* norm, by contrast, the rest of the batch has a say.
#
# ### Exercise: write the norm ({points}, difficulty 2, 10 minutes)
#
# Write `layer_norm(x, gain, bias, eps=1e-5)`, which normalises along the last axis.
#
# - `x` is `(…, d_model)` with any leading axes, `gain` and `bias` are `(d_model,)`. The result has the shape of `x`.
#   As always.
# - The variance is divided by `d_model`, and `eps` is inside the root.
# - A word whose entries are all equal becomes `bias`, not `nan`.
# - The check also tries vectors far from zero, in float32: entries near 3000 with a standard deviation of 0.5. It
#   allows for what float32 itself rounds off there.
# - `mean`, `var` and `sqrt` are what you need. Not allowed: `attnlib.layer_norm`, and anything that normalises for you:
#   torch's layer norm, and its group, batch, instance and RMS norms, any of which can be made to do it.


# %%
def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """(..., d_model) -> (..., d_model): mean 0, variance 1, times gain, plus bias."""
    ### BEGIN SOLUTION
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / (variance + eps).sqrt() * gain + bias
    ### END SOLUTION


# %%
check("layer_norm", layer_norm)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do what the pencil did, in its order. Each step is one line, and each mean runs along the last axis only.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `keepdim=True` keeps the last axis, with size 1, so that a mean of shape `(…, 1)` can be subtracted from
# `(…, d_model)`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Subtract the mean; the variance is the mean of the squares of what remains; divide by the root of (variance plus
# eps); times gain, plus bias. If you use `Tensor.var`, tell it `correction=0`.
#
# </details>

# %% [markdown]
# ## See two versions of layer norm disagree · more
#
# Two details often go wrong, and both mistakes are in the [Annotated
# Transformer](https://github.com/harvardnlp/annotated-transformer/issues/122) and in [code copied from
# it](https://github.com/codertimo/BERT-pytorch/issues/30): `(x - mean) / (x.std() + eps)`. There, `std` divides by $d -
# 1$, and $\epsilon$ is outside the root. How much does that matter? Watch one word, $(-1, 1, -1, 1, -1, 1, -1, 1)$
# times a size that shrinks. The output should have the size 1, until $\epsilon$ is as large as the variance.

# %%
sizes = torch.logspace(-7, 1, 81)
small = sizes[:, None] * torch.tensor([-1.0, 1.0]).repeat(4)  # (81, 8)
inside = attnlib.layer_norm(small, torch.ones(8), torch.zeros(8))[:, 1]
outside = (small / (small.std(dim=-1, keepdim=True) + 1e-5))[:, 1]
assert_close(inside[-1].item(), 1.0, atol=1e-3, rtol=0)
assert_close(outside[-1].item(), math.sqrt(7 / 8), atol=1e-3, rtol=0)
# size 0.001
assert_close(inside[40].item(), 0.001 / math.sqrt(0.001**2 + 1e-5), atol=1e-3, rtol=0)
assert inside[40] < 0.31 < 0.9 < outside[40]

# %%
_, ax = plt.subplots(figsize=(7.2, 2.9), layout="constrained")
ax.semilogx(sizes, inside, color=INK, linewidth=2, label="x / √(variance + ε)")
usual = "x / (std with d − 1, plus ε)"
ax.semilogx(sizes, outside, "--", color=ACCENT, linewidth=2, label=usual)
ax.axvline(math.sqrt(1e-5), color="0.6", linestyle=":")
ax.text(math.sqrt(1e-5) * 1.15, 0.1, "√ε = 0.003", color="0.35")
ax.set(xlabel="size of the word", ylabel="size of the output")
ax.set_title("On small words, the two layer norms disagree")
ax.legend(loc="center right")
show(
    "For small words the usual mistake gives outputs near 1, while the correct norm "
    "gives small ones."
)

# %% [markdown]
# On the right, $d - 1$ makes everything 6 % too small; the gain could make up for that. On the left, a word of size
# 0.001 shrinks to 0.3 in one norm and comes out at more than 0.9 in the other. Train with one and run with the other,
# and no error is raised anywhere.

# %% [markdown]
# ## Let every word think for itself · core
#
# Attention *moves* things between words. Given the weights, it's linear in the values: it can add up "has legs" and
# "has no lanes", but it can't decide that this is an animal. That takes a layer with a nonlinearity. The block's
# second half is a small *MLP* (multi-layer perceptron), the same for every word, with no word looking at another:
# widen, apply a nonlinearity, narrow.
#
# $$\mathrm{mlp}(x) = \mathrm{GELU}(x W^{\uparrow} + b^{\uparrow}) W^{\downarrow} + b^{\downarrow},
# \qquad \mathrm{GELU}(x) = x \cdot \Phi(x)$$
#
# $\Phi(x)$ is the share of a normal distribution that lies below $x$: a gate that opens slowly. By hand:
# $\Phi(0) = 0.5$, $\Phi(1) = 0.841$, $\Phi(-1) = 0.159$. So GELU takes 1 to 0.841, and $-1$ to $-0.159$: unlike ReLU,
# it lets a little of the negative through. Exactly, $\Phi(x) = \frac12\left(1 + \mathrm{erf}(x/\sqrt2)\right)$.
#
# Take one hidden neuron and a pencil. Let the neuron add up the legs, subtract twice the lanes, and subtract 1. For
# *it*, that's $3.08 - 0.42 - 1 = 1.66$. Since $\Phi(1.66) = 0.95$, GELU gives 1.58, and $W^{\downarrow}$ writes that to
# another feature, *animal*. For *street*, with two lanes and no legs, it's $-5$, and GELU gives almost nothing. (We
# left out the norm, to keep the numbers.)

# %%
up, down = torch.tensor([1.0, -2.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 0.0, 1.0])
street_has = torch.tensor([0.0, 2.0, 0.0, 0.0])
concludes = [
    F.gelu(word @ up - 1) * down for word in (it_comes_in + it_fetches, street_has)
]
assert_close(concludes[0], it_concludes, atol=5e-3, rtol=0)
assert_close(concludes[1], torch.zeros(4), atol=1e-5, rtol=0)

# %% [markdown]
# An approximation of GELU by tanh is still around from the days when erf was slow. How far off is it?

# %%
t = torch.linspace(-4, 4, 401)
gelu = t * 0.5 * (1 + torch.erf(t / math.sqrt(2)))
assert_close(gelu, F.gelu(t), atol=1e-6, rtol=0)
by_tanh = F.gelu(t, approximate="tanh")
assert 4e-4 < (by_tanh - gelu).abs().max() < 6e-4

_, (left, right) = plt.subplots(1, 2, figsize=(9, 2.9), layout="constrained")
left.plot(t, torch.relu(t), "--", color=GREY, label="ReLU")
left.plot(t, gelu, color=INK, linewidth=2, label="GELU")
left.plot([-1, 1], [-0.159, 0.841], "o", color=ACCENT)
left.set(xlabel="x", title="GELU is a gate that opens slowly")
left.set(ylim=(-0.5, 2.5), xlim=(-3.5, 2.5))
left.legend()
right.plot(t, 1000 * (by_tanh - gelu), color=ACCENT)
right.set(xlabel="x", ylabel="thousandths", title="By tanh: half a thousandth off")
show("GELU beside ReLU; GELU by tanh differs from it by up to half a thousandth.")

# %% [markdown]
# The difference is half a thousandth. That's harmless if you train and run with the same one. If not, all twelve
# layers of a network are slightly off, and no error says so. BERT is the best example: Google's own code computes GELU
# by tanh ([`gelu` in modeling.py](https://github.com/google-research/bert/blob/master/modeling.py)), and the best
# known port of its weights uses the exact one.
#
# ### What no linear layer can compute
#
# Let a word have two features, each 0 or 1, and ask whether *exactly one* of them is there: legs or lanes, but not
# both. Then *it* has found its noun; with both, or neither, it's still in doubt. Suppose a linear layer $f$ (with bias)
# could tell. But $f(a,b) = ua+vb+c$ with three numbers $u$, $v$ and $c$, so $f(1,1) + f(0,0)$ and $f(1,0) + f(0,1)$ are
# both $u+v+2c$. We want $0+0$ for the first and $1+1$ for the second. A stack of linear layers is one linear layer, so
# no depth helps. Two neurons with a nonlinearity do.
#
# ### Exercise: write an MLP by hand ({points}, difficulty 3, 20 minutes)
#
# Write `mlp_by_hand(d, one, other, to)`: two matrices `up` and `down`, both `(d, d)`, so that
# $\mathrm{GELU}(x \cdot \mathrm{up}) \cdot \mathrm{down}$ tells whether exactly one of two features is there.
#
# - `x` is `(…, d)`. Column 0 is 1 in every word, so row 0 of `up` serves as the bias. Columns `one` and `other` hold 0
#   or 1. All other columns hold anything at all, and must have no influence.
# - The result is 1 in column `to` where exactly one of the two is 1, and 0 where none or both are; it's 0 in all other
#   columns, since it will be added to the stream. Right to within 0.1 is right.
# - Return both, stacked: `(2, d, d)`. There are $d$ neurons, one a column of `up`; use as many as you like.


# %%
def mlp_by_hand(d: int, one: int, other: int, to: int) -> Tensor:
    """A width, three columns -> up and down, (2, d, d): exactly one of two features."""
    up, down = torch.zeros(2, d, d)
    ### BEGIN SOLUTION
    steep = 20.0  # so that GELU bends as sharply as ReLU
    up[[one, other], 0] = steep  # neuron 0: how many of the two
    up[[one, other], 1] = steep  # neuron 1: how many beyond one
    up[0, 1] = -steep
    down[0, to] = 1 / steep
    down[1, to] = -2 / steep
    ### END SOLUTION
    return torch.stack([up, down])


# %%
check("mlp_by_hand", mlp_by_hand)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do it with ReLU and a pencil first. One neuron can count the features: 0, 1 or 2. What must be taken away, and when?
#
# </details>
# <details><summary>Hint 2</summary>
#
# A second neuron can be 0 until the count is above one. What's its bias? With both features the first neuron holds 2
# and the second 1. (Or think of one neuron for "the first but not the second", and one for the opposite.)
#
# </details>
# <details><summary>Hint 3</summary>
#
# GELU isn't ReLU: GELU(1) is 0.84. But GELU(20) is 20, GELU(−20) is 0, and GELU(0) is 0. Make everything that goes
# into a neuron 20 times as large, and what comes out of it 20 times smaller.
#
# </details>

# %% [markdown]
# No word looks at a neighbour here, so running the MLP word by word must give the same as running it on all words at
# once. And most of a block's weights are in the MLP, not in attention: with $d_{hidden} = 4 d$ it's $8 d^2$ against the
# $4 d^2$ of the four projections.


# %%
def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


torch.manual_seed(4)
mlp, attention = attnlib.FeedForward(48, 192), attnlib.MultiHeadAttention(48, 4)
x = torch.randn(2, 11, 48)
alone = torch.stack([mlp(x[:, i]) for i in range(11)], dim=1)
assert_close(mlp(x), alone, atol=1e-6, rtol=0)
print("MLP", count(mlp), " attention", count(attention))
assert count(mlp) == 2 * 4 * 48**2 + 5 * 48
assert count(attention) == 4 * 48**2 + 4 * 48

# %% [markdown]
# ## Put the block together · core
#
# You have all the parts, and the two lines from the beginning. One thing is easy to get wrong: *what* is added to
# *what*. The norm is inside the branch. Only the sub-layer sees the normalised word, and the stream itself goes on
# untouched.
#
# ### Exercise: build the block ({points}, difficulty 3, 25 minutes)
#
# Write two modules. `FeedForward(d_model, d_hidden, dropout=0.0)` is the MLP, and
# `EncoderBlock(d_model, num_heads, mlp_ratio=4.0, dropout=0.0)` with `forward(x, key_mask=None)` is the block. The
# check looks at the block and at the MLP inside it.
#
# - The MLP: two `nn.Linear` layers with bias, `up` and `down`; up, exact GELU, dropout, down, dropout. *Dropout* sets
#   each entry to 0 with probability `dropout` and divides the others by $1 -$ `dropout`, so that the average stays the
#   same. It acts in training only, and not after `module.eval()`.
# - The block's layers: `norm1` and `norm2` with `weight` and `bias` (`nn.LayerNorm(d_model)` has them, and
#   $\epsilon = 10^{-5}$), `attn` with `w_q`, `w_k`, `w_v`, `w_o` (with bias), and `mlp`. The hidden width is
#   `int(d_model * mlp_ratio)`. Dropout is the MLP's alone.
# - For `attn`, `attnlib.MultiHeadAttention(d_model, num_heads)` is allowed. Called as `attn(x, key_mask=key_mask)` it
#   returns the output alone. (Pass the mask by its name: the second argument is the memory of lesson 04.) Your own is
#   fine if it takes the mask, and doesn't hide the future as lesson 05's does.
# - `key_mask` is `(b, n)`, bool, True = a real word, or None. Padding may be anywhere, and no word looks at it (lesson
#   05). What comes out *at* padded positions is left open, but a sentence that is all padding must not bring NaN into
#   any gradient.
# - A `d_model` that `num_heads` doesn't divide is a `ValueError`. The points: {parts}. As always.
# - Not allowed: `attnlib.EncoderBlock`, `nn.TransformerEncoderLayer`.


# %%
class FeedForward(nn.Module):
    """x (b, n, d_model) -> (b, n, d_model): up, GELU, dropout, down, dropout."""

    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0):
        super().__init__()
        ### BEGIN SOLUTION
        self.up = nn.Linear(d_model, d_hidden)
        self.down = nn.Linear(d_hidden, d_model)
        self.drop = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        hidden = self.drop(F.gelu(self.up(x)))
        return self.drop(self.down(hidden))
        ### END SOLUTION


class EncoderBlock(nn.Module):
    """x (b, n, d_model), key_mask (b, n), True = a real word -> (b, n, d_model)."""

    def __init__(
        self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = FeedForward(d_model, int(d_model * mlp_ratio), dropout)
        ### END SOLUTION

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        return x + self.mlp(self.norm2(x))
        ### END SOLUTION


# %%
check("EncoderBlock", EncoderBlock)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with the MLP: three layers in `__init__`, and `forward` calls them in the order of the contract. The block's
# `__init__` makes four layers with the names of the contract, and its `forward` is the two formulas at the top of the
# lesson, a line each.
#
# </details>
# <details><summary>Hint 2</summary>
#
# In `x + attn(norm1(x))` the two x are the same tensor, the one before the norm. Don't write `x = norm1(x)`: after
# that the stream is gone. Nor `x += …`, which changes the caller's tensor. `nn.Dropout(p)`, made in `__init__`, knows
# whether the module is in training. The function `F.dropout` doesn't: it always drops, unless you pass it
# `training=self.training`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# First line: x becomes x plus `self.attn` of (`self.norm1` of x), with the key mask passed on by name. Second line:
# the same with `mlp` and `norm2`, from the new x, without a mask: the MLP doesn't look at other words.
#
# </details>

# %% [markdown]
# From here on, `Block` is your own if it passed its check, and `attnlib`'s if it hasn't yet.

# %%
# nbval-ignore-output: it says whose block is used, and that differs for a student
Block = yours_or_ours("EncoderBlock", globals())

# %% [markdown]
# ## Find PyTorch's block in yours · more
#
# `nn.TransformerEncoderLayer` computes the same, once you've told it four things: the norm first, GELU, no dropout,
# batch first. It stores its weights differently (queries, keys and values stacked in one matrix, the layers under other
# names), and `attnlib.from_torch` copies each of them to its place in ours. Its padding mask has True where the padding
# is: the opposite of ours.

# %%
torch.manual_seed(5)
options = {"batch_first": True, "norm_first": True, "activation": "gelu"}
theirs = nn.TransformerEncoderLayer(
    48, 4, dim_feedforward=96, dropout=0.0, **options
).double()
for parameter in theirs.parameters():
    # its biases start at 0, where a mistake would not show
    nn.init.normal_(parameter, std=0.3)
mine = Block(48, 4, mlp_ratio=2.0).double()
given = attnlib.from_torch(theirs).state_dict()
missing, unknown = mine.load_state_dict(given, strict=False)
assert not unknown
assert not {*missing} & {*dict(mine.named_parameters())}  # yours may have buffers

x = torch.randn(3, 7, 48, dtype=torch.float64, requires_grad=True)
key_mask = attnlib.padding_mask(torch.tensor([7, 4, 2]), 7)
output = mine(x, key_mask)[key_mask]
same = theirs(x, src_key_padding_mask=attnlib.to_padding(key_mask))[key_mask]
assert_close(output, same, atol=1e-12, rtol=1e-12)

weight = torch.randn_like(output)
gradients = [torch.autograd.grad((y * weight).sum(), x)[0] for y in (output, same)]
assert_close(*gradients, atol=1e-11, rtol=1e-11)
print("equal at", len(output), "real words, forward and backward")

# %% [markdown]
# One thing PyTorch's block (and the paper's code) does that ours leaves out: in training it applies its `dropout` to
# the attention weights as well. With a dropout of 0.1, *it* can't look at *animal* in one step out of ten, so it had
# better not depend on a single word. Watch what a dropout of 0.5 does to a row of weights.

# %%
# nbval-ignore-output: which weights are dropped differs by machine; asserts say what it shows
torch.manual_seed(6)
# in training
attention = nn.MultiheadAttention(48, 4, dropout=0.5, batch_first=True).double()
weights = attention(x, x, x, average_attn_weights=False)[1]  # (b, h, n, n)
dropped = (weights == 0).double().mean().item()
sums = weights.sum(dim=-1)
print(f"weights dropped: {dropped:.0%}, sum of the first row: {sums[0, 0, 0]:.2f}")
assert 0.4 < dropped < 0.6
assert (sums - 1).abs().max() > 0.5  # no longer an average
assert_close(sums.mean().item(), 1.0, atol=0.2, rtol=0)  # but right on average
attention.eval()
sums = attention(x, x, x, average_attn_weights=False)[1].sum(dim=-1)
assert_close(sums, torch.ones(3, 4, 7, dtype=torch.float64))

# %% [markdown]
# ## Read digits with your block · core
#
# Scikit-learn comes with 1797 handwritten digits, 8 by 8 pixels each. What is a word here? A *patch*: cut the image
# into sixteen squares of 2×2 pixels, and each is a "word" of four numbers. That's the whole trick of the vision
# transformer.

# %%
from sklearn.datasets import load_digits

digits = load_digits()
# (1797, 8, 8), from 0 to 1
images = torch.tensor(digits.images, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)


def cut(images: Tensor) -> Tensor:
    """(b, 8, 8) -> (b, 16, 4): sixteen patches of 2×2 pixels, row by row."""
    starts = range(0, 8, 2)
    return torch.stack(
        [images[:, i : i + 2, j : j + 2].flatten(1) for i in starts for j in starts],
        dim=1,
    )


# %%
figure = plt.figure(figsize=(9.4, 3.5))
grey = {"cmap": "gray_r", "vmin": 0, "vmax": 1}
ax = figure.add_axes((0.01, 0.2, 0.26, 0.7))
ax.imshow(images[5], extent=(0, 4, 4, 0), **grey)
for line in (1, 2, 3):
    ax.axhline(line, color=ACCENT, linewidth=1)
    ax.axvline(line, color=ACCENT, linewidth=1)
for number in range(16):
    ax.text(number % 4 + 0.06, number // 4 + 0.25, number, color=ACCENT, fontsize=8)
ax.set(title=f"a {labels[5]}, cut into 4×4 patches", xticks=[], yticks=[])
for number, patch in enumerate(cut(images[5:6])[0]):  # one row: a sentence
    left = 0.30 + 0.0435 * number
    word = figure.add_axes((left, 0.55, 0.038, 0.14))
    word.imshow(patch.reshape(2, 2), **grey)
    word.set(title=number, xticks=[], yticks=[])
    numbers = figure.add_axes((left, 0.2, 0.038, 0.28))
    numbers.imshow(patch[:, None], aspect="auto", **grey)
    numbers.set(xticks=[], yticks=[])
figure.text(0.30, 0.84, "its sentence: sixteen words, read row by row")
figure.text(0.30, 0.08, "each word is a vector of four numbers, its pixels")
show(
    "Left, a handwritten digit with a grid of four by four patches, numbered from 0 to "
    "15. Right, the sixteen patches in one row, like words, and below each its four "
    "pixels as a column."
)

# %% [markdown]
# Attention doesn't see where a patch is (lesson 02), so each position gets a learned vector of its own, added to its
# patch. Two blocks follow, then a last norm (the stream itself has passed through none), the average over the sixteen
# patches, and a linear layer with ten logits. You have every part of it.
#
# ### Exercise: build the reader ({points}, difficulty 3, 25 minutes)
#
# Write `DigitReader(side, patch, d_model, num_heads, depth, dropout=0.0)`, for images of `side` × `side` pixels and
# patches of `patch` × `patch`. It learns to read below.
#
# - Cut the images into their $n = (side/patch)^2$ patches, row by row, and the pixels inside a patch row by row as
#   well. `cut` does it for one size; yours must do it for all. (`patch` divides `side`.)
# - `embed`, an `nn.Linear` from patch² to `d_model`. `positions`, an `nn.Parameter` `(n, d_model)`, is added; start it
#   with `0.5 * torch.randn(n, d_model)`. (The check fills in its own weights, so it can't see the start; the training
#   below needs it.)
# - `blocks`, an `nn.ModuleList` of `depth` encoder blocks with `mlp_ratio=2.0` and the `dropout` that was given: your
#   `EncoderBlock`, or `attnlib.EncoderBlock`. Then `norm`, an `nn.LayerNorm`, the mean over the patches, and `head`,
#   an `nn.Linear` to ten logits.
# - `forward(images)` takes `(b, side, side)` and returns `(b, 10)`. As always. The points: {parts}.


# %%
class DigitReader(nn.Module):
    """Images (b, side, side) -> logits (b, 10)."""

    def __init__(
        self,
        side: int,
        patch: int,
        d_model: int,
        num_heads: int,
        depth: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.patch = patch
        self.embed = nn.Linear(patch**2, d_model)
        n = (side // patch) ** 2
        self.positions = nn.Parameter(0.5 * torch.randn(n, d_model))
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(
                EncoderBlock(d_model, num_heads, mlp_ratio=2.0, dropout=dropout)
            )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, 10)
        ### END SOLUTION

    def forward(self, images: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        # (b, row of patches, row in the patch, side)
        rows = images.unflatten(1, (-1, self.patch))
        squares = rows.unflatten(3, (-1, self.patch)).transpose(2, 3)
        patches = squares.flatten(3).flatten(1, 2)  # (b, n, patch²)
        x = self.embed(patches) + self.positions
        for block in self.blocks:
            x = block(x)
        words = self.norm(x)
        return self.head(words.mean(dim=1))
        ### END SOLUTION


# %%
check("DigitReader", DigitReader)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `__init__` makes five things with the names of the contract. `forward` is one line for each sentence above: cut,
# embed and add, loop, normalise and average, head.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A reshape alone can't cut squares. Split both axes of the image, `(b, side, side)` into `(b, rows, patch, columns,
# patch)`, and bring the two axes inside a patch next to each other before you flatten. In einops: `b (row p) (column
# q) -> b (row column) (p q)`. Compare with `cut`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Blocks in an ordinary list aren't found by `parameters()`, and nobody trains them: put them into an `nn.ModuleList`,
# each made anew.
#
# </details>

# %% [markdown]
# Now train it, with two blocks. A fifth of the images is kept back for the test; the network never trains on them.
# 1,437 images isn't many, so each time a little more than half of them are shifted by a pixel. A shifted four is still
# a four.

# %%
# nbval-ignore-output: it says whose reader is used, and that differs for a student
Reader = yours_or_ours("DigitReader", globals())

# %%
torch.manual_seed(seed)
order = torch.randperm(len(images))
train, test = order[:1437], order[1437:]
reader = Reader(8, 2, 48, 4, 2, dropout=0.1)
print(count(reader), "parameters")
assert count(reader) < 40_000


def nudged(images: Tensor) -> Tensor:
    """(b, 8, 8): 5 in 9 of the images moved by up to one pixel in each direction."""
    b = len(images)
    moves = (torch.randint(0, 3, (b, 1, 1)) for _ in range(2))
    down, right = (move.where(torch.rand(b, 1, 1) < 0.5, 1) for move in moves)
    rows, columns = torch.arange(8)[:, None] + down, torch.arange(8) + right
    return F.pad(images, (1, 1, 1, 1))[torch.arange(b)[:, None, None], rows, columns]


@torch.no_grad()
def accuracy(reader: nn.Module, which: Tensor) -> float:
    reader.eval()
    right = reader(images[which]).argmax(dim=-1) == labels[which]
    reader.train()
    return right.float().mean().item()


# %% [markdown]
# The loop is lesson 04's. An *epoch* is one pass through all images, 23 batches of 64. The learning rate rises for the
# first fifth of the steps and then falls.

# %%
# nbval-ignore-output: the last digits of a loss vary by machine
steps = 20 * 23
optimiser = torch.optim.AdamW(reader.parameters(), lr=5e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimiser, 5e-3, total_steps=steps, pct_start=0.2
)
losses, started = [], time.perf_counter()
for step in (bar := training(steps)):
    if step % 23 == 0:
        batches = train[torch.randperm(len(train))].split(64)
    batch = batches[step % 23]
    loss = F.cross_entropy(reader(nudged(images[batch])), labels[batch])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    schedule.step()
    losses.append(loss.item())
    bar.loss(losses[-1])
score = accuracy(reader, test)
print(f"{score:.1%} of the test digits, after {time.perf_counter() - started:.0f} s")
assert score >= 0.95, score

# %%
reader.eval()
with torch.no_grad():
    guesses = reader(images[test]).softmax(dim=-1)
missed = (guesses.argmax(dim=-1) != labels[test]).nonzero().flatten()[:6]
figure = plt.figure(figsize=(10, 2.9), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 1.4])
ax = left.subplots()
ax.semilogy(losses, color="#9ecae1", linewidth=1)
smooth = torch.tensor(losses).unfold(0, 23, 23).mean(dim=-1)  # an epoch has 23 steps
at = torch.arange(len(smooth)) * 23 + 11
ax.semilogy(at, smooth, color=INK, label="mean of an epoch")
ax.set(xlabel="step", ylabel="loss", title="Two blocks learn to read")
ax.legend()
for ax, miss in zip(right.subplots(1, 6), missed.tolist(), strict=False):
    guess = guesses[miss].argmax().item()
    ax.imshow(images[test[miss]], cmap="gray_r")
    sure = f"a {labels[test[miss]]},\nread as {guess}\n({guesses[miss, guess]:.0%})"
    ax.set(xticks=[], yticks=[], title=sure)
right.suptitle("Some that went wrong")
show("The loss falls over 20 epochs; six test digits that were misread.")

# %% [markdown]
# You wouldn't have bet on some of these either. And all of it took two blocks and fewer than 40,000 weights.
#
# And where does the reader look? The block doesn't return its attention weights, but its layers are all there:
# normalise, project, split into heads, and apply lesson 02's formula. The query is the patch with the most ink; it's
# framed in the picture. Compare the eight heads: do they look at the same patches?


# %%
@torch.no_grad()
def attention_maps(reader: Reader, image: Tensor) -> list[Tensor]:
    """One image (8, 8) -> for each block the weights (h, n, n)."""
    stream = reader.embed(cut(image[None])) + reader.positions
    maps = []
    for block in reader.blocks:
        seen = block.norm1(stream)
        layers = block.attn.w_q, block.attn.w_k
        q, k = (attnlib.split_heads(layer(seen), 4) for layer in layers)
        maps.append(attnlib.softmax(attnlib.attention_scores(q, k))[0])
        stream = block(stream)
    return maps


shown = images[test[labels[test] == 4][0]]
maps = attention_maps(reader, shown)
asking = int(cut(shown[None])[0].sum(dim=-1).argmax())  # the patch with the most ink
torch.manual_seed(seed)
before_training = attention_maps(Reader(8, 2, 48, 4, 2), shown)


def favourites(maps: list[Tensor]) -> int:
    """How many patches are some head's favourite, for the patch that asks."""
    return len({int(head[asking].argmax()) for weights in maps for head in weights})


def largest(maps: list[Tensor]) -> list[float]:
    """A query's largest weight, on average, for each block."""
    return [round(weights.amax(dim=-1).mean().item(), 2) for weights in maps]


for name, some in (("before", before_training), ("after", maps)):
    print(f"{name} training: {favourites(some)} favourites of eight heads, ", end="")
    print(f"largest weight {largest(some)}")
assert min(favourites(before_training), favourites(maps)) > 2
assert max(largest(before_training)) < 0.2
assert min(largest(maps)) > 2 * max(largest(before_training))


# %%
def draw_map(ax, picture: Tensor, asking: int, **how) -> object:
    """A picture of 4×4 patches, the one that asks framed."""
    drawn = ax.imshow(picture, extent=(0, 4, 4, 0), **how)
    # a white rim, to be seen on ink
    for colour, width in (("white", 5), ("black", 2)):
        frame = {"fill": False, "edgecolor": colour, "linewidth": width}
        ax.add_patch(plt.Rectangle((asking % 4, asking // 4), 1, 1, **frame))
    ax.set(xticks=[], yticks=[], xlim=(0, 4), ylim=(4, 0))
    return drawn


def draw_maps(image: Tensor, maps: list[Tensor], asking: int) -> None:
    """A row for each block: the image, and where the heads look for patch `asking`."""
    _, axes = plt.subplots(2, 5, figsize=(10, 4.4), layout="constrained")
    outline, rim = F.pad(image, (1, 1, 1, 1)), (-0.5, 4.5, -0.5, 4.5)
    line = {"levels": [0.5], "colors": ACCENT, "linewidths": 1, "extent": rim}
    for number, (row, weights) in enumerate(zip(axes, maps, strict=True), 1):
        draw_map(row[0], image, asking, cmap="gray_r")
        row[0].set_ylabel(f"block {number}")
        for head, ax in enumerate(row[1:]):
            picture = weights[head, asking].reshape(4, 4)
            drawn = draw_map(ax, picture, asking, cmap="Blues", vmin=0, vmax=1)
            ax.contour(outline, **line)
            ax.set_title(f"head {head}" if number == 1 else "")
    axes[0, 0].set_title("the patch that asks")
    plt.colorbar(drawn, ax=axes, label="attention weight", shrink=0.7)


draw_maps(shown, maps, asking)
show(
    "For one patch of a four, the weights of four heads in two blocks: they look at "
    "different patches."
)

# %% [markdown]
# The framed patch asks, and each map shows which of the sixteen patches it attends to (the orange line is the outline
# of the digit). The heads look at different patches. Have they *learned* to divide the work? The control says to be
# careful: before training they have different favourites too. But at that point a query's largest weight is 0.1 on
# average, not far above the 0.06 of even weights. What training has added is that each head makes up its mind. And
# don't read too much into one map: what a patch *does* with what it fetched is decided by the values, the output
# projection and the MLP. Lesson 11 comes back to that.
#
# **Your turn.** Draw a digit: `.` is white, `+` is grey, `#` is black. Change it and run the cell. Does the reader know
# it, and how sure is it? Then spoil it: move it by a pixel or two, or erase one pixel after another. Which change makes
# the reader change its mind, and where do the heads look then?

# %% tags=["unfolded"]
drawing = """
.+####..
.....#..
....+#..
..+###+.
...+#...
...#....
..+#....
..#+....
"""

rows = usable_text(drawing, longest=200).split()
if [len(row) for row in rows] != [8] * 8 or not {"#"} <= {*"".join(rows)} <= {*".+#"}:
    raise NotUsable(
        "8 rows of 8 of the characters . + # are needed, and some #, "
        f"got {len(rows)} rows: {rows}."
    )
drawn = torch.tensor([[".+#".index(sign) / 2 for sign in row] for row in rows])
with torch.no_grad():
    sure, digit = reader(drawn[None])[0].softmax(dim=-1).topk(3)
print(*(f"{d}: {s:.0%}" for d, s in zip(digit.tolist(), sure.tolist(), strict=True)))
most_ink = int(cut(drawn[None])[0].sum(dim=-1).argmax())
draw_maps(drawn, attention_maps(reader, drawn), most_ink)
show(
    "Your digit, and where four heads in two blocks look for the patch that holds "
    "most of its ink."
)

# %% [markdown]
# ## Find the bug · more
#
# ### Fix: two published mistakes ({points}, difficulty 3, 8 minutes)
#
# The block below runs, returns the right shape, and trains. It has two mistakes. One of them was in [PyTorch
# itself](https://github.com/pytorch/pytorch/issues/61165), in the change that added `norm_first`, and was caught
# before the release. The other was in [OLMo](https://github.com/allenai/OLMo/issues/222), a large open language
# model ("good thing is we haven't seen too much difference", its finder wrote). A year later, PyTorch's mistake [was
# found in OLMo as well](https://github.com/allenai/OLMo/pull/680). Both projects have long fixed them. Now you fix
# both.
#
# - The class must compute what `EncoderBlock` computes: pre-LN, with a separate norm for each sub-layer.
# - `__init__` is right as it is. The bugs are in `forward`.
# - Not allowed: a finished block, `attnlib.EncoderBlock` or `nn.TransformerEncoderLayer`.


# %%
class MendedBlock(nn.Module):
    """x (b, n, d_model), key_mask (b, n) -> (b, n, d_model)."""

    def __init__(
        self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0
    ):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(
            d_model, int(d_model * mlp_ratio), dropout=dropout
        )

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        x = x + self.mlp(self.norm2(x))
        ### BEGIN STUB
        # x = self.norm1(x)
        # x = x + self.attn(x, key_mask=key_mask)
        # x = x + self.mlp(self.norm1(x))
        ### END SOLUTION
        return x


# %%
check("mend_encoder_block", MendedBlock)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Multiply the input by 10. A pre-LN block passes its input on, so the output has to grow. Does it here?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Let it train for a step and look at `norm2.weight.grad`. What does it tell you?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Put the picture from the top of the lesson beside the code. Where does the arrow to the plus sign leave the stream:
# before the norm or after it? And which norm is in the second branch?
#
# </details>

# %% [markdown]
# Neither mistake shows in the shapes, in the loss, which still falls, or in the outputs, which look like any others.
# What does show is a parameter without a gradient, and an input whose size has no effect. When you build something, ask
# what must *change* if you change the input, and what must not. Then try.
#
# You have the block, and it reads. The first evening ends here. Read *Take this with you* at the end of the lesson, and
# you can go on to lesson 07.

# %% [markdown]
# ---
#
# ## Second evening: where the norm goes, and what a block costs · more
#
# Nothing in the rest of the course depends on this part. It takes 90 minutes, 45 of them for a stretch exercise and
# running time. You need the block and the reader of the first evening; run the cells above first (*Run → Run All Above
# Selected Cell*, 20 seconds).

# %% [markdown]
# ## Ask where the norm should be · more
#
# Two blocks were enough for the digits. Large models stack dozens of them, and there it matters where the norm is.
#
# The 2017 paper put the norm *after* the sum, $x \leftarrow \mathrm{norm}(x + \mathrm{attn}(x))$: *post-LN*. BERT
# has it there, and PyTorch's block does unless you say `norm_first=True`. GPT-2, ViT and nearly everyone since put it
# before the sub-layer: *pre-LN*, as you did. Look at the stream to see the difference. In post-LN it passes through
# two norms in every block. In pre-LN nothing is in its way: it's a plain sum from the first block to the last.

# %%
# post-LN is PyTorch's default
assert nn.TransformerEncoderLayer(8, 2).norm_first is False
plot_block(it_comes_in, it_fetches, it_concludes, columns=columns, norm_first=False)
show("Post-LN: the norms are on the stream itself, behind the two sums.")

# %% [markdown]
# What does that do to training? Take a pencil first. In pre-LN each sub-layer adds a vector of about the same size,
# each in a different direction, so the *squares* of the sizes add up: after $L$ blocks the stream has a size $s$ of
# about $\sqrt{L}$. The last norm divides it by $s$. In the backward pass the gradient of everything in the stream is
# divided by the same $s$. In post-LN every sum is normalised immediately, so $s$ is 1 at every depth. **So the last
# block of a pre-LN stack should get the gradient of a post-LN stack's last block, divided by $s$.**
#
# Measure it. Stacks of both kinds with the same starting weights classify random words. We take the norm of the
# gradient (its length, as of one long vector) at each block's `mlp.down`, before the first step, and the size (root
# mean square) of the stream after the last block.


# %%
def first_gradients(depth: int, *, norm_first: bool, seed: int) -> tuple[Tensor, float]:
    """Gradient norms of the blocks' `mlp.down`, and the size of the last stream."""
    torch.manual_seed(seed)
    encoder = initialised(attnlib.Encoder(depth, 32, 4, norm_first=norm_first))
    head = nn.Linear(32, 10)
    stream, labels = torch.randn(16, 16, 32), torch.randint(0, 10, (16,))
    for block in encoder.layers:
        stream = block(stream)
    F.cross_entropy(head(encoder.norm(stream).mean(dim=1)), labels).backward()
    norms = [block.mlp.down.weight.grad.norm() for block in encoder.layers]
    return torch.tensor(norms), stream.square().mean().sqrt().item()


def mean_of_eight(depth: int, *, norm_first: bool) -> tuple[Tensor, float]:
    """Single runs differ by up to half; the mean of eight is steadier."""
    starts = [
        first_gradients(depth, norm_first=norm_first, seed=seed) for seed in range(8)
    ]
    norms, sizes = zip(*starts, strict=True)
    return torch.stack(norms).mean(dim=0), sum(sizes) / 8


# %%
depths = [2, 4, 8, 16, 24]
pre, size = zip(*(mean_of_eight(n, norm_first=True) for n in depths), strict=True)
post, post_size = zip(
    *(mean_of_eight(n, norm_first=False) for n in depths), strict=True
)
last_pre, last_post = (
    torch.stack([norms[-1] for norms in kind]) for kind in (pre, post)
)
size = torch.tensor(size)
print(
    "blocks and stream:",
    [(n, round(float(s), 2)) for n, s in zip(depths, size, strict=True)],
)
assert_close(torch.tensor(post_size), torch.ones(5), atol=1e-3, rtol=0)
# the stream grows by the root of the depth
assert_close(size[4] / size[0], torch.tensor(math.sqrt(24 / 2)), atol=0, rtol=0.1)
# as the pencil says, at every depth
assert_close(last_pre, last_post / size, atol=0, rtol=0.25)
# in the stack of 24, every block gets more in post-LN
assert (post[4] > 1.3 * pre[4]).all()

# %%
_, (left, right) = plt.subplots(1, 2, figsize=(10, 3.3), layout="constrained")
left.semilogy(range(1, 25), post[4], "s-", color=ACCENT, label="post-LN")
left.semilogy(range(1, 25), pre[4], "o-", color=INK, label="pre-LN")
right.loglog(depths, last_post, "s-", color=ACCENT, label="post-LN")
right.loglog(depths, last_pre, "o-", color=INK, label="pre-LN")
right.loglog(depths, last_post / size, ":", color=GREY, label="post-LN, divided by s")
left.set(xlabel="block, of 24", ylabel="gradient norm")
left.set_title("In post-LN every block gets more gradient")
right.set(xlabel="blocks in the stack")
right.set_title("The pencil was right about the last block")
right.set_xticks(depths, depths)
right.minorticks_off()
for ax in (left, right):
    ax.set(ylim=(0.05, 2))
    ax.legend(loc="lower left")
show(
    "Gradients of post-LN are larger in all blocks; those of pre-LN shrink with depth "
    "as predicted."
)

# %% [markdown]
# On the right, the dotted line is the pencil's prediction. It stays within a quarter of what was measured, at every
# depth, although the pencil knew nothing of heads and MLPs. This is the finding of [Xiong et al.,
# 2020](https://arxiv.org/abs/2002.04745), who prove it for very wide layers. The last norm shrinks the sum, and with
# it each block's share, so in a deep pre-LN stack no single block moves much. In post-LN every block takes a full
# step, at the same moment as all the others.

# %% [markdown]
# ## Write the block of BERT · stretch
#
# ### Stretch: a post-LN block ({points}, difficulty 4, 35 minutes)
#
# Write `PostNormBlock(d_model, num_heads, mlp_ratio=4.0)` with `forward(x, key_mask=None)`. Below, you'll train stacks
# of twelve of them.
#
# - The same layers under the same names as in `EncoderBlock` ($\epsilon$ included), without dropout, and the same
#   `key_mask`. As always.
# - $x \leftarrow \mathrm{norm}_1(x + \mathrm{attn}(x))$, then $x \leftarrow \mathrm{norm}_2(x + \mathrm{mlp}(x))$.
# - It computes what `nn.TransformerEncoderLayer(…, norm_first=False, activation="gelu", dropout=0.0)` computes. Before
#   you run the check, show that yourself: move PyTorch's weights into your block, without `attnlib.from_torch`. (Its
#   `self_attn.in_proj_weight` has queries, keys and values below one another.) That's the part that takes time, and
#   you'll need it whenever you load somebody else's weights.
# - The parts of the check: {parts}.
# - Not allowed: a finished block, `attnlib.EncoderBlock` or `nn.TransformerEncoderLayer`.


# %%
class PostNormBlock(nn.Module):
    """x (b, n, d_model), key_mask (b, n), True = a real word -> (b, n, d_model)."""

    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0):
        super().__init__()
        ### BEGIN SOLUTION
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        ### END SOLUTION

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        stream = self.norm1(x + self.attn(x, key_mask=key_mask))
        return self.norm2(stream + self.mlp(stream))
        ### END SOLUTION


# %%
check("PostNormBlock", PostNormBlock)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `__init__` is the same as in `EncoderBlock`. In `forward` the sub-layers see the stream as it is, and each sum goes
# through a norm before anything else sees it.
#
# </details>
# <details><summary>Hint 2</summary>
#
# PyTorch's names: `self_attn.in_proj_weight` and `in_proj_bias` (three pieces: `chunk(3)`), `self_attn.out_proj`,
# `linear1`, `linear2`, `norm1`, `norm2`. Print both state dicts with their shapes, side by side.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Build a dict with your names and PyTorch's tensors, and `load_state_dict` it. It complains about each name that's
# missing or too many, which is what you want. Then compare the outputs on random words, in float64.
#
# </details>

# %% [markdown]
# ## Warm up, lower the rate, or switch to pre-LN · more
#
# So does a deep post-LN stack need a *warm-up*, a run of steps in which the learning rate rises slowly? Train twelve
# blocks on the digits, with 200 steps of Adam. Your reader gets these blocks and larger patches, 4×4: four words to an
# image, which makes it quick. We compare post-LN at the full rate from the first step, $3 \cdot 10^{-3}$; post-LN with
# 150 steps of warm-up; and pre-LN at the full rate from the first step.
#
# That alone would prove little: the warm-up also makes the *average* rate smaller. So there are two controls without
# any warm-up. One keeps the warm-up's mean rate, about $1.9 \cdot 10^{-3}$, all the time, and one a tenth of the full
# rate, $3 \cdot 10^{-4}$.

# %%
# nbval-ignore-output: it says whose block is used, and that differs for a student
PostBlock = yours_or_ours("PostNormBlock", globals())


# %%
def losses_of(kind: type[nn.Module], rates: Tensor) -> list[float]:
    """The losses of twelve blocks, with a learning rate for each step."""
    torch.manual_seed(seed)
    reader = Reader(8, 4, 32, 4, 0)
    blocks = nn.ModuleList(kind(32, 4, mlp_ratio=2.0) for _ in range(12))
    reader.blocks = initialised(blocks)
    optimiser = torch.optim.Adam(reader.parameters())
    losses = []
    for step in (bar := training(len(rates))):
        optimiser.param_groups[0]["lr"] = rates[step].item()
        batch = train[torch.randint(len(train), (32,))]
        loss = F.cross_entropy(reader(images[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        bar.loss(losses[-1])
    return losses


# %%
# nbval-ignore-output: the last digits of a training differ by machine
full = torch.full((200,), 3e-3)
rising = full * ((torch.arange(200) + 1) / 150).clamp(max=1)
trials = {
    "post-LN, full rate from step 1": (PostBlock, full, ACCENT, "-"),
    "post-LN, 150 steps of warm-up": (PostBlock, rising, ACCENT, ":"),
    "post-LN, the warm-up's mean rate": (
        PostBlock,
        rising.mean().expand(200),
        GREY,
        "-.",
    ),
    "post-LN, a tenth of the rate": (PostBlock, full / 10, GREY, "--"),
    "pre-LN, full rate from step 1": (Block, full, INK, "-"),
}
runs = {name: losses_of(kind, rates) for name, (kind, rates, *_) in trials.items()}
ends = {name: sum(losses[-15:]) / 15 for name, losses in runs.items()}
for name, end in ends.items():
    print(f"{name:33} mean loss of the last 15 steps {end:.2f}")
at_once, warmed, mean_rate, tenth, before = ends.values()
assert at_once > math.log(10) - 0.3  # it guesses
assert max(warmed, tenth) < at_once - 0.4  # with a warm-up it learns, or with a tenth
assert tenth < mean_rate  # the lower the rate, the better, without any warm-up
assert before < min(warmed, tenth) + 0.1  # and pre-LN needs neither

# %%
_, ax = plt.subplots(figsize=(8.4, 3.2), layout="constrained")
for name, (_, _, colour, line) in trials.items():
    smooth = torch.tensor(runs[name]).unfold(0, 10, 1).mean(dim=-1)
    ax.plot(range(10, 201), smooth, line, color=colour, label=name)
ax.hlines(math.log(10), 0, 200, color="0.7", linewidth=1)
ax.text(203, math.log(10), "ln 10:\nguessing", color="0.35", va="center")
ax.set(xlabel="step", ylabel="loss", xlim=(0, 232))
ax.set_title("At the full rate from the first step, only pre-LN learns")
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
show(
    "Post-LN at the full rate stays at guessing. With 150 steps of warm-up, at the "
    "warm-up's mean rate, or at a tenth of the rate, the loss falls. Pre-LN learns "
    "from the start and ends lowest."
)

# %% [markdown]
# All runs have the same starting weights and the same number of steps. At the full rate from the first step, post-LN
# never gets beyond guessing. With a warm-up over most of the run it learns, and it also learns *without* any warm-up at
# a tenth of the rate. (BERT's warm-up was one step in a hundred, at a far lower rate.) At the warm-up's mean rate it's
# a gamble: from this start it learns, and from five others that we tried it was still guessing at the end. So "post-LN
# needs a warm-up" says too much. It can't bear a high rate at the beginning, and a warm-up is one way to spare it that.
# Pre-LN needs no such care here. It asks for one thing in return: since its stream is never normalised on the way, a
# last norm has to follow the last block, as in your reader.

# %% [markdown]
# ## Count what a block costs · more
#
# Write $N$ for the number of words and $D$ for `d_model`, as is usual where costs are counted. A block does two kinds
# of work. Word by word: four projections of $D \times D$ and the MLP's two matrices of $D \times 4D$, which is $12 N
# D^2$ multiplications. Between words: $N^2$ scores of $D$ multiplications over all heads, and as many for the mixture,
# which is $2 N^2 D$. At what length does the work *between* words start to outweigh the work *word by word*? For $D =
# 64$, guess before you go on: $N = 8$, $64$, $384$ or $4096$?
#
# ### Exercise: count the cost of a block ({points}, difficulty 2, 10 minutes)
#
# Now do it for any block, heads included. Write `block_cost(lengths, d_model, num_heads, d_hidden)`; the cells below
# count with it. Take a pencil first. For one score in one head, how many numbers are multiplied? And for all scores, in
# all heads?
#
# - `lengths` is an int64 tensor `(n,)`, the numbers of words you ask about, so that one call gives a whole curve.
#   The others are whole numbers. `num_heads` divides `d_model`; `d_hidden` is the width of the MLP and may be any.
# - It returns three tensors, int64 `(n,)`. First the multiplications word by word: four projections and the MLP. Then
#   those between words, in all heads: the scores, and the mixture of the values. Last, how many numbers the tables of
#   attention weights hold, all heads together.
# - It's one block and one sentence without a mask. Count multiplications by the block's matrices and of queries, keys,
#   weights and values; leave out norms, biases, scale, softmax and GELU.


# %%
def block_cost(
    lengths: Tensor, d_model: int, num_heads: int, d_hidden: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Lengths (n,) -> three int64 (n,): word by word, between words, in the tables."""
    ### BEGIN SOLUTION
    d_head = d_model // num_heads
    projections = 4 * lengths * d_model**2
    mlp = 2 * lengths * d_model * d_hidden
    tables = num_heads * lengths**2
    scores = tables * d_head
    mixture = tables * d_head
    return projections + mlp, scores + mixture, tables
    ### END SOLUTION


# %%
check("block_cost", block_cost)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A matrix of $a \times b$ turns a word of $a$ numbers into one of $b$, and uses each of its numbers once: $a \cdot b$
# multiplications a word. Which six matrices does a block have, and how large are they?
#
# </details>
# <details><summary>Hint 2</summary>
#
# A head is `d_model // num_heads` wide. A score is the dot product of a query and a key of that width, and each word
# of the sentence asks each word: how many scores has one head?
#
# </details>
# <details><summary>Hint 3</summary>
#
# The table of a head has a row and a column for each word. Every number in it took one dot product to compute, and is
# multiplied by one value afterwards. Both are as wide as a head.
#
# </details>

# %%
# nbval-ignore-output: it says whose count is used, and that differs for a student
cost = yours_or_ours("block_cost", globals())

# %% [markdown]
# Is the count right? PyTorch can count a block's operations while it runs. It counts *FLOPs*, additions included, so
# its numbers are twice ours. (It can't see inside the CPU's fused attention, so for this we make the block use the
# plain one.)


# %%
@torch.no_grad()
def flops(block: nn.Module, x: Tensor) -> int:
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        block(x)
    return counter.get_total_flops()


at = torch.tensor([32, 384, 512])
for num_heads in (1, 4, 16):
    counted = cost(at, 64, num_heads, 256)
    alone, between, tables = (of[1].item() for of in counted)
    print(f"384 words, {num_heads:2} heads: {alone:,} word by word,", end=" ")
    print(f"{between:,} between words, {tables:9,} weights")
    block = attnlib.EncoderBlock(64, num_heads)
    for n, once, again, held in torch.stack([at, *counted], dim=-1).tolist():
        x = torch.randn(1, n, 64)
        assert flops(block, x) == 2 * (once + again)
        assert block.attn(x, return_weights=True)[1].numel() == held
for d_hidden in (128, 256, 512):  # both kinds of work are equal at N = 2D + d_hidden
    alone, between, _ = cost(torch.tensor([2 * 64 + d_hidden]), 64, 4, d_hidden)
    assert torch.equal(alone, between)

# %% [markdown]
# Sixteen heads multiply no more than one does, because each is a sixteenth as wide. What grows is the tables, one per
# head. And at 384 words both kinds of work cost the same. If you guessed 64, where $N = D$, you left out the factors:
# $N^2 D$ comes twice, and $N D^2$ twelve times. Set $2N^2D = 4ND^2 + 2ND\,d_{hidden}$, divide by $2ND$, and $N = 2D +
# d_{hidden}$ is left; with an MLP four times as wide as a word that's $6D$.
#
# Multiplications aren't milliseconds, though, so time both kinds of work as well, and put the two pictures side by
# side.


# %%
@torch.no_grad()
def seconds(work, *inputs: Tensor) -> float:
    """The fastest of seven runs: whatever else the machine does only slows it down."""
    times = []
    for _ in range(7):
        started = time.perf_counter()
        work(*inputs)
        times.append(time.perf_counter() - started)
    return min(times)


block = attnlib.EncoderBlock(64, 4)


def between_words(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attnlib.scaled_dot_product_attention(q, k, v, backend="eager")


def word_by_word(x: Tensor) -> Tensor:
    heads = [layer(x) for layer in (block.attn.w_q, block.attn.w_k, block.attn.w_v)]
    return block.mlp(block.attn.w_o(heads[0]))


# %%
# nbval-ignore-output: where the curves cross depends on the machine
lengths = torch.tensor([32, 64, 128, 256, 512, 1024, 2048])
pairs = torch.tensor(
    [seconds(between_words, *torch.randn(3, 1, 4, n, 16)) for n in lengths]
)
singles = torch.tensor([seconds(word_by_word, torch.randn(1, n, 64)) for n in lengths])
ahead = lengths[pairs > singles].tolist()
print("measured, the pairs cost more at N =", *(ahead or ["none of these"]))

# %%
_, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.4), layout="constrained", sharex=True
)
alone, between, _ = cost(lengths, 64, 4, 256)
left.loglog(lengths, between / 1e6, "s-", color=ACCENT, label="between words, 2N²D")
left.loglog(lengths, alone / 1e6, "o-", color=INK, label="word by word, 12ND²")
left.axvline(6 * 64, color="0.6", linestyle=":")
left.text(6 * 64 * 1.1, 1, "N = 6D = 384", color="0.35")
left.set(xlabel="words N", ylabel="million multiplications")
left.set_title("Counted: equal at N = 6D")
right.loglog(lengths, 1e3 * pairs, "s-", color=ACCENT, label="between words")
right.loglog(lengths, 1e3 * singles, "o-", color=INK, label="word by word")
right.set(xlabel="words N", ylabel="milliseconds", title="Measured on this machine")
for ax in (left, right):
    ax.legend(loc="upper left")
show(
    "Counted and measured, work between words grows with the square and overtakes the "
    "rest."
)
# counted, not timed: seconds depend on whatever else the machine does
assert between[0] < alone[0]
assert between[-1] > alone[-1]

# %% [markdown]
# The measured curves cross as well, but not at $N = 6D$: on a machine of ours, between 192 and 256 words. Where they
# cross depends on the machine, because the two kinds of work run at different speeds. The work between words is more
# than multiplication: the softmax needs an exponential for each of the $h N^2$ weights, and the tables are written to
# memory and read again, which is slow once they no longer fit into the fast part of it. (Lesson 10 is about not writing
# them.) For our sixteen patches none of this matters. For $D = 768$ and 512 words, as in BERT, $N$ is far below $6D =
# 4608$, and nine tenths of the multiplications are word by word.

# %%
alone, between, _ = cost(torch.tensor([512]), 768, 12, 3072)
assert_close((alone / (alone + between)).item(), 0.9, atol=5e-3, rtol=0)

# %% [markdown]
# ## Take this with you · core
#
# **Normalise what a sub-layer sees, and leave the stream alone: $x + f(\mathrm{norm}(x))$.**
#
# | | |
# | --- | --- |
# | formula | $x + \mathrm{attn}(\mathrm{norm}_1(x))$, then $x + \mathrm{mlp}(\mathrm{norm}_2(x))$ |
# | shapes | `(b, n, d_model)` in and out; inside the MLP `(b, n, 4·d_model)` |
# | trap 1 | `x = norm1(x)`: the stream is gone, and nothing crashes |
# | trap 2 | `Tensor.var` divides by $d - 1$; $\epsilon$ belongs inside the root |
# | trap 3 | one norm for both sub-layers, or no last norm after a pre-LN stack |
# | in GPT-2 (small) | 12 blocks, pre-LN, 768 wide, MLP 3,072, GELU by tanh; weights of attention packed (3 h d) |
# | in BERT (base) | 12 blocks, post-LN, 768 wide, 10,000 steps of warm-up, GELU by tanh (exact in its ports) |
#
# You can now build the block that ViT is stacked from (and, with a mask, GPT-2), say what its plus signs, norms and MLP
# are for, and train two of them to read.
#
# ## Think further · more
#
# 1. Leave out the positions (`+ self.positions`) and train again. How many digits are still read, as a bag of sixteen
#    patches? Explain why it isn't one in ten.
# 2. At the start of training, set `w_o` and `down` of every block to zero, weight and bias. What does a stack of such
#    blocks compute, and what is the gradient of the first layer's `w_q`? Some large models are initialised almost
#    like this.
# 3. A pre-LN stream is never normalised, so its size grows with depth, and each block adds about as much as the first
#    did. How much does the hundredth block still change? Is that what the right-hand picture of the gradients showed?
#
# <details><summary>Answers</summary>
#
# 1. Try it: with the lesson's twenty epochs, three runs of ours got about six in ten right, and one with sixty epochs
#    three in four. A bag of patches still says how much ink there is, and which strokes: corners, edges, empty patches.
#    An eight has many half-filled patches and a one has few. What is lost is where they are, and with it everything
#    that only their arrangement can tell.
# 2. It computes nothing: both branches add zero, and the stream passes unchanged, as if the stack weren't there,
#    however deep it is. The gradient of `w_q` is zero at the first step, because whatever it does is multiplied by
#    `w_o` = 0. But the gradient of `w_o` itself isn't, so from the second step on the branch begins to count.
# 3. The stream has the size $\sqrt{100} = 10$ by then, and the block adds a vector of size 1, a tenth as long. It turns
#    the stream by about 6° and makes it hardly longer ($\sqrt{101} = 10.05$). That's the same $1/\sqrt L$ as in the
#    picture. It may be why some late blocks of deep pre-LN models can be left out at little cost.
#
# </details>
#
# ## Read on · more
#
# - [Xiong et al., 2020](https://arxiv.org/abs/2002.04745): where the norm should be; their figure 1 draws both blocks,
#   and their warm-up experiment is yours at full size.
# - [He et al., 2015](https://arxiv.org/abs/1512.03385): the plus sign, invented for pictures. Read the first two
#   pages.
# - [Dong, Cordonnier and Loukas, 2021](https://arxiv.org/abs/2103.03404): "Attention is not all you need". They prove
#   that attention alone makes all words one, and say what residuals and MLPs do against it.
# - [Dosovitskiy et al., 2020](https://arxiv.org/abs/2010.11929): ViT, your digit reader with 86 million weights.
# - [Geva et al., 2020](https://arxiv.org/abs/2012.14913): what's in the MLP? They read its two matrices as keys and
#   values, and find a memory.
#
# **Next:** your reader learned a list of sixteen positions by heart, and would be lost in a larger picture. Lesson 07
# asks how to tell a word where it is in a way that also works at lengths it has never seen.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/06_encoder_block.ipynb`.*
