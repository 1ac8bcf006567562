# %% [markdown]
# # 00 · Start here: compare every word with every word
#
# In this course you write the attention mechanism yourself, line by line, and then train networks on *your* lines. One
# of them reads *Sunday, 20 July 1969*, in nine languages, and shows you where it looked for each digit. Another reads
# handwriting. A third one writes. A fourth learns to copy, and you'll open it up to see how. All of it runs on a
# laptop.
#
# At its heart, attention is one question asked many times: *how well do these two vectors fit together?* In this lesson
# you write the code that asks it for all pairs at once, and you can check every number by counting.
#
# | | |
# | --- | --- |
# | **You will build** | `pairwise_dot`: all dot products between two sets of vectors |
# | **You will understand** | tensors with named axes, `einsum`, `einops`, broadcasting, and how to read a check |
# | **You need** | Python and a little PyTorch |
# | **Time** | core 45 minutes, everything 1 hour 50 minutes ([symbols](00_start_here.ipynb#Symbols)) |
#
# ## How the course works · core
#
# There are three kinds of tasks. *Predict* asks what will happen before you see it. An *exercise* asks for a few lines
# of code. *Fix* gives you code that runs, looks right and is wrong. Each has points, a difficulty from 1 to 5, and a
# check right below it.
#
# **What to do, and what to skip.** The heading of every section ends in one of three words.
#
# - *core* is the thread. The next lessons build on it. Together the core takes about 18 and a half hours.
# - *more* is worth it when you have the time, and nothing later depends on it. Its exercises count like the others.
# - *stretch* is for those who want a harder problem. It's checked like everything else and earns no points.
#
# Run the cells one at a time (Shift + Enter). *Run All* skips what you haven't answered yet and stops at an answer that
# is wrong, on purpose. You can't get stuck for good, because until your solution passes, later cells use the one in
# `attnlib`, the course's own small library.
#
# **Your code is kept.** Each answer that passes is written to `my_attention/lesson_00.py`, `lesson_01.py` and so on,
# beside the notebooks. Later lessons import it from there, so the language model of lesson 08 runs on the attention you
# write in lesson 05. The folder is a plain Python package, yours to read, change and publish. (If you don't want it,
# set the environment variable `ATTNLIB_MY_ATTENTION` to nothing before you start Jupyter. On Colab, copy it to your
# Drive, or it's lost with the runtime.)
#
# The last cell of each lesson lists what you've passed, what's still open and the next step. It remembers this in one
# small file in your home folder. Nothing leaves your machine.

# %%
from contextlib import suppress
from string import ascii_lowercase

import matplotlib.pyplot as plt
import torch
from einops import einsum, rearrange, reduce
from torch import Tensor
from torch.testing import assert_close

import attnlib
from attnlib.checks import CheckFailed, check, yours_or_ours
from attnlib.plot import ACCENT, INK, plot_course_map, show, use_style

use_style()

# %% [markdown]
# This is the way through the course. The first row builds, part by part, the block that transformers are stacked from.
# The second row tells that block where words are, lets it write, makes it fast, and looks inside.

# %% tags=["picture:course.png"]
plot_course_map(title="From one dot product to an encoder, and beyond")
show(
    "A map of the lessons 00 to 12 as a chain of boxes, each with an arrow to the "
    "next: seven in a row, from start here to the encoder block, then six below."
)

# %% [markdown]
# ## Turn words into vectors you can check by hand · core
#
# One sentence runs through the whole course, and it has a twin. They differ only in the last word. Ask yourself what
# *it* is in each of them, and what told you so. (The pair is from the
# [post](https://research.google/blog/transformer-a-novel-neural-network-architecture-for-language-understanding/) in
# which Jakob Uszkoreit introduced the Transformer in 2017. Jay Alammar's [Illustrated
# Transformer](https://jalammar.github.io/illustrated-transformer/) made the tired animal famous.)

# %%
tired = "The animal did not cross the street because it was tired".lower().split()
wide = "The animal did not cross the street because it was wide".lower().split()
print(len(tired), "words:", *tired)

# %% [markdown]
# Real models learn a vector for each word, and you'll get there in the next lesson. Here we take vectors you can check
# with a pencil. **Count the letters**, and a word becomes 26 numbers, one for each letter of the alphabet. Such vectors
# know nothing about meaning, only about spelling. That's fine, because the tools are the same.


# %%
def letter_counts(words: list[str]) -> Tensor:
    """n words -> (n, d) with d = 26: how often each word contains each letter."""
    rows = [[word.count(letter) for letter in ascii_lowercase] for word in words]
    return torch.tensor(rows, dtype=torch.float32)


