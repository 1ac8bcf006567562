# %% [markdown]
# # 01 · Queries, keys and values: let every word ask
#
# *The animal did not cross the street because it was tired.* You know at once what *it* is. You looked back into the
# sentence, at the right word, for the right reason. This lesson builds the three vectors with which a network can do
# the same. (The idea of translating it, and its twin, into a language that must choose a gender is from [Google's
# announcement of the
# transformer](https://research.google/blog/transformer-a-novel-neural-network-architecture-for-language-understanding/),
# too.)
#
# | | |
# | --- | --- |
# | **You will build** | a recurrent network, `embed`, vectors by counting, `project_qkv`, and `QKVProjection` |
# | **You will understand** | why attention was invented, what q, k and v do, how three products become one |
# | **You need** | lesson 00 (named axes, `einsum`, the dot product), a pencil, about 90 minutes |
#
# You may leave any exercise for later: the cells between them use `attnlib`. The measurement of forgetting runs on
# *your* recurrent network once it passes its check. In the exercises everything in torch, einops and `attnlib` is
# allowed, except `attnlib`'s function of the same name; `project_qkv` and `project_qkv_fused` count as one. Cells that
# only draw are folded.

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
    Arrow,
    Box,
    plot_boxes,
    plot_course_map,
    show,
    use_style,
)

use_style()

tired = "The animal did not cross the street because it was tired".lower().split()
wide = "The animal did not cross the street because it was wide".lower().split()

# %% [markdown]
# ## Watch word-by-word translation fail
#
# Translate the two sentences into German. German nouns have a gender, and *it* must agree with its noun: the animal is
# *das Tier*, so *it* is *es*; the street is *die Straße*, so *it* is *sie*. English hides this choice. German forces
# you to make it.
#
# The cell pairs each English word with the German one that a person chose (in English order; *did* needs none). Suppose
# a translator were a dictionary, from one word to one word. Which words could it never get right in both sentences?

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
# A larger dictionary does not help. How to translate *the* and *it* depends on the words around them, and the word that
# decides may be far away: *it* needs *animal*, seven words back, and *tired*, two words ahead. (A real translation also
# changes the order: *Das Tier überquerte die Straße nicht, weil es müde war.*)
#
# ## Watch a fixed-width state forget
#
# Before attention, the answer was a recurrent network. It reads word after word and folds each one into a *state*, a
# vector of fixed width. After the last word, the state is all that the translator gets to see:
#
# $$s_t = \tanh(s_{t-1} W + x_t), \qquad s_0 = 0$$
#
# ### Exercise: read word by word ({points}, difficulty 2, 10 minutes)
#
# Write that network, and the experiment below runs on it. Write `recurrent_states(x, w)`, which returns the state after
# each word. First with a pencil: a state is one number wide, $W = (2)$, and the words are $0.5$ and $-1$. What are the
# two states, and what would they be if the words came in the other order?
#
# - `x` is `(b, n, d)`: n words for each sentence. `w` is `(d, d)`. The result is `(b, n, d)`.
# - The first word meets a state of zeros. A word is added as it is; only the state is multiplied.
# - As always. A loop over the words is what is meant: each state needs the one before.


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
# The words are on axis 1: `x[:, t]` is word t of every sentence, `(b, d)`. `for word in x` would go through the
# sentences.
#
# </details>
# <details><summary>Hint 3</summary>
#
# In the loop: the state times `w`, plus the word, and tanh of the sum. Append it. At the end `torch.stack` with
# `dim=1`, so that the batch stays in front.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# $\tanh(0.5) = 0.46$, then $\tanh(0.92 - 1) = -0.08$. The other way round: $\tanh(-1) = -0.76$, then
# $\tanh(-1.52 + 0.5) = -0.77$. A recurrent network knows the order of its words, and it has to wait for each of them.
#
# </details>

# %% [markdown]
# How much of the sentence is still in the last state? Measure it: feed thousands of random strings of 11 words to
# such a network, and let a linear reader, fitted by least squares, guess from the state which word was at each
# position.

# %%
# nbval-ignore-output: it says whose function is used, which is another one in a student's notebook
read = yours_or_ours("recurrent_states", globals())
pencil = read(torch.tensor([[[0.5], [-1.0]], [[-1.0], [0.5]]]), torch.tensor([[2.0]]))
assert_close(
    pencil[..., 0], torch.tensor([[0.46, -0.08], [-0.76, -0.77]]), rtol=0, atol=6e-3
)


# %%
def read_words(word_ids: Tensor, width: int) -> Tensor:
    """(b, n) -> (n, b, width): a random recurrent network's state after each word."""
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(11, width, generator=generator)
    noise = torch.randn(width, width, generator=generator)
    weight = torch.linalg.qr(noise).Q  # turns the state, keeps its length
    return rearrange(read(table[word_ids], weight), "b n d -> n b d")


