"""What the README says of the lessons is what the course declares."""

import re
import tomllib
from pathlib import Path

from attnlib.checks import exercises, run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LESSONS = sorted({exercise.lesson for exercise in exercises().values()})


def test_every_lesson_is_listed_with_its_points():
    listed = dict(re.findall(r"^\| (\d\d) .* \| (\d+) \|$", README, re.MULTILINE))
    declared = {lesson[:2]: 0 for lesson in LESSONS}
    for exercise in exercises().values():
        declared[exercise.lesson[:2]] += 0 if exercise.stretch else exercise.points
    assert {number: int(points) for number, points in listed.items()} == declared


def test_the_whole_course_is_counted():
    found = re.search(r"(\d+) exercises, and (\d+) more without points \| \*\*(\d+)\*\*", README)
    assert found is not None
    graded = [exercise.points for exercise in exercises().values() if not exercise.stretch]
    assert tuple(map(int, found.groups())) == (len(graded), len(exercises()) - len(graded), sum(graded))


def _minutes(said: str) -> int:
    return sum(int(number) * (60 if unit == "hour" else 1) for number, unit in re.findall(r"(\d+) (hour|minute)", said))


def _about(minutes: int) -> str:
    hours, half = divmod(round(minutes / 30), 2)
    return f"{hours}{' and a half' * half} hours"


def test_the_hours_of_the_course_are_those_of_the_lessons_heads():
    heads = [
        path.read_text(encoding="utf-8").split("## ", 1)[0] for path in sorted((ROOT / "solutions").glob("[0-9]*.py"))
    ]
    core, everything = (
        _about(sum(_minutes(said) for head in heads for said in re.findall(rf"\b{word} ([\d a-z]+)", head)))
        for word in ("core", "everything")
    )
    assert f"Together the core takes about {core}." in (ROOT / "solutions/00_start_here.py").read_text(encoding="utf-8")
    guide = (ROOT / "docs/instructors.md").read_text(encoding="utf-8")
    assert f"The cores add up to about {core}, everything to {everything.removesuffix(' hours')}." in guide


def test_the_verdict_it_shows_is_what_one_sees():
    shown = re.search(r"^(✗ attention_scores.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    message = " ".join(run("attention_scores", lambda q, k: q @ k.mT).message.split())
    for line in shown[1].splitlines():
        assert line.strip().removesuffix(" …") in message


def test_the_wheel_it_installs_is_the_one_that_is_built():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wheels = re.findall(r'"dist/(\S+)\[course\]"', README)
    assert wheels == 2 * [f"{project['name']}-{project['version']}-py3-none-any.whl"]