counts = letter_counts(tired)  # (n, d)
street = counts[tired.index("street")]  # (d)
print(
    {
        letter: int(count)
        for letter, count in zip(ascii_lowercase, street, strict=True)
        if count
    }
)

# %% [markdown]
# ## Name the axes · core
#
# PyTorch tells you that a tensor has shape `(11, 26)`. It doesn't tell you what the 11 counts. By lesson 03 your
# tensors have four axes, two of them often of the same size, and many bugs in attention code put the right number on
# the wrong axis. So every axis gets a letter, the same one in the whole course.
#
# | letter | the axis counts |
# | --- | --- |
# | `b` | the sequences in a batch |
# | `n` | positions in a sequence (words, here) |
# | `q`, `k` | positions that ask (queries) and positions that are asked (keys), when these may differ |
# | `d` | the numbers in one vector |
# | `h` | attention heads, from lesson 03 on |
#
# The number of entries in a vector is its *width*. Where several widths meet, each gets a name that begins with `d`,
# such as `d_model` in lesson 01. We write `(b, n, d)` for a shape. All other symbols are in a [table at the
# end](#Symbols). Our two sentences together make one tensor. Say its shape before you run the cell.

# %%
batch = torch.stack([letter_counts(tired), letter_counts(wide)])
batch.shape  # (b, n, d)

# %% [markdown]
# ## Multiply two vectors into one number · core
#
# The dot product multiplies two vectors number by number and adds everything up:
#
# $$x \cdot y = \sum_d x_d y_d$$
#
# It's large where both vectors have large numbers in the same entries. For letter counts, a letter adds to the sum only
# if *both* words contain it. *it* and *the* share one letter, a `t`, once in each, so their dot product must be 1.

# %%
the, it = counts[tired.index("the")], counts[tired.index("it")]
by_loop = sum(the[d] * it[d] for d in range(26))
assert by_loop == 1
by_loop

# %% [markdown]
# ### Predict, then run: which word fits *the* best? ({points}, difficulty 1, 3 minutes)
#
# Predicting is a cheap way to learn. It costs a minute, and an answer that surprises you sticks. Decide *before* you
# compute, with pencil and paper if you like.
#
# Take the dot product of *the* with every word of the sentence. **Which word gives the largest one?**
#
# - **A**: *the*
# - **B**: *street*
# - **C**: *because*
# - **D**: *street* and *tired*, in a tie

# %%
### BEGIN SOLUTION
largest_dot = "B"
### BEGIN STUB
# largest_dot = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_largest_dot", largest_dot)

# %% [markdown]
# Now look at all eleven, and find the reason for the surprise.

# %%
scores = torch.stack([the @ word for word in counts])
assert scores.max() > the @ the

ax = plt.figure(figsize=(7, 2.6), layout="constrained").gca()
colours = [ACCENT if score == scores.max() else INK for score in scores]
bars = ax.bar(range(len(tired)), scores, color=colours)
ax.bar_label(bars)
ax.set_xticks(range(len(tired)), tired, rotation=30, ha="right")
ax.set(
    ylabel="dot product with “the”",
    ylim=(0, 4.8),
    title="“street” fits “the” better than “the” does",
)
show("The dot products of “the” with eleven words: “street” has 4, “the” itself 3.")

# %% [markdown]
# *street* has two `t`s and two `e`s, so each of those letters counts twice. **A dot product measures how well two
# vectors agree, times how long they are.** (*Long* as in geometry: $|x| = \sqrt{x \cdot x}$ is 3.2 for *street* and 1.7
# for *the*.) A long vector can beat a perfect match. Attention uses the dot product all the same: it's cheap, and a
# word with a long vector can say "look at me" more loudly. Keep this in mind for lesson 02, which asks how large these
# numbers get.

# %% [markdown]
# ## Write a product with `einsum` · core
#
# You can write the dot product as a loop, as `@` with the right transposes, or as what it is, a sum over a named axis.
# `einops.einsum` takes the tensors, then a pattern with the names of their axes. **The rule: line the tensors up by
# name and multiply, then sum over every axis that's missing after the arrow.** An axis that two tensors share must have
# the same size in both.

# %%
one = einsum(the, it, "d, d ->")  # no axis stays: one number
assert_close(one, by_loop, rtol=0, atol=0)

many = einsum(the, counts, "d, n d -> n")  # n stays: one number for each word
assert_close(many, scores, rtol=0, atol=0)
many

# %% [markdown]
# The pattern is a comment that can't lie, because it's checked. With one tensor, einsum only sums. Before you run the
# next cell, say what each of the three results counts, and what shape it has.

