"""Lesson 11: intervening in a trained model with hooks, and the matrices that say what a head does."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.course.steps import Step, along_with, told_as

Change = Callable[[Tensor], Tensor]
Attach = Callable[[], list[Any]]
"""Registers hooks, and returns their handles."""
Path = Callable[[Change], Any]
"""Registers a hook that makes this change, and returns its handle."""
Columns = Any
"""What picks columns: a slice, or a list of indices."""


def change_input(layer: Any, change: Change) -> Any:
    """A hook that changes what the layer is given."""
    return layer.register_forward_pre_hook(lambda _layer, inputs: (change(inputs[0]),))


def change_output(layer: Any, change: Change) -> Any:
    """A hook that changes what the layer returns."""
    return layer.register_forward_hook(lambda _layer, _inputs, output: change(output))


class HeadColumns(Step):
    """The columns of the merged heads that belong to this head: d_head neighbours."""

    makes = ("columns",)

    def right(self, model: Any, head: int, layer: int = 0) -> Columns:
        d = self._width(model, layer)
        return slice(head * d, (head + 1) * d)

    def _width(self, model: Any, layer: int) -> int:
        width: int = model.layers[layer].w_o.in_features // model.layers[layer].num_heads
        return width

    def heads_interleaved(self, model: Any, head: int, layer: int = 0) -> Columns:
        """Every h-th column is taken.

        A head has neighbouring columns: those of head i begin at i * d_head, and there are d_head of them. The slice
        i::h picks columns from all over, out of several heads.
        """
        return slice(head, None, model.layers[layer].num_heads)

    def h_columns_wide(self, model: Any, head: int, layer: int = 0) -> Columns:
        """The head is num_heads columns wide.

        It should have d_head = d_model / num_heads columns. Two heads of width 64 are easily confused with 64 heads of
        width 2.
        """
        h = model.layers[layer].num_heads
        return slice(head * h, (head + 1) * h)

    def heads_from_one(self, model: Any, head: int, layer: int = 0) -> Columns:
        """The heads are counted from one.

        The first head is head 0, and its columns are 0 to d_head - 1.
        """
        return self.right(model, head - 1, layer) if head else slice(0, 0)

    def width_of_the_lesson(self, head: int) -> Columns:
        """The head is 16 columns wide, as in the lesson's model.

        Other models have heads of another width. Take it from this one: the number of columns that w_o reads, divided
        by num_heads.
        """
        return slice(head * 16, (head + 1) * 16)

    def one_column(self, head: int) -> Columns:
        """A single column is taken for the head.

        The last axis counts columns, not heads: index `head` is one of them. Head i has the columns from i * d_head to
        (i + 1) * d_head.
        """
        return slice(head, head + 1)

    def all_heads(self) -> Columns:
        """All heads of the layer are taken together.

        The merged heads lie side by side on the last axis. Only the d_head columns of this one are meant; without
        the slice, you learn what the layer does, and not which head does it.
        """
        return slice(None)

    def the_other_heads(self, model: Any, head: int, layer: int = 0) -> Columns:
        """The other heads are taken, and this one is left out.

        The head with this number is the one that is meant. Take its d_head columns, and leave the rest alone.
        """
        own = self.right(model, head, layer)
        width = model.layers[layer].w_o.in_features
        return [column for column in range(width) if not own.start <= column < own.stop]

    def up_to_this_head(self, model: Any, head: int, layer: int = 0) -> Columns:
        """All columns up to the end of this head are taken.

        The slice needs a beginning as well: head * d_head. Without it, every head before this one is taken, too.
        """
        return slice(0, (head + 1) * self._width(model, layer))


class ChooseLayer(Step):
    """The layer that the head is in."""

    makes = ("targets",)

    def right(self, model: Any, layer: int) -> list[nn.Module]:
        return [model.layers[layer]]

    def in_every_layer(self, model: Any) -> list[nn.Module]:
        """The head is silenced in every layer.

        Each layer has a head with this number, and they have nothing to do with one another. Only the one in
        model.layers[layer] is meant.
        """
        return list(model.layers)

    def layers_from_one(self, model: Any, layer: int) -> list[nn.Module]:
        """The layers are counted from one.

        The first layer is layer 0: model.layers[layer].
        """
        return [model.layers[layer - 1]]

    def always_the_first_layer(self, model: Any) -> list[nn.Module]:
        """The argument `layer` is ignored.

        It is always a head of layer 0, whatever `layer` says. Use model.layers[layer].
        """
        return [model.layers[0]]


class Replace(Step):
    """Zeros in place of these columns, or their mean over all sentences and positions."""

    makes = ("replace",)

    def right(self, columns: Columns, mean: bool) -> Change:
        return self._replaced(columns, lambda x: x.mean(dim=(0, 1)) if mean else torch.zeros_like(x))

    def _replaced(self, columns: Columns, new: Change) -> Change:
        def replace(x: Tensor) -> Tensor:
            x = x.clone()
            x[..., columns] = new(x[..., columns]).expand_as(x[..., columns])
            return x

        return replace

    def mean_ignored(self, columns: Columns) -> Change:
        """It is zeros, whatever `mean` says.

        With mean=True the head's columns are replaced by their mean: the head then says what it says on average, and
        that is what the layers behind it are used to.
        """
        return self._replaced(columns, torch.zeros_like)

    def always_the_mean(self, columns: Columns) -> Change:
        """It is the mean, whatever `mean` says.

        Unless mean=True, the head should hand on nothing at all: zeros.
        """
        return self._replaced(columns, lambda x: x.mean(dim=(0, 1)))

    def zeros_for_the_mean(self, columns: Columns, mean: bool) -> Change:
        """mean=True and mean=False are exchanged.

        With mean=True the columns get their mean, otherwise zeros. Which branch is which?
        """
        return self.right(columns, not mean)

    def mean_over_positions(self, columns: Columns, mean: bool) -> Change:
        """Each sentence gets its own mean.

        A mean over positions alone still depends on the sentence, so part of what the head says gets through. Average
        over the batch as well: dim=(0, 1).
        """
        return self._replaced(columns, lambda x: x.mean(dim=1, keepdim=True) if mean else torch.zeros_like(x))

    def mean_over_the_batch(self, columns: Columns, mean: bool) -> Change:
        """Each position gets its own mean.

        A mean over the batch alone still depends on the position, so part of what the head says gets through. Average
        over the positions as well: dim=(0, 1).
        """
        return self._replaced(columns, lambda x: x.mean(dim=0) if mean else torch.zeros_like(x))

    def mean_over_columns(self, columns: Columns, mean: bool) -> Change:
        """The mean is taken over the head's columns.

        A mean over the last axis mixes the columns, and the positions stay as different as they were. Each column needs
        one mean of its own, over all sentences and positions: dim=(0, 1).
        """
        return self._replaced(columns, lambda x: x.mean(dim=-1, keepdim=True) if mean else torch.zeros_like(x))

    def one_number_for_all(self, columns: Columns, mean: bool) -> Change:
        """All the columns get the same number.

        x.mean() without dim is the mean of everything. Each of the head's columns has its own mean, over batch and
        positions: dim=(0, 1).
        """
        return self._replaced(columns, lambda x: x.mean() if mean else torch.zeros_like(x))

    def sum_for_the_mean(self, columns: Columns, mean: bool) -> Change:
        """It is a sum, not a mean.

        Divide by the number of sentences times the number of positions, or use mean(dim=(0, 1)).
        """
        return self._replaced(columns, lambda x: x.sum(dim=(0, 1)) if mean else torch.zeros_like(x))

    def never_written_back(self) -> Change:
        """The model runs on as if nothing had happened.

        The columns that are changed are those of a copy, or the hook returns nothing. A forward pre-hook has to return
        the new input; if it returns None, the old one is used.
        """
        return lambda x: x


class AttachAblation(Step):
    """A hook on the way into w_o, where the heads still lie side by side."""

    makes = ("attach",)

    def right(self, targets: list[Any], replace: Change) -> Attach:
        return lambda: [change_input(layer.w_o, replace) for layer in targets]

    def behind_w_o(self, targets: list[Any], replace: Change) -> Attach:
        """The columns are changed after w_o.

        By then w_o has mixed the heads: each column of its output, and each row of its weight, holds something of all
        of them. The heads lie side by side in its *input*, so use a forward pre-hook of w_o, or the columns of its
        weight.
        """
        return lambda: [change_output(layer.w_o, replace) for layer in targets]

    def values_changed(self, targets: list[Any], replace: Change) -> Attach:
        """The values are changed, not what the head hands to w_o.

        With zeros that makes no difference, with the mean it does: a head hands on weighted sums of values, and a
        position that many queries attend to counts more in them than in the mean of the values.
        """
        return lambda: [change_output(layer.w_v, replace) for layer in targets]

    def stream_changed(self, targets: list[Any], replace: Change) -> Attach:
        """Columns of the layer's input are changed.

        The residual stream has no columns that belong to a head. What a head says lies side by side with the others'
        only after the attention, on its way into w_o.
        """
        return lambda: [change_input(layer, replace) for layer in targets]


class RunHooked(Step):
    """The logits with the hooks in place; then they are removed, also after an error."""

    def right(self, model: nn.Module, ids: Tensor, attach: Attach) -> Tensor:
        handles = attach()
        try:
            logits: Tensor = model(ids)
            return logits
        finally:
            for handle in handles:
                handle.remove()

    def hook_left_behind(self, model: nn.Module, ids: Tensor, attach: Attach) -> Tensor:
        """The hook is still there afterwards.

        register_forward_pre_hook returns a handle. Without handle.remove() the model stays changed, and the next
        measurement shows both changes at once.
        """
        attach()
        logits: Tensor = model(ids)
        return logits

    def hook_left_after_an_error(self, model: nn.Module, ids: Tensor, attach: Attach) -> Tensor:
        """After an error the hook is still there.

        If the model raises, the line with handle.remove() is never reached, and in a notebook the next cell works with
        a changed model. Put it into `finally`, or use the handle in a `with` statement.
        """
        handles = attach()
        logits: Tensor = model(ids)
        for handle in handles:
            handle.remove()
        return logits

    def weights_left_changed(
        self, model: Any, ids: Tensor, attach: Attach, targets: list[Any], columns: Columns
    ) -> Tensor:
        """The weights are changed, and stay so.

        Zeros in w_o's columns silence the head, but for good. Keep a clone of the weight and copy it back, or use a
        hook, which leaves the weights alone.
        """
        logits = self.right(model, ids, attach)
        _zeroed(targets, columns)
        return logits

    def weights_left_after_an_error(
        self, model: Any, ids: Tensor, attach: Attach, targets: list[Any], columns: Columns
    ) -> Tensor:
        """After an error the weights stay changed.

        They are copied back only if all goes well. Put that line into `finally`.
        """
        try:
            return self.right(model, ids, attach)
        except Exception:
            _zeroed(targets, columns)
            raise

    def left_in_another_mode(self, model: nn.Module, ids: Tensor, attach: Attach) -> Tensor:
        """The model is left in evaluation mode.

        It was in training mode before. Leave the mode alone, or remember model.training and put it back.
        """
        logits = self.right(model, ids, attach)
        model.eval()
        return logits

    def change_returned(self, model: nn.Module, ids: Tensor, attach: Attach) -> Tensor:
        """The change in the logits is returned, not the logits.

        Return the logits of the changed model. Whoever calls this compares them with others.
        """
        logits: Tensor = model(ids)
        return self.right(model, ids, attach) - logits


def _zeroed(layers: list[Any], columns: Columns) -> None:
    with torch.no_grad():
        for layer in layers:
            layer.w_o.weight[:, columns] = 0.0


class ReadValues(Step):
    """What the head takes home from each token: its row of the embedding, times this head's part of W_V."""

    makes = ("values",)

    def right(self, model: Any, layer: int, columns: Columns) -> Tensor:
        return self._read(model.embed, model.layers[layer].w_v, columns)

    def _read(self, embed: Any, projection: Any, columns: Columns) -> Tensor:
        read: Tensor = embed.weight @ projection.weight[columns].T
        return read

    def queries_for_values(self, model: Any, layer: int, columns: Columns) -> Tensor:
        """W_Q is used in place of W_V.

        Queries and keys decide *where* a head looks. What it takes from there is made by w_v.
        """
        return self._read(model.embed, model.layers[layer].w_q, columns)

    def keys_for_values(self, model: Any, layer: int, columns: Columns) -> Tensor:
        """W_K is used in place of W_V.

        Keys are what a query is compared with, and they never enter the stream. What the head takes home is made by
        w_v.
        """
        return self._read(model.embed, model.layers[layer].w_k, columns)

    def value_columns_taken(self, model: Any, layer: int, columns: Columns) -> Tensor:
        """The head's columns of w_v.weight are taken, not its rows.

        nn.Linear keeps its weight as (out, in) and computes x @ weight.T. The head's part of the *output* is therefore
        rows of w_v.weight: w_v.weight[i * d_head : (i + 1) * d_head].T, of shape (d_model, d_head).
        """
        read: Tensor = model.embed.weight @ model.layers[layer].w_v.weight[:, columns]
        return read

    def unembedding_read(self, model: Any, layer: int, columns: Columns) -> Tensor:
        """The head reads the unembedding.

        What it finds at a token is the embedding, model.embed.weight. The unembedding, model.unembed, is for the way
        out.
        """
        return self._read(model.unembed, model.layers[layer].w_v, columns)


