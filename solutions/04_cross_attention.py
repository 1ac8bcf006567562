# %% [markdown]
# # 04 · Cross-attention: ask another text
#
# So far a sentence asked itself. Now one text asks and another one answers: a translation asks the original, a caption
# asks a picture, a date in standard form asks the date as somebody wrote it. You will train that last one, and see in a
# picture where each of its characters came from.
#
# | | |
# | --- | --- |
# | **You will build** | `cross_attention`, `MultiHeadCrossAttention`, and a network that reads dates in any spelling |
# | **You will understand** | who asks and who answers, which of them sets which size, how far to trust a picture |
# | **You need** | lesson 02; for the second exercise `split_heads` from lesson 03 helps; about 80 minutes |
#
# The cells between the exercises use `attnlib`, never your answers. A failed check stops *Run All*, but nothing further
# down depends on it: go on with the next cell.

# %%
import calendar
import math
import random
import sys
from datetime import date

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close
from tqdm import tqdm

import attnlib
from attnlib.checks import check
from attnlib.plot import plot_attention

# %% [markdown]
# ## Let three German words ask eleven English ones
#
# *The animal did not cross the street because it was tired.* You are writing the German translation, and you have come
# to *Tier*, *überquerte* and *Straße*. For each of them you look back at the English text: which word is this one?
#
# That glance is cross-attention. It is the older of the two: it was invented for translation in 2014 ([Bahdanau, Cho
# and Bengio](https://arxiv.org/abs/1409.0473)), so that the translator no longer had to keep the whole sentence in one
# state. A text that asks *itself* came later. Two texts now have two names:
#
# | | asks: $x$ | answers: the *memory* $m$ |
# | --- | --- | --- |
# | gives | queries, $q = x W^Q$ | keys $k = m W^K$ and values $v = m W^V$ |
# | has this many positions | 3, the axis `q` | 11, the axis `k` |
# | each of this width | $d_{model} = 3$ | $d_{memory} = 7$ |
#
# The English side is lesson 02's, number by number: seven features, and the same $W^K$ and $W^V$. The three German
# words have three features of their own.

# %%
sentence = "The animal did not cross the street because it was tired"
english, german = sentence.lower().split(), ["Tier", "überquerte", "Straße"]
features = ["thing", "alive", "place", "action", "article", "pronoun", "state"]
meaning = {
    "the": "article", "animal": "thing alive", "street": "thing place",
    "cross": "action", "it": "pronoun", "tired": "state",
}  # fmt: skip
offers = [meaning.get(word, "").split() for word in english]
memory = torch.tensor([[float(f in offered) for f in features] for offered in offers])
x = torch.eye(3)  # Tier: a being, überquerte: a deed, Straße: a place

#                     looks for: thing alive place action
w_q = torch.tensor([[2.0, 2, 0, 0], [0, 0, 0, 4], [2, 0, 2, 0]])
w_k, w_v = torch.zeros(7, 4), torch.zeros(7, 2)
w_k[:4] = 2 * torch.eye(4)  # thing, alive, place and action are offered as they are
w_v[features.index("alive")] = torch.tensor([4.0, 0.0])  # legs
w_v[features.index("place")] = torch.tensor([0.0, 2.0])  # lanes

# %% [markdown]
# One row with a pencil. *überquerte* (crossed) is a deed, so its query is $(0, 0, 0, 4)$. The key of *cross* is
# $(0, 0, 0, 2)$: their dot product is 8, and $8/\sqrt4 = 4$. The ten other English words score 0. So *cross* gets
#
# $$\frac{e^4}{e^4 + 10 e^0} = \frac{54.60}{64.60} \approx 0.845$$
#
# ### Predict, then run: who sets the length ({points}, 2 minutes)
#
# $x$ is $(3, 3)$, the memory is $(11, 7)$, a value has two numbers (legs, lanes). Which shapes have the output and the
# weights?
#
# - **A**: output $(11, 2)$, weights $(11, 3)$
# - **B**: output $(3, 2)$, weights $(3, 11)$
# - **C**: output $(3, 3)$, weights $(3, 11)$
# - **D**: output $(3, 2)$, weights $(3, 3)$

# %%
### BEGIN SOLUTION
shapes = "B"
### BEGIN STUB
# shapes = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_who_sets_the_length", shapes)

# %% [markdown]
# First as slowly as possible: one asker after the other, one English word after the other.


