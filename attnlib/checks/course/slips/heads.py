"""What several heads add to attention: their width and layers, split and merge, the output projection."""

import math
from typing import Any

from einops import rearrange
from torch import Tensor, nn

from attnlib.checks.course.slips.attention import Give, Scale, Share
from attnlib.checks.course.slips.projections import Layer, Layers, ProjectWithLayers, Three, bias, three_layers
from attnlib.checks.course.steps import Step, along_with, contradicted_by, discussed_at, each, spells

Two = tuple[Tensor, Tensor]


class Width(Step):
    """How wide a head is."""

    makes = ("d_head",)
    in_constructor = True

    def right(self, d_model: int, num_heads: int, d_head: int | None = None) -> int:
        if d_head is not None:
            return d_head
        if d_model % num_heads:
            raise ValueError(f"num_heads = {num_heads} does not divide d_model = {d_model}")
        return d_model // num_heads

    def d_head_ignored(self, d_model: int, num_heads: int, d_head: int | None) -> int:
        """`d_head` is not used.

        d_model // num_heads is only the default: compute it `if d_head is None`. Otherwise the heads are that wide,
        whatever d_model is: w_q, w_k and w_v lead to num_heads * d_head columns.
        """
        return self.right(d_model, num_heads)

    @spells(d_head_ignored)
    def d_head_overwritten(self, d_model: int, num_heads: int, d_head: int | None) -> int:
        self.right(d_model, num_heads, d_head)
        return d_model // num_heads

    def d_head_refused(self, d_model: int, num_heads: int, d_head: int | None) -> int:
        """d_model is checked even where `d_head` is given.

        Where d_head is given, a head may have any width, and num_heads need not divide d_model. Raise the ValueError
        only `if d_head is None`.
        """
        return (self.right(d_model, num_heads) and d_head) or d_model // num_heads

    def d_head_is_d_model(self, d_model: int, d_head: int | None) -> int:
        """Without `d_head`, each head is d_model wide.

        The heads share d_model: each is d_model // num_heads wide, unless the caller gives a d_head.
        """
        return d_head or d_model

    def no_error(self, d_model: int, num_heads: int, d_head: int | None = None) -> int:
        """A width that does not divide is accepted.

        `d_model // num_heads` rounds down, and columns are lost silently. Where d_head is not given and num_heads does
        not divide d_model, raise a ValueError that says both numbers.
        """
        return d_head or d_model // num_heads

    def assertion(self, d_model: int, num_heads: int, d_head: int | None = None) -> int:
        """An assertion instead of a ValueError.

        `assert` is for what cannot happen, and Python drops it when it runs with -O. What a caller did wrong is a
        ValueError: `raise ValueError(...)`.
        """
        assert d_head is not None or d_model % num_heads == 0, "num_heads must divide d_model"
        return d_head or d_model // num_heads

    @along_with("error_in_forward")
    def refused_too_late(self, module: Any, d_model: int, num_heads: int, d_head: int | None) -> int:
        """The error comes only when the module is called.

        A module that cannot work should not be made: raise the ValueError in `__init__`, not in `forward`.
        """
        module.fits = d_head is not None or d_model % num_heads == 0
        return d_head or d_model // num_heads


NO_BIAS = ("w_q w_k w_v w_o", "w_q w_k w_v", "w_o", "w_q", "w_k", "w_v", "w_q w_k", "w_k w_v", "w_v w_o")