def recall(states: Tensor, ids: Tensor) -> float:
    """How often the linear reader is right: fitted on 4000 strings, counted on 1000 others."""
    states = F.pad(states, (0, 1), value=1.0)  # a column of ones: the reader's bias
    reader = torch.linalg.lstsq(
        states[:4000], F.one_hot(ids[:4000], 11).float()
    ).solution
    return ((states[4000:] @ reader).argmax(-1) == ids[4000:]).float().mean().item()


# %% [markdown]
# Predict: the reader gets only the *last* state, of width 8, 32 or 128. Which positions of the sentence will it still
# know? Guessing alone is right once in 11 times. And how much does it help to make the state four times as wide?

# %%
word_ids = torch.randint(11, (5000, 11), generator=torch.Generator().manual_seed(2))
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
assert known == {8: 1, 32: 3, 128: 5}
assert last_state[32][10] > 0.99  # the last word is known
assert last_state[32][1] < 0.2  # the position of “animal” is no better than a guess
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
ax.set_title("A last state forgets the start; kept states forget nothing")
ax.legend(bbox_to_anchor=(1.01, 1), loc="upper left")
show(
    "The share of words recalled at each of eleven positions. From the last state "
    "alone, only the last one, three or five words are known, for widths 8, 32 and "
    "128. With every state kept, all words are."
)

# %% [markdown]
# The newest words push the oldest out. Four times the width buys two more words, so a wider state only moves the
# wall. A trained network is better at choosing what to keep, but it runs into the same wall: the state has a fixed
# width, and sentences do not. (Bahdanau, Cho and Bengio saw this in 2014 in a trained translator, whose quality fell
# as sentences grew longer. Their remedy was attention.)
#
# The dashed line is the way out. **Every word was known right after it had been read. So keep the vectors of all
# words, and let whoever needs one look it up.** All that remains to be invented is the look-up.
#
# ## Look something up softly
#
# A Python dictionary is a hard look-up: the key must match exactly, and one value comes back. A network needs a *soft*
# one: every key matches a little, every value comes back a little, and gradients flow through all of it. Three roles:
#
# | role | it says | for *it*, in our sentence |
# | --- | --- | --- |
# | **query** | what I look for | a thing that can be tired |
# | **key** | what I offer, so that others can find me | *animal*: I can be tired. *street*: I can be wide. |
# | **value** | what I bring back to whoever found me | *animal*: say *es*. *street*: say *sie*. |
#
# How well a query fits a key is a dot product. Divide the scores by their sum, and they are shares. The answer is the
# values, mixed in these shares. Queries and keys need the same width, $d_k$; the values may have another, $d_v$. With
# numbers made by hand:
#
# $$\text{answer} = \sum_j \frac{q \cdot k_j}{\sum_l q \cdot k_l} v_j$$

# %%
# rows: animal, street; columns of the keys: can be tired, can be wide; of the values: es, sie
keys = torch.tensor([[3.0, 1.0], [1.0, 3.0]])  # (k, d_k)
values = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # (k, d_v)


def look_up(query: Tensor) -> Tensor:
    """(d_k) -> (d_v): the values, mixed by how well the query fits their keys."""
    scores = einsum(query, keys, "d_k, k d_k -> k")
    return einsum(scores / scores.sum(), values, "k, k d_v -> d_v")


print("what can be tired:", look_up(torch.tensor([1.0, 0.0])).tolist())
print("what can be wide: ", look_up(torch.tensor([0.0, 1.0])).tolist())

# %% [markdown]
# Do the first one by hand: the scores are 3 and 1, the shares 0.75 and 0.25, so the answer is three parts *es* and one
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
# That is attention, but for two things. The shares are made with a softmax, which lesson 02 adds. And nobody writes
# queries, keys and values by hand: **each word's vector makes all three, with three learned matrices.** You build
# these now.
#
# Here is the idea in the same numbers. Let a noun's vector be (can be tired, can be wide, takes *es*, takes *sie*);
# its width is called $d_{model}$, here 4. One matrix picks what matters for being found, another what is worth
# bringing back:

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
# ## Turn the sentence into vectors
#
# A network has no words, only numbers. So every word of the vocabulary gets a number, its *token id*, and the ids of a
# sentence select rows from a table with one row for each token. (`<unk>` stands for every word that is not in the
# vocabulary. Real tokenizers cut rare words into pieces instead; nothing below changes.)

# %%
vocabulary = ["<unk>", *sorted(set(tired + wide))]
to_id = {token: number for number, token in enumerate(vocabulary)}
numbers = [[to_id[word] for word in sentence] for sentence in (tired, wide)]
token_ids = torch.tensor(numbers)  # (b, n)
print(to_id)
print(token_ids)

# %% [markdown]
# Our table is random, drawn once with a fixed seed. Its numbers mean nothing yet: training is what gives them meaning.
# We keep it small, `d_model` = 6 numbers for each word, so that you can see them all.

# %%
generator = torch.Generator().manual_seed(0)
d_model, d_k, d_v = 6, 4, 5
# (vocabulary, d_model)
table = torch.randn(len(vocabulary), d_model, generator=generator)
table.shape

