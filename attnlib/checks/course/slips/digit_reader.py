"""Lesson 06: a reader of images, from patches to ten logits."""

from typing import Any

import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.slips.lesson08_model import ThroughTheBlocks
from attnlib.checks.course.slips.projections import Layer
from attnlib.checks.course.steps import Step, along_with, contradicted_by, told_as

Parts = tuple[nn.Module | nn.Parameter, ...]
CLASSES = 10


class ReaderParts(Step):
    """The layers, and the table of positions."""

    makes = ("embed", "positions", "blocks", "norm", "head")
    in_constructor = True

    def right(
        self, side: int, patch: int, d_model: int, num_heads: int, depth: int, dropout: float, ratio: float = 2.0
    ) -> Parts:
        blocks = (attnlib.EncoderBlock(d_model, num_heads, mlp_ratio=ratio, dropout=dropout) for _ in range(depth))
        return (
            nn.Linear(patch**2, d_model),
            nn.Parameter(torch.randn((side // patch) ** 2, d_model)),
            nn.ModuleList(blocks),
            nn.LayerNorm(d_model),
            nn.Linear(d_model, CLASSES),
        )

    def one_block_for_all(
        self, side: int, patch: int, d_model: int, num_heads: int, depth: int, dropout: float
    ) -> Parts:
        """There is only one block, repeated.

        [block] * depth has the same object in every place, with one set of weights. Make `depth` blocks in a loop, or
        in a comprehension, and put them into an nn.ModuleList.
        """
        embed, positions, blocks, norm, head = self.right(side, patch, d_model, num_heads, 1, dropout)
        return embed, positions, nn.ModuleList([blocks.get_submodule("0")] * depth), norm, head  # type: ignore[union-attr]

    def dropout_not_passed_on(self, side: int, patch: int, d_model: int, num_heads: int, depth: int) -> Parts:
        """The dropout is not passed on to the blocks.

        The reader takes it, and its blocks are made without it. In training nothing is dropped: give each block
        `dropout=dropout`.
        """
        return self.right(side, patch, d_model, num_heads, depth, 0.0)

    def four_times_as_wide(
        self, side: int, patch: int, d_model: int, num_heads: int, depth: int, dropout: float
    ) -> Parts:
        """The MLPs are four times as wide as the words.

        That is the block's default. This reader is a small one: mlp_ratio=2.0.
        """
        return self.right(side, patch, d_model, num_heads, depth, dropout, 4.0)

    def a_position_for_each_pixel(
        self, side: int, patch: int, d_model: int, num_heads: int, depth: int, dropout: float
    ) -> Parts:
        """The table of positions has a row for each pixel.

        The words are patches, so it has a row for each patch: (side / patch)² of them.
        """
        embed, _, *others = self.right(side, patch, d_model, num_heads, depth, dropout)
        return embed, nn.Parameter(torch.zeros(side**2, d_model)), *others


class CutPatches(Step):
    """Squares of pixels, row by row, and the pixels of each row by row, too."""

    makes = ("patches",)

    def right(self, images: Tensor, patch: int) -> Tensor:
        return self._cut(images, patch).transpose(2, 3).flatten(3).flatten(1, 2)

    def _cut(self, images: Tensor, patch: int) -> Tensor:
        """(b, row of patches, row in the patch, column of patches, column in the patch)."""
        split: Tensor = images.unflatten(2, (-1, patch)).unflatten(1, (-1, patch))
        return split

    def runs_for_squares(self, images: Tensor, patch: int) -> Tensor:
        """The patches are runs of a row, not squares.

        A reshape takes the pixels in the order of memory: along a row, then on to the next one. A square has pixels of
        several rows. After both axes are split, the two axes inside a patch have to be brought next to each other.
        """
        return images.reshape(len(images), -1, patch**2)

    def columns_of_patches_first(self, images: Tensor, patch: int) -> Tensor:
        """The patches go down the columns.

        The second word is the patch to the *right* of the first, as in reading. Yours is the one below it, and gets the
        position of another.
        """
        return self._cut(images, patch).permute(0, 3, 1, 2, 4).flatten(3).flatten(1, 2)

    def pixels_down_the_columns(self, images: Tensor, patch: int) -> Tensor:
        """Inside a patch, the pixels go down the columns.

        The patches are right and in the right order, but each is turned over its diagonal. Its rows come first: the
        axes are (row of patches, column of patches, row, column).
        """
        return self._cut(images, patch).permute(0, 1, 3, 4, 2).flatten(3).flatten(1, 2)

    def image_on_its_side(self, images: Tensor, patch: int) -> Tensor:
        """Rows and columns of the image are exchanged.

        Both the patches and the pixels inside them go down the columns: it is the image, turned over its diagonal.
        """
        return self.right(images.mT, patch)

    def pixels_from_afar(self, images: Tensor, patch: int) -> Tensor:
        """The pixels of a patch come from all over the image.

        An axis of 8 pixels split into (2, 4) has the distance outside and the neighbours inside: 4 neighbours, twice.
        Patches of 2 pixels are (4, 2): the number of patches first.
        """
        split: Tensor = images.unflatten(2, (patch, -1)).unflatten(1, (patch, -1))
        return split.permute(0, 2, 4, 1, 3).flatten(3).flatten(1, 2)  # from (b, p, rows, p, columns)

    def mean_of_each_patch(self, images: Tensor, patch: int) -> Tensor:
        """Each patch is reduced to its mean.

        All of its pixels are to go into `embed`: a patch is a vector of patch² numbers.
        """
        patches = self.right(images, patch)
        return patches.mean(dim=-1, keepdim=True).expand_as(patches)


class PlacePatches(Step):
    """What is in each patch, plus where it is."""

    makes = ("x",)

    def right(self, patches: Tensor, embed: Layer, positions: Tensor) -> Tensor:
        return embed(patches) + positions

    def positions_not_added(self, patches: Tensor, embed: Layer) -> Tensor:
        """The positions are not added.

        Attention does not see where a patch is: without `self.positions` the image is a bag of patches.
        """
        return embed(patches)

    def positions_multiplied(self, patches: Tensor, embed: Layer, positions: Tensor) -> Tensor:
        """The patches are multiplied by the positions.

        They are added: embed(patches) + positions.
        """
        return embed(patches) * positions

    def positions_along_the_batch(self, patches: Tensor, embed: Layer, positions: Tensor) -> Tensor:
        """The positions run along the batch.

        All patches of an image get the same vector, and each image another one. (b, n, d_model) + (n, d_model) lines up
        as it should, without another axis.
        """
        return embed(patches) + positions[torch.arange(len(patches)) % len(positions), None]

    def one_position_for_all(self, patches: Tensor, embed: Layer, positions: Tensor) -> Tensor:
        """All patches get the first position.

        Each patch has a row of its own in the table: add the whole table.
        """
        return embed(patches) + positions[0]


class StackOfBlocks(Step):
    """One block after the other, each looking at the whole image."""

    makes = ("x",)

    def right(self, x: Tensor, blocks: Any) -> Tensor:
        for block in blocks:
            x = block(x)
        return x

    @contradicted_by(r"self\.blocks\[-1\]")
    @told_as(ThroughTheBlocks.blocks_beside_one_another)
    def blocks_beside_one_another(self, x: Tensor, blocks: Any) -> Tensor:
        result: Tensor = blocks[-1](x)
        return result

    @told_as(ThroughTheBlocks.first_block_alone)
    def first_block_alone(self, x: Tensor, blocks: Any) -> Tensor:
        result: Tensor = blocks[0](x)
        return result

    @told_as(ThroughTheBlocks.blocks_from_the_last)
    def blocks_from_the_last(self, x: Tensor, blocks: Any) -> Tensor:
        return self.right(x, [*blocks][::-1])

    @contradicted_by(r"\bin self\.blocks")
    def no_block_called(self, x: Tensor) -> Tensor:
        """No block is called.

        The patches never look at one another, and the digit is read from their average. Loop over self.blocks.
        """
        return x

    @told_as(ThroughTheBlocks.embeddings_added_each_time)
    def embeddings_added_each_time(self, x: Tensor, blocks: Any) -> Tensor:
        for block in blocks:
            x = x + block(x)
        return x

    def positions_added_each_time(self, x: Tensor, blocks: Any, positions: Tensor) -> Tensor:
        """The positions are added before each block.

        Once is enough: the stream carries them through all blocks. Add them before the loop.
        """
        for number, block in enumerate(blocks):
            x = block(x + positions if number else x)
        return x

    def norm_after_each_block(self, x: Tensor, blocks: Any, norm: Layer) -> Tensor:
        """The last norm is applied after each block.

        It belongs behind the loop. Inside, it would normalise the stream, which a pre-LN stack leaves alone.
        """
        for number, block in enumerate(blocks):
            x = block(norm(x) if number else x)
        return x


class ReadOut(Step):
    """The last norm, the mean over the patches, ten logits."""

    def right(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        return head(norm(x).mean(dim=1))

    def last_norm_missing(self, x: Tensor, head: Layer) -> Tensor:
        """The last norm is missing.

        Nothing has normalised the stream of a pre-LN stack on its way. One norm comes behind all blocks:
        head(norm(x).mean(dim=1)).
        """
        return head(x.mean(dim=1))

    def norm_of_the_mean(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """The mean is taken before the norm.

        A patch with large numbers would then count for more than the others. Normalise each patch, then average.
        """
        return head(norm(x.mean(dim=1)))

    def patches_summed(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """The patches are summed.

        Their mean is asked for, which does not grow with the number of patches.
        """
        return head(norm(x).sum(dim=1))

    def largest_of_the_patches(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """The largest of the patches is taken, feature by feature.

        Then one patch decides about each feature, and the others learn nothing from it. Their mean is asked for.
        """
        return head(norm(x).amax(dim=1))

    def first_patch_alone(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """Only the first patch is read out.

        BERT and ViT do that, with a word that they put in front for the purpose. There is none here, and the first
        patch is a corner of the image: take the mean over all patches.
        """
        return head(norm(x)[:, 0])

    def last_patch_alone(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """Only the last patch is read out.

        A model that writes does that, because its last word has seen all others. Here every patch has: take the mean
        over all of them.
        """
        return head(norm(x)[:, -1])

    def mean_over_the_batch(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """The mean runs over the batch.

        Images are mixed, and patches kept apart. The patches are on axis 1: mean(dim=1).
        """
        return head(norm(x).mean(dim=0))

    def logits_for_each_patch(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """Every patch has ten logits.

        The image has ten: average over the patches, (b, n, d_model) to (b, d_model), before the head or after it.
        """
        return head(norm(x))

    def shares_for_logits(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """The softmax is taken inside.

        F.cross_entropy applies a softmax itself, and a second one flattens the gradients. Return the logits.
        """
        return head(norm(x).mean(dim=1)).softmax(dim=-1)

    def head_not_called(self, x: Tensor, norm: Layer) -> Tensor:
        """The head is not called.

        The mean of the patches is a vector of d_model features. The head turns it into ten logits.
        """
        return norm(x).mean(dim=1)

    @along_with("positions_not_added", "no_block_called")
    def bag_of_pixels(self, x: Tensor, norm: Layer, head: Layer) -> Tensor:
        """Neither positions nor blocks are used.

        What is left is one linear layer for each patch, and a mean. Add the positions, and loop over the blocks.
        """
        return head(norm(x).mean(dim=1))