# %%
def ask_one_by_one(
    x: Tensor,
    memory: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
) -> tuple[Tensor, Tensor]:
    """x (q, d_model), memory (k, d_memory) -> output (q, d_v), weights (q, k), by loop."""
    outputs, rows = [], []
    for asker in x:
        query = asker @ w_q
        scores = [float(query @ (word @ w_k)) / math.sqrt(len(query)) for word in memory]
        total = sum(math.exp(score) for score in scores)
        rows.append(torch.tensor([math.exp(score) / total for score in scores]))
        mixed = [weight * (word @ w_v) for weight, word in zip(rows[-1], memory, strict=True)]
        outputs.append(sum(mixed))
    return torch.stack(outputs), torch.stack(rows)


slow_output, slow_weights = ask_one_by_one(x, memory, w_q, w_k, w_v)
assert slow_output.shape == (3, 2)
assert slow_weights.shape == (3, 11)
assert_close(slow_weights[1, 4].item(), math.exp(4) / (math.exp(4) + 10), atol=1e-6, rtol=0)

# %%
ax = plot_attention(slow_weights, german, english, colorbar=False)
ax.set(ylabel="asks", xlabel="answers", title="Three ask, eleven answer: a row for each asker")
plt.show()
assert [english[j] for j in slow_weights.argmax(dim=-1)] == ["animal", "cross", "street"]
assert_close(slow_weights.sum(dim=-1), torch.ones(3), atol=1e-6, rtol=0)

# %% [markdown]
# The table is no longer square, and nobody stands on a diagonal: *Tier* cannot look at itself, because it is not in the
# memory. The rows still add up to 1. Read off the two rules, because everything else in this lesson follows from them:
#
# - **Who asks sets the length of the output.** Three questions, three answers.
# - **Who answers is summed away.** The memory may be 11 words long or 11,000. Its length shows in the weights, and
#   nowhere else.
#
# A translator has a part that reads, the *encoder*, and a part that writes, the *decoder*. The decoder asks, the
# encoder's output is the memory. It is easy to get this the wrong way round: a survey of language models with thousands
# of readers [had the encoder ask](https://github.com/humza909/LLM_Survey/issues/2), until a reader wrote in.
#
# ## Ask all questions at once
#
# The formula is lesson 02's. Only the letters behind $q$, $k$ and $v$ have changed:
#
# $$\mathrm{CrossAttention}(x, m) = \mathrm{softmax}\left(\frac{(x W^Q)(m W^K)^\top}{\sqrt{d_k}}\right) m W^V$$
#
# ### Exercise: let one text ask another ({points}, 10 minutes)
#
# Write `cross_attention(x, memory, w_q, w_k, w_v)`, which returns the output and the weights.
#
# - `x` is `(b, q, d_model)`, `memory` is `(b, k, d_memory)`.
# - `w_q` is `(d_model, d_k)`, `w_k` is `(d_memory, d_k)`, `w_v` is `(d_memory, d_v)`.
# - The output is `(b, q, d_v)`, the weights are `(b, q, k)`.
# - The points: {parts}. Robust means float64, memory that is not contiguous, other devices, and inputs left alone.
# - Not allowed: `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `attnlib`'s attention. `torch.softmax` is
#   fine.


# %%
def cross_attention(
    x: Tensor,
    memory: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
) -> tuple[Tensor, Tensor]:
    """(b, q, d_model), (b, k, d_memory), matrices -> output (b, q, d_v), weights (b, q, k)."""
    ### BEGIN SOLUTION
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    shares = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)
    return shares @ v, shares
    ### END SOLUTION


