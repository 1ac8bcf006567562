# %% [markdown]
# # 01 · Queries, keys and values: let every word ask
#
# *The animal did not cross the street because it was tired.* You know at once what *it* is. You looked back into the
# sentence, at the right word, for the right reason. This lesson builds the three vectors a network needs to do the
# same.
#
# | | |
# | --- | --- |
# | **You will build** | a recurrent network, vectors by counting, `project_qkv`, and `QKVProjection` |
# | **You will understand** | why attention was invented, what q, k and v do, how three products become one |
# | **You need** | lesson 00 (named axes, `einsum`, the dot product) and a pencil |
# | **Time** | core 60 minutes, everything 2 hours 10 minutes ([symbols](00_start_here.ipynb#Symbols)) |
#
# The measurement of forgetting runs on *your* recurrent network once it passes its check. The exercises allow anything
# in torch, einops and `attnlib`, except `attnlib`'s function of the same name. Cells that only draw are folded; a click
# opens them.

# %%
import random
from collections import Counter, defaultdict

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.plot import (
    ACCENT,
    GREY,
    INK,
    PALE,
    Arrow,
    Box,
    plot_boxes,
    show,
    use_style,
)

use_style()

tired = "The animal did not cross the street because it was tired".lower().split()
wide = "The animal did not cross the street because it was wide".lower().split()

# %% [markdown]
# ## Watch word-by-word translation fail · core
#
# Translate the two sentences into German. German nouns have a gender, and *it* must agree with its noun. The animal is
# *das Tier*, so *it* is *es*; the street is *die Straße*, so *it* is *sie*. English hides this choice. German forces
# you to make it. (Both the pair of sentences and the idea of translating it are from [Google's
# announcement](https://research.google/blog/transformer-a-novel-neural-network-architecture-for-language-understanding/)
# of the transformer.)
#
# The cell pairs each English word with the German one a person chose (in English order; *did* needs none). Suppose a
# translator were a dictionary, from one word to one word. Which words could it never get right in both sentences?

# %%
template = "das Tier – nicht überquerte die Straße weil {} war {}"
german_tired = template.format("es", "müde").split()
german_wide = template.format("sie", "breit").split()

translations: dict[str, Counter[str]] = defaultdict(Counter)
for english, german in zip(tired + wide, german_tired + german_wide, strict=True):
    translations[english][german] += 1

{word: dict(found) for word, found in translations.items() if len(found) > 1}

# %%
# the best choice for each word
best = [max(found.values()) for found in translations.values()]
right = sum(best)
assert (right, len(tired + wide)) == (19, 22)
print(f"The best possible dictionary gets {right} of {len(tired + wide)} words right.")

# %% [markdown]
# The three it gets wrong are *the*, twice, and *it*. A larger dictionary wouldn't help. How to translate these two
# depends on the words around them, and the word that decides may be far away. *it* needs *animal*, seven words back,
# and *tired*, two words ahead. (A real translation also changes the order: *Das Tier überquerte die Straße nicht, weil
# es müde war.*)
#
# ## Watch a fixed-width state forget · core
#
# How could a translator take the context into account? Before attention, the answer was a recurrent network. It reads
# one word after another and folds each one into a *state*, a vector of fixed width. After the last word, the state is
# all the translator gets to see:
#
# $$s_t = \tanh(s_{t-1} W + x_t), \qquad s_0 = 0$$
#
# Here $x_t$ is the vector of word $t$, and $W$ is a matrix, the same at every step. A trained network has learned it;
# below it's random.
#
# ### Exercise: read word by word ({points}, difficulty 2, 10 minutes)
#
# Write `recurrent_states(x, w)`, which returns the state after each word; the experiment below runs on it. First with a
# pencil. A state is one number wide, $W = (2)$, and the words are $0.5$ and $-1$. What are the two states, and what
# would they be if the words came in the other order?
#
# - `x` is `(b, n, d)`, n words for each sentence. `w` is `(d, d)`. The result is `(b, n, d)`.
# - The state starts as zeros. A word is added as it is; only the state is multiplied.
# - As always. You'll want a loop over the words, because each state needs the one before.


# %%
def recurrent_states(x: Tensor, w: Tensor) -> Tensor:
    """Words (b, n, d), a matrix (d, d) -> the state after each word (b, n, d)."""
    ### BEGIN SOLUTION
    state = torch.zeros_like(x[:, 0])
    states = []
    for position in range(x.shape[1]):
        state = torch.tanh(state @ w + x[:, position])
        states.append(state)
    return torch.stack(states, dim=1)
    ### END SOLUTION


# %%
check("recurrent_states", recurrent_states)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# One variable holds the state, one list collects the states. Before the loop, the state is `(b, d)` and all zeros. How
# do you make zeros with the dtype and the device of `x`?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The words are on axis 1, so `x[:, t]` is word t of every sentence, `(b, d)`. `for word in x` would go through the
# sentences.
#
# </details>
# <details><summary>Hint 3</summary>
#
# In the loop, take the state times `w`, plus the word, and tanh of the sum. Append it. At the end call `torch.stack`
# with `dim=1`, so that the batch stays in front.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# $\tanh(0.5) = 0.46$, then $\tanh(0.92 - 1) = -0.08$. The other way round, $\tanh(-1) = -0.76$, then
# $\tanh(-1.52 + 0.5) = -0.77$. A recurrent network knows the order of its words, and it has to wait for each of them.
#
# </details>

# %% [markdown]
# How much of the sentence can still be read from the last state? Measure it. Feed the network thousands of strings of
# 11 random words (no word can then be guessed from its neighbours), and fit a linear reader (by least squares), which
# reads as a layer of a network does. It guesses from the state which word was at each position.

