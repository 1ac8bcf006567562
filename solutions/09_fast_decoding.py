# %% [markdown]
# # 09 · Fast decoding, with nothing computed twice
#
# Your model from lesson 08 produces one token, reads everything so far again, and produces the next one. Each token
# costs more than the one before. Yet a chat model hardly slows down while it answers: it computes nothing twice. In
# this lesson you make your model do the same, show that the text doesn't change by a single character, and pay for the
# speed in memory. Then you get some of the memory back.
#
# | | |
# | --- | --- |
# | **You will build** | a cache of keys and values, attention that uses it, a writer, shared heads, a ring |
# | **You will understand** | what exactly can be kept, why, how many bytes it takes, and which models need fewer |
# | **You need** | the masks of lesson 05, the language model of 08 |
# | **Time** | core 1 hour 15 minutes, everything 2 hours 45 minutes ([symbols](00_start_here.ipynb#Symbols)) |
#
# The model is the one you trained in lesson 08, built from those of your own parts that passed their checks.

# %%
import math
import time
from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib.checks import check, trained, yours_or_ours
from attnlib.checks.your_turn import usable_number, usable_text
from attnlib.colours import colour_lines
from attnlib.plot import ACCENT, GREY, INK, PALE, show, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 09_fast_decoding` runs this lesson with others
seed = 0

# %% [markdown]
# ## Watch it slow down · core
#
# Lesson 08's text again: colours, and the names that people gave them.

# %%
colours = colour_lines()
kept = len(colours) * 9 // 10
letters = ["\n", *sorted(set("".join(colours)))]
number = {letter: i for i, letter in enumerate(letters)}


def encode(text: str) -> Tensor:
    """Characters -> ids (1, n)."""
    return torch.tensor([[number[letter] for letter in text]])


def decode(ids: Tensor) -> str:
    """Ids (1, n) -> characters."""
    return "".join(letters[i] for i in ids[0].tolist())


rows = nn.utils.rnn.pad_sequence(
    [encode(f"\n{line}\n")[0] for line in colours], batch_first=True, padding_value=-100
)
lines = torch.stack([rows.clamp(min=0), rows])  # (2, lines, n): ids and targets
test_lines = lines[:, kept:]

# %%
# nbval-ignore-output: it says whose function is used, and where the weights are
Model = yours_or_ours(
    "LanguageModel",
    globals(),  # the writer goes through its layers, to the last one
    asked=lambda model: model(9, 8, 2, 1, 5).head.weight.shape,
)
train_loop = yours_or_ours("train_language_model", globals())


def new_model(max_len: int) -> nn.Module:
    """Two layers, four heads of 16, as in lesson 08."""
    torch.manual_seed(seed)
    made = Model(len(letters), 64, 4, 2, max_len)
    for table in (made.embed, made.positions):
        nn.init.normal_(table.weight, std=0.05)
    for block in made.blocks:  # whatever yours calls it
        block.attn.num_heads = 4
    return made


def train(model: nn.Module) -> None:
    """Lesson 08's 440 steps, in case you haven't trained the model there."""
    torch.manual_seed(seed)
    batches = lines[:, torch.randint(0, kept, (440, 32))].transpose(0, 1)
    train_loop(model, batches, test_lines, 6e-3, 20, 440)


model = trained("colour_writer", new_model(lines.shape[-1]), train).eval()

# %% [markdown]
# It writes the plain way first: for each new character the whole text goes through the model, and only the last row of
# the result is used.


# %%
@torch.inference_mode()
def write_plainly(model: nn.Module, ids: Tensor, num_tokens: int) -> Tensor:
    """Append the likeliest character, again and again; ids (1, n) -> (1, n +
    num_tokens)."""
    for _ in range(num_tokens):
        following = model(ids)[:, -1].argmax(dim=-1, keepdim=True)
        ids = torch.cat([ids, following], dim=1)
    return ids


# %%
# nbval-ignore-output: the last digits vary by machine
plain = {}
for code in ("#f60", "#936", "#9cf", "#063"):
    plain[code] = write_plainly(model, encode(f"\n{code} "), 24)
    print(decode(plain[code]).strip("\n").split("\n")[0])


# %%
def milliseconds(call: Callable[[], object], turns: int = 7) -> float:
    """The fastest of a few runs, in processor time, so other programs hardly matter."""
    times = []
    for _ in range(turns):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return 1e3 * min(times)


# %% [markdown]
# How long does a character take? Lines of colours are short, so for the timing there's a second model, of the same size
# but with 1,024 positions and random weights. Time doesn't depend on what the weights are.

# %%
# nbval-ignore-output: times differ from machine to machine
long_model = new_model(1024).eval()
torch.manual_seed(seed)
long_text = torch.randint(0, len(letters), (1, 1024))
lengths = [32, 64, 128, 256, 512, 1000]
with torch.inference_mode():
    without = [milliseconds(lambda n=n: long_model(long_text[:, :n])) for n in lengths]
for n, ms in zip(lengths, without, strict=True):
    print(f"{n:4} characters before it: {ms:.2f} ms for one more")
assert without[-1] > 3 * without[0]

# %% [markdown]
# The time climbs. To write $n$ characters this way, the model reads $1 + 2 + … + n$ of them, $n(n + 1)/2$. For 512
# characters that's 131,328 instead of 512. Nearly all of it has been computed before.
#
# ## Find what is computed twice · core
#
# What changes in the layers when one token is added at the end? Take three words with the keys 0, $\ln 3$, 0 and the
# values 10, 20, 30. (One head, one feature wide.) Then a fourth word comes, with the key $\ln 5$ and the value 40.
# Every word's query is 1. The table shows what the last word gets.
#
# | | $e^{\text{score}}$ of the three | new | sum | output |
# | --- | --- | --- | --- | --- |
# | three words | 1, 3, 1 | | 5 | (10 + 60 + 30) / 5 = 20 |
# | four words | 1, 3, 1 | 5 | 10 | (10 + 60 + 30 + 200) / 10 = 30 |
#
# The old keys haven't changed, and neither have the old values. Only one row is new: one query, which meets all the
# keys.
#
# ### Predict, then run: what has to be kept? ({points}, difficulty 2, 3 minutes)
#
# A decoder with a causal mask has read $n$ tokens, and token $n + 1$ comes. What do you need of the earlier tokens, in
# each layer, so that only the new one goes through the matrices?
#
# - **A**: their queries, keys and values
# - **B**: the keys and values of all of them
# - **C**: the output of the last one, which has seen all the others
# - **D**: the vectors $x$ that entered the layer

# %%
### BEGIN SOLUTION
what_to_keep = "B"
### BEGIN STUB
# what_to_keep = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_what_to_keep", what_to_keep)

# %%
three, four = (
    attnlib.scaled_dot_product_attention(
        torch.ones(1, 1), torch.tensor(keys)[:, None], torch.tensor(values)[:, None]
    )
    for keys, values in (
        ([0, math.log(3), 0], [10.0, 20, 30]),
        ([0, math.log(3), 0, math.log(5)], [10.0, 20, 30, 40]),
    )
)
print(f"three words: {three.item():.0f}, four words: {four.item():.0f}")
assert_close(
    torch.cat([three, four]), torch.tensor([[20.0], [30.0]]), atol=1e-5, rtol=0
)

# %% [markdown]
# But do the old keys and values stay right? In the second layer they're computed from what the first one has found. So
# they stay the same only if the *outputs* of earlier words stay the same, and for that no word may look ahead. It's the
# causal mask that makes a cache possible. Here are the keys of a second layer before and after one more word, with the
# mask and without it.

# %%
torch.manual_seed(seed)
stack = [attnlib.EncoderBlock(64, 4) for _ in range(2)]
x = torch.randn(1, 13, 64)
moved = {}
for is_causal in (True, False):
    with torch.inference_mode():
        longer, shorter = (
            stack[1].attn.w_k(stack[1].norm1(stack[0](t, is_causal=is_causal)))
            for t in (x, x[:, :-1])
        )
    moved[is_causal] = (longer[:, :-1] - shorter).abs().max().item()
print(f"with a causal mask the earlier keys move by {moved[True]:.0e}")
print(f"without it they move by {moved[False]:.2f}")
assert moved[True] < 1e-5
assert moved[False] > 0.001

# %% [markdown]
# So an encoder such as BERT can't use a cache: each new word changes the vectors of all the others. A decoder can. In
# the picture, orange is computed now, and grey is kept.

# %%
figure, axes = plt.subplots(1, 3, figsize=(10.5, 2.6), layout="constrained")
for step, ax in enumerate(axes):
    shown = list("#396␣d")[: 4 + step]
    for place in range(6):
        there, new = place < len(shown), place == len(shown) - 1 or step == 0
        for row, name in enumerate(("v", "k")):
            fill = (ACCENT if new else "0.85") if there else "white"
            ax.add_patch(
                plt.Rectangle((place, row), 0.9, 0.8, facecolor=fill, edgecolor=INK)
            )
            if there:
                ink = "white" if new else "black"
                ax.text(
                    place + 0.45, row + 0.4, name, color=ink, ha="center", va="center"
                )
        if there:
            ax.text(place + 0.45, 2.05, shown[place], ha="center", va="center")
    ax.set(xlim=(-0.1, 6.1), ylim=(-0.1, 2.4))
    ax.axis("off")
    ax.set_title(
        ("The prompt: all new", "Then one new, four kept", "One new, five kept")[step]
    )
show(
    "A cache of six slots at three moments. First the prompt fills four slots with "
    "keys and values at once, in orange. Then a fifth slot is new and the four others "
    "are kept, in grey. Then a sixth is new. Empty slots are white."
)

# %% [markdown]
# ## Keep the keys and the values · core
#
# A cache is two buffers and a number. The buffers are allocated once, with room for the longest text; the number says
# how many positions they hold so far.


# %%
def new_cache(batch: int, heads: int, room: int, width: int) -> dict:
    """An empty cache for `room` positions."""
    return {
        "k": torch.zeros(batch, heads, room, width),
        "v": torch.zeros(batch, heads, room, width),
        "length": 0,
    }


# %% [markdown]
# ### Exercise: write into the cache ({points}, difficulty 2, 12 minutes)
#
# Write `append_to_cache(cache, k, v)`.
#
# - `cache` is a dictionary as above, and `k` and `v` are `(b, h, n, d)`: $n$ new positions, one or several.
# - Write them into `cache["k"]` and `cache["v"]`, after the `cache["length"]` positions that are already there, and add
#   $n$ to `cache["length"]`. The buffers themselves are not replaced; whatever comes after the new positions is left
#   alone.
# - Return all keys and all values that the cache now holds, both `(b, h, length, d)`, old and new, without the unused
#   room.
# - If there is no room for all $n$, raise a `ValueError`.
# - Not allowed: `attnlib.KVCache`.
#
# A model writes under `torch.inference_mode()`, so you don't have to think about gradients here.


# %%
def append_to_cache(cache: dict, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Append n positions (b, h, n, d), and return all keys and values so far, (b, h,
    length, d)."""
    ### BEGIN SOLUTION
    start, stop = cache["length"], cache["length"] + k.shape[2]
    if stop > cache["k"].shape[2]:
        raise ValueError(
            f"the cache has room for {cache['k'].shape[2]} positions, got {start} + "
            f"{k.shape[2]}"
        )
    cache["k"][:, :, start:stop] = k
    cache["v"][:, :, start:stop] = v
    cache["length"] = stop
    return cache["k"][:, :, :stop], cache["v"][:, :, :stop]
    ### END SOLUTION


# %%
check("append_to_cache", append_to_cache)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Five positions are in the cache, at the indices 0 to 4, and three more come. Where do they start, and how many does
# the cache hold afterwards? Give both numbers a name.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The positions are axis 2. An assignment to a slice, `buffer[:, :, start:stop] = new`, writes into the buffer itself.
#
# </details>
# <details><summary>Hint 3</summary>
#
# Past the end of the buffer a slice is empty, and a single position assigned to it is lost without an error. So compare
# `stop` with `cache["k"].shape[2]` before you write. Update the length, and return the slices `[:, :, :stop]`.
#
# </details>

# %%
append = yours_or_ours("append_to_cache", globals())

cache = new_cache(1, 2, 8, 4)
memory = cache["k"].data_ptr()
early, _ = append(cache, torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4))
late, _ = append(cache, torch.full((1, 2, 2, 4), 7.0), torch.zeros(1, 2, 2, 4))
assert early.shape[2] == 3
assert late.shape[2] == 5
assert bool((early == 1).all())  # what was returned earlier is still right
assert cache["k"].data_ptr() == memory
print("nothing was copied:", late.data_ptr() == memory)

# %% [markdown]
# A slice is a *view*: it has its own shape, but no memory of its own. That is the reason for the buffer. With
# `torch.cat` you would get the same numbers, but copy the whole past for each token.
#
# ### Exercise: attend with the cache ({points}, difficulty 3, 20 minutes)
#
# Write `cached_attention(x, attn, cache)`, causal multi-head self-attention whose input is only the *new* words.
#
# - `x` is `(b, n, d_model)`: the new words. There may be one or several; the words before them are in the cache.
# - `attn` is an attention layer. You call its four linear layers `w_q`, `w_k`, `w_v`, `w_o`, but not `attn` itself. The
#   number of heads is the cache's, `cache["k"].shape[1]`.
# - Keys and values are appended to the cache. The last query is at the last key: each new word attends to all that was
#   in the cache, the new words before it, and itself.
# - The result is `(b, n, d_model)`. Dtype and device as always; no gradients are needed.
# - Not allowed: `attnlib.MultiHeadAttention`'s own forward, `attnlib.KVCache`. Everything else may be used: your
#   `append_to_cache`, `attnlib.split_heads`, `attnlib.causal_mask`, `F.scaled_dot_product_attention`.


# %%
def cached_attention(x: Tensor, attn: nn.Module, cache: dict) -> Tensor:
    """New words (b, n, d_model) -> (b, n, d_model); their keys and values are in the
    cache afterwards."""
    ### BEGIN SOLUTION
    num_heads = cache["k"].shape[1]
    q, k, v = (
        attnlib.split_heads(layer(x), num_heads)
        for layer in (attn.w_q, attn.w_k, attn.w_v)
    )
    keys, values = append_to_cache(cache, k, v)
    mask = attnlib.causal_mask(x.shape[1], keys.shape[2], device=x.device)
    output = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
    return attn.w_o(attnlib.merge_heads(output))
    ### END SOLUTION


# %%
check("cached_attention", cached_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write it first for an empty cache: project, split into heads, attend with a causal mask, merge, project. Then ask of
# each line what the cache changes.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The keys you attend to are what `append_to_cache` returns. The queries are those of the new words alone.
#
# </details>
# <details><summary>Hint 3</summary>
#
# With $n$ queries and more keys the mask is `attnlib.causal_mask(n, keys.shape[2])`. (`is_causal=True` of PyTorch puts
# the first query at the *first* key. You want the last query at the last key, as in the first picture of lesson 05.)
#
# </details>

# %% [markdown]
# Now the test. The same words at once, one by one, and three at a time: the outputs must be equal, to one another and
# to those of attnlib's own layer.

# %%
attend = yours_or_ours("cached_attention", globals())

torch.manual_seed(seed)
layer = attnlib.MultiHeadAttention(64, 4)
x = torch.randn(2, 20, 64)
with torch.inference_mode():
    at_once = layer(x, is_causal=True)
    for chunk in (1, 3, 20):
        cache = new_cache(2, 4, 20, 16)
        outputs = [attend(piece, layer, cache) for piece in x.split(chunk, dim=1)]
        assert_close(torch.cat(outputs, dim=1), at_once, atol=1e-5, rtol=0)
        print(f"{len(outputs):2} calls with {chunk:2} words each: equal")


# %% [markdown]
# ## Write with the cache · core
#
# Norms and MLP look at one position at a time, so they need no cache and only ever see the new words. What does change
# is where a new word *is*. A single token looks like a text of length 1, but it isn't at position 0.
#
# ### Exercise: the writer with a cache ({points}, difficulty 4, 30 minutes)
#
# Write `write_with_cache(model, ids, num_tokens)`, which does what `write_plainly` does with less work.
#
# - `model` is a `LanguageModel` of lesson 08: `embed`, `positions` (both `nn.Embedding`), `blocks` (each with `norm1`,
#   `attn`, `norm2`, `mlp`, pre-LN), `norm`, `head`. Its number of heads is `model.blocks[0].attn.num_heads`.
# - `ids` is `(b, n)`, the result `(b, n + num_tokens)`: the likeliest token is appended, again and again. No gradient
#   is needed. The whole text fits into the model's positions.
# - The prompt goes through the model in one call or several, and each new token at most once: the model refuses to read
#   more. You can't call the model itself, then; you go through its layers.
# - `num_tokens` is at least 1. `ids` itself isn't changed, and the model's mode isn't either.
# - Dtype and device as always. The caches need those of the model's weights, and `new_cache` above always makes
#   float32 on the CPU.
# - Not allowed: `attnlib.generate`, `attnlib.KVCache`.


# %%
def write_with_cache(model: nn.Module, ids: Tensor, num_tokens: int) -> Tensor:
    """Ids (b, n) -> (b, n + num_tokens), each token read once."""
    ### BEGIN SOLUTION
    heads, room = model.blocks[0].attn.num_heads, ids.shape[1] + num_tokens
    empty = model.embed.weight.new_zeros(
        len(ids), heads, room, model.embed.weight.shape[1] // heads
    )
    caches = [
        {"k": empty.clone(), "v": empty.clone(), "length": 0} for _ in model.blocks
    ]
    unread = ids
    with torch.no_grad():
        for _ in range(num_tokens):
            start = caches[0]["length"]
            places = torch.arange(start, start + unread.shape[1], device=ids.device)
            x = model.embed(unread) + model.positions(places)
            for block, cache in zip(model.blocks, caches, strict=True):
                x = x + cached_attention(block.norm1(x), block.attn, cache)
                x = x + block.mlp(block.norm2(x))
            logits = model.head(model.norm(x[:, -1:]))
            unread = logits.argmax(dim=-1)
            ids = torch.cat([ids, unread], dim=1)
    return ids
    ### END SOLUTION


# %%
check("write_with_cache", write_with_cache)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make a cache for each block first, with room for `n + num_tokens` positions. In the loop, keep what hasn't been read
# yet in a variable: at first the whole prompt, later the one new token.
#
# </details>
# <details><summary>Hint 2</summary>
#
# One round is lesson 08's `forward` for the unread ids, with two changes: the positions begin at `cache["length"]`, and
# attention is `cached_attention(block.norm1(x), block.attn, cache)`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `model.head(model.norm(x[:, -1:])).argmax(dim=-1)` is `(b, 1)`: it can be appended to `ids` and be the next round's
# unread token.
#
# </details>

# %%
# nbval-ignore-output: the last digits vary by machine
write = yours_or_ours("write_with_cache", globals())
for code, expected in plain.items():
    assert torch.equal(write(model, encode(f"\n{code} "), 24), expected)
    print("the same, character by character:", decode(expected).split("\n")[1])

# %% [markdown]
# Now time it. To time single tokens, here are the same steps as a class. Calling it reads new ids; `forget` goes back
# to an earlier length.


# %%
class Reader:
    """A model with a cache for each block: new ids (b, n) -> logits (b, n, vocab)."""

    def __init__(self, model: nn.Module, batch: int = 1):
        self.model = model
        room = model.max_len
        self.caches = [new_cache(batch, 4, room, 16) for _ in model.blocks]

    @torch.inference_mode()
    def __call__(self, ids: Tensor) -> Tensor:
        start = self.caches[0]["length"]
        places = torch.arange(start, start + ids.shape[1])
        stream = self.model.embed(ids) + self.model.positions(places)
        for block, cache in zip(self.model.blocks, self.caches, strict=True):
            stream = stream + attend(block.norm1(stream), block.attn, cache)
            stream = stream + block.mlp(block.norm2(stream))
        return self.model.head(self.model.norm(stream))

    def forget(self, length: int) -> None:
        """Go back to the first `length` positions."""
        for cache in self.caches:
            cache["length"] = length


# %%
# nbval-ignore-output: times differ from machine to machine
with torch.inference_mode():
    whole = long_model(long_text[:, :150])
reader = Reader(long_model)
stepwise = torch.cat([reader(one) for one in long_text[:, :150].split(1, dim=1)], dim=1)
assert_close(stepwise, whole, atol=1e-3, rtol=0)
with_cache = []
for n in lengths:
    reader = Reader(long_model)
    reader(long_text[:, :n])  # the prompt: many positions in one call

    def one_more(reader: Reader = reader, n: int = n) -> None:
        reader.forget(n)
        reader(long_text[:, n : n + 1])

    with_cache.append(milliseconds(one_more, turns=20))
for n, ms in zip(lengths, with_cache, strict=True):
    print(f"{n:4} characters before it: {ms:.2f} ms with a cache")
assert with_cache[-1] < without[-1]
assert with_cache[-1] / with_cache[0] < 0.5 * without[-1] / without[0]

# %%
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(lengths, without, "s--", color=GREY, label="the whole text again")
ax.plot(lengths, with_cache, "o-", color=ACCENT, label="one token and the cache")
ax.set(
    xlabel="characters before it",
    ylabel="ms for one more",
    title="With a cache, writing hardly slows down",
)
ax.set_ylim(0)
ax.legend()
show(
    "Two curves of time per character against length: without a cache it climbs with "
    "the length, with one it stays low."
)

# %% [markdown]
# The first curve climbs and the second is almost flat. Almost: the new query still meets every key, one row where there
# used to be a whole table.
#
# That explains two things you can observe in any chat. The wait before the first word is the *prompt*, which goes
# through in one call, all positions side by side. After that the words come at a steady pace, one call each.
#
# **Your turn.** Let the long model continue a text, both ways. It has learned nothing, so look at the times and not at
# the words. Change `mine` and `count` and run the cell. Double `count` a few times: which of the two times doubles with
# it, and which grows faster?

# %%
# nbval-ignore-output: times differ from machine to machine, and the words are yours
mine, count = "#396 ", 200

mine = usable_text(mine, letters, longest=1000)
# the model knows 1024 positions
count = usable_number(count, "count", 1, 1024 - len(mine))
beginning = encode(mine)
plainly = milliseconds(lambda: write_plainly(long_model, beginning, count), turns=1)
cached = milliseconds(lambda: write(long_model, beginning, count), turns=1)
print(f"{count} tokens: {plainly:.0f} ms plainly, {cached:.0f} ms with the cache")

# %% [markdown]
# ## Count what it costs · more
#
# A cache saves work and pays with memory. How much? For each position of each layer, a key and a value for every head
# that has keys:
#
# $$\text{bytes} = 2 \cdot \text{layers} \cdot \text{key heads} \cdot \text{length} \cdot d_\text{head} \cdot
# \text{bytes per number}$$
#
# ### Predict, then run: how large is a conversation? ({points}, difficulty 2, 4 minutes)
#
# LLaMA 2 with seven billion weights has 32 layers of 32 heads, each 128 wide, and two bytes per number. Its weights
# take 13 GB. How large is the cache of one conversation of 4,096 tokens?
#
# - **A**: about 8 KiB, two bytes for each token
# - **B**: 64 MiB
# - **C**: 2 GiB
# - **D**: 32 GiB

# %%
### BEGIN SOLUTION
conversation = "C"
### BEGIN STUB
# conversation = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_cache_size", conversation)


# %%
def bytes_of(layers: int, heads: int, length: int, width: int, each: int = 2) -> int:
    """Keys and values of one text."""
    return 2 * layers * heads * length * width * each


held = sum(cache[name].nbytes for cache in reader.caches for name in ("k", "v"))
assert bytes_of(2, 4, 1024, 16, each=4) == held  # counted, and looked up
assert bytes_of(32, 32, 4096, 128) == 2 * 2**30
models = {  # layers, heads of queries, heads of keys and values, width of a head
    "LLaMA 2 7B": (32, 32, 32, 128),
    "LLaMA 3 70B": (80, 64, 8, 128),
    "Falcon 7B": (32, 71, 1, 64),
}
print("             key heads   a token   4096 tokens   with a key for each head")
for name, (layers, heads, key_heads, width) in models.items():
    one, many, all_heads = (
        bytes_of(layers, count, length, width)
        for count, length in ((key_heads, 1), (key_heads, 4096), (heads, 4096))
    )
    print(
        f"{name:12} {key_heads:3} of {heads}  {one / 1024:4.0f} KiB   "
        f"{many / 2**30:7.2f} GiB   {all_heads / 2**30:7.2f} GiB"
    )

# %% [markdown]
# LLaMA 3 with its seventy billion weights needs *less* than LLaMA 2 with seven, because its 64 heads keep only 8 pairs
# of keys and values. And size isn't all that counts: for every token the whole cache is read from memory once, and that
# reading is what takes the time. While a GPU reads one number, it could do hundreds of multiplications; a cached number
# gives it one or two to do.
#
# ## Share keys among heads · more
#
# So let several query heads share one head of keys and values. With a single one for all query heads, that's
# *multi-query attention* (Shazeer 2019); with $g$ groups it's *grouped-query attention* (Ainslie and others 2023), and
# there are $h/g$ heads in each group. Neighbours share. For four heads and two groups:
#
# ```text
# query head          0  1  2  3
# group it reads      0  0  1  1      i // (h / g), and not i % g
# ```
#
# In the picture there are eight heads and two groups. Each pair of keys and values is kept once, and four heads read
# it.

