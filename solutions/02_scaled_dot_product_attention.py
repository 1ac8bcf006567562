# %% [markdown]
# # 02 · Scaled dot-product attention: ask, weigh, mix
#
# Lesson 01 gave every word a query, a key and a value. Here they meet. By the end you'll hold the formula every
# transformer is built on, you'll have computed each of its parts with a pencil, and a head of your own will have
# learned, from examples alone, which noun a pronoun means.
#
# | | |
# | --- | --- |
# | **You will build** | attention by hand, by loop and as two matrix products; a head you design, and one you train |
# | **You will understand** | why softmax needs care, why scores are divided by $\sqrt{d}$, why word order is lost |
# | **You need** | queries, keys and values from lesson 01, and a pencil |
# | **Time** | core 100 minutes, everything 2 hours 50 minutes ([symbols](00_start_here.ipynb#Symbols)) |
#
# Near the end you train a head, and it's *yours* once it passes its check.

# %%
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from einops import einsum
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import NotUsable, usable_text
from attnlib.plot import (
    ACCENT,
    GREY,
    INK,
    PALE,
    Box,
    hover_links,
    plot_attention,
    plot_boxes,
    plot_flow,
    show,
    use_style,
)

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait

# %% [markdown]
# ## Ask one question with a pencil · core
#
# *The animal did not cross the street because it was tired.* What was tired? In lesson 01 *it* came with the same
# vector as in every other sentence, so it has to fetch something from the words around it. It must decide **from
# which**, and **how much**.
#
# Lesson 01's queries, keys and values were random. These are made by hand, and small enough to read.
#
# | | thing | alive | place | action | | legs | lanes |
# |---|---|---|---|---|---|---|---|
# | query of **it** | 2 | 2 | 0 | 0 | | | |
# | key of **animal** | 2 | 2 | 0 | 0 | value | 4 | 0 |
# | key of **street** | 2 | 0 | 2 | 0 | value | 0 | 2 |
# | key of **cross** | 0 | 0 | 0 | 2 | value | 0 | 0 |
#
# *It* looks for a living thing, something that can be tired. A real network isn't given such tidy features. It learns
# its own, and they are rarely this readable. The arithmetic is the same.

# %%
query_it = torch.tensor([2.0, 2.0, 0.0, 0.0])
three_words = ["animal", "street", "cross"]
three_keys = torch.tensor(
    [[2.0, 2.0, 0.0, 0.0], [2.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 2.0]]
)
three_values = torch.tensor([[4.0, 0.0], [0.0, 2.0], [0.0, 0.0]])

# %% [markdown]
# **Score.** A dot product is large where both vectors are large in the same entries. So "how well does this key answer
# this query?" is one dot product:
#
# $$q \cdot k = \sum_{c=1}^{d} q_c k_c$$
#
# - animal: $2\cdot2 + 2\cdot2 + 0\cdot0 + 0\cdot0 = 8$
# - street: $2\cdot2 + 2\cdot0 + 0\cdot2 + 0\cdot0 = 4$
# - cross: $0$
#
# **Scale.** Divide by $\sqrt{d} = \sqrt{4} = 2$. (Why this number? A later section derives it.) The scores are now $4$,
# $2$ and $0$.
#
# **Weigh.** You want shares, positive numbers that add up to 1. Lesson 01 divided each score by the sum of the scores,
# which gives a negative share to a negative score, and nothing sensible when the sum is 0. So make the scores positive
# first. Take $e^s$ of each, then divide by the total. This is the *softmax*:
#
# $$w_j = \frac{e^{s_j}}{\sum_i e^{s_i}}
# \qquad e^4 \approx 54.60,\quad e^2 \approx 7.39,\quad e^0 = 1,\quad \text{total } 62.99$$
#
# - animal: $54.60 / 62.99 \approx 0.867$, street: $7.39 / 62.99 \approx 0.117$, cross: $1 / 62.99 \approx 0.016$
#
# Everybody calls these shares *attention weights*, and from here on so do we. (The numbers a network learns, such as
# those in $W^Q$, are called weights as well. Those are kept; attention weights are computed anew for each sentence.)
#
# **Mix.** Add up the values, each with its weight: $0.867\cdot(4, 0) + 0.117\cdot(0, 2) + 0.016\cdot(0, 0) \approx
# (3.47, 0.23)$. The word *it* now has three and a half legs and a quarter of a lane. That's attention. All of it.

# %%
plot_flow(
    query_it, three_keys, three_values,
    asks=["it"],
    answers=three_words,
    features=["thing", "alive", "place", "action"],
    gives=["legs", "lanes"],
    title="One question, four steps: “it” comes back with legs",
)  # fmt: skip
show(
    "Boxes and arrows: the query of it (2, 2, 0, 0) and three keys give the scores 4, "
    "2 and 0; softmax makes the weights 0.867, 0.117 and 0.016 of them; mixed with "
    "the values, they give 3.47 legs and 0.23 lanes."
)

# %% [markdown]
# Now the same in Python, one number at a time, so that a mistake has nowhere to hide. The last two lines compare it
# with the pencil.


