"""The kinds of change as findings: an id and a title for each."""

from attnlib.checks.exercise import Misconception

CHANGES = {
    kind: Misconception(
        id=f"one_change_{kind}",
        title=title,
        explanation="With one change in one place, the answer would pass all that was checked.",
        implementation=None,
        heading="One change away",
    )
    for kind, title in {
        "in_place": "A change in place",
        "branch": "One special case too many",
        "always": "One condition too many",
        "function": "Another function is needed",
        "removal": "One step too many",
        "operator": "Another operator is needed",
        "condition": "Another condition is needed",
        "axis": "Another axis is needed",
        "number": "Another number is needed",
        "flag": "True and False are exchanged",
        "reduction": "One step too many",
        "order": "Another order is needed",
        "dtype": "A dtype is missing, or is the wrong one",
        "addition": "Something is missing",
        "exchange": "Two variables have changed places",
        "pattern": "Another pattern is needed",
        "name": "Another variable is needed",
        "variable": "A variable is needed in place of a number",
        "squeeze": "One axis too many",
        "step": "A step is missing",
    }.items()
}
"""The finding for each kind of change; kinds that are rare and say much are tried first.

Taking one branch of two in every case comes before anything that may change a number. Where that helps, many a
change further up would help by chance, such as a number that makes the condition never hold.
"""

MOVES = ("in_place", "function", "removal", "dtype", "addition", "step")
"""Kinds of change that bring a tensor to another device, and no other size or number."""

KEPT_STATE = Misconception(
    id="kept_state",
    title="Something is left over from earlier calls",
    explanation="In a fresh run, the same code passes all that was checked. Now it is wrong because a cache, a counter "
    "or a global still holds what earlier calls left there. Compute everything from the arguments.",
    implementation=None,
    heading="What your result shows",
)