# %%
_, ax = plt.subplots(figsize=(8, 2.9), layout="constrained")
for head in range(8):
    group = head // 4
    colour = (INK, ACCENT)[group]
    ax.add_patch(plt.Rectangle((head, 2), 0.8, 0.6, facecolor=PALE, edgecolor=colour))
    ax.text(head + 0.4, 2.3, f"q{head}", ha="center", va="center")
    line = ("-", "--")[group]
    ax.plot([head + 0.4, 4 * group + 1.9], [2, 0.8], line, color=colour)
for group in range(2):
    for i, name in enumerate("kv"):
        box = plt.Rectangle(
            (4 * group + 1 + i * 0.9, 0.2),
            0.85,
            0.6,
            facecolor="0.9",
            edgecolor=(INK, ACCENT)[group],
        )
        ax.add_patch(box)
        at = 4 * group + 1.42 + i * 0.9
        ax.text(at, 0.5, f"{name}{group}", ha="center", va="center")
ax.set(xlim=(-0.2, 8), ylim=(0, 2.8))
ax.axis("off")
ax.set_title("Eight heads ask, two keep: a quarter of the cache")
show(
    "Eight boxes for query heads above two pairs of keys and values. Solid lines "
    "lead from the first four heads to pair 0, dashed lines from the others to pair 1."
)

