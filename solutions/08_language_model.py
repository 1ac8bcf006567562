# %% [markdown]
# # 08 · A language model: guess the next character
#
# In 2010 the cartoonist Randall Munroe asked the readers of xkcd to name colours, and more than five
# million answers [came back](https://blog.xkcd.com/2010/05/03/color-survey-results/). None of these is among the names
# they agreed on:
#
# ```text
# #093 dark seafoaam green      #c96 dirty pan
# #963 dark maramard            #f6f alvenish pink
# #696 keeshy green             #0fc avel blue
# ```
#
# A model made them up, one character after another. You'll build that model, every line from the loss to the dice, and
# train it in fifteen seconds. Then you'll do what is usually left out: compare it with plain counting, and look for
# something counting can't do at all.
#
# | | |
# | --- | --- |
# | **You will build** | the loss, a decoder block, a language model laid out as GPT-2, training, sampling, writing |
# | **You will understand** | what a loss is at first, how low it can get, what temperature, top-k and top-p do |
# | **You need** | the blocks of lesson 06, the causal attention of 05, the dates of 04 |
# | **Time** | core 1 hour 55 minutes, everything 3 hours 45 minutes ([symbols](00_start_here.ipynb#Symbols)) |
#
# Everything trained here runs on your own code: each function from the moment it passes its check, and your attention
# and layer norm from lessons 05 and 06.

# %%
import math
import random
from collections import Counter, defaultdict
from datetime import date

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, keep_weights, yours_or_ours
from attnlib.checks.your_turn import usable_text
from attnlib.colours import colour_lines
from attnlib.plot import ACCENT, GREY, plot_attention, show, training, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 08_language_model` runs this lesson with others
seed = 0

# %% [markdown]
# ## Let a text be its own teacher · core
#
# Lesson 06 needed images with labels. A language model doesn't: as with the two writers of lesson 05, the label of each
# character is the character after it. Our text is a list of colours and their names, which comes with matplotlib. Each
# colour is rounded to one of six steps of red, green and blue, so three digits are enough: `#fc6` has all of the red,
# most of the green and some blue. A tenth of the lines is held out for the test.

# %%
colours = colour_lines()
kept = len(colours) * 9 // 10
letters = ["\n", *sorted(set("".join(colours)))]
number = {letter: i for i, letter in enumerate(letters)}
print(len(colours), "lines of", len(letters), "characters, the line break included")
print(colours[:4])

# %% [markdown]
# A model reads numbers, so each character gets one, its *id*. Id 0 is the line break, which begins and ends each line.
# Lines differ in length and a batch is a rectangle, so a batch has two tables: the ids, padded with 0, and the
# *targets*, padded with −100. That is PyTorch's number for "nothing to learn here", so we use it too.


# %%
def encode(text: str) -> Tensor:
    """Characters -> ids (n)."""
    return torch.tensor([number[letter] for letter in text])


def decode(ids: Tensor) -> str:
    """Ids (n) -> characters."""
    return "".join(letters[i] for i in ids.tolist())


rows = nn.utils.rnn.pad_sequence(
    [encode(f"\n{line}\n") for line in colours], batch_first=True, padding_value=-100
)
lines = torch.stack([rows.clamp(min=0), rows])  # (2, lines, n): ids and targets
train_lines, test_lines = lines[:, :kept], lines[:, kept:]
print(tuple(lines.shape), lines[1, 1].tolist())

# %% [markdown]
# ## Measure the surprise · core
#
# At each position the model gives every possible next character a probability. The loss, as in lesson 04, is $-\ln p$:
# how surprised the model is by the character that comes. By hand, for the text `ABAC` and a model that says
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
# A model with small random weights, not trained for a single step, reads these lines. Its vocabulary is the 35
# characters they're written in. What is its loss, roughly?
#
# - **A**: 0
# - **B**: 0.7
# - **C**: 3.6
# - **D**: it can't be known, because the weights are random

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
# - `logits` is `(b, n, vocab)`, `ids` is `(b, n)`. The logits at position $i$ have seen the ids up to $i$, and predict
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
# ## Build the decoder block · core
#
# You have an encoder block (lesson 06). A *decoder* block is made for writing and differs in two ways. It is causal:
# what it has to guess must not be visible. And it can have a third branch between the other two, which attends to a
# *memory*, such as the sentence to be translated (lesson 04):
#
# $$x \leftarrow x + \mathrm{attn}(\mathrm{norm}_1(x)), \qquad
# x \leftarrow x + \mathrm{cross}(\mathrm{norm}_2(x), m), \qquad
# x \leftarrow x + \mathrm{mlp}(\mathrm{norm}_3(x))$$
#
# GPT and its relatives have no memory. They leave out the second branch, and so does the model below: everything it
# needs to know is in the text itself. You write the branch all the same, because with it you have both halves of the
# original Transformer.
#
# The parts are yours: causal attention from lesson 05, and `layer_norm` from lesson 06. That one is a function, so here
# is a module that holds its gain and bias.

# %%
Attention = yours_or_ours("CausalSelfAttention", globals())
normalise = yours_or_ours("layer_norm", globals())


