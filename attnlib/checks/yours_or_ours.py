"""Choose what a lesson goes on with: the learner's own answer once it passes its check, the course's until then."""

from collections.abc import Mapping
from typing import Any

from attnlib.checks import course
from attnlib.checks.check import run
from attnlib.checks.standing.own_code import kept_answer


def yours_or_ours(name: str, written: Mapping[str, Any], *, called: str | None = None) -> Any:
    """The learner's answer to the exercise `name`, if it passes its check; the course's own otherwise. Prints which.

    `written` are the names of the notebook, `globals()`; `called` is the answer's, where it is not the exercise's. An
    answer that passed in another notebook, or before a restart, is found in `my_attention/`.

    >>> def causal_mask(q_len, k_len):
    ...     raise NotImplementedError
    >>> mask = yours_or_ours("causal_mask", globals())
    attnlib's causal_mask is used here: yours is not written yet, or does not pass its check.
    >>> mask(1, 3).tolist()
    [[True, True, True]]
    """
    exercise, called = course.find(name), called or name
    attempt = written.get(called)
    if attempt is not None and run(name, attempt).passed:
        print(f"Your own {called} is used here.")
        return attempt
    kept, told = kept_answer(exercise)
    if kept is not None:
        if run(name, kept).passed:
            print(f"Your own {called} is used here, from {told}.")
            return kept
        told = f"the one in {told} does not pass its check any more"
    why = told or "yours is not written yet, or does not pass its check"
    print(f"attnlib's {called} is used here: {why}.")
    return exercise.reference
