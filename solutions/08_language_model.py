# %% [markdown]
# # 08 · A language model: guess the next character
#
# Unicode gives each of its characters a name, such as GREEK SMALL LETTER ALPHA. None of them is called any of these:
#
# ```text
# GREEK WAGAL LETTH
# KANGXI RADICAL OVE
# GREEK SMALL LETTER O
# BYZANTINE MUSICAL SYMBOL E
# LESS-THAS NUBULE APENTHER TA
# ```
#
# A model made them up, one character after another. You will build that model, every line from the loss to the dice,
# and train it on your own code in a quarter of a minute. Then you will do what is usually left out: compare it with
# plain counting, which wins, and look for something that counting cannot do at all.
#
# | | |
# | --- | --- |
# | **You will build** | the loss, a decoder block, a language model laid out as GPT-2, sampling, and the writing loop |
# | **You will understand** | what a loss is at first, how low it can get, what temperature, top-k and top-p do |
# | **You need** | the blocks of lesson 06, the causal mask of 05, the dates of 04; about three hours |
#
# Whatever is trained here runs on your own answers, each as soon as it passes its check.

# %%
import math
import random
from collections import Counter, defaultdict
from datetime import date

# an old edition that every Python has, so that all of us read the same
from unicodedata import ucd_3_2_0 as unicode

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import usable_text
from attnlib.plot import ACCENT, GREY, plot_attention, show, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 08_language_model` runs this lesson with others
seed = 0

# %% [markdown]
# ## A text is its own teacher
#
# Lesson 06 needed images with labels. A language model needs none: as for the two writers of lesson 05, the label of
# each character is the character after it. Here are the names, one per line. A tenth of them are kept for the test.

# %%
# numbered, or nearly: thousands of names, hardly any words
families = ("CJK", "HANGUL", "YI ", "BRAILLE", "VARIATION")
names = [unicode.name(chr(code), "") for code in range(0x30000)]
names = [
    name for name in names if 0 < len(name) <= 40 and not name.startswith(families)
]
random.Random(0).shuffle(names)
kept = len(names) * 9 // 10

letters = ["\n", *sorted(set("".join(names)))]
number = {letter: i for i, letter in enumerate(letters)}
print(len(names), "names of", len(letters), "characters, the line break included")
print(names[:4])

# %% [markdown]
# A model reads numbers, so each character gets one, its *id*; the line break, with which each name begins and ends, is
# number 0. Names differ in length, and a batch is a rectangle: the rest is filled with −100, the number that says "this
# is no target" (PyTorch's choice, and now ours).


# %%
def encode(text: str) -> Tensor:
    """Characters -> ids (n)."""
    return torch.tensor([number[letter] for letter in text])


def decode(ids: Tensor) -> str:
    """Ids (n) -> characters."""
    return "".join(letters[i] for i in ids.tolist())


lines = nn.utils.rnn.pad_sequence(
    [encode(f"\n{name}\n") for name in names], batch_first=True, padding_value=-100
)
train_lines, test_lines = lines[:kept], lines[kept:]
print(lines.shape, lines[1, :14].tolist())

# %% [markdown]
# ## Count the surprise
#
# For each position the model gives a probability to each character that could come. The loss, as in lesson 04, is $-\ln
# p$: how surprised it is by the one that does come. By hand, for the text `ABAC` and a model that says
#
# | it has read | comes | its probability $p$ | $-\ln p$ |
# |---|---|---|---|
# | A | B | 0.50 | 0.693 |
# | AB | A | 0.25 | 1.386 |
# | ABA | C | 0.80 | 0.223 |
# | ABAC | ? | | |
#
# The mean is $2.303/3 = 0.768$. Four characters, *three* predictions: nobody knows what comes after the last one.
#
# ### Predict, then run: before the first step ({points}, difficulty 1, 2 minutes)
#
# A model with small random weights, which has not been trained for a single step, reads names. Its vocabulary is the 39
# characters that they are written in. What is its loss, roughly?
#
# - **A**: 0
# - **B**: 0.7
# - **C**: 3.7
# - **D**: nobody can know, because the weights are random

# %%
### BEGIN SOLUTION
first_loss = "C"
### BEGIN STUB
# first_loss = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_first_loss", first_loss)

# %% [markdown]
# ### Exercise: the loss of the next token ({points}, difficulty 2, 10 minutes)
#
# Write `next_token_loss(logits, ids, ignore_index=-100)`.
#
# - `logits` is `(b, n, vocab)`, `ids` is `(b, n)`. The logits at position $i$ have seen the ids up to $i$, and are for
#   the id at $i + 1$.
# - The result is one number, a tensor without axes: the mean of $-\ln p$ over all predictions. Positions whose target
#   is `ignore_index` do not count in the mean.
# - Logits in half precision (float16, bfloat16) are converted to float32 first, and the result is then float32.
#   Otherwise its dtype is that of the logits. As always.
# - `F.cross_entropy` is allowed, and recommended.


# %%
def next_token_loss(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
    """Logits (b, n, vocab), ids (b, n) -> the mean surprise, in nats."""
    ### BEGIN SOLUTION
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    return F.cross_entropy(
        logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=ignore_index
    )
    ### END SOLUTION


# %%
check("next_token_loss", next_token_loss)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which logits have no target? Which id is nobody's target? Leave out both, and what remains is `(b, n - 1, …)` on
# either side.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `F.cross_entropy` takes logits `(m, vocab)` and targets `(m)`, and the argument `ignore_index`. Flatten batch and
# positions into one axis.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `logits[:, :-1].flatten(0, 1)` and `ids[:, 1:].flatten()`.
#
# </details>

# %%
loss_of = yours_or_ours("next_token_loss", globals())

by_hand = torch.tensor(
    [[0.25, 0.50, 0.25], [0.25, 0.35, 0.40], [0.10, 0.10, 0.80], [0.2, 0.3, 0.5]]
).log()[None]
# A, B, C are 0, 1, 2; a logarithm of p is a logit of p
surprise = loss_of(by_hand, torch.tensor([[0, 1, 0, 2]]))
assert_close(
    surprise.item(), (math.log(2) + math.log(4) - math.log(0.8)) / 3, atol=1e-6, rtol=0
)
print(f"ABAC: {surprise:.3f}")

# %% [markdown]
# ## Build the block that writes
#
# You have an encoder block (lesson 06). A *decoder* block is made for writing and differs in two ways. It is causal:
# what it has to guess must not be visible. And it can have a third branch, between the other two, that looks at a
# *memory*, such as the sentence to be translated (lesson 04):
#
# $$x \leftarrow x + \mathrm{attn}(\mathrm{norm}_1(x)), \qquad
# x \leftarrow x + \mathrm{cross}(\mathrm{norm}_2(x), m), \qquad
# x \leftarrow x + \mathrm{mlp}(\mathrm{norm}_3(x))$$
#
# GPT and its relatives have no memory to look at. They leave out the second branch, and so does the model below:
# whatever they need to know is in the text itself.
#
# ### Exercise: the decoder block ({points}, difficulty 3, 25 minutes)
#
# Write the module `DecoderBlock(d_model, num_heads, d_memory=None)`, pre-LN as in lesson 06.
#
# - Without `d_memory`: `norm1`, `attn`, `norm2`, `mlp`. Then `forward(x)` is self-attention, then the MLP.
# - With `d_memory`: `norm1`, `attn`, `norm2`, `cross`, `norm3`, `mlp`, and `forward(x, memory)`, where `memory` is
#   `(b, k, d_memory)` and always given. All of it may be looked at.
# - Self-attention is causal in both.
# - `attn` and `cross` are `attnlib.MultiHeadAttention(d_model, num_heads)`, which takes `d_memory=…` when it is made,
#   and `is_causal=True`, or the memory as its second argument, when it is called. `mlp` is
#   `attnlib.FeedForward(d_model, 4 * d_model)`, and the norms are `nn.LayerNorm(d_model)`. Modules of your own with the
#   same layers are just as good.
# - Not allowed: whole blocks, `attnlib`'s or PyTorch's.


# %%
class DecoderBlock(nn.Module):
    """x (b, n, d_model), memory (b, k, d_memory) or None -> (b, n, d_model); pre-LN, causal."""

    def __init__(self, d_model: int, num_heads: int, d_memory: int | None = None):
        super().__init__()
        ### BEGIN SOLUTION
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        if d_memory is not None:
            self.cross = attnlib.MultiHeadAttention(
                d_model, num_heads, d_memory=d_memory
            )
            self.norm3 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, 4 * d_model)
        ### END SOLUTION

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        x = x + self.attn(self.norm1(x), is_causal=True)
        if memory is None:
            return x + self.mlp(self.norm2(x))
        x = x + self.cross(self.norm2(x), memory)
        return x + self.mlp(self.norm3(x))
        ### END SOLUTION


# %%
check("DecoderBlock", DecoderBlock)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin without a memory: it is lesson 06's block, with one more argument in one place. Run the check: the cases without
# a memory should then be right.
#
# </details>
# <details><summary>Hint 2</summary>
#
# In the constructor, make `cross` and `norm3` only `if d_memory is not None`. The norm in front of the MLP is `norm2`
# without a memory and `norm3` with one.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `self.attn(self.norm1(x), is_causal=True)`, and `self.cross(self.norm2(x), memory)`. Each is added to x, and x is
# overwritten, three times in all.
#
# </details>

# %% [markdown]
# ## Put the model together
#
# A language model is a stack of such blocks with a way in and a way out. In: what a character is, plus where it is.
# Out: a final norm, and a score for each character that could come.
#
# ```text
# ids (b, n)                        5   17    3
#   embed + positions    (b, n, d_model)
#   block 1 … depth      (b, n, d_model)
#   norm                 (b, n, d_model)
#   head                 (b, n, vocab)         a score for each id that could come next
# ```
#
# The head is a matrix `(vocab, d_model)`, and so is the embedding. GPT-2 uses *one* matrix for both: the score of a
# character is the dot product of the stream with that character's own embedding. That is called *tying*. It saves a
# matrix, and what is learned about a character on the way out helps on the way in.
#
# ### Exercise: the language model ({points}, difficulty 3, 25 minutes)
#
# Write the module `LanguageModel(vocab, d_model, num_heads, depth, max_len, tie=True)`.
#
# - Layers, made in this order: `embed`, an `nn.Embedding` of `vocab` rows; `positions`, an `nn.Embedding` of `max_len`
#   rows; `blocks`, an `nn.ModuleList` of `depth` blocks without memory; `norm`, an `nn.LayerNorm`; `head`, an
#   `nn.Linear` without bias. With `tie`, the head's weight *is* the embedding's: one parameter, under the name of the
#   layer that was made first, `embed.weight`.
# - `forward(ids)`: ids `(b, n)` to logits `(b, n, vocab)`. For more than `self.max_len` ids, raise a `ValueError`.
# - For the blocks, use your `DecoderBlock`. If it is not ready yet, `attnlib.EncoderBlock(d_model, num_heads)`, called
#   with `is_causal=True`, is the same.
# - `self.max_len` is stored, as in the stub: whoever writes with the model needs it.
# - Not allowed: `attnlib.LanguageModel`.


