# %% [markdown]
# # 03 · Multi-head attention: ask several questions at once
#
# An attention head asks one question per word and gets one answer: an average. But a reader of *the cat saw the dog*
# has two questions. Who did it? And to whom? In this lesson a word gets several heads. You'll see what they buy, and
# their price: no extra parameters, but one more table of attention weights per head.
#
# | | |
# | --- | --- |
# | **You will build** | two heads by hand, `split_heads`, `MultiHeadSelfAttention`, and the Adam that trains it |
# | **You will understand** | what a second head adds, why `reshape` isn't `transpose`, why packed weights differ |
# | **You need** | scaled dot-product attention from lesson 02; core 85 minutes, everything 3 hours 15 minutes |
#
# The notation is explained in the course's [table of symbols](00_start_here.ipynb#Symbols). The models are trained with
# *your* module and *your* loop as soon as these pass their checks.

# %%
import math
import time
from itertools import permutations

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from einops import rearrange
from matplotlib.colors import ListedColormap
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import NotUsable, usable_text
from attnlib.plot import (
    ACCENT,
    GREY,
    INK,
    Arrow,
    Box,
    hover_links,
    plot_attention,
    plot_boxes,
    plot_heads,
    show,
    training,
    use_style,
)

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 03_multi_head_attention` tries others
seed = 0

# %% [markdown]
# ## Ask who did it, and to whom · core
#
# Take *the cat saw the dog* and *the dog saw the cat*. At the end of the sentence a word asks both questions at once,
# with a single head. Its query looks at both nouns equally, so each gets the weight ½. Let the values be as plain as
# possible: a noun brings its name, $(1, 0)$ for *cat* and $(0, 1)$ for *dog*.
#
# - *the cat saw the dog*: $\frac12 (1, 0) + \frac12 (0, 1) = (\frac12, \frac12)$
# - *the dog saw the cat*: $\frac12 (0, 1) + \frac12 (1, 0) = (\frac12, \frac12)$
#
# The same vector. The factor ½ is no loss, since a matrix after the head could double both entries. What's lost, and
# what no matrix can bring back, is **which answer belongs to which question**.
#
# Do other weights help? Give the first noun ⅔ and the second ⅓, and the two sentences differ: $(⅔, ⅓)$ and $(⅓, ⅔)$. A
# matrix can even turn them into both names, one after the other. But that trick fails as soon as there's a third name.
# With *cat*, *dog* and *bird* there are six sentences. Their sums may all be different, but each is only three numbers,
# too few for one matrix to recover both names in all six. Here is the best any matrix after one head can do, fitted by
# least squares:


# %%
def off_by(names: int, share: float) -> float:
    """The largest error of reading both names from one sum: `share` of it is the
    first."""
    first, second = torch.tensor(list(permutations(range(names), 2))).T
    name = torch.eye(names)
    sums = share * name[first] + (1 - share) * name[second]
    wanted = torch.cat([name[first], name[second]], dim=-1)
    matrix = torch.linalg.pinv(sums) @ wanted
    return (sums @ matrix - wanted).abs().max().item()


for names in (2, 3):
    errors = {share: off_by(names, share) for share in (1 / 2, 2 / 3, 4 / 5)}
    print(
        f"{names} names, off by:", *(f"{e:.2f} at {s:.2f}" for s, e in errors.items())
    )
assert off_by(2, 2 / 3) < 1e-5  # two names can be told apart …
assert off_by(2, 1 / 2) > 0.4  # … unless both get the same weight
# with three, no division of the weights is good enough
assert min(off_by(3, share / 100) for share in range(101)) > 0.3

# %% [markdown]
# From three names on, one head can't tell us who saw whom. Two heads can, for any number of names, because their
# answers are written side by side. The first looks at the noun before *saw*, the second at the noun after it.

# %%
cat, dog = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
names = ["cat", "dog"]
boxes = [
    Box(name="the cat saw the dog", id="in", at=(0, 1)),
    Box(name="one head", at=(1, 0), value=(cat + dog) / 2, columns=names),
    Box(name="head 0: who?", at=(1, 1), value=cat, columns=names),
    Box(name="head 1: whom?", at=(1, 2), value=dog, columns=names),
    Box(name="a sum: who saw whom?", at=(2, 0), faint=True),
    Box(
        name="side by side",
        at=(2, 1.5),
        value=torch.cat([cat, dog]),
        columns=names * 2,
        accent=True,
    ),
]
ends = [
    ("in", "one head"),
    ("in", "head 0: who?"),
    ("in", "head 1: whom?"),
    ("one head", "a sum: who saw whom?"),
]
ends += [("head 0: who?", "side by side"), ("head 1: whom?", "side by side")]
arrows = [Arrow(start=start, end=end) for start, end in ends]
plot_boxes(
    boxes, arrows, title="One head adds the answers up; two heads keep them apart"
)
show(
    "Boxes and arrows. One head turns the cat saw the dog into one half cat and one "
    "half dog. Two heads return cat and dog, and write them side by side as four "
    "numbers."
)

# %% [markdown]
# The 2017 paper ([Vaswani et al.](https://arxiv.org/abs/1706.03762)) wants a word to attend to several things at
# several positions. "With a single attention head," it says, "averaging inhibits this." Further down you'll train one
# head and two on exactly this question. First a larger example by hand, with *it* from lesson 02: *The animal did not
# cross the street because it was tired.*

# %%
sentence = "The animal did not cross the street because it was tired"
tokens = sentence.lower().split()
animal, it, tired = (tokens.index(word) for word in ("animal", "it", "tired"))

# %% [markdown]
# ## Build three readable heads by hand · core
#
# Each word gets nine numbers, made by hand. Seven are the features of lesson 02. The last two are new and say *where*
# the word is: think of a clock, with word $i$ at $i$ o'clock.
#
# The heads are three wide, so the nine columns of queries, keys and values belong to three heads:
#
# | head | its columns | what a word may ask there | who asks |
# | --- | --- | --- | --- |
# | 0 | thing, alive, place | who, or what? | *it* and *tired* ask for something alive; *the* and *cross* for a thing |
# | 1 | state, action, pronoun | what about it? | *it* asks for a state, *tired* for a pronoun, nouns for an action |
# | 2 | article, and the clock | what comes before me? | every word |
#
# Keys and values are simple. A word offers what it is and brings what it is, so $W^K$ and $W^V$ are the identity.

# %%
features = ["thing", "alive", "place", "state", "action", "pronoun", "article"]
features += ["clock x", "clock y"]
meaning = {
    "the": "article", "animal": "thing alive", "street": "thing place",
    "cross": "action", "it": "pronoun", "tired": "state",
}  # fmt: skip
words = [meaning.get(token, "").split() for token in tokens]
# (n, d_model)
x = torch.tensor([[float(f in word) for f in features] for word in words])
hour = 2 * math.pi / 12 * torch.arange(11)
x[:, 7], x[:, 8] = hour.cos(), hour.sin()
w_k, w_v = torch.eye(9), torch.eye(9)

# %% [markdown]
# $W^Q$ holds the questions. A row says what a word with this feature looks for. The content questions should score 4,
# so their entries are $4 \sqrt 3$, because the scale will divide by $\sqrt d = \sqrt 3$.
#
# Head 2 asks for *the hour before mine*. A key at angle $\beta$ and a query at angle $\alpha$ have the dot product
# $\cos(\alpha - \beta)$, which is largest where the two agree. So the query is the word's own clock hand, turned back
# by one hour, 30°. The hours next to it still reach $\cos 30° = 0.866$ of that. To tell them apart the question has to
# score high: the word before gets 30 and its neighbours $26.0$, so each of them gets only $e^{-4} \approx 0.02$ of its
# weight.

# %%
w_q = torch.zeros(9, 9)
for asks, wants in [
    # head 0
    ("pronoun", "alive"), ("state", "alive"), ("article", "thing"), ("action", "thing"),
    ("pronoun", "state"), ("state", "pronoun"), ("thing", "action"),  # head 1
]:  # fmt: skip
    w_q[features.index(asks), features.index(wants)] = 4 * math.sqrt(3)
back = math.radians(30)
turn = [[math.cos(back), -math.sin(back)], [math.sin(back), math.cos(back)]]
w_q[7:, 7:] = 30 * math.sqrt(3) * torch.tensor(turn)  # head 2

# %% [markdown]
# Look at two entries. The row *pronoun* has one in head 0 and one in head 1: one word asks two questions, and it may
# use all of its nine numbers for each. **A head doesn't see a slice of the word. It sees a slice of the projection.**
#
# Now let each head attend by itself, with its three columns of each matrix. A head is lesson 02, unchanged.

# %%
outputs, weights = [], []
for head in range(3):
    own = slice(3 * head, 3 * head + 3)
    # each (n, d) with d = 3
    q, k, v = x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]
    output, shares = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
    outputs.append(output)
    weights.append(shares)
heads = torch.stack(weights)  # (h, n, n)

sharp = math.exp(4) / (math.exp(4) + 10)
assert_close(heads[0, it, animal].item(), sharp, atol=1e-6, rtol=0)  # who am I?
# what is said of me?
assert_close(heads[1, it, tired].item(), sharp, atol=1e-6, rtol=0)
assert heads[2, it].argmax() == it - 1  # what comes before me?
print([round(heads[head, it].max().item(), 3) for head in range(3)])

# %%
names = [
    "head 0: who, or what?",
    "head 1: what about it?",
    "head 2: what comes before?",
]
plot_heads(heads, tokens, titles=names, columns=3)
show(
    "Three tables of attention weights. Head 0: it and tired look at animal. Head 1: "
    "it looks at tired, the nouns at cross. Head 2: a dark line below the diagonal, "
    "each word looks at the one before."
)
first = heads[2, 0]  # "the" at 0 o'clock looks for 11 o'clock, and nothing is there
assert_close(first[[0, 10]], torch.tensor([0.5, 0.5]), atol=1e-3, rtol=0)
# both "the", both nouns
assert_close(heads[0, 0, [1, 6]], heads[0, 5, [1, 6]], atol=1e-6, rtol=0)

# %% [markdown]
# Three heads, three pictures of the same sentence. Find each of the following, and the reason for it:
#
# - In head 0 both rows of *the* split their attention between *animal* and *street*. They ask for a thing, and there
#   are two. Only head 2 knows what is next to what.
# - The blank words ask nothing in heads 0 and 1, so all eleven get 1/11 each, as from *did* in lesson 02.
# - The first *the*, at 0 o'clock, asks for 11 o'clock, where there's no word. Itself, at 0, and *tired*, at 10, are
#   equally near, so each gets one half. A softmax can't answer "nobody".
#
# What does *it* take home? The three outputs side by side, three numbers from each head.

# %%
joined = torch.cat(outputs, dim=-1)  # (n, h d)
# alive, a state
assert_close(joined[it, [1, 3]], torch.full((2,), sharp), atol=1e-6, rtol=0)
found_by_it = Box(
    name="what three heads bring to “it”", at=(0, 0),
    value=torch.stack([x[it], joined[it]]),
    rows=["before", "after"], columns=[*features[:7], "clock x", "clock y"],
)  # fmt: skip
plot_boxes(
    [found_by_it], [], title="“it” goes in as a pronoun, comes out alive and in a state"
)
show(
    "Two rows of nine numbers. Before attention “it” is a pronoun with a clock hand; "
    "after it, 0.85 alive, 0.85 in a state, and with the hand of the word before."
)

# %% [markdown]
# *it* came in as a mere pronoun. Now it knows that it's alive and in a state, and it has the clock hand of the word
# before, at about seven: *because*.
#
# In a trained network most heads aren't so readable. Yet heads for "the word before" and for "the noun this pronoun
# means" have been found in real models again and again. (In lesson 11 you'll watch a head of the first kind appear.)

# %% [markdown]
# ## Merge the three heads into one, and hear only the loudest · core
#
# Take the same matrices, but don't cut them: one head, nine wide. A dot product over nine columns is the sum of three
# dot products over three columns each. So a single head has to *add* the questions before the softmax:
#
# $$q \cdot k = q^{(0)} \cdot k^{(0)} + q^{(1)} \cdot k^{(1)} + q^{(2)} \cdot k^{(2)}$$


# %%
def three_scores(head: int) -> Tensor:
    """(n, n): the dot products in the three columns of one head, not yet scaled."""
    own = slice(3 * head, 3 * head + 3)
    return x @ w_q[:, own] @ (x @ w_k[:, own]).T


wide_scores = (x @ w_q) @ (x @ w_k).T
assert_close(
    wide_scores, sum(three_scores(head) for head in range(3)), atol=1e-4, rtol=0
)
wide = attnlib.softmax(wide_scores / math.sqrt(9))  # one head, d = 9
for word in ("animal", "tired", "because"):
    print(f"it looks at {word}: {wide[it, tokens.index(word)]:.4f}")
assert wide[it, animal] < 1e-6
assert wide[it, tired] < 1e-4
assert wide[it, it - 1] > 0.8

# %%
looks = torch.stack([*heads[:, it], wide[it]])
words_of = ["head 0", "head 1", "head 2", "all in one"]
_, ax = plt.subplots(figsize=(8.6, 2.8), layout="constrained")
plot_attention(
    looks,
    words_of,
    tokens,
    ax=ax,
    title="In one head, two of the three questions of “it” are gone",
)
ax.set(ylabel="“it” looks, in …", xlabel="")
show(
    "Where it looks, one row for each head: head 0 at animal, head 1 at tired, head 2 "
    "at because. In the last row all three are one head: 0.84 on because, and nothing "
    "on animal and tired."
)

# %% [markdown]
# The numbers in $x$, $W^Q$, $W^K$ and $W^V$ are the same, and yet the two quiet questions are gone, drowned out by the
# loudest. **Splitting into heads is just a cut: each piece gets its own softmax.** Nothing else is new in multi-head
# attention. The rest of the lesson is about doing it fast, training it, and not cutting in the wrong place.

# %% [markdown]
# ## Compute all heads with one product · core
#
# The loop over three heads made three small products for each of $q$, $k$ and $v$. A real model has dozens of heads,
# and a GPU prefers one large product. Lesson 01 put $W^Q$, $W^K$ and $W^V$ side by side, and the same works for heads:
#
# $$x [W_0 \mid W_1 \mid \dots] = [x W_0 \mid x W_1 \mid \dots]$$

# %%
per_head = [w_q[:, :3], w_q[:, 3:6], w_q[:, 6:]]
stacked = torch.cat(per_head, dim=-1)  # (d_model, h d): head 0 on the left
one_product = x @ stacked  # (n, h d): all queries of all heads
for head, matrix in enumerate(per_head):
    assert_close(one_product[:, 3 * head : 3 * head + 3], x @ matrix, atol=1e-5, rtol=0)

# %% [markdown]
# One product gave $(b, n, h \cdot d)$. The attention function works on the last two axes and carries all axes in front
# along, as you made sure in lesson 02. So the heads need an axis of their own, *in front of* the words: $(b, h, n,
# d)$. Then one call serves all heads. To the attention function, a head is just one more sentence in the batch.
#
# Here are head 0 and head 1 of a sentence of three words and width 4. The first digit is the word, the second the
# column:
#
# | word | width 4 | head 0 | head 1 |
# | --- | --- | --- | --- |
# | 1 | 11 12 13 14 | 11 12 | 13 14 |
# | 2 | 21 22 23 24 | 21 22 | 23 24 |
# | 3 | 31 32 33 34 | 31 32 | 33 34 |
#
# ### Exercise: split the heads ({points}, difficulty 2, 10 minutes)
#
# Write `split_heads(x, num_heads)`. (The way back, from four axes to three, is part of the module below.)
#
# - `x` is `(b, n, h·d)`, the result is `(b, h, n, d)`. Head `i` gets the `i`-th run of `d` neighbouring columns, of
#   every word.
# - If `num_heads` doesn't divide the width, raise a `ValueError` that gives the number of heads and the width. Not an
#   assertion, and not whatever torch happens to say.
# - The points: {parts}.
# - Not allowed: `attnlib.split_heads`.


# %%
def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(b, n, h·d) -> (b, h, n, d): head i gets the i-th run of d columns."""
    ### BEGIN SOLUTION
    if x.shape[-1] % num_heads:
        raise ValueError(
            f"num_heads must divide the width, got {num_heads} and {x.shape[-1]}"
        )
    return rearrange(x, "b n (h d) -> b h n d", h=num_heads)
    ### END SOLUTION


# %%
check("split_heads", split_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two steps: first the width becomes two axes, then the heads move forward. In which order do the two new axes come, if
# neighbours in the width are to stay in the same head?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The einops pattern has the shape `"b n (… …) -> b … n …"`. Remember from lesson 01 that in parentheses the name on the
# right varies fastest. Without einops: a reshape to four axes that keeps the words second, then a transpose of two
# axes.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The error comes first: `%` tells whether a division leaves a remainder. Then rearrange `b n (h d)` so that `h` comes
# before `n`, and tell einops how many heads there are with `h=num_heads`.
#
# </details>

# %% [markdown]
# With the heads in front, the loop is gone: one product for each of $q$, $k$ and $v$, and one call. The numbers are
# the loop's.

# %%
# (b, h, n, d), b = 1
q, k, v = (attnlib.split_heads((x @ w)[None], 3) for w in (w_q, w_k, w_v))
together, together_weights = attnlib.scaled_dot_product_attention(
    q, k, v, return_weights=True
)
assert_close(together_weights[0], heads, atol=1e-6, rtol=0)
assert_close(together[0], torch.stack(outputs), atol=1e-5, rtol=0)
print(tuple(q.shape), "->", tuple(together.shape))

# %% [markdown]
# ## Cut in the wrong place, and see which words lose touch · core
#
# There's a shorter way to a tensor of shape $(b, h, n, d)$: `x.reshape(b, h, n, d)`. No transpose, no error, the right
# shape, and it's in published models. To see what it does, give the sentence its full stop: twelve tokens, nine
# columns, three heads.
#
# ### Predict, then run: a head made by reshape ({points}, difficulty 2, 3 minutes)
#
# `x` is `(1, 12, 9)`. What's in head 0 of `x.reshape(1, 3, 12, 3)`?
#
# - **A**: the first three columns of all twelve words, as in `split_heads`
# - **B**: all nine columns of the first four words
# - **C**: every third column of all twelve words
# - **D**: nothing: the numbers don't fit, and torch raises an error

# %%
### BEGIN SOLUTION
reshaped_head = "B"
### BEGIN STUB
# reshaped_head = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_reshaped_heads", reshaped_head)

# %% [markdown]
# To follow the numbers, number them: 0 to 8 for the first word, 9 to 17 for the second, and so on. Then each number
# tells its word and its column, no matter where it ends up.

# %%
stopped = [*tokens, "."]
# word = number // 9, column = number % 9
numbered = torch.arange(12 * 9).reshape(1, 12, 9)
# (n, d): split_heads
right_head = rearrange(numbered, "b n (h d) -> h b n d", h=3)[0, 0]
wrong_head = numbered.reshape(1, 3, 12, 3)[0, 0]
assert (right_head // 9).unique().tolist() == list(range(12))  # every word
assert (right_head % 9).unique().tolist() == [0, 1, 2]  # its first three columns
assert (wrong_head // 9).unique().tolist() == [0, 1, 2, 3]  # four words only
assert (wrong_head % 9).unique().tolist() == list(range(9))

# %%
_, axes = plt.subplots(
    1, 3, figsize=(12, 4.6), layout="constrained", width_ratios=(9, 6, 6)
)
titles = (
    "x: words and their columns",
    "split_heads: head 0 has every word",
    "reshape: head 0 has four words",
)
for ax, title, table in zip(
    axes, titles, (numbered[0], right_head, wrong_head), strict=True
):
    ax.imshow(table // 9, cmap="Blues", vmin=0, vmax=14, aspect="auto")
    for at, number in enumerate(table.flatten().tolist()):
        row, column = divmod(at, table.shape[1])
        word = f"{stopped[number // 9]} " if table.shape[1] == 3 else ""
        colour = "white" if number >= 72 else "black"
        centred = {"ha": "center", "va": "center", "fontsize": 9}
        ax.text(column, row, f"{word}{number % 9}", color=colour, **centred)
    ax.set(title=title, xticks=[], xlabel="columns")
    ax.set_yticks(range(12), range(12))
axes[0].set_yticks(range(12), stopped)
show(
    "Three tables, coloured by word. Left, twelve words with nine columns. Middle, "
    "split_heads: each row is another word, with its columns 0 to 2. Right, reshape: "
    "twelve rows made of the first four words, three rows each."
)

# %% [markdown]
# The colour is the word. In the middle, every row is one word. On the right, head 0 has four words, each torn into
# three "words" of three columns, and it has never heard of the other eight. Its softmax divides attention among
# pieces of words.
#
# What are the consequences? Ask who can hear whom: does the output of word $i$ change when word $j$ changes? The
# derivative tells you. Below, random weights go through the full path, split and merged: on the left with transposes,
# on the right with `reshape` alone in both directions.

# %%
generator = torch.Generator().manual_seed(seed + 4)
random_words = torch.randn(12, 9, generator=generator)
matrices = [torch.randn(9, 9, generator=generator) / 3 for _ in range(4)]


def transposed(words: Tensor) -> Tensor:
    q, k, v = (rearrange(words @ w, "n (h d) -> h n d", h=3) for w in matrices[:3])
    found = attnlib.scaled_dot_product_attention(q, k, v)
    return rearrange(found, "h n d -> n (h d)") @ matrices[3]


def reshaped(words: Tensor) -> Tensor:
    q, k, v = ((words @ w).reshape(3, 12, 3) for w in matrices[:3])
    return attnlib.scaled_dot_product_attention(q, k, v).reshape(12, 9) @ matrices[3]


def hearing(attend) -> Tensor:
    """(n, n): how strongly the output of word i reacts to word j."""
    # (n, d_model, n, d_model)
    slopes = torch.autograd.functional.jacobian(attend, random_words)
    return slopes.pow(2).sum(dim=(1, 3)).sqrt()


# %%
_, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
plain = {"values": False, "colorbar": False, "vmax": 1.2}
ways = {
    "With transpose, everyone hears everyone": transposed,
    "By reshape, the sentence falls apart": reshaped,
}
for ax, (title, attend) in zip(axes, ways.items(), strict=True):
    reaction = hearing(attend)
    reaction[reaction == 0] = torch.nan  # what is exactly zero stays grey
    plot_attention(reaction, stopped, ax=ax, title=title, **plain)
    ax.set(ylabel="the output of …", xlabel="… reacts to")
show(
    "Two tables: how strongly each word's output reacts to each word. With transposes "
    "all cells are coloured. With reshape alone only three blocks of four by four "
    "words are; the rest is grey, exactly zero."
)
# pairs of words in different thirds
apart = torch.block_diag(*[torch.ones(4, 4)] * 3) == 0
assert (hearing(transposed) > 0).all()  # everyone hears everyone
assert (hearing(reshaped)[apart] == 0).all()  # nobody hears the other thirds

# %% [markdown]
# Pale means little, grey means nothing at all. The sentence has come apart: *the animal did not* | *cross the street
# because* | *it was tired .* — the word *it* will never find its animal. Nothing crashes, and the loss falls, since
# four words are better than none.
#
# There's one more trap. Splitting by `reshape` and merging by `reshape` are exact inverses, so a test that only says
# "merge undoes split" passes. **A round trip proves nothing about what happens on the way.**

# %%
there_and_back = numbered.reshape(1, 3, 12, 3).reshape(1, 12, 9)
assert_close(there_and_back, numbered, atol=0, rtol=0)  # and yet both ways are wrong

# %% [markdown]
# ## Put the heads side by side again · core
#
# After attention the heads' outputs are $(b, h, n, d)$. A word needs them in one row: what head 0 found, then what
# head 1 found, and so on. The paper calls this *Concat*. It is `split_heads` backwards, in the opposite order:
# transpose first, then join the last two axes. You'll write it inside your module; until then `attnlib.merge_heads`
# does it.
#
# One matrix is left. Head 0 writes into columns 0 to 2 and can't write anywhere else. So the joined heads go through a
# last projection, $W^O$, which may mix them:
#
# $$\mathrm{MultiHead}(x) = \mathrm{Concat}(\mathrm{head}_0, \dots, \mathrm{head} _{h-1}) W^O \qquad
# \mathrm{head}_i = \mathrm{Attention}(x W_i^Q, x W_i^K, x W_i^V)$$
#
# These are the equations of section 3.2.2 of [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762). Cut $W^O$ into
# runs of rows, one for each head, and the same result is a sum: $\sum_i \mathrm{head}_i W_i^O$. Each head adds its own
# contribution to the word, in all columns.

# %%
w_o = torch.randn(9, 9, generator=generator)
projected = attnlib.merge_heads(together) @ w_o  # (b, n, d_model)
contributions = [
    output @ w_o[3 * head : 3 * head + 3] for head, output in enumerate(outputs)
]
assert_close(projected[0], sum(contributions), atol=1e-4, rtol=0)

# %% [markdown]
# Look at one contribution as a whole, and a head falls into two halves that can be read separately. Its weights $A_i$
# (lesson 02's $A$) are made by $W_i^Q$ and $W_i^K$ alone: they say **from where to where**. What travels is made by
# $W_i^V$ and $W_i^O$ alone: they say **what**, and they only ever meet as one product:
#
# $$\mathrm{head}_i W_i^O = A_i x (W_i^V W_i^O)$$

# %%
w_vo = [
    w_v[:, 3 * head : 3 * head + 3] @ w_o[3 * head : 3 * head + 3] for head in range(3)
]
# each (n, d_model)
moved = [shares @ x @ what for shares, what in zip(heads, w_vo, strict=True)]
assert_close(torch.stack(moved), torch.stack(contributions), atol=1e-4, rtol=0)
assert [torch.linalg.matrix_rank(what).item() for what in w_vo] == [3, 3, 3]

# %% [markdown]
# The product $W_i^V W_i^O$ is $(9, 9)$, but its rank is 3: everything a head carries has to fit through $d = 3$
# numbers. The same is true of $W_i^Q (W_i^K)^\top$, which a head uses to compare two words.

# %% [markdown]
# ## Write the matrices of two heads yourself · core
#
# You've seen three heads that we made. Now make two yourself, for the cat and the dog. A sentence has $n$ words, such
# as the six of *the X saw the Y ?*, and a word is $2n$ numbers. The first $n$ say where it is: a 1 at its position,
# zeros elsewhere. The last $n$ are its name, $n$ numbers that are $+1$ or $-1$. Nobody can know the names beforehand,
# so the matrices have to work for all of them.
#
# ### Exercise: write two heads by hand ({points}, difficulty 3, 20 minutes)
#
# Write `two_heads_by_hand(n, who, whom)`: four matrices with which the *last* word learns two names, that of the word
# at position `who` and that of the word at position `whom`.
#
# - $W^Q$, $W^K$ and $W^V$ are $(2n, 2n)$ each and multiply from the right, `x @ w_q`. Head 0 has the columns 0 to
#   $n-1$, head 1 the others. So a head is $n$ wide, and the scale divides its scores by $\sqrt n$.
# - What the two heads found is written side by side, $2n$ numbers for each word. $W^O$, also $(2n, 2n)$, multiplies it
#   and may rearrange it.
# - After $W^O$ the last word holds $2n$ numbers: first the name at `who`, then the name at `whom`, each number right
#   to within 0.1. What the other words get is up to you.
# - Return the four, stacked: `(4, 2n, 2n)`. There are many right ways; any of them will do.
# - You can try it without the check: the cell after it runs *the X saw the Y ?*.


# %%
def two_heads_by_hand(n: int, who: int, whom: int) -> Tensor:
    """n words, two positions -> w_q, w_k, w_v, w_o of two heads, (4, 2n, 2n)."""
    w_q, w_k, w_v, w_o = torch.zeros(4, 2 * n, 2 * n)
    ### BEGIN SOLUTION
    w_q[n - 1, 0] = 10 * math.sqrt(n)  # the last word asks something in head 0 …
    w_q[n - 1, n] = 10 * math.sqrt(n)  # … and in head 1
    w_k[who, 0] = 1  # this position answers in head 0
    w_k[whom, n] = 1  # and this one in head 1
    w_v[n:, :n] = torch.eye(n)  # both heads bring the name
    w_v[n:, n:] = torch.eye(n)
    w_o.fill_diagonal_(1)
    ### END SOLUTION
    return torch.stack([w_q, w_k, w_v, w_o])


# %%
check("two_heads_by_hand", two_heads_by_hand)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Start with one head, and with what it carries. Which rows of $W^V$ read the name, and into which columns should it
# go?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Row $i$ of $W^Q$ is the query of the word at position $i$, since that word has its 1 in column $i$. The same goes for
# $W^K$. Give the last word a query with a single number in it, and give one key a number in the same column.
#
# </details>
# <details><summary>Hint 3</summary>
#
# How large must the number be? Softmax gives the other $n - 1$ words $e^0 = 1$ each. A score of 10 leaves them with
# next to nothing, and $\sqrt n$ undoes the scale. For $W^O$ the identity will do.
#
# </details>

# %%
# nbval-ignore-output: it says whose matrices are used, and that differs for a student
by_hand = yours_or_ours("two_heads_by_hand", globals())(6, 1, 4).float()

# %%
place, name = torch.eye(6), torch.ones(6, 6).tril() * 2 - 1  # six different names
q, k, v = (
    attnlib.split_heads((torch.cat([place, name], -1) @ w)[None], 2)
    for w in by_hand[:3]
)
found, looks = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
got = (attnlib.merge_heads(found) @ by_hand[3])[0, -1]
assert_close(got, torch.cat([name[1], name[4]]), atol=0.1, rtol=0)
plot_heads(looks[0], ["the", "X", "saw", "the", "Y", "?"], columns=2)
show(
    "Two tables of attention weights over the X saw the Y question mark. In one head "
    "the last word looks at X, in the other at Y."
)

# %% [markdown]
# In one head the question mark looks at *X*, in the other at *Y*. Soon two heads will *learn* the same task, and you
# can compare.

# %% [markdown]
# ## Count what the heads cost · more
#
# A model is 512 wide. One version has a single head of width 512, another has 8 heads of width 64, a third 64 heads of
# width 8. Before you run the cell, count the weights in $W^Q$, $W^K$, $W^V$ and $W^O$ of all heads. Which version has
# the most?

# %%
counts, tables = {}, {}
for num_heads in (1, 8, 64):
    attention = attnlib.MultiHeadAttention(512, num_heads, bias=False)
    counts[num_heads] = sum(parameter.numel() for parameter in attention.parameters())
    shares = attention(torch.zeros(1, 11, 512), return_weights=True)[1]
    tables[num_heads] = shares.numel()
    size = f"{num_heads} × {512 // num_heads}"
    print(f"{size}: {counts[num_heads]} learned, {tables[num_heads]} attention weights")
assert counts == dict.fromkeys((1, 8, 64), 4 * 512 * 512)
assert tables == {h: h * 11 * 11 for h in (1, 8, 64)}  # the tables are h times as large

# %% [markdown]
# None of them: each has exactly as many learned weights, and as many multiplications, because the width is divided
# among the heads. Eight matrices $(512, 64)$ side by side are one of $(512, 512)$. (A head still reads all 512 numbers
# of a word. What's cut is the projection.) What grows is the table of *attention* weights, $h \cdot n^2$ numbers, one
# table per head. For long texts that's the larger part of the memory, so heads are cheap rather than free. And narrow
# heads have their own price: with 64 of them, a query has only eight numbers to ask with.

# %% [markdown]
# ## Write the module · core
#
# The division $d = d_{model} / h$ is a convention, not a law. $d$ may be anything, since $W^O$ brings $h \cdot d$ back
# to $d_{model}$. So it's an argument of the module.
#
# ### Exercise: write multi-head self-attention ({points}, difficulty 3, 25 minutes)
#
# Write `MultiHeadSelfAttention(d_model, num_heads, d_head=None, bias=True)`.
#
# - Four `nn.Linear` layers: `w_q`, `w_k`, `w_v` from `d_model` to `num_heads * d_head`, and `w_o` back to `d_model`.
#   `bias` decides for all four. No other parameters; the check gives them its own values.
# - Without `d_head`, a head is `d_model // num_heads` wide. If that leaves a remainder, the constructor raises a
#   `ValueError`.
# - `forward(x)` takes `(b, n, d_model)` and returns the output `(b, n, d_model)` and the weights of each head,
#   `(b, h, n, n)`.
# - Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention` and `attnlib`'s attention. Allowed: your own
#   functions, and `attnlib.split_heads` if yours isn't ready. Write the merge yourself.
# - The points: {parts}. The options are `d_head` and `bias`.