class FourLayers(Step):
    """The layers of all heads together; those that read the memory are as wide as it is."""

    makes = ("w_q", "w_k", "w_v", "w_o")
    in_constructor = True

    def right(
        self, d_model: int, num_heads: int, d_head: int, bias: bool = True, d_memory: int | None = None
    ) -> Layers:
        width, d_memory = num_heads * d_head, d_memory or d_model
        return three_layers((d_model, width), (d_memory, width), (d_memory, width), (width, d_model), bias=bias)

    @each(names=NO_BIAS)
    def never_a_bias(
        self, d_model: int, num_heads: int, d_head: int, bias: bool, names: str, d_memory: int | None = None
    ) -> Layers:
        """A bias is missing.

        `bias` is True unless the caller says otherwise, and it goes to all four layers.
        """
        layers = self.right(d_model, num_heads, d_head, bias, d_memory)
        without = self.right(d_model, num_heads, d_head, False, d_memory)
        return tuple(
            other if name in names else layer for name, layer, other in zip(self.makes, layers, without, strict=True)
        )

    @each(names=("w_q w_k w_v w_o", "w_k", "w_v", "w_o"))
    def always_a_bias(
        self, d_model: int, num_heads: int, d_head: int, bias: bool, names: str, d_memory: int | None = None
    ) -> Layers:
        """`bias` does not reach every layer.

        With bias=False none of the four layers has one: pass it to every nn.Linear, w_o's as well.
        """
        layers = self.right(d_model, num_heads, d_head, bias, d_memory)
        biased = self.right(d_model, num_heads, d_head, True, d_memory)
        return tuple(
            other if name in names else layer for name, layer, other in zip(self.makes, layers, biased, strict=True)
        )

    def no_bias_by_default(
        self, d_model: int, num_heads: int, d_head: int, given: dict[str, Any], d_memory: int | None = None
    ) -> Layers:
        """`bias` is False by default.

        In the contract `bias` is True unless the caller says otherwise: `bias=True` in the signature of __init__.
        """
        return self.right(d_model, num_heads, d_head, given.get("bias", False), d_memory)

    def layers_as_wide_as_words(self, d_model: int, bias: bool = True, d_memory: int | None = None) -> Layers:
        """w_q, w_k and w_v lead to d_model columns.

        That fits as long as nobody gives a d_head. They lead to num_heads * d_head columns, and w_o goes back.
        """
        return self.right(d_model, 1, d_model, bias, d_memory)

    def out_from_d_model(
        self, d_model: int, num_heads: int, d_head: int, bias: bool, d_memory: int | None = None
    ) -> Layers:
        """w_o is made for vectors of d_model.

        w_o reads all heads side by side, and these are num_heads * d_head wide. That is d_model only as long as nobody
        gives a d_head: nn.Linear(num_heads * d_head, d_model).
        """
        layers = self.right(d_model, num_heads, d_head, bias, d_memory)
        return *layers[:3], nn.Linear(d_model, d_model, bias=bias)

    def layers_of_one_head(
        self, d_model: int, num_heads: int, d_head: int, bias: bool, d_memory: int | None = None
    ) -> Layers:
        """The layers are as wide as a single head.

        w_q, w_k and w_v make the queries, keys and values of *all* heads, side by side: they lead to num_heads * d_head
        columns.
        """
        layers = self.right(d_model, num_heads, d_head, bias, d_memory)
        return *self.right(d_model, 1, d_head, bias, d_memory)[:3], layers[3]

    @contradicted_by(r"\bw_o = ")
    def no_output_layer(
        self, d_model: int, num_heads: int, d_head: int, bias: bool, d_memory: int | None = None
    ) -> Layers:
        """There is no w_o.

        The fourth layer is missing: w_o goes from num_heads * d_head back to d_model, and mixes what the heads have
        found.
        """
        return *self.right(d_model, num_heads, d_head, bias, d_memory)[:3], None

    def input_cut_first(self, d_model: int, num_heads: int, d_head: int, bias: bool) -> Layers:
        """The input is cut into heads, and one small matrix serves them all.

        Some published code does this, and it is cheaper. But in the paper's multi-head attention each head has matrices
        of its own and reads the whole vector: the layers lead to num_heads * d_head columns.
        """
        small = three_layers(*((d_head, d_head),) * 3, bias=bias)
        return *small, self.right(d_model, num_heads, d_head, bias)[3]


class ProjectHeads(ProjectWithLayers):
    """Queries, keys and values of all heads, side by side."""

    def error_in_forward(self, module: Any, x: Tensor, memory: Tensor, w_q: Layer, w_k: Layer, w_v: Layer) -> Three:
        """The error comes from `forward`.

        A module that cannot work should not be made: raise the ValueError in `__init__`, and nowhere else.
        """
        if not module.fits:
            raise ValueError("num_heads does not divide d_model")
        return self.right(x, memory, w_q, w_k, w_v)