# %%
word_lengths = einsum(batch, "b n d -> b n")
letter_totals = einsum(batch, "b n d -> b d")
everything = einsum(batch, "b n d ->")
print(word_lengths[0], letter_totals.shape, everything)

# %% [markdown]
# The first is the number of letters in each word, `(b, n)`. The second counts each letter in a whole sentence,
# `(b, d)`. The third is all the letters there are, 91, with no axis left.
#
# (PyTorch's own `torch.einsum("bnd->bn", batch)` does the same, with the pattern first and one letter for each axis.
# Use whichever you like. Here we write the long form, since it can carry real names such as
# `"batch word letter -> batch word"`.)
#
# One warning. When two sizes don't fit, the error comes from PyTorch, and PyTorch never sees your names. einops renames
# them `a`, `b`, `c` and so on, in order, so "subscript b" in the message means your second axis.
#
# ## Move axes by name with `einops` · core
#
# There are two ways to get from shape `(2, 3)` to shape `(3, 2)`, and they aren't the same. *Transposing* turns rows
# into columns. *Reshaping* keeps all numbers in their order and only moves the line breaks. PyTorch lets you pick the
# wrong one without complaint. Two words of three letters show it best. Read each result line by line.

# %%
codes = [[ord(letter) for letter in word] for word in ("did", "not")]
letters = torch.tensor(codes)  # (word, letter)


def spell(rows: Tensor) -> list[str]:
    """Turn each row of character codes back into text."""
    return ["".join(map(chr, row)) for row in rows.tolist()]


print("as it was:", spell(letters))
print("rearrange:", spell(rearrange(letters, "word letter -> letter word")))
print("reshape:  ", spell(letters.reshape(3, 2)))

# %% [markdown]
# `rearrange` gives first letters, second letters, third letters. An axis has moved. `reshape` gives `di`, `dn`, `ot`,
# which are pieces of words, with letters of two words mixed in one row. The shapes agree, so you'll never get an error.
# Naming the axes is what prevents the mistake.
#
# And when a pattern doesn't fit, einops says what it saw and what you asked for.

# %%
try:
    rearrange(counts, "b n d -> b d n")
except Exception as error:
    print(error)

# %% [markdown]
# ## Line up axes before you divide · core
#
# Broadcasting lets you combine tensors of different shapes. PyTorch lines the shapes up **from the right** and
# stretches the axes of size 1. It goes by position, never by meaning. Take two questions (rows) and two answers
# (columns), and turn each row into shares that sum to 1. Predict which of the two results is right.

# %%
votes = torch.tensor([[6.0, 2.0], [4.0, 12.0]])  # (q, k)
totals = reduce(votes, "q k -> q", "sum")  # 8 and 16
print("first: ", (votes / totals).tolist())
print("second:", (votes / rearrange(totals, "q -> q 1")).tolist())

# %% [markdown]
# The second is right, since 6 of 8 is 0.75, and 4 of 16 is 0.25. In the first, `totals` with shape `(q)` was lined up
# with the *last* axis of `votes`, which is `k`, so the 2 was divided by the other row's 16. It ran only because there
# were as many questions as answers, and that's always so when a sentence attends to itself. So write `q 1` or `1 k`,
# and say which axis you mean.

# %%
shares = votes / rearrange(totals, "q -> q 1")
assert_close(reduce(shares, "q k -> q", "sum"), torch.ones(2), rtol=0, atol=1e-6)

# %% [markdown]
# ## Read a failing check · core
#
# A check compares your function with the course's own, on inputs you don't see. When something is wrong, it doesn't
# stop at "wrong". It looks for the misunderstanding that would compute exactly your numbers. Let's fail on purpose. The
# exercise below asks for all dot products between two sets of vectors, and here is an attempt that forgets to sum.
#
# (`suppress` is only here so that the notebook runs on. In your own cells a wrong answer stops the run.)


# %%
def forgets_to_sum(x: Tensor, y: Tensor) -> Tensor:
    return rearrange(x, "b q d -> b q 1 d") * rearrange(y, "b k d -> b 1 k d")


with suppress(CheckFailed):
    check("pairwise_dot", forgets_to_sum)

# %% [markdown]
# Shapes come first, because with a wrong shape nothing else can be compared. Read them as names, and you see that an
# axis `d` is left over. The next attempt has the right shape. It computes a *cosine*, the dot product of vectors that
# are first scaled to length 1. By that measure *the* would have won the contest above.


# %%
def computes_cosines(x: Tensor, y: Tensor) -> Tensor:
    x, y = rearrange(x, "b q d -> b q 1 d"), rearrange(y, "b k d -> b 1 k d")
    return torch.cosine_similarity(x, y, dim=-1)


with suppress(CheckFailed):
    check("pairwise_dot", computes_cosines)