class WriteHead(Step):
    """What the head writes into the stream for each token."""

    makes = ("written",)

    def right(self, model: Any, layer: int, columns: Columns, values: Tensor) -> Tensor:
        written: Tensor = values @ model.layers[layer].w_o.weight[:, columns].T
        return written

    def output_rows_taken(self, model: Any, layer: int, columns: Columns, values: Tensor) -> Tensor:
        """The head's rows of w_o.weight are taken, not its columns.

        nn.Linear keeps its weight as (out, in). The head is part of the *input* of w_o, and so its part of the weight
        is columns: w_o.weight[:, i * d_head : (i + 1) * d_head].T, of shape (d_head, d_model).
        """
        written: Tensor = values @ model.layers[layer].w_o.weight[columns]
        return written

    @along_with("value_columns_taken")
    def both_weights_as_in_x_w(self, model: Any, layer: int, columns: Columns, values: Tensor) -> Tensor:
        """Both weights are taken for matrices of the form x @ W.

        nn.Linear computes x @ weight.T, and its weight is (out, in). So the head has the rows of w_v.weight and the
        columns of w_o.weight, and both have to be transposed.
        """
        return self.output_rows_taken(model, layer, columns, values)

    def w_o_left_out(self, model: Any, columns: Columns, values: Tensor) -> Tensor:
        """W_O is missing.

        The head's d_head numbers are not yet a vector of the residual stream. w_o turns them into one: the columns of
        its weight that belong to this head say where each number goes.
        """
        written: Tensor = torch.zeros_like(model.embed.weight)
        written[:, columns] = values
        return written


