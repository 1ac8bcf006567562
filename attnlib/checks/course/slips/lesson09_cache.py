"""Lesson 09: a cache that is written and read, a ring of slots, and how many bytes all that takes.

A cache is {"k": (b, h, room, d), "v": the same, "length": how many positions hold something}.
"""

from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.attention import equation
from attnlib.checks.course.slips.heads import Finish
from attnlib.checks.course.slips.lesson07_positions import AppendNew, AttendCausally, NewPlaces, TurnNew
from attnlib.checks.course.steps import Step, along_with, each, spells, told_as

Cache = dict[str, Any]
Two = tuple[Tensor, Tensor]


class Room(Step):
    """Where the new positions go, and whether there is room for them."""

    makes = ("start", "stop")

    def right(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        start, stop = cache["length"], cache["length"] + k.shape[2]
        if stop > cache["k"].shape[2]:
            raise ValueError(f"the cache has room for {cache['k'].shape[2]} positions, got {start} + {k.shape[2]}")
        return start, stop

    def room_not_checked(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        """It is not checked whether all the new positions fit.

        A slice that goes beyond the buffer is cut off silently, and then the assignment fails with torch's own error
        about shapes that nobody passed in. Before you write, compare start + n with the room, and raise a ValueError
        that says how much there is.
        """
        return cache["length"], cache["length"] + k.shape[2]

    def asserted(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        """A full cache raises an AssertionError.

        `assert` is for what can never happen, and `python -O` skips it. A caller who writes too much should get a
        ValueError.
        """
        start, stop = cache["length"], cache["length"] + k.shape[2]
        assert stop <= cache["k"].shape[2]
        return start, stop

    def full_one_too_early(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        """The last position is refused.

        With room for 7 positions, the seventh fits: refuse if start + n is *larger* than the room, not if it is equal.
        """
        start, stop = self.right(cache, k)
        if stop == cache["k"].shape[2]:
            raise ValueError("the cache is full")
        return start, stop

    def written_at_the_front(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        """The new positions are written at the front of the buffer.

        There they overwrite the oldest ones. The cache already holds `length` positions, so the next one goes to index
        `length`.
        """
        return 0, k.shape[2]

    def written_one_too_far(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        """One position of the buffer is skipped.

        `length` positions have the indices 0 to length - 1, so the next free one is `length`, not length + 1. The
        skipped position keeps whatever was there before.
        """
        start, stop = self.right(cache, k)
        return start + 1, stop + 1

    def written_at_the_end(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        """The new positions are written at the end of the buffer.

        They belong directly after those that the cache already holds, at [length, length + n). The rest of the buffer
        stays empty.
        """
        room = cache["k"].shape[2]
        return room - k.shape[2], room

    def one_position_only(self, cache: Cache, k: Tensor) -> tuple[int, int]:
        """Only one new position can be appended at a time.

        There may be several at once, a whole prompt even: they go to [length, length + n), with n = k.shape[2].
        """
        return cache["length"], cache["length"] + 1


class Write(Step):
    """Into the buffers, which stay where they are."""

    makes = ("all_k", "all_v")

    def right(self, cache: Cache, k: Tensor, v: Tensor, start: int, stop: int) -> Two:
        cache["k"][:, :, start:stop] = k
        cache["v"][:, :, start:stop] = v
        return cache["k"], cache["v"]

    def first_position_alone(self, cache: Cache, k: Tensor, v: Tensor, start: int) -> Two:
        """Only the first of the new positions is written.

        One new token is only one case: a prompt brings all its positions at once. Write all n of them into the slice
        [length, length + n).
        """
        cache["k"][:, :, start] = k[:, :, 0]
        cache["v"][:, :, start] = v[:, :, 0]
        return cache["k"], cache["v"]

    @along_with("room_not_checked")
    def grows_by_cat(self, cache: Cache, k: Tensor, v: Tensor, start: int) -> Two:
        """The cache grows with torch.cat.

        The numbers are right. But for every token, `torch.cat` makes a new tensor and copies everything that was there:
        n tokens cost n²/2 copies. And nothing says when there is no more room. Write into the slice [length, length +
        n) of the buffer.
        """
        cache["k"] = torch.cat([cache["k"][:, :, :start], k], dim=2)
        cache["v"] = torch.cat([cache["v"][:, :, :start], v], dim=2)
        return cache["k"], cache["v"]

    def room_lost_by_cat(self, cache: Cache, k: Tensor, v: Tensor, start: int) -> Two:
        """The cache loses its room to torch.cat.

        This call is right. But `torch.cat` makes buffers that are just as long as what is in them, so the next call
        finds them full and refuses, although the cache was made for more. Write into the slice [length, length + n) of
        the buffer.
        """
        return self.grows_by_cat(cache, k, v, start)

    @along_with("room_not_checked", "whole_buffer")
    def behind_the_buffer(self, cache: Cache, k: Tensor, v: Tensor) -> Two:
        """The new positions are put after the whole buffer.

        The buffer already has room for the longest text. `torch.cat` leaves that room empty, puts the new positions
        after it, and copies everything for each token. Write into the slice [length, length + n) of the buffer.
        """
        cache["k"], cache["v"] = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
        return cache["k"], cache["v"]

    @spells(behind_the_buffer)
    @along_with("room_not_checked")
    def behind_the_buffer_and_cut(self, cache: Cache, k: Tensor, v: Tensor) -> Two:
        return self.behind_the_buffer(cache, k, v)

    def written_to_a_copy(self, cache: Cache, k: Tensor, v: Tensor, start: int, stop: int) -> Two:
        """The new positions are written to a copy, and the cache does not change.

        This call is right, but the next one will not find them. `clone()`, `cat` or an index with a list make copies; a
        slice of cache["k"] is the buffer itself.
        """
        return self.right({"k": cache["k"].clone(), "v": cache["v"].clone()}, k, v, start, stop)

    def buffers_replaced(self, cache: Cache, k: Tensor, v: Tensor, start: int, stop: int) -> Two:
        """The cache gets new buffers.

        The result is right. But for each token `clone` and `torch.cat` make new tensors of the full size, and anyone
        who holds the old ones never sees the new positions. Write into the slice [length, length + n) of the buffer.
        """
        cache["k"], cache["v"] = cache["k"].clone(), cache["v"].clone()
        return self.right(cache, k, v, start, stop)

    def keys_alone_written(self, cache: Cache, k: Tensor, start: int, stop: int) -> Two:
        """The values are not written.

        Keep both. The keys say which positions to look at, and the values are what you take home from there.
        """
        cache["k"][:, :, start:stop] = k
        return cache["k"], cache["v"]

    def keys_written_twice(self, cache: Cache, k: Tensor, start: int, stop: int) -> Two:
        """The keys are written into both buffers.

        The second assignment must use v: cache["v"][...] = v.
        """
        return self.right(cache, k, k, start, stop)

    def keys_and_values_exchanged(self, cache: Cache, k: Tensor, v: Tensor, start: int, stop: int) -> Two:
        """Keys and values are in each other's buffer.

        k goes into cache["k"], and v into cache["v"]: the code that reads them expects each in its own buffer.
        """
        return self.right(cache, v, k, start, stop)

    def added_to_the_buffer(self, cache: Cache, k: Tensor, v: Tensor, start: int, stop: int) -> Two:
        """The new numbers are added to the old ones.

        `+=` is right only as long as the buffer holds zeros. After a reset, or in memory from torch.empty, it does not:
        assign with `=`.
        """
        cache["k"][:, :, start:stop] += k
        cache["v"][:, :, start:stop] += v
        return cache["k"], cache["v"]


class Count(Step):
    """How many positions the cache holds now."""

    def right(self, cache: Cache, stop: int) -> None:
        cache["length"] = stop

    def length_forgotten(self) -> None:
        """The length is not updated.

        This call is right. But the next one writes to the same place, and what you have just written is lost: set
        cache["length"]. (A local variable called `length` is not the cache's.)
        """

    def length_of_the_new(self, cache: Cache, k: Tensor) -> None:
        """The length is that of the new positions alone.

        What was there before still counts: the new length is the old length plus n.
        """
        cache["length"] = k.shape[2]

    def counted_by_calls(self, cache: Cache, start: int) -> None:
        """The length grows by one at each call.

        It counts positions, not calls. A prompt of seven tokens makes it seven longer.
        """
        cache["length"] = start + 1

    def length_counted_twice(self, cache: Cache, k: Tensor, stop: int) -> None:
        """The length is increased twice.

        It grows by n once, for keys and values together. Otherwise the next position leaves a gap.
        """
        cache["length"] = stop + k.shape[2]


class Views(Step):
    """All that the cache holds, and nothing of the empty rest."""

    def right(self, all_k: Tensor, all_v: Tensor, stop: int) -> Two:
        return all_k[:, :, :stop], all_v[:, :, :stop]

    def whole_buffer(self, all_k: Tensor, all_v: Tensor) -> Two:
        """The whole buffer is returned.

        After the positions that were written there is nothing yet, or something left over from an earlier text. Return
        the first `length` positions.
        """
        return all_k, all_v

    def new_alone(self, k: Tensor, v: Tensor) -> Two:
        """Only the new positions are returned.

        The new queries look at everything so far. Return all positions that the cache now holds, old and new.
        """
        return k, v

    def old_alone(self, all_k: Tensor, all_v: Tensor, start: int) -> Two:
        """The new positions are missing from the result.

        The slice ends at the *old* length. A position sees itself, too: return everything up to the new length.
        """
        return all_k[:, :, :start], all_v[:, :, :start]

    def values_first(self, all_k: Tensor, all_v: Tensor, stop: int) -> Two:
        """The values are returned before the keys.

        The keys come first: return keys, values.
        """
        return all_v[:, :, :stop], all_k[:, :, :stop]


class ProjectNew(Step):
    """Queries, keys and values of the new positions, (b, n, h·d), and the number of heads."""

    makes = ("q", "k", "v", "num_heads")

    def right(self, x: Tensor, weights: dict[str, Tensor], cache: Cache) -> tuple[Tensor, Tensor, Tensor, int]:
        q, k, v = (x @ weights[name] for name in ("w_q", "w_k", "w_v"))
        return q, k, v, cache["k"].shape[1]

    def matrices_turned(
        self, x: Tensor, weights: dict[str, Tensor], cache: Cache
    ) -> tuple[Tensor, Tensor, Tensor, int]:
        """The matrices are transposed.

        These are plain matrices, (d_model, h·d), not layers: x @ w. An nn.Linear stores the transpose, and that is what
        `F.linear` expects.
        """
        q, k, v = (x @ weights[name].mT for name in ("w_q", "w_k", "w_v"))
        return q, k, v, cache["k"].shape[1]


class PlacesAfterCache(Step):
    """The positions of the new words: behind those that the cache holds."""

    makes = ("places",)

    def right(self, x: Tensor, cache: Cache) -> Tensor:
        return torch.arange(cache["length"], cache["length"] + x.shape[1], device=x.device)

    @told_as(NewPlaces.restarted)
    def restarted(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1], device=x.device)

    @told_as(NewPlaces.one_too_far)
    def one_too_far(self, x: Tensor, cache: Cache) -> Tensor:
        return self.right(x, cache) + 1

    @told_as(NewPlaces.all_at_one_place)
    def all_at_one_place(self, x: Tensor, cache: Cache) -> Tensor:
        return self.right(x, cache)[:1].expand(x.shape[1])


class TurnAndKeep(Step):
    """Queries and keys are turned, once; then keys and values are kept."""

    makes = ("new_q", "keys", "values")

    def right(self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return attnlib.rotate(q, places), *_kept(cache, attnlib.rotate(k, places), v)

    def nothing_turned(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Nothing is turned.

        The keys in the cache are turned by their positions (lesson 07), so the new queries and keys must be, too:
        attnlib.rotate(q, positions).
        """
        return q, *_kept(cache, k, v)

    @told_as(TurnNew.values_turned)
    def values_turned(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return self.right(q, k, attnlib.rotate(v, places), cache, places)

    @told_as(TurnNew.queries_not_turned)
    def queries_not_turned(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return q, *_kept(cache, attnlib.rotate(k, places), v)

    @told_as(TurnNew.keys_not_turned)
    def keys_not_turned(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return attnlib.rotate(q, places), *_kept(cache, k, v)

    def queries_placed_after_appending(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The positions of the queries are read from the cache too late.

        Appending increases cache["length"], so the queries are turned n positions too far. Compute the positions once,
        before you append, and use them for both queries and keys.
        """
        return attnlib.rotate(q, places + q.shape[2]), *_kept(cache, attnlib.rotate(k, places), v)

    def unturned_in_the_cache(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The keys are cached before they are turned.

        This call turns its own keys and is right. The next one finds them in the cache unturned. Turn first, then
        append the turned keys.
        """
        keys, values = _kept(cache, k, v)
        new_k = attnlib.rotate(k, places)
        return attnlib.rotate(q, places), torch.cat([keys[:, :, : -k.shape[2]], new_k], dim=2), values

    def turned_when_read(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All keys are turned when they are read.

        The old ones were turned when they were written, and are turned again at each call. Turn only the new keys, and
        store them turned: then nothing has to be turned twice.
        """
        keys, values = _kept(cache, k, v)
        return attnlib.rotate(q, places), attnlib.rotate(keys, torch.arange(keys.shape[2], device=q.device)), values

    def not_kept(self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next call does not find the new words in the cache.

        Their keys and values are not written, or cache["length"] is not increased, so that the next call overwrites
        them and begins at the same position again. `append_to_cache` does both.
        """
        return self.right(q, k, v, dict(cache), places)

    @told_as(AppendNew.past_forgotten)
    def past_forgotten(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        new_q, new_k = attnlib.rotate(q, places), attnlib.rotate(k, places)
        _kept(cache, new_k, v)
        return new_q, new_k, v

    def empty_places_attended(
        self, q: Tensor, k: Tensor, v: Tensor, cache: Cache, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries attend to the empty part of the buffer.

        A key of zeros has the score 0, and with e⁰ = 1 it takes a share of the attention. Use what `append_to_cache`
        returns, the first `length` positions, not the whole buffer.
        """
        new_q, *_ = self.right(q, k, v, cache, places)
        return new_q, cache["k"], cache["v"]


def _kept(cache: Cache, k: Tensor, v: Tensor) -> Two:
    """Append to the cache, as `append_to_cache` does."""
    start, stop = cache["length"], cache["length"] + k.shape[2]
    cache["k"][:, :, start:stop], cache["v"][:, :, start:stop], cache["length"] = k, v, stop
    return cache["k"][:, :, :stop], cache["v"][:, :, :stop]


class AttendAfterCache(AttendCausally):
    """The last query is at the last key."""

    makes = ("output",)

    def no_future_hidden_from_few(self, new_q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The mask hides each new word from itself.

        Among the new words, each sees itself, too. The diagonal of the mask is at k - q, the number of positions that
        were in the cache before.
        """
        behind = torch.arange(new_q.shape[-2], device=new_q.device)[:, None] + keys.shape[-2] - new_q.shape[-2]
        return equation(new_q, keys, values, mask=torch.arange(keys.shape[-2], device=new_q.device) < behind)[0]


class FinishWithMatrix(Step):
    """The output projection, with a matrix."""

    def right(self, output: Tensor, weights: dict[str, Tensor]) -> Tensor:
        return output @ weights["w_o"]

    @told_as(Finish.no_output_projection)
    def no_output_projection(self, output: Tensor) -> Tensor:
        return output


class PerPosition(Step):
    """How many numbers one position of one layer takes."""

    makes = ("numbers",)

    def right(self, kv_heads: int, d_head: int) -> int:
        return 2 * kv_heads * d_head

    def keys_alone_counted(self, kv_heads: int, d_head: int) -> int:
        """Only the keys are counted.

        Each position has a key and a value: twice kv_heads * d_head numbers.
        """
        return kv_heads * d_head

    def queries_counted(self, kv_heads: int, d_head: int) -> int:
        """The queries are counted as well.

        A query is used once, when its token comes, and never again. Only keys and values are kept, so the factor is
        two, not three.
        """
        return 3 * kv_heads * d_head

    def one_head_counted(self, d_head: int) -> int:
        """The number of heads is left out.

        Each of the kv_heads heads has its own keys and values, d_head wide.
        """
        return 2 * d_head

    def width_left_out(self, kv_heads: int) -> int:
        """The width of a head is left out.

        A key is d_head numbers, not one, and so is a value: multiply by d_head.
        """
        return 2 * kv_heads


class InAll(Step):
    """… times positions, layers, sentences, and bytes."""

    def right(self, numbers: int, batch: int, layers: int, lengths: Tensor, number_bytes: int) -> Tensor:
        return numbers * batch * layers * lengths * number_bytes

    def one_layer_counted(self, numbers: int, batch: int, lengths: Tensor, number_bytes: int) -> Tensor:
        """Only one layer is counted.

        Each layer has its own keys and values: the same token is a different vector in each.
        """
        return numbers * batch * lengths * number_bytes

    def one_sentence_counted(self, numbers: int, layers: int, lengths: Tensor, number_bytes: int) -> Tensor:
        """Only one sentence is counted.

        All sentences of a batch share the model's weights. They do not share the cache: each sentence has its own.
        """
        return numbers * layers * lengths * number_bytes

    def numbers_not_bytes(self, numbers: int, batch: int, layers: int, lengths: Tensor) -> Tensor:
        """Numbers are counted, not bytes.

        A 16-bit number takes two bytes, a 32-bit number four: multiply by number_bytes.
        """
        return numbers * batch * layers * lengths

    def bits_counted(self, numbers: int, batch: int, layers: int, lengths: Tensor, number_bytes: int) -> Tensor:
        """Bits are counted, not bytes.

        `number_bytes` is already in bytes. Eight bits are one byte.
        """
        return 8 * self.right(numbers, batch, layers, lengths, number_bytes)

    def length_squared(self, numbers: int, batch: int, layers: int, lengths: Tensor, number_bytes: int) -> Tensor:
        """The length is counted twice.

        The table of *weights* grows with the square of the length. The cache does not hold that table, only one key and
        one value for each position.
        """
        return self.right(numbers, batch, layers, lengths, number_bytes) * lengths

    @each(unit=(1024, 1000, 2**20, 2**30))
    def in_larger_units(
        self, numbers: int, batch: int, layers: int, lengths: Tensor, number_bytes: int, unit: int
    ) -> Tensor:
        """The result is not in bytes.

        Kilobytes or gigabytes are easier to read, but the contract asks for bytes, as whole numbers. Divide where you
        print.
        """
        return self.right(numbers, batch, layers, lengths, number_bytes) / unit

    def lengths_added_up(self, numbers: int, batch: int, layers: int, lengths: Tensor, number_bytes: int) -> Tensor:
        """The lengths are added up.

        `lengths` holds several questions, each with its own answer: how much does the cache take at this length?
        """
        return self.right(numbers, batch, layers, lengths, number_bytes).sum()


class Slot(Step):
    """Where the new word goes: around the ring, to the oldest slot."""

    makes = ("slot", "seen")

    def right(self, cache: Cache) -> tuple[int, int]:
        return cache["length"] % cache["k"].shape[2], min(cache["length"] + 1, cache["k"].shape[2])

    def last_slot_forever(self, cache: Cache) -> tuple[int, int]:
        """Once the buffer is full, only its last slot is written.

        `min(length, window - 1)` overwrites the *newest* word again and again, and the oldest ones stay forever. The
        window moves: the word that leaves is the oldest, and it is in slot length % window.
        """
        window = cache["k"].shape[2]
        return min(cache["length"], window - 1), min(cache["length"] + 1, window)

    def empty_slots_seen(self, cache: Cache) -> tuple[int, int]:
        """The query attends to slots that are still empty.

        Until the buffer has been filled once, only as many slots hold a word as there are words so far. An empty slot
        has the score 0, not -inf, and takes a share of the attention.
        """
        window = cache["k"].shape[2]
        return cache["length"] % window, window

    def new_word_unseen(self, cache: Cache) -> tuple[int, int]:
        """The new word does not see itself.

        Until the buffer is full, as many slots hold a word as there are words so far, and the new one counts.
        """
        window = cache["k"].shape[2]
        return cache["length"] % window, max(1, min(cache["length"], window))

    def one_slot_on(self, cache: Cache) -> tuple[int, int]:
        """The ring begins at slot 1.

        The first `length` words are in slots 0 to length - 1, so the next one goes to slot length % window.
        """
        window = cache["k"].shape[2]
        return (cache["length"] + 1) % window, min(cache["length"] + 1, window)

    def first_slot_forever(self, cache: Cache) -> tuple[int, int]:
        """Once the buffer is full, only its first slot is written.

        Slot 0 holds the oldest word only the first time. After that the oldest is in slot 1, then 2, and so on around
        the ring: length % window.
        """
        length, window = cache["length"], cache["k"].shape[2]
        return length if length < window else 0, min(length + 1, window)

    def seen_up_to_the_slot(self, cache: Cache) -> tuple[int, int]:
        """The query attends only to the slots up to the new word.

        That is right in the first round. Later, the slots after the new word hold the older words. Read as many slots
        as there are words so far, at most `window`.
        """
        slot = cache["length"] % cache["k"].shape[2]
        return slot, slot + 1


class WriteSlot(Step):
    """Into the slot, and one word more."""

    def right(self, k: Tensor, v: Tensor, cache: Cache, slot: int) -> None:
        cache["k"][:, :, slot : slot + 1], cache["v"][:, :, slot : slot + 1] = k, v
        cache["length"] += 1

    def length_runs_around(self, k: Tensor, v: Tensor, cache: Cache, slot: int) -> None:
        """The length starts over at 0.

        With length = (length + 1) % window the slot is right, but a full buffer counts as empty. Let the length grow,
        and take % where the slot is computed.
        """
        self.right(k, v, cache, slot)
        cache["length"] %= cache["k"].shape[2]

    def words_not_counted(self, k: Tensor, v: Tensor, cache: Cache, slot: int) -> None:
        """The words are not counted.

        cache["length"] never changes, so each word takes the place of the one before. Add one at each call.
        """
        self.right(k, v, cache, slot)
        cache["length"] -= 1

    def values_not_kept(self, k: Tensor, v: Tensor, cache: Cache, slot: int) -> None:
        """The values are not stored in the ring.

        Keys and values go into the same slot of their respective buffers.
        """
        self.right(k, cache["v"][:, :, slot : slot + 1].clone(), cache, slot)


class AttendRing(Step):
    """One query, and all slots that hold a word, in any order: their keys were turned by their positions."""

    def right(self, q: Tensor, cache: Cache, seen: int) -> Tensor:
        return equation(q, cache["k"][:, :, :seen], cache["v"][:, :, :seen])[0]

    def causal_in_the_ring(self, q: Tensor, cache: Cache, seen: int) -> Tensor:
        """A causal mask is applied to the ring.

        Everything in the ring is in the past, whatever order it is in, and the one new query sees it all. A one-row
        triangle that begins at the first key shows it only slot 0.
        """
        return equation(q, cache["k"][:, :, :1], cache["v"][:, :, :1])[0]