# %% [markdown]
# ### Exercise: embed a batch of sentences ({points}, difficulty 1, 10 minutes)
#
# Write `embed`: replace every token id by its row of the table.
#
# $$x_{b,n} = \text{table}[\text{id}_{b,n}]$$
#
# First with a pencil. The table has the rows $(1, 2)$, $(3, 4)$ and $(5, 6)$, the ids of two sentences are
# $(2, 0, 2)$ and $(1, 1, 0)$. Write down the result, and its shape. Suppose the loss is the sum of all its numbers:
# what is the gradient of the table? (Row 1 was used twice.)
#
# - `token_ids` is `(b, n)`, integers; `table` is `(vocabulary, d_model)`; the result is `(b, n, d_model)`.
# - As always: the table's dtype and device, and gradients to the table.


# %%
def embed(token_ids: Tensor, table: Tensor) -> Tensor:
    """(b, n), (vocabulary, d_model) -> (b, n, d_model): the table's row for each token."""
    ### BEGIN SOLUTION
    return table[token_ids]
    ### END SOLUTION


# %%
check("embed", embed)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What does `table[3]` give you? And `table[torch.tensor([3, 3, 1])]`?
#
# </details>
# <details><summary>Hint 2</summary>
#
# An integer tensor is a legal index, of whatever shape. Where the index has axes `(b, n)`, so has the result, followed
# by the axes of the table that were not indexed.
#
# </details>
# <details><summary>Hint 3</summary>
#
# No loop and no function call is needed: square brackets are enough.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# Shape (2, 3, 2): the first sentence is $(5, 6), (1, 2), (5, 6)$, the second $(3, 4), (3, 4), (1, 2)$. Each use of a
# row adds 1 to each of its gradients, and here every row is used twice: all six numbers are 2. The next cell checks it.
# A word that is not in the batch gets the gradient 0, which is why rare words learn slowly.
#
# </details>

# %%
small_table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
small = attnlib.embed(torch.tensor([[2, 0, 2], [1, 1, 0]]), small_table)
small.sum().backward()
assert small.shape == (2, 3, 2)
assert_close(small_table.grad, torch.full((3, 2), 2.0), rtol=0, atol=0)
print(small.tolist())

# %% [markdown]
# ## See that a look-up is a matrix product
#
# Write a token as a *one-hot* vector, a 1 at its id and 0 elsewhere. Multiplied by the table, it selects one row. So
# an embedding is a linear layer without a bias whose input happens to be one-hot; the look-up merely saves the
# multiplications by zero.

# %%
x = attnlib.embed(token_ids, table)  # (b, n, d_model)
one_hot = F.one_hot(token_ids, len(vocabulary)).float()  # (b, n, vocabulary)
by_product = einsum(one_hot, table, "b n vocabulary, vocabulary d_model -> b n d_model")
assert_close(x, by_product, rtol=0, atol=0)

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 4.2), layout="constrained", sharey=True)
for ax, sentence, vectors in zip(axes, (tired, wide), x, strict=True):
    image = ax.imshow(vectors, cmap="PuOr", vmin=-2.5, vmax=2.5, aspect="auto")
    ax.set_title(f"… because it was {sentence[-1]}")
    ax.set_xlabel("d_model")
    for row in (0, 5):
        frame = plt.Rectangle(
            (-0.5, row - 0.5), 6, 1, fill=False, edgecolor=ACCENT, linewidth=2
        )
        ax.add_patch(frame)
axes[0].set_yticks(range(11), [*tired[:-1], "tired / wide"])
figure.colorbar(image, ax=axes, shrink=0.8)
figure.suptitle("One token, one vector: only the last row differs")
show(
    "Two tables of eleven words by six numbers. The rows of both “the”, framed, are "
    "equal, and the tables differ only in their last row, tired and wide."
)

# %% [markdown]
# The two framed rows are *the*, and they are equal: a token has one vector, wherever it is. The two pictures differ
# only in their last row. In particular *it* has the same six numbers in both, although it means two different things.
#
# ### Stretch: know a word by its company ({points}, difficulty 3, 30 minutes)
#
# So far every word has random numbers, and *animal* is as near to *wide* as to *dog*. Training will change that, but
# counting gets surprisingly far. Words with a similar meaning keep similar company: "You shall know a word by the
# company it keeps" (Firth, 1957). So give each word a vector that says what words it is found near.
#
# Bare counts will not do, because every word is found near *the*. Compare each count with what chance alone would give.
# Let $c_{ij}$ be how often word $j$ is near word $i$, $c_i$ the sum of row $i$, and $c$ the sum of all counts:
#
# $$\text{table}_{ij} = \max\left(0,\ \ln \frac{c_{ij}}{c_i c_j / c}\right)$$
#
# Write `company(texts, vocabulary, window)`, which returns that table. (It is known as *positive pointwise mutual
# information*.)
#
# - `texts` is `(b, n)`, int64, from 0 to `vocabulary` − 1; `window` is at least 1. The result is
#   `(vocabulary, vocabulary)`, float32.
# - Two places are near if they are in the same text, and at most `window` apart, on either side. A place is not near
#   itself. The same word at two places is a pair like any other.
# - Words that never met have 0 in the table, and so has a word that is in no text: no NaN, no infinity.
# - The parts of the check: {parts}. Everything is allowed; loops are fine.
#
# First with a pencil: one text, `0 1 0`, and a window of 1. What are the counts, and what is the table?