class ScoreTokens(Step):
    """The logits of each token that this adds: row = token attended to, column = token whose logit it moves."""

    def right(self, model: Any, written: Tensor) -> Tensor:
        logits: Tensor = written @ model.unembed.weight.T
        return logits

    def circuit_transposed(self, model: Any, written: Tensor) -> Tensor:
        """Rows and columns are exchanged.

        Row: the token that the head looks at. Column: the token whose logit it moves by that. Copying shows on the
        diagonal either way, but everything else is read the wrong way around.
        """
        return self.right(model, written).T

    def embedding_for_unembedding(self, model: Any, written: Tensor) -> Tensor:
        """The embedding is used for the unembedding.

        In this model they are two matrices. Logits are made by model.unembed.
        """
        logits: Tensor = written @ model.embed.weight.T
        return logits

    def not_unembedded(self, written: Tensor) -> Tensor:
        """The way to the logits is missing.

        This is what the head writes into the stream, (V, d_model). Times the unembedding it becomes logits, (V, V).
        """
        return written

    def w_o_before_w_v(self, model: Any, layer: int, columns: Columns) -> Tensor:
        """W_O comes before W_V.

        The head first makes a value of what it reads, with W_V, and then writes that into the stream, with W_O:
        W_E W_V W_O W_U. nn.Linear keeps its weight as (out, in), so both have to be transposed; without that, only the
        wrong order has shapes that fit.
        """
        at = model.layers[layer]
        logits: Tensor = (
            model.embed.weight @ at.w_o.weight[:, columns] @ at.w_v.weight[columns] @ model.unembed.weight.T
        )
        return logits

    def direct_path_added(self, model: Any, written: Tensor) -> Tensor:
        """The direct path is included.

        The embedding reaches the logits by itself, past all heads. The OV circuit is only what this one head adds to
        that.
        """
        logits: Tensor = (written + model.embed.weight) @ model.unembed.weight.T
        return logits

    def made_probabilities(self, model: Any, written: Tensor) -> Tensor:
        """The circuit goes through a softmax.

        Its entries are contributions to logits, and may be negative. A softmax makes sense only once all contributions
        have been added up.
        """
        return self.right(model, written).softmax(dim=-1)

    def qk_circuit(self, model: Any, layer: int, columns: Columns) -> Tensor:
        """This is the QK circuit.

        W_E W_Q W_K^T W_E^T says how much one token attends to another. What the head then does with the token that it
        looks at is the OV circuit: W_E W_V W_O W_U.
        """
        at = model.layers[layer]
        q, k = (model.embed.weight @ projection.weight[columns].T for projection in (at.w_q, at.w_k))
        scores: Tensor = q @ k.T
        return scores


