"""Choose what a lesson goes on with: the learner's own answer once it passes its check, the course's until then."""

from collections.abc import Callable, Mapping
from typing import Any

from torch.testing import assert_close

from attnlib.checks import course
from attnlib.checks.check import run
from attnlib.checks.standing.folder import own_folder
from attnlib.checks.standing.own_code import imported_answers, kept_answer


def yours_or_ours(
    name: str, written: Mapping[str, Any], *, called: str | None = None, asked: Callable[[Any], Any] | None = None
) -> Any:
    """The learner's answer to the exercise `name`, if it passes its check; the course's own otherwise. Prints which.

    `written` are the names of the notebook, `globals()`; `called` is the answer's, where it is not the exercise's. An
    answer that passed in another notebook, or before a restart, is found in `my_attention/`. A lesson that goes on to
    something that no check tries gives it as `asked`, a function of the answer: both have to give the same there.

    >>> def causal_mask(q_len, k_len):
    ...     raise NotImplementedError
    >>> mask = yours_or_ours("causal_mask", globals())
    attnlib's causal_mask is used here: yours is not written in this notebook, or does not pass its check.
    >>> mask(1, 3).tolist()
    [[True, True, True]]
    """
    reference, called, own = course.find(name).reference, called or name, written.get(called or name)
    place = ""
    if own is None or not run(name, own).passed:
        own, place = passing(name)
    if own is None:
        where = "yet" if own_folder() else "in this notebook"
        why = place or f"yours is not written {where}, or does not pass its check"
    elif asked is not None and not _alike(asked, own, reference):
        why = f"yours{place and f', from {place},'} passes its check, but does not do what this lesson asks of it"
    else:
        print(f"Your own {called} is used here{place and f', from {place}'}.")
        return own
    print(f"attnlib's {called} is used here: {why}.")
    return reference


def _alike(asked: Callable[[Any], Any], own: Any, reference: Any) -> bool:
    try:
        assert_close(asked(own), asked(reference), atol=1e-4, rtol=1e-3)
    except Exception:  # the answer is the learner's: it may raise anything
        return False
    return True


def passing(name: str) -> tuple[Any, str]:
    """Return the answer in `my_attention/` and where it is, if it passes its check; or None, and why it can't be used.

    An answer may fail because of another one that it imports: then the other one is named.
    """
    exercise = course.find(name)
    kept, told = kept_answer(exercise)
    if kept is None or run(name, kept).passed:
        return kept, told
    told = f"the one in {told} does not pass its check any more"
    for other in imported_answers(exercise):
        found, why = passing(other)
        if found is None:
            return None, f"{told}, because it uses {other}, and {why}"
    return None, told
