# %% [markdown]
# # 03 · Multi-head attention: ask several questions at once
#
# One head of attention asks one question for each word, and gets one answer: an average. But *it* has two questions.
# Who am I? And what is said of me? This lesson gives a word several heads, and shows that they cost nothing.
#
# | | |
# | --- | --- |
# | **You will build** | `stack_head_weights`, `split_heads`, `merge_heads`, and the module `MultiHeadSelfAttention` |
# | **You will understand** | what a second head adds, why `reshape` is not `transpose`, why packed weights differ |
# | **You need** | scaled dot-product attention from lesson 02, about 90 minutes |
#
# The cells between the exercises use `attnlib`, never your answers. Skip an exercise, or the whole lesson, and you can
# still go on with 04 to 06.

# %%
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from einops import rearrange
from matplotlib.colors import ListedColormap
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check
from attnlib.plot import plot_attention, plot_heads, plot_links

# %% [markdown]
# ## Ask two questions with one head, and get half of each answer
#
# *The animal did not cross the street because it was tired.* Let two features be enough: *animal* is alive, *tired* is
# a state. The word *it* would like to fetch both. So its query asks for both, equally loudly: *animal* scores 4,
# *tired* scores 4, and the other nine words score 0. The values are (alive, state): $(1, 0)$ for *animal*, $(0, 1)$ for
# *tired*, zeros for the rest.
#
# - One head: $e^4 \approx 54.6$, the total is $2 \cdot 54.6 + 9 \cdot 1 = 118.2$. Both get $54.6 / 118.2 = 0.46$. *it*
#   is 0.46 alive and 0.46 tired.
# - Two heads, one for each question: now the total is $54.6 + 10 \cdot 1 = 64.6$, twice. *it* is 0.85 alive **and**
#   0.85 tired.
#
# To ask more loudly does not help the single head: its weights add up to 1, so each answer ends at one half. Below, the
# loudness of the questions grows from 0 to 8, in one head and in two.

# %%
sentence = "The animal did not cross the street because it was tired"
tokens = sentence.lower().split()
animal, it, tired = (tokens.index(word) for word in ("animal", "it", "tired"))
answers = torch.zeros(11, 2)  # (k, d_v): alive, state
answers[animal], answers[tired] = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])

loud = torch.linspace(0, 8, 81)[:, None]  # one row for each loudness
one_head = attnlib.softmax(loud * answers.sum(dim=1)) @ answers  # asks for both at once
who = attnlib.softmax(loud * answers[:, 0]) @ answers  # asks for what is alive
state = attnlib.softmax(loud * answers[:, 1]) @ answers  # asks for a state
two_heads = torch.stack([who[:, 0], state[:, 1]], dim=1)

assert_close(one_head[40], torch.full((2,), math.exp(4) / (2 * math.exp(4) + 9)), atol=1e-6, rtol=0)
assert_close(two_heads[40], torch.full((2,), math.exp(4) / (math.exp(4) + 10)), atol=1e-6, rtol=0)
assert one_head.sum(dim=1).max() <= 1 < two_heads.sum(dim=1).max()

# %%
_, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
corners = [(0, 0), (1, 0), (0, 1)]
ax.add_patch(plt.Polygon(corners, facecolor="#deebf7", edgecolor="#6baed6"))
ax.text(0.4, 0.14, "where averages\nof the values can be", color="#2171b5")
for path, colour, name in ((two_heads, "#d55e00", "two heads"), (one_head, "#08306b", "one head")):
    ax.plot(*path.T, color=colour, linewidth=2)
    ax.plot(*path[40], "o", color=colour, markersize=8)
    right, up = path[40].tolist()
    ax.text(right - 0.03, up + 0.05, f"{name}, loudness 4", color=colour, ha="right")
ax.text(0.11, 0.05, "both, loudness 0: 1/11 each", color="0.35")
ax.text(1.0, -0.06, "value of animal", ha="center")
ax.text(0.02, 1.02, "value of tired")
ax.set(xlabel="alive", ylabel="state", xlim=(-0.05, 1.3), ylim=(-0.1, 1.12))
ax.set_title("What “it” can fetch")
plt.show()

# %% [markdown]
# Lesson 02 drew such a triangle, too: a head's output is an average of the values, and averages cannot leave it. Two
# heads can, because there are two averages, side by side. The paper says it in one sentence: "With a single attention
# head, averaging inhibits this."

# %% [markdown]
# ## Make three heads whose reasons you can read
#
# Now the whole sentence, with three heads. Each word gets nine numbers, made by hand. Seven are the features of
# lesson 02. The last two are new. They say *where* the word stands: word $i$ is put on the face of a clock, at $i$
# o'clock.
#
# The heads are three wide, so the nine columns of queries, keys and values belong to three heads:
#
# | head | its columns | what a word may ask there | who asks |
# | --- | --- | --- | --- |
# | 0 | thing, alive, place | who, or what? | *it* and *tired* ask for something alive; *the* and *cross* for a thing |
# | 1 | state, action, pronoun | what about it? | *it* asks for a state, *tired* for a pronoun, nouns for an action |
# | 2 | article, and the clock | what stands before me? | every word |
#
# Keys and values are simple: a word offers what it is, and brings what it is. So $W^K$ and $W^V$ are the identity.

