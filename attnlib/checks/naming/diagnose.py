"""Find the misconception an attempt shows: the one that does the same as the attempt on every case."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.observation import Asking, Observation
from attnlib.checks.asking.observe import observe
from attnlib.checks.exercise import Case, Exercise, Misconception
from attnlib.checks.trial.compare import ALIKE, ASPECTS, SEPARATION, Aspect, first_difference
from attnlib.checks.trial.trial import Trial

MOST_NOT_EXPLAINED = 3  # cases and parts: nobody would read more
READABLE = 5_000  # characters: a pattern with two wildcards reads so many in a fraction of a second, more in hours


@dataclass
class Rival:
    """A misconception, with what it does on the cases looked at so far."""

    misconception: Misconception
    seen: dict[str, Observation] = field(default_factory=dict)


def diagnose(
    exercise: Exercise,
    trials: Sequence[Trial],
    asking: Asking,
    *,
    source: str = "",
) -> list[Misconception]:
    """The one misconception that agrees with the attempt on all cases, on the first failed part, or where none raises.

    None where no misconception agrees, where several do that are not declared the same, or where the one that does is
    too close to the reference or to another one (`compare.SEPARATION` tolerances) to be named with confidence. Behind
    it comes a sentence on the failed parts that it does not explain. One that the attempt's own `source` contradicts is
    no rival, though its numbers are the same.
    """
    failed = [t for t in trials if t.difference is not None]
    if not failed:
        return []
    on_cpu = [t for t in failed if not t.case.other_device]
    telling = [t for t in failed if not t.is_apart] or on_cpu or failed
    aspect = min((t.difference.aspect for t in telling if t.difference), key=ASPECTS.index)
    # a wrong dtype explains no gradient that is cut off; wrong values may, and what keeps an answer keeps none for it
    up_to: Aspect = "gradient" if aspect in ("dtype", "device") else max(aspect, "values", key=ASPECTS.index)
    if any(t.difference and t.difference.aspect == "mutation" for t in telling):
        up_to = max(up_to, "mutation", key=ASPECTS.index)  # then all numbers are right: none explains a changed input
    rivals = [Rival(m) for m in exercise.misconceptions if not (m.unless and _may_contradict(source, m.unless))]
    order = _most_telling_first(trials)
    first_part = next(part for part in exercise.parts if any(t.case.part == part for t in telling))
    # numbers that are right elsewhere must be right by the misconception, too: it may speak of more than one part
    compared = [t for t in order if t.difference is None or t in telling]
    in_part = [t for t in compared if t.case.part == first_part or _has_right_numbers(t)]
    without_errors = [t for t in order if t.got.failure is None]  # the same mistake may fail in two ways
    for chosen in (order, in_part, without_errors):
        if all(t.difference is None for t in chosen):
            continue
        agreeing = _agreeing(exercise, rivals, chosen, asking, up_to)
        if chosen is without_errors:
            raising = [t for t in telling if t.got.failure is not None and not t.case.hidden]
            agreeing = [r for r in agreeing if _raises_too(exercise, r, raising, asking)]
        names = {r.misconception.same_as or r.misconception.id for r in agreeing}
        if len(names) > 1:  # several fail with the same type of error: the message tells them apart
            agreeing = _without_more([r for r in agreeing if _same_words(r, chosen)])
            names = {r.misconception.same_as or r.misconception.id for r in agreeing}
        if len(names) == 1 and _stands_apart(exercise, agreeing[0], rivals, chosen, asking, up_to):
            named = next(m for m in exercise.misconceptions if m.id in names)
            alike = [r for r in rivals if (r.misconception.same_as or r.misconception.id) in names]
            return [named, *_not_explained(exercise, alike, failed, asking)]
        if names:
            return []
    return []


def _may_contradict(source: str, pattern: str) -> bool:
    """True if the pattern is found, or if the source is so long that looking for it could take minutes."""
    return len(source) > READABLE or re.search(pattern, source) is not None


def _without_more(agreeing: Sequence[Rival]) -> list[Rival]:
    """If a mistake and pairs with it all agree, keep the mistake alone: its partners don't show in these cases."""
    names = {r.misconception.same_as or r.misconception.id: r.misconception.both for r in agreeing}
    in_all = {name for name in names if all(name in (other, *both) for other, both in names.items())}
    return [r for r in agreeing if not in_all or (r.misconception.same_as or r.misconception.id) in in_all]