class Split(Step):
    """Queries, keys and values, cut into heads: (b, n, h·d) to (b, h, n, d)."""

    makes = ("q", "k", "v")

    def right(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Three:
        return self._cut("(h d)", "qkv", q, k, v, num_heads)

    def _cut(self, how: str, which: str, q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Three:
        """Cut as `(h d)` or as `(d h)`: those in `which` like this, the others rightly."""
        q, k, v = (
            rearrange(t, f"b n {how if name in which else '(h d)'} -> b h n d", h=num_heads)
            for name, t in zip("qkv", (q, k, v), strict=True)
        )
        return q, k, v

    @discussed_at("https://github.com/hyunwoongko/transformer/issues/15")
    @each(which=("qkv", "q", "k", "v", "kv", "qk"))
    def split_by_reshape(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int, which: str) -> Three:
        """Heads are split by reshape alone.

        `reshape(b, h, n, d)` (or `view`) fills head 0 with the first few positions, cut into pieces. Reshape to
        (b, n, h, d), then exchange the two middle axes, for queries, keys and values alike.
        """
        q, k, v = (
            t.reshape(t.shape[0], num_heads, t.shape[1], -1) if name in which else right
            for name, t, right in zip("qkv", (q, k, v), self.right(q, k, v, num_heads), strict=True)
        )
        return q, k, v

    @along_with("merged_by_reshape")
    def split_and_merged_by_reshape(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Three:
        """reshape where a transpose was needed, both ways.

        `reshape(b, h, n, d)` gives each head a few *positions*, cut into pieces, in place of its columns of all.
        Merging by reshape undoes exactly that, so shapes and round trip look right. Cut (b, n, h, d) first, and
        exchange the two middle axes; the other way round when you merge.
        """
        return self.split_by_reshape(q, k, v, num_heads, "qkv")

    @each(which=("qkv", "q", "k", "v"))
    def split_taking_turns(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int, which: str) -> Three:
        """Split as (d h), merged as (h d).

        The heads take turns when you split queries, keys or values, every h-th column, and are side by side when you
        merge. All have to be (h d): each head has a run of neighbouring columns.
        """
        return self._cut("(d h)", which, q, k, v, num_heads)

    @along_with("merged_taking_turns")
    def heads_taking_turns(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Three:
        """The heads take turns.

        Your heads are every h-th column, (d h). Trained from scratch this is as good as ours. With given weights it is
        wrong: head i is expected in the i-th run of d neighbouring columns, (h d).
        """
        return self._cut("(d h)", "qkv", q, k, v, num_heads)

    @along_with("merged_without_exchange")
    def heads_left_behind_words(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Three:
        """Heads look at heads, not positions at positions.

        With (b, n, h, d) the last two axes are heads and numbers, so the heads of one position are compared with one
        another, and no position sees another. Exchange the two middle axes before the scores: (b, h, n, d).
        """
        q, k, v = (t.unflatten(-1, (num_heads, -1)) for t in (q, k, v))
        return q, k, v

    def never_split(self, q: Tensor, k: Tensor, v: Tensor) -> Three:
        """The heads are never split.

        There is one attention over the full width. Cut q, k and v first: each head attends with its own d columns, and
        has its own weights.
        """
        return q[:, None], k[:, None], v[:, None]

    @spells(never_split)
    @along_with("not_merged")
    def never_split_nor_merged(self, q: Tensor, k: Tensor, v: Tensor) -> Three:
        return q, k, v

    @each(which=("qkv", "q", "k", "v", "kv", "qk"))
    def of_the_first_head(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int, which: str) -> Three:
        """All heads share the columns of head 0.

        Every head uses the first d columns for its queries, keys or values. Some models share keys and values, to save
        memory; here each head has its own. In a loop: does each slice use the head's index?
        """
        q, k, v = (
            t[:, :1].expand_as(t) if name in which else t
            for name, t in zip("qkv", self.right(q, k, v, num_heads), strict=True)
        )
        return q, k, v


class EvenWidth(Width):
    """The heads together are as wide as a word."""

    @along_with("layers_as_wide_as_words")
    def einops_complains(self, d_model: int, num_heads: int) -> int:
        """The error is einops's, not yours.

        rearrange refuses with an EinopsError, which is no ValueError. Look at d_model and num_heads in __init__, and
        raise a ValueError.
        """
        return d_model // num_heads


class EvenSplit(Split):
    """It fails where the heads do not fill a word."""

    @along_with("einops_complains", "layers_as_wide_as_words")
    def torch_complains(self, q: Tensor, k: Tensor, v: Tensor, num_heads: int, d_head: int) -> Three:
        """The error is torch's, not yours.

        view fails by chance, with a RuntimeError about a shape that the caller has never heard of. Look at d_model and
        num_heads in __init__, and raise a ValueError.
        """
        q, k, v = (t.view(*t.shape[:2], num_heads, d_head).transpose(1, 2) for t in (q, k, v))
        return q, k, v


class HeadScale(Scale):
    """With heads there are more widths to take for the right one."""

    @discussed_at("https://github.com/FareedKhan-dev/train-llm-from-scratch/pull/3")
    def scaled_by_root_width(self, products: Tensor, q: Tensor, num_heads: int) -> Tensor:
        """Scaled by the width of all heads together.

        A head's scores are sums of d products. You divided by the root of h·d, the width before the split.
        """
        return products / math.sqrt(num_heads * q.shape[-1])

    @discussed_at("https://github.com/tenstorrent/tt-metal/pull/56789")
    def scaled_by_root_heads(self, products: Tensor, num_heads: int) -> Tensor:
        """Scaled by the number of heads.

        The scale depends on how *wide* a head is, because that is the length of the sum in one dot product. How many
        heads there are does not matter to any of them.
        """
        return products / math.sqrt(num_heads)

    def scaled_by_shared_width(self, products: Tensor, x: Tensor, num_heads: int) -> Tensor:
        """Scaled by √(d_model / num_heads), also where `d_head` is given.

        A head's scores are sums of d products. d is d_model / num_heads only as long as nobody gives a d_head: scale by
        the root of how wide the head *is*.
        """
        return products / math.sqrt(x.shape[-1] // num_heads)

    @spells(Split.never_split)
    @along_with("never_split")
    def never_split_but_scaled(self, products: Tensor, d_head: int) -> Tensor:
        return products / math.sqrt(d_head)

    @spells(Split.never_split)
    @along_with("never_split_nor_merged", "not_merged")
    def never_split_nor_merged_but_scaled(self, products: Tensor, d_head: int) -> Tensor:
        return products / math.sqrt(d_head)


class HeadShare(Share):
    """With heads there are several tables of weights, one for each."""

    def scores_summed(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The scores of all heads are added up.

        Every head looks at the same positions, since they all use the sum of all scores. That is one wide head, as if q
        and k were never split: the loudest question wins. Each head needs a softmax of its own.
        """
        return self._among(scores.sum(dim=1, keepdim=True), allowed).expand_as(scores)

    def weights_averaged(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The heads' weights are averaged before they meet the values.

        Every head uses the mean of all weights. Then it no longer matters which head found what: each head's weights go
        with its own values.
        """
        return self._among(scores, allowed).mean(dim=1, keepdim=True).expand_as(scores)


class Merge(Step):
    """The heads side by side again: (b, h, n, d) to (b, n, h·d)."""

    makes = ("output",)

    def right(self, output: Tensor) -> Tensor:
        return rearrange(output, "b h n d -> b n (h d)")

    @discussed_at("https://github.com/jsbaan/transformer-from-scratch/pull/6")
    def merged_by_reshape(self, output: Tensor) -> Tensor:
        """The heads are merged by reshape alone.

        `reshape(b, n, h·d)` takes the numbers in their order in memory, and there head 0 comes first at all positions:
        a row gets one head at several positions, not all heads at one. Make it (b, n, h, d) first. This spoils the
        output alone, not the weights.
        """
        return output.reshape(output.shape[0], output.shape[2], -1)

    def merged_taking_turns(self, output: Tensor) -> Tensor:
        """Split as (h d), merged as (d h).

        When you merge, the heads take turns, which spoils the output alone, not the weights. Both have to be (h d),
        since the rows of w_o are in the order of the heads.
        """
        return rearrange(output, "b h n d -> b n (d h)")

    def heads_reversed(self, output: Tensor) -> Tensor:
        """The heads are merged in reverse order.

        w_o expects head 0 first. The weights are right, but the output multiplies each head with another's rows.
        """
        return self.right(output.flip(1))

    def narrow_before_w_o(self, output: Tensor) -> Tensor:
        """A layer gets vectors of one head's width.

        w_q, w_k and w_v read whole vectors, so nothing is cut before them. w_o reads all heads side by side,
        (b, n, h·d): a sum, a mean, a join along another axis, or heads that were never merged are only d wide.
        """
        return output.sum(dim=1)

    @spells(narrow_before_w_o)
    def not_merged(self, output: Tensor) -> Tensor:
        return output

    @spells(narrow_before_w_o)
    def merged_without_exchange(self, output: Tensor) -> Tensor:
        return output.flatten(-2)

    def merged_to_d_model(self, output: Tensor, d_model: int) -> Tensor:
        """Merged to d_model instead of h·d.

        The heads side by side are num_heads * d_head wide. That is d_model only as long as nobody gives a d_head; it is
        w_o that brings them back to d_model.
        """
        return output.transpose(1, 2).reshape(output.shape[0], output.shape[2], d_model)

    def view_after_transpose(self, output: Tensor) -> Tensor:
        """view cannot join what a transpose has moved.

        `transpose` moves no number in memory, and `view` needs neighbours there. Use `reshape`, or call `.contiguous()`
        first.
        """
        return output.transpose(1, 2).view(output.shape[0], output.shape[2], -1)

    def unfolded_otherwise(self, output: Tensor) -> Tensor:
        """The heads are unfolded in another order than they were folded.

        Folded into the batch, heads and sentences are in the order (b h), or (h b). Outputs or weights are read in the
        other order, so that heads of different sentences are mixed. With one sentence nobody would notice.
        """
        return self.right(unfolded_otherwise(output))

    @spells(unfolded_otherwise)
    @along_with("weights_unfolded_otherwise")
    def all_unfolded_otherwise(self, output: Tensor) -> Tensor:
        return self.right(unfolded_otherwise(output))


def unfolded_otherwise(t: Tensor) -> Tensor:
    """Heads that were folded into the batch as (b h), and are unfolded as (h b)."""
    return t.reshape(t.shape[1], t.shape[0], *t.shape[2:]).transpose(0, 1)


class Finish(Step):
    """The output projection."""

    makes = ("output",)

    def right(self, output: Tensor, w_o: nn.Linear) -> Tensor:
        finished: Tensor = w_o(output)
        return finished

    def no_output_projection(self, output: Tensor) -> Tensor:
        """The output projection is forgotten.

        The heads are side by side and are returned like that, without w_o: it is what lets the findings of different
        heads be mixed.
        """
        return output

    def output_projection_transposed(self, output: Tensor, w_o: nn.Linear) -> Tensor:
        """The output projection is transposed.

        nn.Linear computes x @ weight.T. You multiplied by the weight as it is stored. Call the layer instead.
        """
        return output @ w_o.weight + bias(w_o)

    @spells(ProjectWithLayers.weights_as_stored)
    @along_with("weights_as_stored")
    def all_weights_as_stored(self, output: Tensor, w_o: nn.Linear) -> Tensor:
        return output @ w_o.weight + bias(w_o)

    def bias_of_w_o_unused(self, output: Tensor, w_o: nn.Linear) -> Tensor:
        """The bias of w_o is not used.

        You multiplied by its weight alone. Call the layer instead, self.w_o(x): it adds its bias.
        """
        return output @ w_o.weight.mT

    @spells(ProjectWithLayers.biases_unused)
    @along_with("biases_unused")
    def all_biases_unused(self, output: Tensor, w_o: nn.Linear) -> Tensor:
        return output @ w_o.weight.mT

    def bias_for_each_head(self, output: Tensor, w_o: nn.Linear, num_heads: int) -> Tensor:
        """The bias of w_o is added once for each head.

        Each head went through its own rows of w_o, and the parts were added up: that is right except for the bias,
        which was added h times. Join the heads and call w_o once.
        """
        return self.right(output, w_o) + (num_heads - 1) * bias(w_o)


class HeadGive(Give):
    """The weights keep their heads: (b, h, q, k)."""

    def weights_mean_returned(self, output: Tensor, weights: Tensor) -> Two:
        """The weights are averaged over the heads.

        The output is right. But you return one table for each entry of the batch, as nn.MultiheadAttention does unless
        it is told otherwise. The contract keeps the heads: (b, h, q, k).
        """
        return output, weights.mean(dim=1)

    def heads_of_the_weights_first(self, output: Tensor, weights: Tensor) -> Two:
        """The weights are (h, b, q, k): heads before the batch.

        That is what torch.stack makes of a list of heads, and what heads folded in front of the batch unfold to. The
        contract begins with the batch, (b, h, q, k): torch.stack(…, dim=1), or exchange the first two axes.
        """
        return output, weights.transpose(0, 1)

    @spells(Merge.unfolded_otherwise)
    def weights_unfolded_otherwise(self, output: Tensor, weights: Tensor) -> Two:
        return output, unfolded_otherwise(weights)