# %%
# nbval-ignore-output: it says whose function is used, and that differs for a student
read = yours_or_ours("recurrent_states", globals())
pencil = read(torch.tensor([[[0.5], [-1.0]], [[-1.0], [0.5]]]), torch.tensor([[2.0]]))
assert_close(
    pencil[..., 0], torch.tensor([[0.46, -0.08], [-0.76, -0.77]]), rtol=0, atol=6e-3
)


# %%
seed = 0


def read_words(word_ids: Tensor, width: int) -> Tensor:
    """(b, n) -> (n, b, width): a random recurrent network's state after each word."""
    generator = torch.Generator().manual_seed(1 + seed)
    table = torch.randn(11, width, generator=generator)
    noise = torch.randn(width, width, generator=generator)
    weight = torch.linalg.qr(noise).Q  # turns the state, keeps its length
    return rearrange(read(table[word_ids], weight), "b n d -> n b d")


def recall(states: Tensor, ids: Tensor) -> float:
    """How often the reader is right: fitted on 4000 strings, counted on 1000 others."""
    states = F.pad(states, (0, 1), value=1.0)  # a column of ones: the reader's bias
    wanted = F.one_hot(ids[:4000], 11).float()
    reader = torch.linalg.lstsq(states[:4000], wanted).solution
    return ((states[4000:] @ reader).argmax(-1) == ids[4000:]).float().mean().item()


# %% [markdown]
# Predict. The reader gets only the *last* state, of width 8, 32 or 128. Which positions of the sentence will it still
# know? A blind guess is right one time in 11. And how much does it help to make the state four times as wide?

# %%
# nbval-ignore-output: a share near one half may be counted either way on another machine
generator = torch.Generator().manual_seed(2 + seed)
word_ids = torch.randint(11, (5000, 11), generator=generator)
# each (n, b, width)
states = {width: read_words(word_ids, width) for width in (8, 32, 128)}
last_state = {
    width: [recall(states[width][-1], ids) for ids in word_ids.T] for width in states
}
all_states = [
    recall(state, ids) for state, ids in zip(states[32], word_ids.T, strict=True)
]

known = {
    width: sum(share > 0.5 for share in shares) for width, shares in last_state.items()
}
print("positions known more often than not:", known)
assert known[8] < known[32] < known[128] < 7  # wider helps, and not by much
assert last_state[32][10] > 0.99  # the last word is known
assert last_state[32][1] < 0.2  # the position of “animal” is little better than a guess
assert min(all_states) > 0.99  # while each word was known when it had just been read

# %%
ax = plt.figure(figsize=(7.5, 3.6), layout="constrained").gca()
ax.plot(
    all_states,
    color=ACCENT,
    linestyle="--",
    marker="s",
    label="every state kept, width 32",
)
for width, colour, marker in ((128, INK, "^"), (32, "#6baed6", "o"), (8, GREY, "v")):
    label = f"last state only, width {width}"
    ax.plot(last_state[width], color=colour, marker=marker, label=label)
ax.axhline(1 / 11, color=GREY, linestyle=":", linewidth=1, label="guessing")
ax.set_xticks(range(11), tired, rotation=30, ha="right")
ax.set(
    xlabel="position in the sentence", ylabel="share of words recalled", ylim=(0, 1.05)
)
ax.set_title("The last state hides the start; keep every state and nothing is lost")
ax.legend(bbox_to_anchor=(1.01, 1), loc="upper left")
show(
    "The share of words recalled at each of eleven positions. From the last state "
    "alone, only the last one, three or five words are known, for widths 8, 32 and "
    "128. With every state kept, all words are."
)

# %% [markdown]
# The newest words bury the oldest. Four times the width buys about two more words, so a wider state only moves the
# wall. (They're buried, not gone. If you know $W$ and the eleven vectors, you can undo the steps one by one: at width
# 8, from four starts, we got eight or nine of the eleven positions right more often than not. But every step undone
# magnifies the rounding, and no linear layer can do it.) A trained network is better at choosing what to keep, but it
# runs into the same wall, because the state has a fixed width and sentences don't. (Bahdanau, Cho and Bengio saw this
# in 2014 in a trained translator, whose quality fell as sentences grew longer. Their remedy was attention.)
#
# The dashed line is the way out. **Every word was known right after it had been read. So keep the vectors of all words,
# and let a word that needs another one look it up.** All that's left to invent is the look-up.
#
# ## Look something up softly · core
#
# A Python dictionary is a hard look-up. The key must match exactly, and one value comes back. A network needs a *soft*
# one, in which every key matches a little, every value comes back a little, and gradients flow through all of it. There
# are three roles.
#
# | role | it says | for *it*, in our sentence |
# | --- | --- | --- |
# | **query** | what I look for | a thing that can be tired |
# | **key** | what I offer, so that others can find me | *animal*: I can be tired. *street*: I can be wide. |
# | **value** | what I bring back to the word that found me | *animal*: say *es*. *street*: say *sie*. |
#
# How well a query fits a key is a dot product. Divide the scores by their sum, and they become shares. The answer is
# the values, mixed in these shares. Queries and keys need the same width, $d_k$; the values may have another, $d_v$.
# With numbers made by hand:
#
# $$\text{answer} = \sum_j \frac{q \cdot k_j}{\sum_i q \cdot k_i} v_j$$

# %%
# rows: animal, street
# columns of the keys: can be tired, can be wide; of the values: es, sie
keys = torch.tensor([[3.0, 1.0], [1.0, 3.0]])  # (k, d_k)
values = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # (k, d_v)