class Norm(nn.LayerNorm):
    """The gain and the bias of nn.LayerNorm, and your own function."""

    def forward(self, x: Tensor) -> Tensor:
        return normalise(x, self.weight, self.bias)


# %% [markdown]
# ### Exercise: the decoder block ({points}, difficulty 3, 15 minutes)
#
# Write the module `DecoderBlock(d_model, num_heads, d_memory=None)`, pre-LN as in lesson 06.
#
# - Without `d_memory`: `norm1`, `attn`, `norm2`, `mlp`. Then `forward(x)` is self-attention, then the MLP.
# - With `d_memory`: `norm1`, `attn`, `norm2`, `cross`, `norm3`, `mlp`, and `forward(x, memory)`, where `memory` is `(b,
#   k, d_memory)` and always given. Every query may attend to all of it.
# - Self-attention is causal in both. `attn` can be `Attention(d_model, num_heads)` from the cell above, which returns
#   the output *and* the weights. The norms can be `Norm(d_model)`.
# - `cross` can be `attnlib.MultiHeadAttention(d_model, num_heads, d_memory=…)`, called with the memory as its second
#   argument, and `mlp` can be `attnlib.FeedForward(d_model, 4 * d_model)`. Other modules are just as good, as long as
#   their layers have the same names.
# - Not allowed: whole blocks, `attnlib`'s or PyTorch's.


# %%
class DecoderBlock(nn.Module):
    """x (b, n, d_model), memory (b, k, d_memory) or None -> (b, n, d_model); pre-LN,
    causal."""

    def __init__(self, d_model: int, num_heads: int, d_memory: int | None = None):
        super().__init__()
        ### BEGIN SOLUTION
        self.norm1 = Norm(d_model)
        self.attn = Attention(d_model, num_heads)
        self.norm2 = Norm(d_model)
        if d_memory is not None:
            self.cross = attnlib.MultiHeadAttention(
                d_model, num_heads, d_memory=d_memory
            )
            self.norm3 = Norm(d_model)
        self.mlp = attnlib.FeedForward(d_model, 4 * d_model)
        ### END SOLUTION

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        found, _ = self.attn(self.norm1(x))
        x = x + found
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
# `self.attn(self.norm1(x))` gives two results, and only the first is added. The second branch is
# `self.cross(self.norm2(x), memory)`. Each is added to x, and x is overwritten, three times in all.
#
# </details>

# %% [markdown]
# ## Put the model together · core
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
# ### Exercise: the language model ({points}, difficulty 3, 20 minutes)
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
# - `self.max_len` is stored, as in the stub: `generate` needs it.
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
# the loss is $\ln V$, where $V$ is the size of the vocabulary. That's the cheapest test there is. It finds weights that
# start too large, or a wrong loss, before a second of training is spent.

# %%
Model = yours_or_ours("LanguageModel", globals())


def new_model(vocab: int, max_len: int) -> nn.Module:
    """Two layers, four heads of 16. nn.Embedding starts at a standard deviation of 1:
    as logits, far too large."""
    torch.manual_seed(seed)
    made = Model(vocab, 64, 4, 2, max_len)
    for table in (made.embed, made.positions):
        nn.init.normal_(table.weight, std=0.05)
    return made


model = new_model(len(letters), max_len=lines.shape[-1])
d, parameters = 64, sum(p.numel() for p in model.parameters())
in_tables, in_blocks = (len(letters) + lines.shape[-1]) * d, 2 * (12 * d**2 + 13 * d)
assert parameters == in_tables + in_blocks + 2 * d
with torch.no_grad():
    first = loss_of(model(test_lines[0]), test_lines[1]).item()
print(f"{parameters} parameters")
print(f"loss before the first step {first:.2f}; ln 35 = {math.log(35):.2f}")
assert abs(first - math.log(len(letters))) < 0.3

# %% [markdown]
# ## Train it · core
#
# ### Exercise: the training loop ({points}, difficulty 3, 20 minutes)
#
# It's lesson 07's loop with one thing more: every few steps it measures the loss on text the model isn't trained on.
# Write `train_language_model(model, batches, held_out, rate, warmup, every)`.
#
# - `batches` is `(steps, 2, b, n)`: for each step, the ids the model reads and the targets, which are the same ids with
#   −100 where nothing is to be learned. `held_out` is such a pair as well, `(2, c, m)`.
# - The optimiser is `torch.optim.AdamW` with `weight_decay=0.01`. Step $i$, counted from 0, has the learning rate
#   $\mathrm{rate} \cdot \min(1, \frac{i + 1}{\mathrm{warmup}}) \cdot (1 - \frac{i}{\mathrm{steps}})$, which rises, then
#   falls towards 0.
# - The loss is that of the next token, as above. Each step runs in training mode, since the model may have dropout.
# - Before the first step, and after every `every` steps, record the loss on `held_out`, in evaluation mode and without
#   gradients. Return these `1 + steps // every` losses, detached. Dtype as always.
# - Train `model` itself, not a copy. At the end it's back in the mode it came in, training or evaluation.


