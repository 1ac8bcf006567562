"""Canvas, by its REST interface: students are found by their SIS login or their SIS user id."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from autograder.elsewhere.push import Account, Remote, by_id
from autograder.elsewhere.web import Web
from autograder.showing.errors import CourseError

VARIABLE = "CANVAS_TOKEN"


class Canvas:
    """One course on Canvas."""

    name = "canvas"

    def __init__(self, address: str, token: str, course: str) -> None:
        self.web = Web(address, token, {"Authorization": f"Bearer {token}", "Accept": "application/json"})
        self.course = f"/api/v1/courses/{quote(course, safe='')}"

    def remote(self, wanted: str) -> Remote:
        """Return the assignment of this name or id, with each student's score on Canvas."""
        fitting = [one for one in self._all(f"{self.course}/assignments?per_page=100") if _is(one, wanted)]
        if len(fitting) != 1:
            raise CourseError(f"One assignment should be called {wanted!r} on Canvas; {len(fitting)} are.")
        place = f"{self.course}/assignments/{fitting[0]['id']}"
        users = {user["id"]: user for user in self._all(f"{self.course}/users?enrollment_type[]=student&per_page=100")}
        submissions = [one for one in self._all(f"{place}/submissions?per_page=100") if one["user_id"] in users]
        accounts = [Account(str(one["user_id"]), _entered(one)) for one in submissions]
        of = [users[one["user_id"]] for one in submissions]
        ids = [(user.get("login_id"), user.get("sis_user_id")) for user in of]
        return Remote(place, float(fitting[0]["points_possible"] or 0), by_id(accounts, ids))

    def send(self, remote: Remote, account: Account, score: float) -> None:
        """Set one student's grade, in points."""
        self.web.ask("PUT", f"{remote.id}/submissions/{account.id}", {"submission[posted_grade]": f"{score:g}"})

    def _all(self, path: str) -> Iterator[Any]:
        while path:
            answer = self.web.ask("GET", path)
            yield from answer.data
            path = answer.next


def _entered(submission: Any) -> float | None:
    """The score as somebody gave it: `score` is what Canvas's own policy for lateness has left of it."""
    score: float | None = submission.get("entered_score", submission.get("score"))
    return score


def _is(assignment: Any, wanted: str) -> bool:
    return wanted in (assignment["name"], str(assignment["id"]))
