"""Lesson 06: how many multiplications a block takes, and how many numbers are in its tables of weights."""

from torch import Tensor

from attnlib.checks.course.steps import Step, each

Costs = tuple[Tensor, Tensor, Tensor]


class HeadWidth(Step):
    """The heads share the width of a word."""

    makes = ("d_head",)

    def right(self, d_model: int, num_heads: int) -> int:
        return d_model // num_heads

    def heads_as_wide_as_words(self, d_model: int) -> int:
        """Every head is counted at full width.

        The heads share the d_model columns of queries, keys and values: each has d_model // num_heads of them. That is
        why more heads do not make more multiplications.
        """
        return d_model


class OneWord(Step):
    """Four projections and the two matrices of the MLP."""

    makes = ("one_word",)

    def right(self, d_model: int, d_hidden: int) -> int:
        return 4 * d_model**2 + 2 * d_model * d_hidden

    def w_o_left_out(self, d_model: int, d_hidden: int) -> int:
        """One projection is missing.

        There are three on the way into attention, w_q, w_k and w_v, and w_o on the way out: four of d_model × d_model.
        """
        return 3 * d_model**2 + 2 * d_model * d_hidden

    def one_projection_counted(self, d_model: int, d_hidden: int) -> int:
        """Only one projection is counted.

        Queries, keys, values and the output each have a matrix of d_model × d_model: four in all.
        """
        return d_model**2 + 2 * d_model * d_hidden

    def projections_left_out(self, d_model: int, d_hidden: int) -> int:
        """The projections are missing.

        Every word is multiplied by w_q, w_k, w_v and w_o, too. That is work word by word, although it is in `attn`.
        """
        return 2 * d_model * d_hidden

    def projections_for_each_head(self, d_model: int, num_heads: int, d_hidden: int) -> int:
        """The projections are counted once for each head.

        One matrix of d_model × d_model makes the queries of *all* heads, and each head takes its own columns of the
        result.
        """
        return 4 * num_heads * d_model**2 + 2 * d_model * d_hidden

    def projections_as_wide_as_a_head(self, d_model: int, d_head: int, d_hidden: int) -> int:
        """The projections are as wide as a single head.

        d_model × d_head is one head's share. All heads together have d_model columns, so each of the four matrices is
        d_model × d_model.
        """
        return 4 * d_model * d_head + 2 * d_model * d_hidden

    def mlp_left_out(self, d_model: int) -> int:
        """The MLP is missing.

        It multiplies every word by two matrices, `up` of d_model × d_hidden and `down` of d_hidden × d_model. In most
        blocks that is twice as much as the four projections.
        """
        return 4 * d_model**2

    def one_mlp_matrix_counted(self, d_model: int, d_hidden: int) -> int:
        """Only one matrix of the MLP is counted.

        `up` leads from d_model to d_hidden, and `down` leads back: two matrices of the same size.
        """
        return 4 * d_model**2 + d_model * d_hidden

    def four_times_as_wide(self, d_model: int) -> int:
        """The MLP is taken to be four times as wide as a word.

        It often is, but `d_hidden` says how wide it is here.
        """
        return 4 * d_model**2 + 2 * d_model * 4 * d_model

    def hidden_squared(self, d_model: int, d_hidden: int) -> int:
        """A matrix of d_hidden × d_hidden is counted.

        The MLP has no such matrix: `up` is d_model × d_hidden, `down` is d_hidden × d_model.
        """
        return 4 * d_model**2 + 2 * d_hidden**2

    def biases_counted(self, d_model: int, d_hidden: int) -> int:
        """The biases are counted.

        You have counted the block's weights, biases included. A bias is added, and nothing is multiplied by it.
        """
        return 4 * d_model**2 + 2 * d_model * d_hidden + 5 * d_model + d_hidden


class CompareWords(Step):
    """In every head and for each pair of words, a score and a share of the mixture."""

    makes = ("between",)

    def right(self, lengths: Tensor, num_heads: int, d_head: int) -> Tensor:
        return 2 * num_heads * d_head * lengths**2

    def mixture_left_out(self, lengths: Tensor, num_heads: int, d_head: int) -> Tensor:
        """The scores are counted, the mixture is not.

        Once the weights are known, each of them is multiplied by a value of d_head numbers. That costs as much as the
        scores do.
        """
        return num_heads * d_head * lengths**2

    def one_head_compared(self, lengths: Tensor, d_head: int) -> Tensor:
        """The pairs are counted in one head only.

        Each of the num_heads heads compares all words with all words, and mixes values of its own.
        """
        return 2 * d_head * lengths**2

    def width_left_out(self, lengths: Tensor, num_heads: int) -> Tensor:
        """A score is counted as one multiplication.

        A score is a dot product of d_head numbers with d_head numbers: d_head multiplications.
        """
        return 2 * num_heads * lengths**2

    def length_not_squared(self, lengths: Tensor, num_heads: int, d_head: int) -> Tensor:
        """Each word is compared with one word only.

        Every word asks every word, itself included: lengths² pairs.
        """
        return 2 * num_heads * d_head * lengths

    @each(own=(1, -1))
    def each_pair_once(self, lengths: Tensor, num_heads: int, d_head: int, own: int) -> Tensor:
        """Each pair of words is counted once.

        *it* asks *animal*, and *animal* asks *it*: these are two scores, of two queries. An encoder has no mask, so all
        lengths² of them are computed.
        """
        return num_heads * d_head * lengths * (lengths + own)