# %%
def company(texts: Tensor, vocabulary: int, window: int) -> Tensor:
    """Texts (b, n) -> (vocabulary, vocabulary): how much more often than by chance two words meet."""
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
# Count first: for each text, for each place i, for each place j from i − window to i + window that exists and is not i,
# add 1 to the entry of the two words.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `range(max(0, i - window), min(n, i + window + 1))` goes through the places. A negative index would not fail: it would
# count from the end of the text.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The sums of the rows are `(vocabulary,)`. With a new axis, `[:, None]`, times themselves they are all products of two
# sums; divide these by the sum of all counts. Divide and take the logarithm only where `counts > 0`, leave 0 everywhere
# else, and replace what is negative with `.clamp(min=0)`.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# Word 0 meets word 1 twice, and word 1 meets word 0 twice: the counts are 0, 2 in the first row, 2, 0 in the second. By
# chance, each entry would be $2 \cdot 2 / 4 = 1$, so the two entries of the table that are not 0 are $\ln 2 = 0.69$.
#
# </details>

# %%
# nbval-ignore-output: it says whose function is used, which is another one in a student's notebook
keep_company = yours_or_ours("company", globals())
by_hand = keep_company(torch.tensor([[0, 1, 0]]), 2, 1)
assert_close(by_hand, torch.tensor([[0.0, 0.693], [0.693, 0.0]]), rtol=0, atol=1e-3)

# %% [markdown]
# Now let four animals and four places live in 800 little texts. Nobody says which word is which.

# %%
kinds_of = {
    "animal": "animal dog cat horse", "place": "street road bridge square",
    "state": "tired hungry awake afraid", "size": "wide long narrow straight",
}  # fmt: skip
says = ["the animal was state and state", "the place was size and size"]
says += ["the state animal crossed the place", "the animal crossed the size place"]

chance = random.Random(0)
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
# For each word, the nearest are the others of its kind, and nothing but counting has put them there. *dog* and *cat*
# need not appear side by side for that: it is enough that both get tired and cross streets. Learned tables come from
# the same source. word2vec, trained to guess a word's neighbours, [was
# shown](https://proceedings.neurips.cc/paper/2014/hash/feab05aa91085b7a8012516bc3533958-Abstract.html) to factorise a
# table much like yours.
#
# And yet each word still has *one* vector, whatever sentence it is in. That is what attention will change.
#
# ## Make three vectors out of one
#
# Each word's vector $x_n$ (a row of $X$) is multiplied by three matrices. They are the same for all words; training
# shapes them so that queries find the keys that help:
#
# $$Q = X W^Q \qquad K = X W^K \qquad V = X W^V$$
#
# (Papers write capitals for all words at once. Code has small letters, and so have the formulas beside it: $q = x
# W^Q$.)
#
# Queries and keys meet in a dot product, so they share a width, $d_k$. Values never meet either of them, so their width
# $d_v$ is free. Before the matrix form, one query by hand: each of its 4 numbers is the dot product of the word with a
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
# In the first sentence *it* is the animal, in the second the street. We project both sentences: `q`, `k` and `v` for
# every word. **Compare the query of *it* in the first sentence with the query of *it* in the second.**
#
# - **A**: They are the same four numbers.
# - **B**: They differ, because the sentences go on differently: *tired* and *wide* make *it* look for different things.
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
# ### Exercise: project a batch to queries, keys and values ({points}, difficulty 2, 10 minutes)
#
# Write `project_qkv`: all three, for every word of every sentence. First with a pencil: a word is $(1, 2)$, and
# $W^Q = \begin{pmatrix} 1 & 0 & 3 \\ 0 & 2 & 1 \end{pmatrix}$. What is its query? Then say, without running
# anything, which of these three is right for a batch, and why the others are not: `w_q @ x`, `x @ w_q`, `x.T @ w_q`.
#
# - `x` is `(b, n, d_model)`; `w_q` and `w_k` are `(d_model, d_k)`; `w_v` is `(d_model, d_v)`.
# - Give back three tensors, in the order q, k, v: `(b, n, d_k)`, `(b, n, d_k)`, `(b, n, d_v)`.
# - No bias, no scaling: these come later, in their own places.
# - As always: dtype and device, inputs unchanged, gradients to `x` and to all three matrices.