# %%
def train_language_model(
    model: nn.Module,
    batches: Tensor,
    held_out: Tensor,
    rate: float,
    warmup: int,
    every: int,
) -> Tensor:
    """A step on each batch -> the losses on the held-out text, (1 + steps // every)."""
    ### BEGIN SOLUTION
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    was_training, steps, losses = model.training, len(batches), []
    for step in range(steps + 1):
        if step % every == 0:
            model.eval()
            with torch.no_grad():
                losses.append(next_token_loss(model(held_out[0]), held_out[1]))
        if step == steps:
            break
        model.train()
        ids, targets = batches[step]
        loss = next_token_loss(model(ids), targets)
        for group in optimiser.param_groups:
            rise, fall = min(1, (step + 1) / warmup), 1 - step / steps
            group["lr"] = rate * rise * fall
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.train(was_training)
    return torch.stack(losses)
    ### END SOLUTION


# %%
check("train_language_model", train_language_model)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the plain loop first, without looking at `held_out`: logits, loss, `zero_grad`, `backward`, `step`. It is lesson
# 07's `train_with_warmup` with the loss of the next token. The rate goes into `optimiser.param_groups[0]["lr"]`
# before each step.
#
# </details>
# <details><summary>Hint 2</summary>
#
# With 9 steps and `every = 3` there are four measurements: before step 0 and after the steps 2, 5 and 8. A loop over
# `range(steps + 1)` that measures *before* each step with `step % every == 0`, and breaks out at the end, gets all
# four.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Switch to evaluation mode before each measurement and to training mode before each step. Note the mode at the
# beginning, from `model.training`; `model.train(noted)` puts it back.
#
# </details>

# %%
train_loop = yours_or_ours("train_language_model", globals())


def fit(model: nn.Module, batches: Tensor, held_out: Tensor, every: int) -> list[float]:
    """Run your loop. Each call of the model moves the bar or shows the new loss."""
    with training(len(batches)) as bar:

        def look(_: nn.Module, given: tuple, logits: Tensor) -> None:
            if model.training:
                bar.update()
            else:
                bar.loss(loss_of(logits, held_out[1]))

        hook = model.register_forward_hook(look)
        losses = train_loop(model, batches, held_out, 6e-3, 20, every)
        hook.remove()
    return losses.tolist()


# %% [markdown]
# Three bugs in such a loop are silent. A loss that isn't shifted looks like a great success. A model left in evaluation
# mode goes on training, without dropout. And where padding counts as a target, the loss looks wonderful because much of
# the batch is padding. You catch the first and the last with what you know in advance: the loss starts near $\ln V$,
# and it can't end below a certain floor.
#
# ## Overfit one batch · more
#
# That floor gives the second cheapest test: train on *one* small batch until the model knows it by heart. A model with
# a hundred thousand weights must manage eight lines. If it can't, something is broken, and no amount of data will fix
# it.
#
# ### Predict, then run: how low does the loss go? ({points}, difficulty 2, 3 minutes)
#
# Eight lines, the same in every step, each with a line break before and after it. Where does the loss go?
#
# - **A**: to 0, since the model has plenty of weights
# - **B**: it stays near 3.6, since eight lines are too few to learn from
# - **C**: to a number above 0 that can be computed, since nothing says which line comes next
# - **D**: down to some number above 0 that can't be known, because there is noise in all data

# %%
### BEGIN SOLUTION
overfitted = "C"
### BEGIN STUB
# overfitted = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_overfitted", overfitted)


# %%
def lowest_loss(texts: list[str]) -> float:
    """The loss of a reader who knows these texts by heart: the entropy of what follows
    each beginning."""
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
eight = train_lines[:, :8]
losses = fit(model, eight.expand(120, -1, -1, -1), eight, every=20)
floor = lowest_loss([f"\n{line}\n" for line in colours[:8]])
print("loss:", [round(loss, 3) for loss in losses])
print(f"computed beforehand: {floor:.3f}")
assert 0.05 < floor < losses[-1] < floor + 0.02