def _not_explained(
    exercise: Exercise, alike: Sequence[Rival], failed: Sequence[Trial], asking: Asking
) -> list[Misconception]:
    """Find what is wrong besides the misconception, in any of its forms.

    That is a part, or single cases whose part it explains otherwise, a dtype, or an input that is changed.
    """
    seen = [t for t in failed if not t.case.hidden]
    theirs = {t.case.name: [_seen(exercise, rival, t.case, asking) for rival in alike] for t in seen}
    # whatever one call leaves behind, such as a hook, the same mistake leaves behind after any call
    known = {name for observed in theirs.values() for s in observed for name in s.mutated}
    left: list[Trial] = []
    changed: dict[str, None] = {}
    dtypes: list[str] = []
    for trial in seen:
        of_its_own = [name for name in trial.got.mutated if name not in {*known, *trial.expected.mutated}]
        rights = [first_difference(exercise, trial.case, trial.expected, s) for s in theirs[trial.case.name]]
        aspect = trial.difference.aspect if trial.difference else ""
        only_changed = aspect == "mutation"
        if aspect == "dtype" and not any(found and found.aspect == "dtype" for found in rights):
            dtypes += [trial.case.name]
        elif all(found is None for found in rights):
            left += [trial] if of_its_own or not only_changed else []
        else:
            changed |= dict.fromkeys(of_its_own)
    inputs = [f"the input {name}, which is changed in place" for name in changed]
    of_dtype = [f"the dtype of the result, in the case “{name}”" for name in dtypes[:1]]
    return not_explained(exercise, left, seen, [*of_dtype, *inputs])


def not_explained(
    exercise: Exercise, left: Sequence[Trial], wrong: Sequence[Trial], more: Sequence[str] = ()
) -> list[Misconception]:
    """The sentence on those of the wrong cases that a finding does not explain: whole parts, or single cases."""
    told: list[str] = []
    for part in exercise.parts:
        cases = [t.case.name for t in left if t.case.part == part]
        whole = len(cases) == sum(t.case.part == part for t in wrong)
        told += [f"“{part}”"] if cases and whole else [f"the case “{name}”" for name in cases]
    told += more
    if not told:
        return []
    if len(told) > MOST_NOT_EXPLAINED:
        told[MOST_NOT_EXPLAINED - 1 :] = [f"{len(told) - MOST_NOT_EXPLAINED + 1} others"]
    return [
        Misconception(
            id="not_explained",
            title=" and ".join(told),
            explanation="By itself, this misunderstanding would leave that right: look for a second mistake.",
            implementation=None,
            heading="Not explained by it",
        )
    ]


def _most_telling_first(trials: Sequence[Trial]) -> list[Trial]:
    """Sort failed cases first: they tell the most, and leave fewer rivals for the rest, such as cases of several calls.

    But a call that is watched costs as much as several others. Where nothing else failed, a case in float64 comes
    before it: most rivals are wrong there.
    """
    order = sorted(trials, key=lambda t: (t.difference is None, t.case.watched, len(t.case.after), t.case.gradient))
    if order[0].case.watched:
        first = min(order, key=lambda t: t.case.watched or t.case.dtype != torch.float64 or t.case.gradient)
        order = [first, *(t for t in order if t is not first)]
    return order