def look_up(query: Tensor) -> Tensor:
    """(d_k) -> (d_v): the values, mixed by how well the query fits their keys."""
    scores = einsum(query, keys, "d_k, k d_k -> k")
    return einsum(scores / scores.sum(), values, "k, k d_v -> d_v")


print("what can be tired:", look_up(torch.tensor([1.0, 0.0])).tolist())
print("what can be wide: ", look_up(torch.tensor([0.0, 1.0])).tolist())

# %% [markdown]
# Do the first one by hand. The scores are 3 and 1, the shares 0.75 and 0.25, so the answer is three parts *es* and one
# part *sie*.

# %%
asks = torch.tensor([1.0, 0.0])
fit = keys @ asks
nouns, kinds, words = ["animal", "street"], ["tired", "wide"], ["es", "sie"]
boxes = [
    Box(name="query of it", at=(0, 0), value=asks, columns=kinds),
    Box(name="keys", at=(0, 1), value=keys, rows=nouns, columns=kinds),
    Box(name="values", at=(0, 2), value=values, rows=nouns, columns=words),
    Box(name="scores", at=(1, 0.5), value=fit, columns=nouns),
    Box(name="shares", at=(2, 0.5), value=fit / fit.sum(), columns=nouns, accent=True),
    Box(name="answer", at=(3, 1), value=look_up(asks), columns=words),
]
arrows = [
    Arrow(start="query of it", end="scores", label="q · k"),
    Arrow(start="keys", end="scores"),
    Arrow(start="scores", end="shares", label="÷ sum"),
    Arrow(start="shares", end="answer", label="mix"),
    Arrow(start="values", end="answer"),
]
plot_boxes(boxes, arrows, title="A soft look-up: three parts “es”, one part “sie”")
show(
    "Boxes and arrows: the query (1, 0) and the keys (3, 1) and (1, 3) give the "
    "scores 3 and 1, the shares 0.75 and 0.25, and with the values the answer: 0.75 "
    "es, 0.25 sie."
)

# %% [markdown]
# That's attention, with two things missing. The shares should be made with a softmax, which lesson 02 adds. And nobody
# writes queries, keys and values by hand. **Each word's vector makes all three, with three learned matrices.** You
# build these now.
#
# Here is the idea in the same numbers. Let a noun's vector be (can be tired, can be wide, takes *es*, takes *sie*). Its
# width is called $d_{model}$, here 4. One matrix picks what matters for being found, another what's worth bringing
# back, and out come the keys and values from above.

# %%
# (k, d_model)
animal_and_street = torch.tensor([[3.0, 1.0, 1.0, 0.0], [1.0, 3.0, 0.0, 1.0]])
# (d_model, d_k)
make_key = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
# (d_model, d_v)
make_value = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])

made_keys = einsum(animal_and_street, make_key, "k d_model, d_model d_k -> k d_k")
made_values = einsum(animal_and_street, make_value, "k d_model, d_model d_v -> k d_v")
assert_close(made_keys, keys, rtol=0, atol=0)
assert_close(made_values, values, rtol=0, atol=0)

# %% [markdown]
# ## Turn the sentence into vectors · core
#
# A network has no words, only numbers. So every word of the vocabulary gets a number, its *token id*, and the ids of a
# sentence select rows from a table with one row for each token. (`<unk>` stands for every word outside the vocabulary.
# Real tokenizers cut rare words into pieces instead; nothing below changes.)

# %%
vocabulary = ["<unk>", *sorted(set(tired + wide))]
to_id = {token: number for number, token in enumerate(vocabulary)}
numbers = [[to_id[word] for word in sentence] for sentence in (tired, wide)]
token_ids = torch.tensor(numbers)  # (b, n)
print(to_id)
print(token_ids)

# %% [markdown]
# Our table is random, drawn once with a fixed seed. Its numbers mean nothing yet; training gives them meaning. We keep
# it small, `d_model` = 6 numbers for each word. An integer tensor is a legal index, and the result has the index's axes
# in front:
#
# $$x_{b,n} = \text{table}[\text{id}_{b,n}]$$

# %%
generator = torch.Generator().manual_seed(0)
d_model, d_k, d_v = 6, 4, 5
# (vocabulary, d_model)
table = torch.randn(len(vocabulary), d_model, generator=generator)
x = table[token_ids]  # (b, n, d_model)
print(tuple(token_ids.shape), "ids,", tuple(table.shape), "table,", tuple(x.shape), "x")
differs = (x[0] != x[1]).any(dim=-1)  # (n)
assert differs.tolist() == 10 * [False] + [True]  # only “tired” and “wide”
assert torch.equal(x[0, 0], x[0, 5])  # both “the”

# %% [markdown]
# A token has one vector, wherever it is. The two vectors for *the* are equal, and the two sentences differ only in
# their last row. In particular *it* has the same six numbers in both, although it means two different things.
#
# How does such a table learn? Write a token as a *one-hot* vector, a 1 at its id and 0 elsewhere. Multiplied by the
# table, it selects one row. So the table, known as an *embedding*, is a linear layer without a bias whose input happens
# to be one-hot. The look-up merely saves the multiplications by zero. With a pencil: the table has the rows $(1, 2)$,
# $(3, 4)$ and $(5, 6)$, the ids are $(2, 0, 2)$, and the loss is the sum of everything that comes out. What's the
# gradient of the table?
#
# <details><summary>What the pencil should say</summary>
#
# Each use of a row adds 1 to each of its gradients, so row 0 gets $(1, 1)$, row 2 gets $(2, 2)$, and row 1, which
# wasn't used, gets $(0, 0)$. That's why rare words learn slowly.
#
# </details>