# %% [markdown]
# All eight begin with the same line break and the same `#`. Which digit comes next is a matter of chance, and knowing
# the lines by heart doesn't help. Once it's clear which line it is, the rest costs nothing. So even in the best case 0
# isn't the loss to aim for, and here we know the right target to three digits.
#
# ## Roll the dice: temperature, top-k, top-p · more
#
# The model gives probabilities. To write, you have to choose. Three numbers say how, and most programs that run a model
# let you set them. By hand, for three characters with the logits 2, 1 and 0:
#
# | | $e^{\text{logit}/T}$ | probabilities |
# |---|---|---|
# | temperature $T = 1$ | 7.39, 2.72, 1 | 0.665, 0.245, 0.090 |
# | $T = 2$, more even | 2.72, 1.65, 1 | 0.506, 0.307, 0.186 |
# | $T = \frac12$, sharper | 54.6, 7.39, 1 | 0.867, 0.117, 0.016 |
#
# As $T$ goes to 0, the largest logit gets everything. So temperature 0 is *defined* as taking the largest one.
#
# Even at a modest temperature, thousands of unlikely tokens with a little probability each add up: sooner or later one
# of them is drawn, and the text goes off the rails. So it's usual to cut off the tail. For probabilities 0.5, 0.2,
# 0.15, 0.1, 0.05:
#
# - **top-k** keeps the best $k$. For $k = 2$ those are 0.5 and 0.2; divided by their sum, 0.714 and 0.286.
# - **top-p**, the *nucleus*, keeps as many as it takes to reach $p$. For $p = 0.8$ the running sum is 0.5, 0.7, 0.85,
#   so it takes three. Divided by their sum, they are 0.588, 0.235, 0.176. Where the model is sure, one token may be
#   enough; where it isn't, hundreds stay.
#
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
# How can something random be checked? Your function draws 10,000 times, and a chi-square test compares the frequencies
# with the right probabilities. A correct function fails it once in a billion times. Only the frequencies are compared:
# your ids don't have to be those of `attnlib.sample_next`.


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
# ## Generate text · core
#
# Now the loop: ask the model about the text so far, draw one token, append it, ask again. `sample_next` draws:
# `temperature` says how boldly (0 takes the likeliest token, 1 follows the model, more is wilder), and `top_k` and
# `top_p` cut off the unlikely tokens. The rest is up to you. The model has `max_len` positions, and the text may become
# longer. A batch has several texts, and they don't all end at the same time. And a model that was being trained has
# dropout on.
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
# Without `stop_id` it's four lines in a loop: the window, the logits of the last position, a draw, and `torch.cat`.
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
# Remember `model.training` before you call `eval()`. At the end, `train(…)` takes a bool: the one you remembered.
#
# </details>

# %% [markdown]
# ## Train it on colours · core
#
# Train a new model, on 32 lines in each step, drawn from nine tenths of the list. Every 40 steps your loop records the
# loss on lines the model has never seen.

# %%
write = yours_or_ours("generate", globals())
model = new_model(len(letters), max_len=lines.shape[-1])
torch.manual_seed(seed)
batches = train_lines[:, torch.randint(0, kept, (440, 32))].transpose(0, 1)

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
learned = fit(model, batches, test_lines, every=40)
print("loss:", [round(loss, 2) for loss in learned])
keep_weights("colour_writer", model)
assert learned[-1] < 1.4

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
known = {line[5:] for line in colours}


def written(beginning: str, count: int, *options, start: int = seed) -> list[str]:
    """Lines the model writes after this beginning."""
    dice = torch.Generator().manual_seed(start)
    prompts = encode("\n" + beginning).expand(count, -1)
    texts = write(model, prompts, 32, *options, stop_id=0, generator=dice)
    return [decode(text).strip("\n") for text in texts]


for temperature in (0, 0.7, 1.0, 2.0):
    texts = written("", 8, temperature)
    print(f"temperature {temperature}:", " | ".join(texts))
    if temperature == 0:
        assert len(set(texts)) == 1

# %% [markdown]
# At a high temperature the model spells at random, and in between it makes up words you could almost believe. At 0 all
# eight lines are the same, since nothing is left to chance.
#
# It invents the colours as well as the names. Do they fit? Look for yourself.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
made_up = {}
for line in written("", 120, 0.7, start=seed + 1):
    code, _, name = line.partition(" ")
    if len(code) == 4 and name and name not in known and "#" not in name:
        made_up[name] = code
print(len(made_up), "of 120 names are new")
assert len(made_up) > 40

# %%
_, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
for i, (name, code) in enumerate(list(made_up.items())[:24]):
    x, y = i % 4, i // 4
    ax.add_patch(plt.Rectangle((x, -y), 0.22, 0.8, facecolor=code, edgecolor="0.6"))
    ax.text(x + 0.26, 0.4 - y, name, va="center", fontsize=9)
ax.set(
    xlim=(-0.02, 4), ylim=(-5.2, 0.9), title="New colour names, made up by the model"
)
ax.axis("off")
show(
    "24 squares of colour, each beside a name that the model made up for it. Most "
    "names that hold a real word, such as green or pink, stand beside a fitting colour."
)

# %% [markdown]
# **Your turn.** Choose a colour, with three of the digits 0, 3, 6, 9, c and f for red, green and blue, and let the
# model name it in six ways. Change `mine` and run the cell. Try `#f00`, `#fff`, one that's hard to name, and one with
# the beginning of a name. When is the model just spelling, and when does it use the colour?

# %%
# nbval-ignore-output: the last digits vary by machine, and the beginning is yours
mine = "#396 "

mine = usable_text(mine, letters[1:], longest=30)
for line in written(mine, 6, 0.7):
    print(line)

