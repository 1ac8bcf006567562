# %% [markdown]
# # 09 · Fast decoding: do not compute it twice
#
# A model that writes produces one token, reads everything so far again, and produces the next one. Each token costs
# more than the one before. Yet a chat model does not slow down while it answers. In this lesson you build what it does
# instead, show that not a single number changes, and then work out what it costs: memory. The rest of the lesson saves
# some of that.
#
# | | |
# | --- | --- |
# | **You will build** | a cache of keys and values, attention that uses it, shared heads, windows, a ring |
# | **You will understand** | what exactly can be kept, why, how many bytes it takes, and who pays less |
# | **You need** | the masks of lesson 05, the rotation of 07, the language model of 08; about two hours |
#
# The model that you train in a moment writes with your functions, each as soon as it passes its check.

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
from attnlib.checks import check, yours_or_ours
from attnlib.checks.your_turn import usable_number, usable_text
from attnlib.plot import ACCENT, GREY, INK, plot_mask, show, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 09_fast_decoding` runs this lesson with others
seed = 0

# %% [markdown]
# ## Watch it slow down
#
# First a model that writes: a small decoder in the manner of lesson 08, trained for a few seconds to guess the next
# character of Python's own documentation. Its queries and keys are turned by their positions (lesson 07), so the table
# of learned positions stays at zero. Biases are left out, to keep the code below short.

# %%
from pydoc_data.topics import topics

text = "\n".join(topics[name] for name in sorted(topics))
letters = sorted(set(text))
number = {letter: i for i, letter in enumerate(letters)}
encoded = torch.tensor([number[letter] for letter in text])
kept = len(encoded) * 9 // 10  # the last tenth is for tests


def pieces(
    batch: int = 16, n: int = 64, *, start: int = 0, end: int = kept
) -> tuple[Tensor, Tensor]:
    """Pieces of text (b, n), and the same pieces one letter further."""
    at = torch.randint(start, end - n - 1, (batch, 1)) + torch.arange(n + 1)
    return encoded[at][:, :-1], encoded[at][:, 1:]


# %%
def new_model(**block: int) -> attnlib.LanguageModel:
    """Two layers, four heads of 16, rotary, for up to 1024 letters."""
    made = attnlib.LanguageModel(
        len(letters), 64, 4, 2, 1024, bias=False, rotary=attnlib.Rotary(16), **block
    )
    nn.init.zeros_(made.positions.table).requires_grad_(False)
    return made


# %%
def train(model: nn.Module, steps: int, rate: float) -> nn.Module:
    """Steps of AdamW on pieces of 64 letters; the rate rises over 20 steps, then falls to 0."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    shape = lambda step: min(1, (step + 1) / 20) * (1 - step / steps)  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, shape)
    for _ in range(steps):
        ids, targets = pieces()
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model.eval()


# %%
def loss_of(model: nn.Module) -> float:
    """Mean loss per letter on the same 64 pieces of the last tenth."""
    torch.manual_seed(1000)
    ids, targets = pieces(64, start=kept, end=len(encoded))
    with torch.inference_mode():
        return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten()).item()


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed)
model = train(new_model(), 300, 6e-3)
print(
    f"loss per letter: {loss_of(model):.2f}; before training it would be {math.log(len(letters)):.2f}"
)
assert loss_of(model) < 2.4

# %% [markdown]
# Not a poet, but it will do. Now let it write the plain way: for each new letter the whole text goes through the model,
# and only the last row of the result is used.


# %%
@torch.inference_mode()
def write_plainly(ids: Tensor, num_tokens: int) -> Tensor:
    """Append the likeliest letter, again and again; ids (1, n) -> (1, n + num_tokens)."""
    for _ in range(num_tokens):
        following = model(ids)[:, -1].argmax(dim=-1, keepdim=True)
        ids = torch.cat([ids, following], dim=1)
    return ids


prompt = torch.tensor([[number[letter] for letter in "The statement is "]])
plain = write_plainly(prompt, 40)
print("".join(letters[i] for i in plain[0]))


# %%
def milliseconds(call: Callable[[], object], turns: int = 7) -> float:
    """The fastest of a few turns, in processor time: what the work takes, whatever else the machine is doing."""
    times = []
    for _ in range(turns):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return 1e3 * min(times)


# %%
# nbval-ignore-output: times differ from machine to machine
lengths = [32, 64, 128, 256, 512, 1000]
with torch.inference_mode():
    without = [milliseconds(lambda n=n: model(encoded[None, :n])) for n in lengths]
print(
    "ms for one more letter:",
    {n: round(ms, 2) for n, ms in zip(lengths, without, strict=True)},
)
assert without[-1] > 3 * without[0]

# %% [markdown]
# (Always taking the likeliest letter soon goes round in circles. Lesson 08 draws instead; here it gives a text that can
# be compared letter by letter.)
#
# And the time climbs. To write $n$ letters this way, the model reads $1 + 2 + … + n$ of them, $n(n + 1)/2$: for 512
# letters that is 131,328 instead of 512. Nearly all of it has been computed before.
#
# ## Find what is computed twice
#
# What changes in the layers when one token is added at the end? Take three words with the keys 0, $\ln 3$, 0 and the
# values 10, 20, 30, and a query of 1. (One head, one feature wide.) Then a fourth word comes, with the key $\ln 5$ and
# the value 40.
#
# | | $e^{\text{score}}$ of the three | new | sum | output |
# | --- | --- | --- | --- | --- |
# | three words | 1, 3, 1 | | 5 | (10 + 60 + 30) / 5 = 20 |
# | four words | 1, 3, 1 | 5 | 10 | (10 + 60 + 30 + 200) / 10 = 30 |
#
# The old keys are what they were, and so are the old values. Only one row is added: one query, which meets them all.
#
# ### Predict, then run: what has to be kept? ({points}, difficulty 2, 3 minutes)
#
# A decoder with a causal mask has read $n$ tokens, and token $n + 1$ comes. What do you need of the earlier tokens, in
# each layer, so that only the new one goes through the matrices?
#
# - **A**: their queries, keys and values
# - **B**: their keys and values
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
# In the second layer the keys are computed from what the first one has found. So they stay the same only if the
# *outputs* of earlier words stay the same, and for that no word may look ahead. It is the causal mask that makes a
# cache possible. Here are the keys of the second layer before and after one more word, with the mask and without it.

# %%
ids = encoded[None, 1000:1013]
kept_keys = {}
for is_causal in (True, False):
    with torch.inference_mode():
        first, second = model.blocks.layers
        longer = second.attn.w_k(
            second.norm1(first(model.embed(ids), is_causal=is_causal))
        )
        shorter = second.attn.w_k(
            second.norm1(first(model.embed(ids[:, :-1]), is_causal=is_causal))
        )
    kept_keys[is_causal] = (longer[:, :-1] - shorter).abs().max().item()
print(
    f"keys of earlier words move by {kept_keys[True]:.0e} with a causal mask, by {kept_keys[False]:.2f} without it"
)
assert kept_keys[True] < 1e-4
assert kept_keys[False] > 0.01

# %% [markdown]
# So an encoder such as BERT cannot use a cache: each new word changes what all the others have become.
#
# ## Keep the keys and the values
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
# - Return all keys and all values that the cache now holds, both `(b, h, length, d)`, old and new, without the empty
#   rest.
# - If there is no room for all $n$, raise a `ValueError`.
# - Not allowed: `attnlib.KVCache`.
#
# A model writes under `torch.inference_mode()`, so you need not think of gradients here.


# %%
def append_to_cache(cache: dict, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Append n positions (b, h, n, d), and return all keys and values so far, (b, h, length, d)."""
    ### BEGIN SOLUTION
    start, stop = cache["length"], cache["length"] + k.shape[2]
    if stop > cache["k"].shape[2]:
        raise ValueError(
            f"the cache has room for {cache['k'].shape[2]} positions, got {start} + {k.shape[2]}"
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
# A slice that goes beyond the buffer is cut off without an error, so compare `stop` with `cache["k"].shape[2]` before
# you write. Update the length, and return the slices `[:, :, :stop]`.
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
# Write `cached_attention(x, weights, cache)`: a layer of causal multi-head self-attention with rotary positions, into
# which only the *new* words go.
#
# - `x` is `(b, n, d_model)`: the new words. There may be one or several; the words before them are in the cache.
# - `weights` has four plain matrices: `w_q`, `w_k`, `w_v` of `(d_model, h·d)`, `w_o` of `(h·d, d_model)`, to be used as
#   `x @ w`. The number of heads is that of the cache, `cache["k"].shape[1]`.
# - Queries and keys are turned by their positions in the whole text, `attnlib.rotate(q, positions)`. What is in the
#   cache has been turned already.
# - Keys and values are appended to the cache. The last query is at the last key: each new word sees all that was in the
#   cache, the new words before it, and itself.
# - The result is `(b, n, d_model)`. Dtype and device as always; no gradient is asked for.
# - Not allowed: `attnlib.MultiHeadAttention`, `attnlib.KVCache`. Everything else may be used: your `append_to_cache`,
#   `attnlib.split_heads`, `attnlib.causal_mask`, `F.scaled_dot_product_attention`.


# %%
def cached_attention(x: Tensor, weights: dict[str, Tensor], cache: dict) -> Tensor:
    """New words (b, n, d_model) -> (b, n, d_model); their keys and values are in the cache afterwards."""
    ### BEGIN SOLUTION
    num_heads, start = cache["k"].shape[1], cache["length"]
    positions = torch.arange(start, start + x.shape[1], device=x.device)
    q, k, v = (
        attnlib.split_heads(x @ weights[name], num_heads)
        for name in ("w_q", "w_k", "w_v")
    )
    keys, values = append_to_cache(cache, attnlib.rotate(k, positions), v)
    mask = attnlib.causal_mask(x.shape[1], keys.shape[2], device=x.device)
    output = F.scaled_dot_product_attention(
        attnlib.rotate(q, positions), keys, values, attn_mask=mask
    )
    return attnlib.merge_heads(output) @ weights["w_o"]
    ### END SOLUTION


# %%
check("cached_attention", cached_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write it first for an empty cache: project, split into heads, turn, attend with a causal mask, merge, project. Then
# ask of each line what the cache changes. Three of them change.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The first new word is at position `cache["length"]`, read *before* you append. Keys are turned when they are written,
# and never again. The keys that you attend to are what `append_to_cache` returns.
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
# to those of attnlib's own layer. The rotation costs nothing extra, because a key is turned once, when it is written,
# and only the difference between two positions counts.

# %%
attend = yours_or_ours("cached_attention", globals())


def matrices(layer: nn.Module) -> dict[str, Tensor]:
    """The four matrices of a layer of attention, for x @ w."""
    return {
        name: getattr(layer, name).weight.detach().T
        for name in ("w_q", "w_k", "w_v", "w_o")
    }


torch.manual_seed(seed)
layer = attnlib.MultiHeadAttention(
    64, 4, bias=False, rotary=attnlib.Rotary(16), is_causal=True
)
x = torch.randn(2, 20, 64)
with torch.inference_mode():
    at_once = layer(x)
    for chunk in (1, 3, 20):
        cache = new_cache(2, 4, 20, 16)
        outputs = [
            attend(piece, matrices(layer), cache) for piece in x.split(chunk, dim=1)
        ]
        assert_close(torch.cat(outputs, dim=1), at_once, atol=1e-5, rtol=0)
        print(f"{len(outputs):2} calls with {chunk:2} words each: equal")


# %% [markdown]
# ## Write with it
#
# A model with a cache for each layer, in eight lines. Norms and MLP look at one position at a time, so they need no
# cache: for them the new words are all there is.


# %%
class CachedModel:
    """The trained model, reading new letters only: ids (b, n) -> logits (b, n, letters)."""

    def __init__(self, model: attnlib.LanguageModel, batch: int = 1, room: int = 1024):
        self.model = model
        self.matrices = [matrices(block.attn) for block in model.blocks.layers]
        self.caches = [new_cache(batch, 4, room, 16) for _ in self.matrices]

    @torch.inference_mode()
    def __call__(self, ids: Tensor) -> Tensor:
        x = self.model.embed(ids)
        for block, weights, cache in zip(
            self.model.blocks.layers, self.matrices, self.caches, strict=True
        ):
            x = x + attend(block.norm1(x), weights, cache)
            x = x + block.mlp(block.norm2(x))
        return self.model.head(self.model.blocks.norm(x))

    def forget(self, length: int) -> None:
        """Go back to the first `length` positions."""
        for cache in self.caches:
            cache["length"] = length


# %% [markdown]
# The prompt goes through in one call, and from then on one letter at a time.


# %%
def write_with_cache(ids: Tensor, num_tokens: int) -> Tensor:
    """The same as write_plainly: ids (1, n) -> (1, n + num_tokens)."""
    reader, unread = CachedModel(model), ids
    for _ in range(num_tokens):
        unread = reader(unread)[:, -1].argmax(dim=-1, keepdim=True)
        ids = torch.cat([ids, unread], dim=1)
    return ids


# %% [markdown]
# Does it compute the same? Read 150 letters one by one, and write 40.

# %%
reader = CachedModel(model)
ids = encoded[None, :150]
with torch.inference_mode():
    whole = model(ids)
step_by_step = torch.cat([reader(piece) for piece in ids.split(1, dim=1)], dim=1)
assert_close(step_by_step, whole, atol=1e-3, rtol=0)
assert torch.equal(write_with_cache(prompt, 40), plain)
print(
    f"150 letters: logits equal to {(step_by_step - whole).abs().max().item():.0e}; 40 letters written: the same"
)

# %%
# nbval-ignore-output: times differ from machine to machine
with_cache = []
for n in lengths:
    reader = CachedModel(model)
    reader(encoded[None, :n])  # the prompt: many positions in one call

    def one_more(reader: CachedModel = reader, n: int = n) -> None:
        reader.forget(n)
        reader(encoded[None, n : n + 1])

    with_cache.append(milliseconds(one_more, turns=20))
print(
    "ms with a cache:",
    {n: round(ms, 2) for n, ms in zip(lengths, with_cache, strict=True)},
)
assert with_cache[-1] < without[-1]

# %%
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(lengths, without, "s--", color=GREY, label="the whole text again")
ax.plot(lengths, with_cache, "o-", color=ACCENT, label="one letter and the cache")
ax.set(
    xlabel="letters before it",
    ylabel="ms for one more letter",
    title="The answer does not slow down",
)
ax.set_ylim(0)
ax.legend()
show(
    "Two curves of time per letter against length: without a cache it climbs with the "
    "length, with one it stays low."
)

# %% [markdown]
# The first curve climbs and the second is almost flat. Almost: the new query still meets every key, so that part does
# grow with the length. But it is one row of a product, where there used to be a whole table.
#
# That explains two things that you can observe in any chat. The wait before the first word is the *prompt*, which goes
# through in one call, all positions side by side. After that the words come at a steady pace, one call each.
#
# **Your turn.** Let the model go on from your own words, both ways. Change `mine` and `count` and run the cell.
# Double `count` a few times: which of the two times doubles with it, and which grows faster?

# %%
# nbval-ignore-output: times differ from machine to machine, and the words are yours
mine, count = "The animal did not ", 300

mine = usable_text(mine, letters, longest=1000)
# the model knows 1024 positions
count = usable_number(count, "count", 1, 1024 - len(mine))
ids = torch.tensor([[number[letter] for letter in mine]])
plainly = milliseconds(lambda: write_plainly(ids, count), turns=1)
cached = milliseconds(lambda: write_with_cache(ids, count), turns=1)
print(f"{count} letters: {plainly:.0f} ms plainly, {cached:.0f} ms with the cache")
print("".join(letters[i] for i in write_with_cache(ids, count)[0]))

# %% [markdown]
# ## Count what it costs
#
# A cache saves work and pays with memory. How much? For each position of each layer, a key and a value for every head
# that has keys. By hand, for LLaMA 2 with seven billion weights: 32 layers, 32 heads, 128 wide, two bytes a number:
#
# $$2 \cdot 32 \cdot 32 \cdot 128 \cdot 2 = 524{,}288 \text{ bytes} = \tfrac12 \text{ MiB for every token}$$
#
# At 4096 tokens that is 2 GiB for a single conversation. Its weights are about 13 GB, and they are shared by all.
#
# ### Exercise: write the bill ({points}, difficulty 1, 5 minutes)
#
# Write `cache_bytes(batch, layers, kv_heads, lengths, d_head, number_bytes)`.
#
# - `lengths` is an int64 tensor `(n,)`, so that one call gives a whole curve; the others are single integers.
# - The result is int64 `(n,)`: the bytes that all caches take together, at each of these lengths.
# - `number_bytes` is what one number takes: 2 in 16-bit formats, 4 in float32.


# %%
def cache_bytes(
    batch: int,
    layers: int,
    kv_heads: int,
    lengths: Tensor,
    d_head: int,
    number_bytes: int,
) -> Tensor:
    """Bytes of keys and values at each of the lengths, int64 (n,)."""
    ### BEGIN SOLUTION
    return 2 * batch * layers * kv_heads * lengths * d_head * number_bytes
    ### END SOLUTION


# %%
check("cache_bytes", cache_bytes)

# %%
bytes_of = yours_or_ours("cache_bytes", globals())

reader = CachedModel(model, room=300)
held = sum(cache[name].nbytes for cache in reader.caches for name in ("k", "v"))
# counted, and looked up
assert bytes_of(1, 2, 4, torch.tensor([300]), 16, 4).item() == held
models = {  # layers, heads of queries, heads of keys and values, width of a head
    "LLaMA 2 7B": (32, 32, 32, 128),
    "LLaMA 3 70B": (80, 64, 8, 128),
    "Falcon 7B": (32, 71, 1, 64),
}
at = torch.tensor([1, 4096])
for name, (layers, heads, kv_heads, width) in models.items():
    one, many = bytes_of(1, layers, kv_heads, at, width, 2).tolist()
    all_heads = bytes_of(1, layers, heads, at, width, 2)[1].item()
    print(
        f"{name:12} {kv_heads:2} of {heads} heads: {one / 1024:4.0f} KiB a token, {many / 2**30:.2f} GiB at 4096; "
        f"with {heads} heads it would be {all_heads / 2**30:.2f}"
    )

# %%
_, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, (layers, heads, kv_heads, width)), line, colour in zip(
    models.items(), (":", "--", "-"), (GREY, INK, ACCENT), strict=True
):
    counts = [count for count in range(1, heads + 1) if heads % count == 0]
    gib = [
        bytes_of(1, layers, count, at, width, 2)[1].item() / 2**30 for count in counts
    ]
    ax.plot(counts, gib, line, color=colour, linewidth=1.5, label=name)
    ax.plot(kv_heads, gib[counts.index(kv_heads)], "o", color=colour, markersize=9)
ax.set(
    xscale="log",
    yscale="log",
    xlabel="heads of keys and values",
    ylabel="GiB at 4096 tokens",
)
ax.set_xticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
ax.set_yticks([0.03125, 0.125, 0.5, 2, 8], ["1/32", "1/8", "1/2", "2", "8"])
ax.minorticks_off()
ax.set_title("Fewer heads of keys, less memory: each dot is what the model has")
ax.legend()
show(
    "Memory at 4096 tokens against the number of key heads, straight lines on "
    "logarithmic axes. LLaMA 2 7B has a dot at 32 heads and 2 GiB, LLaMA 3 70B at 8 "
    "heads and 1.25 GiB, Falcon 7B at one head and a thirty-second of a GiB."
)

# %% [markdown]
# LLaMA 3 with its seventy billion weights needs *less* than LLaMA 2 with seven. And room is not all that counts: for
# every token the whole cache is read from memory once, and reading is what takes the time. In the time it takes to read
# a number, a GPU could do hundreds of multiplications; here it does one or two.
#
# ## Share keys among heads
#
# So let several heads of queries share one head of keys and values. With one for all this is *multi-query attention*
# (Shazeer 2019); with $g$ groups it is *grouped-query attention* (Ainslie and others 2023), and there are $h/g$ heads
# in each. Neighbours share. For four heads and two groups:
#
# ```text
# head of queries     0  1  2  3
# group that it reads 0  0  1  1      i // (h / g), and not i % g
# ```
#
# ### Exercise: attend in groups ({points}, difficulty 3, 12 minutes)
#
# Write `grouped_query_attention(q, k, v)`.
#
# - `q` is `(b, h, q, d)`, `k` is `(b, g, k, d)`, `v` is `(b, g, k, d_v)`, and the result is `(b, h, q, d_v)`.
# - Head $i$ of the queries reads group $i // (h/g)$, both keys and values. The scores are scaled by
#   $1/\sqrt d$, as always. There is no mask.
# - If $g$ does not divide $h$, raise a `ValueError`. Dtype, device and gradients as always.
# - Not allowed: ready-made attention, PyTorch's or attnlib's.