# %%
check("cross_attention", cross_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It has three lines, and two of them you wrote in lesson 02. New is only the line that makes `q`, `k` and `v`. Which of
# the three matrices has `d_model` rows, and which have `d_memory` rows?
#
# </details>
# <details><summary>Hint 2</summary>
#
# A key and its value describe the same position. A query describes a position of the text that wants to know something.
# With different widths a mix-up crashes. With equal widths it does not, so do not let the shapes decide: decide
# yourself.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Queries from `x`, keys and values from `memory`. Scores: `q` times `k` with its last two axes swapped, over the root
# of $d_k$. Softmax over the last axis, the memory's positions. Then the weights times `v`.
#
# </details>

# %% [markdown]
# One product for all askers gives what the loop gave. And where both texts are the same one, it *is* self-attention:
# you have not learned a second mechanism, you have seen the first in full.

# %%
output, weights = attnlib.cross_attention(x[None], memory[None], w_q, w_k, w_v)  # a batch of one
assert_close(output[0], slow_output, atol=1e-6, rtol=0)
assert_close(weights[0], slow_weights, atol=1e-6, rtol=0)

generator = torch.Generator().manual_seed(1)
text = torch.randn(2, 5, 7, generator=generator)
random_w_q, random_w_k, random_w_v = (torch.randn(7, d, generator=generator) for d in (3, 3, 11))
self_attention = attnlib.SelfAttention(7, 3, 11)
layers = {"w_q": random_w_q, "w_k": random_w_k, "w_v": random_w_v}
self_attention.load_state_dict({f"{name}.weight": w.T for name, w in layers.items()})
asks_itself, _ = attnlib.cross_attention(text, text, random_w_q, random_w_k, random_w_v)
assert_close(asks_itself, self_attention(text), atol=1e-5, rtol=0)

# %% [markdown]
# ## Shuffle those who answer
#
# In lesson 02 you shuffled a sentence, and the outputs of self-attention were shuffled with it. There, the same words
# asked and answered. Now you can shuffle one side alone.
#
# ### Predict, then run: a shuffled memory ({points}, 3 minutes)
#
# The eleven English words come in another order, *animal* now in column 9. The three German words stay as they are.
# What happens?
#
# - **A**: the rows of the output change places, as in lesson 02
# - **B**: output and weights both change: another order is another text
# - **C**: the output does not change at all; the columns of the weights change places, as the words did
# - **D**: neither the output nor the weights change

# %%
### BEGIN SOLUTION
shuffled_memory = "C"
### BEGIN STUB
# shuffled_memory = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_shuffled_memory", shuffled_memory)

# %%
order = [7, 3, 10, 0, 9, 6, 2, 4, 8, 1, 5]
mixed_output, mixed_weights = attnlib.cross_attention(x[None], memory[None, order], w_q, w_k, w_v)
assert_close(mixed_output, output, atol=1e-6, rtol=0)  # nothing moved
assert_close(mixed_weights, weights[:, :, order], atol=1e-6, rtol=0)  # columns move with words

swapped_output, _ = attnlib.cross_attention(x[None, [2, 1, 0]], memory[None], w_q, w_k, w_v)
assert_close(swapped_output, output[:, [2, 1, 0]], atol=1e-6, rtol=0)  # rows move with askers
numbers = [round(number, 2) for number in mixed_output[0, 0].tolist()]
print(" ".join(english[i] for i in order), "->", numbers)

# %% [markdown]
# To those who ask, the memory is a *set*. That is a strength: the memory may be a text, or the patches of a picture, or
# a heap of search results, and no order has to be made up. It is also a weakness: if the order matters, the vectors of
# the memory must say so themselves. Remember this for the dates below.
#
# ## Ask several questions at a time
#
# One asker may want to know more than one thing, so each gets several heads, as in lesson 03: the columns of $q$, $k$
# and $v$ are cut into $h$ runs of $d$ columns, each run attends on its own, and $W^O$ mixes what they found. Nothing
# about it is new, except that the two texts have lengths and widths of their own:
#
# $$\mathrm{head}_i = \mathrm{CrossAttention}_i(x, m), \qquad
# \mathrm{MultiHead}(x, m) = \mathrm{Concat}(\mathrm{head}_0, \dots, \mathrm{head} _{h-1}) W^O$$
#
# ### Exercise: several heads, two texts ({points}, 15 minutes)
#
# Write `MultiHeadCrossAttention(d_model, d_memory, num_heads, d_head=None, bias=True)` with `forward(x, memory)`.
#
# - Four `nn.Linear` layers, `w_q`, `w_k`, `w_v` (to $h \cdot d$ columns) and `w_o` (from $h \cdot d$ to `d_model`), all
#   with a bias if `bias`. No other parameters. The check sets their weights.
# - `d_head` is $d$. Where it is not given it is `d_model / num_heads`; where that does not divide, raise a
#   `ValueError`.
# - Head $i$ is the $i$-th run of $d$ neighbouring columns, the pattern `(h d)`.
# - `x` is `(b, q, d_model)`, `memory` is `(b, k, d_memory)`; the output is `(b, q, d_model)`, the weights are
#   `(b, h, q, k)`.
# - The points: {parts}. The options are `d_head` and `bias`. Not allowed: as above.


# %%
class MultiHeadCrossAttention(nn.Module):
    """(b, q, d_model), memory (b, k, d_memory) -> output (b, q, d_model), weights (b, h, q, k)."""

    def __init__(
        self,
        d_model: int,
        d_memory: int,
        num_heads: int,
        d_head: int | None = None,
        bias: bool = True,
    ):
        super().__init__()
        ### BEGIN SOLUTION
        if d_head is None:
            if d_model % num_heads:
                raise ValueError(f"{num_heads} heads do not divide a d_model of {d_model}")
            d_head = d_model // num_heads
        self.d_head = d_head
        self.w_q = nn.Linear(d_model, num_heads * d_head, bias=bias)
        self.w_k = nn.Linear(d_memory, num_heads * d_head, bias=bias)
        self.w_v = nn.Linear(d_memory, num_heads * d_head, bias=bias)
        self.w_o = nn.Linear(num_heads * d_head, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        projected = self.w_q(x), self.w_k(memory), self.w_v(memory)
        q, k, v = (y.unflatten(-1, (-1, self.d_head)).transpose(1, 2) for y in projected)  # (b, h, n, d)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.d_head), dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2)), weights
        ### END SOLUTION


# %%
check("MultiHeadCrossAttention", MultiHeadCrossAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Decide for each layer what goes in and what comes out. Two of them read `x` or go back to where `x` was; two read the
# memory.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `attnlib.split_heads(y, num_heads)` and `attnlib.merge_heads(y)` from lesson 03 are allowed here. If you cut with
# `view` or `reshape`, mind that `q` has the length of `x`, but `k` and `v` have the length of the memory.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Forward: project (`x`, `memory`, `memory`); split each into heads, `(b, h, n, d)`; scores over $\sqrt{d}$, where $d$
# is the width of one head; softmax over the last axis; weights times values; merge the heads, `(b, q, h·d)`; `w_o`.
# Return the pair.
#
# </details>

# %% [markdown]
# Three ways to the same numbers: `attnlib`'s module, your first exercise once per head with that head's columns, and
# PyTorch's module with the same weights. PyTorch calls the width of the memory `kdim` and `vdim`.

# %%
generator = torch.Generator().manual_seed(2)
asks = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64)  # (b, q, d_model)
answers = torch.randn(2, 11, 7, generator=generator, dtype=torch.float64)  # (b, k, d_memory)
module = attnlib.MultiHeadAttention(12, 3, d_memory=7, bias=False).double()
output, weights = module(asks, answers, return_weights=True)

w_q, w_k, w_v = (layer.weight.T for layer in (module.w_q, module.w_k, module.w_v))
columns = [slice(0, 4), slice(4, 8), slice(8, 12)]
heads = [attnlib.cross_attention(asks, answers, w_q[:, c], w_k[:, c], w_v[:, c]) for c in columns]
joined = torch.cat([head for head, _ in heads], dim=-1)
assert_close(joined @ module.w_o.weight.T, output, atol=1e-12, rtol=0)
assert_close(torch.stack([table for _, table in heads], dim=1), weights, atol=1e-12, rtol=0)

theirs = nn.MultiheadAttention(12, 3, kdim=7, vdim=7, bias=False, batch_first=True).double()
names = {"q_proj_weight": module.w_q, "k_proj_weight": module.w_k, "v_proj_weight": module.w_v}
given = {name: layer.weight for name, layer in names.items()}
theirs.load_state_dict(given | {"out_proj.weight": module.w_o.weight})
torch_output, torch_weights = theirs(asks, answers, answers, average_attn_weights=False)
assert_close(torch_output, output, atol=1e-12, rtol=0)
assert_close(torch_weights, weights, atol=1e-12, rtol=0)
print(tuple(output.shape), tuple(weights.shape))

# %% [markdown]
# ## Collect dates as people write them
#
# Enough of numbers made by hand. *Sunday, 20 July 1969*, *July 20, 1969*, *20.7.1969* and *07/20/1969* are one day, and
# a database wants it as `1969-07-20`. Nobody will write the rules. A network shall learn them from examples, and
# Python's standard library makes as many as you like.


# %%
patterns = [
    "{D} {M} {Y}", "{M} {D}, {Y}", "{W}, {D} {M} {Y}", "{W:.3} {M:.3} {D} {Y}",
    "the {D}{th} of {M}, {Y}", "{D}.{N}.{Y}", "{N:0>2}/{D:0>2}/{Y}",
]  # fmt: skip


def parts(day: date) -> dict[str, str]:
    """What fills a pattern: day and its ending, month as word and as number, year, weekday."""
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    month, weekday = calendar.month_name[day.month], calendar.day_name[day.weekday()]
    numbers = {"D": str(day.day), "N": str(day.month), "Y": str(day.year)}
    return numbers | {"th": ending, "M": month, "W": weekday}


chance = random.Random(4)
all_days = range(date(1000, 1, 1).toordinal(), date(3000, 1, 1).toordinal())
days = [date.fromordinal(number) for number in chance.sample(all_days, 21_000)]  # no day twice
used = [chance.choice(patterns) for _ in days]
texts = [pattern.format(**parts(day)) for pattern, day in zip(used, days, strict=True)]
for text, day in list(zip(texts, days, strict=True))[:6]:
    print(f"{text:34}{day.isoformat()}")

# %% [markdown]
# The first 20,000 are for learning, the last 1,000 for the test: days that the network has never seen, in any spelling.
# The years go from 1000 to 2999, so that no digit can be guessed from another.
#
# A network eats numbers, so each character becomes one. Texts of one batch must be equally long, so the short ones are
# filled up with 0, the *padding*. There is nothing there to read, and nothing there may answer.


# %%
alphabet = ["", *sorted(set("".join(texts)))]  # number 0 is no character
number_of = {character: number for number, character in enumerate(alphabet)}
digits = "0123456789-"


def encode(texts: list[str]) -> Tensor:
    """Texts -> (b, k): the number of each character, and 0 where the text has already ended."""
    longest = max(map(len, texts))
    padded = [[number_of[c] for c in text] + [0] * (longest - len(text)) for text in texts]
    return torch.tensor(padded)


def decode(logits: Tensor) -> list[str]:
    """(b, 10, 11) -> the most likely character at each of the ten places."""
    return ["".join(digits[i] for i in row) for row in logits.argmax(dim=-1)]


sources = encode(texts)
targets = torch.tensor([[digits.index(c) for c in day.isoformat()] for day in days])
print(tuple(sources.shape), tuple(targets.shape), f"{len(alphabet)} characters")

# %% [markdown]
# ## Build a reader that can only ask
#
# Who asks? The ten places of the ISO date. Each has one question, and it is always the same: *what is the last digit of
# the year?*, *what is the second digit of the month?* So $x$ is ten vectors that are learned, a plain parameter. (A
# translator would take the words it has written so far. That needs the next lesson. Learned questions are in use, too:
# models that find the objects in a picture [ask it a hundred](https://arxiv.org/abs/2005.12872).)
#
# Who answers? The characters. But a bare *9* does not know whether it belongs to a day or to a year. So before it
# answers, each character hears its two neighbours on either side, and no more: `nn.Conv1d` with a window of 5, and a
# bend (GELU, which lesson 06 explains). There is no other way from one end of the text to the other. Whatever an output
# place needs, it must fetch itself, and you will be able to see it fetch. What it fetched is added to its question, so
# that the last layers know which place they answer for.


# %%
class DateReader(nn.Module):
    """Characters (b, k) -> logits (scores before a softmax) (b, 10, 11), weights (b, 10, k)."""

    def __init__(self, d_model: int = 48, d_memory: int = 64):
        super().__init__()
        self.character = nn.Embedding(len(alphabet), d_memory, padding_idx=0)
        self.neighbours = nn.Conv1d(d_memory, d_memory, kernel_size=5, padding=2)
        self.questions = nn.Parameter(torch.randn(10, d_model))
        self.attn = attnlib.CrossAttention(d_model, d_memory, d_k=16, d_v=d_model)
        self.answer = nn.Sequential(nn.Linear(d_model, 128), nn.GELU(), nn.Linear(128, len(digits)))

    def read(self, ids: Tensor) -> Tensor:
        characters = self.character(ids)
        return characters + F.gelu(self.neighbours(characters.mT)).mT  # (b, k, d_memory)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.questions.expand(len(ids), -1, -1)
        may_answer = (ids > 0)[:, None, :]  # (b, 1, k): not the padding
        fetched, weights = self.attn(x, self.read(ids), mask=may_answer, return_weights=True)
        return self.answer(x + fetched), weights


# %% [markdown]
# The `mask` is True where an answer is allowed. Inside, a closed position gets the score $-\infty$, and
# $e^{-\infty} = 0$. More about masks in the next lesson.
#
# ## Train it, and train one that cannot ask
#
# To see what the questions are worth, train a twin whose $W^Q$ is zero and stays zero. Its queries are blank, and you
# know from lesson 02 what a blank query gets: equal weights, the plain average of all values. Then the whole text has
# to fit through one vector, as it had before 2014.


# %%
def train(model: DateReader, steps: int = 500) -> list[float]:
    """Fit the first 20,000 texts, 64 at a time, and return the loss of every step."""
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=5e-3, total_steps=steps)
    losses = []
    for _ in (bar := tqdm(range(steps), file=sys.stdout, ncols=80, mininterval=1)):
        batch = torch.randint(20_000, (64,))
        logits, _ = model(sources[batch])
        loss = F.cross_entropy(logits.flatten(0, 1), targets[batch].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
    return losses


# %% tags=["nbval-ignore-output"]
# nbval-ignore-output: a progress bar tells the time; the next cells assert what was learned
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
torch.manual_seed(0)
reader, blank = DateReader(), DateReader()
nn.init.zeros_(blank.attn.w_q.weight).requires_grad_(False)
reader_losses, blank_losses = train(reader), train(blank)

# %%
test_days, test_texts = days[20_000:], texts[20_000:]
with torch.no_grad():
    logits, test_weights = reader(sources[20_000:])
    blank_logits, _ = blank(sources[20_000:])


def exact(logits: Tensor) -> float:
    """The share of dates that are right in all ten characters."""
    hits = [got == day.isoformat() for got, day in zip(decode(logits), test_days, strict=True)]
    return sum(hits) / len(hits)


assert exact(logits) > 0.98
assert exact(blank_logits) < 0.5

# %%
_, ax = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for losses, colour, marker, name, rest in (
    (blank_losses, "#d55e00", "s", "blank queries", blank_logits),
    (reader_losses, "#08306b", "o", "ten questions", logits),
):
    smooth = torch.tensor(losses).reshape(-1, 10).mean(dim=-1)
    label = f"{name}: {exact(rest):.1%} of unseen dates right"
    ax.semilogy(range(5, 500, 10), smooth, color=colour, marker=marker, markevery=6, label=label)
ax.set(xlabel="step (64 dates each)", ylabel="cross-entropy", title="What the questions are worth")
ax.legend(loc="center right", bbox_to_anchor=(1, 0.6))
plt.show()

# %% [markdown]
# The twin has the same characters, the same neighbours, the same layers, the same number of steps. It only cannot ask,
# so the ten places all get the same average, and most of the text drowns in it. With ten questions the network reads
# all, or all but a handful, of a thousand dates that it has never seen, after a few seconds of training on one core.
#
# ## See where each character came from
#
# Rows are the ten places of the output, as the network filled them in. Columns are the characters that it was given.


# %%
def show(text: str, ax: plt.Axes) -> Tensor:
    """Draw who looked where while the text was read, and return the weights (10, k)."""
    with torch.no_grad():
        logits, weights = reader(encode([text]))
    plain = {"values": False, "vmax": 1, "colorbar": False}
    plot_attention(weights[0], list(decode(logits)[0]), list(text), ax=ax, **plain)
    ax.set(title=text, xlabel="", ylabel="")
    ax.tick_params(axis="x", rotation=0)
    for label in ax.get_xticklabels():
        label.set(ha="center", va="top")
    return weights[0]


# %%
ax = plt.figure(figsize=(5.2, 4.2), layout="constrained").gca()
short = show("20 July 1969", ax)
ax.set(ylabel="asks: the output", xlabel="answers: the text")
plt.show()
assert short[:4].argmax(dim=-1).tolist() == [8, 9, 10, 11]  # each digit of the year finds its own
assert short[9].argmax() == 1  # and the last digit of the day

# %% [markdown]
# Nobody told it what a year is. The four places of the year have found the four digits, in order; the day has found its
# digits at the other end of the text; the month has found the letters that tell *July* from *June* and from all others.
# And the two dashes look somewhere, because softmax has to hand out 1. They need no answer: a dash is a dash on every
# day.
#
# ### Predict, then run: a longer text ({points}, 3 minutes)
#
# Now put *Sunday,* in front. The last digit of the year was character 11 and is now character 19. The question for that
# place will still find it. What makes the attention move eight places to the right?
#
# - **A**: the query: it is computed from the new text, and points further to the right
# - **B**: the keys: the digit brought its key along, and the same query fits it at its new place
# - **C**: nothing: this question has learned to look at character 11, and will be wrong here
# - **D**: the mask: it opens eight more characters, and the weights move over

# %%
### BEGIN SOLUTION
longer_text = "B"
### BEGIN STUB
# longer_text = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_longer_source", longer_text)

# %%
spellings = ["Sunday, 20 July 1969", "the 20th of July, 1969", "20.7.1969", "07/20/1969"]
figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained", width_ratios=[1, 1])
tables = [show(text, ax) for text, ax in zip(spellings, axes.flat, strict=True)]
figure.supylabel("asks: the output")
figure.supxlabel("answers: the text")
plt.show()
assert [table[3].argmax().item() for table in tables] == [19, 21, 8, 9]

# %% [markdown]
# One day, written four ways, and the same ten questions: not one number on the asking side differs between these
# pictures. Only the keys have moved. For *Sunday,* you can hold them side by side. From the third character on, each
# one has the neighbours that it had before, and the very same key.

# %%
with torch.no_grad():
    key_of_short = reader.attn.w_k(reader.read(encode(["20 July 1969"])))[0]
    key_of_long = reader.attn.w_k(reader.read(encode(["Sunday, 20 July 1969"])))[0]
assert_close(key_of_long[10:], key_of_short[2:], atol=1e-5, rtol=0)

# %% [markdown]
# ## Check the picture before you believe it
#
# A picture of one date proves little: you may have picked a pretty one. Two checks. **First: is it always so?** For
# each character of a spelling we know what it tells: day, month, year, or nothing of use (the weekday, commas, *the* …
# *of*). So add up, over all thousand test dates, how much of each row fell on which.


# %%
def tells(pattern: str, day: date) -> str:
    """The text again, with D, M or Y in place of each character of day, month and year."""
    sign = {"D": "D", "M": "M", "N": "M", "Y": "Y"}
    signs = {name: sign.get(name, "·") * len(text) for name, text in parts(day).items()}
    return pattern.format(**signs)


assert tells(patterns[4], date(1969, 7, 20)) == "the DD·· of MMMM, YYYY"

share, own_digit = torch.zeros(10, 4), torch.zeros(4)
for pattern, day, weights in zip(used[20_000:], test_days, test_weights, strict=True):
    told = tells(pattern, day)
    for column, sign in enumerate("YMD"):
        places = [i for i, s in enumerate(told) if s == sign]
        share[:, column] += weights[:, places].sum(dim=-1) / 1000
    own_digit += (weights[:4].argmax(dim=-1) == torch.arange(4) + told.index("Y")) / 1000
share[:, 3] = 1 - share[:, :3].sum(dim=-1)

# %%
places = ["Y 1", "Y 2", "Y 3", "Y 4", "dash", "M 1", "M 2", "dash", "D 1", "D 2"]
ax = plot_attention(share, places, ["year", "month", "day", "the rest"], colorbar=False)
ax.set(ylabel="asks: place of the output", xlabel="answers: character of …")
ax.set_title("Mean of 1,000 unseen dates")
plt.show()
print("each digit of the year looks at its own digit:", [f"{s:.0%}" for s in own_digit.tolist()])
assert own_digit.min() > 0.9
assert share[:4, 0].min() > 0.85
assert min(share[6, 1], share[9, 2]) > 0.85

# %% [markdown]
# The year is as clean as it gets. So are the second digits of month and day. Their *first* digits are not, and that is
# worth a thought. In nine months of twelve the first digit is 0. Where nothing speaks for October, November or
# December, the answer is 0, wherever the row may have looked. (And the day?) A place that can guess has no need to
# look.
#
# **Second: does the picture show a cause?** Weights say where the network looked, not whether it mattered. So
# interfere. Replace the third digit of the year by another digit, in all thousand texts, and count which places of the
# output change.

# %%
changed = []
for text, pattern, day in zip(test_texts, used[20_000:], test_days, strict=True):
    place = tells(pattern, day).index("Y") + 2
    changed.append(text[:place] + str((int(text[place]) + 5) % 10) + text[place + 1 :])
with torch.no_grad():
    after, _ = reader(encode(changed))
moved = (after.argmax(dim=-1) != logits.argmax(dim=-1)).float().mean(dim=0)
print("share of outputs that changed, by place:", [round(m, 2) for m in moved.tolist()])
assert moved[2] > 0.98
assert moved[[0, 1, 3, 4, 5, 6, 7, 8, 9]].max() < 0.05

# %% [markdown]
# One character of the text changed, and one character of the output followed. Here the map tells the truth. It could,
# because each character knows only its neighbours. In a deep network the characters have long been mixed when somebody
# asks them, and a dark cell may mean little. Interfere before you believe.
#
# Last, the padding. A date must be read alike, alone or in a batch with longer ones. With the mask it is. Leave the
# mask out, and the empty places answer as well:

# %%
batch = encode(["20.7.1969", "Wednesday, 24 September 1969"])  # the first is padded by 19
with torch.no_grad():
    alone, _ = reader(batch[:1, :9])
    together, weights = reader(batch)
    unmasked = reader.attn(reader.questions[None], reader.read(batch)[:1], return_weights=True)[1]
assert_close(together[0], alone[0], atol=1e-4, rtol=0)
assert weights[0, :, 9:].max() == 0
assert unmasked[0, :, 9:].sum() > 1e-4
lost = unmasked[0, :, 9:].sum(dim=-1)
print(f"weight on the padding, without a mask: up to {lost.max():.2f} of a row")

# %% [markdown]
# ## Find the fault
#
# ### Mend: a decoder that never reads ({points}, 8 minutes)
#
# The function is the place in a translator where the German text asks the English one. It runs, its output has the
# right shape, and the loss falls. A well-read [explanation of the
# Transformer](https://github.com/keitakurita/Practical_NLP_in_PyTorch/issues/1) had exactly this in its code, under a
# sentence that said it right. Half of it, the mask, was also in [Keras's translation
# example](https://github.com/keras-team/keras-io/pull/1046), where both texts are cut to 20 tokens, so that nothing
# crashed.
#
# - `x` is `(b, q, d_model)`, `memory` is `(b, k, d_model)`; `x_is_real` `(b, q)` and `memory_is_real` `(b, k)` are
#   bool, False = padding.
# - It must return the output `(b, q, d_v)` and the weights `(b, q, k)`, with no weight on padding. What it returns for
#   padded *questions* is not compared.
# - Two lines are enough.
# - Not allowed: a finished attention, PyTorch's or `attnlib`'s.


# %%
def mend_decoder_attention(
    x: Tensor,
    memory: Tensor,
    x_is_real: Tensor,
    memory_is_real: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
) -> tuple[Tensor, Tensor]:
    """Two padded texts and three matrices -> output (b, q, d_v), weights (b, q, k)."""
    ### BEGIN SOLUTION
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    is_real = memory_is_real
    ### BEGIN STUB
    # q, k, v = x @ w_q, x @ w_k, x @ w_v
    # is_real = x_is_real
    ### END SOLUTION
    scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
    scores = scores.masked_fill(~is_real[:, None, :], float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# %%
check("mend_decoder_attention", mend_decoder_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Call it twice, with two different memories. Or call it with texts of different lengths, and look at the shape of the
# weights.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The decoder asks, the encoder answers. Go through the line with the three products, and say for each who is speaking.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The mask closes columns of the scores. A column is a position of the text that answers. Of which text does it have to
# say where the padding is?
#
# </details>

# %% [markdown]
# Why could it live? Because a decoder that cannot read the original is still a language model: it learns which German
# words follow which, and its loss falls a good way. To notice it, ask for the gradient of the memory. Where nothing is
# read, there is none.

# %% [markdown]
# ## What you can now do
#
# - Say for any two texts who asks and who answers, and name the shape of output and weights without running anything.
# - Write cross-attention with one head or several, for two lengths and two widths, and get PyTorch's numbers.
# - Say what happens when the askers are shuffled, and what when the memory is.
# - Train a network whose attention can be read, show that the picture holds for a thousand cases, and test by
#   interfering whether it is a cause.
# - Keep padding from answering, and notice a decoder that does not read.
#
# ## Think further
#
# 1. Give the reader a form that it has never met: *1969, July 20*. Which rows go wrong first, and which of their
#    neighbours did the characters lose? Then teach it: one more pattern is enough.
# 2. The reader fills all ten places at once, and none knows what the others wrote. For dates that is no loss. Why would
#    it be one for a translation? What would the questions have to know?
# 3. Count the scores: ten questions and 22 characters are 220. What would self-attention over all 32 cost? When a model
#    asks a book of 100,000 words with 256 learned questions, what has it saved, and what can it no longer do?
#
# **Next:** 05 forbids some of the glances. A text that is still being written must not look at words that are not there
# yet.