# %% [markdown]
# ## Be honest: compare with counting · core
#
# Is that a good loss? A number means nothing by itself. Here is the oldest rival: count how often each character
# follows the last one, the last two, the last five. (A run of $n$ characters is an *n-gram*.) Counting learns in a
# tenth of a second and has no weights at all.
#
# Counts alone give 0 to anything they have never seen, and $-\ln 0$ is infinite. So each order is mixed with the one
# below it. Witten and Bell do it like this, in letters of their own: $h$ is a context, the last $k$ characters (it has
# nothing to do with heads), and $h'$ is the last $k-1$:
#
# $$p_k(c \mid h) = \frac{C(hc) + T(h)\; p_{k-1}(c \mid h')}{C(h) + T(h)}$$
#
# $C(hc)$ is how often $c$ followed $h$, $C(h)$ how often anything did, and $T(h)$ *how many different* characters did.
# A context that goes on in many ways is likely to go on in yet another. By hand: `BA` was seen 3 times, followed twice
# by N and once by T. In the shorter context, N has $p = 0.1$. Then $p(N \mid BA) = (2 + 2 \cdot 0.1)/(3 + 2) = 0.44$.
#
# ### Stretch: Witten-Bell counts ({points}, difficulty 4, 40 minutes)
#
# Write `witten_bell(text, test, order, vocab)`. If you'd rather move on, the cells below use the course's version.
#
# - `text` `(n)` is counted, `test` `(m)` is scored: both hold ids below `vocab`.
# - The result is `(m - order + 1)`, float32: for each token of `test` from number `order - 1` on, its probability after
#   the `order - 1` tokens before it.
# - The chain begins with the uniform guess $1/\mathrm{vocab}$, which is mixed into the counts of single tokens (an
#   empty context), the result into the counts after one token, and so on, up to `order - 1` tokens.
# - A context that is not in `text` leaves the probability as it is. (A run of tokens counts as a context only if
#   something *follows* it in `text`.)


# %%
def witten_bell(text: Tensor, test: Tensor, order: int, vocab: int) -> Tensor:
    """Ids (n), ids (m) -> the probability of each token of the test from number order -
    1 on (m - order + 1)."""
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
three = torch.arange(3)
rival = yours_or_ours(
    "witten_bell",
    globals(),
    # Does it store only the contexts that occur? All would take 515 GB at order 7.
    asked=lambda rival: rival(three, three, 2, 5_000_000),
)
seen, judged = (
    encode("\n" + "\n".join(part) + "\n") for part in (colours[:kept], colours[kept:])
)
counting = {
    order: -rival(seen, judged, order, len(letters)).log().mean().item()
    for order in range(1, 8)
}
print("counting:", {order: round(loss, 2) for order, loss in counting.items()})
print(f"model: {learned[-1]:.2f}")
assert learned[-1] < counting[3] - 0.1
assert abs(learned[-1] - min(counting.values())) < 0.1
assert counting[4] < counting[5] < counting[6] < counting[7]

# %%
_, ax = plt.subplots(figsize=(8, 3.9), layout="constrained")
at = 0.0
for order, loss in sorted(counting.items(), key=lambda found: found[1]):
    at = max(loss, at + 0.14)  # some lines are close to one another
    ax.plot([0, 510, 522], [loss, loss, at], color=GREY, linewidth=1, clip_on=False)
    ax.text(526, at, f"{order}-grams", va="center", fontsize=8)
ax.plot(range(0, 441, 40), learned, color=ACCENT, marker=".")
ax.text(60, learned[2] + 0.5, "your model", color=ACCENT)
ax.set(
    xlim=(0, 510),
    ylim=(0.9, 3.9),
    xlabel="steps of training",
    ylabel="loss on unseen lines, nats per character",
)
ax.set_title("The model ends level with the best n-gram count")
show(
    "The loss of the model against steps falls from 3.5 to about 1.3. Grey lines are "
    "n-gram counts: it crosses those of 1, 2, 3, 7, 6 and 5 characters, in this order, "
    "and ends beside that of 4, the lowest."
)

# %% [markdown]
# **A draw.** After all that work the model is about level with counts of four characters in a row. With 13,000
# characters that's no surprise: a table stores all of them in a single pass, and gradient descent needs many passes to
# store as much. But look at the grey lines as well. Beyond 4 characters they get *worse*. Is it that more and more
# contexts were never seen? Go from 5-grams to 6-grams, and add up what the step costs, for three kinds of characters.

# %%
runs = {tuple(run) for run in seen.unfold(0, 6, 1).tolist()}
contexts = {run[:5] for run in runs}
shorter, longer = (rival(seen, judged, order, len(letters)) for order in (5, 6))
steps = (shorter[1:] / longer).log()  # nats that each character costs more
kinds = {"never seen": [], "seen before this": [], "seen, but not before this": []}
for run, step in zip(judged.unfold(0, 6, 1).tolist(), steps.tolist(), strict=True):
    known = "seen before this" if tuple(run) in runs else "seen, but not before this"
    kinds[known if tuple(run[:5]) in contexts else "never seen"].append(step)
for kind, found in kinds.items():
    share, cost = len(found) / len(steps), sum(found) / len(steps)
    print(f"context {kind:26} {share:.0%} of the characters, {cost:+.3f} nats")
never, before, without = (sum(found) for found in kinds.values())
assert never == 0 > before
assert without > -2 * before

# %% [markdown]
# No. A context that was never seen leaves the shorter answer as it is, and costs nothing. What costs are contexts that
# *were* seen, a few times, and never before the character that comes now. Counting takes a few cases for a rule.
#
# And does the model look at the colour? The colour comes first, so its digits soon leave a short context. Give both
# rivals the colours of the test, let them write the likeliest name, and ask whether its last word (*green*, *blue*,
# *pink* …) is right.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
common = Counter(line.split()[-1] for line in colours[:kept]).most_common(9)
common = [word for word, _ in common]
asked = [line for line in colours[kept:] if line.split()[-1] in common]


