"""Lesson 09: heads that share keys and values, windows, and guesses that are accepted or not."""

import torch
from torch import Tensor

from attnlib.checks.course.slips.masks import behind
from attnlib.checks.course.steps import Step, along_with, each, spells

Two = tuple[Tensor, Tensor]


class ReadGroups(Step):
    """For each head of queries the keys and values of its group: head i reads group i // (h / g)."""

    makes = ("k", "v")

    def right(self, q: Tensor, k: Tensor, v: Tensor) -> Two:
        h, g = q.shape[1], k.shape[1]
        if h % g:
            raise ValueError(f"the number of heads must be a multiple of the number of groups, got {h} and {g}")
        return k.repeat_interleave(h // g, dim=1), v.repeat_interleave(h // g, dim=1)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, groups: Tensor, which: str = "kv") -> Two:
        """Head i reads `groups[i]`, for the keys or values in `which`; the others are right."""
        keys, values = self.right(q, k, v)
        return k[:, groups] if "k" in which else keys, v[:, groups] if "v" in which else values

    @each(which=("kv", "k", "v"))
    def groups_taking_turns(self, q: Tensor, k: Tensor, v: Tensor, which: str) -> Two:
        """The heads take turns with the groups.

        Head i reads the keys of group i % g, or its values, or both: 0 1 0 1, as with `repeat`. Neighbours should
        share, 0 0 1 1: head i reads group i // (h / g). That is `repeat_interleave` of keys and values, or the heads
        of the queries as (g, h / g). The shapes are the same, but trained weights fit only one of the two.
        """
        self.right(q, k, v)
        return self._read(q, k, v, torch.arange(q.shape[1], device=q.device) % k.shape[1], which)

    def divided_by_groups(self, q: Tensor, k: Tensor, v: Tensor) -> Two:
        """The head's number is divided by g, not by h / g.

        g is the number of groups. The number of heads that share one group is h / g, and that is what to divide by.
        """
        self.right(q, k, v)
        return self._read(q, k, v, torch.arange(q.shape[1], device=q.device) // k.shape[1])

    def first_group_for_all(self, q: Tensor, k: Tensor, v: Tensor) -> Two:
        """All heads read the first group.

        With a single group that is multi-query attention. With more, head i reads group i // (h / g).
        """
        self.right(q, k, v)
        return self._read(q, k, v, torch.zeros(q.shape[1], dtype=torch.long, device=q.device))

    def groups_averaged(self, q: Tensor, k: Tensor, v: Tensor) -> Two:
        """The groups are averaged.

        Each group has its own keys and values, and each head reads one of them.
        """
        self.right(q, k, v)
        return k.mean(dim=1, keepdim=True), v.mean(dim=1, keepdim=True)

    def groups_reversed(self, q: Tensor, k: Tensor, v: Tensor) -> Two:
        """The groups are read in reverse order.

        The first h / g heads read group 0, the next ones group 1: head i reads group i // (h / g).
        """
        keys, values = self.right(q, k, v)
        return keys.flip(1), values.flip(1)

    def uneven_groups_accepted(self, q: Tensor, k: Tensor, v: Tensor) -> Two:
        """Heads that cannot be divided evenly among the groups are accepted.

        If g does not divide h, rounding down leaves heads without a group, and torch's error is about shapes that
        nobody passed in. Raise a ValueError with both numbers.
        """
        each_reads = q.shape[1] // k.shape[1]
        return k.repeat_interleave(each_reads, dim=1), v.repeat_interleave(each_reads, dim=1)


class CutHeads(Step):
    """The columns of each head, and the heads of each group: (d_model, g, h / g, d)."""

    makes = ("k_heads", "v_heads")

    def right(self, w_k: Tensor, w_v: Tensor, num_heads: int, groups: int) -> Two:
        if num_heads % groups:
            raise ValueError(f"num_heads must be a multiple of groups, got {num_heads} and {groups}")
        shape = (groups, num_heads // groups, -1)
        return w_k.unflatten(-1, shape), w_v.unflatten(-1, shape)

    def every_gth_head(self, w_k: Tensor, w_v: Tensor, num_heads: int, groups: int) -> Two:
        """The heads of a group are not neighbours.

        You pool heads 0, g, 2g, … A group is a run of neighbours: in `grouped_query_attention` the first h / g heads
        read group 0.
        """
        self.right(w_k, w_v, num_heads, groups)
        shape = (num_heads // groups, groups, -1)
        return w_k.unflatten(-1, shape).transpose(-2, -3), w_v.unflatten(-1, shape).transpose(-2, -3)

    def columns_for_heads(self, w_k: Tensor, w_v: Tensor, num_heads: int, groups: int) -> Two:
        """Neighbouring columns are pooled, not neighbouring heads.

        The columns are in the order (h d): one whole head, then the next. Split into heads first, then pool the columns
        that are in the same place in each head.
        """
        self.right(w_k, w_v, num_heads, groups)
        shape = (groups, -1, num_heads // groups)
        return w_k.unflatten(-1, shape).mT, w_v.unflatten(-1, shape).mT

    def rows_pooled(self, w_k: Tensor, w_v: Tensor, num_heads: int, groups: int) -> Two:
        """The rows are cut, not the columns.

        In x @ w the rows of w belong to the features of x, and the columns to the heads.
        """
        k, v = self._rows(w_k, w_v, num_heads, groups)
        return k.movedim(3, 0), v.movedim(3, 0)

    def _rows(self, w_k: Tensor, w_v: Tensor, num_heads: int, groups: int) -> Two:
        self.right(w_k, w_v, num_heads, groups)
        k, v = (w.unflatten(0, (groups, num_heads // groups, -1)) for w in (w_k, w_v))
        return k, v

    def uneven_pools_accepted(self, w_k: Tensor, w_v: Tensor, num_heads: int, groups: int) -> Two:
        """Heads that cannot be pooled evenly are accepted.

        If `groups` does not divide `num_heads`, some groups would be larger, or some heads left over. Raise a
        ValueError with both numbers.
        """
        each = num_heads // groups
        k, v = (w.unflatten(-1, (num_heads, -1))[..., : groups * each, :] for w in (w_k, w_v))
        return k.unflatten(-2, (groups, each)), v.unflatten(-2, (groups, each))


class Pool(Step):
    """The mean of each group, side by side again."""

    def right(self, k_heads: Tensor, v_heads: Tensor) -> Two:
        return k_heads.mean(dim=-2).flatten(-2), v_heads.mean(dim=-2).flatten(-2)

    def pooled_by_sum(self, k_heads: Tensor, v_heads: Tensor) -> Two:
        """The heads are added up.

        The sum of four heads is four times too large, and so are its scores. The mean is as large as a single head.
        """
        return k_heads.sum(dim=-2).flatten(-2), v_heads.sum(dim=-2).flatten(-2)

    @each(place=(0, -1))
    def one_head_of_each(self, k_heads: Tensor, v_heads: Tensor, place: int) -> Two:
        """Only one head of each group is kept.

        What the others have learned is thrown away. This is the second-best start, say Ainslie and others, who tried
        all three: mean, one head, random.
        """
        return k_heads.select(-2, place).flatten(-2), v_heads.select(-2, place).flatten(-2)

    @spells(CutHeads.rows_pooled)
    def rows_pooled_where_they_are(self, w_k: Tensor, w_v: Tensor, num_heads: int, groups: int) -> Two:
        k, v = CutHeads()._rows(w_k, w_v, num_heads, groups)
        return k.mean(dim=1).flatten(0, 1), v.mean(dim=1).flatten(0, 1)

    def keys_pooled_alone(self, k_heads: Tensor, v_heads: Tensor) -> Two:
        """Only the keys are pooled.

        A head reads the keys *and* the values of its group.
        """
        return k_heads.mean(dim=-2).flatten(-2), v_heads.flatten(-3)

    def pooled_within_heads(self, k_heads: Tensor, v_heads: Tensor) -> Two:
        """The columns of each head are averaged.

        That makes the heads narrower, and there are as many as before. Average over the heads of a group; the width d
        stays.
        """
        return k_heads.mean(dim=-1).flatten(-2), v_heads.mean(dim=-1).flatten(-2)

    def values_before_keys(self, k_heads: Tensor, v_heads: Tensor) -> Two:
        """The values' matrix comes first.

        Return w_k first, then w_v: the order in which you were given them.
        """
        return v_heads.mean(dim=-2).flatten(-2), k_heads.mean(dim=-2).flatten(-2)

    def left_in_groups(self, k_heads: Tensor, v_heads: Tensor) -> Two:
        """The groups are not side by side.

        The result is a matrix again, (d_model, g·d): flatten the last two axes.
        """
        return k_heads.mean(dim=-2), v_heads.mean(dim=-2)


class SomeWindow(Step):
    """A window of 1 is the own key alone; of less, there is none."""

    def right(self, window: int) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")

    def no_window_accepted(self, window: int) -> None:
        """A window of 0 is accepted.

        With window = 0 a query sees no key, not even its own, and its softmax has nothing to share out. Raise a
        ValueError.
        """


class InWindow(Step):
    """Itself, and the window - 1 keys before it."""

    makes = ("mask",)

    def right(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        distance = behind(q_len, k_len, shift, None)
        return (distance >= 0) & (distance < window)

    def own_key_not_counted(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The window is one key too wide.

        `window` counts the query's own key: with window = 3 a query sees itself and *two* before it. The distances 0, 1
        and 2 are all smaller than the window.
        """
        return self.right(q_len, k_len, shift, window + 1)

    def one_key_too_few(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The window is one key too narrow.

        With window = 3 a query sees itself and the two before it, at distances 0, 1 and 2.
        """
        return self.right(q_len, k_len, shift, window - 1)

    def own_key_blocked(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The query does not see itself.

        Distance 0 is within the window: >= 0, not > 0.
        """
        return self.right(q_len, k_len, shift - 1, window)

    def window_to_both_sides(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The window reaches into the future.

        abs() removes the sign of the distance. Keys ahead of the query have negative distances and must be hidden:
        require both distance >= 0 and distance < window.
        """
        return behind(q_len, k_len, shift, None).abs() < window

    def window_not_shifted(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The far end of the window is aligned with the first key.

        With as many queries as keys this is right. With more keys, both ends of the window move: the last query is at
        the last key, so its distance to a key is larger by the number of keys minus the number of queries.
        """
        return (behind(q_len, k_len, shift, None) >= 0) & (behind(q_len, k_len, 0, None) < window)

    def window_in_the_middle(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The query is in the middle of its window.

        That is how an encoder does it. A decoder has no future to look at: the query is at the *end* of its window.
        """
        return behind(q_len, k_len, shift, None).abs() <= window // 2

    def future_open(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The future is open.

        distance < window is true for all negative distances, that is, for all keys ahead. Require both distance >= 0
        and distance < window.
        """
        return behind(q_len, k_len, shift, None) < window

    def no_window(self, q_len: int, k_len: int, shift: int) -> Tensor:
        """There is no window.

        That is the causal mask. Keys `window` or more positions back are out of sight, too.
        """
        return behind(q_len, k_len, shift, None) >= 0

    def first_keys_open(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The first keys are seen, not the latest ones.

        Each query sees keys 0 to window - 1. The window has to move with the query.
        """
        return (behind(q_len, k_len, shift, None) >= 0) & (torch.arange(k_len) < window)

    def window_outside_in(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """What should be hidden is seen.

        The keys beyond the window are open, and those within it are blocked. True means *may attend*.
        """
        return behind(q_len, k_len, shift, None) >= window

    def in_blocks(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The windows are fixed blocks, and do not slide.

        Each query sees only the part of its own block that is behind it. At the beginning of a block that is the
        query's own key alone. A sliding window gives every query the same number of keys, except near the start of the
        text.
        """
        queries, keys = torch.arange(q_len)[:, None] + shift, torch.arange(k_len)
        return (queries >= keys) & (queries // window == keys // window)

    def window_upside_down(self, q_len: int, k_len: int, shift: int, window: int) -> Tensor:
        """The window is upside down.

        True and False are exchanged. True means *may attend*.
        """
        return ~self.right(q_len, k_len, shift, window)


class Chance(Step):
    """How probable it is that each guess is accepted: min(1, p / q)."""

    makes = ("chance",)

    def right(self, draft_p: Tensor, target_p: Tensor, tokens: Tensor) -> Tensor:
        q, p = _of_tokens(draft_p, target_p, tokens)
        return p / q

    def chance_inverted(self, draft_p: Tensor, target_p: Tensor, tokens: Tensor) -> Tensor:
        """The ratio is upside down.

        It is the target's p over the draft's q: a guess that the target finds *more* probable than the draft does is
        always accepted.
        """
        q, p = _of_tokens(draft_p, target_p, tokens)
        return q / p

    def all_accepted(self, tokens: Tensor) -> Tensor:
        """Every guess is accepted.

        Then the draft does the writing, not the target. A guess is accepted with probability min(1, p / q).
        """
        return torch.ones(tokens.shape, device=tokens.device)

    def chance_of_the_target_alone(self, draft_p: Tensor, target_p: Tensor, tokens: Tensor) -> Tensor:
        """A guess is accepted with the target's probability p.

        The draft has already drawn the token with probability q. Accepted with p, it would come out with q · p;
        accepted with p / q, it comes out with p.
        """
        return _of_tokens(draft_p, target_p, tokens)[1]

    def accepted_where_likelier(self, draft_p: Tensor, target_p: Tensor, tokens: Tensor) -> Tensor:
        """A guess is accepted if p >= q, and never otherwise.

        A guess with p < q should have a chance, too: p / q. Without it, a token that the draft overrates never comes
        out, neither as a guess nor after a rejection.
        """
        q, p = _of_tokens(draft_p, target_p, tokens)
        return (p >= q).to(p.dtype)

    def accepted_if_the_favourite(self, target_p: Tensor, tokens: Tensor) -> Tensor:
        """Only the target's favourite is accepted.

        That is right at temperature 0, where the favourite has all the probability. Here every token has a chance,
        min(1, p / q).
        """
        return (target_p[:, :-1].argmax(dim=-1) == tokens).to(target_p.dtype)


def _of_tokens(draft_p: Tensor, target_p: Tensor, tokens: Tensor) -> Two:
    """The draft's and the target's probability of each guess, (b, n)."""
    q = draft_p.gather(-1, tokens[..., None])[..., 0]
    return q, target_p[:, :-1].gather(-1, tokens[..., None])[..., 0]


class Prefix(Step):
    """How many guesses are accepted before the first one that is not."""

    makes = ("count",)

    def right(self, chance: Tensor) -> Tensor:
        accepted = torch.rand(chance.shape, device=chance.device) < chance
        return accepted.long().cumprod(dim=-1).sum(dim=-1)

    def goes_on_after_a_rejection(self, chance: Tensor) -> Tensor:
        """Guesses after a rejected one are still counted.

        They were made for a text that is not being written. Count only the guesses before the *first* rejection, with
        cumprod.
        """
        return (torch.rand(chance.shape, device=chance.device) < chance).sum(dim=-1)

    def one_draw_for_all(self, chance: Tensor) -> Tensor:
        """A single random number decides all the guesses of a row.

        Each guess needs its own draw. With one for all, later guesses are accepted too often: if the first was
        accepted, the number is known to be small.
        """
        accepted = torch.rand(chance.shape[:1], device=chance.device)[:, None] < chance
        return accepted.long().cumprod(dim=-1).sum(dim=-1)

    def one_draw_for_the_batch(self, chance: Tensor) -> Tensor:
        """The whole batch shares its random numbers.

        Guesses at the same place are then decided by the same number in every row. Draw a number for each guess of each
        row: torch.rand(b, n).
        """
        accepted = torch.rand(chance.shape[1:], device=chance.device) < chance
        return accepted.long().cumprod(dim=-1).sum(dim=-1)


class DrawLast(Step):
    """The token behind the accepted ones: out of what the target has more of, max(0, p - q); at the end out of p."""

    makes = ("last",)

    def right(self, draft_p: Tensor, target_p: Tensor, count: Tensor) -> Tensor:
        return self._drawn(draft_p, target_p, count, (target_p[:, :-1] - draft_p).clamp(min=0))

    @along_with("goes_on_after_a_rejection")
    @spells(Prefix.goes_on_after_a_rejection)
    def going_on_with_the_target(self, draft_p: Tensor, target_p: Tensor, count: Tensor) -> Tensor:
        return self._drawn(draft_p, target_p, count, self._never_empty(draft_p, target_p))

    @along_with("chance_of_the_target_alone")
    @spells(Chance.chance_of_the_target_alone)
    def target_alone_with_the_target(self, draft_p: Tensor, target_p: Tensor, count: Tensor) -> Tensor:
        return self._drawn(draft_p, target_p, count, self._never_empty(draft_p, target_p))

    def _never_empty(self, draft_p: Tensor, target_p: Tensor) -> Tensor:
        """max(0, p - q); p where nothing is left, which in a right answer is never drawn from."""
        residual = (target_p[:, :-1] - draft_p).clamp(min=0)
        return torch.where(residual.sum(dim=-1, keepdim=True) > 0, residual, target_p[:, :-1])

    def _drawn(self, draft_p: Tensor, target_p: Tensor, count: Tensor, residual: Tensor) -> Tensor:
        shares = torch.cat([residual, target_p[:, -1:]], dim=1)  # (b, n + 1, V)
        chosen = shares[torch.arange(len(count), device=count.device), count]
        return torch.multinomial(chosen, 1)[:, 0]

    def drawn_from_the_target(self, draft_p: Tensor, target_p: Tensor, count: Tensor) -> Tensor:
        """After a rejection, the token is drawn from all of the target's distribution.

        Likely tokens then come out too often: once as accepted guesses, and here again. What is missing is exactly
        max(0, p - q), divided by its sum.
        """
        return self._drawn(draft_p, target_p, count, target_p[:, :-1])

    def drawn_from_the_draft(self, draft_p: Tensor, target_p: Tensor, count: Tensor) -> Tensor:
        """After a rejection, the draft guesses again.

        The draft gives too much to what was just rejected. Draw from what it gives too little to: max(0, p - q).
        """
        return self._drawn(draft_p, target_p, count, draft_p)

    def difference_without_sign(self, draft_p: Tensor, target_p: Tensor, count: Tensor) -> Tensor:
        """The difference has lost its sign.

        |p - q| also counts the tokens to which the draft gives too *much*. Cut off at 0: (p - q).clamp(min=0).
        """
        return self._drawn(draft_p, target_p, count, (target_p[:, :-1] - draft_p).abs())

    def favourite_of_the_rest(self, draft_p: Tensor, target_p: Tensor, count: Tensor) -> Tensor:
        """The token is not drawn: the likeliest is taken.

        argmax always takes the largest of max(0, p - q). Draw from these weights: torch.multinomial.
        """
        shares = torch.cat([(target_p[:, :-1] - draft_p).clamp(min=0), target_p[:, -1:]], dim=1)
        return shares[torch.arange(len(count), device=count.device), count].argmax(dim=-1)


class WriteRow(Step):
    """The accepted guesses, one token more, and -1 behind it."""

    def right(self, tokens: Tensor, count: Tensor, last: Tensor) -> Tensor:
        row = torch.cat([tokens, tokens[:, :1]], dim=1)  # (b, n + 1)
        places = torch.arange(row.shape[1], device=row.device)
        row = torch.where(places == count[:, None], last[:, None], row)
        return row.masked_fill(places > count[:, None], -1)

    def no_token_more(self, tokens: Tensor, count: Tensor, last: Tensor) -> Tensor:
        """The token behind the accepted guesses is missing.

        There is always one more: drawn from max(0, p - q) after a rejection, or from the target's last row when all
        guesses were accepted. So each pass of the target writes at least one token.
        """
        row = self.right(tokens, count, last)
        return row.masked_fill(torch.arange(row.shape[1], device=row.device) >= count[:, None], -1)

    def none_after_all(self, tokens: Tensor, count: Tensor, last: Tensor) -> Tensor:
        """When all guesses are accepted, no token is added.

        The target has looked at the whole row, so its probabilities for one more token are already there: target_p[:,
        -1].
        """
        row = self.right(tokens, count, last)
        row[:, -1] = -1
        return row

    @each(filler=(0, -100))
    def filled_otherwise(self, tokens: Tensor, count: Tensor, last: Tensor, filler: int) -> Tensor:
        """The rest of the row is filled with something other than -1.

        0 is a token. After the last token of a row comes -1, which is not one.
        """
        row = self.right(tokens, count, last)
        return row.masked_fill(row == -1, filler)

    def rejected_ones_left(self, tokens: Tensor, count: Tensor, last: Tensor) -> Tensor:
        """Guesses after a rejected one are still in the row.

        They were made for a different text. After the last token of the row comes -1.
        """
        row = torch.cat([tokens, torch.full_like(tokens[:, :1], -1)], dim=1)
        places = torch.arange(row.shape[1], device=row.device)
        return torch.where(places == count[:, None], last[:, None], row)