def _agreeing(
    exercise: Exercise, rivals: Iterable[Rival], trials: Sequence[Trial], asking: Asking, up_to: Aspect
) -> list[Rival]:
    left = list(rivals)
    for trial in trials:
        if trial.got.failure and trial.got.failure.kind == "time":
            continue
        left = [
            rival
            for rival in left
            if first_difference(
                exercise,
                trial.case,
                _seen(exercise, rival, trial.case, asking),
                trial.got,
                up_to=up_to,
                slack=ALIKE if trial.difference else 1.0,
            )
            is None
            and _own_error_too(trial, rival)
        ]
    return [rival for rival in left if _shows_a_value(trials) or _same_words(rival, trials)]


def _has_right_numbers(trial: Trial) -> bool:
    return trial.difference is None and not trial.case.raises and not trial.case.other_device


def _own_error_too(trial: Trial, rival: Rival) -> bool:
    """True if both raise a wrong error themselves or both leave it to what they call; also if no error is asked for."""
    mine, theirs = rival.seen[trial.case.name].failure, trial.got.failure
    return not trial.case.raises or trial.difference is None or mine is None or theirs is None or mine.own == theirs.own


def _raises_too(exercise: Exercise, rival: Rival, trials: Sequence[Trial], asking: Asking) -> bool:
    return all(_seen(exercise, rival, trial.case, asking).failure is not None for trial in trials)


def _shows_a_value(trials: Sequence[Trial]) -> bool:
    return any(t.got.failure is None and t.difference is not None for t in trials)


def _same_words(rival: Rival, trials: Sequence[Trial]) -> bool:
    """True if the messages agree as well, for an attempt that is wrong only by raising: the type alone says too little.

    Other devices are left out, and so, if anything is right, are errors asked for and the attempt's own errors.
    """
    some_right = any(t.got.failure is None and t.difference is None and not t.case.other_device for t in trials)
    for trial in trials:
        failure = trial.got.failure
        if failure is None or trial.case.other_device or trial.difference is None:
            continue
        if some_right and (trial.case.raises or failure.own):
            continue
        mine = rival.seen[trial.case.name].failure if trial.case.name in rival.seen else None
        if mine is None or _words(mine) != _words(failure):
            return False
    return True


def _words(failure: Failure) -> str:
    """Return an error's words without the names a learner chose, of functions (`mine() got …`) or parameters."""
    said = failure.key if failure.kind in ("parameters", "memory") else (failure.error, failure.details)
    return re.sub(r"[\w.<>]+\(\)", "()", " ".join(said))  # as in Python's messages


def _stands_apart(
    exercise: Exercise,
    winner: Rival,
    rivals: Sequence[Rival],
    trials: Sequence[Trial],
    asking: Asking,
    up_to: Aspect,
) -> bool:
    def apart(case: Case, one: Observation, other: Observation) -> bool:
        if one.failure and other.failure and _words(one.failure) != _words(other.failure):
            return True
        found = first_difference(exercise, case, one, other, up_to=up_to)
        return found is not None and found.tolerances >= SEPARATION

    mine = {t.case.name: _seen(exercise, winner, t.case, asking) for t in trials}
    if not any(apart(t.case, t.expected, mine[t.case.name]) for t in trials):
        return False
    name = winner.misconception.same_as or winner.misconception.id
    others = [r for r in rivals if name not in (r.misconception.same_as or r.misconception.id, *r.misconception.both)]
    farthest = sorted(trials, key=lambda t: (t.case.other_device, -t.difference.tolerances if t.difference else 0.0))
    for rival in others:
        known = set(rival.seen)
        known_first = (t for is_known in (True, False) for t in farthest if (t.case.name in known) is is_known)
        if not any(apart(t.case, _seen(exercise, rival, t.case, asking), mine[t.case.name]) for t in known_first):
            return False
    return True


def _seen(exercise: Exercise, rival: Rival, case: Case, asking: Asking) -> Observation:
    if case.name not in rival.seen:
        implementation = rival.misconception.implementation
        rival.seen[case.name] = observe(exercise, implementation, case, asking)
    return rival.seen[case.name]