# %%
def attend_one(query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """One query (d), keys (k, d), values (k, d_v) -> output (d_v), weights (k). Slow
    and plain."""
    exponentials = []
    for key in keys.tolist():
        score = sum(a * b for a, b in zip(query.tolist(), key, strict=True))
        exponentials.append(math.exp(score / math.sqrt(len(key))))
    shares = [grown / sum(exponentials) for grown in exponentials]
    columns = values.T.tolist()
    mixture = [
        sum(w * v for w, v in zip(shares, column, strict=True)) for column in columns
    ]
    return torch.tensor(mixture), torch.tensor(shares)


output_it, weights_it = attend_one(query_it, three_keys, three_values)
for word, weight in zip(three_words, weights_it, strict=True):
    print(f"{word:8}{weight:.3f}")
print("legs, lanes:", [round(x, 2) for x in output_it.tolist()])
assert_close(weights_it, torch.tensor([0.867, 0.117, 0.016]), atol=5e-4, rtol=0)
assert_close(output_it, torch.tensor([3.47, 0.23]), atol=5e-3, rtol=0)

# %% [markdown]
# The weights are positive and add up to 1, so the output is an *average* of the values. It can never leave the shape
# they span, here a triangle, and the query decides where in the triangle you end up. One more number has a say, the
# scale. Multiply the dot products by a factor that grows from 0. Where in the triangle does the output start, and which
# way does it go?


# %%
def scaled_by(scale: float) -> Tensor:
    """The output of “it” when the plain dot products are multiplied by `scale`."""
    undo = 2.0  # attend_one divides by √4
    return attend_one(query_it * undo * scale, three_keys, three_values)[0]


walk = torch.stack([scaled_by(step / 100) for step in range(101)])
assert_close(walk[50], output_it, atol=1e-6, rtol=0)  # 1/√d = 0.5

# %%
_, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
ax.add_patch(plt.Polygon(three_values.numpy(), facecolor=PALE, edgecolor=INK))
ax.plot(*walk.T)
for word, (legs, lanes) in zip(three_words, three_values.tolist(), strict=True):
    ax.text(legs, lanes + (0.1 if lanes else -0.22), f"value of {word}")
marks = [
    (0, "× 0: all alike", -0.5, -0.22),
    (50, "× 1/√d: what “it” gets", 0.1, 0.06),
    (100, "× 1", 0.1, 0.02),
]
for step, text, right, up in marks:
    legs, lanes = walk[step].tolist()
    ax.plot(legs, lanes, "o", color=ACCENT, markersize=8)
    ax.text(legs + right, lanes + up, f"scores {text}", color=ACCENT)
ax.set(xlabel="legs", ylabel="lanes", xlim=(-0.3, 5.8), ylim=(-0.35, 2.4))
ax.set_title("Attention is an average of the values: it never leaves their triangle")
show(
    "A triangle between the values of animal (4 legs), street (2 lanes) and cross. A "
    "curve inside it starts at the average of the three, passes what “it” gets, and "
    "bends towards animal as the scores grow."
)

# %% [markdown]
# The output goes from "all alike" to "winner takes all". With a factor of 0 every word gets ⅓; the larger the factor,
# the closer the output comes to the value of *animal*.
#
# ## Ask all eleven questions in a loop · core
#
# In *self*-attention every word asks, and every word answers, including the one that asks. So each of the eleven tokens
# needs a query, a key and a value. As in lesson 01 they come from an embedding $x$ and three matrices, $q = x W^Q$,
# $k = x W^K$ and $v = x W^V$.
#
# The embeddings are made by hand, with seven features, each 0 or 1. To keep the numbers few, *did*, *not*, *because*
# and *was* are left blank.

# %%
sentence = "The animal did not cross the street because it was tired"
tokens = sentence.lower().split()
features = ["thing", "alive", "place", "action", "article", "pronoun", "state"]
meaning = {
    "the": "article", "animal": "thing alive", "street": "thing place",
    "cross": "action", "it": "pronoun", "tired": "state",
}  # fmt: skip
words = [meaning.get(token, "").split() for token in tokens]
x = torch.tensor([[float(feature in word) for feature in features] for word in words])
print(tuple(x.shape), "= (n, d_model);  animal is", x[1].int().tolist())

# %% [markdown]
# A word's query is the sum of the rows of $W^Q$ that belong to its features, since $x$ is a row of zeros and ones. So a
# row of $W^Q$ says what a word with that feature looks for. A row of $W^K$ says what the feature offers.
#
# ### Exercise: write the matrices yourself ({points}, difficulty 3, 15 minutes)
#
# Before a network learns such matrices, design some yourself. Write `write_matrices(features)`, which returns $W^Q$ and
# $W^K$ for a head that understands our sentence. The check doesn't look at your numbers. It lets every word ask and
# reads the attention weights.
#
# | word | attends to | with a weight of at least |
# | --- | --- | --- |
# | *it* | *animal* | 0.9 |
# | *cross* | *street* | 0.9 |
# | *tired* | *animal* | 0.9 |
# | each *the* | *animal* and *street* | 0.45 on each |
#
# - `features` is a list of the seven names above, not always in this order. Row i of a matrix belongs to
#   `features[i]`.
# - Return one tensor `(2, 7, d_k)`, with $W^Q$ first, as `torch.stack([w_q, w_k])` does. The width `d_k` is up to you.
# - Scores are divided by $\sqrt{d_k}$. These weights also have to be reached in a sentence of twenty words.
# - All other words can look where they like. The parts of the check: {parts}.
#
# The pencil's numbers give *it* a score of 4 for *animal* and 2 for *street*. Before you write anything, work out what
# weight that leaves for *animal* among twenty words, if the other 18 score 0.


# %%
def write_matrices(features: list[str]) -> Tensor:
    """Seven names -> (2, 7, d_k): W_Q, then W_K."""
    ### BEGIN SOLUTION
    offers = ["thing", "alive", "place"]
    looks_for = {
        "pronoun": "alive",
        "state": "alive",
        "action": "place",
        "article": "thing",
    }
    w_q, w_k = torch.zeros(2, len(features), len(offers))
    for column, offer in enumerate(offers):
        w_k[features.index(offer), column] = 4.0
    for asking, wanted in looks_for.items():
        w_q[features.index(asking), offers.index(wanted)] = 4.0
    return torch.stack([w_q, w_k])
    ### END SOLUTION


# %%
check("write_matrices", write_matrices)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Start with a column for each feature worth finding, and offer it in $W^K$: the row of *alive* has a number in the
# column for *alive*, and zeros elsewhere. `features.index("alive")` finds the row.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Which single feature does *animal* have that *street* doesn't? Let *pronoun* ask for that one alone. And what do both
# nouns have in common, so that an article can't tell them apart?
#
# </details>
# <details><summary>Hint 3</summary>
#
# A word with score $s$ among 19 words that score 0 gets the weight $e^s / (e^s + 19)$. For 0.9 that takes
# $s \approx 5.14$, *after* the division by $\sqrt{d_k}$. Make the numbers in the matrices larger until it's reached.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# $54.60 / (54.60 + 7.39 + 18) \approx 0.68$. Softmax never gives a key exactly zero, so in a long sentence the 18
# words that score 0 take more than a fifth, although none of them answers the question.
#
# </details>

# %% [markdown]
# There are many right answers, because only the product $W^Q (W^K)^\top$ counts (lesson 01 folds it into one matrix).
# For the rest of the section we take matrices that give the pencil's numbers (lower scores than yours), so that you can
# follow every weight by hand. $W^V$ says what a feature gives: four legs for what is alive, two lanes for a place.

# %%
w_q, w_k, w_v = torch.zeros(7, 4), torch.zeros(7, 4), torch.zeros(7, 2)
#     looks for:                    thing alive place action
w_q[features.index("thing")] = torch.tensor([0.0, 0.0, 0.0, 2.0])
w_q[features.index("action")] = torch.tensor([2.0, 0.0, 2.0, 0.0])
w_q[features.index("article")] = torch.tensor([2.0, 0.0, 0.0, 0.0])
w_q[features.index("pronoun")] = torch.tensor([2.0, 2.0, 0.0, 0.0])
w_q[features.index("state")] = torch.tensor([0.0, 2.0, 0.0, 0.0])
w_k[:4] = 2 * torch.eye(4)  # thing, alive, place and action are offered as they are
w_v[features.index("alive")] = torch.tensor([4.0, 0.0])  # legs
w_v[features.index("place")] = torch.tensor([0.0, 2.0])  # lanes

queries, keys, values = x @ w_q, x @ w_k, x @ w_v
it = tokens.index("it")
assert_close(queries[it], query_it, atol=0, rtol=0)
assert_close(keys[[1, 6, 4]], three_keys, atol=0, rtol=0)
assert_close(values[[1, 6, 4]], three_values, atol=0, rtol=0)

# %% [markdown]
# These are the pencil's vectors again, as the three assertions confirm. Now let every word ask.


# %%
def attend_by_loop(
    queries: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """Queries (q, d), keys (k, d), values (k, d_v) -> outputs (q, d_v), weights (q,
    k)."""
    answers = [attend_one(query, keys, values) for query in queries]
    outputs, weights = zip(*answers, strict=True)
    return torch.stack(outputs), torch.stack(weights)


loop_output, loop_weights = attend_by_loop(queries, keys, values)

row = loop_weights[it]
# "it": animal, street, and nine words with score 0
total = math.exp(4) + math.exp(2) + 9
assert_close(row[1].item(), math.exp(4) / total, atol=1e-6, rtol=0)
assert_close(row[6].item(), math.exp(2) / total, atol=1e-6, rtol=0)
assert_close(row[[1, 6, 4]] / row[[1, 6, 4]].sum(), weights_it, atol=1e-6, rtol=0)
print(f"it looks at animal: {row[1]:.3f}, at street: {row[6]:.3f}")

# %% [markdown]
# With eleven words sharing the weight, *animal* gets 0.769 instead of 0.867, because nine words score 0, and $e^0$ is
# 1, not 0. Among the three words of the pencil, the proportions haven't changed (the last assertion).
#
# The word *did* has a blank embedding, so its query is $(0, 0, 0, 0)$. What's its row of weights? Decide before you
# look at the picture.

# %% tags=["picture:attention.png"]
plot_attention(
    loop_weights,
    tokens,
    title="“it” looks at “animal”: each row is one word's question",
)
show(
    "A table of eleven rows and eleven columns. The darkest cells: it looks at animal "
    "and cross at street (0.77). Then tired looks at animal, and animal and street at "
    "cross (0.42). The rows of blank words are even."
)
assert_close(loop_weights.sum(dim=-1), torch.ones(11), atol=1e-6, rtol=0)
assert_close(loop_weights[0], loop_weights[5], atol=0, rtol=0)
# “cross” at “street”; “tired” at “animal”, and both nouns at “cross”
darkest = loop_weights[[4, 10, 1, 6], [6, 1, 4, 4]]
dark = torch.tensor([0.769, 0.425, 0.425, 0.425])
assert_close(darkest, dark, atol=1e-3, rtol=0)
blank = loop_weights[[2, 3, 7, 9]]
assert_close(blank, torch.full((4, 11), 1 / 11), atol=1e-6, rtol=0)

# %% [markdown]
# Read it row by row; each row adds up to 1. *it* attends to *animal*, *cross* to *street*, *tired* to *animal*. Check
# one yourself. *tired* asks $(0, 2, 0, 0)$, so *animal* scores $4/2 = 2$ and gets $e^2/(e^2+10) \approx 0.42$. The row
# of *did* is even, $1/11$ for every word. All its scores are 0, and $e^0 = 1$ for all of them. A word that asks for
# nothing gets the plain average of all values.
#
# Now compare the two rows of *the*. They're the same to the last bit, and both give *animal* and *street* equal shares.
# You know which article belongs to which noun, because you see where each word is. Attention is never told where
# anything is. Keep that in mind until the end of the lesson.
#
# And your own matrices? Here is what the same eleven words find with them.

# %%
# nbval-ignore-output: it says whose function is used, and that differs for a student
own_q, own_k = yours_or_ours("write_matrices", globals())(features).float()
own_weights = attend_by_loop(x @ own_q, x @ own_k, values)[1]
for asking, found in (("it", "animal"), ("cross", "street"), ("tired", "animal")):
    pair = tokens.index(asking), tokens.index(found)
    pencils, yours = loop_weights[pair].item(), own_weights[pair].item()
    print(f"{asking} attends to {found}: {pencils:.2f} above, {yours:.2f} with yours")
assert own_weights[it, 1] > 0.9 > loop_weights[it, 1]

# %% [markdown]
# ## Ask all questions at once · core
#
# The loop computes $11 \times 11$ dot products one by one. A matrix product does nothing else. Entry $(i, j)$ of
# $Q K^\top$ is the dot product of row $i$ of $Q$ with row $j$ of $K$. The mixing is a second matrix product, because
# output $i$ is row $i$ of the weights times the values:
#
# $$S = \frac{Q K^\top}{\sqrt{d}}, \qquad A = \mathrm{softmax}_{\text{over keys}}(S), \qquad O = A V$$

# %%
scores = queries @ keys.T / 2  # √d = √4
exponentials = torch.exp(scores)
weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
outputs = weights @ values

assert_close(einsum(queries, keys, "q d, k d -> q k") / 2, scores, atol=0, rtol=0)
assert_close(weights, loop_weights, atol=1e-6, rtol=0)
assert_close(outputs, loop_output, atol=1e-6, rtol=0)
print([tuple(result.shape) for result in (scores, weights, outputs)])

# %% [markdown]
# Four lines, no loop, the same numbers. Now make each line work in general. The first has two flaws. Our 2 is
# hard-coded in it, and `keys.T` works for a single sentence only. With a batch of sentences, $(b, n, d)$, `.T` would
# reverse *all* the axes.

# %% [markdown]
# ### Exercise: score every query against every key ({points}, difficulty 2, 8 minutes)
#
# Write `attention_scores(q, k)`, all dot products of queries with keys, divided by $\sqrt{d}$.
#
# - `q` is `(…, q, d)`, `k` is `(…, k, d)`, the result is `(…, q, k)`. The `…` stands for any number of leading axes,
#   such as none, a batch, or a batch and heads.
# - There can be more keys than queries, or fewer.
# - As always (lesson 00): the inputs' dtype and device, inputs unchanged, gradients to both.
# - Not allowed: `attnlib.attention_scores`, and any finished attention such as `F.scaled_dot_product_attention`.


# %%
def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """(..., q, d), (..., k, d) -> (..., q, k): every query with every key, over the
    root of d."""
    ### BEGIN SOLUTION
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    ### END SOLUTION


# %%
check("attention_scores", attention_scores)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A matrix product with `@` works on the last two axes and carries the leading ones along. So all you need is a `k`
# whose last two axes are swapped.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `Tensor.transpose(a, b)` swaps two axes and leaves the rest. Counted from the end, the last axis is `-1`. Or write an
# einsum, as in `pairwise_dot` of lesson 00, with `...` for the leading axes.
#
# </details>
# <details><summary>Hint 3</summary>
#
# $d$ is the length of *one* query, the size of the last axis of `q`. It isn't the number of queries or of keys. The
# whole function is the product of (`q`) and (`k`, its last two axes swapped), over the root of that size.
#
# </details>

# %% [markdown]
# ## Turn scores into weights, and survive large ones · core
#
# The softmax, lines two and three, is right on paper and breaks on a computer. The largest float32 is about
# $3.4 \cdot 10^{38}$, which is $e^{88.72}$. Beyond that `exp` returns infinity, and infinity divided by infinity isn't
# a number.


# %%
def naive_softmax(scores: Tensor) -> Tensor:
    """(..., k) -> (..., k): the formula, typed as it stands."""
    return torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)


print(f"e^88 = {torch.tensor(88.0).exp():.2e},  e^1e4 = {torch.tensor(1e4).exp()}")
for row in ([4.0, 2.0, 0.0], [1e4, 2.0, 0.0], [-1e4, -1e4, -1e4]):
    print(row, "->", naive_softmax(torch.tensor(row)).numpy().round(3))
assert naive_softmax(torch.tensor([1e4, 2.0, 0.0])).isnan().any()
assert naive_softmax(torch.full((3,), -1e4)).isnan().all()
assert torch.tensor([11.0, 12.0], dtype=torch.float16).exp().isinf().tolist() == [
    False,
    True,
]

# %% [markdown]
# One `nan` in one weight makes the output `nan`, then the loss, then every weight of the network. In float16 a score of
# 12 is enough.
#
# The way out costs one line. Add the same constant $c$ to all scores, and the weights don't change:
#
# $$\frac{e^{s_j + c}}{\sum_i e^{s_i + c}} = \frac{e^c e^{s_j}}{e^c \sum_i e^{s_i}} = \frac{e^{s_j}}{\sum_i e^{s_i}}$$
#
# Only *differences* between scores count, so you're free to choose $c$. One choice makes the largest exponent exactly
# 0. Then nothing can overflow, and the total is at least 1, so nothing is divided by 0.
#
# The picture shifts the pencil's scores, $(4, 2, 0)$, by $c$ and plots the weight of *animal*. It should be 0.867
# everywhere, and between $-98$ and $84$ it is. The two ends are enlarged, because there the formula is wrong *before*
# it fails. On the left, the numbers get so small that float32 has no digits left for them. On the right, the *sum* is
# $62.99\, e^c$ and overflows at $c = 88.72 - \ln 62.99 = 84.58$, while the largest term, $e^{4+c}$, survives until
# $84.72$. In between, a finite number is divided by infinity, and all three weights are silently 0. Only after that
# comes `nan`.

# %%
pencils_scores = torch.tensor([4.0, 2.0, 0.0])
ends = torch.linspace(-110, -98, 601), torch.linspace(84.4, 84.9, 601)
naive, careful = (
    [function(pencils_scores + c[:, None])[:, 0] for c in ends]
    for function in (naive_softmax, attnlib.softmax)
)
for weight in careful:
    assert_close(weight, torch.full((601,), 0.8668), atol=1e-4, rtol=0)
assert naive[0][ends[0] < -108.5].isnan().all()
assert naive[1][ends[1] > 84.73].isnan().all()
# wrong, and no nan says so
assert naive[0][(ends[0] > -107.9) & (ends[0] < -106.5)].min() > 0.99
sliver = naive_softmax(pencils_scores + 84.65)
assert sliver.tolist() == [0.0, 0.0, 0.0]
middle = naive_softmax(pencils_scores + torch.linspace(-98, 84, 101)[:, None])[:, 0]
assert_close(middle, torch.full((101,), 0.8668), atol=5e-4, rtol=0)
print("c = 84.65:", sliver.tolist())

# %%
_, axes = plt.subplots(1, 2, figsize=(9.5, 3.2), layout="constrained", sharey=True)
texts = ("0 / 0", "∞ / ∞")
for ax, c, typed, safe, text in zip(axes, ends, naive, careful, texts, strict=True):
    ax.plot(c, safe, color="#9ecae1", linewidth=7, label="softmax, with care")
    ax.plot(c, typed, linewidth=1.5, label="softmax, as typed")
    lost = c[typed.isnan()]
    ax.axvspan(lost.min(), lost.max(), color=ACCENT, alpha=0.25)
    middle = (lost.min() + lost.max()).item() / 2
    ax.text(middle, 0.45, f"nan\n{text}", ha="center", color=ACCENT)
    ax.set(xlabel="c, added to all three scores", xlim=(c.min(), c.max()))
axes[0].set(ylabel="weight of “animal”", ylim=(-0.05, 1.15))
axes[0].set_title("Far below, it rounds to 1 …")
axes[1].set_title("… and far above, to 0, before it fails")
axes[0].legend(loc="lower right")
show(
    "The weight of animal against a shift of all scores, at the two ends of float32. "
    "With care it is 0.867 everywhere. As typed, it swings and reaches 1 before it "
    "turns to nan near -108, and it is 0 from 84.58 to 84.72 before it turns to nan."
)

# %% [markdown]
# ### Exercise: write a softmax that does not break ({points}, difficulty 3, 10 minutes)
#
# Write `softmax(scores)`, over the last axis.
#
# - `scores` is `(…, k)`, any leading axes; so is the result. Each row along the last axis adds up to 1. As always.
# - Finite and right for scores of $\pm 10^4$, even when *all* scores of a row are that far from zero. No score is
#   infinite.
# - You need `torch.exp`, sums and maxima. `torch.logsumexp` is allowed, and passes the check, but it's less exact. In
#   float32, a score near 10,000 minus a logsumexp near 10,000 has few digits left. Subtracting the largest score loses
#   none.
# - Not allowed: anything that takes a softmax for you, torch's in any form (`F.softmax`, `nn.Softmax`, `log_softmax`,
#   attention with a unit matrix, …), a derivative (that of `logsumexp` is a softmax), or another library's. SciPy,
#   scikit-learn and their like can't be imported while your answer is checked.


# %%
def softmax(scores: Tensor) -> Tensor:
    """(..., k) -> (..., k): positive weights that add up to 1 along the last axis."""
    ### BEGIN SOLUTION
    grown = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return grown / grown.sum(dim=-1, keepdim=True)
    ### END SOLUTION


# %%
check("softmax", softmax)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which constant, added to all scores of a row, makes the largest of them 0? Each row needs its own.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `Tensor.amax(dim=..., keepdim=True)` gives the largest entry along an axis and keeps that axis with size 1, so that
# the result can be subtracted from `scores` by broadcasting. Without `keepdim` it lines up with the wrong axis. (`max`
# with a `dim` returns a pair, the entries and their indices, and a pair can't be subtracted.)
#
# </details>
# <details><summary>Hint 3</summary>
#
# Three steps, each along the last axis. Subtract the row's maximum, exponentiate, and divide by the row's sum. One
# maximum for the whole tensor isn't enough, because a row far below it would become 0 divided by 0.
#
# </details>

# %% [markdown]
# ## Find out where the √d comes from · core
#
# Real queries have 64 or 128 entries, not four. A dot product of longer vectors has more terms. Does it get larger, and
# how fast? At the start of training the entries are roughly independent, with mean 0 and variance 1.
#
# ### Predict, then run: how far dot products spread ({points}, difficulty 2, 3 minutes)
#
# The entries of $q$ and $k$ are independent, with mean 0 and variance 1, and $d = 256$. About how large is the standard
# deviation of $q \cdot k$?
#
# - **A**: 1
# - **B**: 16
# - **C**: 256
# - **D**: there's no single answer: it depends on the number of keys

# %%
### BEGIN SOLUTION
dot_spread = "B"
### BEGIN STUB
# dot_spread = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_dot_spread", dot_spread)

# %% [markdown]
# Two lines settle it. One term has mean 0, and the variance of a product of independent numbers with mean 0 is the
# product of their variances. The variances of independent terms add up:
#
# $$\mathrm{Var}(q_c k_c) = \mathrm{E}[q_c^2] \cdot \mathrm{E}[k_c^2] = 1 \cdot 1 = 1$$
# $$\mathrm{Var}(q \cdot k) = \sum_{c=1}^{d} \mathrm{Var}(q_c k_c) = d
# \qquad\text{so the standard deviation is } \sqrt{d}$$
#
# Dividing by $\sqrt{d}$ brings it back to 1, for every $d$. Dividing by $d$ would overdo it, because the scores would
# shrink to 0 as $d$ grows, and all weights would become alike. Measure it.

# %%
widths = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
generator = torch.Generator().manual_seed(2)
num_keys = 64
raw_scores = {}  # d -> 400 queries against 64 keys each, not scaled
for d in widths:
    q = torch.randn(400, 1, d, generator=generator)
    k = torch.randn(400, num_keys, d, generator=generator)
    raw_scores[d] = (q * k).sum(dim=-1)

spread = torch.tensor([raw_scores[d].var().item() for d in widths])
assert_close(spread, torch.tensor(widths).float(), rtol=0.15, atol=0)
print({d: round(variance.item()) for d, variance in zip(widths, spread, strict=True)})

# %% [markdown]
# Why does the spread matter? Because softmax sees only differences, and $e^{\text{difference}}$ is merciless. With
# $d = 256$ two scores are easily 20 apart, and $e^{20}$ is half a billion, so one key takes everything. Then two
# things are lost.
#
# - **The mixture.** The *entropy* $-\sum_j w_j \ln w_j$ says how many keys share the weight. It's $\ln 64 \approx 4.16$
#   when all 64 weigh the same, and 0 when one has it all. (With the natural logarithm its unit is the *nat*.)
# - **The gradient.** By the quotient rule the derivative of softmax is
#   $\partial w_i / \partial s_j = w_i (\delta_{ij} - w_j)$, where $\delta_{ij}$ is 1 if $i = j$ and 0 if not. When
#   every weight is 0 or 1, the whole derivative is 0, and a wrong choice can no longer be unlearned. Its diagonal adds
#   up to $\sum_i w_i (1 - w_i)$.
#
# Below, the middle plot shows the entropy and the right one that sum, each without scaling, divided by $\sqrt d$, and
# divided by $d$. Which of the three should stay flat as $d$ grows?


# %%
def entropy_and_slope(scores: Tensor) -> tuple[float, float]:
    """Scores (q, k) -> entropy of the weights, and sum of their slopes; means over the
    queries."""
    weights = attnlib.softmax(scores)
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)
    slope = (weights * (1 - weights)).sum(dim=-1)
    return entropy.mean().item(), slope.mean().item()