# %%
def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q (b, h, q, d), k (b, g, k, d), v (b, g, k, d_v) -> (b, h, q, d_v)."""
    ### BEGIN SOLUTION
    h, g = q.shape[1], k.shape[1]
    if h % g:
        raise ValueError(
            f"the number of heads must be a multiple of the number of groups, got {h} and {g}"
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
# Give each head of queries its own copy of the keys and values that it reads. Then it is attention as you know it.
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
# trained matrices: the keys of a group are the *mean* of the keys of its heads. Then they trained a little more.
#
# ### Exercise: from heads to groups ({points}, difficulty 2, 10 minutes)
#
# Write `multi_head_to_grouped(w_k, w_v, num_heads, groups)`.
#
# - `w_k` and `w_v` are `(d_model, h·d)`, to be used as `x @ w`; the first $d$ columns are those of head 0.
# - Return both as `(d_model, g·d)`. The $d$ columns of a group are the mean of those of its $h/g$ heads, which are
#   neighbours.
# - If `groups` does not divide `num_heads`, raise a `ValueError`. As always; no gradient is asked for.


# %%
def multi_head_to_grouped(
    w_k: Tensor, w_v: Tensor, num_heads: int, groups: int
) -> tuple[Tensor, Tensor]:
    """(d_model, h * d) -> (d_model, g * d), for keys and for values."""
    ### BEGIN SOLUTION
    if num_heads % groups:
        raise ValueError(
            f"num_heads must be a multiple of groups, got {num_heads} and {groups}"
        )
    heads = (w.unflatten(-1, (groups, num_heads // groups, -1)) for w in (w_k, w_v))
    w_k, w_v = (w.mean(dim=-2).flatten(-2) for w in heads)
    return w_k, w_v
    ### END SOLUTION


# %%
check("multi_head_to_grouped", multi_head_to_grouped)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Cut the columns into heads first, `(d_model, h, d)`, then the heads into groups, `(d_model, g, h/g, d)`. Over which
# axis is the mean?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `w.unflatten(-1, (groups, num_heads // groups, -1))` does both cuts at once; `flatten(-2)` puts the groups side by
# side again.
#
# </details>

# %% [markdown]
# Is the mean any good? Two controls: take the first head of each group instead, or random matrices. Everything else in
# the model stays. Then each trains for 40 steps, an eighth of what the model has had. *Which start is best, and is the
# loss back where it was?*

# %%
# nbval-ignore-output: it says whose function is used
pool = yours_or_ours("multi_head_to_grouped", globals())


# %%
def with_groups(groups: int, how: str) -> attnlib.LanguageModel:
    """The trained model with `groups` heads of keys and values."""
    torch.manual_seed(seed)
    other = new_model(num_kv_heads=groups)
    fresh = other.state_dict()
    theirs = {
        name: t
        for name, t in model.state_dict().items()
        if fresh[name].shape == t.shape
    }
    other.load_state_dict(theirs, strict=False)
    for old, new in zip(model.blocks.layers, other.blocks.layers, strict=True):
        w_k, w_v = old.attn.w_k.weight.detach().T, old.attn.w_v.weight.detach().T
        if how == "mean":
            pooled = pool(w_k, w_v, 4, groups)
        elif how == "first head":
            pooled = [
                w.unflatten(-1, (groups, 4 // groups, -1))[:, :, 0].flatten(-2)
                for w in (w_k, w_v)
            ]
        else:
            continue
        new.attn.w_k.weight.data, new.attn.w_v.weight.data = (
            w.T.clone() for w in pooled
        )
    return other


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
losses = {}
for how in ("mean", "first head", "random"):
    torch.manual_seed(seed + 1)
    other = with_groups(2, how)
    before = loss_of(other)
    losses[how] = before, loss_of(train(other, 40, 3e-3))
    print(
        f"4 heads to 2 groups, {how:10}: loss {before:.2f}, after 40 steps {losses[how][1]:.2f}"
    )
print(f"the model itself: {loss_of(model):.2f}")

# %%
assert losses["mean"][0] < losses["random"][0]
assert losses["mean"][1] < losses["random"][1]
assert losses["mean"][1] < losses["mean"][0]
assert losses["mean"][1] < 0.5 * (losses["random"][1] + loss_of(model))

# %% [markdown]
# Random matrices are worst by far, before and after: the queries and everything after the layer were trained for the
# old heads. A few steps bring back most of what the pooling has cost, but not all. There is little between the mean and
# a single head here; in the large models of Ainslie and others the mean was best.
#
# ## Look back only so far
#
# The other factor in the bill is the length. Let each token see only the last $w$, itself included, and the cache needs
# only $w$ positions, however long the text gets.
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

# %% [markdown]
# ### Exercise: write the window ({points}, difficulty 2, 10 minutes)
#
# Write `sliding_window_mask(q_len, k_len, window)`.
#
# - The result is bool, `(q_len, k_len)`, True = may attend: each query sees its own key and the `window - 1` keys
#   before it.
# - The last query is at the last key, as in lesson 05's `causal_mask`. There may be fewer queries than keys, or more:
#   with more, the first ones see no key.
# - For a window below 1, raise a `ValueError`. A window longer than the text gives the causal mask.
# - Not allowed: `attnlib.sliding_window_mask`, `attnlib.attention_sink_mask`.


# %%
def sliding_window_mask(q_len: int, k_len: int, window: int) -> Tensor:
    """(q_len, k_len), bool, True = may attend."""
    ### BEGIN SOLUTION
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    distance = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    return (distance >= 0) & (distance < window)
    ### END SOLUTION


# %%
check("sliding_window_mask", sliding_window_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make a table of distances first, as for ALiBi: the position of the query minus that of the key. Query $i$ is at
# position $i + (k\_len - q\_len)$.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The query's own key is at distance 0. Which distances does a window of 3 allow? Two comparisons, joined by `&`.
#
# </details>

# %%
window_of = yours_or_ours("sliding_window_mask", globals())

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
    "places that reach the last one, through two layers:",
    [11 - i for i in range(12) if reached[i]],
)
assert [11 - i for i in range(12) if reached[i]] == [6, 5, 4, 3, 2, 1, 0]

# %%
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.7), layout="constrained")
plot_mask(window_of(9, 9, 4), ax=axes[0], title="A window of 4: only these are kept")
plot_mask(
    attnlib.attention_sink_mask(9, 9, 2, window=4),
    ax=axes[1],
    title="The same, and the first two",
)
reads = torch.arange(8)[:, None] // 4 == torch.arange(2)
plot_mask(reads, ax=axes[2], title="Eight heads read two groups")
axes[2].set(xlabel="groups of keys", ylabel="heads of queries", xticks=[0, 1])
for ax in axes[:2]:
    ax.get_legend().remove()
show(
    "Three tables of who may look at whom. Left a band of width 4 along the diagonal; "
    "in the middle the same band and the first two columns; on the right the first "
    "four heads read group 0 and the others group 1."
)

# %% [markdown]
# ## Go around in a ring
#
# With a window of $w$, the cache needs only $w$ slots. A new word takes the place of the oldest one: word $i$ goes to
# slot $i \bmod w$. The order in the buffer is then no longer that of the text, but that does no harm. A sum has no
# order, and each key carries its position with it, because it was turned when it was written.
#
# ### Fix: the rolling cache ({points}, difficulty 3, 8 minutes)
#
# One new word comes at a time, and its query and key have already been turned. `cache["length"]` counts all words so
# far, so it may be larger than the number of slots. The function has two mistakes. Each of them does no harm at some
# lengths, which is why a short test finds neither. Fix both.
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
# The other mistake shows *before* the ring is full. What is in a slot to which nothing has been written yet, and what
# weight does the softmax give to a score of 0?
#
# </details>

# %%
roll = yours_or_ours("mend_rolling_cache", globals(), called="rolling_attention")
q, k, v = torch.randn(3, 2, 4, 40, 16).unbind()
q, k = (attnlib.rotate(t, torch.arange(40)) for t in (q, k))
ring = new_cache(2, 4, 8, 16)
rolled = torch.cat(
    [roll(*(t[:, :, i : i + 1] for t in (q, k, v)), ring) for i in range(40)], dim=2
)
masked = attnlib.scaled_dot_product_attention(q, k, v, mask=window_of(40, 40, 8))
assert_close(rolled, masked, atol=1e-5, rtol=0)
print(
    f"40 words in a ring of {ring['k'].shape[2]} slots: equal to a full buffer with a window of 8"
)

# %% [markdown]
# ## What a window costs, and the first word
#
# Does the model read as well with a window? It was trained on 64 letters; let it read 256. Lesson 07 has shown what
# happens then: distances appear that are too large, and a window takes them away. There is a third candidate. [Xiao and
# others](https://arxiv.org/abs/2309.17453) found that large models break when the *first* few tokens leave the window,
# and run on for millions of tokens if four of them are kept forever. They called these tokens *attention sinks*. Is it
# the same here?

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(1000)
ids, targets = pieces(96, 256, start=kept, end=len(encoded))
masks = {
    "everything": attnlib.causal_mask(256, 256),
    "window of 32": window_of(256, 256, 32),
    "window of 32, first 4": attnlib.attention_sink_mask(256, 256, 4, window=32),
}
parts = {}
for name, mask in masks.items():
    with torch.inference_mode():
        logits = model.head(model.blocks(model.embed(ids), mask=mask))
        by_place = F.cross_entropy(
            logits.transpose(1, 2), targets, reduction="none"
        ).mean(dim=0)
    parts[name] = [
        by_place[a:b].mean().item() for a, b in ((0, 64), (64, 128), (128, 256))
    ]
    print(
        f"{name:22} loss at 0-63: {parts[name][0]:.2f}   64-127: {parts[name][1]:.2f}   128-255: {parts[name][2]:.2f}"
    )

# %% [markdown]
# And how much weight do the heads put on the first letter?

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
x, weights_on_first = model.embed(ids[:, :64]), []
with torch.inference_mode():
    for block in model.blocks.layers:
        # (b, h, q, k)
        _, weights = block.attn(block.norm1(x), is_causal=True, return_weights=True)
        weights_on_first += weights[:, :, 32:, 0].mean(dim=(0, 2)).tolist()
        x = block(x, is_causal=True)
print(
    "mean weight on the first letter, by head:",
    [round(weight, 3) for weight in weights_on_first],
)

# %%
assert parts["everything"][2] > parts["everything"][0] + 0.15
assert parts["window of 32"][2] < parts["window of 32"][0] + 0.1
assert parts["window of 32, first 4"][2] > parts["window of 32"][2] - 0.05  # no help
assert max(weights_on_first) < 0.25

# %% [markdown]
# The window repairs what large distances have broken, as in lesson 07. Keeping the first four letters does not help
# here, and the last line says why: no head looks at them. (They even do a little harm if they are kept at their true
# distance, which was never trained. Xiao and others count positions within the cache.) In large models it is different:
# beyond the first two layers of LLaMA 2 7B, they report, the first token gets most of the attention in nearly all
# heads, whatever it is.
#
# Why there? A softmax cannot say *nobody*: the weights add up to 1 even if there is nothing to find. A head that has
# nothing to say must put them somewhere, and the first token is the one that everybody can see. In lesson 11 you will
# watch it happen, in a model whose heads look for something that is not always there.
#
# If that is the reason, one more term in the denominator should be enough. gpt-oss has one, with a learned number in
# place of the 1:
#
# $$w_j = \frac{e^{s_j}}{1 + \sum_l e^{s_l}}$$
#
# It is a key with the score 0 and the value 0, for everyone to look at. With scores 0, $\ln 3$, 0 the weights are 1/6,
# 3/6, 1/6, and 1/6 goes to nobody. If all the scores are −5, nearly everything does.

# %%
for scores in (torch.tensor([0, math.log(3), 0]), torch.full((3,), -5.0)):
    quiet = scores.exp() / (1 + scores.exp().sum())
    with_zero = torch.cat([torch.zeros(1), scores]).softmax(dim=0)[1:]
    assert_close(quiet, with_zero, atol=1e-6, rtol=0)
    print(
        "softmax:",
        scores.softmax(dim=0).numpy().round(3),
        "  with a 1 in the denominator:",
        quiet.numpy().round(3),
    )

# %% [markdown]
# ## Let a small model guess ahead
#
# ### Stretch: accept or reject ({points}, difficulty 5, 45 minutes)
#
# With a cache, one token through a large model takes as long as five do: most of the time goes into reading the weights
# and the cache from memory. So let something cheap, the *draft*, guess five tokens, and let the large model, the
# *target*, look at all five in one call. It computes its own probabilities for each of these positions, and for one
# position more. Which guesses may stay, so that the text comes out exactly as if the target had written it?
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
# The draft is a table here: how often each letter follows each pair of letters. It knows nothing else, and costs next
# to nothing. First the proof, as far as counting can prove it: draw the next letter after one context 20,000 times, by
# way of the draft. The frequencies must be the target's. The control accepts every guess.

# %%
decide = yours_or_ours("accept", globals())
size = len(letters)
seen = encoded[:kept]
counts = torch.full((size, size, size), 0.01).flatten()
counts += torch.bincount(
    (seen[:-2] * size + seen[1:-1]) * size + seen[2:], minlength=size**3
)
table = counts.reshape(size, size, size)
table /= table.sum(dim=-1, keepdim=True)

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
torch.manual_seed(seed)
context = encoded[None, kept + 500 : kept + 540]
with torch.inference_mode():
    target = model(context)[0, -1].softmax(dim=-1)
draft = table[context[0, -2], context[0, -1]]
many = 20_000
guesses = torch.multinomial(draft, many, replacement=True)[:, None]
both = target.expand(many, 2, size)  # its second row is not looked at
written = decide(draft.expand(many, 1, size), both, guesses)[:, 0]


def far_from_target(tokens: Tensor) -> float:
    """Total variation: half the sum of what the frequencies are off."""
    return (
        0.5
        * (torch.bincount(tokens, minlength=size) / many - target).abs().sum().item()
    )


sampled = far_from_target(torch.multinomial(target, many, replacement=True))
print(
    f"the target itself, drawn: {sampled:.3f}; by way of the draft: {far_from_target(written):.3f}; ",
    end="",
)
print(f"every guess accepted: {far_from_target(guesses[:, 0]):.3f}")
assert far_from_target(written) < 0.04
assert far_from_target(guesses[:, 0]) > 2 * far_from_target(written)

# %% [markdown]
# Now let it write: four guesses at a time, and one call to the target, with the cache, for all of them. Rejected
# guesses are removed from the cache again, which takes one assignment.


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
def guess(ids: list[int], count: int) -> tuple[Tensor, Tensor]:
    """`count` letters (1, count) from the table, and the probabilities that they were drawn from (1, count, V)."""
    rows, last = [], list(ids[-2:])
    for _ in range(count):
        rows.append(table[last[-2], last[-1]])
        last.append(int(torch.multinomial(rows[-1], 1)))
    return torch.tensor([last[2:]]), torch.stack(rows)[None]


torch.manual_seed(seed)
reader, ids, calls = CachedModel(model), prompt[0].tolist(), 0
reader(prompt[:, :-1])
while len(ids) < 300:
    tokens, draft_p = guess(ids, 4)
    # (1, 5, V)
    target_p = reader(torch.cat([torch.tensor([ids[-1:]]), tokens], dim=1)).softmax(
        dim=-1
    )
    new = [
        token for token in decide(draft_p, target_p, tokens)[0].tolist() if token >= 0
    ]
    ids, calls = ids + new, calls + 1
    reader.forget(len(ids) - 1)  # the last letter has not been read yet
per_call = (len(ids) - prompt.shape[1]) / calls
print(
    f"{len(ids) - prompt.shape[1]} letters in {calls} calls of the target: {per_call:.1f} letters a call"
)
assert 1.3 < per_call <= 5

# %% [markdown]
# That is the gain in letters per call. In seconds there is none *here*: the target is so small that a call with five
# letters takes as long as a few guesses. The gain is real where the target is large and waits for its memory.
#
# ## Take this with you
#
# **Keep keys and values, never queries: with a causal mask, what has been computed stays right.**
#
# | | |
# | --- | --- |
# | formula | bytes = 2 · batch · layers · kv_heads · length · d_head · bytes of a number |
# | shapes | new `q` `(b, h, n, d)`, all `k` `(b, g, length, d)`, mask `(n, length)`: the last query at the last key |
# | trap 1 | positions begin at 0 again after the cache |
# | trap 2 | `repeat` in place of `repeat_interleave`: 0 1 0 1, and no error anywhere |
# | trap 3 | a window that does not count the query's own key |
# | in LLaMA 3 (8B) | 32 layers, 32 heads of 128, 8 of keys and values: 128 KiB a token |
#
# **What real models do today**
#
# - Nearly all share keys in groups: LLaMA 3, Qwen, Mistral, Gemma. DeepSeek keeps one small vector for each token and
#   computes keys and values from it again (multi-head latent attention, 2024).
# - Windows are mixed: in Gemma 2 and gpt-oss every other layer has one, and those between see everything. Mistral 7B
#   began with a window of 4096 in every layer, in a ring like yours.
# - Servers keep the caches of many conversations in pages of a few tokens, like an operating system's memory (vLLM,
#   2023), share the pages of a common prompt, and store numbers in 8 or 4 bits.
#
# ## Think further
#
# 1. A cross-attention layer reads a memory that does not change (lesson 04). What would you keep there, and when?
# 2. You have cached a prompt, and somebody changes its third word. How much of the cache can stay?
# 3. A batch holds prompts of different lengths, padded on the right. What goes wrong if the padding is written into the
#    cache like any other token, and what can be done?
#
# <details><summary>Answers</summary>
#
# 1. Its keys and values, once, before the first word is written: they depend on the memory alone. Nothing is ever
#    appended.
# 2. The first two positions, in all layers. From the third on everything has looked at the changed word, directly or
#    through others. That is why systems cache a fixed beginning, and put whatever varies at the end.
# 3. New words would attend to the padding, whose keys are as good as any, and their positions would be too high. Either
#    block these slots with a key mask forever, and give each sentence its own positions; or pad on the left; or write
#    each sentence at its own length, as servers do.
#
# </details>
#
# ## Read on
#
# - [Shazeer 2019](https://arxiv.org/abs/1911.02150), *Fast Transformer Decoding*: eight pages, with the sum that shows
#   why reading the cache, and not multiplying, is what takes the time.
# - [Ainslie et al. 2023](https://arxiv.org/abs/2305.13245), GQA: your `multi_head_to_grouped`, and how little training
#   it takes afterwards.
# - [Jiang et al. 2023](https://arxiv.org/abs/2310.06825), Mistral 7B: window, ring and groups in one model.
# - [Xiao et al. 2023](https://arxiv.org/abs/2309.17453), attention sinks: look at figure 2, and ask which of its heads
#   have nothing to say.
# - [Leviathan et al. 2022](https://arxiv.org/abs/2211.17192), speculative decoding: appendix A is the proof of what you
#   have counted.
#
# **Next:** the cache is small now, but the *weights* of a long prompt are still a table of $n^2$ numbers: for 100,000
# words 40 GB in every head. How can you use a table and never write it down? Lesson 10.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/09_fast_decoding.ipynb`.*