# %% [markdown]
# ### Exercise: attend in groups ({points}, difficulty 3, 12 minutes)
#
# Write `grouped_query_attention(q, k, v)`.
#
# - `q` is `(b, h, q, d)`, `k` is `(b, g, k, d)`, `v` is `(b, g, k, d_v)`, and the result is `(b, h, q, d_v)`.
# - Query head $i$ reads group $i // (h/g)$, both keys and values. The scores are scaled by $1/\sqrt d$, as always.
#   There is no mask.
# - If $g$ does not divide $h$, raise a `ValueError`. Dtype, device and gradients as always.
# - Not allowed: ready-made attention, PyTorch's or attnlib's.


# %%
def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q (b, h, q, d), k (b, g, k, d), v (b, g, k, d_v) -> (b, h, q, d_v)."""
    ### BEGIN SOLUTION
    h, g = q.shape[1], k.shape[1]
    if h % g:
        raise ValueError(
            f"the number of heads must be a multiple of the number of groups, got {h} "
            f"and {g}"
        )
    k, v = (t.repeat_interleave(h // g, dim=1) for t in (k, v))
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return weights @ v
    ### END SOLUTION


# %%
check("grouped_query_attention", grouped_query_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Give each query head its own copy of the keys and values it reads. Then it's attention as you know it.
#
# </details>
# <details><summary>Hint 2</summary>
#
# For $h = 4$ and $g = 2$ the copies have to come in the order 0 0 1 1. Try `repeat` and `repeat_interleave` on
# `torch.tensor([0, 1])`.
#
# </details>
# <details><summary>Hint 3</summary>
#
# `k.repeat_interleave(h // g, dim=1)`. Or without copies: split the heads of `q` into `(b, g, h/g, q, d)`, and let the
# keys broadcast over the third axis.
#
# </details>

# %%
grouped = yours_or_ours("grouped_query_attention", globals())

torch.manual_seed(seed + 1)
q = torch.randn(2, 6, 5, 8)
for g in (6, 3, 1):
    k, v = torch.randn(2, 2, g, 7, 8).unbind()
    mine = grouped(q, k, v)
    copies = attnlib.scaled_dot_product_attention(
        q, *(t.repeat_interleave(6 // g, dim=1) for t in (k, v))
    )
    in_groups = q.unflatten(1, (g, 6 // g))  # (b, g, h / g, q, d)
    scores = torch.einsum("b g r q d, b g k d -> b g r q k", in_groups, k) / math.sqrt(
        8
    )
    without_copies = torch.einsum(
        "b g r q k, b g k d -> b g r q d", scores.softmax(dim=-1), v
    ).flatten(1, 2)
    assert_close(mine, copies, atol=1e-5, rtol=0)
    assert_close(mine, without_copies, atol=1e-5, rtol=0)
    assert_close(
        mine,
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        atol=1e-5,
        rtol=0,
    )
multi_query = attnlib.scaled_dot_product_attention(
    q, k.expand(2, 6, 7, 8), v.expand(2, 6, 7, 8)
)
assert_close(mine, multi_query, atol=1e-5, rtol=0)  # the last round had one group
print(
    "6 groups: multi-head; 3 groups; 1 group: multi-query. Copies, einsum and PyTorch "
    "agree"
)

# %% [markdown]
# Can you do that to a model that has already been trained, with keys for each head? Ainslie and others pooled the
# trained matrices: the keys of a group are the *mean* of the keys of its heads. Then they trained for a twentieth of
# the original steps. With eight pairs of keys and values the model scored 47.1 on average over seven tasks, with a pair
# for each head 47.2, and with a single pair 46.6 ([table 1](https://arxiv.org/abs/2305.13245)).
#
# ## Look back through a window · more
#
# The other factor in the bill is the length. Let each token attend to only the last $w$, itself included, and the cache
# needs only $w$ positions, however long the text gets.
#
# ### Predict, then run: how far does it reach? ({points}, difficulty 2, 3 minutes)
#
# Two layers, each with a window of 4. How many positions back is the farthest token that can change the output at the
# last position?
#
# - **A**: 3
# - **B**: 4
# - **C**: 6
# - **D**: 8

# %%
### BEGIN SOLUTION
reach = "C"
### BEGIN STUB
# reach = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_reach", reach)

# %%
window_of = yours_or_ours("causal_mask", globals())  # lesson 05's mask with a window
assert torch.equal(window_of(5, 9, 9), attnlib.causal_mask(5, 9))
assert torch.equal(window_of(5, 9, 100), attnlib.causal_mask(5, 9))
torch.manual_seed(seed)
x = torch.randn(1, 12, 8, requires_grad=True)
mask = window_of(12, 12, 4)
inside = attnlib.scaled_dot_product_attention(x, x, x, mask=mask)
last = attnlib.scaled_dot_product_attention(inside, inside, inside, mask=mask)[0, -1]
(gradient,) = torch.autograd.grad(last.sum(), x)
reached = gradient[0].abs().amax(dim=-1) > 0
print(
    "positions that reach the last one, through two layers:",
    [11 - i for i in range(12) if reached[i]],
)
assert [11 - i for i in range(12) if reached[i]] == [6, 5, 4, 3, 2, 1, 0]

# %% [markdown]
# ## Keep the window in a ring buffer · more
#
# Let a new word take the place of the oldest one: with $w$ slots, word $i$ goes to slot $i \bmod w$. The order in the
# buffer is then no longer that of the text, but that does no harm. A sum has no order, and each key carries its
# position with it, because the position was in the vector it was made of.
#
# ### Fix: the rolling cache ({points}, difficulty 3, 8 minutes)
#
# One new word comes at a time. `cache["length"]` counts all words so far, so it may be larger than the number of slots.
# The function has two mistakes. Each of them does no harm at some lengths, so a test of a single length may well miss
# one. Fix both. No gradient is needed.
#
# - `q`, `k`, `v` are `(b, h, 1, d)`; `cache["k"]` and `cache["v"]` are `(b, h, window, d)`.
# - The result is `(b, h, 1, d)`: attention to the last `window` words, the new one included.


# %%
def rolling_attention(q: Tensor, k: Tensor, v: Tensor, cache: dict) -> Tensor:
    """Attend to the last `window` words, which are in a ring of as many slots."""
    window = cache["k"].shape[2]
    ### BEGIN SOLUTION
    slot = cache["length"] % window
    ### BEGIN STUB
    # slot = min(cache["length"], window - 1)
    ### END SOLUTION
    cache["k"][:, :, slot], cache["v"][:, :, slot] = k[:, :, 0], v[:, :, 0]
    cache["length"] += 1
    ### BEGIN SOLUTION
    keys, values = (cache[name][:, :, : cache["length"]] for name in ("k", "v"))
    ### BEGIN STUB
    # keys, values = cache["k"], cache["v"]
    ### END SOLUTION
    return attnlib.scaled_dot_product_attention(q, keys, values)


# %%
check("mend_rolling_cache", rolling_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take a window of 3 and write down, word by word, which words are in which slot. After the fourth word, which three
# should be there, and which are?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The other mistake shows *before* the ring is full. What's in a slot nothing has been written to yet, and what weight
# does the softmax give to a score of 0?
#
# </details>

# %%
roll = yours_or_ours("mend_rolling_cache", globals(), called="rolling_attention")
q, k, v = torch.randn(3, 2, 4, 40, 16).unbind()
buffer = new_cache(2, 4, 8, 16)
rolled = torch.cat(
    [roll(*(t[:, :, i : i + 1] for t in (q, k, v)), buffer) for i in range(40)], dim=2
)
masked = attnlib.scaled_dot_product_attention(q, k, v, mask=window_of(40, 40, 8))
assert_close(rolled, masked, atol=1e-5, rtol=0)
print("40 words in a ring of 8 slots: equal to a full buffer with a window of 8")

# %% [markdown]
# ## What a window costs, and what is worth keeping · more
#
# What does a window cost *your* model? It names a colour, and the colour comes first. With a window of 4 in each of
# two layers, nothing more than six characters back can be used. There are two ways to spend five more slots: a window
# of 9, or the first five characters, kept forever.


# %%
@torch.inference_mode()
def loss_under(mask: Tensor) -> float:
    """The loss on the test lines, where every head has this mask instead of its own."""
    ids, targets = test_lines
    stream = model.embed(ids) + model.positions.weight[: ids.shape[1]]
    for block in model.blocks:
        attn, seen = block.attn, block.norm1(stream)
        q, k, v = (
            attnlib.split_heads(w(seen), 4) for w in (attn.w_q, attn.w_k, attn.w_v)
        )
        found = attnlib.scaled_dot_product_attention(q, k, v, mask=mask)
        stream = stream + attn.w_o(attnlib.merge_heads(found))
        stream = stream + block.mlp(block.norm2(stream))
    logits = model.head(model.norm(stream))
    return F.cross_entropy(
        logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten()
    ).item()


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
n = lines.shape[-1]
costs = {
    "everything": loss_under(window_of(n, n, n)),
    "window of 9": loss_under(window_of(n, n, 9)),
    "window of 4": loss_under(window_of(n, n, 4)),
    "window of 4, and the first 1": loss_under(
        attnlib.attention_sink_mask(n, n, 1, window=4)
    ),
    "window of 4, and the first 5": loss_under(
        attnlib.attention_sink_mask(n, n, 5, window=4)
    ),
}
for name, loss in costs.items():
    print(f"{name:30} {loss:.2f}")
assert costs["everything"] < costs["window of 4, and the first 5"]
assert costs["window of 4, and the first 5"] < costs["window of 9"]
assert costs["window of 9"] < costs["window of 4"] - 0.05
assert costs["window of 4, and the first 5"] < costs["window of 4"] - 0.1
repaired = {name: costs["window of 4"] - loss for name, loss in costs.items()}
assert repaired["window of 4, and the first 1"] < repaired["everything"] / 3
assert repaired["window of 4, and the first 5"] > repaired["everything"] * 2 / 3

# %% [markdown]
# A narrow window hurts a model that was trained without one. Five more slots for the latest characters repair part of
# that; the same five slots for the beginning repair most of it. Is it *being first* that counts, or the colour? The
# very first character is a line break, the same in every line, and keeping that one alone repairs little. So here it's
# the colour. [Xiao and others](https://arxiv.org/abs/2309.17453) found the same in large models, for the other reason.
# Such models break when the *first* few tokens leave the window, whatever these are, and run on for millions of tokens
# if four of them are kept forever. The authors called these tokens *attention sinks*.
#
# Why there? A softmax can't say *nobody*: the weights add up to 1 even if there is nothing to find. A head that has
# found nothing must still put its weight somewhere, and the first token is one every query can see. In lesson 11 you'll
# watch it happen, in a model whose heads look for something that isn't always there.
#
# If that's the reason, one more term in the denominator should be enough. gpt-oss has one, with a learned number
# instead of the 1:
#
# $$w_j = \frac{e^{s_j}}{1 + \sum_i e^{s_i}}$$
#
# It is a key with the score 0 and the value 0, open to every query. With scores 0, $\ln 3$, 0 the weights are 1/6, 3/6,
# 1/6, and 1/6 goes to nobody. If all the scores are −5, nearly everything does.

# %%
for scores in (torch.tensor([0, math.log(3), 0]), torch.full((3,), -5.0)):
    quiet = scores.exp() / (1 + scores.exp().sum())
    with_zero = torch.cat([torch.zeros(1), scores]).softmax(dim=0)[1:]
    assert_close(quiet, with_zero, atol=1e-6, rtol=0)
    print("softmax:", scores.softmax(dim=0).numpy().round(3), end="   ")
    print("with a 1 in the denominator:", quiet.numpy().round(3))

# %% [markdown]
# ## Let a small model guess ahead · stretch
#
# ### Stretch: accept or reject ({points}, difficulty 5, 45 minutes)
#
# With a cache, a large model takes about as long for one token as for five: most of the time goes into reading the
# weights and the cache from memory. So let something cheap, the *draft*, guess five tokens, and let the large model,
# the *target*, look at all five in one call. It computes its own probabilities for each of these positions, and for one
# more. Which guesses may stay, if every text is to come out exactly as often as if the target had written it?
#
# Guess $t$ was drawn with the draft's probability $q(t)$; the target gives it $p(t)$. (In this section $q$ and $p$ are
# probabilities, as in the paper, not queries and positions, and $V$ is the size of the vocabulary.) [Leviathan and
# others](https://arxiv.org/abs/2211.17192) go from left to right:
#
# - Accept $t$ with the probability $\min(1, p(t) / q(t))$.
# - If it is rejected, draw another token in its place, with probabilities in proportion to $\max(0, p - q)$, and stop.
#   The guesses after it are lost.
# - If all are accepted, draw one more from the target's last row.
#
# By hand, for two tokens, $q = (0.8, 0.2)$ and $p = (0.5, 0.5)$. Token 0 is guessed with 0.8 and accepted with 5/8, so
# it comes out with $0.8 \cdot 5/8 = 0.5$. Token 1 is guessed with 0.2 and always accepted. The missing 0.3 is the share
# of rejected guesses, and $\max(0, p - q) = (0, 0.3)$ gives all of it to token 1: $0.2 + 0.3 = 0.5$.
#
# Write `accept(draft_p, target_p, tokens)`.
#
# - `draft_p` is `(b, n, V)`, `target_p` is `(b, n + 1, V)`, `tokens` is `(b, n)`, drawn from `draft_p`. The rows of the
#   batch have nothing to do with one another.
# - The result is int64 `(b, n + 1)`: the accepted guesses, one token more, and −1 after it.
# - Draw from PyTorch's own generator, in any way you like: the check counts how often each token comes out.


# %%
def accept(draft_p: Tensor, target_p: Tensor, tokens: Tensor) -> Tensor:
    """Guesses (b, n) -> what is written, (b, n + 1), with -1 at the end."""
    ### BEGIN SOLUTION
    # (b, n), as many as tokens
    q, p = (t.gather(-1, tokens[..., None]).squeeze(-1) for t in (draft_p, target_p))
    accepted = torch.rand_like(q) * q < p
    count = accepted.cumprod(dim=1).sum(dim=1)  # how many before the first rejection
    missing = (target_p[:, :-1] - draft_p).clamp(min=0)
    table = torch.cat([missing, target_p[:, -1:]], dim=1)  # (b, n + 1, V)
    last = torch.multinomial(
        table.take_along_dim(count[:, None, None], dim=1).squeeze(1), 1
    )
    row = F.pad(tokens, (0, 1)).scatter(1, count[:, None], last)
    places = torch.arange(row.shape[1], device=row.device)
    return row.masked_fill(places > count[:, None], -1)
    ### END SOLUTION


# %%
check("accept", accept)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First compute the chance of each guess: `gather` picks $q(t)$ and $p(t)$ out of the last axis. Draw a number for each
# guess, and compare.
#
# </details>
# <details><summary>Hint 2</summary>
#
# How many are accepted before the first rejection? With the comparison as 1 and 0, `cumprod` stays 1 until the first 0.
# Its sum is the number.
#
# </details>
# <details><summary>Hint 3</summary>
#
# The token after the accepted ones is drawn from row `count` of a table with $n + 1$ rows: $\max(0, p - q)$ for each
# guess, and the target's last row below. `torch.multinomial` does not need probabilities that add up to 1.
#
# </details>

# %% [markdown]
# The draft is a table here: how often each character follows each pair of characters. First a test, as far as counting
# can prove anything: draw the next character after one context 20,000 times, by way of the draft. The frequencies must
# match the target's. The control accepts every guess.

# %%
decide = yours_or_ours("accept", globals())
size = len(letters)
seen = encode("\n" + "\n".join(colours[:kept]) + "\n")[0]
counts = torch.full((size, size, size), 0.01).flatten()
counts += torch.bincount(
    (seen[:-2] * size + seen[1:-1]) * size + seen[2:], minlength=size**3
)
table = counts.reshape(size, size, size)
table /= table.sum(dim=-1, keepdim=True)

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed)
context = encode("\n#936 d")
with torch.inference_mode():
    target = model(context)[0, -1].softmax(dim=-1)
draft = table[context[0, -2], context[0, -1]]
many = 20_000
guesses = torch.multinomial(draft, many, replacement=True)[:, None]
both = target.expand(many, 2, size)  # its second row is not looked at
written = decide(draft.expand(many, 1, size), both, guesses)[:, 0]


def far_from_target(tokens: Tensor) -> float:
    """Total variation: half the sum of what the frequencies are off."""
    shares = torch.bincount(tokens, minlength=size) / many
    return 0.5 * (shares - target).abs().sum().item()


sampled = far_from_target(torch.multinomial(target, many, replacement=True))
print(f"the target itself, drawn: {sampled:.3f}")
print(f"by way of the draft: {far_from_target(written):.3f}")
print(f"every guess accepted: {far_from_target(guesses[:, 0]):.3f}")
assert far_from_target(written) < 0.04
assert far_from_target(guesses[:, 0]) > 2 * far_from_target(written)

# %% [markdown]
# Now let it write: four guesses at a time, and one call to the target, with the cache, for all of them. Rejected
# guesses are removed from the cache again, which takes one assignment.


# %%
def guess(ids: list[int], count: int) -> tuple[Tensor, Tensor]:
    """`count` tokens (1, count) from the table, and the probabilities they were drawn
    from (1, count, V)."""
    rows, last = [], list(ids[-2:])
    for _ in range(count):
        rows.append(table[last[-2], last[-1]])
        last.append(int(torch.multinomial(rows[-1], 1)))
    return torch.tensor([last[2:]]), torch.stack(rows)[None]


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed)
calls, new_tokens = 0, 0
for code in ("#f60", "#936", "#9cf", "#063", "#ff9", "#366", "#c0c", "#930"):
    ids = encode(f"\n{code} ")[0].tolist()
    reader = Reader(model)
    reader(torch.tensor([ids[:-1]]))
    while number["\n"] not in ids[1:] and len(ids) < 28:
        tokens, draft_p = guess(ids, 4)
        seen_now = torch.cat([torch.tensor([ids[-1:]]), tokens], dim=1)
        target_p = reader(seen_now).softmax(dim=-1)  # (1, 5, V)
        new = [
            token
            for token in decide(draft_p, target_p, tokens)[0].tolist()
            if token >= 0
        ]
        ids, calls, new_tokens = ids + new, calls + 1, new_tokens + len(new)
        reader.forget(len(ids) - 1)  # the last token has not been read yet
    print("".join(letters[i] for i in ids).split("\n")[1])
print(f"{new_tokens} tokens in {calls} calls of the target")
assert 1.2 < new_tokens / calls <= 5

# %% [markdown]
# That's the gain in tokens per call. Don't expect a gain in seconds *here*: the target is so small that the guesses
# cost time as well. The gain is real where the target is large and spends its time waiting for memory.
#
# ## Take this with you · core
#
# **Keep keys and values, never queries: with a causal mask, what has been computed stays right.**
#
# You can now say what may be kept and why, write with a cache, and show that it changes nothing but the time.
#
# | | |
# | --- | --- |
# | formula | bytes = 2 · batch · layers · kv_heads · length · d_head · bytes per number |
# | shapes | new `q` `(b, h, n, d)`, all `k` `(b, g, length, d)`, mask `(n, length)`: the last query at the last key |
# | trap 1 | positions begin at 0 again after the cache |
# | trap 2 | `repeat` instead of `repeat_interleave`: 0 1 0 1, and no error anywhere |
# | trap 3 | a window that does not count the query's own key |
# | in LLaMA 3 (8B) | 32 layers, 32 heads of 128, 8 of keys and values: 128 KiB a token |
#
# **What real models do today**
#
# - Nearly all share keys in groups: LLaMA 3, Qwen, Mistral, Gemma. DeepSeek keeps one small vector for each token and
#   computes keys and values from it again (multi-head latent attention, 2024).
# - Windows are mixed: in Gemma 2 and gpt-oss every other layer has one, and the layers in between see everything.
#   Mistral 7B began with a window of 4096 in every layer, in a ring like yours.
# - Servers keep the caches of many conversations in pages of a few tokens, like an operating system's memory (vLLM,
#   2023), share the pages of a common prompt, and store numbers in 8 or 4 bits.
#
# ## Think further · more
#
# 1. A cross-attention layer reads a memory that doesn't change (lesson 04). What would you keep there, and when?
# 2. You have cached a prompt, and somebody changes its third word. How much of the cache can stay?
# 3. A batch holds prompts of different lengths, padded on the right. What goes wrong if the padding is written into the
#    cache like any other token, and what can be done?
#
# <details><summary>Answers</summary>
#
# 1. Its keys and values, once, before the first word is written: they depend on the memory alone. Nothing is ever
#    appended.
# 2. The first two positions, in all layers. (In the first layer all but the third can stay, because keys and values
#    there are made from one word each. From the second layer on, everything from the third word on has looked at the
#    changed word, directly or through others.) That's why systems cache a fixed beginning, and put whatever varies at
#    the end.
# 3. New words would attend to the padding, whose keys are as good as any, and their positions would be too high. Either
#    block these slots with a key mask forever, and give each sentence its own positions; or pad on the left; or write
#    each sentence at its own length, as servers do.
#
# </details>
#
# ## Read on · more
#
# - [Shazeer 2019](https://arxiv.org/abs/1911.02150), *Fast Transformer Decoding*: short, with the sum that shows why
#   reading the cache, and not multiplying, is what takes the time.
# - [Ainslie et al. 2023](https://arxiv.org/abs/2305.13245), GQA: how trained heads are pooled, and how little training
#   it takes afterwards.
# - [Jiang et al. 2023](https://arxiv.org/abs/2310.06825), Mistral 7B: window, ring and groups in one model.
# - [Xiao et al. 2023](https://arxiv.org/abs/2309.17453), attention sinks: look at figure 2, and ask which of its heads
#   have nothing to say.
# - [Leviathan et al. 2022](https://arxiv.org/abs/2211.17192), speculative decoding: appendix A is the proof of what you
#   have counted.
#
# **Next:** the cache is small now, but the *attention weights* of a long prompt are still a table of $n^2$ numbers: for
# 100,000 words, that's 40 GB in every head. How can you use a table without ever writing it down? That's lesson 10.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/09_fast_decoding.ipynb`.*