# %%
features = ["thing", "alive", "place", "state", "action", "pronoun", "article"]
features += ["clock x", "clock y"]
meaning = {
    "the": "article", "animal": "thing alive", "street": "thing place",
    "cross": "action", "it": "pronoun", "tired": "state",
}  # fmt: skip
words = [meaning.get(token, "").split() for token in tokens]
x = torch.tensor([[float(f in word) for f in features] for word in words])  # (n, d_model)
hour = 2 * math.pi / 12 * torch.arange(11)
x[:, 7], x[:, 8] = hour.cos(), hour.sin()
w_k, w_v = torch.eye(9), torch.eye(9)

# %% [markdown]
# $W^Q$ holds the questions. A row says what a word with this feature looks for. The content questions have loudness 4,
# times $\sqrt 3$ because the scale will divide by $\sqrt d = \sqrt 3$.
#
# Head 2 asks for *the hour before mine*. A key at angle $\beta$ and a query at angle $\alpha$ have the dot product
# $\cos(\alpha - \beta)$, which is largest where both agree. So the query is the word's own hand, turned back by one
# hour, 30°. The next best hours reach $\cos 30° = 0.866$ of it. That is close, so this question has to be loud, 30:
# then the word before scores 30 and its neighbours $26.0$, and $e^{-4}$ is little.

# %%
w_q = torch.zeros(9, 9)
for asks, wants in [
    ("pronoun", "alive"), ("state", "alive"), ("article", "thing"), ("action", "thing"),  # head 0
    ("pronoun", "state"), ("state", "pronoun"), ("thing", "action"),  # head 1
]:  # fmt: skip
    w_q[features.index(asks), features.index(wants)] = 4 * math.sqrt(3)
back = math.radians(30)
turn = [[math.cos(back), -math.sin(back)], [math.sin(back), math.cos(back)]]
w_q[7:, 7:] = 30 * math.sqrt(3) * torch.tensor(turn)  # head 2

# %% [markdown]
# Look at two entries: the row *pronoun* has one in head 0 and one in head 1. One word asks two questions, and it may
# use all of its nine numbers for each. **A head does not see a slice of the word. It sees a slice of the projection.**
#
# Now let each head attend by itself, with its own three columns of each matrix. A head is lesson 02, unchanged.

# %%
outputs, weights = [], []
for head in range(3):
    own = slice(3 * head, 3 * head + 3)
    q, k, v = x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]  # each (n, d) with d = 3
    output, shares = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
    outputs.append(output)
    weights.append(shares)
heads = torch.stack(weights)  # (h, n, n)

sharp = math.exp(4) / (math.exp(4) + 10)
assert_close(heads[0, it, animal].item(), sharp, atol=1e-6, rtol=0)  # who am I?
assert_close(heads[1, it, tired].item(), sharp, atol=1e-6, rtol=0)  # what is said of me?
assert heads[2, it].argmax() == it - 1  # what stands before me?
print([round(heads[head, it].max().item(), 3) for head in range(3)])

# %%
names = ["head 0: who, or what?", "head 1: what about it?", "head 2: what stands before?"]
plot_heads(heads, tokens, titles=names, columns=3)
plt.show()
first = heads[2, 0]  # "the" at 0 o'clock looks for 11 o'clock, and nobody is there
assert_close(first[[0, 10]], torch.tensor([0.5, 0.5]), atol=1e-3, rtol=0)
assert_close(heads[0, 0, [1, 6]], heads[0, 5, [1, 6]], atol=1e-6, rtol=0)  # both "the", both nouns

# %% [markdown]
# Three heads, three pictures of the same sentence. Find these in them, and the reason for each:
#
# - In head 0 both *the* share their attention between *animal* and *street*. They ask for a thing, and there are two.
#   Only head 2 knows what stands next to what.
# - The blank words ask nothing in heads 0 and 1: all eleven get 1/11 (the first question of lesson 02).
# - The first *the*, at 0 o'clock, asks for 11 o'clock. Nobody stands there. Its own place and that of *tired*, at 10
#   o'clock, are equally near, so each gets one half. A softmax cannot answer "nobody".
#
# What does *it* take home? The three outputs stand side by side, three numbers from each head.

# %%
joined = torch.cat(outputs, dim=-1)  # (n, h d)
assert_close(joined[it, [1, 3]], torch.full((2,), sharp), atol=1e-6, rtol=0)  # alive, a state

_, ax = plt.subplots(figsize=(8.4, 2.1), layout="constrained")
ax.imshow(torch.stack([x[it], joined[it]]), cmap="PuOr", vmin=-1.3, vmax=1.3, aspect="auto")
for row, vector in enumerate((x[it], joined[it])):
    for column, number in enumerate(vector):
        colour = "white" if number > 0.6 else "black"
        ax.text(column, row, f"{number:.2f}", ha="center", va="center", color=colour)
ax.set_xticks(range(9), features)
ax.set_yticks([0, 1], ["“it” before", "“it” after"])
for edge in (2.5, 5.5):
    ax.axvline(edge, color="black", linewidth=2)