# %%
class LanguageModel(nn.Module):
    """Ids (b, n) -> logits (b, n, vocab), in the layout of GPT-2."""

    def __init__(
        self,
        vocab: int,
        d_model: int,
        num_heads: int,
        depth: int,
        max_len: int,
        tie: bool = True,
    ):
        super().__init__()
        self.max_len = max_len
        ### BEGIN SOLUTION
        self.embed = nn.Embedding(vocab, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(
            DecoderBlock(d_model, num_heads) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight
        ### END SOLUTION

    def forward(self, ids: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        if ids.shape[1] > self.max_len:
            raise ValueError(
                f"a text has at most max_len = {self.max_len} ids, got {ids.shape[1]}"
            )
        x = self.embed(ids) + self.positions(
            torch.arange(ids.shape[1], device=ids.device)
        )
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
        ### END SOLUTION


# %%
check("LanguageModel", LanguageModel)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down the shape after each line of `forward`. The positions are `(n, d_model)`, and broadcasting adds them to
# each text of the batch.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `self.positions(torch.arange(n, device=ids.device))`. The blocks are called one after the other, each on the output of
# the one before.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Tying is one assignment, after both layers have been made: the `weight` of one becomes the `weight` of the other. Both
# have the shape `(vocab, d_model)`, because `nn.Linear` keeps its weight as (out, in).
#
# </details>

# %% [markdown]
# How large is it? Each block has $4d^2$ weights in attention and $8d^2$ in the MLP, $12d^2$ in all; biases and norms
# add $13d$. And what does it know before the first step? Nothing, if its weights are small: all logits are near 0, and
# the loss is $\ln V$, where $V$ is the size of the vocabulary. That is the cheapest test there is. It finds weights
# that start too large, or a wrong loss, before a second of training is spent.

# %%
Model = yours_or_ours("LanguageModel", globals())


def new_model(vocab: int, max_len: int, d_model: int = 64) -> nn.Module:
    """Two layers, four heads. nn.Embedding begins with a standard deviation of 1: as logits, far too large."""
    torch.manual_seed(seed)
    model = Model(vocab, d_model, 4, 2, max_len)
    for table in (model.embed, model.positions):
        nn.init.normal_(table.weight, std=0.05)
    return model


model = new_model(len(letters), max_len=lines.shape[1])
d, parameters = 64, sum(p.numel() for p in model.parameters())
assert (
    parameters == (len(letters) + lines.shape[1]) * d + 2 * (12 * d**2 + 13 * d) + 2 * d
)
with torch.no_grad():
    first = loss_of(model(test_lines[:200].clamp(min=0)), test_lines[:200]).item()
print(
    f"{parameters} parameters; loss before the first step {first:.2f}, and ln {len(letters)} = {math.log(39):.2f}"
)
assert abs(first - math.log(len(letters))) < 0.3

# %% [markdown]
# ## Learn one batch by heart
#
# The second cheapest test: train on *one* small batch until it is known by heart. A model with a hundred thousand
# weights must manage eight names. If it cannot, something is broken, and no amount of data will fix it.
#
# ### Predict, then run: how far down ({points}, difficulty 2, 3 minutes)
#
# Eight names, the same in every step, each with a line break before and after it. Where does the loss go?
#
# - **A**: to 0, since there are plenty of weights
# - **B**: it stays near 3.7, since eight names are too few to learn from
# - **C**: down to a number above 0 that can be computed in advance
# - **D**: down to some number above 0 that nobody can know, because there is noise in all data

# %%
### BEGIN SOLUTION
overfitted = "C"
### BEGIN STUB
# overfitted = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_overfitted", overfitted)


# %%
def fit(
    model: nn.Module,
    batch_of,
    steps: int,
    rate: float,
    look=lambda: None,
    every: int = 40,
) -> list:
    """Steps of AdamW on what `batch_of` gives; the rate rises over 20 steps, then falls to 0. What `look` sees."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    shape = lambda step: min(1, (step + 1) / 20) * (1 - step / steps)  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, shape)
    seen = [look()]
    for step in range(1, steps + 1):
        # targets are the ids, with -100 where nothing is to be learned
        ids, targets = batch_of()
        loss = loss_of(model(ids), targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % every == 0:
            seen.append(look())
    return seen


def trimmed(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that are padded with -100 -> ids, with 0 there, and targets; no longer than the longest."""
    targets = rows[:, : int((rows >= 0).sum(dim=1).max())]
    return targets.clamp(min=0), targets


def lowest_loss(texts: list[str]) -> float:
    """The loss of whoever knows these texts by heart: the entropy of what follows each beginning."""
    follows = defaultdict(Counter)
    for text in texts:
        for i in range(1, len(text)):
            follows[text[:i]][text[i]] += 1
    nats = sum(
        -n * math.log(n / nexts.total())
        for nexts in follows.values()
        for n in nexts.values()
    )
    return nats / sum(len(text) - 1 for text in texts)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
eight = trimmed(train_lines[:8])
losses = fit(
    model,
    lambda: eight,
    120,
    5e-3,
    lambda: loss_of(model(eight[0]), eight[1]).item(),
    every=20,
)
floor = lowest_loss([f"\n{name}\n" for name in names[:8]])
print("loss:", [round(loss, 3) for loss in losses])
print(f"computed beforehand: {floor:.3f}")
assert 0.05 < floor < losses[-1] < floor + 0.02

# %% [markdown]
# All eight begin with the same line break, and then three have a C, and the others R, B, E, K and D. Knowing them by
# heart does not help: what comes after the line break is a matter of chance. The rest of each name costs nothing. So 0
# is not the loss to aim for, even in the best of cases, and here we know to three digits what is.
#
# ## Roll the dice
#
# The model gives probabilities. To write, you have to choose. Three numbers say how, and you will find them in every
# chat program's settings. By hand, for three characters with the logits 2, 1 and 0:
#
# | | $e^{\text{logit}/T}$ | probabilities |
# |---|---|---|
# | temperature $T = 1$ | 7.39, 2.72, 1 | 0.665, 0.245, 0.090 |
# | $T = 2$: more even | 2.72, 1.65, 1 | 0.506, 0.307, 0.186 |
# | $T = \frac12$: bolder | 54.6, 7.39, 1 | 0.867, 0.117, 0.016 |
#
# Even at a modest temperature, thousands of unlikely tokens with a little probability each add up: sooner or later one
# of them is drawn, and the text goes off the rails. So it is usual to cut off the tail. For probabilities 0.5, 0.2,
# 0.15, 0.1, 0.05:
#
# - **top-k** keeps the best $k$. For $k = 2$: 0.5 and 0.2, divided by their sum: 0.714, 0.286.
# - **top-p**, the *nucleus*, keeps as many as it takes to reach $p$. For $p = 0.8$ the running sum is 0.5, 0.7, 0.85,
#   so it takes three. Divided by their sum: 0.588, 0.235, 0.176. Where the model is sure, one token may be enough;
#   where it is not, hundreds stay.
#
# ### Predict, then run: no temperature at all ({points}, difficulty 1, 2 minutes)
#
# You let a model write twelve names, each from a line break, at temperature 0. What do you get?
#
# - **A**: twelve random strings, every character as likely as any other
# - **B**: the same name twelve times
# - **C**: the same name twelve times, and it is the likeliest of all the names that the model could write
# - **D**: an error, since you cannot divide by 0

# %%
### BEGIN SOLUTION
temperature_0 = "B"
### BEGIN STUB
# temperature_0 = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_temperature_0", temperature_0)

# %% [markdown]
# ### Exercise: draw the next token ({points}, difficulty 3, 20 minutes)
#
# Write `sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None)`. In this order:
#
# - Temperature 0 takes the largest logit, the first of several. Otherwise the logits are divided by the temperature.
# - `top_k` keeps the k largest, and whatever ties with the last of them. If it is larger than the vocabulary, all stay.
# - After the softmax of what is left, `top_p`, above 0 and at most 1, keeps the smallest set of the likeliest tokens
#   whose probabilities add up to `top_p` or more. So the first one always stays. (Which of several equal ones is left
#   open.)
# - One id is drawn for each row: `logits` is `(b, vocab)`, the result is `(b)`, int64. If a `torch.Generator` is given,
#   all randomness comes from it; the same seed gives the same ids.
# - Not allowed: `attnlib.sample_next`.
#
# How can chance be checked? Your function draws 10,000 times, and a chi-square test asks whether the shares fit. A
# right answer fails it once in a billion times. Only the shares are compared: your ids need not be those of
# `attnlib.sample_next`.


# %%
def sample_next(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Logits (b, vocab) -> one id for each row (b)."""
    ### BEGIN SOLUTION
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits / temperature
    if top_k is not None:
        last_kept = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < last_kept, -math.inf)
    probabilities = logits.softmax(dim=-1)
    if top_p is not None:
        ordered, order = probabilities.sort(descending=True)
        before = ordered.cumsum(dim=-1) - ordered
        probabilities = torch.zeros_like(ordered).scatter(
            -1, order, ordered.masked_fill(before >= top_p, 0.0)
        )
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    ### END SOLUTION


# %%
check("sample_next", sample_next)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write it for `temperature` alone first: `torch.multinomial(probabilities, 1, generator=generator)` draws one column in
# each row, and divides by the sum of the row by itself.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `topk(k).values[:, -1:]` is the k-th largest logit of each row. Everything below it gets −∞, *before* the softmax.
#
# </details>
# <details><summary>Hint 3</summary>
#
# For the nucleus, sort in descending order. A token is in it if the sum of those *before* it has not reached `top_p`:
# `cumsum - ordered`. Set the others to 0. Then put them back in the old order: `sort` gives the ids as well, and
# `scatter(-1, order, …)` writes each probability back to where it came from.
#
# </details>

# %%
draw = yours_or_ours("sample_next", globals())


def shares(logits: Tensor, *options) -> Tensor:
    """The share of each token in 10,000 draws."""
    drawn = draw(
        logits.expand(10_000, -1), *options, torch.Generator().manual_seed(seed)
    )
    return torch.bincount(drawn, minlength=logits.shape[-1]) / 10_000


by_hand = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05]).log()
for options, expected in {
    (1.0, 2, None): [0.714, 0.286, 0, 0, 0],
    (1.0, None, 0.8): [0.588, 0.235, 0.176, 0, 0],
}.items():
    print(
        options,
        [round(share, 3) for share in shares(by_hand, *options).tolist()],
        "by hand:",
        expected,
    )
    assert_close(shares(by_hand, *options), torch.tensor(expected), atol=0.025, rtol=0)
for temperature, expected in {
    1: [0.665, 0.245, 0.090],
    2: [0.506, 0.307, 0.186],
    0.5: [0.867, 0.117, 0.016],
}.items():
    assert_close(
        shares(torch.tensor([2.0, 1, 0]), temperature, None, None),
        torch.tensor(expected),
        atol=0.025,
        rtol=0,
    )

# %% [markdown]
# ## Write
#
# Now the loop: ask the model about the text so far, draw one token, append it, ask again. Everything is in the details.
# The model has `max_len` positions, and the text may become longer. A batch has several texts, and they do not all end
# at the same time. And a model that was being trained has dropout on.
#
# ### Exercise: generate ({points}, difficulty 3, 20 minutes)
#
# Write `generate(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None)`.
#
# - `ids` is `(b, n)`. The result begins with them and has up to `num_tokens` more, each drawn by `sample_next`, yours
#   or `attnlib.sample_next`. `ids` itself is not changed, and no gradient is needed.
# - The model, `(b, n)` to `(b, n, vocab)`, sees at most the last `model.max_len` tokens.
# - A row that has written `stop_id` gets `stop_id` from there on. Once all rows have, the loop ends, and the result is
#   shorter. A `stop_id` in the prompt stops nothing.
# - The model is called in evaluation mode, and `model.training` is afterwards what it was before.
# - Not allowed: `attnlib.generate`.


# %%
def generate(
    model: nn.Module,
    ids: Tensor,
    num_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_id: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Ids (b, n) -> (b, n + up to num_tokens)."""
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    stopped = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    with torch.no_grad():
        for _ in range(num_tokens):
            logits = model(ids[:, -model.max_len :])[:, -1]
            new = sample_next(logits, temperature, top_k, top_p, generator)
            if stop_id is not None:
                new = new.masked_fill(stopped, stop_id)
                stopped = stopped | (new == stop_id)
            ids = torch.cat([ids, new[:, None]], dim=1)
            if stopped.all():
                break
    model.train(was_training)
    return ids
    ### END SOLUTION


# %%
check("generate", generate)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Without `stop_id` it is four lines in a loop: the window, the logits of the last position, a draw, and `torch.cat`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# For stopping, keep a bool tensor `stopped`, one entry for each row, all False at first. A new token in a stopped row
# is replaced: `new.masked_fill(stopped, stop_id)`. Afterwards a row has stopped if it had stopped before, or if its new
# token is `stop_id`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Remember `model.training` before you call `eval()`. At the end, `train(…)` takes a bool: the one that you remembered.
#
# </details>

# %% [markdown]
# ## Train it on names
#
# Forget the eight names: here is a new model, with 32 names in each step, drawn from nine tenths of the list. Every 40
# steps its loss on names that it has never seen is noted down.

# %%
write = yours_or_ours("generate", globals())
torch.manual_seed(seed)
model = new_model(len(letters), max_len=lines.shape[1])
asked = trimmed(test_lines[:300])
with_test = lambda: loss_of(model(asked[0]), asked[1]).item()  # noqa: E731

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
with torch.no_grad():
    untrained = write(
        model, encode("\n")[None], 20, generator=torch.Generator().manual_seed(seed)
    )
print("before:", repr(decode(untrained[0, 1:])))
learned = fit(
    model,
    lambda: trimmed(train_lines[torch.randint(0, kept, (32,))]),
    440,
    6e-3,
    with_test,
)
print("loss:", [round(loss, 2) for loss in learned])
known = set(names)
for temperature in (0, 0.7, 1.0, 2.0):
    texts = write(
        model,
        encode("\n").expand(6, 1),
        40,
        temperature,
        stop_id=0,
        generator=torch.Generator().manual_seed(seed),
    )
    written = [decode(row).strip("\n") for row in texts]
    print(
        f"\ntemperature {temperature}:",
        *(f"  {name}{' (exists)' * (name in known)}" for name in written),
        sep="\n",
    )
    if temperature == 0:
        assert len(set(written)) == 1
assert learned[-1] < 1.7

# %% [markdown]
# Cold, it repeats what is common; hot, it spells at random; in between, it makes up words that you could almost
# believe. (At temperature 0 there is one name, as predicted. Why it need not be the likeliest one is the first question
# of *Think further*.)
#
# **Your turn.** Begin a name yourself, in capitals, and let the model finish it in six ways. Change `mine` and run
# the cell. Try a beginning from the list above, your own name, and one with which no name begins. When does it go on in
# words, and when does it only spell?

# %%
# nbval-ignore-output: the last digits vary by machine, and the beginning is yours
mine = "SNOWMAN WITH "

mine = usable_text(mine, letters[1:], longest=30)
begun = encode("\n" + mine).expand(6, -1)
for row in write(
    model, begun, 30, 0.7, stop_id=0, generator=torch.Generator().manual_seed(seed)
):
    print(decode(row).strip("\n"))

# %% [markdown]
# ## Be honest: count
#
# Is that a good loss? A number means nothing by itself. Here is the oldest rival: count how often each character
# follows the last one, the last two, the last five. It learns in two seconds, and it has no weights at all.
#
# Counts alone give 0 to what was never seen, and $-\ln 0$ is infinite. So each order is mixed with the one below it.
# Witten and Bell do it like this, in letters of their own: $h$ is a context, the last $k$ characters (it has nothing to
# do with heads), and $h'$ is the last $k-1$:
#
# $$p_k(c \mid h) = \frac{C(hc) + T(h)\; p_{k-1}(c \mid h')}{C(h) + T(h)}$$
#
# $C(hc)$ is how often $c$ followed $h$, $C(h)$ how often anything did, and $T(h)$ *how many different* characters did.
# A context that goes on in many ways is likely to go on in yet another. By hand: `BA` was seen 3 times, followed twice
# by N and once by T. In the shorter context, N has $p = 0.1$. Then $p(N \mid BA) = (2 + 2 \cdot 0.1)/(3 + 2) = 0.44$.
#
# ## Write the rival
#
# ### Stretch: Witten-Bell counts ({points}, difficulty 4, 40 minutes)
#
# Write `witten_bell(text, test, order, vocab)`. If you would rather go on, the course's own is used below.
#
# - `text` `(n)` is counted, `test` `(m)` is scored: both hold ids below `vocab`.
# - The result is `(m - order + 1)`, float32: for each token of `test` from number `order - 1` on, its probability after
#   the `order - 1` tokens before it.
# - The chain begins with the uniform guess $1/\mathrm{vocab}$, which is mixed into the counts of single tokens (an
#   empty context), the result into the counts after one token, and so on, up to `order - 1` tokens.
# - A context that is not in `text` leaves the probability as it is. (Only what something *follows* in `text` is a
#   context.)


# %%
def witten_bell(text: Tensor, test: Tensor, order: int, vocab: int) -> Tensor:
    """Ids (n), ids (m) -> the probability of each token of the test from number order - 1 on (m - order + 1)."""
    ### BEGIN SOLUTION
    seen, read = text.tolist(), test.tolist()
    follows: dict[tuple, Counter] = defaultdict(Counter)
    for k in range(order):
        for i in range(k, len(seen)):
            follows[tuple(seen[i - k : i])][seen[i]] += 1
    found = []
    for i in range(order - 1, len(read)):
        p = 1 / vocab
        for k in range(order):
            counts = follows.get(tuple(read[i - k : i]))
            if counts:
                p = (counts[read[i]] + len(counts) * p) / (counts.total() + len(counts))
        found.append(p)
    return torch.tensor(found)
    ### END SOLUTION


# %%
check("witten_bell", witten_bell)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A dictionary from contexts (tuples of ids, the empty one included) to a `collections.Counter` of what followed.
# Python's own loops are fast enough: two nested ones, over the lengths and over the positions.
#
# </details>
# <details><summary>Hint 2</summary>
#
# For a `Counter` named `counts`: $C(hc)$ is `counts[c]`, $C(h)$ is `counts.total()`, $T(h)$ is `len(counts)`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# For each token of the test, begin with `p = 1 / vocab` and go from the empty context to the longest. Each round
# computes the new `p` from the old one.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
rival = yours_or_ours("witten_bell", globals())
read, judged = (
    encode("\n" + "\n".join(names[:kept]) + "\n"),
    encode("\n" + "\n".join(names[kept : kept + 300]) + "\n"),
)
counting = {
    order: -rival(read, judged, order, len(letters)).log().mean().item()
    for order in range(1, 7)
}
print(
    "counting:",
    {order: round(loss, 2) for order, loss in counting.items()},
    f"  model: {learned[-1]:.2f}",
)
assert counting[3] - 0.2 > learned[-1] > counting[5] + 0.1
assert counting[5] - 0.1 < counting[6] < counting[5] + 0.05

# %%
_, ax = plt.subplots(figsize=(8, 3.9), layout="constrained")
for order, loss in counting.items():
    ax.axhline(loss, color=GREY, linewidth=1)
    # the last lines are close to one another
    at = loss + {4: 0.09, 5: 0.05, 6: -0.13}.get(order, 0)
    ax.text(515, at, f"{order}-grams", va="center", color="0.35", fontsize=8)
ax.plot(range(0, 441, 40), learned, color=ACCENT, marker=".")
ax.text(60, learned[2] + 0.5, "your model", color=ACCENT)
ax.set(
    xlim=(0, 510),
    ylim=(0, 3.9),
    xlabel="steps of training",
    ylabel="loss on unseen names, nats per character",
)
ax.set_title("Counts of 5 characters in a row beat the model")
show(
    "The loss of the model against steps falls from 3.7 to about 1. Grey lines are "
    "n-gram counts: it crosses those of 1, 2 and 3 characters, comes near that of 4, "
    "and stays above those of 5 and 6."
)

# %% [markdown]
# The model's loss drops below the counts of one, two and three characters in a row, comes near those of four, and stops
# there: **counting wins**. With 200,000 characters that is no surprise. A table has seen each of them after a single
# pass, and gradient descent needs many passes to write as much into its weights. (On a GPU, `d_model` and the steps can
# be ten times as large. The code is the same, and so is the comparison.) But do look at the grey lines, too: from 5 to
# 6 they hardly get better. Many runs of six characters have never been seen, and counting has nothing to say about what
# it has not seen.
#
# ### Exercise: bits per character ({points}, difficulty 2, 6 minutes)
#
# Can you compare this loss with that of GPT-2? Not as it is. Its tokens are pieces of words, some four characters long.
# Guessing a whole piece is harder than guessing a character, so its loss *per token* is higher, though it may know
# more. What you can compare is the price of the same text: all nats of all tokens, divided among the characters. In
# bits, that is what a compressor would need.
#
# By hand: 3 tokens with a mean loss of 2.0 nats cover 12 characters. That is 6 nats in all, 0.5 nats per character, and
# $0.5/\ln 2 = 0.72$ bits.
#
# Write `bits_per_character(loss, tokens, characters)`: `loss` is a tensor without axes, the mean in nats per token; the
# other two are ints. The result is a tensor without axes, in the dtype of `loss`.


# %%
def bits_per_character(loss: Tensor, tokens: int, characters: int) -> Tensor:
    """The mean loss in nats per token -> bits per character."""
    ### BEGIN SOLUTION
    return loss * tokens / characters / math.log(2)
    ### END SOLUTION


# %%
check("bits_per_character", bits_per_character)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Undo the mean first, · tokens. Then share the total among the characters. Then change the unit:
# $\log_2 p = \ln p / \ln 2$.
#
# </details>

# %%
in_bits = yours_or_ours("bits_per_character", globals())
assert_close(
    in_bits(torch.tensor(2.0), 3, 12).item(), 0.5 / math.log(2), atol=1e-6, rtol=0
)
# the line break is written, too
per_name = sum(len(name) + 1 for name in names[kept : kept + 300]) / 300
# if a whole name were one token
per_letter = in_bits(torch.tensor(2.0 * per_name), 300, round(300 * per_name))
assert_close(per_letter.item(), 2.0 / math.log(2), atol=1e-3, rtol=0)
print(
    f"ln {len(letters)} is {in_bits(torch.tensor(math.log(39)), 1, 1):.2f} bits: an even guess"
)

# %% [markdown]
# ## What counting cannot do
#
# So what is attention for? Give both of them a text in which the answer is *in the text*, but not within the last five
# characters, and never the same twice: lesson 04's dates.
#
# ```text
#  Sunday, 20 July 1969=1969-07-20
# ```
#
# Up to the equals sign anything may come. After it, everything is determined. Lesson 04 built an encoder, a decoder and
# cross-attention between them for this. Here it is the same `LanguageModel` as for the names: the question is the
# beginning of a text, and the answer is how it goes on.
#
# Two details. The loss counts only after the equals sign: the targets before it are −100, so no effort goes into
# guessing weekdays. And the lines are padded *in front*. Then all prompts of a batch end at the same position, which
# `generate` needs to write their next characters together.

# %%
draws = random.Random(seed)
first_day, last_day = date(1000, 1, 1).toordinal(), date(2999, 12, 31).toordinal()
days = [date.fromordinal(n) for n in draws.sample(range(first_day, last_day), 20_000)]


def line_of(day: date) -> str:
    """A question, an equals sign, and the answer: 42 characters."""
    return f"{day:%A}, {day.day} {day:%B} {day.year}={day.isoformat()}\n".rjust(42)


signs = sorted(set("".join(map(line_of, days[:2000]))))
sign_number = {sign: i for i, sign in enumerate(signs)}
dates = torch.tensor([[sign_number[sign] for sign in line_of(day)] for day in days])
train_dates, test_dates = dates[:19_700], dates[19_700:]
assert not {*days[:19_700]} & {*days[19_700:]}
answer = 42 - len("1969-07-20\n")
assert (dates[:, answer - 1] == sign_number["="]).all()
print(line_of(date(1969, 7, 20)), end="")


# %%
def some_dates() -> tuple[Tensor, Tensor]:
    """48 lines, and the targets: nothing before the answer."""
    ids = train_dates[torch.randint(0, len(train_dates), (48,))]
    targets = ids.clone()
    targets[:, :answer] = -100
    return ids, targets


def exact(texts: Tensor) -> float:
    """The share of the test's lines that are right to the last character."""
    return (texts == test_dates).all(dim=1).float().mean().item()


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
dater = new_model(len(signs), max_len=42)
prompts = test_dates[:, :answer]
right = fit(
    dater, some_dates, 360, 6e-3, lambda: exact(write(dater, prompts, 11, 0)), every=120
)
print("exact, every 120 steps:", [f"{share:.0%}" for share in right])

# the rival: what followed the last five characters, or the last four, or ...
follows = defaultdict(Counter)
for row in train_dates.tolist():
    for k in range(6):
        for i in range(answer, 42):
            follows[tuple(row[i - k : i])][row[i]] += 1
counted = prompts.tolist()
for row in counted:
    while len(row) < 42:
        known = next(
            seen
            for k in range(5, -1, -1)
            if (seen := follows.get(tuple(row[len(row) - k :])))
        )
        row.append(known.most_common(1)[0][0])
by_counting = exact(torch.tensor(counted))
letter_by_letter = (torch.tensor(counted) == test_dates)[:, answer:].float().mean(dim=0)
print(
    "counting, right by character:",
    [round(share, 2) for share in letter_by_letter.tolist()],
)
print(
    f"of {len(test_dates)} dates that neither has seen: the model {right[-1]:.1%}, counting {by_counting:.1%}"
)
assert right[0] == 0
assert right[-1] > 0.98
assert by_counting < 0.02
# the year, and the month's second digit
assert letter_by_letter[:4].min() > 0.9 > 0.5 > letter_by_letter[6]

# %% [markdown]
# The tables are turned. Counting can still copy the year, because `1969=` fits into five characters. But at the month
# it has `1969-` before it, and nothing in that says *July*. A longer reach would not help: the month and the day are
# fifteen characters back, and no text of that length comes twice. The model has learned a *rule*, and applies it to
# dates that it never saw. A model that guesses characters has become lesson 04's translator, without an encoder and
# without cross-attention.
#
# Where does it look while it writes `1969`? In lesson 04 the answer was four cells. Here there are two layers of four
# heads. For each head, over all test dates: how much of the attention goes to the very digit that is written next?

# %%
year = slice(answer - 5, answer - 1)  # where the year stands in the question


def looks_of(model: nn.Module, ids: Tensor) -> Tensor:
    """The weights (layer, b, h, n, n), computed from what each block's attention is given."""
    inputs, found = [], []
    hooks = [
        block.attn.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        for block in model.blocks
    ]
    with torch.no_grad():
        model(ids)
        for block, x in zip(model.blocks, inputs, strict=True):
            q, k = (
                attnlib.split_heads(w(x), 4) for w in (block.attn.w_q, block.attn.w_k)
            )
            past = attnlib.causal_mask(x.shape[1], x.shape[1])
            found.append(attnlib.masked_softmax(attnlib.attention_scores(q, k), past))
    for hook in hooks:
        hook.remove()
    return torch.stack(found)


looks = looks_of(dater, test_dates)
# at "=" the 1 is written, at the 1 the 9, and so on
writing = torch.arange(answer - 1, answer + 3)
# (layer, head)
cells = looks[:, :, :, writing, torch.arange(42)[year]].mean(dim=(1, 3))
layer, head = divmod(cells.argmax().item(), 4)

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
for i in range(2):
    print(
        f"layer {i}: weight on the digit that comes next, by head:",
        [round(w, 2) for w in cells[i].tolist()],
    )
assert cells.max() > 0.5  # evenly spread, it would be 1/35

# %%
text = line_of(date(1969, 7, 20)).rstrip("\n")
shown = torch.tensor([[sign_number[sign] for sign in text]])
table = looks_of(dater, shown)[layer, 0, head, answer - 1 : answer + 9]
begin = len(text) - len(text.lstrip())
_, ax = plt.subplots(figsize=(10, 3.6), layout="constrained")
plain = {"values": False, "vmax": 1, "colorbar": False}
plot_attention(
    table[:, begin:], list(text[answer:]), list(text[begin:]), ax=ax, **plain
)
ax.set(
    xlabel="looked at",
    ylabel="written",
    title="While it writes 1969, it looks at 1, 9, 6, 9",
)
for label in ax.get_xticklabels():
    label.set(rotation=0, ha="center", va="top")
show(
    "The attention of one head while the ten characters of 1969-07-20 are written. In "
    "the first four rows nearly all of the weight is on the four digits of the year "
    "in the question, one after the other."
)
assert table[range(4), range(answer - 5, answer - 1)].mean() > 0.5

# %% [markdown]
# The same four cells as in lesson 04, found by a model that was never told where the question ends. But you know by now
# not to trust a picture. Here is the test from lesson 04: change what it looks at, and see whether the answer changes
# there, and nowhere else.

# %%
changed = test_dates.clone()
last_digit = answer - 2
digits = torch.tensor([sign_number[digit] for digit in "0123456789"])
changed[:, last_digit] = digits[
    (digits[:, None] == changed[:, last_digit]).int().argmax(dim=0).add(5) % 10
]
before, after = (
    write(dater, ids[:, :answer], 11, 0)[:, answer:] for ids in (test_dates, changed)
)
differs = (before != after).float().mean(dim=0)
print(
    "share of answers that changed, by character:",
    [round(share, 2) for share in differs.tolist()],
)
assert differs[3] > 0.95
assert differs[[0, 1, 2, 4, 5, 6, 7, 8, 9, 10]].max() < 0.1

# %% [markdown]
# The fourth digit follows, and the rest stays. All of this is one model for each task, from one random start;
# `python -m benchmarks.other_seeds 08_language_model` repeats the lesson, with all of its assertions, from three
# others.
#
# ## Find the bugs
#
# ### Fix: a loop that trains ({points}, difficulty 3, 12 minutes)
#
# The function below cuts a long text into pieces of `window` tokens and makes a step of training with each. After each
# step it notes the loss on `held_out`. The model takes the positions as a second argument, as models from
# `transformers` do, and has dropout. The loop runs, its training loss falls quickly to nearly 0, and what the model
# writes is rubbish. There are **three** mistakes in it. Fix them, and change nothing else.
#
# - `text` is `(b, many)`, `held_out` is `(c, n)`; the result is `(pieces)`, the losses on `held_out`.
# - When the model is used later, each text begins at position 0.
# - The model may come in training mode or in evaluation mode: it is to be trained in the same way.


# %%
def train_on_pieces(
    model: nn.Module, text: Tensor, held_out: Tensor, window: int, lr: float
) -> Tensor:
    """A step for each piece of the text -> the loss on the held-out text after each of them."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for start in range(0, text.shape[1] - window + 1, window):
        ids = text[:, start : start + window]
        ### BEGIN SOLUTION
        model.train()
        logits = model(ids, torch.arange(window))
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        ### BEGIN STUB
        # logits = model(ids, torch.arange(start, start + window))
        # loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
        ### END SOLUTION
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            logits = model(held_out, torch.arange(held_out.shape[1]))
            losses.append(
                F.cross_entropy(logits[:, :-1].flatten(0, 1), held_out[:, 1:].flatten())
            )
    return torch.stack(losses)


# %%
check("mend_training_loop", train_on_pieces)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The loss on `held_out` is computed rightly. Compare the two calls of `F.cross_entropy`, and the two calls of the
# model.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Where is the model's mode changed, and what is it in the second round of the loop?
#
# </details>
# <details><summary>Hint 3</summary>
#
# A piece that begins at token 500 of the text is still a text that begins, for the model, at position 0.
#
# </details>

# %% [markdown]
# Each of the three is quiet. A loss that is not shifted looks like a great success. Positions that run on train each
# row of the table on one piece. And a model that is left in evaluation mode goes on training, without dropout. What
# gives the first one away is what you know in advance: nobody can guess the letters of a name so well that the loss
# falls to nearly 0.
#
# ## Load the weights of GPT-2
#
# Your model has the layout of GPT-2: the small one has 12 layers, 12 heads, 768 columns, and 50,257 tokens. If you have
# its file (`gpt2` of `transformers`, half a gigabyte), you can load it into `attnlib`'s model and write with it:
#
# ```python
# from transformers import GPT2LMHeadModel, GPT2Tokenizer
#
# tokens = GPT2Tokenizer.from_pretrained("gpt2")
# gpt2 = attnlib.from_gpt2(GPT2LMHeadModel.from_pretrained("gpt2").state_dict())
# start = torch.tensor([tokens.encode("The animal did not cross the street because it was")])
# print(tokens.decode(generate(gpt2, start, 20, 0.8, top_p=0.9)[0]))
# ```
#
# Four things are not what you would expect, and only the second raises an error if you overlook it:
#
# 1. Its `Conv1D` layers keep their weights as (in, out), the transpose of `nn.Linear`. Where a matrix is square, such
#    as the output projection of attention, nothing complains.
# 2. Queries, keys and values are one matrix, `c_attn`, packed as (3 h d): first all queries, then all keys. You met the
#    other orders in lesson 03.
# 3. Its GELU is the approximation by tanh. The exact one is close enough to pass unnoticed, and wrong in the fourth
#    digit.
# 4. There is no head in the file: it is tied to the embedding.
#
# `attnlib/gpt2.py` is one page, and its test compares it with the papers' equations, on a small random GPT-2.
#
# ## What you can now do
#
# - Say what a loss should be before the first step, and how low it can get, and use both to find bugs.
# - Build a language model in the layout of GPT-2, and train it.
# - Draw tokens with temperature, top-k and top-p, and test a function that rolls dice.
# - Write with a model: within its window, several texts at once, each until it stops.
# - Put a model beside the simplest rival, and say honestly which wins where.
#
# ## Take this with you
#
# **Logits at i are for the token at i + 1; everything else in a language model is lesson 06.**
#
# | | |
# | --- | --- |
# | loss | `cross_entropy(logits[:, :-1], ids[:, 1:])`, at first $\ln V$ |
# | shapes | ids `(b, n)` → stream `(b, n, d_model)` → logits `(b, n, vocab)` |
# | size | $12 d^2$ for each block, and `vocab · d` for the embedding |
# | order of sampling | temperature, top-k, softmax, top-p, draw |
# | three traps | loss not shifted · mode not put back · losses per token compared across tokenisers |
# | in GPT-2 small | 12 blocks, 12 heads, 768 wide, 1024 positions, tied head, 124 million weights |
#
# **What real models do today**
#
# - Tokens are pieces of words, found by byte-pair encoding (Sennrich et al. 2016; GPT-2 runs it on bytes).
# - Positions are rotary (lesson 07), the norm is RMSNorm (Zhang and Sennrich 2019), and the MLP has a gate, SwiGLU
#   (Shazeer 2020). The layout around them is this one.
# - When a model is trained to follow instructions, the loss counts only after the question, as yours did with −100.
#
# ## Think further
#
# 1. Find a distribution over two-character texts in which taking the likeliest character twice does not give the
#    likeliest text.
# 2. `top_p=1.0` and `top_k=vocab` do nothing. Why does almost everybody who serves models set one of them lower,
#    although it makes the model's distribution wrong?
# 3. How low could the loss on the *training* names get, for a model that knows all of them by heart?
# 4. Why can the dates be learned with the loss only after the equals sign, while the names need the loss everywhere?
#
# <details><summary>Answers</summary>
#
# 1. First character: A 0.6, B 0.4. After A three are equally likely, 1/3 each; after B one is certain. The greedy text
#    begins with A and has 0.2; the one with B has 0.4.
# 2. The loss punishes a probability of 0 without limit, so a trained model gives a little to everything. Each such
#    token is unlikely, but all of them together are not, and after one of them the model has to go on from a text
#    unlike any that it ever saw.
# 3. Ask `lowest_loss([f"\n{name}\n" for name in names[:kept]])`: 0.35. After LATIN SMALL LETTER anything may come,
#    however well one knows the list. A training loss below that would be a bug.
# 4. In a name every character is both a question and an answer: there is nothing else to learn from. In a date the
#    characters of the question cannot be foretold, apart from the spelling of July; learning to guess them would take
#    weights and gradients away from the answer, and the answer does not need it.
#
# </details>
#
# ## Read on
#
# - [Radford et al.
#   2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf), GPT-2:
#   section 2 is this lesson's model, and the rest is what becomes of it when it is large.
# - [Holtzman et al. 2019](https://arxiv.org/abs/1904.09751), *The Curious Case of Neural Text Degeneration*: why the
#   likeliest text is dull, and where the nucleus comes from.
# - [Press and Wolf 2017](https://arxiv.org/abs/1608.05859): what tying the head to the embedding does, and why it
#   helps.
# - [Chen and Goodman 1998](https://dash.harvard.edu/handle/1/25104739): everything about counting, Witten-Bell and its
#   better successor, Kneser-Ney.
# - [Kaplan et al. 2020](https://arxiv.org/abs/2001.08361): how the loss falls with data, size and time. Your curve is
#   its left edge.
#
# **Next:** your `generate` reads the whole text again for every character. How much of what it computes could be kept?
# Lesson 09.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/08_language_model.ipynb`.*