def last_word_by_counting(text: str, follows: dict, longest: int) -> str:
    """Append what followed most often, after as long a context as was seen."""
    while not text.endswith("\n") or len(text) < 6:
        contexts = (text[max(0, len(text) - k) :] for k in range(longest, -1, -1))
        text += next(follows[h] for h in contexts if h in follows).most_common(1)[0][0]
        if len(text) > 40:
            break
    return (text.split() or [""])[-1]


right = {}
for reach in (3, 5, 8, 12):
    follows = defaultdict(Counter)
    for line in colours[:kept]:
        text = f"\n{line}\n"
        for i in range(1, len(text)):
            for k in range(min(i, reach) + 1):
                follows[text[i - k : i]][text[i]] += 1
    right[f"counting {reach} back"] = [
        last_word_by_counting(f"\n{line[:5]}", follows, reach) == line.split()[-1]
        for line in asked
    ]
prompts = torch.stack([encode("\n" + line[:5]) for line in asked])
named = [decode(text).split()[-1] for text in write(model, prompts, 27, 0, stop_id=0)]
right["your model"] = [
    word == line.split()[-1] for word, line in zip(named, asked, strict=True)
]
always = sum(line.endswith(common[0]) for line in asked)
for name, hits in right.items():
    print(f"{name:16} {sum(hits)} of {len(asked)} last words")
print(f"always {common[0]:9} {always} of {len(asked)}")
assert sum(right["your model"]) > sum(right["counting 3 back"]) + 5
assert sum(right["your model"]) > always
assert sum(right["counting 3 back"]) < always
for reach in (5, 8, 12):
    assert sum(right[f"counting {reach} back"]) > 2 * sum(right["counting 3 back"])

# %% [markdown]
# So it does: the model is right more than half the time, far more often than if it always said *green*. Counting with
# three characters in view has lost the colour, and does worse than always saying *green*. With a longer reach it's
# right far more often, and at twelve characters it nearly catches up. On lines this short, a table can keep up with a
# transformer. We need a text on which it can't.
#
# ## Compare losses across tokenisers · more
#
# Can you compare this loss with that of GPT-2? Not as it is. Its tokens are pieces of words, about four characters
# long. Guessing a whole piece is harder than guessing a character, so its loss *per token* is higher, though it may
# know more. What you can compare is the cost of the same text: add up the nats of all its tokens, and divide by the
# number of characters. In bits, that's what a compressor would need per character.
#
# By hand: 3 tokens with a mean loss of 2.0 nats cover 12 characters. That makes 6 nats in all, 0.5 nats per character,
# and $0.5/\ln 2 = 0.72$ bits.
#
# ### Predict, then run: which model is better? ({points}, difficulty 2, 4 minutes)
#
# One model predicts characters, with a loss of 1.3 nats each. Another predicts tokens of four characters on average,
# with a loss of 3.2 nats each. Which would compress the same text into fewer bits?
#
# - **A**: the first
# - **B**: the second
# - **C**: neither, they're equal
# - **D**: nobody can say

# %%
### BEGIN SOLUTION
fewer_bits = "B"
### BEGIN STUB
# fewer_bits = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_bits", fewer_bits)

# %%
# bits per character
first_model, second_model = 1.3 / math.log(2), 3.2 / 4 / math.log(2)
print(f"{first_model:.2f} and {second_model:.2f} bits per character")
assert second_model < first_model

# %% [markdown]
# ## Find what counting cannot do · core
#
# So what is attention for? Give both rivals a text in which the answer is there to be read, but out of reach of short
# runs, and never the same twice: lesson 04's dates.
#
# ```text
#  Sunday, 20 July 1969=1969-07-20
# ```
#
# Up to the equals sign anything may come. After it, everything is determined. Lesson 04 built an encoder, a decoder and
# cross-attention between them for this. Here it's the same `LanguageModel` as for the colours: the question is the
# beginning of a text, and the answer is how it goes on.
#
# Two details. The targets before the equals sign are −100, so no effort goes into guessing weekdays. And the lines are
# padded *in front*. Then all prompts of a batch end at the same position, which `generate` needs to write their next
# characters together.

# %%
draws = random.Random(seed)
first_day, last_day = date(1000, 1, 1).toordinal(), date(2999, 12, 31).toordinal()
days = [date.fromordinal(n) for n in draws.sample(range(first_day, last_day), 20_000)]


def date_line(day: date) -> str:
    """A question, an equals sign, and the answer: 42 characters."""
    return f"{day:%A}, {day.day} {day:%B} {day.year}={day.isoformat()}\n".rjust(42)


