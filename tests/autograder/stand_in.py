"""A learning platform on loopback: Canvas and Moodle as far as grades go, with faults on demand."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-that-is-secret"


class Platform:
    """What is there, what has been asked, and what goes wrong: `faults` by student, `expires` after so many writes."""

    def __init__(self, name: str, possible: float, students: list[str]) -> None:
        self.name, self.possible = name, possible
        self.ids = {student: 100 + number for number, student in enumerate(students)}
        self.scores: dict[int, float | None] = dict.fromkeys(self.ids.values())
        self.writes: list[tuple[int, float]] = []
        self.faults: dict[str, int] = {}
        self.lost: set[str] = set()
        self.expires: int | None = None
        self.later = 0
        self.fails_at_reading = False
        handler = type("Handler", (_Handler,), {"platform": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def write(self, number: int, score: float) -> int:
        """Set a score; the status to answer with."""
        student = next(one for one, other in self.ids.items() if other == number)
        if self.expires is not None and len(self.writes) >= self.expires:
            return 401
        if student in self.faults:
            return self.faults[student]
        self.writes.append((number, score))
        self.scores[number] = score
        return 0 if student in self.lost else 200


class _Handler(BaseHTTPRequestHandler):
    platform: Platform

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, data: object, **headers: str) -> None:
        if status == 0:  # it was done, and the answer gets lost
            self.close_connection = True
            return
        text = json.dumps(data).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def form(self) -> dict[str, str]:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}

    def do_GET(self) -> None:
        platform, url = self.platform, urlsplit(self.path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"errors": "no"})
        if platform.later:
            platform.later -= 1
            return self.answer(429, {}, Retry_After="0")
        if platform.fails_at_reading:
            return self.answer(500, {"errors": f"it holds {TOKEN}"})
        kind = url.path.rpartition("/")[2]
        if kind == "assignments":
            return self.answer(200, [{"id": 7, "name": platform.name, "points_possible": platform.possible}])
        if kind == "users":
            return self.answer(200, [{"id": number, "login_id": one} for one, number in platform.ids.items()])
        rows = [{"user_id": number, "score": score} for number, score in platform.scores.items()]
        first = "page=2" not in url.query
        link = f'<{platform.address}{url.path}?page=2>; rel="next"' if first else ""
        self.answer(200, rows[:1] if first else rows[1:], Link=link)

    def do_PUT(self) -> None:
        score, number = float(self.form()["submission[posted_grade]"]), int(self.path.rpartition("/")[2])
        status = self.platform.write(number, score)
        self.answer(status, {"errors": f"broken, {TOKEN}"})

    def do_POST(self) -> None:
        platform, form = self.platform, self.form()
        if self.path != "/webservice/rest/server.php" or form["wstoken"] != TOKEN:
            return self.answer(200, {"exception": "moodle_exception", "errorcode": "invalidtoken", "message": "no"})
        function = form["wsfunction"]
        if function == "mod_assign_get_assignments":
            found = [{"id": 7, "name": platform.name, "grade": platform.possible}]
            return self.answer(200, {"courses": [{"assignments": found}]})
        if function == "mod_assign_get_grades":
            scores = [{"userid": n, "grade": f"{-1 if s is None else s:.5f}"} for n, s in platform.scores.items()]
            return self.answer(200, {"assignments": [{"grades": scores}]})
        if function == "core_enrol_get_enrolled_users":
            return self.answer(200, [{"id": number, "idnumber": one} for one, number in platform.ids.items()])
        assert function == "mod_assign_save_grade"
        status = platform.write(int(form["userid"]), float(form["grade"]))
        if status == 401:
            return self.answer(200, {"exception": "moodle_exception", "errorcode": "invalidtoken", "message": "no"})
        if status not in (0, 200):
            return self.answer(200, {"exception": "dml", "errorcode": "dmlwriteexception", "message": "no"})
        self.answer(status, None)