for head in range(3):
    ax.text(3 * head + 1, -0.6, f"head {head}", ha="center", va="bottom")
plt.show()

# %% [markdown]
# *it* came as a mere pronoun. It fetched: a thing, alive; in a state; and the hand of the clock at about seven, where
# *because* stands.
#
# Hold on to what was made by hand here. In a trained network nobody writes $W^Q$, and most heads are not so readable.
# Yet heads for "the word before" and for "the noun that this pronoun means" have been found in real models again and
# again (lesson 11 looks for them).

# %% [markdown]
# ## Merge the three heads into one, and hear the loudest
#
# Take the same matrices, but do not cut them: one head, nine wide. A dot product over nine columns is the sum of three
# dot products over three columns each. So a single head has to *add* the questions before the softmax:
#
# $$q \cdot k = q^{(0)} \cdot k^{(0)} + q^{(1)} \cdot k^{(1)} + q^{(2)} \cdot k^{(2)}$$


# %%
def three_scores(head: int) -> Tensor:
    """(n, n): the dot products in the three columns of one head, not yet scaled."""
    own = slice(3 * head, 3 * head + 3)
    return x @ w_q[:, own] @ (x @ w_k[:, own]).T


wide_scores = (x @ w_q) @ (x @ w_k).T
assert_close(wide_scores, sum(three_scores(head) for head in range(3)), atol=1e-4, rtol=0)
wide = attnlib.softmax(wide_scores / math.sqrt(9))  # one head, d = 9
for word in ("animal", "tired", "because"):
    print(f"it looks at {word}: {wide[it, tokens.index(word)]:.4f}")
assert wide[it, animal] < 1e-6
assert wide[it, it - 1] > 0.8

# %%
_, axes = plt.subplots(1, 4, figsize=(12, 3.6), layout="constrained")
titles = "head 0", "head 1", "head 2", "all in one head"
for ax, picture, title in zip(axes, [*heads, wide], titles, strict=True):
    plot_links(picture, tokens, ax=ax, query=it, title=title)
plt.show()

# %% [markdown]
# Same numbers in $x$, $W^Q$, $W^K$ and $W^V$, and the two quiet questions are gone. The loudest one has drowned them.
# **Heads are nothing but a place to cut: each piece gets a softmax of its own.** This is all that is new in multi-head
# attention. The rest of the lesson is about doing it fast, and about not cutting in the wrong place.

# %% [markdown]
# ## Compute all heads with one product
#
# The loop above makes three small products for each of $q$, $k$ and $v$. A real model has dozens of heads, and a GPU
# would rather do one large product. Lesson 01 put $W^Q$, $W^K$ and $W^V$ side by side. Do the same with the heads: a
# column of a product depends on the same column of the right-hand matrix, and on no other.
#
# $$x [W_0 \mid W_1 \mid \dots] = [x W_0 \mid x W_1 \mid \dots]$$
#
# ### Exercise: stack the heads' matrices ({points}, 5 minutes)
#
# Write `stack_head_weights(per_head)`: one matrix from a list of matrices, one for each head.
#
# - `per_head` is a list of `h` tensors, each `(d_model, d)`; the result is `(d_model, h·d)`.
# - Head 0 is on the left, and the columns of one head stay together: `(h d)`.
# - The points: {parts}. Gradients flow to every matrix; robust means dtype and device as given, no input
#   changed.
# - Not allowed: `attnlib.stack_head_weights`.


# %%
def stack_head_weights(per_head: list[Tensor]) -> Tensor:
    """h times (d_model, d) -> (d_model, h·d): the matrices side by side, head 0 on the left."""
    ### BEGIN SOLUTION
    return torch.cat(per_head, dim=-1)
    ### END SOLUTION