# %% [markdown]
# Read a verdict from the top. It says what was expected, what your code returned, where the two first differ, and, if
# the mistake is a known one, its name and the reason. The small example at the end can be followed with a pencil. A
# check is free, so run it as often as you like. (Your work is graded with more sizes and other numbers, but by the same
# rules.)
#
# ### Exercise: compute all dot products ({points}, difficulty 2, 10 minutes)
#
# Write `pairwise_dot`, the dot product of each of the `q` vectors in `x` with each of the `k` vectors in `y`,
# separately for each sequence of the batch.
#
# $$o_{b,q,k} = \sum_d x_{b,q,d} y_{b,k,d}$$
#
# - `x` is `(b, q, d)` and `y` is `(b, k, d)`; the result is `(b, q, k)`. Usually `q` and `k` differ.
# - Sequence 0 of `x` is paired with sequence 0 of `y`, and with no other.
# - Everything in torch and einops is allowed, loops included.
# - The parts of the check: {parts}.


# %%
def pairwise_dot(x: Tensor, y: Tensor) -> Tensor:
    """(b, q, d), (b, k, d) -> (b, q, k): every x with every y of the same sequence."""
    ### BEGIN SOLUTION
    return einsum(x, y, "b q d, b k d -> b q k")
    ### END SOLUTION


# %%
check("pairwise_dot", pairwise_dot)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# You've already seen one query against all words, with the pattern `d, n d -> n`. What changes when there are many
# queries, and when all of it happens once for each sequence?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Take the formula letter by letter. Which axes does the result have? Name these after the arrow. The one that's left
# over is the one to sum. Give the rows of `x` and the rows of `y` different names, even when there are equally many.
#
# </details>
# <details><summary>Hint 3</summary>
#
# One call of `einsum` with both tensors is enough. The pattern is the docstring's, with the parentheses gone and the
# sum implied. If you prefer matrix products, it's `x` times `y` with its last two axes swapped (`rearrange`, not
# `reshape`).
#
# </details>
#
# **As always.** You've just met the part of the check called *robustness*. It stands for rules any library function has
# to follow, and they hold for everything you write in this course. Later exercises just say "as always". In one
# sentence, **change nothing you were given, keep its dtype and device, let gradients through, and remember nothing from
# one call to the next.** Code written in the obvious way does all of that by itself. When a check says otherwise, look
# it up here.
#
# <details><summary>The rules in full, for the day you need them</summary>
#
# - **dtype and device.** Return those you were given. Computing in a wider dtype is fine, and so is going through
#   `.float()` and back for half precision, as large models do. For float64 it isn't, because half of the digits are
#   lost on the way. A guard such as `1e-12` against a division by zero does no harm.
# - **Gradients** flow to every input and every weight, unless the exercise says it asks for none.
# - **Inputs** stay as they were (tensors, lists, dictionaries and models), unless changing them is the task. A
#   slice is a view of the same memory, so `x[:, 1:] = 0` changes the caller's `x`.
# - **Memory** of an input may not be contiguous. A transposed tensor keeps its numbers in the old order. `reshape`
#   doesn't mind, but `view` and `torch.view_as_complex` do; call `.contiguous()` before them.
# - **Another call** may bring more words or fewer, with a mask or without, or the very same tensors after their numbers
#   have changed.
# - **Training mode** computes what evaluation mode does. There's no dropout unless the exercise asks for it.
# - **Large scores** must not make an `exp` overflow, from lesson 02 on.
# - **Axes** have a length of at least 1.
#
# </details>

# %% [markdown]
# ## See the whole table at once · core
#
# Eleven words against eleven words are 121 dot products. A row belongs to the word that asks, a column to the word
# being asked. (`attnlib` has your function under the name lesson 02 gives it, `attention_scores`, with a scale of 1.)

# %%
# (q, k), the first sentence
table = attnlib.attention_scores(batch, batch, scale=1.0)[0]
assert_close(table[0], scores, rtol=0, atol=0)  # row 0 is what “the” found before
assert torch.equal(table, rearrange(table, "q k -> k q"))
assert torch.equal(table[0], table[5])  # both “the”
beaten = table.amax(dim=-1) > table.diagonal()  # who fits another word best
assert beaten.tolist() == [word == "the" for word in tired]

# %%
ax = plt.figure(figsize=(6.4, 5.6), layout="constrained").gca()
ax.imshow(table, cmap="Blues", vmax=14)
for q, k in torch.cartesian_prod(torch.arange(11), torch.arange(11)).tolist():
    ax.text(k, q, int(table[q, k]), ha="center", va="center", fontsize=9)