texts = [date_line(day) for day in days]
signs = sorted(set("".join(texts[:2000])))
sign_number = {sign: i for i, sign in enumerate(signs)}
dates = torch.tensor([[sign_number[sign] for sign in text] for text in texts])
train_dates, test_dates = dates[:19_700], dates[19_700:]
assert not {*days[:19_700]} & {*days[19_700:]}
answer = 42 - len("1969-07-20\n")
assert (dates[:, answer - 1] == sign_number["="]).all()
print(date_line(date(1969, 7, 20)), end="")

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
to_learn = torch.stack([dates, dates])  # ids and targets
to_learn[1, :, :answer] = -100
dater = new_model(len(signs), max_len=42)
torch.manual_seed(seed)
drawn = to_learn[:, torch.randint(0, 19_700, (360, 48))].transpose(0, 1)
fit(dater, drawn, to_learn[:, 19_700:], every=360)
prompts = test_dates[:, :answer]
exact = (write(dater, prompts, 11, 0) == test_dates).all(dim=1).float().mean().item()
print(f"{exact:.1%} of {len(test_dates)} unseen dates are right to the last character")
assert exact > 0.97

# %% [markdown]
# Now the rival. It appends whatever followed most often after the last 5 characters (or 17, or 30). Where those were
# never seen, it falls back on fewer.


# %%
def by_counting(reach: int) -> list[str]:
    """The test's questions, answered character by character."""
    written = [text[:answer] for text in texts[19_700:]]
    for i in range(answer, 42):
        best: list[str] = [""] * len(written)
        for k in range(reach + 1):
            found = {text[i - k :]: Counter() for text in written}
            for text in texts[:19_700]:
                if (h := text[i - k : i]) in found:
                    found[h][text[i]] += 1
            for row, text in enumerate(written):
                if found[text[i - k :]]:
                    best[row] = found[text[i - k :]].most_common(1)[0][0]
        written = [text + new for text, new in zip(written, best, strict=True)]
    return written


counted = {}
for reach in (5, 17, 30):
    answers = by_counting(reach)
    counted[reach] = [
        sum(a[i] == b[i] for a, b in zip(answers, texts[19_700:], strict=True)) / 300
        for i in range(answer, 41)
    ]
    whole = sum(a == b for a, b in zip(answers, texts[19_700:], strict=True)) / 300
    print(f"reach {reach:2}: {whole:.0%} exact;", [f"{p:.2f}" for p in counted[reach]])
    assert whole < 0.04

# %%
assert min(counted[5][:4]) > 0.9  # the year
month, tens, units = 6, 8, 9  # the month's second digit, and the day's two
assert counted[5][month] < 0.3 < 0.4 < counted[17][month]
assert counted[30][month] < exact - 0.3
assert max(counted[reach][units] for reach in counted) < 0.3

# %% [markdown]
# The tables are turned. With five characters in view, counting can still copy the year. But at the month it has `1969-`
# before it, and nothing in that says *July*. A longer reach does help there: many a month has been seen with the same
# year, and about half of the months come out right. The *day* stays a matter of luck, even with thirty characters in
# view. A context long enough to hold the day holds the whole date, and no date comes twice. The model has learned a
# *rule* instead, and applies it to dates it never saw. A model that guesses characters has become lesson 04's
# translator, without an encoder and without cross-attention.
#
# ## See where it looks · more
#
# Where does it look while it writes `1969`? In lesson 04 the answer was four cells. Here there are two layers of four
# heads. For each head, over all test dates, how much of the attention goes to the very digit that is written next?

# %%
year = slice(answer - 5, answer - 1)  # where the year stands in the question


def looks_of(model: nn.Module, ids: Tensor) -> Tensor:
    """The weights (layer, b, h, n, n), computed from what each block's attention is
    given."""
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
assert cells.max() > 0.5  # evenly spread, it would be about 1/32

# %%
text = date_line(date(1969, 7, 20)).rstrip("\n")
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
    "the first row most of the weight, and in the next three nearly all of it, is on "
    "the four digits of the year in the question, one after the other."
)
assert table[range(4), range(answer - 5, answer - 1)].mean() > 0.5

# %% [markdown]
# The same four cells as in lesson 04, found by a model that has no separate text to attend to. But you know by now not
# to trust a picture. Here is the test from lesson 04: change the character it looks at, and see whether the answer
# changes at that character and nowhere else.

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
# The fourth digit changes with it, and the rest stays the same. All of this is one model for each task, from one random
# start; `python -m benchmarks.other_seeds 08_language_model` repeats the lesson, with all of its assertions, from three
# others.
#
# ## Load the weights of GPT-2 · stretch
#
# Your model has the layout of GPT-2. The small one has 12 layers, 12 heads, 768 columns and 50,257 tokens. Its
# published file is half a gigabyte, so here is one with the same names and random numbers, 64 columns wide. If you have
# the real one (`gpt2` of `transformers`), the same line loads it: `attnlib.from_gpt2(state_dict)`.
#
# Four things are not what you'd expect.
#
# 1. Its `Conv1D` layers keep their weights as (in, out), the transpose of `nn.Linear`.
# 2. Queries, keys and values are one matrix, `c_attn`, packed as (3 h d): first all queries, then all keys.
# 3. Its GELU is the approximation by tanh.
# 4. There is no head in the file; it's tied to the embedding.
#
# Which of them would you notice if you forgot it? Forget each in turn and see.