row = raw_scores[4][0]  # the formula for the slope, against autograd
jacobian = torch.autograd.functional.jacobian(attnlib.softmax, row)
assert_close(
    jacobian.trace().item(), entropy_and_slope(row[None])[1], atol=1e-5, rtol=0
)

unscaled = torch.tensor([entropy_and_slope(raw_scores[d]) for d in widths])
scaled = torch.tensor([entropy_and_slope(raw_scores[d] / math.sqrt(d)) for d in widths])
overdone = torch.tensor([entropy_and_slope(raw_scores[d] / d) for d in widths])

# %%
_, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
left.loglog(widths, widths, color=GREY, label="d, as derived")
left.loglog(widths, spread, "o", color=INK, label="measured")
left.set(xlabel="d", ylabel="variance of q · k", title="The variance of q · k is d")
left.legend()
for column, ax in enumerate((middle, right)):
    ax.semilogx(widths, unscaled[:, column], "s-", color=ACCENT, label="no scaling")
    ax.semilogx(widths, scaled[:, column], "o-", color=INK, label="÷ √d")
    ax.semilogx(widths, overdone[:, column], "^--", color=GREY, label="÷ d")
middle.axhline(math.log(num_keys), color=GREY, linestyle=":", linewidth=1)
middle.text(
    4, math.log(num_keys) + 0.16, "ln 64: all keys alike", color=GREY, fontsize=9
)
middle.set(
    xlabel="d", ylabel="entropy in nats", ylim=(0, 4.8), title="÷ √d keeps a mixture …"
)
right.set(xlabel="d", ylabel="Σ ∂wᵢ/∂sᵢ", ylim=(0, 1.05), title="… and a gradient")
right.legend()
show(
    "Three plots against the width d. Left: the variance of q · k grows as d. Middle "
    "and right: without scaling, entropy and slope fall towards 0; divided by the "
    "root of d they are flat; divided by d the entropy climbs to its maximum."
)
assert scaled[:, 0].max() - scaled[:, 0].min() < 0.15  # with √d, d no longer matters
assert unscaled[-1, 0] < 0.3 < 3 < scaled[-1, 0]
assert unscaled[-1, 1] < 0.2 < 0.9 < scaled[-1, 1]
assert overdone[-1, 0] > math.log(num_keys) - 0.01  # ÷ d: all keys alike