for q in (0, 5):  # the two rows of “the”: the largest number is under “street”
    frame = plt.Rectangle(
        (5.5, q - 0.5), 1, 1, fill=False, edgecolor=ACCENT, linewidth=2.5
    )
    ax.add_patch(frame)
ax.set_xticks(range(11), tired, rotation=45, ha="right")
ax.set_yticks(range(11), tired)
ax.set(xlabel="the word that is asked (k)", ylabel="the word that asks (q)")
ax.set_title("“the” fits “street” best, in both of its rows")
show(
    "Eleven by eleven dot products; in both rows of “the” the number under “street” "
    "is framed."
)

# %% [markdown]
# There are three things to find in the picture.
#
# - On the diagonal each word meets itself. No number in its row is larger, except in both rows of *the*, where the
#   framed cell beats it.
# - Both rows of *the* are equal, number by number. This comparison doesn't know *where* a word is.
# - The table is symmetric, because both sides bring the same vectors.
#
# Replace letter counts with learned vectors, turn each row into numbers that sum to 1, as you did above, and use them
# to mix the words. That's attention.
#
# ## Find the bug · core
#
# ### Fix: a distance that goes below zero ({points}, difficulty 2, 10 minutes)
#
# If dot products favour long vectors, why not take distances? Multiplying out gives them almost for free:
#
# $$|x - y|^2 = |x|^2 + |y|^2 - 2 x \cdot y$$
#
# The function below does this for all pairs. On a sentence compared with itself it runs, its shape is right, and its
# diagonal is zero, as it should be. Yet it claims that the squared distance between *the* and *street* is 3 + 3 − 2 ·
# 4 = −2. By hand it's 5, because there's one `t` and one `e` too many, and `h`, `r` and `s` have no partner. **Find
# the bug and fix it.**
#
# (The mistake is real. [The code of a paper](https://github.com/io-papercode/pwa/issues/1) turns the lengths of $y$
# into a row where it adds them, but forgets to do so one line further down, where it divides by them. With two sets of
# the same size nothing crashes.)
#
# - `x` is `(b, q, d)`, `y` is `(b, k, d)`; the result is `(b, q, k)`, squared distances.
# - One axis is in the wrong place. Don't paper over it, since clamping at zero hides the −2 and leaves the wrong
#   numbers.
# - The check also compares 5 vectors with 7. There the broken version doesn't even run, which is a hint as well.
# - As always; where two vectors are equal, the gradient has to be finite. You may also write it in another way.


# %%
def mend_squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """(b, q, d), (b, k, d) -> (b, q, k): squared distances within each sequence."""
    dots = attnlib.attention_scores(x, y, scale=1.0)  # (b, q, k)
    x_squared = reduce(x**2, "b q d -> b q 1", "sum")
    ### BEGIN SOLUTION
    y_squared = reduce(y**2, "b k d -> b 1 k", "sum")
    ### BEGIN STUB
    # y_squared = reduce(y**2, "b k d -> b k 1", "sum")
    ### END SOLUTION
    return x_squared + y_squared - 2 * dots


# %%
check("mend_squared_distances", mend_squared_distances)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three tensors are added in the last line. Write their three shapes below one another, aligned on the right.
#
# </details>
# <details><summary>Hint 2</summary>
#
# In row `q` and column `k` of the result, which length comes from `x`, and which from `y`? Which of the two sits on the
# wrong axis whenever `q` and `k` happen to be equal?
#
# </details>
# <details><summary>Hint 3</summary>
#
# A length that belongs to a *column* has to vary along the last axis, so its shape is `(b, 1, k)`.
#
# </details>

# %% [markdown]
# A lot of broken attention code is like this: no error, a plausible shape, and a number nobody ever worked out by hand.
# Two habits catch it. Work out one entry with a pencil. And test with axes that all have different sizes, as the checks
# do, so that a misplaced axis has nowhere to hide.
#
# ## Build a search engine · more
#
# ### Exercise: rank texts for a question ({points}, difficulty 3, 25 minutes)
#
# One table of dot products is enough to search. The question is a vector, each text is a vector, and the text that fits
# best wins. Count *words* this time, not letters. Two things get in the way. *the* is in every text, so it fits every
# question. And long texts win, as *street* did.
#
# To deal with the first, each word $w$ gets a weight, its *rarity* $r_w = \ln(n / n_w)$, where $n_w$ of the $n$ texts
# contain it. A word in every text weighs nothing. To deal with the second, take the cosine, the dot product divided by
# both lengths:
#
# $$\text{score}_{q,k} = \frac{x_q \cdot y_k}{|x_q|\,|y_k|}, \qquad x_{q,w} = r_w \cdot (\text{how often } w
# \text{ is in question } q), \quad y_{k,w} = r_w \cdot (\text{how often } w \text{ is in text } k)$$
#
# Write `search(questions, texts)`, which returns all scores.
#
# - `questions` and `texts` are lists of strings; the result is `(q, k)`, float32. There is at least one of each,
#   and none is empty.
# - Words are what `line.lower().split()` gives. The vocabulary has every word of the texts; other words of a question
#   are ignored.
# - A question or a text with nothing but weightless or unknown words has a vector of zeros. Its scores are 0, not NaN.
#   A word in nearly every text weighs little, but its vectors have a direction like any other.
# - Called again, it must have forgotten the earlier texts, and it leaves both lists as they are.
# - Everything is allowed. The parts of the check: {parts}.