# %%
one_hot = F.one_hot(token_ids, len(vocabulary)).float()  # (b, n, vocabulary)
by_product = einsum(one_hot, table, "b n vocabulary, vocabulary d_model -> b n d_model")
assert_close(x, by_product, rtol=0, atol=0)

small_table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
small_table[torch.tensor([2, 0, 2])].sum().backward()
print(small_table.grad.tolist())
assert small_table.grad.tolist() == [[1, 1], [0, 0], [2, 2]]

# %% [markdown]
# ## Make three vectors out of one · core
#
# Each word's vector $x_n$ (a row of $X$) is multiplied by three matrices. They are the same for all words, and training
# shapes them so that queries find the keys that help:
#
# $$Q = X W^Q \qquad K = X W^K \qquad V = X W^V$$
#
# (Papers write capitals for all words at once. Code has small letters, and so do the formulas beside it: $q = x W^Q$.)
#
# Queries and keys meet in a dot product, so they share a width, $d_k$. Values never meet either of them, so their width
# $d_v$ is free. Before the matrix form, one query by hand. Each of its 4 numbers is the dot product of the word with a
# column of $W^Q$.

# %%
# over √d_model, so that the products are about as large as x
w_q = torch.randn(d_model, d_k, generator=generator) / d_model**0.5
w_k = torch.randn(d_model, d_k, generator=generator) / d_model**0.5
w_v = torch.randn(d_model, d_v, generator=generator) / d_model**0.5

it = x[0, tired.index("it")]  # (d_model)
one_by_one = [
    sum(it[m] * w_q[m, column] for m in range(d_model)) for column in range(d_k)
]
query_of_it = torch.stack(one_by_one)
query_of_it

# %% [markdown]
# ### Predict, then run: what does *it* ask for? ({points}, difficulty 2, 3 minutes)
#
# In the first sentence *it* is the animal, in the second the street. We project both sentences to `q`, `k` and `v` for
# every word. **Compare the query of *it* in the first sentence with the query of *it* in the second.**
#
# - **A**: They are the same four numbers, because the same row of the table is multiplied by the same matrix.
# - **B**: They differ, because the sentences go on differently, and *tired* and *wide* make *it* look for different
#   things.
# - **C**: They differ, because a matrix product mixes all the rows of $X$, and the last row is different.
# - **D**: Here they are the same, but only because our matrices are random. With trained matrices they would differ.

# %%
### BEGIN SOLUTION
two_queries = "A"
### BEGIN STUB
# two_queries = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_query_of_it", two_queries)

# %% [markdown]
# The three products can be computed as one. Column $j$ of a product depends on column $j$ of the right-hand matrix and
# on no other. So put the three matrices side by side, multiply once, and cut the result. $X$ is read once instead of
# three times, which is why GPT-2 and many models since store their weights like this:
#
# $$X [W^Q \mid W^K \mid W^V] = [X W^Q \mid X W^K \mid X W^V]$$
#
# In the picture, follow the one orange number of $K$. It depends on the row of *it* in $X$ and on one column of $W^K$,
# and on nothing else.

# %%
_, ax = plt.subplots(figsize=(8, 6), layout="constrained")
left, top, word = 8, 8, tired.index("it")
parts = (
    ("$W^Q$", "$Q$", "d_k", 4),
    ("$W^K$", "$K$", "d_k", 4),
    ("$W^V$", "$V$", "d_v", 5),
)
outline = {"facecolor": PALE, "edgecolor": INK, "linewidth": 1.5}
marked = {"facecolor": ACCENT, "alpha": 0.75}
ax.add_patch(plt.Rectangle((0, top), 6, 11, **outline))
ax.text(3, top + 5.5, "$X$", ha="center", fontsize=16)
for weight, result, name, width in parts:
    ax.add_patch(plt.Rectangle((left, 0), width, 6, **outline))
    ax.add_patch(plt.Rectangle((left, top), width, 11, **outline))
    ax.text(left + width / 2, 3, weight, ha="center", va="center", fontsize=16)
    ax.text(left + width / 2, top + 5.5, result, ha="center", fontsize=16)
    ax.text(left + width / 2, top + 11.9, f"{name} = {width}", ha="center", color=GREY)
    left += width
ax.add_patch(plt.Rectangle((0, top + word), 6, 1, **marked))
ax.add_patch(plt.Rectangle((15, 0), 1, 6, **marked))
ax.add_patch(plt.Rectangle((15, top + word), 1, 1, **marked))
ax.text(3, top + 11.9, "d_model = 6", ha="center", color=GREY)
ax.text(21.4, 3, "d_model = 6", va="center", color=GREY)
ax.text(21.4, top + 5.5, "n = 11", va="center", color=GREY)
ax.set(xlim=(-0.2, 25), ylim=(20.5, -0.5), aspect="equal", xticks=[])
ax.set_yticks([top + i + 0.5 for i in range(11)], tired)
ax.tick_params(length=0)
for side in ax.spines.values():
    side.set_visible(False)
ax.set_title("One product makes all three: a row of X meets a column of W")
show(
    "X, eleven words by six numbers, at the lower left. Above the result, six rows "
    "by thirteen columns: the matrices for queries, keys and values side by side. "
    "The row of it in X and one column of the key matrix are marked, and so is the "
    "one number of K where they meet."
)