class Compose(Step):
    """What one head writes, read as the other's keys: W_QK W_OV^T."""

    makes = ("product",)

    def right(self, w_ov: Tensor, w_qk: Tensor) -> Tensor:
        return w_qk @ w_ov.T

    def ov_not_transposed(self, w_ov: Tensor, w_qk: Tensor) -> Tensor:
        """W_OV is not transposed.

        The columns of W_QK belong to the keys, and the *columns* of W_OV are what is written there. So the columns of
        the one meet the columns of the other: W_QK @ W_OV.T.
        """
        return w_qk @ w_ov

    def q_composition(self, w_ov: Tensor, w_qk: Tensor) -> Tensor:
        """That is Q-composition.

        W_OV W_QK lets the first head write into the *queries* of the second, its rows. An induction head reads the
        first head's output in its keys, the columns of W_QK: W_QK @ W_OV.T.
        """
        return w_ov @ w_qk

    def both_sides_read(self, w_ov: Tensor, w_qk: Tensor) -> Tensor:
        """The rows of both matrices meet.

        The rows of W_OV are what the first head *reads*. What it writes is in its columns, and these meet the keys, the
        columns of W_QK: W_QK @ W_OV.T.
        """
        return w_ov.T @ w_qk

    def entry_by_entry(self, w_ov: Tensor, w_qk: Tensor) -> Tensor:
        """The matrices are multiplied entry by entry.

        `*` multiplies entries in the same place. What one matrix writes and the other reads is a matrix product, @.
        """
        return w_ov * w_qk


