# %% [markdown]
# # 12 · A real model: find the head that learned chemistry
#
# Two molecules go in, one comes out. Which atom went where? Chemists find out by marking atoms and measuring. A
# language model that has only ever guessed missing symbols can tell you as well, though nobody ever taught it to. In
# this lesson the code you've written since lesson 01 runs that model, with the weights other people trained and
# published. Then you find out where the knowledge is.
#
# | | |
# | --- | --- |
# | **You will build** | a published model out of your own parts, a search for the head that maps atoms, your own GPT |
# | **You will understand** | how to check somebody else's weights, and how far to believe what a head shows |
# | **You need** | heads from lesson 03, the norm and the post-LN block from 06, ablation from 11; no chemistry |
# | **Time** | core 1 hour 40 minutes, everything 2 hours 30 minutes ([symbols](00_start_here.ipynb#Symbols)) |
#
# The weights come in a small package that isn't part of this course. If it's missing, the cell that needs it tells you
# how to get it. You can check the exercises without it.

# %%
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import attnlib
from attnlib import reactions as chemistry
from attnlib.checks import check, yours_or_ours
from attnlib.checks.my_gpt import my_gpt
from attnlib.checks.your_turn import NotUsable, usable_text
from attnlib.plot import ACCENT, GREY, INK, plot_links, plot_reaction, show, use_style

use_style()
torch.set_num_threads(1)  # with matrices this small, a second thread would only wait
# `python -m benchmarks.other_seeds 12_a_real_model 0 1 2` runs this lesson with three
seed = 0

# %% [markdown]
# ## Read a reaction · core
#
# Chemists write molecules as text, in a notation called *SMILES*. Letters are atoms, in lower case if they're in an
# aromatic ring like benzene's. Hydrogens are mostly left out, `=` is a double bond, parentheses hold a branch, and two
# equal digits close a ring. Acetic acid is `CC(=O)O`, and alcohol (ethanol to chemists) is `CCO`. A dot separates
# molecules, and `>>` what goes in from what comes out. Here's how acid and alcohol become an ester:

# %%
ester = "CC(=O)O.CCO>>CCOC(C)=O"
print(chemistry.tokens(ester))

# %% [markdown]
# And here's another one, drawn. An acid and an amine make an amide. Textbooks say which bonds break and which form, so
# it's known which atom became which. In the drawing they have the same number. By the end of this lesson, a head will
# have told you the same.

# %%
amide = "CCC(=O)O.NCc1ccccc1>>CCC(=O)NCc1ccccc1"
known = next(r for r in chemistry.reactions() if r.text == amide)


def symbols_of(reaction: chemistry.Reaction) -> list[str]:
    """The elements of all atoms, in the order of the text."""
    kinds = [chemistry.element(token) for token in chemistry.tokens(reaction.text)]
    return [kind for kind in kinds if kind]


taken = []
for right in known.origins:  # of two atoms that nobody can tell apart, the next one
    taken.append(next(atom for atom in right if atom not in taken))
_, ax = plt.subplots(figsize=(9.6, 3.6), layout="constrained")
plot_reaction(known.points, known.bonds, symbols_of(known), taken, ax=ax)
ax.set_title("Which atom went where: the textbook's answer")
show(
    "Two molecules, an arrow, and their product. Each atom of the product has the same "
    "number and colour as the atom on the left it came from; one oxygen on the left "
    "has none."
)

# %% [markdown]
# One oxygen on the left has no number: it leaves, as water.
#
# The model reads such texts and was trained on one task, which BERT made famous. Some tokens are replaced by `[MASK]`,
# and the model has to say what was there. It isn't causal, so every token sees both sides. It's an
# [ALBERT](https://arxiv.org/abs/1909.11942) that [Schwaller and others](https://doi.org/10.1126/sciadv.abe4166) trained
# on reactions from patents, and the heart of RXNMapper, their program for mapping atoms. Which atom becomes which was
# never part of the model's task.
#
# ### Predict, then run: what it takes to fill in atoms ({points}, difficulty 1, 3 minutes)
#
# Every second atom of the *product* is masked. What must a model find out to fill in nearly all of them?
#
# - **A**: which atom is the most common; carbon is always a good guess
# - **B**: how much energy each bond holds, to see which one is likely to form
# - **C**: which atoms on the left went into the product and are still missing
# - **D**: how SMILES is spelled, so that all brackets and rings are closed

# %%
### BEGIN SOLUTION
needed_claim = "C"
### BEGIN STUB
# needed_claim = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_what_is_needed", needed_claim)

# %% [markdown]
# ## Apply one block twelve times · core
#
# Lesson 06 stacked blocks, each with weights of its own. ALBERT has *one* block, and every layer uses it again:
#
# $$x \leftarrow \mathrm{norm}_1(x + \mathrm{attn}(x)), \qquad x \leftarrow \mathrm{norm}_2(x + \mathrm{mlp}(x))$$
#
# That's post-LN, as in the 2017 paper, which lesson 06 left behind for good reasons. To get the published numbers,
# you have to take the published form, down to the last constant. Sharing cuts the layers' weights to a twelfth, but it
# doesn't cut the work: all twelve layers still compute.
#
# Count by hand. With $D = 256$ and an MLP of 512, attention has $4(D^2 + D)$ weights and the MLP $2 \cdot 512 D + 512 +
# D$. The two norms have $2D$ each. Together that's 527,104, and it serves all twelve layers.

# %%
D, d_hidden = 256, 512
by_hand = 4 * (D**2 + D) + 2 * d_hidden * D + d_hidden + D + 2 * 2 * D
print(f"{by_hand:,} weights with one shared block, {12 * by_hand:,} with twelve")
assert by_hand == 527_104

# %% [markdown]
# ### Exercise: one block, used again and again ({points}, difficulty 3, 15 minutes)
#
# Write the module `SharedEncoder(d_model, num_heads, d_hidden, depth)` with `forward(x)`.
#
# - Its layers are `norm1`, `attn`, `norm2` and `mlp`, each of them once. `norm1` and `norm2` have an eps of 1e-12.
# - `attn` can be `attnlib.MultiHeadAttention(d_model, num_heads)`, which returns its weights as well if you call it
#   with `return_weights=True`. `Heads(d_model, num_heads)` from the cell below is your attention from lesson 03 and
#   always returns both. `Norm(d_model, eps=1e-12)` is your layer norm from 06. `mlp` can be
#   `attnlib.FeedForward(d_model, d_hidden)`, with the exact GELU. Other modules are just as good, as long as their
#   layers have the same names.
# - Return `x` after `depth` rounds, `(b, n, d_model)`, and the attention weights of all rounds, `(b, depth, h, n, n)`.
# - Not allowed: whole blocks, `attnlib`'s or PyTorch's.