# %%
def project_qkv(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(b, n, d_model), three matrices -> q (b, n, d_k), k (b, n, d_k), v (b, n, d_v)."""
    ### BEGIN SOLUTION
    return x @ w_q, x @ w_k, x @ w_v
    ### END SOLUTION


# %%
check("project_qkv", project_qkv)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# There are three equations above the exercise. Each of them is one line of code, or one third of a line.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The cell with `query_of_it` sums over `m`, the axis `d_model`. In einsum: which name is missing after the arrow?
#
# </details>
# <details><summary>Hint 3</summary>
#
# The operator `@` multiplies the last axis of the left tensor with the first axis of a matrix, and leaves all axes in
# front alone. A batch needs nothing special.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# $(1 \cdot 1 + 2 \cdot 0,\; 1 \cdot 0 + 2 \cdot 2,\; 1 \cdot 3 + 2 \cdot 1) = (1, 4, 5)$. Words are rows, so the matrix
# is on the right: `x @ w_q`. `w_q @ x` would want words as columns, and `x.T` reverses all axes, the batch among them.
#
# </details>

# %% [markdown]
# Now check your prediction. Which words have another query in the second sentence?

# %%
pencil = torch.tensor([1.0, 2.0]) @ torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 1.0]])
assert pencil.tolist() == [1.0, 4.0, 5.0]

q, k, v = attnlib.project_qkv(x, w_q, w_k, w_v)
# matrix form = loop
assert_close(q[0, tired.index("it")], query_of_it, rtol=0, atol=1e-6)

differs = ~torch.isclose(q[0], q[1], rtol=0, atol=1e-6).all(dim=-1)  # (n)
print(
    "another query:",
    [word for word, different in zip(wide, differs, strict=True) if different],
)
assert_close(q[0, 8], q[1, 8], rtol=0, atol=1e-6)  # “it” asks the same in both

# %% [markdown]
# **A projection looks at one word at a time.** No matrix $W^Q$, however well trained, can tell the two *it* apart,
# because it is given the same six numbers. This is also why all words can be projected at once, in parallel, where a
# recurrent network has to wait.
#
# How then does *it* find out? In two steps. In a first attention layer, *it* looks for its predicate and brings back
# *tired* or *wide*. Its vector now carries the difference, and in the second layer its query can ask for the animal or
# the street. That is why attention layers are stacked, and why the words have to meet, in lesson 02.
#
# ## Fuse three products into one
#
# Column $j$ of a product depends on column $j$ of the right-hand matrix and on no other. So put the three matrices side
# by side, multiply once, and cut the result. Nothing changes but the number of products: $X$ is read once instead of
# three times.
#
# $$X [W^Q \mid W^K \mid W^V] = [X W^Q \mid X W^K \mid X W^V]$$

# %%
w_qkv = torch.cat([w_q, w_k, w_v], dim=1)  # (d_model, 2 d_k + d_v)
side_by_side = torch.cat([q[0], k[0], v[0]], dim=1)  # (n, 2 d_k + d_v)
titles = "$X$", r"$\times\ [W^Q \mid W^K \mid W^V]$", r"$=\ [Q \mid K \mid V]$"
figure, axes = plt.subplots(
    1, 3, figsize=(9, 3.4), layout="constrained", width_ratios=(6, 13, 13)
)
for ax, title, matrix in zip(axes, titles, (x[0], w_qkv, side_by_side), strict=True):
    ax.imshow(matrix, cmap="PuOr", vmin=-2.5, vmax=2.5)
    ax.set(title=title, xticks=[], yticks=[])
    for edge in (3.5, 7.5) if matrix.shape[1] == 13 else ():
        ax.axvline(edge, color="black", linewidth=2)
axes[0].set_yticks(range(11), tired)
figure.suptitle("Three matrices side by side: one product makes all three")
show(
    "Three coloured tables: the words, times the matrices for queries, keys and "
    "values side by side, is queries, keys and values side by side."
)

# %% [markdown]
# ### Exercise: project with one matrix product ({points}, difficulty 2, 10 minutes)
#
# Write `project_qkv_fused`: the same three tensors, from one matrix.
#
# - `w_qkv` is `(d_model, 2·d_k + d_v)`. Its columns are, from left to right, those of `w_q`, of `w_k` and of `w_v`.
# - Multiply once, then cut. `d_v` may differ from `d_k`, so the three pieces need not be equally wide. (The check
#   sees only the three tensors. It also accepts three products with the weights cut first, but those save nothing.)
# - Give back q, k, v with shapes `(b, n, d_k)`, `(b, n, d_k)`, `(b, n, d_v)`. As always.


# %%
def project_qkv_fused(
    x: Tensor, w_qkv: Tensor, d_k: int, d_v: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(b, n, d_model), (d_model, 2·d_k + d_v) -> q (b, n, d_k), k (b, n, d_k), v (b, n, d_v)."""
    ### BEGIN SOLUTION
    q, k, v = (x @ w_qkv).split([d_k, d_k, d_v], dim=-1)
    return q, k, v
    ### END SOLUTION


# %%
check("project_qkv_fused", project_qkv_fused)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# After the product, the last axis holds `2·d_k + d_v` numbers for each word. Which of them are the query?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The query is the first `d_k` of them, the key the next `d_k`, the value the rest. Slices do it: `packed[..., :d_k]` is
# the first.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Slices, or `Tensor.split` with a *list* of three widths. `chunk` and `split` with one number cut pieces of equal
# width, and that is wrong as soon as `d_v` is not `d_k`.
#
# </details>

# %% [markdown]
# The fused form must give what the three products gave. Do not judge by eye; assert it.

# %%
fused = attnlib.project_qkv_fused(x, w_qkv, d_k, d_v)
for one_of_three, one_of_fused in zip((q, k, v), fused, strict=True):
    assert_close(one_of_fused, one_of_three, rtol=0, atol=1e-6)

# %% [markdown]
# ## Find the bug
#
# ### Fix: weights in another layout ({points}, difficulty 3, 10 minutes)
#
# Fused weights come in more than one order. Many models store the columns as all of q, then all of k, then all of v.
# The code of [a much read einsum
# tutorial](https://github.com/The-AI-Summer/self-attention-cv/blob/main/self_attention_cv/transformer_vanilla/self_attention.py)
# lets the three take turns: the first column of q, of k, of v, the second of q, of k, of v, and so on. Either order is
# right for a model that was trained with it. Load the weights of one into the code of the other, and nothing
# complains.
#
# The function below cuts as the tutorial does. It was given the weights of a model of the first kind, and the model
# talks nonsense. **Find the bug and fix it**, for weights whose columns are all of q, then all of k, then all of v.
#
# - `x` is `(b, n, d_model)`, `w_qkv` is `(d_model, 3·d)`: here all three have the same width `d`.
# - The result is q, k, v, each `(b, n, d)`. As always.


# %%
def mend_unpack_qkv(x: Tensor, w_qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(b, n, d_model), (d_model, 3·d) -> q, k, v, each (b, n, d); columns: first q, then k, then v."""
    packed = einsum(x, w_qkv, "b n d_model, d_model columns -> b n columns")
    ### BEGIN SOLUTION
    q, k, v = rearrange(packed, "b n (three d) -> three b n d", three=3)
    ### BEGIN STUB
    # q, k, v = rearrange(packed, "b n (d three) -> three b n d", three=3)
    ### END SOLUTION
    return q, k, v


# %%
check("mend_unpack_qkv", mend_unpack_qkv)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take `d` = 2 and number the columns: `0 1 2 3 4 5`. In the order that is asked for, which two are the query? Which two
# does the function take?
#
# </details>
# <details><summary>Hint 2</summary>
#
# In einops, parentheses unfold one axis into two, and **the name on the right runs fastest**: `(word letter)` goes
# through all letters of the first word before it comes to the second word.
#
# </details>
# <details><summary>Hint 3</summary>
#
# All of q comes before any of k, so the number inside one vector has to run fastest, and the choice among q, k and v
# slowest.
#
# </details>

# %% [markdown]
# ## Put the weights into a module
#
# A module owns its parameters, so that an optimiser can find them and a file can keep them. PyTorch's layer for
# $xW + b$ is `nn.Linear(d_in, d_out)`, and it has one habit that you must know: **it stores the weight the other way
# round.** Each *row* belongs to one output:
#
# $$\text{Linear}(x) = x W^\top + b, \qquad W \text{ is } (d_{out}, d_{in})$$
#
# What is the shape of the weight of `nn.Linear(6, 4)`? Decide, then run.

# %%
layer = nn.Linear(d_model, d_k, bias=False)
print(layer.weight.shape)

with torch.no_grad():
    layer.weight.copy_(w_q.T)  # our (d_model, d_k) becomes the layer's (d_k, d_model)
assert_close(layer(x), q, rtol=0, atol=1e-6)

# %% [markdown]
# Forget the transpose here, and PyTorch stops you, because 6 is not 4. In most real models $d_{in}$ and $d_{out}$ are
# equal. There nothing stops you, and every query is wrong:

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
#   module the names are part of the contract: the module has their parameters and no others (an extra buffer does no
#   harm), and no layer has two names. The layers need their sizes from the start: `nn.LazyLinear` has nothing to fill
#   before its first call.
# - `w_q` and `w_k` go from `d_model` to `d_k`, `w_v` from `d_model` to `d_v`. All three have a bias, or none has:
#   `bias` decides.
# - `forward(x)` takes `(b, n, d_model)` and gives back q, k, v. As always.


# %%
class QKVProjection(nn.Module):
    """Three linear layers: (b, n, d_model) -> q (b, n, d_k), k (b, n, d_k), v (b, n, d_v)."""

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
# Layers are made once, in `__init__`, and kept on `self`. They are called in `forward`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `nn.Linear` takes the input width, the output width and `bias`. You never touch a weight here, so there is nothing to
# transpose.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Three lines in `__init__`, one for each layer, all with `bias=bias`. One line in `forward`: call the three layers on
# the same `x`.
#
# </details>

# %% [markdown]
# One last equality: transpose the module's weights, add its biases by hand, and you have `project_qkv` again.

# %%
projection = attnlib.QKVProjection(d_model, d_k, d_v)
layers = (projection.w_q, projection.w_k, projection.w_v)
by_hand = attnlib.project_qkv(x, *(layer.weight.T for layer in layers))
for output, product, layer in zip(projection(x), by_hand, layers, strict=True):
    assert_close(output, product + layer.bias, rtol=0, atol=1e-6)

# %% [markdown]
# ## See who would find whom
#
# In lesson 00 a word asked and answered with the same vector, and the table of all dot products was symmetric. Now it
# asks with its query and answers with its key. Row: who asks. Column: who is found.

# %%
# (q, k): pairwise_dot of queries and keys
scores = attnlib.attention_scores(q, k, scale=1.0)[0]
assert not torch.allclose(scores, rearrange(scores, "q k -> k q"), rtol=0, atol=0.1)
assert_close(scores[0], scores[5], rtol=0, atol=1e-6)  # both “the” ask the same
assert scores[1].argmax() == 6  # “animal” finds “street” most of all …
assert scores[6].argmax() != 1  # … and “street” does not find “animal”
print(f"animal asks: street {scores[1, 6]:.2f}, tired {scores[1, 10]:.2f}", end="; ")
print(f"asked by street: {scores[6, 1]:.2f}, by tired: {scores[10, 1]:.2f}")
assert scores[1, 6] > scores[1, 10] > 3 > 0 > scores[10, 1]

# %%
ax = plt.figure(figsize=(6.4, 5.2), layout="constrained").gca()
limit = scores.abs().max().item()
image = ax.imshow(scores, cmap="PuOr", vmin=-limit, vmax=limit)
ax.set_xticks(range(11), tired, rotation=45, ha="right")
ax.set_yticks(range(11), tired)
ax.set(xlabel="key: the word that is asked", ylabel="query: the word that asks")
ax.set_title("Who asks is not who is asked: the table is not symmetric")
ax.figure.colorbar(image, ax=ax, shrink=0.8)
show(
    "A table of scores, eleven queries by eleven keys, before any training. In the "
    "row of animal the largest score is with street; the table is not symmetric."
)

# %% [markdown]
# In the row of *animal* the largest score is that of *street*, 6.56, before *tired* with 3.91; and when *tired* asks,
# *animal* scores below 0. A question and its reverse are two different things. Which words fit is pure chance here,
# because the table and the matrices are random. Lesson 02 turns such rows into shares and lets every word take home
# what it found.

# %% [markdown]
# ## For those who want more
#
# ### Stretch: fold queries and keys into one matrix ({points}, difficulty 4, 30 minutes)
#
# Queries and keys only ever meet in a dot product, so what counts is their product. With biases, as most layers have
# them, the score that word $x$ gives to word $y$ is
#
# $$(x W^Q + b_q) \cdot (y W^K + b_k)$$
#
# Multiply it out with a pencil: there are four terms. The next lesson adds that the same number, added to all scores
# of one query, changes nothing. So drop every term in which $y$ does not occur, and two are left: $x M y^\top + u
# \cdot y$. Write `fold_query_key(w_q, b_q, w_k, b_k)`, which returns $M$ and $u$. One of the four inputs turns out
# not to matter.
#
# - `w_q` and `w_k` are `(d_model, d_k)`, `b_q` and `b_k` are `(d_k,)`; the result is `(d_model, d_model)` and
#   `(d_model,)`, in this order. No scale.
# - As always: dtype and device, inputs unchanged, gradients to every input that the result depends on.


# %%
def fold_query_key(
    w_q: Tensor, b_q: Tensor, w_k: Tensor, b_k: Tensor
) -> tuple[Tensor, Tensor]:
    """Two matrices (d_model, d_k), two biases (d_k) -> M (d_model, d_model), u (d_model)."""
    ### BEGIN SOLUTION
    return w_q @ w_k.T, w_k @ b_q
    ### END SOLUTION


# %%
check("fold_query_key", fold_query_key)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The four terms: query without bias with key without bias; query's bias with key without bias; query without bias with
# key's bias; bias with bias. Which of them change when $y$ changes?
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
# What you found has a consequence. The bias of the *keys* changes none of the shares that lesson 02 makes of the scores
# with its *softmax*, and some models, such as Whisper, leave it out. And $M$ is $(d_{model}, d_{model})$, but its rank
# is at most $d_k$: a head compares words in $d_k$ numbers and no more.

# %%
b_q, b_k = torch.randn(d_k, generator=generator), torch.randn(d_k, generator=generator)
with_biases = (x[0] @ w_q + b_q) @ (x[0] @ w_k + b_k).T
folded = x[0] @ (w_q @ w_k.T) @ x[0].T + x[0] @ (w_k @ b_q)
weights = attnlib.softmax(with_biases)
assert_close(attnlib.softmax(folded), weights, rtol=0, atol=1e-5)
# without b_k
assert_close(
    attnlib.softmax((x[0] @ w_q + b_q) @ (x[0] @ w_k).T), weights, rtol=0, atol=1e-5
)
print("rank of M:", torch.linalg.matrix_rank(w_q @ w_k.T).item(), "of", d_model)

# %% [markdown]
# ## What you can now do
#
# - Say why a fixed-width state loses the start of a sentence, and what attention does instead.
# - Explain query, key and value, and compute a soft look-up by hand.
# - Embed a sentence, and say why that is a matrix product.
# - Project to q, k and v by loop, by three products, by one fused product and by a module, and show that all four are
#   equal.
# - Tell packed weights of one order from those of another, and remember which way round `nn.Linear` keeps its weight.
#
# ## Take this with you
#
# **One vector makes three: what I look for, how I can be found, what I bring.**
#
# | | |
# | --- | --- |
# | formula | $Q = X W^Q, \quad K = X W^K, \quad V = X W^V$ |
# | shapes | $(b, n, d_{model})$ → $(b, n, d_k)$, $(b, n, d_k)$, $(b, n, d_v)$ |
# | trap 1 | `nn.Linear` keeps its weight as (out, in): transpose what you load |
# | trap 2 | packed weights come in more than one order, and no shape tells which |
# | trap 3 | `chunk(3)` cuts equal pieces, and is wrong where $d_v \ne d_k$ |
# | in GPT-2 (small) | $d_{model} = 768$; q, k and v in one fused product, 768 to 2304 |
#
# ## Think further
#
# 1. Queries and keys only ever meet in $q \cdot k = x W^Q (W^K)^\top x'^\top$. Could one matrix $M = W^Q (W^K)^\top$
#    replace the two? Count the numbers in $M$ and in the two matrices for `d_model` = 512 and `d_k` = 64.
# 2. What would be lost if $W^Q$ and $W^K$ were the same matrix? Look at the table of lesson 00.
# 3. Shuffle the words of the sentence. What happens to the rows of `q`, `k` and `v`? How could a word tell where it is?
#
# <details><summary>Answers</summary>
#
# 1. Yes, the scores would be equal (the cell below says so). But $M$ has $512^2 = 262144$ numbers, the two matrices
#    together $2 \cdot 512 \cdot 64 = 65536$. And $M$ could have any rank up to 512, whereas the product of the two has
#    at most 64: a narrow head can only ask narrow questions.
# 2. Then $q \cdot k$ would be symmetric before the softmax: whoever finds me, I find. A pronoun could not look for its
#    noun without the noun looking for the pronoun, and most words would fit themselves best.
# 3. The rows are shuffled in the same way, and nothing else changes: a projection looks at one word at a time. A word
#    can tell where it is only if its vector says so. Lesson 07 writes the position into it.
#
# </details>

# %%
merged = w_q @ w_k.T  # (d_model, d_model): answer 1
assert_close(x[0] @ merged @ x[0].T, scores, rtol=0, atol=1e-5)
assert torch.linalg.matrix_rank(merged).item() == d_k
order = [10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5]  # answer 3
for shuffled, straight in zip(
    attnlib.project_qkv(x[:, order], w_q, w_k, w_v), (q, k, v), strict=True
):
    assert_close(shuffled, straight[:, order], rtol=0, atol=1e-6)

# %% [markdown]
# ## Read on
#
# - [Sutskever, Vinyals and Le, 2014](https://arxiv.org/abs/1409.3215): translation through one fixed-width state. Read
#   how they feed the source sentence backwards, a trick against the forgetting that you measured.
# - [Cho et al., 2014](https://arxiv.org/abs/1409.1259): the quality of such a translator against the length of the
#   sentence. Read it for its figures: the wall, in a trained model.
# - [Bahdanau, Cho and Bengio, 2014](https://arxiv.org/abs/1409.0473): the remedy. Read section 3, and find there
#   what we call query, key and value.
# - [Miller et al., 2016](https://arxiv.org/abs/1606.03126): *Key-value memory networks*. Read it for why what finds and
#   what is brought back should be two vectors.
# - [Mikolov et al., 2013](https://arxiv.org/abs/1301.3781): word vectors. Read it for what a trained table knows that
#   our random one does not.
#
# Here is where this leads: the core of the course in the first row, five lessons beyond it in the second.

# %% tags=["picture:course.png"]
plot_course_map(title="From one dot product to an encoder, and beyond")
show(
    "A map of the lessons 00 to 11: seven boxes in a row, from start here to the "
    "encoder block, then five below."
)

# %% [markdown]
# **Next:** every word has asked, and nobody has been answered yet. How do scores become shares when some of them are
# negative? And what keeps them from growing too large, once the vectors are hundreds of numbers wide? Lesson 02.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/01_qkv_projections.ipynb`.*