# %%
def search(questions: list[str], texts: list[str]) -> Tensor:
    """q questions, k texts -> (q, k): the cosine of their words, weighted by rarity."""
    ### BEGIN SOLUTION
    vocabulary = sorted({word for text in texts for word in text.lower().split()})

    def count(lines: list[str]) -> Tensor:
        rows = []
        for line in lines:
            words = line.lower().split()
            rows.append([words.count(word) for word in vocabulary])
        return torch.tensor(rows).float()

    asked, offered = count(questions), count(texts)
    texts_with_word = (offered > 0).sum(dim=0)
    rarity = torch.log(len(texts) / texts_with_word)
    asked, offered = asked * rarity, offered * rarity
    dots = einsum(asked, offered, "q d, k d -> q k")
    lengths = einsum(asked.norm(dim=-1), offered.norm(dim=-1), "q, k -> q k")
    return dots / lengths.clamp(min=1e-9)
    ### END SOLUTION


# %%
check("search", search)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin like `letter_counts`, with the words of the texts instead of the alphabet. You need the table twice, `(q, d)`
# for the questions and `(k, d)` for the texts.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `(offered > 0).sum(dim=0)` says for each word how many texts have it. The rarity is one number for each column, `(d)`,
# so `offered * rarity` lines up as it should, and so does `asked * rarity`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# All dot products are one einsum, and so are all products of two lengths, `"q, k -> q k"`. `x.norm(dim=-1)` gives the
# lengths. Divide by `lengths.clamp(min=1e-9)`.
#
# </details>

# %%
# nbval-ignore-output: it says whose function is used, and that differs for a student
engine = yours_or_ours("search", globals())

# %%
library = [
    "the animal did not cross the street because it was tired",
    "the animal did not cross the street because it was wide",
    "the cat saw the dog and the dog saw the cat",
    "a date is written in many ways and read in one",
    "the writer reads a text letter by letter and guesses the next letter",
]
wanted = ["why did the animal stop", "the wide street", "letter", "who saw the cat"]
found = engine(wanted, library)
for question, row in zip(wanted, found, strict=True):
    print(f"{row.max():.2f}  {question}: {library[row.argmax()]}")
assert found[1:].argmax(dim=-1).tolist() == [1, 4, 2]

# %% [markdown]
# Search engines ran on this for decades, and many still try it before anything else. It's attention without learning,
# with a question, keys, and a score for each pair. The first question shows what it lacks: two texts fit equally well
# because both have *animal* and *did*. It matches words, and neither *why* nor *because* means anything to it. Vectors
# can also say which words are alike (lesson 01), and attention doesn't stop at the scores but fetches something with
# them (lesson 02).

# %%
assert_close(found[0, 0], found[0, 1])
assert found[0, 2:].max() < found[0, 0]

# %% [markdown]
# ## Write einsum yourself · more
#
# ### Exercise: line the axes up by name ({points}, difficulty 4, 40 minutes)
#
# You've used `einsum` from the start. There's no magic in it. Read the pattern, line the axes up by name, multiply,
# sum. Write `little_einsum(x, y, pattern)` for two tensors.
#
# - `pattern` is written as for einops: `"b q d, b k d -> b q k"`. Names are words, separated by spaces. There is also
#   a space after the comma, and one on each side of the arrow.
# - Names missing after the arrow are summed, including those only one of the tensors has. The others come in the order
#   they have after the arrow.
# - No name comes twice in one tensor. There may be nothing after the arrow; then the result is a single number.
# - As always. The parts of the check: {parts}. Not allowed: any ready-made einsum, `tensordot` included;
#   `*`, `@` (or `matmul`, `bmm`) and sums are yours.
#
# First with a pencil. For `"q d, d k -> k q"` with sizes 2, 3 and 5, put both tensors into the order `k q d`, with a 1
# where a tensor lacks the axis. Which two shapes meet?