# %%
torch.manual_seed(seed)
shapes = {"ln_1": (64,), "attn.c_attn": (64, 192), "attn.c_proj": (64, 64)}
shapes |= {"ln_2": (64,), "mlp.c_fc": (64, 256), "mlp.c_proj": (256, 64)}
file = {"wte.weight": torch.randn(50, 64) / 8, "wpe.weight": torch.randn(16, 64) / 8}
for name, shape in {f"h.0.{name}": shape for name, shape in shapes.items()}.items():
    file[f"{name}.weight"] = torch.randn(shape) / 8
    file[f"{name}.bias"] = torch.randn(shape[-1]) / 8
file |= {"ln_f.weight": torch.ones(64), "ln_f.bias": torch.zeros(64)}
gpt2 = attnlib.from_gpt2(file, num_heads=4).eval()
right, ids = gpt2.state_dict(), torch.arange(16)[None]
logits = gpt2(ids).detach()


def overlooked(changed: dict[str, Tensor], **options: str) -> str:
    """Load other weights into the same layout: the error, or by how much the logits are
    off."""
    made = attnlib.LanguageModel(50, 64, 4, 1, 16, **options).eval()
    try:
        made.load_state_dict(changed)
    except RuntimeError as error:
        return f"error: {str(error).splitlines()[1].strip()[:50]}…"
    return f"no error, and logits off by {(made(ids) - logits).abs().max().item():.4f}"


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
block = "blocks.layers.0."
untied = {name: weight for name, weight in right.items() if name != "head.weight"}
turned = {"c_proj of attention": "attn.w_o", "c_fc": "mlp.up", "c_proj": "mlp.down"}
found = {
    f"1. {theirs} not turned": overlooked(
        right | {f"{block}{ours}.weight": right[f"{block}{ours}.weight"].T},
        activation="gelu_tanh",
    )
    for theirs, ours in turned.items()
}
packed = file["h.0.attn.c_attn.weight"].T.unflatten(0, (4, 3, 16)).transpose(0, 1)
names = [f"{block}attn.{name}.weight" for name in ("w_q", "w_k", "w_v")]
torn = dict(zip(names, packed.flatten(1, 2), strict=True))
found["2. packed as (h 3 d)"] = overlooked(right | torn, activation="gelu_tanh")
found["3. the exact GELU"] = overlooked(right, activation="gelu")
found["4. no head"] = overlooked(untied, activation="gelu_tanh")
for name, what in found.items():
    print(f"{name:33} {what}")
silent = [name[:1] for name, what in found.items() if what.startswith("no error")]
assert silent == ["1", "2", "3"]

# %% [markdown]
# A matrix that isn't square and a missing head raise an error. The square matrix, the wrong packing and the wrong GELU
# don't. Of these, the GELU is the quietest: the first digits of the logits look right. So there's only one safe test:
# compare logits with a program you trust, as closely as rounding allows. `attnlib/gpt2.py` is one page, and its test
# does that.
#
# ## Take this with you · core
#
# **Logits at i are for the token at i + 1; everything else in a language model is lesson 06.**
#
# You can now say what a loss should be before the first step, and how low it can get, and use both to find bugs. You
# can build a language model, train it, draw from it, and put it beside the simplest rival.
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
# - When a model is trained to follow instructions, the loss usually counts only after the question, as yours did with
#   −100.
#
# ## Think further · more
#
# 1. Find a distribution over two-character texts in which taking the likeliest character twice doesn't give the
#    likeliest text.
# 2. `top_p=1.0` and `top_k=vocab` do nothing. Why does almost everybody who serves models set one of them lower,
#    although it makes the model's distribution wrong?
# 3. How low could the loss on the *training* lines get, for a model that knows all of them by heart?
# 4. Why can the dates be learned with the loss only after the equals sign, while the colours need it everywhere?
#
# <details><summary>Answers</summary>
#
# 1. First character: A 0.6, B 0.4. After A three are equally likely, 1/3 each; after B one is certain. The greedy text
#    begins with A and has 0.2; the one with B has 0.4.
# 2. The loss punishes a probability of 0 without limit, so a trained model gives a little to everything. Each such
#    token is unlikely, but all of them together aren't, and after one of them the model has to go on from a text unlike
#    anything it ever saw.
# 3. Run `lowest_loss([f"\n{line}\n" for line in colours[:kept]])`. The colour is a matter of chance, and so is which of
#    its names comes. A training loss below that number would be a bug.
# 4. In a line of the list every character is both a question and an answer, and there's nothing else to learn from. In
#    a date the characters of the question can't be predicted, apart from the spelling of July, and the answer doesn't
#    need them. Most of the loss would be about the question, so it would hardly show whether the answer is learned.
#    (It's still learned: in three runs of ours with all targets, as many answers were right as without.)
#
# </details>
#
# ## Read on · more
#
# - [Radford et al.
#   2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf), GPT-2:
#   section 2 is this lesson's model, and the rest is what becomes of it when it's large.
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
# Lesson 09 runs this very model, whose weights have been kept on disk.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/08_language_model.ipynb`.*