# %%
# nbval-ignore-output: it says whose functions are used
Heads = yours_or_ours("MultiHeadSelfAttention", globals())
normalise = yours_or_ours("layer_norm", globals())


class Norm(nn.LayerNorm):
    """The gain, the bias and the eps of nn.LayerNorm, and your own function."""

    def forward(self, x: Tensor) -> Tensor:
        return normalise(x, self.weight, self.bias, self.eps)


# %%
class SharedEncoder(nn.Module):
    """One post-LN block, applied `depth` times -> x, weights (b, depth, h, n, n)."""

    def __init__(self, d_model: int, num_heads: int, d_hidden: int, depth: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.depth = depth
        self.attn = Heads(d_model, num_heads)
        self.norm1 = Norm(d_model, eps=1e-12)
        self.norm2 = Norm(d_model, eps=1e-12)
        self.mlp = attnlib.FeedForward(d_model, d_hidden)
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        seen = []
        for _ in range(self.depth):
            found, weights = self.attn(x)
            x = self.norm1(x + found)
            x = self.norm2(x + self.mlp(x))
            seen.append(weights)
        return x, torch.stack(seen, dim=1)
        ### END SOLUTION


# %%
check("SharedEncoder", SharedEncoder)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `__init__` makes the four layers and remembers `depth`. The loop is in `forward`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Each round ends with the `x` that the next one starts from. Collect the weights in a list, and give them a new axis
# after the batch with `torch.stack`.
#
# </details>

# %% [markdown]
# ## Load somebody else's weights · core
#
# Here's the file. Its tensors have the names its authors gave them.

# %%
published = chemistry.published_weights()
for name, tensor in list(published.items())[5:14]:
    short = name.removeprefix("albert.encoder.albert_layer_groups.0.")
    print(f"{short:42} {tuple(tensor.shape)}")

# %% [markdown]
# Which is which? `query`, `key` and `value` are clear, and `attention.dense` is $W^O$. `ffn` and `ffn_output` are the
# two matrices of the MLP. The norm around attention is called `attention.LayerNorm`, and the one at the end of the
# block `full_layer_layer_norm`. The block's names all begin with
# `albert.encoder.albert_layer_groups.0.albert_layers.0.`
#
# Now look at the shapes. Four matrices are 256 × 256. If you swap two of them, or transpose one, *nothing raises*.
#
# ### Exercise: put each weight in its place ({points}, difficulty 3, 15 minutes)
#
# Write `load_encoder(encoder, weights, x)`.
#
# - `encoder` is a `SharedEncoder`, with the layers `norm1`, `attn.w_q`, `attn.w_k`, `attn.w_v`, `attn.w_o`, `norm2`,
#   `mlp.up` and `mlp.down`. `weights` is a dictionary from the published names to tensors, and has others as well.
# - Each of the eight layers gets its `weight` and its `bias`. The file keeps a linear layer as PyTorch does, (out, in).
# - Return what the encoder then makes of `x`: both of its results. The file's tensors stay as they are, and no gradient
#   is asked for.


# %%
def load_encoder(
    encoder: nn.Module, weights: dict[str, Tensor], x: Tensor
) -> tuple[Tensor, Tensor]:
    """Put the published weights into the encoder, and run it on x."""
    ### BEGIN SOLUTION
    at = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    names = {
        "attn.w_q": "attention.query",
        "attn.w_k": "attention.key",
        "attn.w_v": "attention.value",
        "attn.w_o": "attention.dense",
        "norm1": "attention.LayerNorm",
        "mlp.up": "ffn",
        "mlp.down": "ffn_output",
        "norm2": "full_layer_layer_norm",
    }
    own = {}
    for ours, theirs in names.items():
        for kind in ("weight", "bias"):
            own[f"{ours}.{kind}"] = weights[f"{at}{theirs}.{kind}"]
    encoder.load_state_dict(own)
    return encoder(x)
    ### END SOLUTION


# %%
check("load_encoder", load_encoder)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with a table of names, theirs beside ours. A loop over it does the rest.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `module.load_state_dict(own)` takes a dictionary from the module's names to tensors, copies them, and raises if one is
# missing or unknown. `list(encoder.state_dict())` prints the names it wants.
#
# </details>

# %% [markdown]
# Now put the model together. Around the encoder there's a table of 591 tokens and one of 512 positions, both only 128
# wide, a norm, a layer that widens 128 to 256, and at the end the way back: a layer that narrows 256 to 128, a norm,
# and the logits. `attnlib` has these parts. The encoder in the middle is yours, if it passed its check. The model's
# logits, and all 96 tables of attention weights, must match those of `attnlib`'s own model. Rounding errors grow over
# twelve layers, so compare in float64.

# %%
# nbval-ignore-output: it says whose functions are used
Encoder = yours_or_ours("SharedEncoder", globals())
load = yours_or_ours("load_encoder", globals())

number = chemistry.vocabulary()
reference, model = chemistry.reaction_model(), chemistry.reaction_model()
model.encoder = Encoder(256, 8, 512, 12)
load(model.encoder, published, torch.zeros(1, 1, 256))
for each in (model, reference):
    each.eval().requires_grad_(False)
print(f"{sum(w.numel() for w in model.parameters()):,} weights")


# %%
def read(text: str) -> Tensor:
    """The ids (n,) of a reaction's tokens."""
    return torch.tensor([number[token] for token in chemistry.tokens(text)])


logits, tables = model.double()(read(ester)[None], return_weights=True)
expected, their_tables = reference.double()(read(ester)[None], return_weights=True)
print("12 layers of 8 heads:", tuple(tables.shape))
assert_close(logits, expected, atol=1e-5, rtol=0)
assert_close(tables, their_tables, atol=1e-5, rtol=0)
model, reference = model.float(), reference.float()

# %% [markdown]
# ## Ask it to fill in the gaps · core
#
# The model's only task was to fill in what's missing. So ask it to.
#
# ### Exercise: fill in a masked token ({points}, difficulty 2, 10 minutes)
#
# Write `fill_in(model, ids, position, k, mask_id)`.
#
# - `ids` is `(n,)`, and stays as it is. The model takes `(b, n)` and returns logits `(b, n, vocab)`.
# - While the token at `position` is masked, which `k` tokens are likeliest there? Return their ids `(k,)`, the
#   likeliest first, and their probabilities `(k,)`, out of the whole vocabulary. No gradients are needed.


# %%
def fill_in(
    model: nn.Module, ids: Tensor, position: int, k: int, mask_id: int
) -> tuple[Tensor, Tensor]:
    """The k likeliest tokens at a position that is masked, and how likely they are."""
    ### BEGIN SOLUTION
    masked = ids.clone()
    masked[position] = mask_id
    chances = model(masked[None])[0, position].softmax(dim=-1)
    top = chances.topk(k)
    return top.indices, top.values
    ### END SOLUTION


# %%
check("fill_in", fill_in)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Lesson 08's model predicted the *next* token, from what came before. This one predicts the token that's masked, so its
# guess is at the same position.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `ids.clone()` makes a copy to write into, and `masked[None]` a batch of one. `topk` returns values and indices.
#
# </details>

# %%
# nbval-ignore-output: it says whose functions are used
fill = yours_or_ours("fill_in", globals())
names = {i: token for token, i in number.items()}
MASK = number["[MASK]"]
text = chemistry.tokens(ester)
for place in (text.index(">>") + 3, len(text) - 2):
    found, chances = fill(model, read(ester), place, 3, MASK)
    guesses = [
        f"{names[i]} {p:.2f}" for i, p in zip(found.tolist(), chances, strict=True)
    ]
    print(f"token {place}, {text[place]!r}, masked:", ", ".join(guesses))
    assert names[found[0].item()] == text[place]

# %% [markdown]
# Is that knowledge, or spelling? Mask every second atom of the product, and as the control hide the left side. For this
# and everything after it there are 144 reactions of six textbook kinds. They were made from templates, so it's known
# where each atom comes from. Results are printed for each third of them, to show whether they hold in all three. (The
# templates leave out what a chemist would add to the flask, such as the reducing agent, and whatever comes out besides
# the product, such as water or hydrogen bromide. And one origin is a convention: in the flask, an acid's two oxygens
# trade roles. The templates say that the OH leaves and the =O stays.)

# %%
every = [r for r in chemistry.reactions() if "respelled" not in r.kind]
thirds = [every[i::3] for i in range(3)]
for kind in dict.fromkeys(reaction.kind for reaction in every):
    print(f"{kind:20}", next(r.text for r in every if r.kind == kind))


# %%
def filled(some: list, model, hide_left: bool = False) -> tuple[float, float]:
    """The shares of all atoms, and of those but carbon, filled in, half at a time."""
    right, carbon = [], []
    for reaction in some:
        ids, text = read(reaction.text), chemistry.tokens(reaction.text)
        after = torch.tensor(chemistry.atoms(text)[1])
        half = (torch.arange(len(after)) + torch.arange(2)[:, None]) % 2 == 0
        row, atom = half.nonzero().T
        masked = ids.repeat(2, 1)
        if hide_left:
            masked[:, 1 : text.index(">>")] = MASK
        masked[row, after[atom]] = MASK
        guesses = model(masked)[row, after[atom]].argmax(dim=-1)
        right.append(guesses == ids[after[atom]])
        carbon += [chemistry.element(text[i]) == "C" for i in after[atom]]
    right, carbon = torch.cat(right).float(), torch.tensor(carbon)
    return right.mean().item(), right[~carbon].mean().item()


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
ORDINALS = ("first", "second", "last")
some = [third[::2] for third in thirds]  # every second reaction, to save time
whole = [filled(third, model) for third in some]
blind = [filled(third, model, hide_left=True) for third in some]
for name, seen, hidden in zip(ORDINALS, whole, blind, strict=True):
    print(f"{name} third: {seen[0]:.1%} of the atoms, ", end="")
    print(f"{hidden[0]:.1%} with the left hidden; without the carbons ", end="")
    print(f"{seen[1]:.1%}, {hidden[1]:.1%}")
    assert seen[0] > 0.97
    assert 0.8 < hidden[0] < 0.9
    assert seen[1] > 0.95
    assert 0.3 < hidden[1] < 0.6
texts = [chemistry.tokens(reaction.text) for reaction in every]
made = [text[i] for text in texts for i in chemistry.atoms(text)[1]]
commonest = max(set(made), key=made.count)
print(f"saying {commonest} every time: {made.count(commonest) / len(made):.1%}")
assert made.count(commonest) / len(made) < 0.55

# %% [markdown]
# So spelling alone goes a long way. (Saying the most common token every time would get only about half of the atoms
# right.) A model that fills in 85 % needn't know anything about the reaction. To get nearly all of them it needs the
# left side, above all for atoms other than carbon, because spelling alone gets only about half of those right. So the
# model looks across the arrow. Where in the model does that happen?
#
# ## Load it wrong, and see who notices · more
#
# Before you look, a word about trust. Everything from here on depends on the weights being in the right places, and
# you've seen that nothing raises if they aren't. Would you at least *notice*? Spoil `attnlib`'s copy of the model in
# six ways, each of them an easy slip, and ask two questions about each copy. After which layer does it differ from the
# right one by more than a thousandth? And how many atoms does it fill in?


# %%
def exchanged(copy: nn.Module) -> None:
    """The query layer computes the keys, and the key layer the queries."""
    attn = copy.encoder.attn
    attn.w_q, attn.w_k = attn.w_k, attn.w_q


def turned(copy: nn.Module) -> None:
    """The output's matrix is transposed."""
    weight = copy.encoder.attn.w_o.weight
    weight.copy_(weight.T.clone())


def without_bias(copy: nn.Module) -> None:
    """The queries have no bias."""
    copy.encoder.attn.w_q.bias.zero_()


def without_kind(copy: nn.Module) -> None:
    """BERT's third table says which of two texts a token is in; it's left out."""
    kinds = published["albert.embeddings.token_type_embeddings.weight"]
    copy.positions.weight.sub_(kinds[0])


def another_gelu(copy: nn.Module) -> None:
    """The GELU is GPT-2's, by tanh."""
    mlp = attnlib.FeedForward(D, d_hidden, activation="gelu_tanh").requires_grad_(False)
    mlp.load_state_dict(copy.encoder.mlp.state_dict())
    copy.encoder.mlp = mlp


def another_eps(copy: nn.Module) -> None:
    """The norms have PyTorch's eps, 1e-5."""
    for module in copy.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5


def after_each_layer(copy: nn.Module, ids: Tensor) -> Tensor:
    """What goes into the first layer, and what comes out of each (13, n, d_model)."""
    noted = []

    def note(_module, _inputs, output) -> None:
        noted.append(output[0])

    with (
        copy.widen.register_forward_hook(note),
        copy.encoder.norm2.register_forward_hook(note),
    ):
        copy(ids[None])
    return torch.stack(noted)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
right_steps = after_each_layer(reference, read(ester))
apart, atoms_right = {}, {}
fewer = [third[::2] for third in some]
unspoilt = [filled(third, reference)[0] for third in fewer]
unseeing = [filled(third, reference, hide_left=True)[0] for third in fewer]
for spoil in (exchanged, turned, without_bias, without_kind, another_gelu, another_eps):
    copy = chemistry.reaction_model().requires_grad_(False)
    spoil(copy)
    steps = after_each_layer(copy, read(ester))
    apart[spoil.__name__] = (steps - right_steps).abs().amax(dim=(1, 2))
    atoms_right[spoil.__name__] = [filled(third, copy)[0] for third in fewer]
    shares = ", ".join(f"{share:.1%}" for share in atoms_right[spoil.__name__])
    print(f"{spoil.__name__:13} {shares}")
print("as published ", ", ".join(f"{share:.1%}" for share in unspoilt))
print("and left hidden", ", ".join(f"{share:.1%}" for share in unseeing))
for third in range(3):
    assert atoms_right["exchanged"][third] < unseeing[third] - 0.05
    assert atoms_right["turned"][third] < 0.4
    for name in ("without_bias", "without_kind", "another_gelu", "another_eps"):
        assert abs(atoms_right[name][third] - unspoilt[third]) < 0.015
assert min(apart["exchanged"][1], apart["turned"][1]) > 1
assert min(apart["without_bias"].max(), apart["without_kind"].max()) > 1
assert apart["another_gelu"][1] < 0.01 < apart["another_gelu"][-1]
assert 1e-3 < apart["another_eps"].max() < 0.01

# %%
_, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
styles = ("-", "-", "-", "-", "--", ":")
by_end = sorted(apart.items(), key=lambda pair: -pair[1][-1])
height = 2.0
for (name, curve), style in zip(by_end, styles, strict=True):
    loud = name in ("exchanged", "turned")
    colour = ACCENT if loud else INK
    ax.plot(curve.clamp(min=1e-6), style, color=colour, marker=".", lw=1.2)
    label = f"{name}: {sum(atoms_right[name]) / 3:.0%} of atoms"
    height = min(curve[-1].log10().item(), height - 0.5)  # labels don't overlap
    ax.annotate(label, (12.2, 10**height), color=colour, va="center", fontsize=8)
ax.axhline(1e-3, color=GREY, lw=0.8)
ax.set_yscale("log")
ax.set(xlabel="layer", ylabel="largest difference", xlim=(0, 17.5))
ax.set_xticks(range(13), ["in", *range(12)])
ax.set_title("Four of six mistakes cost less than one atom in fifty")
show(
    "Six curves of the largest difference from the right model, before the first layer "
    "and after each of twelve. Exchanged and turned matrices are far off from the "
    "first layer on; a forgotten bias and a forgotten table come close to them; "
    "another GELU starts at a thousandth and grows; another eps stays below that, and "
    "passes the thousandth only near the end."
)

# %% [markdown]
# Two of the six are loud: they fill in fewer atoms than the right model does with the left side hidden. The other four
# fill in as many as the right model, to within 1.5 percentage points. A score at the end can't tell a right model
# from a nearly right one. A known result for the same input can: print the largest difference after each layer, and
# look for the *first* one that's more than rounding. The mistake is right before it.
#
# ### Fix: the input of the first layer ({points}, difficulty 3, 10 minutes)
#
# The function below reads the tables in front of the encoder. It has two mistakes, both of the silent kind. One of the
# two was in [Keras' own BERT](https://github.com/keras-team/keras-hub/issues/642), inside its layers, and in
# [GPT4All's](https://github.com/nomic-ai/gpt4all/pull/1946).
#
# - `weights` has the published names. `ids` is `(b, n)`, and the result is what the first layer reads, `(b, n,
#   d_model)`.
# - ALBERT adds *three* tables: the word's, the position's, and one that says which of two texts the token belongs to.
#   A reaction is a single text, so it's always number 0. Then there's a norm, and a layer that widens.
# - No gradient is needed.


# %%
def read_tables(weights: dict[str, Tensor], ids: Tensor) -> Tensor:
    """Ids (b, n) -> the first layer's input (b, n, d_model)."""
    words = weights["albert.embeddings.word_embeddings.weight"][ids]
    places = weights["albert.embeddings.position_embeddings.weight"]
    ### BEGIN SOLUTION
    kinds = weights["albert.embeddings.token_type_embeddings.weight"]
    x = words + places[: ids.shape[1]] + kinds[0]
    ### BEGIN STUB
    # x = words + places[: ids.shape[1]]
    ### END SOLUTION
    gain = weights["albert.embeddings.LayerNorm.weight"]
    bias = weights["albert.embeddings.LayerNorm.bias"]
    ### BEGIN SOLUTION
    x = F.layer_norm(x, gain.shape, gain, bias, eps=1e-12)
    ### BEGIN STUB
    # x = F.layer_norm(x, gain.shape, gain, bias)
    ### END SOLUTION
    wider = "albert.encoder.embedding_hidden_mapping_in"
    return F.linear(x, weights[f"{wider}.weight"], weights[f"{wider}.bias"])


# %%
check("mend_tables", read_tables)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Print the names in `published` that begin with `albert.embeddings`. Which of them isn't used?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `F.layer_norm` has an eps of its own if you give it none. The smaller the variance, the more it matters what's added
# to it, and the numbers in these tables are small.
#
# </details>

# %%
# nbval-ignore-output: it says whose functions are used
into_the_first = yours_or_ours("mend_tables", globals(), called="read_tables")
mended = into_the_first(published, read(ester)[None])[0]
print(f"largest difference: {(mended - right_steps[0]).abs().max():.0e}")
assert_close(mended, right_steps[0], atol=1e-5, rtol=0)

# %% [markdown]
# ## Turn a heat map into an answer · core
#
# You have 96 tables of attention weights for each reaction. Take one. An atom of the product may look at the atom it
# came from, or that atom may look at it, so add both directions. An oxygen can't have been a carbon, so other elements
# are out. Then each atom of the product has a row of numbers, and the largest is the head's answer.
#
# By hand: atoms `C`, `C`, `O` before the arrow, `O` and `C` after it. The new carbon gives them 0.2, 0.4, 0.1, and gets
# 0.5, 0, 0.1 from them. Together that's 0.7, 0.4, 0.2. Without the oxygen it's 0.7 and 0.4, divided by 1.1: 0.64 and
# 0.36. So the head says it was the first carbon, and isn't very sure.
#
# ### Exercise: where did each atom come from? ({points}, difficulty 4, 20 minutes)
#
# Write `atom_map(weights, before, after, elements)`.
#
# - `weights` is `(…, n, n)`, a table or many. `before` `(r,)` and `after` `(p,)` say where the atoms are in the text.
#   `elements` `(n,)` has a number for each token's element.
# - Return `origins` `(…, p)`, int64: for each atom after the arrow the index *in* `before` of the atom it came from.
#   Where no atom on the left has its element, it's −1. Where two are equal, either is right.
# - And return `shares` `(…, p, r)`: both directions added, other elements 0, each row divided by its sum. Without a
#   partner the row is 0. No gradients are needed.


# %%
def atom_map(
    weights: Tensor, before: Tensor, after: Tensor, elements: Tensor
) -> tuple[Tensor, Tensor]:
    """Origins (…, p) of the product's atoms, and the shares of attention (…, p, r)."""
    ### BEGIN SOLUTION
    asks = weights[..., after, :][..., before]
    is_asked = weights[..., before, :][..., after].mT
    same = elements[after][:, None] == elements[before]
    both = (asks + is_asked) * same
    total = both.sum(dim=-1, keepdim=True)
    shares = both / total.masked_fill(total == 0, 1)
    origins = shares.argmax(dim=-1).masked_fill(~same.any(dim=-1), -1)
    return origins, shares
    ### END SOLUTION


# %%
check("atom_map", atom_map)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `weights[..., after, :][..., before]` are the rows of the product's atoms and the columns of those on the left. The
# other direction has the rows of the left, and has to be transposed.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `elements[after][:, None] == elements[before]` is `(p, r)`. Multiply by it before you divide.
#
# </details>
# <details><summary>Hint 3</summary>
#
# A row without a partner sums to 0, and 0 / 0 is NaN. Divided by `total.masked_fill(total == 0, 1)`, it stays 0.
#
# </details>

# %%
# nbval-ignore-output: it says whose functions are used
map_atoms = yours_or_ours("atom_map", globals())


def places(text: str) -> tuple[Tensor, Tensor, Tensor]:
    """Where a reaction's atoms are, before and after the arrow, and all elements."""
    found = chemistry.tokens(text)
    before, after = chemistry.atoms(found)
    kinds = [chemistry.element(token) for token in found]
    known = sorted(set(kinds))
    elements = torch.tensor([known.index(kind) for kind in kinds])
    return torch.tensor(before), torch.tensor(after), elements


def maps_of(text: str, model: nn.Module) -> tuple[Tensor, Tensor]:
    """What each head says of a reaction: origins (12, 8, p), shares (12, 8, p, r)."""
    tables = model(read(text)[None], return_weights=True)[1][0]
    return map_atoms(tables, *places(text))


# %% [markdown]
# ## Find the head · core
#
# Now ask all 96. Is there one that's right? And right compared with what? A head that knows nothing still guesses among
# the atoms of the same element. And some atoms have several right answers: turn a ring like the one in `NCc1ccccc1`
# over, and nobody can tell its two sides apart. So measure, for comparison, what guessing gets.
#
# ### Exercise: which head is it? ({points}, difficulty 3, 20 minutes)
#
# Write `find_head(origins, truths, partners)`. Each is a list with an entry for every reaction.
#
# - `origins`: `(depth, h, p)`, what each head says, from `atom_map`. `truths`: `(p, r)`, True where an origin is right,
#   perhaps several for an atom. `partners`: `(p, r)`, True where the element is the same.
# - Return `hits` `(depth, h)`, float32: the share of *all* atoms, of all reactions together, that a head gets right.
#   An origin of −1 is never right.
# - Return `chance`, a tensor without axes, float32: the same share for a guess at random among the partners. Without
#   a partner it's 0.
# - Return the layer and the head of the largest hit, `(2,)`, int64.


# %%
def find_head(
    origins: list[Tensor], truths: list[Tensor], partners: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """How often each head is right, what guessing gets, and which head is best."""
    ### BEGIN SOLUTION
    right, guessed = [], []
    for origin, truth, partner in zip(origins, truths, partners, strict=True):
        found = truth[torch.arange(len(truth)), origin]
        right.append(found & (origin >= 0))
        possible = partner.sum(dim=1).clamp(min=1)
        guessed.append((truth & partner).sum(dim=1) / possible)
    hits = torch.cat(right, dim=-1).float().mean(dim=-1)
    layer, head = divmod(hits.argmax().item(), hits.shape[1])
    return hits, torch.cat(guessed).mean(), torch.tensor([layer, head])
    ### END SOLUTION


# %%
check("find_head", find_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For one reaction, `truth[torch.arange(p), origin]` looks up for each atom whether its origin is right. With an
# `origin` of `(depth, h, p)` the result has that shape as well. What does index −1 look up?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Join the atoms of all reactions on the last axis with `torch.cat`, then take the mean. A mean of means would count
# short reactions as much as long ones.
#
# </details>

# %%
# nbval-ignore-output: it says whose functions are used
search = yours_or_ours("find_head", globals())


def truth_of(reaction: chemistry.Reaction) -> Tensor:
    """(p, r), True where an origin is right."""
    before, after, _ = places(reaction.text)
    truth = torch.zeros(len(after), len(before), dtype=torch.bool)
    for atom, right in enumerate(reaction.origins):
        truth[atom, list(right)] = True
    return truth


def search_in(some: list, model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """Your search, on these reactions."""
    partners = []
    for reaction in some:
        before, after, elements = places(reaction.text)
        partners.append(elements[after][:, None] == elements[before])
    origins = [maps_of(reaction.text, model)[0] for reaction in some]
    return search(origins, [truth_of(reaction) for reaction in some], partners)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
hits, chance, best = search_in(every, model)
print(f"all {len(every)} reactions: layer {best[0]}, head {best[1]}, ", end="")
print(f"{hits.max():.1%} of the atoms; chance {chance:.1%}")
for name, third in zip(ORDINALS, thirds, strict=True):
    theirs, luck, (layer, head) = search_in(third, model)
    others = theirs[:, [h for h in range(8) if h != 5]]
    print(f"{name} third: layer {layer}, head {head}, {theirs.max():.1%}; ", end="")
    print(f"any other head at most {others.max():.1%}; chance {luck:.1%}")
    assert head == 5
    assert theirs[5:, 5].min() > 0.88
    assert others.max() < 0.8
    assert luck < 0.25
assert best[1] == 5
assert hits[5:, 5].min() > 0.9
near_chance = hits[:, [0, 3, 4, 6, 7]]
print(f"five of the others: at most {near_chance.max():.1%}")
assert near_chance.max() < chance + 0.05
assert hits[2:, 5].min() > 0.8
assert hits[:, 1].max() < 0.5 < hits[:, 2].max() < 0.75

# %%
_, ax = plt.subplots(figsize=(6.4, 5.0), layout="constrained")
drawn = ax.imshow(hits, cmap="Blues", vmin=0, vmax=1)
for layer in range(12):
    for head in range(8):
        colour = "white" if hits[layer, head] > 0.6 else INK
        ax.text(
            head,
            layer,
            f"{hits[layer, head]:.2f}",
            color=colour,
            ha="center",
            va="center",
            fontsize=7.5,
        )
ax.set(xlabel="head", ylabel="layer", xticks=range(8), yticks=range(12))
ax.set_aspect("auto")
ax.set_title(f"One head knows where atoms come from (chance: {chance:.2f})")
plt.colorbar(drawn, ax=ax, label="share of the product's atoms")
show(
    "A table of 12 layers and 8 heads. The column of head 5 is dark from layer 2 on, "
    "above 0.9 in the later layers; head 2 reaches 0.7, head 1 less than 0.5, and the "
    "other five stay near chance."
)

# %% [markdown]
# One column stands out. Head 5 is right about more than nine atoms in ten, in each of the later layers. All layers
# share their weights, so it's one head, and it needs a few rounds to get there. Five of the eight heads do hardly
# better than guessing.
#
# Could that come from the architecture alone, or from the way we measure? Shuffle the numbers inside each matrix. Sizes
# and spread stay the same, but what was learned in them is gone.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
for i, (name, third) in enumerate(zip(ORDINALS, thirds, strict=True)):
    torch.manual_seed(seed + i)  # another model for each third
    shuffled = chemistry.reaction_model().requires_grad_(False)
    for weight in shuffled.parameters():
        if weight.dim() == 2:
            order = torch.randperm(weight.numel())
            weight.copy_(weight.flatten()[order].view_as(weight))
    theirs, luck, _ = search_in(third, shuffled)
    print(f"{name} third, shuffled: {theirs.mean():.1%}, the best head ", end="")
    print(f"{theirs.max():.1%}; chance {luck:.1%}")
    assert theirs.max() < luck + 0.12
    assert (theirs.mean() - luck).abs() < 0.05

# %% [markdown]
# Shuffled, no head gets far from chance. So what head 5 knows was learned.
#
# Here's what it says about a single reaction, one of those it gets all right. The later layers hardly differ. From here
# on we use layer 10, because layer 10, head 5 is what the authors' own package reads. Each atom of the product has the
# number of the atom it came from, and the surer the head, the wider the link.

# %%
LAYER, HEAD = 10, 5


def all_right(reaction: chemistry.Reaction) -> bool:
    """Is each atom mapped to a right one, and no two to the same?"""
    said = maps_of(reaction.text, model)[0][LAYER, HEAD].tolist()
    right = zip(said, reaction.origins, strict=True)
    return all(i in among for i, among in right) and len(set(said)) == len(said)


head_says = next(r for r in every if r.points and r.kind != "ester" and all_right(r))
origins, shares = (each[LAYER, HEAD] for each in maps_of(head_says.text, model))

# %% tags=["picture:reaction.png"]
_, ax = plt.subplots(figsize=(9.6, 4.2), layout="constrained")
symbols = symbols_of(head_says)
plot_reaction(
    head_says.points, head_says.bonds, symbols, origins.tolist(), shares, ax=ax
)
ax.set_title("Which atom went where, read off one head")
show(
    "Two molecules, an arrow, and their product. Each atom of the product has a number "
    "and a colour, and the atom on the left that head 5 says it was has the same. "
    "Links as wide as the head's share join them; the oxygen that leaves is white."
)

# %% [markdown]
# ## Take the head away · core
#
# A picture of attention isn't a reason yet, as lesson 11 found out. Does the model *use* this head? Take it away, and
# ask the model to fill in atoms. Since all layers share the head, it's gone from all twelve. The seven other heads are
# the control.

# %%
# nbval-ignore-output: it says whose functions are used
model.encoder.attn.num_heads = 8  # lesson 11's function asks the layer for it
ablate = yours_or_ours(
    "ablate_head",
    globals(),  # and does it work on another model than lesson 11's?
    asked=lambda ablate: ablate(model, torch.arange(9)[None], 0, 5),
)


def without(head: int):
    """The model, as a function of ids, without this head in any layer."""
    return lambda ids: ablate(model, ids, 0, head)


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
lost = [[filled(third, without(head))[0] for head in range(8)] for third in some]
for third, name in enumerate(ORDINALS):
    others = [f"{share:.0%}" for head, share in enumerate(lost[third]) if head != 5]
    print(f"{name} third: all heads {whole[third][0]:.1%}, ", end="")
    print(f"without head 5 {lost[third][5]:.1%}, with the left hidden ", end="")
    print(f"{blind[third][0]:.1%}; without another: {', '.join(others)}")
    best_without = sorted(lost[third])
    assert lost[third][5] == best_without[0] < best_without[1] - 0.05
    assert lost[third][5] < blind[third][0]
    assert 1 - best_without[1] < 0.5 * (1 - best_without[0])

# %%
_, ax = plt.subplots(figsize=(6.8, 3.4), layout="constrained")
missed = 1 - torch.tensor(lost)  # (thirds, heads)
ax.bar(
    range(8), missed.mean(dim=0), color=[ACCENT if h == 5 else INK for h in range(8)]
)
ax.scatter(torch.arange(8).repeat(3), missed.flatten(), color=GREY, s=14, zorder=3)
levels = {
    "left side hidden": (1 - torch.tensor(blind)[:, 0].mean(), "--"),
    "all heads": (1 - torch.tensor(whole)[:, 0].mean(), ":"),
}
for name, (level, style) in levels.items():
    ax.axhline(level, color=GREY, ls=style, label=name)
ax.set(xlabel="head taken away", ylabel="share of atoms filled in wrong")
ax.set_xticks(range(8))
ax.set_title("Without head 5, the model might as well not see the left side")
ax.legend(loc="upper left")
show(
    "Bars of the share of atoms filled in wrong without each of eight heads, with a "
    "dot for each third of the reactions. Head 5's is the highest in every third, "
    "above a dashed line, where the left side is hidden. The others are at most half "
    "as high; a dotted line near zero shows the whole model."
)

# %% [markdown]
# The head that maps atoms is the one the model misses most, in each third, and the dashed line hints at why. Without it
# the model does even worse than with the left side hidden. But taking away a head also disturbs whatever comes after.
# If all head 5 does is bring news from the left, it should hardly be missed with the left hidden.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
for third, name in enumerate(ORDINALS):
    both = filled(some[third], without(5), hide_left=True)[0]
    seen_cost, blind_cost = whole[third][0] - lost[third][5], blind[third][0] - both
    print(f"{name} third: head 5 is worth {seen_cost:.1%} of the atoms, ", end="")
    print(f"and {blind_cost:.1%} with the left hidden")
    assert blind_cost < 0.5 * seen_cost

# %% [markdown]
# So most of what head 5 brings does come across the arrow, though not all.
#
# ## Repeat an experiment from 1938 · core
#
# When acid and alcohol make an ester, one oxygen leaves as water. Is it the acid's or the alcohol's? You can't tell by
# looking. Roberts and Urey marked the oxygen of methanol with the heavy isotope ¹⁸O, let the methanol react with
# benzoic acid, and found that the mark stays in the ester. So the alcohol keeps its oxygen, and the acid loses one of
# its two. (That holds for simple alcohols like the ones here. *tert*-Butyl alcohol, for one, can lose its oxygen
# instead.)
#
# Ask the head. The ester has two oxygens, and the question is about the one between two carbons. On the left there are
# three candidates. A head that couldn't tell them apart would give each of them 0.33.


# %%
def oxygens(text: str, atom: int) -> list[float]:
    """How the head divides an atom of the product among acid's =O, OH, alcohol's O."""
    shares = maps_of(text, model)[1][LAYER, HEAD, atom]
    before, _, _ = places(text)
    found = chemistry.tokens(text)
    return [shares[i].item() for i, at in enumerate(before) if found[at] == "O"]


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
usual = oxygens("CC(=O)O.CCO>>CCOC(C)=O", 2)
print("acid's =O {:.2f}, acid's OH {:.2f}, alcohol's O {:.2f}".format(*usual))
assert usual[2] > 0.7

# %% [markdown]
# The head agrees with the experiment. Before you believe it, write the same reaction in another order. A molecule has
# no first atom, so `OCC` is the same alcohol as `CCO`, and `CC(=O)OCC` the same ester as `CCOC(C)=O`.
#
# ### Predict, then run: the same reaction, written differently ({points}, difficulty 2, 3 minutes)
#
# What does the head say about `CC(=O)O.OCC>>CC(=O)OCC`?
#
# - **A**: the same, and just as surely, because it's the same reaction
# - **B**: nothing clear: it divides its attention evenly among the oxygens
# - **C**: nothing at all: the model can't read this spelling
# - **D**: another oxygen, and just as surely: the text has changed

# %%
### BEGIN SOLUTION
other_spelling_claim = "D"
### BEGIN STUB
# other_spelling_claim = None  # your prediction: "A", "B", "C" or "D"
### END SOLUTION

# %%
check("predict_other_spelling", other_spelling_claim)

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
odd = oxygens("CC(=O)O.OCC>>CC(=O)OCC", 3)
print("acid's =O {:.2f}, acid's OH {:.2f}, alcohol's O {:.2f}".format(*odd))
assert odd[1] > 0.7

# %%
_, ax = plt.subplots(figsize=(6.8, 3.0), layout="constrained")
where = torch.arange(3)
ax.bar(where - 0.18, usual, width=0.34, color=INK, label="CC(=O)O.CCO>>CCOC(C)=O")
ax.bar(
    where + 0.18,
    odd,
    width=0.34,
    color=ACCENT,
    hatch="//",
    label="CC(=O)O.OCC>>CC(=O)OCC",
)
ax.set_xticks(where, ["acid's =O", "acid's OH", "alcohol's O"])
ax.set(ylabel="share", ylim=(0, 1.35), yticks=[0, 0.5, 1])
ax.set_title("One reaction, two spellings, two answers")
ax.legend()
show(
    "Two bars for each of three oxygens on the left. In the usual spelling nearly all "
    "of the linking oxygen's share is on the alcohol's oxygen, in the other one on the "
    "acid's OH."
)

# %% [markdown]
# The head has changed its mind, and nothing in its numbers warns you. So does it know nothing about esters? Careful.
# That was *one* reaction, picked because it's striking, and a single example proves as little against a head as for it.
# Take all 24 esters, and write every one of them in this order: the acid first, the alcohol from its oxygen on, the
# ester from the acid on. Half of them were written that way already, so they can't change. The other twelve can.

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
respelled = [r for r in chemistry.reactions() if r.kind == "ester, respelled"]
esters = [r for r in every if r.kind == "ester"]
new = [
    (usual, other)
    for usual, other in zip(esters, respelled, strict=True)
    if usual.text != other.text
]


def oxygens_right(reaction: chemistry.Reaction, head: int = HEAD) -> bool:
    """Are all oxygens of the product mapped to where they came from?"""
    origins = maps_of(reaction.text, model)[0][LAYER, head]
    _, after, _ = places(reaction.text)
    found = chemistry.tokens(reaction.text)
    return all(
        origin in right
        for at, origin, right in zip(
            after, origins.tolist(), reaction.origins, strict=True
        )
        if found[at] == "O"
    )


same_answer = 0
for name, third in zip(ORDINALS, (new[0::3], new[1::3], new[2::3]), strict=True):
    usual, other = (sum(map(oxygens_right, some)) for some in zip(*third, strict=True))
    others = [sum(oxygens_right(r, h) for r, _ in third) for h in range(8) if h != HEAD]
    print(f"{name} third: usual spelling {usual} of 4, the other {other} of 4;")
    print(f"    any other head, in the usual spelling, at most {max(others)} of 4")
    same_answer += other
    assert usual == 4
    assert max(others) < 4
assert 2 * same_answer > len(new)
wrong = [other.text for _, other in new if not oxygens_right(other)]
print(*wrong, sep="\n")
assert wrong == [other.text for _, other in new if ".OCC>>" in other.text]

# %% [markdown]
# So the order alone doesn't do it. Of the twelve new texts most get the same answer as before. The ones that go wrong
# are the esters of ethanol, written `OCC`, and all of those do. What the head goes by there is a question you can now
# ask with your own tools. *The head knows chemistry* was too strong, and so would *it only knows spelling* be.
#
# RXNMapper doesn't leave this to chance. Unless you tell it not to, it first rewrites every reaction in a canonical
# spelling. Now you know why.
#
# **Your turn.** Write a reaction into the next cell, run it and the two below it, and see which atom the head says each
# one was. Then write it in another order.

# %%
mine = "CC(=O)Cl.NCc1ccccc1>>CC(=O)NCc1ccccc1"


# %%
def usable_reaction(text: str) -> str:
    """The text, if the model can read it; else one sentence that says why not."""
    if usable_text(text, longest=2000).count(">>") != 1:
        raise NotUsable(
            "A reaction has one arrow, as in CO>>C=O; this text has another number."
        )
    try:
        found = chemistry.tokens(text)
    except ValueError as error:
        raise NotUsable(f"This can't be read: {error}.") from None
    if unknown := sorted(set(found) - set(number)):
        raise NotUsable(f"The model has never seen these tokens: {', '.join(unknown)}.")
    if len(found) > 512:
        raise NotUsable(
            f"The model has 512 positions, and this reaction takes {len(found)}."
        )
    left, right = (
        {chemistry.element(found[i]) for i in side} for side in chemistry.atoms(found)
    )
    if not left or not right:
        raise NotUsable("There must be atoms on both sides of the arrow.")
    if right - left:
        names = ", ".join(sorted(right - left))
        raise NotUsable(f"Something comes from nowhere: there is no {names} before >>.")
    return text


# %%
# nbval-ignore-output: the last digits vary by machine, and the reaction is yours
origins, shares = (r[LAYER, HEAD] for r in maps_of(usable_reaction(mine), model))
before, after, _ = places(mine)
found = chemistry.tokens(mine)
left, right = ([f"{found[i]} {i}" for i in side] for side in (before, after))
plot_links(
    shares, right, left, threshold=0.05, title="The product's atoms, and what they were"
)
show(
    "Lines from each atom of the product, left, to the atoms before the arrow, right; "
    "the thicker the line, the surer the head. The numbers are positions in the text."
)

# %% [markdown]
# ## Find out which round needs it · stretch
#
# You took head 5 away from all twelve layers at once, because they share it. But a shared head still works twelve
# times. Which of the rounds need it? Guess first: the early ones, while atoms still look for their partners?
# The late ones, just before the answer? Or a single one, somewhere in between?
#
# A hook that counts its calls can take the head away in some rounds only.


# %%
def without_in(rounds: range, head: int = 5) -> nn.Module:
    """A copy of the model that lacks a head in these of its twelve rounds."""
    copy, calls = chemistry.reaction_model().requires_grad_(False), 0
    columns = slice(head * D // 8, (head + 1) * D // 8)

    def cut(_layer: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        nonlocal calls
        heads = inputs[0].clone()
        if calls % 12 in rounds:
            heads[..., columns] = 0
        calls += 1
        return heads

    copy.encoder.attn.w_o.register_forward_pre_hook(cut)
    return copy


# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
for name, third, full in zip(ORDINALS, fewer, unspoilt, strict=True):
    single = [filled(third, without_in(range(r, r + 1)))[0] for r in range(12)]
    none = filled(third, without_in(range(12)))[0]
    print(
        f"{name} third: head 5 in all rounds {full:.1%}, in none {none:.1%}, in all "
        "but one:"
    )
    print("   ", ", ".join(f"{share:.1%}" for share in single))
    assert min(single) > full - 0.03
    assert full - 0.25 < none < full - 0.15

# %% [markdown]
# No *single* round is needed! Take the head away in any one of them, and hardly an atom is lost. Take it away in all of
# them, and a fifth of the atoms are. It's the trap of lesson 11 once more: *nothing happens without it* doesn't mean it
# does nothing.
#
# Go on from here. Take it away in the first six rounds, then in the last six. Which half can the model spare? Then do
# the same with the left side hidden, as the control.
#
# ## Put your own GPT into one file · core
#
# That was somebody else's model running on your code. Your *own* model is scattered over the lessons: the mask and
# attention are in lesson 05, the norm is in 06, the block, the loop and the sampling are in 08, the cache is in 09.
# Each answer that passed is kept in `my_attention/`, so they can be put together. `my_gpt()` takes what each part
# needs, in the right order, and writes a single file. Where a part is missing, it takes `attnlib`'s and says so. Then
# it trains ten steps twice, with your parts and with `attnlib`'s, from the same weights. The losses have to agree.

# %%
# nbval-ignore-output: it says whose parts are used, and where the file is
gpt = my_gpt()

# %%
# nbval-ignore-output: the last digits vary by machine; the assertions say what it shows
lines = gpt.lines_of(None)
letters = gpt.Letters(lines)
own_model = gpt.new_model(len(letters.all))
losses = gpt.train(own_model, lines, letters, steps=80, every=40)
print("loss on lines it never saw:", [round(loss, 2) for loss in losses.tolist()])
print(*gpt.write(own_model, letters, 6), sep="\n")
assert losses[-1] < 1.9

# %% [markdown]
# A few seconds, and it can nearly spell. Open the file and read it from the top: about four hundred lines, and you know
# each of them. It needs no notebook. In a terminal, `python my_attention/my_gpt.py` trains for longer, and `python
# my_attention/my_gpt.py poems.txt 2000` learns another text, line by line. It's yours: put it on your own page, and
# change it as you like.
#
# ## Take this with you · core
#
# **A head can know what nobody taught it, but what it knows is tied to what it has read.**
#
# | | |
# | --- | --- |
# | formula | $x \leftarrow \mathrm{norm}_2(y + \mathrm{mlp}(y))$ with $y = \mathrm{norm}_1(x + \mathrm{attn}(x))$ |
# | shapes | tables `(b, depth, h, n, n)`; a map `(…, p, r)` |
# | trap 1 | square matrices fit everywhere: compare with known results, number for number |
# | trap 2 | a hit rate without chance beside it, or with several right answers counted as one |
# | trap 3 | one striking example, for a claim or against it |
# | in PyTorch | `module.load_state_dict(own)`; `torch.load(file, weights_only=True)` for files of others |
#
# ## Think further · more
#
# 1. All twelve layers share one block, and yet head 5 is right less often in layer 0 than in layer 10. What differs?
# 2. Your search found head 5 on the same reactions it's judged by. Why does that hardly matter here, and when would
#    it?
# 3. The templates leave out the water that an ester gives off. What would you have to change in `atom_map` to follow it
#    as well?
#
# <details><summary>Answers</summary>
#
# 1. What it reads. In layer 0 an atom knows its element and position, and little about its neighbours. After a few
#    rounds of attention it carries its surroundings with it, and those can be compared.
# 2. The best of 96 numbers is likely to be lucky. With 1,915 atoms, luck is worth two or three percentage points even
#    then, and the distance to the other heads is ten times that. The thirds say the same, though they share most of
#    their molecules. So does the authors' package, whose choice of head 5 is older than this set. With 20 atoms it
#    would matter a lot.
# 3. Nothing in `atom_map`: write the water into the reaction, as `.O` after the arrow, and its oxygen gets a row. But
#    patents name the product and rarely the water, so the model has hardly seen reactions written like that. Check
#    before you believe it.
#
# </details>
#
# ## Read on · more
#
# - [Schwaller et al. 2021](https://doi.org/10.1126/sciadv.abe4166): the model, how its authors found the head, and how
#   well RXNMapper does. It adds to the head: it maps one atom at a time, uses none twice, and favours the neighbours of
#   atoms that are already mapped.
# - [Lan et al. 2020](https://arxiv.org/abs/1909.11942), ALBERT: why sharing weights among layers costs so little.
# - [Clark et al. 2019](https://arxiv.org/abs/1906.04341), *What Does BERT Look At?*: the same search, for grammar.
# - Roberts and Urey 1938, *Journal of the American Chemical Society* 60, 2391: a few pages and one isotope.
#
# ## Farewell · core
#
# In lesson 00 you multiplied two vectors with a pencil. Since then you've built everything a transformer is made of,
# made it fast, taken it apart again, and read what others left in theirs. You can now open the source of almost any
# transformer and find your lines in it.
#
# What next? Here are three ways on, each good for a few weekends:
#
# - **Build on.** Give `my_gpt.py` another text, a tokeniser, or rotary positions from lesson 07. [A small
#   GPT](../docs/a_small_gpt.md) does the same with `attnlib`'s parts, on one page.
# - **Take apart.** Add an MLP to the model of lesson 11, or ask this one about the stereochemistry it has read, and see
#   which findings still hold. If you find something, knock it out before you believe it.
# - **Give it away.** Explain to somebody, with a pencil, why $\sqrt d$ is there. What you can't explain yet is your
#   next lesson.
#
# The animal, by the way, has still not crossed the street. It was too tired. Now you know how a model can tell.
#
# *Learning on your own? The worked solutions are in the course's repository: `solutions/12_a_real_model.ipynb`.*