# %% [markdown]
# Without scaling, the wider the vectors, the more the softmax turns into a hard choice, and the less it can learn. With
# $\sqrt{d}$ both curves are flat, and you no longer have to tune around the width. Dividing by $d$ goes too far: the
# wider the vectors, the more alike all weights become, until attention no longer chooses.
#
# Be exact about what this shows. $\sqrt{d}$ is right for entries that are independent with variance 1, as they are when
# training starts. Training may well make the scores larger, but then it does so for a reason, and not because the
# vectors happen to be wide.

# %% [markdown]
# ## Put the pieces together · core
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# This is equation 1 of [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), and you have every part of it. Its two
# widths are often equal, but they don't have to be. Queries and keys must have the same width, $d_k$, or there is no
# dot product. Values may have any width, $d_v$, because they're only averaged. Above, $d_k = 4$ and $d_v = 2$. Here are
# the shapes for a batch of 2, with 3 heads (lesson 03), 5 queries and 11 keys. Follow each axis from left to right.
# Where does $k$ go?

# %%
plot_flow(
    torch.zeros(2, 3, 5, 7), torch.zeros(2, 3, 11, 7), torch.zeros(2, 3, 11, 13),
    shapes=True, title="The k axis disappears in the mix, d_k in the dot product",
)  # fmt: skip
show(
    "Boxes with shapes: queries (b, h, q, d_k) and keys (b, h, k, d_k) give scores "
    "and weights (b, h, q, k); with the values (b, h, k, d_v) they give the output "
    "(b, h, q, d_v)."
)