class Size(Step):
    """The Frobenius norm: the root of the sum of all squares."""

    makes = ("size",)

    def right(self) -> Change:
        return lambda x: x.square().sum().sqrt()

    def spectral_norm(self) -> Change:
        """This is the spectral norm.

        torch.linalg.matrix_norm(x, 2) is the largest singular value alone. The Frobenius norm adds the squares of all
        entries: torch.linalg.matrix_norm(x), whose default it is.
        """
        return lambda x: torch.linalg.matrix_norm(x, 2)

    def nuclear_norm(self) -> Change:
        """This is the nuclear norm.

        It is the sum of the singular values; the Frobenius norm is the root of the sum of their squares.
        """
        return lambda x: torch.linalg.matrix_norm(x, "nuc")

    def norm_squared(self) -> Change:
        """The root is missing.

        The sum of squares is the square of the Frobenius norm. Take its root.
        """
        return lambda x: x.square().sum()

    def sum_of_sizes(self) -> Change:
        """Absolute values are added, not squares.

        The Frobenius norm is the root of the sum of the squares.
        """
        return lambda x: x.abs().sum()

    def root_of_the_mean(self) -> Change:
        """The mean of the squares is taken, not their sum.

        The number of entries does not cancel: it is once above and twice below. Use the sum.
        """
        return lambda x: x.square().mean().sqrt()

    def largest_entry(self) -> Change:
        """The largest entry is taken for the norm.

        The Frobenius norm counts every entry: the root of the sum of their squares.
        """
        return lambda x: x.abs().max()