# %%
class MultiHeadSelfAttention(nn.Module):
    """x (b, n, d_model) -> output (b, n, d_model), weights (b, h, n, n)."""

    def __init__(
        self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True
    ):
        super().__init__()
        ### BEGIN SOLUTION
        if d_head is None:
            if d_model % num_heads:
                raise ValueError(
                    f"num_heads must divide d_model, got {num_heads} and {d_model}"
                )
            d_head = d_model // num_heads
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v = (
            nn.Linear(d_model, num_heads * d_head, bias=bias) for _ in range(3)
        )
        self.w_o = nn.Linear(num_heads * d_head, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        layers = self.w_q, self.w_k, self.w_v
        q, k, v = (split_heads(layer(x), self.num_heads) for layer in layers)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        joined = rearrange(weights @ v, "b h n d -> b n (h d)")
        return self.w_o(joined), weights
        ### END SOLUTION


# %%
check("MultiHeadSelfAttention", MultiHeadSelfAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `forward` is five steps: project, split, attend, merge, project. Write the shape beside each line.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The layers keep the heads side by side, so `w_q` is one layer for all heads, and `split_heads` cuts its *output*,
# never `x`. The scale is the root of the width of one head's queries, *after* the split. To merge, bring `h` next to
# `d` first: `(b, n, h, d)`. Only then can the two be joined, by `reshape`. `view` refuses there, because a transpose
# moves no number in memory.
#
# </details>
# <details><summary>Hint 3</summary>
#
# In `__init__`: settle `d_head` first (error, default), keep `num_heads`, make four layers. In `forward`: three split
# projections; scores from `q` and `k` with their last two axes; softmax over the last axis; weights times `v`; merge
# `b h n d` to `b n (h d)`; `w_o`. Return that and the weights.
#
# </details>

# %% [markdown]
# ## Write Adam · more
#
# Next, your module will learn. Five steps train it, for each batch, as in lesson 02: run, measure, set the gradients
# to zero, `backward()`, move. Only the last one is new. Plain gradient descent has a single `lr` for all numbers of a
# model: where the slope is steep it leaps, where it's flat it hardly moves. *Adam* ([Kingma and Ba,
# 2014](https://arxiv.org/abs/1412.6980)) finds a step for each number by itself. It remembers two running means of the
# number's gradients $g$, both 0 at first. (The paper calls them $m$ and $v$. Here they're $\mu$ and $\nu$, because $v$
# is a value.)
#
# $$\mu \leftarrow 0.9\, \mu + 0.1\, g \qquad \nu \leftarrow 0.999\, \nu + 0.001\, g^2$$
#
# $\mu$ says which way the number has been pushed lately, and $\sqrt \nu$ how hard. Their quotient is near $\pm 1$ as
# long as the gradients agree, and near 0 while they contradict one another, whether they're large or small. One thing
# is left to fix: means that begin at 0 are too small at first. In step $t = 1, 2, 3, \dots$ Adam divides each mean by
# the share of it that comes from gradients and not from the initial 0:
#
# $$w \leftarrow w - lr \cdot \frac{\mu \,/\, (1 - 0.9^t)}{\sqrt{\nu \,/\, (1 - 0.999^t)} + 10^{-8}}$$
#
# Take a pencil. In the first step, a number has the gradient $-18$. What are $\mu$ and $\nu$, what are they once
# corrected, and how far does the number move?
#
# ### Exercise: train with Adam ({points}, difficulty 3, 30 minutes)
#
# Write `train_with_adam(model, words, wanted, position, lr)`. It will train the ten models of the next section.
#
# - `model(x)` takes `(b, n, d_model)` and returns a pair, the output `(b, n, d_model)` and the weights of its heads.
#   All its parameters learn. Leave it in the mode it came in.
# - `words` is `(steps, b, n, d_model)` and `wanted` `(steps, b, d_model)`: each step has its own batch. The loss is
#   `F.mse_loss` of the outputs at `position` and what's wanted there.
# - The result is `(steps,)`, each loss from before its step; `loss.detach()` keeps the number without its history.
# - Adam as above, with these constants. PyTorch has it ready-made, as `torch.optim.Adam`. It's allowed, but write it
#   yourself first: it's six lines. The points: {parts}. Dtype as always.


# %%
def train_with_adam(
    model: nn.Module, words: Tensor, wanted: Tensor, position: int, lr: float
) -> Tensor:
    """Batches, what is wanted at `position` -> losses (steps,); trains the model."""
    ### BEGIN SOLUTION
    weights = list(model.parameters())
    means = [torch.zeros_like(w) for w in weights]
    squares = [torch.zeros_like(w) for w in weights]
    losses = []
    for step, (x, target) in enumerate(zip(words, wanted, strict=True), 1):
        output, _ = model(x)
        loss = F.mse_loss(output[:, position], target)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for w, mean, square in zip(weights, means, squares, strict=True):
                mean.copy_(0.9 * mean + 0.1 * w.grad)
                square.copy_(0.999 * square + 0.001 * w.grad**2)
                direction = mean / (1 - 0.9**step)
                size = (square / (1 - 0.999**step)).sqrt()
                w -= lr * direction / (size + 1e-8)
        losses.append(loss.detach())
    return torch.stack(losses)
    ### END SOLUTION


# %%
check("train_with_adam", train_with_adam)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with your loop from lesson 02, with `model(x)` instead of the products, and the `zero_grad` of the model. Get
# it to run with plain descent, `w -= lr * w.grad` for each `w` of `model.parameters()`, inside
# `with torch.no_grad():`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Before the loop, make a list of zeros for each of the two means: `torch.zeros_like(w)` for each weight. They have to
# outlive the step, so change what's in them (`mean.copy_(…)`), or put the new ones back into the list.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Three lines per weight: the new mean, the new mean of the squares, the step. The corrected means get their own names
# and aren't remembered. `enumerate(…, 1)` counts the batches from 1, once for all weights.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# $\mu = -1.8$ and $\nu = 0.324$; corrected they're $-18$ and $18^2 = 324$. The quotient is $-1$, so the number moves
# up by `lr`. In the first step *every* number moves by `lr`, no matter how steep or flat its slope is.
#
# </details>

# %% [markdown]
# ## Train it: who did it, and to whom · core
#
# Now your module learns what you wrote by hand. The sentence is *the X saw the Y ?*, and the names are new in every
# sentence. At the question mark, the module has to return twelve numbers: the name of *X*, then the name of *Y*. There
# are two contestants, each 12 wide in all: one head of 12, and two heads of 6. They have the same number of weights to
# learn.
#
# How well *can* one head do? Suppose its weights go to the two nouns in the proportion $a : b$. Take one of the six
# numbers of each name, $x$ and $y$, both $\pm 1$ and independent. All that reaches $W^O$ is $s = a x + b y$, times one
# matrix. Guess $x$ as $c\, s$, and the mean squared error is $c^2 (a^2 + b^2) - 2 c a + 1$. It's smallest for
# $c = a / (a^2 + b^2)$, where it is $\frac{b^2}{a^2+b^2}$. For $y$ it's $\frac{a^2}{a^2+b^2}$, so the mean of the two
# is ½, for any $a$ and $b$. (The weights of a trained head also depend a little on the names, which helps a little.) So
# expect slightly less than ½ from one head, and 0 from two.

# %%
# nbval-ignore-output: it says whose module and loop are used, and that differs for a student
Attention = yours_or_ours("MultiHeadSelfAttention", globals())
train = yours_or_ours("train_with_adam", globals())


# %%
def who_saw_whom(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sentences (b, 6, 12), and the two names that are asked for (b, 12)."""
    names = torch.randint(0, 2, (count, 6, 6), generator=generator) * 2.0 - 1
    places = torch.eye(6).expand(count, 6, 6)
    return torch.cat([places, names], dim=-1), names[:, [1, 4]].flatten(1)


def trained(
    num_heads: int, start: int, steps: int = 200
) -> tuple[nn.Module, list[float]]:
    """A module after so many batches of 64 sentences, and its losses."""
    torch.manual_seed(start)
    generator = torch.Generator().manual_seed(start)
    batches = [who_saw_whom(64, generator) for _ in range(steps)]
    words, wanted = (torch.stack(parts) for parts in zip(*batches, strict=True))
    attention = Attention(12, num_heads)
    return attention, train(attention, words, wanted, 5, 0.02).tolist()


# %%
# nbval-ignore-output: the last digits of a trained weight differ by machine; the assertions say what it shows
started = time.process_time()
starts = range(5 * seed, 5 * seed + 5)
runs = {1: [], 2: []}
for number in (bar := training(10)):  # five starts with one head, five with two
    run = trained(1 + number // 5, starts[number % 5])
    runs[1 + number // 5].append(run)
    bar.loss(run[1][-1])
seconds = time.process_time() - started
sentences, wanted = who_saw_whom(300, torch.Generator().manual_seed(99))
for num_heads, several in runs.items():
    for start, (attention, _) in zip(starts, several, strict=True):
        with torch.no_grad():
            output, looked = attention(sentences)
        error = F.mse_loss(output[:, -1], wanted).item()
        both = (output[:, -1].sign() == wanted).all(dim=-1).float().mean().item()
        mean_look = looked[:, :, -1].mean(dim=0)  # (h, 6)
        nouns = " | ".join(f"X {row[1]:.2f}, Y {row[4]:.2f}" for row in mean_look)
        print(f"{num_heads} of width {12 // num_heads}, start {start}:", end=" ")
        print(f"error {error:.2f}, both names {both:4.0%}, looks at {nouns}")
        assert (error < 0.05) if num_heads == 2 else (0.3 < error < 0.6)
        assert (both == 1.0) if num_heads == 2 else (both < 0.5)
        if num_heads == 2:  # one head for each noun
            assert sorted(mean_look.argmax(dim=-1).tolist()) == [1, 4]
print(f"ten runs took {seconds:.1f} CPU seconds")

# %%
_, ax = plt.subplots(figsize=(7.2, 3), layout="constrained")
for num_heads, colour in ((1, ACCENT), (2, INK)):
    for number, (_, losses) in enumerate(runs[num_heads]):
        label = f"{num_heads} head{'s' * (num_heads > 1)}, {12 // num_heads} wide"
        style = {
            "color": colour,
            "linewidth": 1,
            "linestyle": "-" if num_heads == 2 else "--",
        }
        ax.plot(losses, label=None if number else label, **style)
ax.axhline(0.5, color=GREY, linestyle=":", linewidth=1)
ax.text(200, 0.52, "½: one sum of two names", color=GREY, ha="right")
ax.set(xlabel="step", ylabel="mean squared error", ylim=(0, None))
ax.set_title("One head gets stuck near one half, two heads get both answers")
ax.legend(loc="upper right")
show(
    "The loss of ten runs over 200 steps. The five with one head get stuck between 0.4 "
    "and 0.5. The five with two heads fall to zero."
)

# %% [markdown]
# In all five runs the two heads divided the work between them: one looks at *X*, the other at *Y*, as in your
# matrices, and no one told them to. Which head takes which noun differs from start to start. Point at the question
# mark:

# %%
best = runs[2][0][0]
with torch.no_grad():
    pair = best(sentences)[1].mean(dim=0)  # (h, 6, 6), averaged over 300 sentences
who_tokens = ["the", "X", "saw", "the", "Y", "?"]
first_noun = int(pair[0, 5].argmax())
hover_links(
    pair[0],
    who_tokens,
    query=5,
    title=f"Head 0 looks at {who_tokens[first_noun]}: point at any word",
)

# %%
hover_links(
    pair[1],
    who_tokens,
    query=5,
    title=f"Head 1 looks at {'YX'[first_noun == 4]}: point at any word",
)

# %% [markdown]
# **Your turn.** Who did what to whom? Change `mine` to five words of your own and run the cell. It compares the two
# names that come back with those of your words, and the title says which they are. Exchange the two nouns. Then try
# *the mice caught by cats*: who caught whom, according to the heads, and what have they learned to look for?

# %% tags=["unfolded"]
mine = "the postman bit the dog"

said = usable_text(mine, longest=100).split()
if len(said) != 5:
    raise NotUsable(
        f"Five words are needed, as in “the postman bit the dog”, got {len(said)}."
    )
numbers = torch.randperm(64, generator=torch.Generator().manual_seed(0))[:6]
# each token a name of its own
names_of_said = (numbers[:, None] >> torch.arange(6)) % 2 * 2.0 - 1
with torch.no_grad():
    answer, looked = best(torch.cat([torch.eye(6), names_of_said], dim=-1)[None])
who, whom = (
    said[i] for i in (answer[0, 5].view(2, 6) @ names_of_said[:5].T).argmax(dim=-1)
)
ax = plot_attention(looked[0, :, 5], ["head 0", "head 1"], [*said, "?"], colorbar=False)
ax.set(title=f"Who? {who}. Whom? {whom}.", xlabel="", ylabel="“?” looks, in …")
show(f"Where two heads look in “{mine}”: one at {who}, the other at {whom}.")

# %% [markdown]
# For *the mice caught by cats* the heads say that the mice caught the cats. They have learned two *positions*, the
# second word and the fifth, and no sentence of their training ever needed more. To learn what *by* means they'd need
# sentences with *by*.
#
# ## Take a head away · stretch
#
# A picture shows where a head looks. Whether it *matters* is another question, and there's a direct way to ask it:
# take the head away. You've seen that the output is a sum with one term for each head, so that's easy.
#
# ### Stretch: measure what each head adds ({points}, difficulty 3, 20 minutes)
#
# Write `head_contributions(x, w_q, w_k, w_v, w_o, num_heads)`, which returns that sum's terms:
#
# $$\mathrm{added}_i = \mathrm{softmax}\big(x W_i^Q (x W_i^K)^\top / \sqrt d\big)\, x W_i^V\, W_i^O$$
#
# - `x` is `(b, n, d_model)`, `w_q`, `w_k` and `w_v` are `(d_model, h·d)`, packed `(h d)`; `w_o` is `(h·d, d_model)`.
#   No biases, and $h \cdot d$ may differ from `d_model`.
# - The result is `(b, h, n, d_model)`. Its sum over the heads is the output of multi-head attention.
# - As always. The parts of the check: {parts}. Not allowed: a finished attention, PyTorch's or `attnlib`'s.


# %%
def head_contributions(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> Tensor:
    """x (b, n, d_model), matrices -> what each head adds, (b, h, n, d_model)."""
    ### BEGIN SOLUTION
    d = w_o.shape[0] // num_heads
    added = []
    for head in range(num_heads):
        own = slice(head * d, (head + 1) * d)
        q, k = x @ w_q[:, own], x @ w_k[:, own]  # each (b, n, d)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d), dim=-1)
        found = weights @ (x @ w_v[:, own])
        added.append(found @ w_o[own])
    return torch.stack(added, dim=1)
    ### END SOLUTION


# %%
check("head_contributions", head_contributions)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Head $i$ has $d$ neighbouring columns of `w_q`, `w_k` and `w_v`, and the same $d$ *rows* of `w_o`. How large is $d$?
#
# </details>
# <details><summary>Hint 2</summary>
#
# A loop over the heads is the plainest way: a slice `own`, attention as in lesson 02 with `w_q[:, own]` and so on, and
# then a product with `w_o[own]`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The contributions are `(b, n, d_model)` each. `torch.stack` with `dim=1` puts the heads behind the batch. To test it
# yourself, sum over the heads and compare with `merge_heads(…) @ w_o`.
#
# </details>

# %% [markdown]
# Your trained module has biases. A bias is one more row of the matrix, for an input that is always 1, so they fit in.

# %%
# nbval-ignore-output: it says whose function is used, and that differs for a student
contributions = yours_or_ours("head_contributions", globals())


# %%
def with_bias(layer: nn.Linear) -> Tensor:
    return torch.cat([layer.weight.T, layer.bias[None]])


ones = torch.ones(*sentences.shape[:2], 1)
with torch.no_grad():
    matrices = [with_bias(layer) for layer in (best.w_q, best.w_k, best.w_v)]
    added = contributions(
        torch.cat([sentences, ones], dim=-1), *matrices, best.w_o.weight.T, 2
    )
    assert_close(
        added.sum(dim=1) + best.w_o.bias, best(sentences)[0], atol=1e-4, rtol=0
    )

# %%
# nbval-ignore-output: which head reads which noun differs from start to start
for head, noun in enumerate("XY" if first_noun == 1 else "YX"):
    left = (added.sum(dim=1) - added[:, head] + best.w_o.bias)[:, -1].sign() == wanted
    named = {"X": left[:, :6].all(dim=-1), "Y": left[:, 6:].all(dim=-1)}
    shares = ", ".join(
        f"{name} right in {found.float().mean():.0%}" for name, found in named.items()
    )
    print(f"without head {head}, which looks at {noun}: {shares}")
    assert named[noun].float().mean() < 0.2  # lost
    assert named["XY".replace(noun, "")].float().mean() == 1.0  # untouched

# %% [markdown]
# Each head carries one answer. Take it away, and you lose that answer and no other. This is how people find out what a
# head of a large model is for: they remove it and see what breaks. (Often nothing does. The paper by Michel, Levy and
# Neubig below shows it, and lesson 11 asks why.)

# %% [markdown]
# ## Find the bugs · more
#
# ### Fix: heads in the batch ({points}, difficulty 4, 10 minutes)
#
# Early code folded the heads into the batch: $(h \cdot b, n, d)$, one long batch for `torch.bmm`. That's right, and
# fast. Then it has to be unfolded. The line for `outputs` below was in one of the first and most copied transformers
# in PyTorch; a reader [asked](https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/7), and a day
# later it was fixed. Others had variants of it ([a
# tutorial](https://github.com/jsbaan/transformer-from-scratch/pull/6), [a
# library](https://github.com/reczoo/FuxiCTR/issues/30)). The line for `weights` is the same slip a second time.
#
# - `x` is `(b, n, d_model)`; `w_q`, `w_k`, `w_v` are `(d_model, h·d)`, packed `(h d)`; `w_o` is `(h·d, d_model)`.
# - It must return what multi-head attention returns: output `(b, n, d_model)` and weights `(b, h, n, n)`.
# - The fold is right, and so is the attention. Two lines after it aren't.
# - Not allowed: a finished attention, PyTorch's or `attnlib`'s.


# %%
def mend_multi_head(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> tuple[Tensor, Tensor]:
    """x (b, n, d_model), matrices -> output (b, n, d_model), weights (b, h, n, n)."""
    q, k, v = (
        rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v)
    )
    # (h b, n, n)
    weights = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1)
    outputs = weights @ v  # (h b, n, d)
    ### BEGIN SOLUTION
    outputs = rearrange(outputs, "(h b) n d -> b n (h d)", h=num_heads)
    weights = rearrange(weights, "(h b) q k -> b h q k", h=num_heads)
    ### BEGIN STUB
    # outputs = outputs.reshape(x.shape[0], x.shape[1], -1)
    # weights = weights.reshape(x.shape[0], num_heads, x.shape[1], x.shape[1])
    ### END SOLUTION
    return outputs @ w_o, weights


# %%
check("mend_multi_head", mend_multi_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two sentences, three heads: write down the six entries of the folded axis in their order. Which sentence and which
# head is the second one?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `reshape(b, h, …)` reads the first axis as if the sentence varied slowest. The fold says `(h b)`. And in the other
# line, which axis has to move before heads and numbers can be joined?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Both lines become a `rearrange` whose left side begins with `(h b)`, and which is told `h`. On its right, the first
# has the batch, the words, and the heads joined in the packing the bullets name; the second has four axes in the
# contract's order.
#
# </details>

# %% [markdown]
# With a single sentence in the batch, the weights were right all along, so a test with a batch of one would have let
# them pass. And a test that trains? The tutorial linked above joined its heads by `reshape` alone, without a transpose,
# so it mixed up the words of each sentence. "Why did the training test still pass?" asks its author. Probably, he says,
# because the task was too easy; and since the scrambling is always the same, a model with weights to spare learns its
# way around it. Is that so? Train his slip on *who saw whom*, and the one above as well.


# %%
class Scrambled(nn.Module):
    """Two heads of 6; `folded` says how they lie when `reshape` joins them."""

    def __init__(self, folded: str):
        super().__init__()
        self.folded, self.layers = folded, attnlib.MultiHeadAttention(12, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        projections = self.layers.w_q, self.layers.w_k, self.layers.w_v
        q, k, v = (
            rearrange(w(x), f"b n (h d) -> {self.folded}", h=2) for w in projections
        )
        found = attnlib.scaled_dot_product_attention(q, k, v)
        return self.layers.w_o(found.reshape(x.shape)), None


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
for mixed, folded in (("words", "b h n d"), ("sentences", "(h b) n d")):
    for start in starts[:3]:
        torch.manual_seed(start)
        generator = torch.Generator().manual_seed(start)
        batches = [who_saw_whom(64, generator) for _ in range(200)]
        pairs = zip(*batches, strict=True)
        losses = train(Scrambled(folded), *map(torch.stack, pairs), 5, 0.02)
        last = losses[-1].item()
        print(f"{mixed} mixed up, start {start}: loss {losses[0]:.2f} -> {last:.2f}")
        assert last < 0.05 if mixed == "words" else last > 0.9

# %% [markdown]
# He's right about his own slip. The question mark gets what two words of its sentence have found, not two heads of its
# own. Those two words learn to ask for *X* and *Y*, and the loss goes to zero. But the slip above hands each sentence
# what was found in others, and no training can make up for that: the loss stays near 1, that of knowing nothing. So a
# loss that doesn't fall proves that something is wrong, and a loss that falls proves nothing.

# %% [markdown]
# ## Climb the ladder: six forms, one result · more
#
# You'll meet multi-head attention in many forms. They're all the same function, and you can prove it: take random
# sentences and random weights, different sizes on every axis, and assert each rung equal to the one below. First **a
# loop over heads**, as above.

# %%
b, n, h, d, d_model = 2, 11, 3, 5, 15
generator = torch.Generator().manual_seed(seed + 7)


def draw(*shape: int, times: float = 1.0) -> Tensor:
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return times * drawn * shape[-2] ** -0.5


batch = torch.randn(b, n, d_model, generator=generator, dtype=torch.float64)
# twice as large, so that no row of weights comes out even
heads_q, heads_k, heads_v = (
    [draw(d_model, d, times=2) for _ in range(h)] for _ in range(3)
)
w_o = draw(h * d, d_model)

found = []
for matrices in zip(heads_q, heads_k, heads_v, strict=True):
    q, k, v = (batch @ matrix for matrix in matrices)  # each (b, n, d): one head
    found.append(attnlib.scaled_dot_product_attention(q, k, v, return_weights=True))
loop_output = torch.cat([output for output, _ in found], dim=-1) @ w_o
loop_weights = torch.stack([weights for _, weights in found], dim=1)  # (b, h, n, n)

# %% [markdown]
# Then **stacked matrices** (one product for all heads; split, attend, merge), **one fused product** for queries, keys
# and values of all heads, **einops** alone, and PyTorch's function **`F.scaled_dot_product_attention`**, which is fast
# and doesn't return the weights.

# %%
w_q, w_k, w_v = (
    torch.cat(matrices, dim=-1) for matrices in (heads_q, heads_k, heads_v)
)
q, k, v = (attnlib.split_heads(batch @ w, h) for w in (w_q, w_k, w_v))
output, weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
assert_close(attnlib.merge_heads(output) @ w_o, loop_output, atol=1e-12, rtol=0)
assert_close(weights, loop_weights, atol=1e-12, rtol=0)

w_qkv = torch.cat([w_q, w_k, w_v], dim=-1)  # (d_model, 3 h d)
fused = (batch @ w_qkv).chunk(3, dim=-1)
for one_of_fused, one_of_stacked in zip(fused, (q, k, v), strict=True):
    cut = attnlib.split_heads(one_of_fused, h)
    assert_close(cut, one_of_stacked, atol=1e-12, rtol=0)

q, k, v = rearrange(batch @ w_qkv, "b n (three h d) -> three b h n d", three=3, h=h)
scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / d**0.5
mixed = torch.einsum("bhqk,bhkd->bhqd", scores.softmax(dim=-1), v)
einops_output = rearrange(mixed, "b h n d -> b n (h d)") @ w_o
assert_close(einops_output, loop_output, atol=1e-12, rtol=0)

torch_output = attnlib.merge_heads(F.scaled_dot_product_attention(q, k, v)) @ w_o
assert_close(torch_output, loop_output, atol=1e-12, rtol=0)

# %% [markdown]
# Last, PyTorch's module **`nn.MultiheadAttention`**. Its traps are in its arguments. It needs `batch_first=True` for
# our order of axes, it takes queries, keys and values as three inputs, and it averages the weights over the heads
# unless you tell it not to. Its matrices are transposed, as in every `nn.Linear`, and packed into one
# `in_proj_weight`, $(3 \cdot h \cdot d, d_{model})$.

# %%
theirs = nn.MultiheadAttention(
    d_model, h, bias=False, batch_first=True, dtype=torch.float64
)
theirs.load_state_dict({"in_proj_weight": w_qkv.T, "out_proj.weight": w_o.T})
module_output, module_weights = theirs(batch, batch, batch, average_attn_weights=False)
assert_close(module_output, loop_output, atol=1e-12, rtol=0)
assert_close(module_weights, loop_weights, atol=1e-12, rtol=0)

ours = attnlib.MultiHeadAttention(d_model, h, bias=False).double()
layers = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
ours.load_state_dict({f"{name}.weight": w.T for name, w in layers.items()})
assert_close(ours(batch), module_output, atol=1e-12, rtol=0)
print("loop = stacked = fused = einops = F.scaled_dot_product_attention = nn.Module")

# %% [markdown]
# ## Tell the packed layouts apart · more
#
# The ladder had one silent condition: every form read the packed columns in the same order. Different codebases use
# different orders. In einops notation, slowest axis first:
#
# | packing | where | reading from left to right |
# | --- | --- | --- |
# | `(h d)`, three matrices | this course, and most language models since LLaMA | head 0, head 1, …; q, k, v apart |
# | `(3 h d)` | `nn.MultiheadAttention`, GPT-2, timm's vision transformers | all of q, of k, of v, each head by head |
# | `(h 3 d)` | GPT-NeoX, BLOOM, the UvA tutorial on transformers | head 0's q, k and v; then head 1's |
#
# (There are rarer ones, such as `(d 3 h)` in one
# [tutorial](https://github.com/The-AI-Summer/self-attention-cv/blob/main/self_attention_cv/transformer_vanilla/mhsa.py).)
# For two heads of width 3, the eighteen columns of one packed matrix:

# %%
packings = {"(3 h d)": "(k h d)", "(h 3 d)": "(h k d)"}
ids = torch.arange(18)  # 6 of q, 6 of k, 6 of v; inside, head 0, then head 1
colours = ListedColormap(["#9ecae1", "#fdd0a2", "#e0e0e0"])  # q, k, v
_, axes = plt.subplots(2, 1, figsize=(9, 2.6), layout="constrained")
for ax, (name, pattern) in zip(axes, packings.items(), strict=True):
    row = rearrange(ids, f"(k h d) -> {pattern}", k=3, h=2)
    ax.imshow(row[None] // 6, cmap=colours, aspect="auto")
    for start in range(0, 18, 3):  # three columns in a row are one head's
        number = int(row[start])
        label = f"{'qkv'[number // 6]} of head {number // 3 % 2}"
        ax.text(start + 1, 0, label, ha="center", va="center")
        ax.axvline(start - 0.5, color="white", linewidth=3)
    ax.set(xticks=[], yticks=[])
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
axes[0].set_title("The same eighteen columns, in runs of three, in two orders")
show(
    "Two rows of six runs of three columns, coloured as q, k and v. Packed (3 h d): q "
    "of head 0, q of head 1, then k, then v. Packed (h 3 d): q, k and v of head 0, "
    "then "
    "the same of head 1."
)
first_half = rearrange(ids, "(k h d) -> (h k d)", k=3, h=2)[:9]
assert first_half.tolist() == [0, 1, 2, 6, 7, 8, 12, 13, 14]

# %% [markdown]
# The same columns, the same mathematics, another order. One `rearrange` brings the weights from one layout to another:


# %%
def attend_packed(w_packed: Tensor, packing: str) -> Tensor:
    """The rest of the model, for weights whose columns are in the order `packing`."""
    q, k, v = rearrange(batch @ w_packed, f"b n {packing} -> k b h n d", k=3, h=h)
    return attnlib.merge_heads(attnlib.scaled_dot_product_attention(q, k, v)) @ w_o


w_khd = w_qkv  # the fused matrix of the ladder
w_hkd = rearrange(w_khd, "d_model (k h d) -> d_model (h k d)", k=3, h=h)
assert_close(attend_packed(w_khd, "(k h d)"), loop_output, atol=1e-12, rtol=0)
assert_close(attend_packed(w_hkd, "(h k d)"), loop_output, atol=1e-12, rtol=0)

misread = attend_packed(w_khd, "(h k d)")  # the right weights, read in the other layout
assert misread.shape == loop_output.shape
relation = torch.corrcoef(torch.stack([misread.flatten(), loop_output.flatten()]))[0, 1]
assert relation.abs() < 0.6
print(f"no error, the right shape, and a correlation of {relation:.2f}")

# %% [markdown]
# No shape, no dtype and no norm of a weight can tell these apart. Only numbers can: run one sentence through both
# models and compare, as every form on the ladder was compared.

# %% [markdown]
# ## Unpack any model's weights · stretch
#
# ### Stretch: read any packing ({points}, difficulty 4, 30 minutes)
#
# You've downloaded a model. Its queries, keys and values are one packed weight, and the documentation says in which
# order. Write `from_packed(weight, packing, num_heads)`, which returns the weights of your `w_q`, `w_k` and `w_v`.
#
# - `weight` is `(3·h·d, d_model)`, as `nn.Linear` stores it: the *rows* are packed. Each result is `(h·d, d_model)`,
#   its rows packed `(h d)`.
# - `packing` is a string written like `"(3 h d)"`, `"(h 3 d)"` or `"(d 3 h)"`: the three names in any order, slowest
#   first.
#   The 3 runs over q, k and v.
# - As always: dtype and device, input unchanged, gradients. Do one order with a pencil first: 2 heads, $d = 2$.


# %%
def from_packed(
    weight: Tensor, packing: str, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(3·h·d, d_model), an order, h -> w_q, w_k, w_v, each (h·d, d_model)."""
    ### BEGIN SOLUTION
    order = packing.replace("3", "three")
    w_q, w_k, w_v = rearrange(
        weight, f"{order} m -> three (h d) m", three=3, h=num_heads
    )
    return w_q, w_k, w_v
    ### END SOLUTION


# %%
check("from_packed", from_packed)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Give every row a name: which of q, k, v; which head; which number in the head. Cut the rows' axis into three axes, in
# the order `packing` says.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Then move the three axes into the order (3, h, d), and join the last two. With `permute`, think about what its
# arguments mean: where each axis of the *result* comes from.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `packing` is nearly an einops pattern. A name in einops can't begin with a digit, so replace the 3 by a word. What
# has to be on the right of the arrow?
#
# </details>

# %% [markdown]
# ## What you can now do · core
#
# - Say what a second head buys: with a pencil, with matrices you wrote, and by training both.
# - Split and merge heads, and explain why `reshape` alone takes the sentence apart.
# - Write and train multi-head self-attention, count its cost, and recognise it in other forms and packings.
#
# ## Take this with you · core
#
# **Splitting into heads is a cut: each piece gets its own softmax, so answers stay apart.**
#
# | | |
# | --- | --- |
# | formula | $\mathrm{Concat}(\mathrm{head}_0, …, \mathrm{head} _{h-1})\, W^O$ |
# | shapes | $(b, n, h \cdot d)$ → split → $(b, h, n, d)$ → attend → merge → $(b, n, h \cdot d)$ |
# | trap 1 | `reshape` instead of a transpose: right shape, torn sentence |
# | trap 2 | cutting `x` instead of its projection: each head sees a slice of the word |
# | trap 3 | packed weights read in another order: no error, wrong numbers |
# | in GPT-2 (small) | 12 heads, 64 wide, 768 in all, packed `(3 h d)` |
#
# ## Think further · more
#
# 1. Swap head 0 and head 1, that is, their columns in $W^Q$, $W^K$ and $W^V$. What happens to the output? What must you
#    do to $W^O$ to undo it? What does this say about the names "head 0" and "head 1"?
# 2. Some published code cuts $x$ itself into heads and then uses one small matrix for all of them. Which matrix $W^Q$
#    would do the same in our form? Could *it* still ask both of its questions?
# 3. In the picture of the clock, the first word splits itself between two wrong words. What could you add to the
#    sentence, so that "nobody" is an answer?
#
# <details><summary>Answers</summary>
#
# 1. The joined heads change places, so the output changes, unless you swap the same two runs of rows of $W^O$. Then
#    it's equal: the sum of the heads' contributions has no order. The names mean nothing, which is why different starts
#    gave *X* to different heads above.
# 2. A block-diagonal $W^Q$ with the same small block for every head. Each head then sees only its own slice of the
#    word: "pronoun" is a column of head 1, so *it* could ask nothing in head 0.
# 3. A token that offers every head a moderate score and whose value is zero: looking at it brings back nothing. Many
#    models grow such a token by themselves (an *attention sink*, often the first token), and some have one built in.
#
# </details>

# %%
# answer 1: exchange the rows as well
swapped = torch.cat([w_o[d : 2 * d], w_o[:d], w_o[2 * d :]])
exchanged = torch.cat([found[1][0], found[0][0], found[2][0]], dim=-1) @ swapped
assert_close(exchanged, loop_output, atol=1e-12, rtol=0)

# %% [markdown]
# ## Read on · more
#
# - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.2.2: half a page, and you've now written all
#   of it.
# - [Michel, Levy and Neubig, 2019](https://arxiv.org/abs/1905.10650): *Are sixteen heads really better than one?* Read
#   it for the surprise of how many heads can be removed after training, in some layers all but one.
# - [Voita et al., 2019](https://arxiv.org/abs/1905.09418): which heads matter, and what they do: position, syntax,
#   rare words. The head for "the word before" is among them.
# - [Clark et al., 2019](https://arxiv.org/abs/1906.04341): *What does BERT look at?* Read it for heads that find what
#   a pronoun means, in a trained model.
# - [Elhage et al., 2021](https://transformer-circuits.pub/2021/framework/index.html): a head as two products, *from
#   where to where* and *what*. The section on $W^V W^O$ above is its first idea.
#
# **Next:** all words so far came from one sentence. What if the word that asks is in one text, and the answers are in
# another? In lesson 04 the queries come from one sequence, keys and values from a second, and a model learns to read
# dates.
#
# *Learning on your own? The worked solutions are in the course's repository:
# `solutions/03_multi_head_attention.ipynb`.*