# %% [markdown]
# ### Exercise: write attention ({points}, difficulty 2, 10 minutes)
#
# Write `scaled_dot_product_attention(q, k, v)`, which returns the output *and* the weights.
#
# - `q` is `(…, q, d_k)`, `k` is `(…, k, d_k)`, `v` is `(…, k, d_v)`; the output is `(…, q, d_v)`, the weights are
#   `(…, q, k)`.
# - Any leading axes; $d_k \ne d_v$ and more keys than queries are usual. As always.
# - Scores can be large here as well, and in every attention from here on. An `exp` that overflows fails the robustness
#   part of the check.
# - Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention` and `attnlib`'s attention. Use your own two
#   functions from above; `attnlib.attention_scores` and any softmax are allowed from here on, should yours not be
#   ready.


# %%
def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """(..., q, d_k), (..., k, d_k), (..., k, d_v) -> output (..., q, d_v), weights
    (..., q, k)."""
    ### BEGIN SOLUTION
    shares = softmax(attention_scores(q, k))
    return shares @ v, shares
    ### END SOLUTION


# %%
check("scaled_dot_product_attention", scaled_dot_product_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go back to the four-line cell under *Ask all questions at once*. Your two functions replace its first three lines.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The weights are `(…, q, k)` and the values `(…, k, d_v)`. Which product makes the `k` in the middle disappear?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Scores from `q` and `k`; weights from the scores, over the last axis (the keys); output = weights times `v`. Return
# the pair in that order, output first.
#
# </details>

# %% [markdown]
# PyTorch has this function as well, with fast kernels behind it. The reference in `attnlib` and PyTorch's agree, and
# both agree with the loop over queries. All axes here have different sizes, so that nothing fits by accident.

# %%
generator = torch.Generator().manual_seed(6)
q = torch.randn(2, 3, 5, 7, generator=generator, dtype=torch.float64)  # (b, h, q, d_k)
k = torch.randn(2, 3, 11, 7, generator=generator, dtype=torch.float64)  # (b, h, k, d_k)
# (b, h, k, d_v)
v = torch.randn(2, 3, 11, 13, generator=generator, dtype=torch.float64)

output, weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
assert_close(output, F.scaled_dot_product_attention(q, k, v), atol=1e-12, rtol=0)

# one sentence, one head
slow_output, slow_weights = attend_by_loop(q[1, 2], k[1, 2], v[1, 2])
assert_close(output[1, 2].float(), slow_output, atol=1e-6, rtol=0)
assert_close(weights[1, 2].float(), slow_weights, atol=1e-6, rtol=0)
print(tuple(output.shape), tuple(weights.shape))

# %% [markdown]
# ## Give it weights that can be learned · core
#
# So far we wrote the matrices by hand. In a network they are learned. A module owns them and does nothing else; the
# mathematics stays in the function.
#
# $$q = x W^Q, \qquad k = x W^K, \qquad v = x W^V, \qquad \mathrm{SelfAttention}(x) = \mathrm{Attention}(q, k, v)$$
#
# ### Exercise: build the module ({points}, difficulty 2, 10 minutes)
#
# Write `SelfAttention(d_model, d_k, d_v)` with a `forward(x)` that returns the output and the weights.
#
# - Three `nn.Linear` layers without bias, called `w_q`, `w_k` and `w_v`, and no other parameters. The check sets their
#   weights, so it doesn't matter how they start.
# - `x` is `(b, n, d_model)`; the output is `(b, n, d_v)`, the weights are `(b, n, n)`. As always.
# - Not allowed: what wasn't allowed in the last exercise. If your `scaled_dot_product_attention` isn't ready, write
#   the formula out in `forward`.


# %%
class SelfAttention(nn.Module):
    """One head: x (b, n, d_model) -> output (b, n, d_v), weights (b, n, n)."""

    def __init__(self, d_model: int, d_k: int, d_v: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        return scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x))
        ### END SOLUTION