class ShareOfSizes(Step):
    """The size of the product, divided by the sizes of both factors."""

    def right(self, w_ov: Tensor, w_qk: Tensor, product: Tensor, size: Change) -> Tensor:
        return size(product) / (size(w_ov) * size(w_qk))

    def not_normalised(self, product: Tensor, size: Change) -> Tensor:
        """It is not divided by the norms.

        Large weights alone make a large product. Divided by the norms of both, what is left is how well the two fit.
        """
        return size(product)

    def divided_by_ov_alone(self, w_ov: Tensor, product: Tensor, size: Change) -> Tensor:
        """It is divided by the norm of W_OV alone.

        Divide by the norm of W_QK, too: otherwise a head with large queries and keys seems to listen to everybody.
        """
        return size(product) / size(w_ov)

    def divided_by_qk_alone(self, w_qk: Tensor, product: Tensor, size: Change) -> Tensor:
        """It is divided by the norm of W_QK alone.

        Divide by the norm of W_OV, too: otherwise a head that writes a lot seems to be heard by everybody.
        """
        return size(product) / size(w_qk)

    def divided_and_multiplied(self, w_ov: Tensor, w_qk: Tensor, product: Tensor, size: Change) -> Tensor:
        """It is divided by one norm and multiplied by the other.

        a / b * c is (a / b) * c. Put brackets around the product of the norms.
        """
        return size(product) / size(w_ov) * size(w_qk)

    def divided_by_the_sum(self, w_ov: Tensor, w_qk: Tensor, product: Tensor, size: Change) -> Tensor:
        """It is divided by the sum of the norms.

        The norm of a product is at most the *product* of the norms. Only divided by that is it between 0 and 1.
        """
        return size(product) / (size(w_ov) + size(w_qk))

    def upside_down(self, w_ov: Tensor, w_qk: Tensor, product: Tensor, size: Change) -> Tensor:
        """The fraction is upside down.

        The norm of the product is above, the product of the norms below.
        """
        return size(w_ov) * size(w_qk) / size(product)


