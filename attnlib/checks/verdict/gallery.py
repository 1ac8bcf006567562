"""The page of a mistake on the course's site, where the site has an address."""

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

from attnlib.checks.exercise import AS_GIVEN, Exercise, Misconception

SETTING = "Documentation"
"""The key in `project.urls` of pyproject.toml for the address of the site that `make site` writes."""


@cache
def site() -> str:
    """Return the address, ending in a slash; empty if attnlib was installed without one."""
    try:
        addresses = metadata("attnlib").get_all("Project-URL") or []
    except PackageNotFoundError:  # not installed: a folder on the path
        return ""
    found = [address.partition(", ")[2] for address in addresses if address.partition(", ")[0] == SETTING]
    return f"{found[0].rstrip('/')}/" if found else ""


def gives_away(exercise: Exercise) -> bool:
    """True if the explanations of its wrong answers would give the answer away: then none of them has a page."""
    return exercise.kind == "choice" or any(one.id == AS_GIVEN for one in exercise.misconceptions)


def pages_of(exercise: Exercise, finding: Misconception) -> tuple[str, ...]:
    """Return the addresses of its pages: two for two mistakes at once, none for anything but a misconception."""
    if not site() or finding not in exercise.misconceptions or gives_away(exercise):
        return ()
    return tuple(f"{site()}mistakes/{id}.html" for id in finding.both or (finding.same_as or finding.id,))