# %%
check("SelfAttention", SelfAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make the layers in `__init__`, each under the name given above, and call them in `forward`. All three get the same
# `x`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Two layers go from `d_model` to `d_k`, one from `d_model` to `d_v`. `nn.Linear` has a bias unless you say otherwise.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `forward` is one call of your `scaled_dot_product_attention` with three arguments. It already returns the right pair.
#
# </details>

# %% [markdown]
# Put the hand-made matrices into `attnlib`'s module, and the sentence comes out as before. `nn.Linear` keeps its weight
# as `(out, in)` and computes $x W^\top$, so the matrices go in transposed. Look at what *it* comes back with.

# %%
module = attnlib.SelfAttention(7, 4, 2)
module.load_state_dict({"w_q.weight": w_q.T, "w_k.weight": w_k.T, "w_v.weight": w_v.T})
# a batch of one sentence
module_output, module_weights = module(x[None], return_weights=True)
assert_close(module_weights[0], loop_weights, atol=1e-6, rtol=0)
assert_close(module_output[0], loop_output, atol=1e-6, rtol=0)

legs, lanes = module_output[0, it].tolist()
print(f"“it” comes back with {legs:.2f} legs and {lanes:.2f} lanes")

# %% [markdown]
# Point at a word on the left, or walk through the words with the tab key. Only its own lines are left, with their
# numbers. (On GitHub you see the lines of *it*.)

# %%
hover_links(
    module_weights[0],
    tokens,
    query=it,
    title="“it” looks at “animal”: point at any word",
)

# %% [markdown]
# *it* didn't know by itself that it should look for something alive. We wrote that into $W^Q$, once for all pronouns.
#
# Count what attention costs. Every word asks every word, so there are $n^2$ weights, 121 here and 16 million for a text
# of 4000 tokens. On the other hand no word has to wait for another one's result, which is what a GPU likes. Both facts
# will come back.

# %% [markdown]
# ## Train a head to find what a pronoun refers to · core
#
# You designed a head. Now train one from examples alone. The sentences are of the kind *Anna saw Tom near the boat
# because she was lost*, with three nouns in any order, one of them a *she*, one a *he*, one an *it*, and then a
# pronoun. The head isn't told where to look. It's only told what to bring back, the name of the one who was lost.
#
# A word is a vector of 14 numbers. The first three say which kind of noun it is, the next three which pronoun, and the
# last eight are a noun's *name*, a random pattern of $+1$ and $-1$, new in every sentence. So there's nothing to
# memorise. Only a rule works: *a pronoun looks at the noun of its kind, and copies the name*.

# %%
KINDS, NAME = ["she", "he", "it"], 8
# positions in “anna saw tom near the boat because she was lost”
NOUNS, PRONOUN = [0, 2, 5], 7


def sentences(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Words (b, 10, 14), the names to bring back (b, 8), and the positions of their
    nouns (b)."""
    # three nouns in any order
    kinds = torch.rand(count, 3, generator=generator).argsort(dim=-1)
    names = torch.randint(0, 2, (count, 3, NAME), generator=generator) * 2.0 - 1
    asked = torch.randint(0, 3, (count,), generator=generator)
    words = torch.zeros(count, 10, 6 + NAME)
    words[:, NOUNS, :3], words[:, NOUNS, 6:] = F.one_hot(kinds, 3).float(), names
    words[:, PRONOUN, 3:6] = F.one_hot(asked, 3).float()
    meant = (kinds == asked[:, None]).int().argmax(dim=-1)  # 0, 1 or 2
    return words, names[torch.arange(count), meant], torch.tensor(NOUNS)[meant]


# %% [markdown]
# Training is a loop of five steps, and you'll meet them in nearly every lesson from here on:
#
# 1. **Run** the head on some examples.
# 2. Measure how wrong it is with one number, the *loss*. Here it's the mean squared error, the average of (output
#    minus wanted)².
# 3. Set what the last step left behind to zero, because PyTorch would add to it: the gradients, which come next.
# 4. **`backward()`**, called on the loss, computes for each learned number how the loss would change if it grew a
#    little. That is the number's *gradient*.
# 5. Move every number a small step in the direction that lowers the loss, by subtracting its gradient times `lr`, the
#    *learning rate*. This is *gradient descent*. An *optimiser* does it for you, `torch.optim.SGD`.
#
# ### Exercise: write the training loop ({points}, difficulty 3, 25 minutes)
#
# Write `train_head(words, wanted, position, w_q, w_k, w_v, lr)`. It will train the five heads below. It has no module,
# only three matrices, so that nothing is hidden. One step with a pencil first. The loss is $(3w - 6)^2$, the weight is
# $w = 1$, and `lr` is 0.05. What's the gradient, and what is $w$ after the step?
#
# - `words` is `(steps, b, n, d_model)` and `wanted` `(steps, b, d_v)`. Each step has a batch of its own. Only the word
#   at `position` is compared.
# - `w_q`, `w_k` and `w_v` are `(d_model, d_k)`, `(d_model, d_k)` and `(d_model, d_v)`, the matrices before the first
#   step. They may be a layer's parameters, which require a gradient, and they must not be changed, so train copies of
#   them.
# - The loss of a step is `F.mse_loss`, the mean of the squared differences from what's wanted, over the whole batch.
# - Return the losses `(steps,)`, each computed before its step, and the three matrices after the last step, in this
#   order, detached or not.
# - Plain gradient descent, with a constant `lr`. You may use your own `scaled_dot_product_attention`, `attnlib`'s, or
#   PyTorch's. Dtype and device as always. The parts of the check: {parts}.


# %%
def train_head(
    words: Tensor,
    wanted: Tensor,
    position: int,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    lr: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Batches, targets, which word is asked, matrices, learning rate -> losses
    (steps,), trained matrices."""
    ### BEGIN SOLUTION
    weights = [w.detach().clone().requires_grad_() for w in (w_q, w_k, w_v)]
    optimiser = torch.optim.SGD(weights, lr=lr)
    losses = []
    for x, target in zip(words, wanted, strict=True):
        q, k, v = (x @ w for w in weights)
        output = F.scaled_dot_product_attention(q, k, v)
        loss = F.mse_loss(output[:, position], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    trained_q, trained_k, trained_v = (w.detach() for w in weights)
    return torch.stack(losses), trained_q, trained_k, trained_v
    ### END SOLUTION


# %%
check("train_head", train_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A tensor that is trained needs `requires_grad`. `w.detach().clone().requires_grad_()` is a copy you can train, and the
# tensor you were given stays as it was.
#
# </details>
# <details><summary>Hint 2</summary>
#
# One round of the loop for each of the `steps`. Project the batch with your three copies, attend, compare
# `output[:, position]` with what's wanted. Then the three lines `zero_grad()`, `backward()`, `step()`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Before the loop, `torch.optim.SGD([…], lr=lr)` with your three copies. In the loop, keep `loss.detach()`, since the
# loss itself would keep its whole computation alive. At the end, `torch.stack` of the losses, and the three copies,
# detached.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# The gradient is $2 \cdot (3w - 6) \cdot 3 = -18$ at $w = 1$. So $w$ becomes $1 + 0.05 \cdot 18 = 1.9$, and the loss
# falls from 9 to 0.09. With `lr` = 0.2 the step would end at 4.6, far beyond the best value, which is 2.
#
# </details>

# %%
# nbval-ignore-output: it says whose functions are used, and that differs for a student
Head = yours_or_ours("SelfAttention", globals())
train = yours_or_ours("train_head", globals())


# %%
seed = 0


def trained_head(
    start: int, rounds: int = 20
) -> tuple[nn.Module, list[float], list[float]]:
    """A head after rounds of twenty steps: its losses, and after each round its weight
    on the right noun."""
    torch.manual_seed(start)
    generator = torch.Generator().manual_seed(start)
    head, losses, looks = Head(6 + NAME, 4, NAME), [], []
    layers = head.w_q, head.w_k, head.w_v
    for _ in range(rounds):
        batches = [sentences(64, generator) for _ in range(20)]
        words, wanted, place = (
            torch.stack(parts) for parts in zip(*batches, strict=True)
        )
        found, *matrices = train(
            words, wanted, PRONOUN, *(layer.weight.T for layer in layers), 5.0
        )
        with torch.no_grad():
            for layer, matrix in zip(layers, matrices, strict=True):
                layer.weight.copy_(matrix.T)
        losses += found.tolist()
        looked = head(words[-1])[1][:, PRONOUN]
        looks.append(looked[torch.arange(64), place[-1]].mean().item())
    return head, losses, looks


# %% [markdown]
# One lucky run proves little. Train five heads from five random starts, and test each on 300 new sentences, with names
# it has never seen. (Their `lr` is 5. That isn't as bold as it looks: no number's first gradient is larger than a few
# hundredths.)

# %%
# nbval-ignore-output: the last digits of a trained weight differ by machine; the assertions say what it shows
started = time.process_time()
heads = [trained_head(5 * seed + start) for start in range(5)]
seconds = time.process_time() - started
words, wanted, place = sentences(300, torch.Generator().manual_seed(99 + seed))
for start, (head, losses, _) in enumerate(heads):
    with torch.no_grad():
        output, weights = head(words)
    looked = weights[:, PRONOUN]
    right = (looked.argmax(dim=-1) == place).float().mean().item()
    least = looked[torch.arange(300), place].min().item()
    read = (output[:, PRONOUN].sign() == wanted).all(dim=-1).float().mean().item()
    print(
        f"start {start}: loss {losses[0]:.2f} -> {losses[-1]:.3f}, attends to", end=" "
    )
    print(f"the right noun in {right:.0%} (at least {least:.2f}), reads {read:.0%}")
    assert right == 1.0
    assert least > 0.6
    assert read == 1.0
    assert losses[-1] < 0.05
print(f"five heads took {seconds:.1f} CPU seconds")

# %%
_, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for _, losses, looks in heads:
    left.plot(losses, color=INK, linewidth=1)
    right.plot(range(20, 401, 20), looks, color=INK, linewidth=1)
left.set(
    xlabel="step",
    ylabel="mean squared error",
    title="The loss falls in all five runs",
    ylim=(0, None),
)
right.axhline(0.1, color=GREY, linestyle=":", linewidth=1)
right.text(400, 0.12, "1/10: no preference", color=GREY, ha="right")
right.set(xlabel="step", ylabel="weight on the right noun", ylim=(0, 1))
right.set_title("Nobody said where to look")
show(
    "Two plots over 400 training steps, five runs each. The loss falls from about 1 "
    "to nearly 0, while the weight on the right noun is about one half after 20 steps "
    "and nearly 0.8 in the end."
)

# %% [markdown]
# All five heads found the same rule. Here's one sentence after training. Point at *she*.

# %%
example = ["anna", "saw", "tom", "near", "the", "boat", "because", "she", "was", "lost"]
shown, _, _ = sentences(1, torch.Generator().manual_seed(7))
shown[0, NOUNS, :3] = torch.eye(3)  # anna is a she, tom a he, the boat an it
shown[0, PRONOUN, 3:6] = torch.tensor([1.0, 0.0, 0.0])
trained = heads[0][0]
with torch.no_grad():
    example_weights = trained(shown)[1][0]
assert example_weights[PRONOUN].argmax() == example.index("anna")

# %%
hover_links(
    example_weights,
    example,
    query=PRONOUN,
    title="After training “she” looks at “anna”: point at any word",
)

# %% [markdown]
# Earlier in the lesson you wrote by hand what a pronoun should look for. What did the head learn? Score each pronoun
# against each kind of noun, with the scores $q \cdot k / \sqrt{d_k}$ from the learned $W^Q$ and $W^K$ and the names
# left blank.

# %%
one_of_each = torch.eye(6, 6 + NAME)  # three kinds of noun, then three pronouns
with torch.no_grad():
    nouns, pronouns = trained.w_k(one_of_each[:3]), trained.w_q(one_of_each[3:])
    learned = attnlib.attention_scores(pronouns, nouns)
assert learned.argmax(dim=-1).tolist() == [0, 1, 2]  # each pronoun prefers its own kind
assert learned.diagonal().min() > 1
tom, boat = example_weights[PRONOUN, NOUNS[1:]].tolist()
assert tom + boat < 0.03  # the remainder is with the words that have no name

# %%
columns = [f"a “{kind}”" for kind in KINDS]
scores_box = Box(
    name="learned scores q · k / √d_k",
    at=(0, 0),
    value=learned,
    rows=KINDS,
    columns=columns,
)
plot_boxes([scores_box], [], title="Each pronoun asks for its own kind")
show(
    "A table of three pronouns against three kinds of noun. The diagonal is positive, "
    "everything else lower."
)

# %% [markdown]
# That's the table you designed, found by gradient descent. Two things are worth remembering. First, *where* to look was
# never part of the loss. The head learned it because looking at the wrong noun brings back the wrong name. Second, the
# weight on the right noun never became 1, and yet the loss is nearly 0. Softmax never gives a key exactly zero, but the
# rest of the weight falls on words with no name, which add nothing. $W^V$ simply scales the names up to compensate.
#
# ## Your turn: mark your own sentence · more
#
# Write a sentence with *she*, *he* or *it* in it, and mark its nouns, so that *maria/she* is a noun *she* can refer to.
# Change `mine`, run the cell, and point at the pronouns. Try two nouns of one kind, or a pronoun that comes before its
# noun. Where does it look then, and what would you need to know in order to choose?

# %% tags=["unfolded"]
mine = "maria/she lent tom/he the boat/it because she liked him and he liked it"

words_of_mine = usable_text(mine, longest=200).lower().split()
# ("maria", "she"), …
marked = [word.strip(",.!?").partition("/")[::2] for word in words_of_mine]
kinds = {kind for _, kind in marked if kind}
asking = [i for i, (word, kind) in enumerate(marked) if word in KINDS and not kind]
if not asking or not kinds or not kinds <= {*KINDS} or len(marked) > 20:
    raise NotUsable(
        "At most 20 words are needed, among them she, he or it, and a noun marked with "
        "/she, /he or /it; "
        f"got {len(marked)} words, {len(asking)} such pronouns, and the marks "
        f"{sorted(kinds)}."
    )
types = [
    [*(kind == k for k in KINDS), *(word == k and not kind for k in KINDS)]
    for word, kind in marked
]
names = (
    torch.randint(0, 2, (len(marked), NAME), generator=torch.Generator().manual_seed(3))
    * 2.0
    - 1
)
names[[not kind for _, kind in marked]] = 0.0  # only nouns have one
with torch.no_grad():
    looked = trained(torch.cat([torch.tensor(types).float(), names], dim=-1)[None])[1][
        0
    ]
hover_links(
    looked,
    [word for word, _ in marked],
    query=asking[0],
    title="Your sentence: point at its pronouns",
)

# %% [markdown]
# ## Swap two words and see what changes · more
#
# Let *animal* and *street* trade places. *The street did not cross the animal because it was tired* means something
# else, since now it's the street that doesn't cross.
#
# ### Predict, then run: the swapped sentence ({points}, difficulty 2, 3 minutes)
#
# The same module reads the swapped sentence. What happens to the output of the word *cross*, and to the outputs of the
# two words that moved?
#
# - **A**: All outputs change, because every word now has different neighbours.
# - **B**: The output of *cross* stays the same, and the other two trade places, because each word's output moves with
#   it.
# - **C**: The eleven output rows all stay the same, even those of the words that moved, because attention is a sum, and
#   a sum has no order.

# %%
### BEGIN SOLUTION
swapped_words = "B"
### BEGIN STUB
# swapped_words = None  # your prediction: "A", "B" or "C"
### END SOLUTION

# %%
check("predict_swapped_words", swapped_words)

# %%
order = [0, 6, 2, 3, 4, 5, 1, 7, 8, 9, 10]
swapped_tokens = [tokens[i] for i in order]
swapped_output, swapped_weights = module(x[None, order], return_weights=True)
assert_close(swapped_output[0], module_output[0, order], atol=1e-6, rtol=0)
assert_close(swapped_weights[0], module_weights[0][order][:, order], atol=1e-6, rtol=0)

# %%
_, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
plot_attention(module_weights[0], tokens, ax=axes[0], values=False, colorbar=False)
plot_attention(swapped_weights[0], swapped_tokens, ax=axes[1], values=False)
axes[0].set_title("As written")
axes[1].set_title("Swapped: the same numbers, moved with the words")
frame = {"fill": False, "edgecolor": ACCENT, "linewidth": 2}
for ax, animal in zip(axes, (1, 6), strict=True):
    ax.add_patch(plt.Rectangle((animal - 0.5, it - 0.5), 1, 1, **frame))
    for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
        label.set_color(ACCENT if label.get_text() in ("animal", "street") else "black")
show(
    "Two tables of attention weights, for the sentence as written and with animal and "
    "street swapped. Rows and columns of the two words have changed places, and every "
    "number has moved with its word."
)

# %% [markdown]
# The dark cells moved with their words, the framed one (*it* looking at *animal*) among them, and no number changed.
# That *cross* has the same output in both sentences is bad news, because who crosses what is lost. This holds for every
# order and all weights:
#
# $$\mathrm{SelfAttention}(P x) = P \cdot \mathrm{SelfAttention}(x) \qquad\text{for every permutation } P$$
#
# It's called *permutation equivariance*. The reason is in the formula. The score of two words depends on the two words,
# never on their positions. Try it with random weights, random words, and any order.

# %%
generator = torch.Generator().manual_seed(8)
random_module = attnlib.SelfAttention(13, 5, 3)
random_x = torch.randn(2, 11, 13, generator=generator)
order = torch.randperm(11, generator=generator)

straight, shuffled = random_module(random_x), random_module(random_x[:, order])
assert_close(shuffled, straight[:, order], atol=1e-5, rtol=0)
assert not torch.allclose(shuffled, straight, atol=1e-2), "the rows did move"
print("order", order.tolist(), "in, the same order out")

# %% [markdown]
# So attention treats a sentence as a bag of words. To read a sentence properly, it needs to be given the positions,
# most simply by adding something to $x$ that differs from one position to the next. That's lesson 07. Until then,
# remember the two identical rows for *the*.

# %% [markdown]
# ## Find the bugs · more
#
# ### Fix: two published mistakes ({points}, difficulty 3, 10 minutes)
#
# The function below runs, returns the right shapes, and trains. It has two mistakes, and people who know attention well
# have published both. The first was in a well-known [video lecture's
# code](https://github.com/karpathy/ng-video-lecture/pull/6) and in
# [vit-pytorch](https://github.com/lucidrains/vit-pytorch/issues/65) ("still making rookie mistakes", its author wrote);
# one like the second was in [PyTorch-NLP](https://github.com/PetrochukM/PyTorch-NLP/issues/2). They were fixed there
# long ago. Fix both here.
#
# - `x` is `(b, n, d_model)`, the matrices are `(d_model, d_k)`, `(d_model, d_k)` and `(d_model, d_v)`.
# - It must return what `SelfAttention` returns, output `(b, n, d_v)` and weights `(b, n, n)`.
# - Two small changes are enough. There's no need to rewrite it.
# - Not allowed: a finished attention, PyTorch's or `attnlib`'s.


# %%
def mend_self_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor]:
    """x (b, n, d_model) and three matrices -> output (b, n, d_v), weights (b, n, n)."""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    ### BEGIN SOLUTION
    scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
    weights = torch.softmax(scores, dim=-1)
    ### BEGIN STUB
    # scores = q @ k.transpose(-2, -1) * x.shape[-1] ** -0.5
    # weights = torch.softmax(scores, dim=1)
    ### END SOLUTION
    return weights @ v, weights


# %%
check("mend_self_attention", mend_self_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Feed it a random `x` and look at `weights.sum(dim=-1)`. What should it be? Then look at `weights.sum(dim=-2)`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# In a `(b, q, k)` tensor, axis 0 is the batch. Which axis is 1, and along which one must the weights add up to 1?
#
# </details>
# <details><summary>Hint 3</summary>
#
# The second mistake hides whenever `d_model` equals `d_k`. You saw that the variance of a dot product is the number of
# its terms. How many terms does $q \cdot k$ have here? As many as `x` has columns, or as many as `k` has?
#
# </details>

# %% [markdown]
# Why did both survive so long? Because training is forgiving. A wrong constant in front of the scores makes every row a
# little sharper or flatter, and $W^Q$ can learn to make up for it. Weights that are normalised over the queries instead
# of the keys still pass information on. Nothing crashes, and the loss falls. To find the first bug, sum a row. To find
# the second, test with a different size on every axis.

# %% [markdown]
# ## Meet additive attention, which came first · more
#
# The dot product isn't the only way to ask how well two vectors fit. The attention of 2014 (lesson 01) had a small
# network judge each pair, with two matrices and a vector to learn. This is *additive* attention:
#
# $$s_{ij} = \tanh(q_i W_1 + k_j W_2) \cdot u$$
#
# Softmax and mixture come after it, unchanged. But count what has to be kept. The tanh makes a vector for each *pair*,
# a tensor $(q, k, d)$, where the dot product goes from $(q, d)$ and $(k, d)$ straight to $(q, k)$. With 4000 words and
# $d = 64$ that's a billion numbers for one head, 4 GB in float32, against 64 MB. For wide vectors the dot product used
# to be the worse of the two, and $\sqrt d$ is the repair (section 3.2.1 of the paper).

# %%
# numbers; float32 takes four bytes for each
pairs, scores_only = 4000 * 4000 * 64, 4000 * 4000
print(
    f"additive: {4 * pairs / 1e9:.1f} GB, dot product: {4 * scores_only / 1e6:.0f} MB"
)

# %% [markdown]
# ## Build additive attention · stretch
#
# ### Stretch: a small network for each pair ({points}, difficulty 4, 30 minutes)
#
# Write `AdditiveAttention(d_q, d_k, d_hidden)`, the attention of 2014, with a `forward(q, k, v)` that returns output
# and weights. Compute the score of a pair of tiny vectors by hand first, and find out why the tanh can't be left out.
#
# - `q` is `(b, q, d_q)`, `k` is `(b, k, d_k)`, `v` is `(b, k, d_v)`; the output is `(b, q, d_v)`, the weights are
#   `(b, q, k)`. Queries and keys may have different widths, because nothing takes their dot product.
# - Three `nn.Linear` layers without bias, and no other parameters: `w_1` (`d_q` to `d_hidden`), `w_2` (`d_k` to
#   `d_hidden`) and `u` (`d_hidden` to 1).
# - Each score is $u$ of $\tanh(w_1(q_i) + w_2(k_j))$. No scale.
# - As always: dtype and device of the inputs, inputs unchanged, gradients to everything. Not allowed: finished
#   attention.


# %%
class AdditiveAttention(nn.Module):
    """q (b, q, d_q), k (b, k, d_k), v (b, k, d_v) -> output (b, q, d_v), weights (b, q,
    k)."""

    def __init__(self, d_q: int, d_k: int, d_hidden: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.w_1 = nn.Linear(d_q, d_hidden, bias=False)
        self.w_2 = nn.Linear(d_k, d_hidden, bias=False)
        self.u = nn.Linear(d_hidden, 1, bias=False)
        ### END SOLUTION

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        asks = self.w_1(q)[:, :, None, :]  # (b, q, 1, d_hidden)
        answers = self.w_2(k)[:, None, :, :]  # (b, 1, k, d_hidden)
        scores = self.u(torch.tanh(asks + answers)).squeeze(-1)
        weights = torch.softmax(scores, dim=-1)
        return weights @ v, weights
        ### END SOLUTION


# %%
check("AdditiveAttention", AdditiveAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Every query has to meet every key. Broadcasting does that, if the queries have an axis of length 1 where the keys have
# their words, and the other way round.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `w_1(q)` is `(b, q, d_hidden)`. Make it `(b, q, 1, d_hidden)`, and `w_2(k)` `(b, 1, k, d_hidden)`. What's the shape of
# their sum?
#
# </details>
# <details><summary>Hint 3</summary>
#
# Sum, tanh, `u`. That leaves a last axis of length 1, which `squeeze(-1)` removes. Then softmax over the keys, and the
# mixture as before.
#
# </details>

# %% [markdown]
# ## Take this with you · core
#
# **Queries ask, keys answer, values are what you take home, in the shares softmax hands out.**
#
# | | |
# | --- | --- |
# | formula | $\mathrm{softmax}(Q K^\top / \sqrt{d_k})\, V$ |
# | shapes | $(…, q, d_k)$, $(…, k, d_k)$, $(…, k, d_v)$ → weights $(…, q, k)$, output $(…, q, d_v)$ |
# | trap 1 | softmax over the wrong axis: rows add up to 1, `dim=-1` |
# | trap 2 | the scale is the root of the width of *queries and keys*, not of `x` |
# | trap 3 | `exp` of large scores: subtract each row's maximum first |
# | in GPT-2 (small) | $d_k = d_v = 64$, so scores are divided by 8; up to 1024 keys |
#
# You can now compute attention for one query with a pencil, write it for any leading axes and get PyTorch's numbers,
# derive $\sqrt{d}$ in two lines, design a head and train one, and show what attention can't see.
#
# ## Think further · more
#
# 1. The twin sentence of lesson 00 ends in *wide*, and there *it* is the street. Which numbers of $W^Q$ would you
#    change, and why doesn't that help a network that has to read both sentences?
# 2. A Python dictionary is attention with one query, exact keys, and a weight of 1 for the key that's equal. What has
#    to happen to the scale for attention to become a dictionary, and why couldn't it be trained?
# 3. Give the word *did* the query $(-2, -2, 0, 0)$. Where does it look now, and where least? Which query would avoid
#    *animal* and treat all other words alike?
#
# <details><summary>Answers</summary>
#
# 1. In the row of *pronoun*, move the 2 from *alive* to *place*. But the same $W^Q$ serves both sentences, so one of
#    them would always be read wrongly. It takes two layers, as lesson 01 said, and lesson 06 builds them.
# 2. Multiply the scores by a factor that grows without bound, and softmax turns into a hard choice. Then every weight
#    is 0 or 1, the slope $w_i(\delta_{ij} - w_j)$ is 0 everywhere, and no gradient says how to choose better.
# 3. The score of *animal* is $-8/2 = -4$, of *street* $-4/2 = -2$, of all others 0. So it looks equally at the nine
#    others (0.11 each), hardly at *street* (0.015), least at *animal* (0.002). To avoid only *animal*, ask for what
#    only *animal* has, $(0, -2, 0, 0)$.
#
# </details>

# %%
asked = attnlib.softmax(
    attnlib.attention_scores(torch.tensor([[-2.0, -2, 0, 0], [0, -2, 0, 0]]), keys)
)
assert_close(
    asked[0, [1, 6, 4]], torch.tensor([0.002, 0.015, 0.109]), atol=5e-4, rtol=0
)
assert asked[1].argmin() == 1
assert_close(asked[1, 6], asked[1, 4], atol=0, rtol=0)  # all others alike

# %% [markdown]
# ## Read on · more
#
# - [Luong, Pham and Manning, 2015](https://arxiv.org/abs/1508.04025): the dot product measured against its rivals. Read
#   section 3.
# - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762): *Attention is all you need*. You can now read sections 3.1
#   and 3.2 line by line; footnote 4 is the derivation of $\sqrt{d_k}$.
# - [Jain and Wallace, 2019](https://arxiv.org/abs/1902.10186): *Attention is not explanation*. Read it before you trust
#   a picture of attention weights, including the ones above.
# - [Wiegreffe and Pinter, 2019](https://arxiv.org/abs/1908.04626): *Attention is not not explanation*, the reply. Read
#   it for how to test such a claim fairly.
#
# **Next:** one head asks one question. *The X saw the Y*: who did it, and to whom? Can one head answer both, or does it
# take two? Lesson 03 trains them to find out.
#
# *Learning on your own? The worked solutions are in the course's repository:
# `solutions/02_scaled_dot_product_attention.ipynb`.*
