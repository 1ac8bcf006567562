"""Lesson 07: tables of positions, rotation by position, the order of a head's columns, and penalties for distance."""

import math

import torch
from torch import Tensor

import attnlib
from attnlib.attention import equation
from attnlib.checks.course.slips.attention import Scale, Share
from attnlib.checks.course.steps import Step, along_with, discussed_at, each, spells, told_as


class TableSizes(Step):
    """How wide the table is, and that nothing says where it is."""

    makes = ("width", "device")

    def right(self, d_model: int) -> tuple[int, None]:
        return d_model, None


class EvenWidth(Step):
    """Columns come in pairs."""

    makes = ("columns", "width", "device")

    def right(self, x: Tensor) -> tuple[Tensor, int, torch.device]:
        if x.shape[-1] % 2:
            raise ValueError(f"d must be even (columns are rotated in pairs), got {x.shape[-1]}")
        return x, x.shape[-1], x.device

    def odd_width_left_to_torch(self, x: Tensor) -> tuple[Tensor, int, torch.device]:
        """The error is torch's, not yours.

        With an odd width the halves have different sizes, and some operation fails with a RuntimeError about shapes
        that the caller has never heard of. Check x.shape[-1] first, and raise a ValueError.
        """
        if x.shape[-1] % 2:
            raise RuntimeError("The size of tensor a (4) must match the size of tensor b (3) at dimension 3")
        return self.right(x)

    def odd_width_asserted(self, x: Tensor) -> tuple[Tensor, int, torch.device]:
        """`assert` in place of a ValueError.

        An AssertionError says that *your* code is wrong, and `python -O` skips it. Here the caller is wrong: raise a
        ValueError that names the width you were given.
        """
        if x.shape[-1] % 2:
            raise AssertionError
        return self.right(x)

    def odd_column_dropped(self, x: Tensor) -> tuple[Tensor, int, torch.device]:
        """An odd width is accepted.

        The last column has no partner, and is dropped or left unchanged. Nobody who trains with that will notice. An
        odd width is the caller's mistake: raise ValueError.
        """
        columns = x[..., : x.shape[-1] // 2 * 2]
        return columns, columns.shape[-1], x.device


class Exponents(Step):
    """The exponent of each pair, from 0 to nearly 1."""

    makes = ("exponents",)

    def right(self, width: int, device: torch.device | None) -> Tensor:
        return torch.arange(0, width, 2, dtype=torch.float64, device=device) / width

    def exponent_doubled(self, width: int, device: torch.device | None) -> Tensor:
        """The 2 of 2i/d is counted twice.

        `arange(0, d, 2)` already holds the numbers 2i. Multiplied by 2 once more, the exponents run from 0 to 2, and
        the hands slow down twice as fast from pair to pair. Divide by d, and that is all.
        """
        return 2 * self.right(width, device)

    def exponent_halved(self, width: int, device: torch.device | None) -> Tensor:
        """The 2 of 2i/d is missing.

        Pair i has the exponent 2i/d. With i/d the exponents stop at one half, and the slowest hand is a hundred times
        too fast.
        """
        return self.right(width, device) / 2

    def exponent_to_one(self, width: int, device: torch.device | None) -> Tensor:
        """The last exponent is 1.

        You divide i by (number of pairs - 1), so that the slowest hand turns at exactly 1/base. Some libraries do that;
        the paper's formula is 2i/d, which stops before 1.
        """
        pairs = (width + 1) // 2
        return torch.arange(pairs, dtype=torch.float64, device=device) / max(pairs - 1, 1)

    def exponent_rounded_down(self, width: int, device: torch.device | None) -> Tensor:
        """The exponents are rounded down.

        2i // d is 0 for every pair, so all hands turn at the same speed. Use `/`.
        """
        return 0 * self.right(width, device)

    def exponent_from_two(self, width: int, device: torch.device | None) -> Tensor:
        """The first pair is counted as pair 1.

        i starts at 0: the first hand turns by one radian per position, because base⁰ = 1.
        """
        return self.right(width, device) + 2 / width


class Speeds(Step):
    """How fast each pair turns."""

    makes = ("speeds",)

    def right(self, exponents: Tensor, base: float) -> Tensor:
        return base**-exponents

    def times_the_base(self, exponents: Tensor, base: float) -> Tensor:
        """Multiplied by the power of the base, not divided.

        The hands get faster from pair to pair, and soon turn many times between two words. The position should be
        *divided* by base^(2i/d).
        """
        return base**exponents

    def base_ignored(self, exponents: Tensor) -> Tensor:
        """The base is always 10000.

        The argument `base` is not used. Models for long texts use other bases (LLaMA 3: 500000).
        """
        return 10000.0**-exponents

    def powers_of_e(self, exponents: Tensor) -> Tensor:
        """exp without the logarithm of the base.

        base^(-x) is exp(-x · ln base). Without the logarithm you have e^(-x), and the slowest hand is hardly slower
        than the first.
        """
        return (-exponents).exp()

    def divided_by_the_product(self, exponents: Tensor, base: float) -> Tensor:
        """The base is multiplied by the exponent, not raised to it.

        The speed is 1 / base^(2i/d), a power: use `**`, not `*`.
        """
        return 1 / (base * exponents + 1)


class TablePlaces(Step):
    """0 to n - 1."""

    makes = ("places",)

    def right(self, n: int) -> Tensor:
        return torch.arange(n, dtype=torch.float64)

    def places_from_one(self, n: int) -> Tensor:
        """The first position is 1.

        Positions are counted from 0, so the first row is 0, 1, 0, 1, …
        """
        return torch.arange(1, n + 1, dtype=torch.float64)

    def places_over_length(self, n: int) -> Tensor:
        """The positions are divided by the length.

        With positions squeezed between 0 and 1, the same word has a different position in a longer text, and "two words
        back" is a different distance in each text. Use the positions as they are.
        """
        return torch.arange(n, dtype=torch.float64) / n


class GivenPlaces(Step):
    """Positions are given, and may be any numbers."""

    makes = ("places",)

    def right(self, positions: Tensor) -> Tensor:
        return positions.double()

    def positions_assumed(self, x: Tensor) -> Tensor:
        """`positions` is not used.

        You count 0, 1, 2, … yourself. After a cache the first word may be at position 512, and in a padded batch each
        sentence begins somewhere else: use `positions`.
        """
        return torch.arange(x.shape[-2], dtype=torch.float64, device=x.device)

    def counted_from_the_first(self, x: Tensor, positions: Tensor) -> Tensor:
        """Only the first position is used.

        You take the first one and count up from it. But positions may have gaps, run backwards, or advance by a
        quarter: use each of them.
        """
        return positions[..., :1] + torch.arange(x.shape[-2], dtype=torch.float64, device=x.device)

    def positions_made_whole(self, positions: Tensor) -> Tensor:
        """Fractional positions are truncated.

        `.long()` or `.int()` turns 1.75 into 1. Positions may be any numbers: to read a long text, models squeeze it
        into the trained length.
        """
        return positions.long().double()

    def positions_of_one_sentence(self, x: Tensor, positions: Tensor) -> Tensor:
        """The positions of the first sentence are used for all.

        `positions` may have axes of its own, (b, 1, n): each sentence of a batch may begin somewhere else. Leave the
        axes in front, and let broadcasting do its work.
        """
        return positions.reshape(-1, x.shape[-2])[0].double()


class Angles(Step):
    """Position times speed."""

    makes = ("angles",)

    def right(self, places: Tensor, speeds: Tensor) -> Tensor:
        return places[..., None] * speeds

    def degrees(self, places: Tensor, speeds: Tensor) -> Tensor:
        """The angles are treated as degrees.

        `math.radians` or π/180 makes every hand 57 times slower. The first hand turns by one *radian* per position.
        """
        return places[..., None] * speeds * math.pi / 180

    def whole_turns(self, places: Tensor, speeds: Tensor) -> Tensor:
        """The angles are treated as whole turns.

        A factor of 2π makes one turn of each radian. At whole positions the first hand then always points the same way.
        Use position times speed, and nothing else.
        """
        return places[..., None] * speeds * 2 * math.pi

    def angles_in_float32(self, places: Tensor, speeds: Tensor) -> Tensor:
        """The angles are computed in float32.

        That is right near the beginning. But at position 30000 a float32 has only two or three digits left after the
        decimal point, and a speed that is off by one part in ten million puts the angle off by 0.003 radians. Compute
        angles in float64 (dtype=torch.float64 in arange), and convert the result.
        """
        return (places.float()[..., None] * speeds.float()).double()

    @spells(angles_in_float32)
    @each(negative=(True, False))
    def speeds_in_float32(self, places: Tensor, exponents: Tensor, base: float, negative: bool) -> Tensor:
        exponents = exponents.float()
        return places.float()[..., None] * (base**-exponents if negative else 1 / base**exponents)

    @spells(angles_in_float32)
    def speeds_by_exp_in_float32(self, places: Tensor, exponents: Tensor, base: float) -> Tensor:
        return places.float()[..., None] * (-math.log(base) * exponents.float()).exp()


class TableOfHands(Step):
    """Sine and cosine of each angle, in turn."""

    def right(self, angles: Tensor, d_model: int) -> Tensor:
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :d_model].float()

    def sin_cos_exchanged(self, angles: Tensor, d_model: int) -> Tensor:
        """Sine and cosine are exchanged.

        Even columns (0, 2, …) hold the sine, odd ones the cosine: the first row is 0, 1, 0, 1, …
        """
        return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(-2)[:, :d_model].float()

    def sines_then_cosines(self, angles: Tensor, d_model: int) -> Tensor:
        """All sines come first, then all cosines.

        The columns must alternate. (Some libraries put one half after the other. A model learns equally well from
        either, but weights trained with one do not fit the other.)
        """
        return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :d_model].float()

    def sines_alone(self, angles: Tensor, d_model: int) -> Tensor:
        """Every column is a sine.

        One number cannot say where a hand points: the sine is the same at 80° and at 100°. The odd columns hold the
        cosine of the same angle.
        """
        return angles.sin().repeat_interleave(2, dim=-1)[:, :d_model].float()

    def speeds_not_shared(self, places: Tensor, d_model: int, base: float) -> Tensor:
        """Each column has its own speed.

        Columns 2i and 2i + 1 are the sine and the cosine of *one* angle, with the exponent 2i/d for both. With the
        column's own number in place of 2i, they are no longer one hand.
        """
        columns = torch.arange(d_model)
        angles = places[:, None] * base ** (-columns.double() / d_model)
        return torch.where(columns % 2 == 0, angles.sin(), angles.cos()).float()

    def table_turned(self, angles: Tensor, d_model: int) -> Tensor:
        """The table is transposed.

        A row belongs to a position, a column to a feature: (n, d_model). Added to x of shape (b, n, d_model), it lines
        up with the last two axes.
        """
        return self.right(angles, d_model).T

    def odd_width_rounded_up(self, angles: Tensor) -> Tensor:
        """An odd d_model gets one column too many.

        Pairs fill an even number of columns. When d_model is odd, the last cosine is left out.
        """
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).float()

    def odd_width_fails(self, angles: Tensor, d_model: int) -> Tensor:
        """An odd d_model ends in an error.

        With an odd width there is one sine more than there are cosines, and `table[:, 1::2]` has no room for the last
        cosine. Leave it out: `cosines[:, : d_model // 2]`, or cut the finished table to d_model columns.
        """
        table = torch.zeros(len(angles), d_model)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        return table

    def odd_width_rounded_down(self, angles: Tensor, d_model: int) -> Tensor:
        """An odd d_model gets one column too few.

        When d_model is odd, the last pair still has room for its sine: only the cosine is left out.
        """
        return self.right(angles, d_model // 2 * 2)


def _in_dtype(columns: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
    return angles.cos().to(columns.dtype), angles.sin().to(columns.dtype)


class TurnPairs(Step):
    """Each pair of neighbours is turned by its angle."""

    def right(self, columns: Tensor, angles: Tensor) -> Tensor:
        cos, sin = _in_dtype(columns, angles)
        even, odd = columns[..., 0::2], columns[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    def turned_backwards(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The pairs are turned the other way round.

        The minus is on the wrong sine. Scores still depend on the distance alone, and a model could be trained like
        this, but it fits nobody else's weights. (a, b) becomes (a cos - b sin, a sin + b cos).
        """
        return self.right(columns, -angles)

    @discussed_at("https://github.com/huggingface/transformers/issues/25199")
    def halves_paired(self, columns: Tensor, angles: Tensor) -> Tensor:
        """Each column is paired with one of the other half, not with its neighbour.

        Column i is turned together with column i + d/2, as LLaMA does it in transformers. Here the pairs are
        neighbours: (0, 1), (2, 3), … The next exercise is about getting from one to the other.
        """
        cos, sin = _in_dtype(columns, angles)
        first, second = columns.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    def not_interleaved_again(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The turned pairs are not put back in their places.

        The numbers are right, but all the first partners come before all the second ones: `cat` puts the halves one
        after the other. Stack the two along a new last axis and flatten it: a, b, a, b, …
        """
        return torch.cat([self.right(columns, angles)[..., 0::2], self.right(columns, angles)[..., 1::2]], dim=-1)

    def sin_cos_mixed_up(self, columns: Tensor, angles: Tensor) -> Tensor:
        """Sine and cosine are exchanged.

        At position 0 nothing may change: the cosine of 0 is 1 and belongs to the column itself, the sine of 0 is 0 and
        belongs to its partner.
        """
        return self.right(columns, math.pi / 2 - angles)

    def mirrored(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The pairs are reflected, not rotated.

        The minus is in the wrong place, or there is more than one, and the pair is mirrored. Exactly one minus is
        needed: (a cos - b sin, a sin + b cos).
        """
        turned = self.right(columns, angles)
        return torch.stack([turned[..., 0::2], -turned[..., 1::2]], dim=-1).flatten(-2)

    def both_plus(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The minus is missing.

        With a plus in both lines, lengths change, so this is not a rotation: (a cos - b sin, a sin + b cos).
        """
        cos, sin = _in_dtype(columns, angles)
        even, odd = columns[..., 0::2], columns[..., 1::2]
        return torch.stack([even * cos + odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    def partner_already_turned(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The second column is computed from the new first one.

        The first column of a pair was overwritten before the second was computed from it. Both need the *old* values:
        keep them under names of their own.
        """
        cos, sin = _in_dtype(columns, angles)
        even, odd = columns[..., 0::2], columns[..., 1::2]
        turned = even * cos - odd * sin
        return torch.stack([turned, turned * sin + odd * cos], dim=-1).flatten(-2)

    def two_conventions(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The angles are for neighbours, the partners from the other half.

        Two ways to pair columns are mixed: the angles are repeated for neighbours (a, a, b, b, …), and the partner is
        taken from the other half, as `rotate_half` does. Partners must share an angle.
        """
        cos, sin = (part.repeat_interleave(2, dim=-1) for part in _in_dtype(columns, angles))
        first, second = columns.chunk(2, dim=-1)
        return columns * cos + torch.cat([-second, first], dim=-1) * sin

    def angles_for_halves(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The partners are neighbours, but the angles are for halves.

        Two ways to pair columns are mixed: partners are neighbours, but the list of angles is laid out twice in a row
        (a, b, …, a, b, …). Partners must share an angle: repeat each one twice.
        """
        cos, sin = (torch.cat([part, part], dim=-1) for part in _in_dtype(columns, angles))
        partner = torch.stack([-columns[..., 1::2], columns[..., 0::2]], dim=-1).flatten(-2)
        return columns * cos + partner * sin

    def angle_added(self, columns: Tensor, angles: Tensor) -> Tensor:
        """The sines and cosines are added.

        That is what you did with the table. Here nothing is added: the pair is *turned*, and keeps its length.
        """
        return columns + torch.stack(_in_dtype(columns, angles)[::-1], dim=-1).flatten(-2)


class ColumnOrder(Step):
    """From where each column comes."""

    makes = ("order",)

    def right(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        order: Tensor = _numbered(w).unflatten(0, (num_heads, -1, 2)).transpose(1, 2).flatten()
        return order.argsort() if back else order

    def heads_forgotten(self, w: Tensor, back: bool) -> Tensor:
        """The whole width is reordered at once.

        Each head has its own pairs and its own halves. Reordered over the full width, columns of one head end up in
        another. Split into heads first.
        """
        return self.right(w, 1, back)

    @spells(heads_forgotten)
    def heads_forgotten_on_the_way_back(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        return self.right(w, 1 if back else num_heads, back)

    def back_ignored(self, w: Tensor, num_heads: int) -> Tensor:
        """`back` makes no difference.

        Applying the same reordering again does not undo it (unless a head has only two or four columns). With back=True
        the halves become neighbours again.
        """
        return self.right(w, num_heads, False)

    def to_and_back_exchanged(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        """The two directions are exchanged.

        You turn halves into neighbours, and are asked to turn neighbours into halves: of the columns 0 1 2 3 4 5 the
        even ones come first, 0 2 4 1 3 5.
        """
        return self.right(w, num_heads, not back)

    def odd_columns_first(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        """The second partners come first.

        The first half holds the *first* column of every pair: 0 2 4, then 1 3 5.
        """
        order: Tensor = _numbered(w).unflatten(0, (num_heads, -1, 2)).flip(2).transpose(1, 2).flatten()
        return order.argsort() if back else order

    def heads_last(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        """The columns are cut into heads the wrong way.

        Head 0 has the first d columns, head 1 the next: (h d), as in lesson 03. You take every h-th column for a head,
        (d h).
        """
        order: Tensor = _numbered(w).unflatten(0, (-1, 2, num_heads)).transpose(0, 1).flatten()
        return order.argsort() if back else order

    def halves_changed_places(self, w: Tensor, num_heads: int) -> Tensor:
        """The halves of each head are exchanged.

        That is half of what `rotate_half` does while a model runs. Here the columns are sorted once and for all: the
        first partners of all pairs, then the second.
        """
        order: Tensor = _numbered(w).unflatten(0, (num_heads, 2, -1)).flip(1).flatten()
        return order

    def nothing_moved(self, w: Tensor) -> Tensor:
        """No column has moved.

        Splitting an axis and flattening it again leaves everything in place. Swap the axes in between: (pair, 2) → (2,
        pair).
        """
        return _numbered(w)

    def heads_for_width(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        """num_heads is taken for the width of a head.

        There are num_heads heads, each w.shape[-1] // num_heads wide.
        """
        return self.right(w, w.shape[-1] // num_heads, back)

    @spells(heads_for_width)
    def heads_for_an_odd_width(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        order = torch.arange(num_heads).remainder(2).argsort(stable=True)
        columns: Tensor = _numbered(w).unflatten(0, (-1, num_heads))
        return columns[:, order.argsort() if back else order].flatten()

    def columns_reversed(self, w: Tensor, num_heads: int, back: bool) -> Tensor:
        """The second half is reversed.

        In 0 2 4 5 3 1, columns 0 and 5 would be partners. Both halves should list the pairs in the same order.
        """
        order: Tensor = _numbered(w).unflatten(0, (num_heads, -1, 2)).transpose(1, 2)
        order = torch.stack([order[:, 0], order[:, 1].flip(-1)], dim=1).flatten()
        return order.argsort() if back else order


def _numbered(w: Tensor) -> Tensor:
    return torch.arange(w.shape[-1], device=w.device)


class Reorder(Step):
    """The columns in their new order."""

    def right(self, w: Tensor, order: Tensor) -> Tensor:
        return w[..., order]

    def rows_reordered(self, w: Tensor, order: Tensor) -> Tensor:
        """Rows are reordered, not columns.

        Here x @ w gives the queries, so a *column* of w makes one feature of a query. (In the `weight` of an nn.Linear
        it is a row.) Reorder the last axis.
        """
        return w.index_select(0, order)

    def second_half_negated(self, w: Tensor, num_heads: int, order: Tensor) -> Tensor:
        """The sign of the second half is flipped.

        The minus belongs to the rotation, which happens anew in every pass. The weights are only sorted.
        """
        reordered = w[..., order].unflatten(-1, (num_heads, 2, -1))
        return torch.stack([reordered[..., 0, :], -reordered[..., 1, :]], dim=-2).flatten(-3)


class PowerOfTwo(Step):
    """The series is defined for 1, 2, 4, 8, … heads."""

    makes = ("heads",)

    def right(self, num_heads: int) -> int:
        if num_heads & (num_heads - 1):
            raise ValueError(f"num_heads must be a power of two, got {num_heads}")
        return num_heads

    def other_heads_accepted(self, num_heads: int) -> int:
        """Any number of heads is accepted.

        2^(-8i/h) gives numbers for twelve heads, too, but not those that the paper's models were trained with (those
        are the stretch exercise). Raise a ValueError rather than compute something else.
        """
        return num_heads

    def other_heads_asserted(self, num_heads: int) -> int:
        """`assert` in place of a ValueError, for the number of heads.

        An AssertionError says that your own code is wrong, and `python -O` skips it. Raise a ValueError that names the
        number you were given.
        """
        if num_heads & (num_heads - 1):
            raise AssertionError
        return num_heads

    def one_head_refused(self, num_heads: int) -> int:
        """One head is refused.

        1 is a power of two, 2⁰: a single head has the slope 2⁻⁸. (`num_heads % 2` asks only whether a number is even:
        it lets six heads pass.)
        """
        if num_heads == 1:
            raise ValueError("num_heads must be even")
        return self.right(num_heads)


class Slopes(Step):
    """One slope for each head."""

    makes = ("slopes",)

    def right(self, heads: int) -> Tensor:
        return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)

    def first_slope_is_one(self, heads: int) -> Tensor:
        """The first slope is 1.

        i runs from 1 to h, so the steepest slope is 2^(-8/h), and the flattest is 2⁻⁸ for every h. Counted from 0, the
        series would begin with 1.
        """
        return 2.0 ** (-8 * torch.arange(heads) / heads)

    def slopes_of_eight_heads(self, heads: int) -> Tensor:
        """The slopes are those of eight heads, whatever h is.

        1/2, 1/4, 1/8, … is the series for h = 8. In general each slope is 2^(-8/h) times the one before: fewer heads
        take larger steps, and the last slope is always 2⁻⁸.
        """
        return 2.0 ** -torch.arange(1, heads + 1)

    def slopes_reversed(self, heads: int) -> Tensor:
        """The slopes are in reverse order.

        Head 1 is the steepest, with 2^(-8/h), and head h the flattest, with 2⁻⁸.
        """
        return self.right(heads).flip(0)

    def slopes_growing(self, heads: int) -> Tensor:
        """The minus in the exponents is missing.

        2^(8i/h) gives slopes of up to 256, and no head looks further than itself. The slopes should be below 1.
        """
        return 1 / self.right(heads)

    def slopes_even(self, heads: int) -> Tensor:
        """The slopes are evenly spaced.

        They should form a *geometric* series, each the same multiple of the one before. Evenly spaced, nearly all heads
        would be near-sighted.
        """
        return torch.linspace(2 ** (-8 / heads), 2**-8, heads)

    def slopes_with_e(self, heads: int) -> Tensor:
        """The slopes are powers of e, not of 2.

        For eight heads, they should be 1/2, 1/4, 1/8, and so on.
        """
        return (-8 * torch.arange(1, heads + 1) / heads).exp()

    def one_slope_for_all(self, heads: int) -> Tensor:
        """All heads have the same slope.

        With one slope, every head is equally near-sighted. Each head needs its own, so that some look near and some
        look far.
        """
        return torch.full((heads,), 2.0**-8)


class Distance(Step):
    """How far each key is behind each query."""

    makes = ("distance",)

    def right(self, q_len: int, k_len: int) -> Tensor:
        return torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)

    def aligned_to_the_first_key(self, q_len: int, k_len: int) -> Tensor:
        """The first query is aligned with the first key.

        When there are more keys than queries, the first keys come from a cache, and the *last* query is at the last
        key. Query i is at position i + (k_len - q_len), as in lesson 05's causal mask.
        """
        return torch.arange(q_len)[:, None] - torch.arange(k_len)

    @spells(aligned_to_the_first_key)
    def aligned_to_the_first_key_absolute(self, q_len: int, k_len: int) -> Tensor:
        return self.aligned_to_the_first_key(q_len, k_len).abs()

    def offset_subtracted(self, q_len: int, k_len: int) -> Tensor:
        """The queries are moved to the wrong side of the keys.

        When there are more keys than queries, the first keys come from a cache, and the queries are the *last* words:
        query i is at position i + (k_len - q_len). With q_len - k_len it would be before the first key.
        """
        return torch.arange(q_len)[:, None] + (q_len - k_len) - torch.arange(k_len)

    def distance_from_one(self, q_len: int, k_len: int) -> Tensor:
        """A word is at distance 1 from itself.

        The diagonal must be 0. (The weights would be the same: softmax ignores a number that is added to a whole row.)
        """
        return self.right(q_len, k_len) + 1

    def keys_counted_alone(self, q_len: int, k_len: int) -> Tensor:
        """The key's position is used without the query's.

        After the softmax this is the same: slope · (j - i) and slope · j differ by a number that is the same for the
        whole row. That is a good trick, and the paper's code uses it. But the contract has 0 on the diagonal.
        """
        return -torch.arange(k_len).expand(q_len, k_len)

    @spells(keys_counted_alone)
    def keys_counted_from_the_last(self, q_len: int, k_len: int) -> Tensor:
        return (k_len - 1 - torch.arange(k_len)).expand(q_len, k_len)

    def queries_counted_alone(self, q_len: int, k_len: int) -> Tensor:
        """The query's position is used without the key's.

        The bias must vary along the *keys*. A bias that varies only along the queries is the same number for a whole
        row, and the softmax cancels it: it has no effect at all.
        """
        return torch.arange(k_len - q_len, k_len)[:, None].expand(q_len, k_len)

    def distance_squared(self, q_len: int, k_len: int) -> Tensor:
        """The distance is squared.

        The penalty is linear: twice as far, twice as much. The L in ALiBi says so.
        """
        return self.right(q_len, k_len) ** 2

    def distance_over_length(self, q_len: int, k_len: int) -> Tensor:
        """The distance is divided by the length.

        "Two words back" must cost the same in every text, long or short. That is why the bias also works beyond the
        trained length.
        """
        return self.right(q_len, k_len) / k_len


class Penalise(Step):
    """Slope times distance, taken off the scores."""

    def right(self, slopes: Tensor, distance: Tensor) -> Tensor:
        return -slopes[:, None, None] * distance

    def rewarded(self, slopes: Tensor, distance: Tensor) -> Tensor:
        """Distance is rewarded.

        The bias is added to the scores, so for keys in the past it must be negative, and 0 on the diagonal. With a
        plus, the farthest word gets the most.
        """
        return slopes[:, None, None] * distance

    def heads_at_the_end(self, slopes: Tensor, distance: Tensor) -> Tensor:
        """The heads are the last axis.

        The bias is added to scores of shape (b, h, q, k), so its shape is (h, q, k). Give the slopes two more axes:
        slopes[:, None, None].
        """
        return -slopes * distance[..., None]

    def queries_and_keys_exchanged(self, slopes: Tensor, distance: Tensor) -> Tensor:
        """Queries and keys are exchanged.

        Rows belong to queries, columns to keys: (h, q, k).
        """
        return (-slopes[:, None, None] * distance).mT


class NewPlaces(Step):
    """Where the new words are: behind what the cache holds."""

    makes = ("places",)

    def right(self, q: Tensor, past_k: Tensor) -> Tensor:
        m = past_k.shape[-2]
        return torch.arange(m, m + q.shape[-2], device=q.device)

    def restarted(self, q: Tensor) -> Tensor:
        """The new words start at position 0 again.

        The cache holds the words that came before. If it has m keys, the first new word is at position m.
        """
        return torch.arange(q.shape[-2], device=q.device)

    def one_too_far(self, q: Tensor, past_k: Tensor) -> Tensor:
        """The new words are one position too far.

        The m keys in the cache are at positions 0 to m - 1, so the first new word is at m, not at m + 1.
        """
        return self.right(q, past_k) + 1

    def all_at_one_place(self, q: Tensor, past_k: Tensor) -> Tensor:
        """All new words are at the same position.

        When several new words arrive at once, each is one position further than the one before: m, m + 1, …
        """
        return self.right(q, past_k)[:1].expand(q.shape[-2])

    def counted_as_the_past(self, q: Tensor, past_k: Tensor) -> Tensor:
        """The new words are placed at the end of the past, not after it.

        The last key of the cache is at m - 1, and the new words come after it: m, m + 1, …
        """
        return self.right(q, past_k) - q.shape[-2]


class TurnNew(Step):
    """Queries and keys are turned; values are not, and what is in the cache was turned when it was written."""

    makes = ("new_q", "new_k", "new_v", "old_k")

    def right(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return attnlib.rotate(q, places), attnlib.rotate(k, places), v, past_k

    def values_turned(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The values are turned as well.

        Turned queries and keys meet in a product, in which only the difference of their positions remains. A value is
        not multiplied with anything else that is turned, so its absolute position stays in the output.
        """
        return attnlib.rotate(q, places), attnlib.rotate(k, places), attnlib.rotate(v, places), past_k

    def queries_not_turned(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The queries are not turned.

        The score should depend on the *difference* of two positions. If the query is not turned, it depends on the
        key's own position instead.
        """
        return q, attnlib.rotate(k, places), v, past_k

    def keys_not_turned(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The new keys are not turned.

        The keys in the cache are turned, and the new ones that join them must be, too.
        """
        return attnlib.rotate(q, places), k, v, past_k

    def past_turned_again(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The keys in the cache are turned a second time.

        They were turned when they were written. Turned again, they end up at twice their positions.
        """
        again = torch.arange(past_k.shape[-2], device=q.device)
        return attnlib.rotate(q, places), attnlib.rotate(k, places), v, attnlib.rotate(past_k, again)

    def turned_backwards_as_well(
        self, q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The queries are turned the opposite way to the keys.

        Query and key are turned the same way, each by its own position. Turned in opposite directions, they leave the
        *sum* of the two positions in the score.
        """
        return attnlib.rotate(q, -places), attnlib.rotate(k, places), v, past_k


class AppendNew(Step):
    """First the past, then the new."""

    makes = ("keys", "values")

    def right(self, old_k: Tensor, past_v: Tensor, new_k: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([old_k, new_k], dim=-2), torch.cat([past_v, new_v], dim=-2)

    def past_forgotten(self, new_k: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        """The cache is not used.

        The new words see only one another. Put the keys and values of the past before the new ones.
        """
        return new_k, new_v

    def past_at_the_end(self, old_k: Tensor, past_v: Tensor, new_k: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        """The past is put after the new words.

        The causal mask goes by the order of the keys: what was said first must come first.
        """
        return torch.cat([new_k, old_k], dim=-2), torch.cat([new_v, past_v], dim=-2)


class AttendCausally(Step):
    """The last query is at the last key."""

    def right(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return equation(new_q, keys, values, is_causal=True)[0]

    @told_as(Scale.no_scale)
    def no_scale(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return self.right(new_q * math.sqrt(new_q.shape[-1]), keys, values)

    @told_as(Share.over_queries)
    def over_queries(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        scores = new_q @ keys.mT * new_q.shape[-1] ** -0.5
        future = torch.ones_like(scores, dtype=torch.bool).triu(1 + keys.shape[-2] - new_q.shape[-2])
        output: Tensor = scores.masked_fill(future, -torch.inf).softmax(dim=-2) @ values
        return output

    def not_causal(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The new words see one another's future.

        The past is open to all of them, but among the new words each sees only itself and those before it.
        """
        return equation(new_q, keys, values)[0]

    def mask_from_the_first_key(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The mask aligns the first query with the first key.

        PyTorch's own is_causal does that, too. The *last* query is at the last key: the whole cache is open to every
        query.
        """
        mask = torch.ones(new_q.shape[-2], keys.shape[-2], dtype=torch.bool, device=new_q.device).tril()
        return equation(new_q, keys, values, mask=mask)[0]


class Below(Step):
    """The largest power of two that is not above the number of heads."""

    makes = ("below",)

    def right(self, num_heads: int) -> int:
        return 1 << int(math.log2(num_heads))

    def power_above(self, num_heads: int) -> int:
        """The power of two above is taken.

        The series begins with that of the next *lower* power of two, and is then completed. Round down with `floor`,
        not up with `ceil`.
        """
        return 1 << math.ceil(math.log2(num_heads))

    def power_nearest(self, num_heads: int) -> int:
        """The nearest power of two is taken.

        `round` rounds 6 and 12 up. The series begins with that of the next *lower* power of two: round down.
        """
        return 1 << round(math.log2(num_heads))

    def others_refused(self, num_heads: int) -> int:
        """Other numbers of heads are refused.

        That was right in `alibi_bias`. Here these numbers are what the exercise is about.
        """
        if num_heads & (num_heads - 1):
            raise ValueError(f"num_heads must be a power of two, got {num_heads}")
        return num_heads

    def formula_for_any(self, num_heads: int) -> int:
        """2^(-8i/h) is used, whatever h is.

        That gives a series, but not the one in the paper's code, which starts with the slopes of the next lower power
        of two and leaves them unchanged.
        """
        return num_heads


class Completed(Step):
    """The series for the lower power, and every other slope of the next higher one."""

    def right(self, below: int, num_heads: int) -> Tensor:
        return torch.cat([_series(below), _series(2 * below)[0::2]])[:num_heads]

    def those_it_has_already(self, below: int, num_heads: int) -> Tensor:
        """The slopes you added are in the list already.

        Every other slope of the longer series, the second, fourth, sixth and so on, is also in the shorter one. Take
        the ones *between* them: the first, third, fifth, …
        """
        return torch.cat([_series(below), _series(2 * below)[1::2]])[:num_heads]

    def first_of_the_longer(self, below: int, num_heads: int) -> Tensor:
        """The first slopes of the longer series are taken, one after another.

        Half of them are in the shorter series already. Take every other one.
        """
        return torch.cat([_series(below), _series(2 * below)])[:num_heads]

    def last_of_the_longer(self, below: int, num_heads: int) -> Tensor:
        """The additional slopes are taken from the flat end.

        They should be taken from the steep end: the first, third, fifth, … of the longer series.
        """
        return torch.cat([_series(below), _series(2 * below)[0::2].flip(0)])[:num_heads]

    @spells(last_of_the_longer)
    def last_of_the_longer_in_order(self, below: int, num_heads: int) -> Tensor:
        return torch.cat([_series(below), _series(2 * below)[0::2][2 * below - num_heads :]])

    @along_with("power_nearest")
    @spells(Below.power_nearest)
    def cut_from_the_end(self, below: int, num_heads: int) -> Tensor:
        return torch.cat([_series(below), _series(2 * below)[0::2][: num_heads - below]])

    def sorted_by_size(self, below: int, num_heads: int) -> Tensor:
        """The slopes are sorted.

        They are the right slopes. But trained weights depend on which head has which one: the shorter series first,
        then the others.
        """
        return self.right(below, num_heads).sort(descending=True).values

    def others_put_first(self, below: int, num_heads: int) -> Tensor:
        """The additional slopes come first.

        The heads of the shorter series keep their places, and the additional ones follow.
        """
        return self.right(below, num_heads).roll(num_heads - below)

    def last_slope_repeated(self, below: int, num_heads: int) -> Tensor:
        """The last slope is repeated.

        Heads with the same slope weigh distances alike. The additional heads should get slopes between the others.
        """
        series = _series(below)
        return torch.cat([series, series[-1:].expand(max(num_heads - below, 0))])[:num_heads]

    def series_from_one(self, below: int, num_heads: int) -> Tensor:
        """The series begins with 1.

        i starts at 1: the steepest slope is 2^(-8/h). Counted from 0, the series would begin with 2⁰ = 1.
        """
        series, longer = (2.0 ** (-8 * torch.arange(h) / h) for h in (below, 2 * below))
        return torch.cat([series, longer[1::2]])[:num_heads]


def _series(heads: int) -> Tensor:
    return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