# %%
def little_einsum(x: Tensor, y: Tensor, pattern: str) -> Tensor:
    """Two tensors and a pattern such as "b q d, b k d -> b q k" -> what einops.einsum
    returns."""
    ### BEGIN SOLUTION
    inputs, output = pattern.split("->")
    names_x, names_y = (names.split() for names in inputs.split(","))
    kept = output.split()
    summed = [name for name in dict.fromkeys(names_x + names_y) if name not in kept]

    def line_up(tensor: Tensor, names: list[str]) -> Tensor:
        """The axes in the order kept, summed; 1 where the tensor lacks one."""
        axes = [names.index(name) for name in kept + summed if name in names]
        sizes = [
            tensor.shape[names.index(name)] if name in names else 1
            for name in kept + summed
        ]
        return tensor.permute(axes).reshape(sizes)

    product = line_up(x, names_x) * line_up(y, names_y)
    if not summed:
        return product
    return product.sum(dim=list(range(len(kept), len(kept) + len(summed))))
    ### END SOLUTION


# %%
check("little_einsum", little_einsum)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Cut the pattern at the arrow, the left half at the comma, and each piece with `split()`. Which names are summed?
# Choose one order for all names, first those that stay, then those that are summed.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Bring both tensors to that order. `permute` moves the axes a tensor has, `reshape` puts in a 1 for each one it lacks.
# For each axis of the result, `permute` wants to know where it comes *from*.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Now both tensors have the same axes, so their product broadcasts. The axes to be summed are the last ones. `sum` takes
# a list of axes; an empty list means *all* of them, so treat that case separately.
#
# </details>
# <details><summary>What the pencil should say</summary>
#
# `x` is `(q, d)` and becomes `(1, 2, 3)`. `y` is `(d, k)` and becomes `(5, 1, 3)`. Their product is `(5, 2, 3)`, and
# the sum over the last axis `(5, 2)`.
#
# </details>

# %% [markdown]
# What you wrote is what `einsum` means, not how it's computed. The product with all axes would be far too large for
# real sizes. For `pairwise_dot` it holds $b \cdot q \cdot k \cdot d$ numbers, where a matrix product needs only
# $b \cdot q \cdot k$. PyTorch's `einsum` turns the pattern into matrix products.

# %%
everything_at_once = rearrange(batch, "b q d -> b q 1 d") * rearrange(
    batch, "b k d -> b 1 k d"
)
assert_close(
    everything_at_once.sum(dim=-1),
    einsum(batch, batch, "b q d, b k d -> b q k"),
    rtol=0,
    atol=0,
)
print(everything_at_once.numel(), "products for", batch.shape[0] * 11 * 11, "results")

# %% [markdown]
# ## Take this with you · core
#
# **Give every axis a name, and test with sizes that are all different.**
#
# | | |
# | --- | --- |
# | formula | $o_{b,q,k} = \sum_d x_{b,q,d}\, y_{b,k,d}$, or `einsum(x, y, "b q d, b k d -> b q k")` |
# | shapes | `(b, q, d)`, `(b, k, d)` → `(b, q, k)` |
# | trap 1 | `reshape` for a transpose: the right shape with the numbers in the wrong places |
# | trap 2 | broadcasting lines axes up from the right, by position and not by meaning |
# | trap 3 | sizes that happen to be equal hide both |
# | in GPT-2 (small) | 1,024 × 1,024 dot products, of vectors with 64 numbers, in each of 144 heads |
#
# You can now say what each axis of a tensor counts, write any sum of products as one pattern, compare all words with
# all words in one call, and read what a check tells you.
#
# ## Think further · more
#
# 1. `pairwise_dot` and the squared distance would rank the words differently for *the*. Which word is nearest to *the*
#    by distance? What would attention lose if it could never prefer a long vector?
# 2. Reverse the words of `x` and leave `y` alone. What happens to the table? What if you reverse both? (Lesson 02
#    builds on the answer.)
# 3. How many multiplications do `q` queries and `k` keys of width `d` need? By how much does this grow when a text gets
#    ten times longer?
#
# <details><summary>Answers</summary>
#
# 1. *the* itself, at distance 0, and after it *it*, at 3. The next cell prints the whole row. With distances, nothing
#    could ever interest a word more than the word itself. With dot products a key can be long, and then every query
#    scores it higher.
# 2. Its rows are reversed. If you reverse both, rows and columns are, and each pair of words keeps its number.
# 3. $q \cdot k \cdot d$. A text attending to itself has $q = k = n$, so ten times the length costs a hundred times as
#    much.
#
# </details>