class FillTables(Step):
    """A weight for each pair, in every head."""

    makes = ("tables",)

    def right(self, lengths: Tensor, num_heads: int) -> Tensor:
        return num_heads * lengths**2

    def one_table_counted(self, lengths: Tensor) -> Tensor:
        """Only one table is counted.

        Each head has a softmax of its own, and so a table of its own. This is the number that grows with the heads.
        """
        return lengths**2

    def one_row_counted(self, lengths: Tensor, num_heads: int) -> Tensor:
        """One row of each table is counted.

        The table of a head has a row for each query and a column for each key: lengths² numbers.
        """
        return num_heads * lengths

    def width_of_a_head_in_the_table(self, lengths: Tensor, num_heads: int, d_head: int) -> Tensor:
        """The width of a head is counted in the tables.

        A pair of words has one weight in each head. d_head numbers were multiplied and added up to get it, but they are
        not kept.
        """
        return num_heads * d_head * lengths**2

    def scores_kept_too(self, lengths: Tensor, num_heads: int) -> Tensor:
        """Scores and weights are both counted.

        The weights are asked for: one number for each pair in each head.
        """
        return 2 * num_heads * lengths**2

    @each(number_bytes=(4, 8))
    def bytes_counted(self, lengths: Tensor, num_heads: int, number_bytes: int) -> Tensor:
        """Bytes are counted, not numbers.

        How many bytes a number takes depends on its dtype. The contract asks how many numbers there are.
        """
        return number_bytes * num_heads * lengths**2


class Bill(Step):
    """Word by word, between words, and the tables, in this order."""

    def right(self, lengths: Tensor, one_word: int, between: Tensor, tables: Tensor) -> Costs:
        return one_word * lengths, between, tables

    def one_word_counted(self, lengths: Tensor, one_word: int, between: Tensor, tables: Tensor) -> Costs:
        """Only one word is counted.

        What is done word by word is done for each of them: multiply by `lengths`.
        """
        return one_word * lengths**0, between, tables

    def additions_counted(self, lengths: Tensor, one_word: int, between: Tensor, tables: Tensor) -> Costs:
        """Additions are counted as well.

        A product of matrices adds about as often as it multiplies, and "FLOPs" are both together: twice as many. The
        contract asks for the multiplications alone.
        """
        return 2 * one_word * lengths, 2 * between, tables

    def between_words_first(self, lengths: Tensor, one_word: int, between: Tensor, tables: Tensor) -> Costs:
        """The first two results are exchanged.

        The work word by word comes first, then the work between words, then the tables.
        """
        return between, one_word * lengths, tables

    def whole_block_first(self, lengths: Tensor, one_word: int, between: Tensor, tables: Tensor) -> Costs:
        """The first result is the whole block.

        The two kinds of work are asked for one by one: the first result is the work word by word alone.
        """
        return one_word * lengths + between, between, tables

    def projections_between_words(
        self, lengths: Tensor, one_word: int, d_model: int, between: Tensor, tables: Tensor
    ) -> Costs:
        """The projections are counted as work between words.

        They belong to `attn`, but no word meets another one in them: each is multiplied by the four matrices alone.
        """
        projections = 4 * d_model**2 * lengths
        return one_word * lengths - projections, between + projections, tables

    @each(unit=(10**6, 10**9))
    def in_larger_units(self, lengths: Tensor, one_word: int, between: Tensor, tables: Tensor, unit: int) -> Costs:
        """The multiplications are counted in millions.

        That is easier to read, but the contract asks for whole numbers. Divide where you print or draw.
        """
        return one_word * lengths / unit, between / unit, tables

    def lengths_added_up(self, lengths: Tensor, one_word: int, between: Tensor, tables: Tensor) -> Costs:
        """The lengths are added up.

        `lengths` holds several questions, each with an answer of its own: what does the block cost at this length?
        """
        return (one_word * lengths).sum(), between.sum(), tables.sum()
