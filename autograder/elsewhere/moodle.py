"""Moodle, by its web services: students are found by their ID number, user name or e-mail address.

The token's service needs core_enrol_get_enrolled_users, mod_assign_get_assignments, mod_assign_get_grades and
mod_assign_save_grade.
"""

from typing import Any

from autograder.elsewhere.push import Account, Remote, by_id
from autograder.elsewhere.web import NO_TOKEN, NoAccess, Refused, Web
from autograder.showing.errors import CourseError

VARIABLE = "MOODLE_TOKEN"
NO_ACCESS = ("invalidtoken", "accessexception", "invalidtimedtoken")


class Moodle:
    """One course on Moodle."""

    name = "moodle"

    def __init__(self, address: str, token: str, course: str) -> None:
        self.web, self.course = Web(address, token), course

    def remote(self, wanted: str) -> Remote:
        """Return the assignment of this name or id, with each student's score on Moodle."""
        courses = self._call("mod_assign_get_assignments", {"courseids[0]": self.course})["courses"]
        found = [one for course in courses for one in course["assignments"] if wanted in (one["name"], str(one["id"]))]
        if len(found) != 1:
            raise CourseError(f"One assignment should be called {wanted!r} on Moodle; {len(found)} are.")
        number = str(found[0]["id"])
        graded = self._call("mod_assign_get_grades", {"assignmentids[0]": number})["assignments"]
        scores = {one["userid"]: float(one["grade"]) for each in graded for one in each["grades"]}
        users = self._call("core_enrol_get_enrolled_users", {"courseid": self.course})
        given = {one: score for one, score in scores.items() if score >= 0}  # Moodle writes -1 for no grade
        accounts = [Account(str(user["id"]), given.get(user["id"])) for user in users]
        ids = [(user.get("idnumber"), user.get("username"), user.get("email")) for user in users]
        return Remote(number, float(found[0]["grade"]), by_id(accounts, ids))

    def send(self, remote: Remote, account: Account, score: float) -> None:
        """Set one student's grade, in points."""
        fields = {"assignmentid": remote.id, "userid": account.id, "grade": f"{score:g}", "attemptnumber": -1}
        more = {"addattempt": 0, "workflowstate": "", "applytoall": 0}
        self._call("mod_assign_save_grade", {**fields, **more})

    def _call(self, function: str, fields: dict[str, Any]) -> Any:
        """Call a function; Moodle answers its errors with status 200."""
        form = {"wstoken": self.web.token, "wsfunction": function, "moodlewsrestformat": "json", **fields}
        data = self.web.ask("POST", "/webservice/rest/server.php", form).data
        if isinstance(data, dict) and "exception" in data:
            if data.get("errorcode") in NO_ACCESS:
                raise NoAccess(f"{NO_TOKEN} ({data['errorcode']}). Nothing is lost: renew it and run it again.")
            raise Refused(f"the platform answered {data.get('errorcode')}: {str(data.get('message'))[:160]}")
        return data