# %% [markdown]
# ### Exercise: project to queries, keys and values ({points}, difficulty 2, 15 minutes)
#
# Write `project_qkv` with a single matrix product: put the three matrices side by side, multiply, cut. First with a
# pencil. A word is $(1, 2)$, and $W^Q = \begin{pmatrix} 1 & 0 & 3 \\ 0 & 2 & 1 \end{pmatrix}$. What's its query? Then
# say, without running anything, which of these is right for a batch, and why the others aren't: `w_q @ x`, `x @ w_q`,
# `x.T @ w_q`.
#
# - `x` is `(b, n, d_model)`; `w_q` and `w_k` are `(d_model, d_k)`; `w_v` is `(d_model, d_v)`. The values may be wider
#   or narrower than the keys.
# - Return three tensors, in the order q, k, v: `(b, n, d_k)`, `(b, n, d_k)`, `(b, n, d_v)`.
# - No bias and no scaling, which come later. As always.
# - The check sees only the three tensors. It accepts three products, but they'd miss the point.
# - Not allowed: `attnlib.project_qkv` and `attnlib.project_qkv_fused`.


# %%
def project_qkv(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(b, n, d_model), three matrices -> q (b, n, d_k), k (b, n, d_k), v (b, n,
    d_v)."""
    ### BEGIN SOLUTION
    d_k, d_v = w_k.shape[1], w_v.shape[1]
    packed = x @ torch.cat([w_q, w_k, w_v], dim=1)
    q, k, v = packed.split([d_k, d_k, d_v], dim=-1)
    return q, k, v
    ### END SOLUTION


# %%
check("project_qkv", project_qkv)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `torch.cat` with a list joins tensors along an axis they already have. Which axis of `(d_model, d_k)` grows when the
# matrices are put side by side?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The operator `@` multiplies the last axis of the left tensor with the first axis of a matrix, and leaves all axes in
# front alone. A batch needs nothing special. After the product, the last axis holds `2·d_k + d_v` numbers for each
# word.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The query is the first `d_k` of them, the key the next `d_k`, the value the rest. Take slices, or `Tensor.split` with
# a *list* of three widths. `chunk(3)` cuts pieces of equal width, and that's wrong as soon as `d_v` isn't `d_k`.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# $(1 \cdot 1 + 2 \cdot 0,\; 1 \cdot 0 + 2 \cdot 2,\; 1 \cdot 3 + 2 \cdot 1) = (1, 4, 5)$. Words are rows, so the matrix
# is on the right, `x @ w_q`. `w_q @ x` would want words as columns, and `x.T` reverses all axes, the batch among them.
#
# </details>

# %% [markdown]
# One product must give what three products give, and what the loop gave. Don't judge by eye; assert it. Then check your
# prediction. Which words have a different query in the second sentence?

# %%
pencil = torch.tensor([1.0, 2.0]) @ torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 1.0]])
assert pencil.tolist() == [1.0, 4.0, 5.0]

q, k, v = attnlib.project_qkv(x, w_q, w_k, w_v)  # three products
w_qkv = torch.cat([w_q, w_k, w_v], dim=1)
fused = x @ w_qkv  # one product
assert_close(fused, torch.cat([q, k, v], dim=-1), rtol=0, atol=1e-6)
assert_close(q[0, tired.index("it")], query_of_it, rtol=0, atol=1e-6)  # the loop

differs = ~torch.isclose(q[0], q[1], rtol=0, atol=1e-6).all(dim=-1)  # (n)
changed = [word for word, other in zip(wide, differs, strict=True) if other]
print("different query:", changed)
assert changed == ["wide"]  # “it” asks the same in both

# %% [markdown]
# **A projection looks at one word at a time.** No matrix $W^Q$, however well trained, can tell the two uses of *it*
# apart, because it's given the same six numbers for both. This is also why all words can be projected at once, in
# parallel, where a recurrent network has to wait.
#
# How then does *it* find out? In two steps. In a first attention layer, *it* attends to its predicate and brings back
# *tired* or *wide*. Its vector now carries the difference, and in the second layer its query can ask for the animal or
# the street. That's why words have to exchange information (lesson 02), and why attention layers are stacked.
#
# ## Read packed weights in the right order · more
#
# Three matrices side by side in one are called *packed* weights, and they come in more than one order. Many models
# store the columns as all of q, then all of k, then all of v. The code of [a widely read einsum
# tutorial](https://github.com/The-AI-Summer/self-attention-cv/blob/main/self_attention_cv/transformer_vanilla/self_attention.py)
# interleaves the three, so the first column of q is followed by the first of k, the first of v, the second of q, and so
# on. Either order is right for a model trained with it. Load the weights of one into the code of the other, and nothing
# complains, because the shapes are the same.
#
# In einops the difference is the order of two names. Parentheses unfold one axis into two, and **the name on the right
# varies fastest**. `(three d)` goes through all numbers of q before it comes to k; `(d three)` interleaves q, k and v.

# %%
width = 2
columns = torch.arange(3.0 * width)[
    None, None
]  # one word whose columns say their number
blocks = rearrange(columns, "b n (three d) -> three b n d", three=3)
turns = rearrange(columns, "b n (d three) -> three b n d", three=3)
for name, block, turn in zip("qkv", blocks, turns, strict=True):
    print(name, "in blocks:", block.tolist()[0][0], " in turns:", turn.tolist()[0][0])
assert blocks.shape == turns.shape
assert not torch.equal(blocks, turns)

# %% [markdown]
# With `d_v` wider than `d_k` the mix-up would crash. In most models all three have the same width, and then only the
# numbers give it away. When you load somebody's weights, run one sentence through both programs and compare.
#
# ## Put the weights into a module · core
#
# A module owns its parameters, so that an optimiser can find them and a file can keep them. PyTorch's layer for
# $xW + b$ is `nn.Linear(d_in, d_out)`, and it has one habit you need to know about. **It stores the weight the other
# way round.** Each *row* belongs to one output:
#
# $$\text{Linear}(x) = x W^\top + b, \qquad W \text{ is } (d_{out}, d_{in})$$
#
# What's the shape of the weight of `nn.Linear(6, 4)`? Decide, then run.

# %%
layer = nn.Linear(d_model, d_k, bias=False)
print(layer.weight.shape)

with torch.no_grad():
    layer.weight.copy_(w_q.T)  # our (d_model, d_k) becomes the layer's (d_k, d_model)
assert_close(layer(x), q, rtol=0, atol=1e-6)

# %% [markdown]
# Forget the transpose here, and PyTorch stops you, because 6 isn't 4. In most real models $d_{in}$ and $d_{out}$ are
# equal. There nothing stops you, and every query is wrong.

# %%
square = torch.randn(d_model, d_model, generator=generator)
layer = nn.Linear(d_model, d_model, bias=False)
with torch.no_grad():
    layer.weight.copy_(square)  # the transpose is forgotten, the shapes fit
assert not torch.allclose(layer(x), x @ square, rtol=0, atol=0.1)

# %% [markdown]
# ### Exercise: write the module ({points}, difficulty 2, 10 minutes)
#
# Write `QKVProjection`, with three layers of PyTorch's `nn.Linear`.
#
# - The layers are called `w_q`, `w_k` and `w_v`. The check fills them with its own weights, so here and in every later
#   module the names are part of the contract. The module has their parameters and no others (an extra buffer does no
#   harm), and no layer has two names. Give the layers their sizes from the start: an `nn.LazyLinear` has no weights to
#   fill before its first call.
# - `w_q` and `w_k` go from `d_model` to `d_k`, `w_v` from `d_model` to `d_v`. All three have a bias, or none has;
#   `bias` decides.
# - `forward(x)` takes `(b, n, d_model)` and returns q, k, v. As always. Not allowed: `attnlib.QKVProjection`.


# %%
class QKVProjection(nn.Module):
    """Three linear layers: (b, n, d_model) -> q (b, n, d_k), k (b, n, d_k), v (b, n,
    d_v)."""

    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_model, d_k, bias=bias)
        self.w_v = nn.Linear(d_model, d_v, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ### BEGIN SOLUTION
        return self.w_q(x), self.w_k(x), self.w_v(x)
        ### END SOLUTION


# %%
check("QKVProjection", QKVProjection)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Layers are made once, in `__init__`, and kept on `self`. They're called in `forward`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `nn.Linear` takes the input width, the output width and `bias`. You never touch a weight here, so there's nothing to
# transpose.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Three lines in `__init__`, one for each layer, all with `bias=bias`. One line in `forward`, which calls the three
# layers on the same `x`.
#
# </details>

# %% [markdown]
# One last equality. Transpose the module's weights, add its biases by hand, and you have `project_qkv` again.

# %%
projection = attnlib.QKVProjection(d_model, d_k, d_v)
layers = (projection.w_q, projection.w_k, projection.w_v)
by_hand = attnlib.project_qkv(x, *(layer.weight.T for layer in layers))
for output, product, layer in zip(projection(x), by_hand, layers, strict=True):
    assert_close(output, product + layer.bias, rtol=0, atol=1e-6)

# %% [markdown]
# ## See that scores are no longer symmetric · core
#
# In lesson 00 a word asked and answered with the same vector, and the table of all dot products was symmetric. Now it
# asks with its query and answers with its key. To see that the two matrices make the difference, and not the random
# numbers, compare with a control that uses $W^Q$ for both.

# %%
# (q, k): pairwise_dot of queries and keys
scores = attnlib.attention_scores(q, k, scale=1.0)[0]
one_matrix = attnlib.attention_scores(q, q, scale=1.0)[0]  # the control
assert_close(one_matrix, one_matrix.T, rtol=0, atol=1e-5)
assert (scores - scores.T).abs().max() > 3

animal, ends = tired.index("animal"), tired.index("tired")
for name, found in (("two matrices", scores), ("one matrix", one_matrix)):
    there, back = found[animal, ends], found[ends, animal]
    print(f"{name}: animal asks tired {there:.2f}, tired asks animal {back:.2f}")
assert scores[animal, ends] > 3 > 0 > scores[ends, animal]
assert_close(scores[0], scores[5], rtol=0, atol=1e-6)  # both “the” ask the same

# %% [markdown]
# A question and its reverse are two different things, but only with two matrices. Which words fit is pure chance here,
# because the embeddings and the matrices are random. Lesson 02 turns each row of scores into shares and lets every
# word take home what it found.

# %% [markdown]
# ## Know a word by its company · more
#
# Our embeddings are random, so *animal* may be nearer to *wide* than to *dog*. Training will change that, but counting
# gets surprisingly far. Words with a similar meaning keep similar company. "You shall know a word by the company it
# keeps" (Firth, 1957). So give each word a vector that says which words it's found near.
#
# ### Exercise: count which words appear together ({points}, difficulty 3, 30 minutes)
#
# Bare counts won't do, because every word is found near *the*. Compare each count with what chance alone would give.
# Let $c_{ij}$ be how often word $j$ is near word $i$, $c_i$ the sum of row $i$, and $c$ the sum of all counts:
#
# $$\text{table}_{ij} = \max\left(0,\ \ln \frac{c_{ij}}{c_i c_j / c}\right)$$
#
# Write `company(texts, vocabulary, window)`, which returns that table. (It's known as *positive pointwise mutual
# information*.)
#
# - `texts` is `(b, n)`, int64, from 0 to `vocabulary` − 1; `window` is at least 1. The result is
#   `(vocabulary, vocabulary)`, float32.
# - Two positions are near if they're in the same text, and at most `window` apart, on either side. A position isn't
#   near itself. The same word at two positions is a pair like any other.
# - Two words that never meet get 0 in the table, and so does a word that's in no text. No NaN, no infinity.
# - The parts of the check: {parts}. Everything is allowed; loops are fine.
#
# First with a pencil. Take one text, `0 1 0`, and a window of 1. What are the counts, and what's the table?


# %%
def company(texts: Tensor, vocabulary: int, window: int) -> Tensor:
    """Texts (b, n) -> (vocabulary, vocabulary): how much more often than by chance two
    words meet."""
    ### BEGIN SOLUTION
    counts = torch.zeros(vocabulary, vocabulary)
    for text in texts.tolist():
        for i, word in enumerate(text):
            for j in range(max(0, i - window), min(len(text), i + window + 1)):
                if i != j:
                    counts[word, text[j]] += 1
    often = counts.sum(dim=1)
    by_chance = often[:, None] * often / counts.sum()
    met = counts > 0
    table = torch.zeros_like(counts)
    table[met] = torch.log(counts[met] / by_chance[met])
    return table.clamp(min=0)
    ### END SOLUTION


# %%
check("company", company)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Count first. For each text and each position i, go through the positions j from i − window to i + window, if they
# exist and aren't i, and add 1 to the entry of the two words.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `range(max(0, i - window), min(n, i + window + 1))` goes through the positions. A negative index wouldn't fail. It
# would count from the end of the text.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The sums of the rows are `(vocabulary,)`. Give one copy a new axis, `[:, None]`, and multiply it by the other: that's
# every product of two sums. Divide these by the sum of all counts. Divide and take the logarithm only where
# `counts > 0`, leave 0 everywhere else, and turn negative entries into 0 with `.clamp(min=0)`.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# Word 0 meets word 1 twice, and word 1 meets word 0 twice, so the counts are 0, 2 in the first row and 2, 0 in the
# second. By chance, each entry would be $2 \cdot 2 / 4 = 1$, so the two entries that aren't 0 are $\ln 2 = 0.69$.
#
# </details>

# %%
# nbval-ignore-output: it says whose function is used, and that differs for a student
keep_company = yours_or_ours("company", globals())
by_hand = keep_company(torch.tensor([[0, 1, 0]]), 2, 1)
assert_close(by_hand, torch.tensor([[0.0, 0.693], [0.693, 0.0]]), rtol=0, atol=1e-3)

# %% [markdown]
# Now let four animals and four places live in 800 little texts. The counting isn't told which word is which.

# %%
kinds_of = {
    "animal": "animal dog cat horse", "place": "street road bridge square",
    "state": "tired hungry awake afraid", "size": "wide long narrow straight",
}  # fmt: skip
says = ["the animal was state and state", "the place was size and size"]
says += ["the state animal crossed the place", "the animal crossed the size place"]

chance = random.Random(seed)
stories = [
    [
        chance.choice(kinds_of.get(word, word).split())
        for word in chance.choice(says).split()
    ]
    for _ in range(800)
]
lexicon = sorted({word for story in stories for word in story})
# (b, n)
story_ids = torch.tensor([[lexicon.index(word) for word in story] for story in stories])

# %%
vectors = F.normalize(keep_company(story_ids, len(lexicon), 2), dim=-1)
alike = vectors @ vectors.T  # cosines
for word in ("animal", "street", "tired", "wide"):
    nearest = alike[lexicon.index(word)].argsort(descending=True)[1:4]
    print(f"{word}: {', '.join(lexicon[i] for i in nearest)}")

# %%
for kind in kinds_of.values():
    members = [lexicon.index(word) for word in kind.split()]
    for member in members:
        nearest = alike[member].argsort(descending=True)[: len(members)]
        assert sorted(nearest.tolist()) == sorted(members)

# %% [markdown]
# For each word, the nearest words are the others of its kind, and nothing but counting put them there. *dog* and *cat*
# don't have to appear side by side for that. It's enough that both get tired and cross streets. Learned tables come
# from the same source. word2vec, trained to guess a word's neighbours, [was
# shown](https://proceedings.neurips.cc/paper/2014/hash/feab05aa91085b7a8012516bc3533958-Abstract.html) to factorise a
# table much like yours.
#
# And yet each word has *one* vector, in every sentence. Only attention changes that, in lesson 02.

# %% [markdown]
# ## Fold queries and keys into one matrix · more
#
# ### Exercise: derive what a head compares ({points}, difficulty 4, 30 minutes)
#
# Queries and keys only ever meet in a dot product, so what counts is their product. Most layers have biases, and with
# them the score word $x$ gives to word $y$ is
#
# $$(x W^Q + b_q) \cdot (y W^K + b_k)$$
#
# Multiply it out with a pencil, and you get four terms. A query only compares its keys with one another, so a term
# without $y$ doesn't matter. It adds the same number to all scores of that query, and every *difference* between two
# scores stays. Drop these terms, and two are left, $x M y^\top + u \cdot y$. Write
# `fold_query_key(w_q, b_q, w_k, b_k)`, which returns $M$ and $u$. One of the four inputs turns out not to matter.
#
# - `w_q` and `w_k` are `(d_model, d_k)`, `b_q` and `b_k` are `(d_k,)`; the result is `(d_model, d_model)` and
#   `(d_model,)`, in this order. No scale.
# - As always, with gradients to every input the result depends on.


# %%
def fold_query_key(
    w_q: Tensor, b_q: Tensor, w_k: Tensor, b_k: Tensor
) -> tuple[Tensor, Tensor]:
    """Two matrices (d_model, d_k), two biases (d_k) -> M (d_model, d_model), u
    (d_model)."""
    ### BEGIN SOLUTION
    return w_q @ w_k.T, w_k @ b_q
    ### END SOLUTION


# %%
check("fold_query_key", fold_query_key)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The four terms are query without bias times key without bias, query's bias times key without bias, query without bias
# times key's bias, and bias times bias. Which of them change when $y$ changes?
#
# </details>
# <details><summary>Hint 2</summary>
#
# $x W^Q (y W^K)^\top = x\, [W^Q (W^K)^\top]\, y^\top$. The brackets are $M$.
#
# </details>
# <details><summary>Hint 3</summary>
#
# $b_q \cdot (y W^K)$ is a sum over the entries of $y$. What is each entry multiplied by?
#
# </details>

# %% [markdown]
# What you found has a consequence. The bias of the *keys* changes no comparison, and some models, such as Whisper,
# leave it out. And $M$ is $(d_{model}, d_{model})$, but its rank is at most $d_k$. A head compares words in $d_k$
# numbers and no more.

# %%
b_q, b_k = torch.randn(d_k, generator=generator), torch.randn(d_k, generator=generator)


def differences(scores: Tensor) -> Tensor:
    """(q, k) -> (q, k): how much better each key fits than the first one."""
    return scores - scores[:, :1]


with_biases = (x[0] @ w_q + b_q) @ (x[0] @ w_k + b_k).T
folded = x[0] @ (w_q @ w_k.T) @ x[0].T + x[0] @ (w_k @ b_q)
without_b_k = (x[0] @ w_q + b_q) @ (x[0] @ w_k).T
without_b_q = (x[0] @ w_q) @ (x[0] @ w_k + b_k).T  # the control
for scored in (folded, without_b_k):
    assert_close(differences(scored), differences(with_biases), rtol=0, atol=1e-5)
assert (differences(without_b_q) - differences(with_biases)).abs().max() > 1
print("rank of M:", torch.linalg.matrix_rank(w_q @ w_k.T).item(), "of", d_model)

# %% [markdown]
# ## Take this with you · core
#
# **One vector makes three: what I look for, how I can be found, what I bring.**
#
# | | |
# | --- | --- |
# | formula | $Q = X W^Q, \quad K = X W^K, \quad V = X W^V$ |
# | shapes | $(b, n, d_{model})$ → $(b, n, d_k)$, $(b, n, d_k)$, $(b, n, d_v)$ |
# | trap 1 | `nn.Linear` keeps its weight as (out, in): transpose what you load |
# | trap 2 | packed weights come in more than one order, and the shapes don't tell you which |
# | trap 3 | `chunk(3)` cuts equal pieces, and is wrong where $d_v \ne d_k$ |
# | in GPT-2 (small) | $d_{model} = 768$; q, k and v in one fused product, 768 to 2304 |
#
# You can now say why a fixed-width state loses the start of a sentence and what attention does instead, compute a soft
# look-up by hand, and project to q, k and v by loop, by three products, by one, and by a module, all equal.
#
# ## Think further · more
#
# 1. After $n$ words, a recurrent network has one state, say 512 numbers wide. A soft look-up keeps a key and a value
#    for each word, with `d_k` = `d_v` = 64. From which $n$ on does it keep more numbers? How many does it keep for a
#    book of 100,000 words?
# 2. What would be lost if $W^Q$ and $W^K$ were the same matrix? Look at the table of lesson 00.
# 3. Shuffle the words of the sentence. What happens to the rows of `q`, `k` and `v`? How could a word tell where it is?
#
# <details><summary>Answers</summary>
#
# 1. It keeps $(64 + 64) \cdot n$ numbers, so more from $n = 5$ on, and 12.8 million for the book. That's the price of
#    forgetting nothing, and it's paid again in every head of every layer. Lesson 09 works out the bill, and how to
#    lower it.
# 2. Then $q \cdot k$ would be symmetric before the softmax, and if I find you, you find me. A pronoun couldn't look for
#    its noun without the noun looking for the pronoun.
# 3. The rows are shuffled in the same way, and nothing else changes, because a projection looks at one word at a time.
#    A word can tell where it is only if its vector says so. Lesson 07 writes the position into it.
#
# </details>

# %%
order = [10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5]  # answer 3
for shuffled, straight in zip(
    attnlib.project_qkv(x[:, order], w_q, w_k, w_v), (q, k, v), strict=True
):
    assert_close(shuffled, straight[:, order], rtol=0, atol=1e-6)

# %% [markdown]
# ## Read on · more
#
# - [Sutskever, Vinyals and Le, 2014](https://arxiv.org/abs/1409.3215): translation through one fixed-width state. Read
#   how they feed the source sentence backwards, a trick against the forgetting you measured.
# - [Cho et al., 2014](https://arxiv.org/abs/1409.1259): the quality of such a translator against the length of the
#   sentence. Read it for its figures, which show the wall in a trained model.
# - [Bahdanau, Cho and Bengio, 2014](https://arxiv.org/abs/1409.0473): the remedy. Read section 3, and find there
#   what we call query, key and value.
# - [Miller et al., 2016](https://arxiv.org/abs/1606.03126): *Key-value memory networks*. Read it to see why the vector
#   that's matched and the vector that's returned should be different ones.
# - [Mikolov et al., 2013](https://arxiv.org/abs/1301.3781): word vectors. Read it for what a trained table knows that
#   our random one doesn't.
#
# **Next:** every word has asked, and none has been answered yet. How do scores become shares when some of them are
# negative? And what keeps them from growing too large, once the vectors are hundreds of numbers wide? Lesson 02.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/01_qkv_projections.ipynb`.*