class RecordBoth(Step):
    """The merged heads of layer 0 on both sentences, and the stream behind that layer."""

    makes = ("here", "there", "other_stream")

    def right(self, model: Any, ids: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (here, _), (there, stream) = (self._record(model, sentence) for sentence in (ids, other))
        return here, there, stream

    def _record(self, model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
        merged: list[Tensor] = []
        x = model.embed(ids)
        with model.layers[0].w_o.register_forward_pre_hook(lambda _layer, inputs: merged.append(inputs[0])):
            stream: Tensor = x + model.layers[0](x)
        return merged[0], stream

    @told_as(RunHooked.hook_left_after_an_error)
    def reading_hook_left_after_an_error(self, model: Any, ids: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        handle = model.layers[0].w_o.register_forward_pre_hook(lambda _layer, _inputs: None)
        recorded = self.right(model, ids, other)
        handle.remove()
        return recorded

    def sentences_exchanged(self, model: Any, ids: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The two sentences are exchanged in the difference.

        What the head wrote on `ids` is taken out, and what it wrote on `other` is put in its place.
        """
        there, here, stream = self.right(model, ids, other)
        return here, there, stream


class PatchStream(Step):
    """What goes into the keys: the stream, with the head's own part exchanged."""

    makes = ("patch",)

    def right(self, model: Any, columns: Columns, here: Tensor, there: Tensor) -> Change:
        change = self._writes(model, columns, there) - self._writes(model, columns, here)
        return lambda x: x + change

    def _writes(self, model: Any, columns: Columns, merged: Tensor) -> Tensor:
        written: Tensor = merged[..., columns] @ model.layers[0].w_o.weight[:, columns].T
        return written

    @told_as(WriteHead.output_rows_taken)
    def output_rows_taken(self, model: Any, columns: Columns, here: Tensor, there: Tensor) -> Change:
        change = (there - here)[..., columns] @ model.layers[0].w_o.weight[columns]
        return lambda x: x + change

    def old_part_left(self, model: Any, columns: Columns, there: Tensor) -> Change:
        """What the head wrote before is still there.

        The new part is added, and the old one is not taken out. The keys then hear the head twice. Use x - old + new.
        """
        return lambda x: x + self._writes(model, columns, there)

    def taken_out_alone(self, model: Any, columns: Columns, here: Tensor) -> Change:
        """The head's part is taken out, and nothing is put in.

        That is an ablation of one path. A patch puts there what the head writes on `other`.
        """
        return lambda x: x - self._writes(model, columns, here)

    def new_part_alone(self, model: Any, columns: Columns, there: Tensor) -> Change:
        """The keys hear nothing but this head.

        The stream is the sum of the embedding and of what all heads write. Exchange one term, and keep the others.
        """
        return lambda x: self._writes(model, columns, there)

    def whole_stream_exchanged(self, other_stream: Tensor) -> Change:
        """The whole stream of the other sentence goes into the keys.

        The stream after layer 0 holds the embedding and all heads. Only what this head has written comes from `other`.
        """
        return lambda x: other_stream

    def patched_without_w_o(self, columns: Columns, here: Tensor, there: Tensor) -> Change:
        """W_O is missing from what the head writes.

        The head's columns of the merged heads are the *input* of w_o, not columns of the stream. What it writes there
        is their product with w_o's columns.
        """

        def patch(x: Tensor) -> Tensor:
            x = x.clone()
            x[..., columns] += (there - here)[..., columns]
            return x

        return patch


class ChoosePath(Step):
    """The keys of layer 1, and nothing else."""

    makes = ("paths",)

    def right(self, model: Any) -> list[Path]:
        return [partial(change_input, model.layers[1].w_k)]

    def values_as_well(self, model: Any) -> list[Path]:
        """The values hear it, too.

        Only the keys of layer 1 get the patched stream. With the values patched as well, you cannot say whether the
        head changes where layer 1 looks, or what it finds there.
        """
        return [partial(change_input, into) for into in (model.layers[1].w_k, model.layers[1].w_v)]

    def queries_as_well(self, model: Any) -> list[Path]:
        """The queries hear it, too.

        Only the keys of layer 1 get the patched stream. K-composition and Q-composition are told apart by patching
        one of them at a time.
        """
        return [partial(change_input, into) for into in (model.layers[1].w_q, model.layers[1].w_k)]

    def whole_layer_patched(self, model: Any) -> list[Path]:
        """Queries, keys and values of layer 1 are all patched.

        Only its keys get the patched stream. A hook on the layer itself changes the input of all three.
        """
        return [partial(change_input, model.layers[1])]

    def queries_alone(self, model: Any) -> list[Path]:
        """The queries are patched, not the keys.

        The hook belongs on model.layers[1].w_k. A key is what a token shows to those who look for it.
        """
        return [partial(change_input, model.layers[1].w_q)]

    def values_alone(self, model: Any) -> list[Path]:
        """The values are patched, not the keys.

        The hook belongs on model.layers[1].w_k. Values are what a query takes home once the keys have decided where it
        looks.
        """
        return [partial(change_input, model.layers[1].w_v)]

    def later_layers_as_well(self, model: Any) -> list[Path]:
        """The keys of later layers are patched, too.

        The path ends in the keys of layer 1. Layers behind it read the stream as it is.
        """
        return [partial(change_input, layer.w_k) for layer in model.layers[1:]]

    def every_path_patched(self, model: Any) -> list[Path]:
        """The head is patched on all of its paths.

        If the output of layer 0 itself is changed, it reaches everything: queries, keys and values of layer 1, and the
        logits directly. Change the *input* of layer 1's w_k, and leave the stream alone.
        """
        return [partial(change_output, model.layers[0])]


class AttachPatch(Step):
    """A hook on the way into each of the paths."""

    makes = ("attach",)

    def right(self, paths: list[Path], patch: Change) -> Attach:
        return lambda: [path(patch) for path in paths]


class RunPatched(RunHooked):
    """The logits on `ids`, with the hooks in place."""

    def run_on_the_other(self, model: nn.Module, other: Tensor, attach: Attach) -> Tensor:
        """The patched run reads `other`.

        The model reads `ids`, and only the one head's way into the keys comes from `other`.
        """
        return self.right(model, other, attach)