# %%
table = attnlib.attention_scores(batch, batch, scale=1.0)[0]
distances = [int(((the - word) ** 2).sum()) for word in counts]
print(dict(zip(tired, distances, strict=True)))
assert sorted(set(distances))[:2] == [0, 3]
assert distances[tired.index("it")] == 3
reversed_x = attnlib.attention_scores(batch.flip(1), batch, scale=1.0)[0]
assert torch.equal(reversed_x, table.flip(0))
assert torch.equal(
    attnlib.attention_scores(batch.flip(1), batch.flip(1), scale=1.0)[0],
    table.flip(0, 1),
)

# %% [markdown]
# ## Read on · more
#
# - [Rogozhnikov, 2022](https://openreview.net/forum?id=oapKSVM2bcj): einops by its author, with the bugs named axes
#   prevent.
# - [Rush, 2019](https://nlp.seas.harvard.edu/NamedTensor): "Tensor considered harmful", the case for names on axes, in
#   ten minutes.
# - [Rocktäschel, 2018](https://rockt.github.io/2018/04/30/einsum): einsum from the trace of a matrix to a recurrent
#   network, with pictures.
# - [Harris et al., 2020](https://www.nature.com/articles/s41586-020-2649-2): NumPy in *Nature*; its figure 1 is the
#   best picture of shapes, strides and broadcasting.
# - [Alammar, 2018](https://jalammar.github.io/illustrated-transformer/): the Transformer in drawings. Look through them
#   now, and once more after lesson 06.
#
# **Next:** here a word asks and answers with the same vector, so the table is symmetric. But *it* wants to know about
# *animal*, and *animal* doesn't care about *it*. What does a word need so that it can ask one thing and answer another?
# Lesson 01 gives it a vector for each, and a third for what it hands over.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/00_start_here.ipynb`.*

# %% [markdown]
# ## Symbols
#
# All the letters the course uses, in one place. An axis is lower case in a shape, `(b, n, d)`; a matrix is a capital
# letter in a formula and a lower-case name in code, $W^Q$ and `w_q`.
#
# | axis | counts | from |
# | --- | --- | --- |
# | `b` | sequences in a batch | 00 |
# | `n` | positions in a sequence, where queries and keys are the same ones | 00 |
# | `q`, `k` | positions of the queries, and of the keys and their values | 00 |
# | `d` | the numbers in one vector, or in one head's part of it | 00 |
# | `h` | heads | 03 |
#
# | size | in code | meaning | from |
# | --- | --- | --- | --- |
# | $d_{model}$ | `d_model` | width of a word's vector outside of attention | 01 |
# | $d_k$, $d_v$ | `d_k`, `d_v` | width of queries and keys; width of values | 01 |
# | | `num_heads`, `d_head` | how many heads, and the width of each, usually $d_{model} / h$ | 03 |
# | | `d_hidden` | width inside the MLP | 06 |
# | $V$ | `vocab` | number of different tokens (in a formula with $Q$ and $K$, $V$ is the values) | 04 |
#
# | symbol | in code | meaning | from |
# | --- | --- | --- | --- |
# | $x$, $X$ | `x` | one word's vector; those of all words, one in each row | 00 |
# | $q, k, v$; $Q, K, V$ | `q`, `k`, `v` | query, key and value of one word; of all words | 01 |
# | $W^Q, W^K, W^V$ | `w_q`, `w_k`, `w_v` | the matrices that make them | 01 |
# | $W^O$ | `w_o` | the matrix that mixes the heads' outputs | 03 |
# | $S$, $s$ | `scores` | scores, $Q K^\top / \sqrt{d_k}$ | 02 |
# | $A$, $w$ | `weights` | attention weights, the softmax of the scores | 02 |
# | $O$, $o$ | `output` | output of attention, $A V$ | 02 |
# | | `mask` | bool, True = may attend | 04 |
# | $P$ | | a permutation of the words | 02 |
# | $g$, $b$ | `gain`, `bias` | LayerNorm's scale and shift | 06 |
# | $\theta$ | `base` | the angle a pair of columns is turned by at each step; the number it's computed from | 07 |
# | $\delta_{ij}$ | | 1 if $i = j$, and 0 if not | 02 |
# | $\odot$ | `*` | elementwise product | 06 |
# | $\epsilon$ | `eps` | a small number that prevents a division by 0 | 06 |
# | $p$ | `probabilities` | the model's probability of a token | 04 |
# | $H$ | `entropy` | entropy, in nats (natural logarithm) or bits | 02 |
# | $m$, $l$, $L$ | `m`, `l` | a row's largest score, its $\sum_j e^{s_j - m}$, and $m + \ln l$ | 10 |
# | | `lr` | learning rate | 02 |
#
# Where a lesson needs a letter for something else, it says so on the spot.