# %%
check("stack_head_weights", stack_head_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Draw two matrices with 2 rows and 2 columns side by side. Which of the two axes has grown?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Torch can join tensors along an axis that is there (`torch.cat`) or along a new one (`torch.stack`). Which of the two
# keeps the number of axes?
#
# </details>
# <details><summary>Hint 3</summary>
#
# One call on the list, with `dim` set to the axis that grows: the last one.
#
# </details>

# %%
per_head = [w_q[:, :3], w_q[:, 3:6], w_q[:, 6:]]
stacked = attnlib.stack_head_weights(per_head)
assert_close(stacked, w_q, atol=0, rtol=0)
one_product = x @ stacked  # (n, h d): all queries of all heads
for head, matrix in enumerate(per_head):
    assert_close(one_product[:, 3 * head : 3 * head + 3], x @ matrix, atol=1e-5, rtol=0)

# %% [markdown]
# ## Move the heads in front of the words
#
# One product gave $(b, n, h \cdot d)$. The attention function works on the last two axes and carries all axes in front
# along, as you made sure in lesson 02. So the heads need an axis of their own, *in front of* the words: $(b, h, n, d)$.
# Then one call serves all heads. A head is to attention what one more sentence in the batch is.
#
# Here is head 0 and head 1 of a sentence of three words and width 4. The first digit is the word, the second the
# column:
#
# | word | width 4 | head 0 | head 1 |
# | --- | --- | --- | --- |
# | 1 | 11 12 13 14 | 11 12 | 13 14 |
# | 2 | 21 22 23 24 | 21 22 | 23 24 |
# | 3 | 31 32 33 34 | 31 32 | 33 34 |
#
# ### Exercise: split the heads ({points}, 10 minutes)
#
# Write `split_heads(x, num_heads)`.
#
# - `x` is `(b, n, h·d)`, the result is `(b, h, n, d)`. Head `i` gets the `i`-th run of `d` neighbouring columns, of
#   every word.
# - Where `num_heads` does not divide the width, raise a `ValueError` that says both numbers. Not an assertion, and not
#   whatever torch happens to say.
# - The points: {parts}.
# - Not allowed: `attnlib.split_heads`.


# %%
def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(b, n, h·d) -> (b, h, n, d): head i gets the i-th run of d neighbouring columns."""
    ### BEGIN SOLUTION
    if x.shape[-1] % num_heads:
        raise ValueError(f"num_heads must divide the width, got {num_heads} and {x.shape[-1]}")
    return rearrange(x, "b n (h d) -> b h n d", h=num_heads)
    ### END SOLUTION


# %%
check("split_heads", split_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two steps: first the width becomes two axes, then the heads move forward. In which order must the two new axes stand,
# if neighbours in the width are to stay in the same head?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The einops pattern has the shape `"b n (… …) -> b … n …"`. Remember from lesson 01: in parentheses, the name on the
# right runs fastest. Without einops: a reshape to four axes that keeps the words second, then a transpose of two axes.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The error comes first: `%` tells whether a division leaves a rest. Then rearrange `b n (h d)` so that `h` stands
# before `n`, and tell einops how many heads there are with `h=num_heads`.
#
# </details>

# %% [markdown]
# With the heads in front, the loop is gone: one product for each of $q$, $k$ and $v$, and one call. The numbers are the
# loop's.

# %%
q, k, v = (attnlib.split_heads((x @ w)[None], 3) for w in (w_q, w_k, w_v))  # (b, h, n, d), b = 1
together, together_weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
assert_close(together_weights[0], heads, atol=1e-6, rtol=0)
assert_close(together[0], torch.stack(outputs), atol=1e-5, rtol=0)
print(tuple(q.shape), "->", tuple(together.shape))

# %% [markdown]
# ## Cut in the wrong place, and see who can no longer hear whom
#
# There is a shorter way to a tensor of shape $(b, h, n, d)$: `x.reshape(b, h, n, d)`. No transpose, no error, the right
# shape. It stands in published models. To see what it does, give the sentence its full stop: twelve tokens, nine
# columns, three heads.
#
# ### Predict, then run: a head made by reshape ({points}, 3 minutes)
#
# `x` is `(1, 12, 9)`. What is in head 0 of `x.reshape(1, 3, 12, 3)`?
#
# - **A**: the first three columns of all twelve words, as in `split_heads`
# - **B**: the first four words, with all their nine columns, each word cut into three rows
# - **C**: every third column of all twelve words
# - **D**: nothing: the numbers do not fit, and torch raises an error

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
# tells its word and its column, wherever it ends up.

# %%
stopped = [*tokens, "."]
numbered = torch.arange(12 * 9).reshape(1, 12, 9)  # word = number // 9, column = number % 9
right_head = rearrange(numbered, "b n (h d) -> h b n d", h=3)[0, 0]  # (n, d): split_heads
wrong_head = numbered.reshape(1, 3, 12, 3)[0, 0]
assert (right_head // 9).unique().tolist() == list(range(12))  # every word
assert (right_head % 9).unique().tolist() == [0, 1, 2]  # its first three columns
assert (wrong_head // 9).unique().tolist() == [0, 1, 2, 3]  # four words only
assert (wrong_head % 9).unique().tolist() == list(range(9))

# %%
_, axes = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained", width_ratios=(9, 6, 6))
titles = "x: words and their columns", "split_heads: head 0", "reshape: head 0"
for ax, title, table in zip(axes, titles, (numbered[0], right_head, wrong_head), strict=True):
    ax.imshow(table // 9, cmap="cividis", vmin=0, vmax=11, aspect="auto")
    for place, number in enumerate(table.flatten().tolist()):
        row, column = divmod(place, table.shape[1])
        label = f"{stopped[number // 9]} {number % 9}" if table.shape[1] == 3 else number % 9
        colour = "white" if number < 54 else "black"
        ax.text(column, row, label, ha="center", va="center", color=colour, fontsize=9)
    ax.set(title=title, xticks=[], xlabel="columns")
    ax.set_yticks(range(12), range(12))
axes[0].set_yticks(range(12), stopped)
plt.show()

# %% [markdown]
# The colour is the word. In the middle, every row is one word. On the right, head 0 has four words, each torn into
# three "words" of three columns, and it has never heard of the other eight. Its softmax shares attention among the
# pieces of words.
#
# What comes of it? Let us ask who can hear whom: does the output of word $i$ change when word $j$ changes? The
# derivative knows. Below, random weights and the full path, split and merged: on the left with transposes, on the right
# with `reshape` alone, both ways.

# %%
generator = torch.Generator().manual_seed(4)
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
    slopes = torch.autograd.functional.jacobian(attend, random_words)  # (n, d_model, n, d_model)
    return slopes.pow(2).sum(dim=(1, 3)).sqrt()


# %%
_, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
plain = {"values": False, "colorbar": False, "vmax": 1.2}
ways = {"with transpose": transposed, "reshape alone": reshaped}
for ax, (title, attend) in zip(axes, ways.items(), strict=True):
    reaction = hearing(attend)
    reaction[reaction == 0] = torch.nan  # what is exactly zero stays grey
    plot_attention(reaction, stopped, ax=ax, title=title, **plain)
    ax.set(ylabel="the output of …", xlabel="… reacts to")
plt.show()
apart = torch.block_diag(*[torch.ones(4, 4)] * 3) == 0  # pairs of words in different thirds
assert (hearing(transposed) > 0).all()  # everyone hears everyone
assert (hearing(reshaped)[apart] == 0).all()  # nobody hears the other thirds

# %% [markdown]
# Pale is little, grey is nothing at all. The sentence has come apart: *the animal did not* | *cross the street
# because* | *it was tired .* — the word *it* will never find its animal. Nothing crashes, and the loss falls, since
# four words are better than none.
#
# Mind one more thing. Splitting by `reshape` and merging by `reshape` are exact inverses. A test that only says "merge
# undoes split" passes. **A round trip proves nothing about what happens on the way.**

# %%
there_and_back = numbered.reshape(1, 3, 12, 3).reshape(1, 12, 9)
assert_close(there_and_back, numbered, atol=0, rtol=0)  # and yet both ways are wrong

# %% [markdown]
# ## Put the heads side by side again
#
# After attention each head has an output $(b, h, n, d)$. A word needs them in one row: what head 0 found, then what
# head 1 found, and so on. The paper calls this *Concat*.
#
# ### Exercise: merge the heads ({points}, 5 minutes)
#
# Write `merge_heads(x)`, the inverse of the right `split_heads`.
#
# - `x` is `(b, h, n, d)`, the result is `(b, n, h·d)`: head 0 on the left.
# - The points: {parts}.
# - Not allowed: `attnlib.merge_heads`.


# %%
def merge_heads(x: Tensor) -> Tensor:
    """(b, h, n, d) -> (b, n, h·d): for each word, what all heads found, side by side."""
    ### BEGIN SOLUTION
    return rearrange(x, "b h n d -> b n (h d)")
    ### END SOLUTION


# %%
check("merge_heads", merge_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go back the way that you came in `split_heads`: the last step first.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Before two axes can be joined, they have to be neighbours, in the right order. Which axis stands between `h` and `d`?
#
# </details>
# <details><summary>Hint 3</summary>
#
# With einops: the two sides of your pattern, exchanged. Without: transpose axes 1 and 2, then `reshape` to three axes.
# `view` refuses there, because a transpose moves no number in memory.
#
# </details>

# %% [markdown]
# One matrix is left. Head 0 writes into columns 0 to 2 and can write nowhere else. So the joined heads go through a
# last projection, $W^O$, which may mix them:
#
# $$\mathrm{MultiHead}(x) = \mathrm{Concat}(\mathrm{head}_0, \dots, \mathrm{head} _{h-1}) W^O \qquad
# \mathrm{head}_i = \mathrm{Attention}(x W_i^Q, x W_i^K, x W_i^V)$$
#
# These are the equations of section 3.2.2 of [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762). Cut $W^O$ into
# runs of rows, one for each head, and the same is a sum: $\sum_i \mathrm{head}_i W_i^O$. Each head adds its own
# contribution to the word, in all columns.

# %%
w_o = torch.randn(9, 9, generator=generator)
projected = attnlib.merge_heads(together) @ w_o  # (b, n, d_model)
contributions = [output @ w_o[3 * head : 3 * head + 3] for head, output in enumerate(outputs)]
assert_close(projected[0], sum(contributions), atol=1e-4, rtol=0)

# %% [markdown]
# Look at one contribution as a whole, and a head falls into two halves that can be read separately. Its weights $A_i$
# are made by $W_i^Q$ and $W_i^K$ alone: they say **from where to where**. What travels is made by $W_i^V$ and $W_i^O$
# alone: they say **what**, and they only ever meet as one product:
#
# $$\mathrm{head}_i W_i^O = A_i x (W_i^V W_i^O)$$

# %%
w_vo = [w_v[:, 3 * head : 3 * head + 3] @ w_o[3 * head : 3 * head + 3] for head in range(3)]
moved = [shares @ x @ what for shares, what in zip(heads, w_vo, strict=True)]  # each (n, d_model)
assert_close(torch.stack(moved), torch.stack(contributions), atol=1e-4, rtol=0)
assert [torch.linalg.matrix_rank(what).item() for what in w_vo] == [3, 3, 3]

# %% [markdown]
# The product $W_i^V W_i^O$ is $(9, 9)$, but its rank is 3: whatever a head carries has to fit through $d = 3$ numbers.
# The same holds for $W_i^Q (W_i^K)^\top$, with which a head compares two words.

# %% [markdown]
# ## Count what the heads cost
#
# ### Predict, then run: eight heads or one ({points}, 3 minutes)
#
# A model is 512 wide. One version has a single head of width 512, the other has 8 heads of width 64. Count the weights
# in $W^Q$, $W^K$, $W^V$ and $W^O$ of all heads. The version with 8 heads has …
#
# - **A**: eight times as many: every head has its own three matrices
# - **B**: as many
# - **C**: an eighth of the first three: a head works on only 64 of the 512 columns of the word
# - **D**: as many in the first three, but eight times as many in $W^O$, which has to take in all heads

# %%
### BEGIN SOLUTION
head_parameters = "B"
### BEGIN STUB
# head_parameters = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_head_parameters", head_parameters)

# %%
counts, sizes = {}, []
for num_heads in (1, 8, 64):
    attention = attnlib.MultiHeadAttention(512, num_heads, bias=False)
    counts[num_heads] = sum(parameter.numel() for parameter in attention.parameters())
    shares = attention(torch.zeros(1, 11, 512), return_weights=True)[1]
    size = f"{num_heads} × {512 // num_heads}"
    sizes.append(f"{size}: {counts[num_heads]} weights, {shares.numel()} shares")
print(*sizes, sep="\n")
assert counts == dict.fromkeys((1, 8, 64), 4 * 512 * 512)

# %% [markdown]
# The weights are the same, and so is the number of multiplications: the width is shared out, not multiplied. Only the
# *shares* grow, $h \cdot n^2$ of them, one table for each head. What you pay is width: with 64 heads a query has only
# eight numbers to ask with.
#
# The division $d = d_{model} / h$ is a habit, not a law. $d$ may be anything, since $W^O$ brings $h \cdot d$ back to
# $d_{model}$. So it is an argument of the module.
#
# ### Exercise: write multi-head self-attention ({points}, 20 minutes)
#
# Write `MultiHeadSelfAttention(d_model, num_heads, d_head=None, bias=True)`.
#
# - Four `nn.Linear` layers: `w_q`, `w_k`, `w_v` from `d_model` to `num_heads * d_head`, and `w_o` back to `d_model`.
#   `bias` decides for all four. No other parameters; the check gives them its own values.
# - Without `d_head`, a head is `d_model // num_heads` wide. Where that leaves a rest, the constructor raises a
#   `ValueError`.
# - `forward(x)` takes `(b, n, d_model)` and returns the output `(b, n, d_model)` and the weights of each head,
#   `(b, h, n, n)`.
# - Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention` and `attnlib`'s attention. Allowed: your own
#   functions of lessons 02 and 03, and `attnlib.split_heads` and `attnlib.merge_heads`, should yours not be ready.
# - The points: {parts}. The options are `d_head` and `bias`.


# %%
class MultiHeadSelfAttention(nn.Module):
    """Several heads: x (b, n, d_model) -> output (b, n, d_model), weights (b, h, n, n)."""

    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True):
        super().__init__()
        ### BEGIN SOLUTION
        if d_head is None:
            if d_model % num_heads:
                raise ValueError(f"num_heads must divide d_model, got {num_heads} and {d_model}")
            d_head = d_model // num_heads
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, num_heads * d_head, bias=bias) for _ in range(3))
        self.w_o = nn.Linear(num_heads * d_head, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        q, k, v = (split_heads(layer(x), self.num_heads) for layer in (self.w_q, self.w_k, self.w_v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)
        return self.w_o(merge_heads(weights @ v)), weights
        ### END SOLUTION


# %%
check("MultiHeadSelfAttention", MultiHeadSelfAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `forward` is five steps, and you have written each of them: project, split, attend, merge, project. Write the shape
# beside each line.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The layers keep the heads side by side, so `w_q` is one layer for all heads, and `split_heads` cuts its *output*,
# never `x`. The scale is the root of what one head's queries are wide, *after* the split.
#
# </details>
# <details><summary>Hint 3</summary>
#
# In `__init__`: settle `d_head` first (error, default), keep `num_heads`, make four layers. In `forward`: three split
# projections; scores from `q` and `k` with their last two axes; softmax over the last axis; weights times `v`; merge;
# `w_o`. Return that and the weights.
#
# </details>

# %% [markdown]
# ## Climb the ladder: six forms, one result
#
# You will meet multi-head attention in many forms. They are the same function, and you can prove it: take random
# sentences and random weights, different sizes on every axis, and assert each rung equal to the one below. First rung:
# **a loop over heads**, as above.

# %%
b, n, h, d, d_model = 2, 11, 3, 5, 15
generator = torch.Generator().manual_seed(7)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64) * shape[-2] ** -0.5


batch = torch.randn(b, n, d_model, generator=generator, dtype=torch.float64)
# twice as large, so that no row of shares comes out even
heads_q, heads_k, heads_v = ([2 * draw(d_model, d) for _ in range(h)] for _ in range(3))
w_o = draw(h * d, d_model)

found = []
for matrices in zip(heads_q, heads_k, heads_v, strict=True):
    q, k, v = (batch @ matrix for matrix in matrices)  # each (b, n, d): one head
    found.append(attnlib.scaled_dot_product_attention(q, k, v, return_weights=True))
loop_output = torch.cat([output for output, _ in found], dim=-1) @ w_o
loop_weights = torch.stack([weights for _, weights in found], dim=1)  # (b, h, n, n)

# %% [markdown]
# Second rung: **stacked matrices**. One product for all heads, then split, attend, merge. Beside it the third: **one
# fused product** for queries, keys and values of all heads.

# %%
w_q, w_k, w_v = (attnlib.stack_head_weights(matrices) for matrices in (heads_q, heads_k, heads_v))
q, k, v = (attnlib.split_heads(batch @ w, h) for w in (w_q, w_k, w_v))
output, weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
stacked_output = attnlib.merge_heads(output) @ w_o
assert_close(stacked_output, loop_output, atol=1e-12, rtol=0)
assert_close(weights, loop_weights, atol=1e-12, rtol=0)

w_qkv = torch.cat([w_q, w_k, w_v], dim=-1)  # (d_model, 3 h d)
fused = (batch @ w_qkv).chunk(3, dim=-1)
for one_of_fused, one_of_stacked in zip(fused, (q, k, v), strict=True):
    assert_close(attnlib.split_heads(one_of_fused, h), one_of_stacked, atol=1e-12, rtol=0)

# %% [markdown]
# Fourth rung: **einops** alone. Cutting three ways and moving the heads is one pattern, and the pattern is the comment.

# %%
q, k, v = rearrange(batch @ w_qkv, "b n (three h d) -> three b h n d", three=3, h=h)
scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / d**0.5
mixed = torch.einsum("bhqk,bhkd->bhqd", scores.softmax(dim=-1), v)
einops_output = rearrange(mixed, "b h n d -> b n h d").flatten(start_dim=2) @ w_o
assert_close(einops_output, stacked_output, atol=1e-12, rtol=0)

# %% [markdown]
# Fifth: PyTorch's function, **`F.scaled_dot_product_attention`**. It is fast, and it does not hand out the weights.

# %%
torch_output = attnlib.merge_heads(F.scaled_dot_product_attention(q, k, v)) @ w_o
assert_close(torch_output, einops_output, atol=1e-12, rtol=0)

# %% [markdown]
# Last: PyTorch's module, **`nn.MultiheadAttention`**. Its traps are in the arguments. It wants `batch_first=True` for
# our axes, it takes queries, keys and values as three inputs, and it averages the weights over the heads unless it is
# told not to. Its matrices are transposed, as in every `nn.Linear`, and packed into one `in_proj_weight`,
# $(3 \cdot h \cdot d, d_{model})$.

# %%
theirs = nn.MultiheadAttention(d_model, h, bias=False, batch_first=True, dtype=torch.float64)
theirs.load_state_dict({"in_proj_weight": w_qkv.T, "out_proj.weight": w_o.T})
module_output, module_weights = theirs(batch, batch, batch, average_attn_weights=False)
assert_close(module_output, torch_output, atol=1e-12, rtol=0)
assert_close(module_weights, loop_weights, atol=1e-12, rtol=0)

ours = attnlib.MultiHeadAttention(d_model, h, bias=False).double()
layers = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
ours.load_state_dict({f"{name}.weight": w.T for name, w in layers.items()})
assert_close(ours(batch), module_output, atol=1e-12, rtol=0)
print("loop = stacked = fused = einops = scaled_dot_product_attention = nn.MultiheadAttention")

# %% [markdown]
# ## Tell the dialects apart
#
# The ladder had one silent condition: every form read the packed columns in the same order. People have packed them in
# different ones. Each order is fine for the model that was trained with it. In einops notation, slowest axis first:
#
# | packing | where | reading from left to right |
# | --- | --- | --- |
# | `(h d)`, three matrices | this course, and most language models since LLaMA | head 0, head 1, …; q, k, v apart |
# | `(3 h d)` | `nn.MultiheadAttention`, GPT-2, timm's vision transformers | all of q, of k, of v, each head by head |
# | `(d k h)`, `k` = 3 | a sibling of the tutorial in lesson 01 | number 0 of each head's q, k and v; then number 1 |
#
# The last one is from
# [this file](https://github.com/The-AI-Summer/self-attention-cv/blob/main/self_attention_cv/transformer_vanilla/mhsa.py).
# For two heads of width 3, the eighteen columns of one packed matrix:

# %%
packings = {"(3 h d)": "(k h d)", "(d k h)": "(d k h)"}
ids = torch.arange(18)  # 6 of q, 6 of k, 6 of v; inside, head 0, then head 1
colours = ListedColormap(["#9ecae1", "#fdd0a2", "#e0e0e0"])  # q, k, v
_, axes = plt.subplots(2, 1, figsize=(11, 2.6), layout="constrained")
for ax, (name, pattern) in zip(axes, packings.items(), strict=True):
    row = rearrange(ids, f"(k h d) -> {pattern}", k=3, h=2)
    ax.imshow(row[None] // 6, cmap=colours, aspect="auto")
    for column, number in enumerate(row.tolist()):
        label = f"{'qkv'[number // 6]}\nhead {number // 3 % 2}\nno. {number % 3}"
        ax.text(column, 0, label, ha="center", va="center")
    ax.set(xticks=[], yticks=[])
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()
assert rearrange(ids, "(k h d) -> (d k h)", k=3, h=2)[:6].tolist() == [0, 3, 6, 9, 12, 15]

# %% [markdown]
# The same columns, the same mathematics, another order. One `rearrange` brings the weights from one house to another:


# %%
def attend_packed(w_packed: Tensor, packing: str) -> Tensor:
    """The rest of the model, for packed weights whose columns are in the order `packing`."""
    q, k, v = rearrange(batch @ w_packed, f"b n {packing} -> k b h n d", k=3, h=h)
    return attnlib.merge_heads(attnlib.scaled_dot_product_attention(q, k, v)) @ w_o


w_khd = w_qkv  # the fused matrix of the ladder
w_dkh = rearrange(w_khd, "d_model (k h d) -> d_model (d k h)", k=3, h=h)
assert_close(attend_packed(w_khd, "(k h d)"), loop_output, atol=1e-12, rtol=0)
assert_close(attend_packed(w_dkh, "(d k h)"), loop_output, atol=1e-12, rtol=0)

misread = attend_packed(w_khd, "(d k h)")  # the right weights, read in the other house's order
assert misread.shape == loop_output.shape
relation = torch.corrcoef(torch.stack([misread.flatten(), loop_output.flatten()]))[0, 1]
assert relation.abs() < 0.5
print(f"no error, the right shape, and a correlation of {relation:.2f} with the right output")

# %% [markdown]
# No shape, no dtype and no norm of a weight can tell these apart. Only numbers can: run one sentence through both
# models and compare. That is how careful people port weights, and how every form on the ladder was compared.

# %% [markdown]
# ## Find the fault
#
# ### Mend: heads in the batch ({points}, 10 minutes)
#
# Early code folded the heads into the batch: $(h \cdot b, n, d)$, one long batch for `torch.bmm`. This is right, and
# fast. Then it has to be unfolded. The line for `outputs` below stood in one of the first and most copied transformers
# in PyTorch; a reader [asked](https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/7), and a day
# later it was mended. Others had its siblings ([a tutorial](https://github.com/jsbaan/transformer-from-scratch/pull/6),
# [a library](https://github.com/reczoo/FuxiCTR/issues/30)). The line for `weights` is the same slip a second time.
#
# - `x` is `(b, n, d_model)`; `w_q`, `w_k`, `w_v` are `(d_model, h·d)`, packed `(h d)`; `w_o` is `(h·d, d_model)`.
# - It must return what multi-head attention returns: output `(b, n, d_model)` and weights `(b, h, n, n)`.
# - The fold is right, and so is the attention. Two lines after it are not.
# - Not allowed: a finished attention, PyTorch's or `attnlib`'s.


# %%
def mend_multi_head(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> tuple[Tensor, Tensor]:
    """x (b, n, d_model), matrices, num_heads -> output (b, n, d_model), weights (b, h, n, n)."""
    q, k, v = (rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1)  # (h b, n, n)
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
# `reshape(b, h, …)` reads the first axis as if the sentence ran slowest. The fold says `(h b)`. And in the other line,
# which axis has to move before heads and numbers can be joined?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Both lines become a `rearrange` whose left side begins with `(h b)`, and which is told `h`. On the right of the first
# stand the batch, the words, and the heads joined in the packing that the bullets name; on the right of the second
# stand four axes in the contract's order.
#
# </details>

# %% [markdown]
# With one sentence in the batch, the weights were right all along. A test with a batch of one would have passed them.
# "Why did the training test still pass?" asks the author of the tutorial linked above. Probably, he says, the task was
# too easy, and the scrambling is always the same, so a model with weights to spare learns its way around it. A falling
# loss is no proof of a right model.

# %% [markdown]
# ## What you can now do
#
# - Say what a second head can do that one head cannot, and show it with two numbers.
# - Split and merge heads, and explain with a picture why `reshape` alone takes the sentence apart.
# - Write multi-head self-attention with free head width, and count what it costs.
# - Show six forms of it equal, PyTorch's module among them.
# - Recognise `(h d)`, `(3 h d)` and `(d k h)`, and carry weights from one to another.
#
# ## Think further
#
# 1. Exchange head 0 and head 1: their columns in $W^Q$, $W^K$ and $W^V$. What happens to the output? What must you do
#    to $W^O$ to undo it? What does this say about the names "head 0" and "head 1"?
# 2. Some published code cuts $x$ itself into heads and then uses one small matrix for all of them. Which matrix $W^Q$
#    would do the same in our form? Could *it* still ask both of its questions?
# 3. In the picture of the clock, the first word shares itself between two wrong places. What could you add to the
#    sentence, so that "nobody" is an answer? (Many models have a token that collects such looks.)
#
# **Next:** 04 lets the queries come from one sequence, and keys and values from another.
