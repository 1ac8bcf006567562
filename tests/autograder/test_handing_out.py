"""An assignment of bugs for each student: dealt by the seed, different for each, graded and reported as a lesson is."""

import dataclasses
import shutil
from collections import Counter

import pytest
from click.testing import CliRunner

from attnlib.checks.practising import choose
from attnlib.checks.practising.assigned import check
from attnlib.checks.practising.difficulty import LEVELS
from autograder.__main__ import main
from autograder.building import build_course
from autograder.grading.grade_course import How, grade
from autograder.grading.workers import Crew
from autograder.handing_out.assigning import assign, bugs_of, pool_of
from autograder.handing_out.dealing import levels_for
from autograder.handing_out.roster import read_roster
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.report.analysis import analyse
from autograder.report.collect import collect
from autograder.report.practised import KINDS, by_kind
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError
from autograder.watching.watch import Watch

LESSON, NAME, COUNT = "10", "practice_10", 3
CLASS = ("ada", "bob", "cyd")


def layout_with_seed(folder, seed="7"):
    layout = Layout(course=folder)
    folder.mkdir()
    (folder / "seed").write_text(seed, encoding="ascii")
    return layout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A course with an assignment for three students."""
    layout = layout_with_seed(tmp_path_factory.mktemp("class") / "course")
    assign(layout, LESSON, CLASS, COUNT)
    return layout


def files(layout):
    folder = layout.course / "individual"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.ipynb")}


def answers(bugs):
    return [(bug["lines"][0], bug["letter"]) for bug in bugs]


def test_everybody_has_the_same_levels_and_other_bugs(made):
    dealt = bugs_of(made, NAME)
    assert set(dealt) == set(CLASS)
    assert len({tuple(bug["level"] for bug in bugs) for bugs in dealt.values()}) == 1
    given = Counter(bug["id"] for bugs in dealt.values() for bug in bugs)
    assert max(given.values()) == 1
    assert len(given) == len(CLASS) * COUNT


def test_a_neighbour_s_answers_fit_nowhere(made):
    dealt = bugs_of(made, NAME)
    lines = {bug["level"]: set() for bug in dealt["ada"]}
    for row, line in pool_of(LESSON).items():
        lines.setdefault(row.level, set()).add(line)
    compared = 0
    for one, other in (("ada", "bob"), ("ada", "cyd"), ("bob", "cyd")):
        for mine, theirs in zip(dealt[one], dealt[other], strict=True):
            assert mine["letter"] != theirs["letter"]
            if len(lines[mine["level"]]) >= len(CLASS):  # else two have to share a line
                assert mine["lines"] != theirs["lines"]
                compared += 1
    assert compared == 6


@pytest.mark.slow
def test_the_same_seed_deals_the_same_and_another_one_something_else(made, tmp_path):
    for seed, same in (("7", True), ("8", False)):
        again = layout_with_seed(tmp_path / seed, seed)
        assign(again, LESSON, tuple(reversed(CLASS)), COUNT)
        assert (files(again) == files(made)) is same


@pytest.mark.slow
def test_who_comes_later_gets_one_and_the_others_keep_theirs(tmp_path):
    layout = layout_with_seed(tmp_path / "course")
    assign(layout, LESSON, CLASS[:2], COUNT)
    before = files(layout)
    (layout.individual("source", "bob", NAME)).unlink()  # the run was killed before it had written this
    told = assign(layout, LESSON, CLASS, COUNT)
    assert (told.new, told.before) == (("bob", "cyd"), ("ada",))
    after = files(layout)
    assert {name: after[name] for name in before} == before
    with pytest.raises(CourseError, match=r"practice_10 has 3 bugs for each student already, and 5 were asked for\."):
        assign(layout, LESSON, ("dan",), 5)
    assert files(layout) == after


def test_what_is_handed_out_has_no_answer_in_it(made):
    for student in CLASS:
        release = read_notebook(made.individual("release", student, NAME))
        assert set(release.metadata) == {"kernelspec", "language_info"}
        text = str(release)
        for number, bug in enumerate(bugs_of(made, NAME)[student], 1):
            [answer] = [cell for cell in release.cells if cell.id == f"bug_{number}"]
            assert answer.source.split("\n")[0] == f"line_{number} = None  # the number of the wrong line"
            assert bug["explanation"] not in text
            assert bug["diff"] not in text
            assert bug["contract"] in text
        for cell in release.cells:
            if cell.cell_type == "code":
                compile(cell.source, cell.id, "exec")
    generic = str(read_notebook(made.course / "release" / NAME / f"{NAME}.ipynb"))
    assert not any(bug["exercise"] in generic for bugs in bugs_of(made, NAME).values() for bug in bugs)


def test_a_level_comes_as_often_as_it_has_another_bug_for_each_student():
    pool = [row for row in choose.candidates(set(), lesson="10", only=None, everything=True) if row.level < max(LEVELS)]
    counts = Counter(row.level for row in pool)
    assert levels_for(pool, 1, 4) == [1, 2, 3, 5]
    assert levels_for(pool, counts[5] // 2, 6) == [3, 3, 3, 3, 5, 5]
    assert levels_for(pool, counts[5], 4) == [3, 3, 3, 5]
    assert levels_for(pool, counts[5] + 1, 3) == [3, 3, 3]
    assert levels_for(pool, 10_000, 2) == [3, 3]


def test_nobody_gets_a_bug_twice(tmp_path):
    """Not even from a lesson that has hardly more bugs than each student gets."""
    pool = pool_of(LESSON)
    few = [next(row for row in pool if row.level == level) for level in (2, 3, 5)]
    assert levels_for(few, 10, 3) == [2, 3, 5]
    with pytest.raises(CourseError, match=f"has {len(pool)} bugs in a single line, and 10000 were asked for"):
        assign(layout_with_seed(tmp_path / "course"), LESSON, CLASS, 10_000)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("id\n", "names no student"),
        ("", "needs a first line with a column id or student_id, got nothing"),
        ("name\nada\n", "needs a first line with a column id or student_id, got name"),
        ("id\nada\n\nbob\nada\n", r"lines 2 and 5 name one student, ada and ada"),
        ("id\nada\nAda\n", "lines 2 and 3 name one student, ada and Ada"),
        ("id\nada\n../bob\n", r"line 3: '\.\./bob' is a path"),
        ("id\n/etc/passwd\n", "line 2: '/etc/passwd' is a path"),
        ("id\n..\n", r"line 2: '\.\.' is a path"),
        ("id,name\n,Ada\n", "line 2: the student's id is empty"),
        ('id\n"a\nb"\n', "line 3: the name of the student's folder has a line break"),
        ("id\n" + "a" * 200 + "\n", "200 letters"),
        (b"\xff\xfe\x00", "cannot be read as a table"),
    ],
)
def test_a_roster_that_cannot_be_is_one_sentence_and_nothing_is_made(tmp_path, table, said):
    roster = tmp_path / "roster.csv"
    roster.write_bytes(table if isinstance(table, bytes) else table.encode())
    with pytest.raises(CourseError, match=said) as caught:
        read_roster(roster)
    done = CliRunner().invoke(
        main, ["practice", "--lesson", "10", "--students", str(roster), "--course", str(tmp_path / "course")]
    )
    assert done.exit_code == 1
    assert done.output.strip() == str(caught.value)
    assert not (tmp_path / "course").exists()


def test_a_roster_is_read_as_nbgrader_s_and_as_a_spreadsheet_s(tmp_path):
    roster = tmp_path / "roster.csv"
    roster.write_bytes("\ufefffirst_name,id\nAda, ada \nBo,b.o-1\n".encode())
    assert read_roster(roster) == ["ada", "b.o-1"]
    with pytest.raises(CourseError, match=r"cannot be read as a table: .*No such file"):
        read_roster(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("lesson", "said"), [("99", "no lesson is called '99'"), ("00", "Lesson 00_start_here has no bugs to find.")]
)
def test_a_lesson_that_has_no_bugs_is_one_sentence_and_nothing_is_made(tmp_path, monkeypatch, lesson, said):
    monkeypatch.setattr(choose, "rows", lambda: ())
    with pytest.raises(CourseError, match=said):
        assign(Layout(course=tmp_path / "course"), lesson, CLASS, COUNT)
    assert not (tmp_path / "course").exists()


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        ("bug_1_line", "7", "7. The grader will say"),
        ("bug_1_line", "None", "not answered yet"),
        ("bug_1_line", "0", "required is the number of a line, such as 7, got '0'"),
        ("bug_1_line", "[7]", "got '[7]'"),
        ("bug_1_reason", " b ", "B. The grader will say"),
        ("bug_1_reason", "E", "required is one of the letters A, B, C, D, got 'E'"),
        ("bug_1_reason", None, "not answered yet"),
    ],
)
def test_a_notebook_says_whether_an_answer_has_the_form(capsys, question, answer, said):
    check(question, answer)
    told = capsys.readouterr().out
    assert told.startswith(f"{question}: ")
    assert said in told


def hand_in(layout, student, bugs=(), notebook_of=None):
    """A student's notebook, or somebody else's, with the answers to these bugs."""
    notebook = read_notebook(layout.individual("release", notebook_of or student, NAME))
    for cell in notebook.cells:
        number = cell.id.removeprefix("bug_")
        if number != cell.id and bugs:
            line, letter = answers(bugs)[int(number) - 1]
            cell.source = f'line_{number} = {line}\nreason_{number} = "{letter.lower()}"'
    write_notebook(notebook, layout.course / "submitted" / student / NAME / f"{NAME}.ipynb")


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_it_is_graded_and_reported_as_a_lesson_is(made, tmp_path, monkeypatch):
    layout = dataclasses.replace(made, course=tmp_path / "course")
    shutil.copytree(made.course, layout.course)
    dealt = bugs_of(layout, NAME)
    hand_in(layout, "ada", dealt["ada"])
    hand_in(layout, "bob", dealt["ada"], notebook_of="ada")  # a neighbour's whole notebook
    hand_in(layout, "cyd")
    hand_in(layout, "eve", dealt["ada"], notebook_of="ada")  # who is on no roster
    submitted = layout.course / "submitted"
    graded = {one.student: one for one in grade(layout, submitted, (NAME,), How(layers=probe()))}
    assert {name: one.points for name, one in graded.items()} == {"ada": 3 * COUNT, "bob": 0, "cyd": 0, "eve": 0}
    assert {name: one.max_points for name, one in graded.items() if name != "eve"} == dict.fromkeys(CLASS, 3 * COUNT)
    assert graded["eve"].problem.startswith("not graded: no practice_10 was made for this student")
    assert {result.diagnosis for result in graded["cyd"].results} == {"not answered"}
    asked = [f"bug_{number}_{kind}" for number in range(1, COUNT + 1) for kind in ("line", "reason")]
    assert [result.exercise for result in graded["ada"].results] == asked

    submissions, kinds = by_kind(layout, collect(layout, (NAME,)))
    (analysis,) = analyse(submissions, kinds)
    assert (analysis.graded, analysis.without_grade) == (3, 1)
    assert [item.exercise for item in analysis.items] == [KINDS[level] for level in (2, 3, 5)]
    for item in analysis.items:
        assert (item.submissions, item.passed, item.not_answered.students) == (3, 1, ("cyd",))
        (missed,) = item.findings
        assert missed.students == ("bob",)
        assert missed.title in {bug["title"] for bug in dealt["bob"]}

    monkeypatch.setattr(Crew, "judge", lambda _, tasks, *more: [] if not list(tasks) else pytest.fail("again"))
    again = {one.student: one.points for one in grade(layout, submitted, (), How(layers=probe()))}
    assert again == {name: one.points for name, one in graded.items()}


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_nbgrader_s_own_command_grades_it_alike(made, tmp_path):
    layout = dataclasses.replace(made, course=tmp_path / "course")
    shutil.copytree(made.course, layout.course)
    dealt = bugs_of(layout, NAME)
    hand_in(layout, "ada", dealt["ada"])
    hand_in(layout, "bob", dealt["ada"], notebook_of="ada")
    course = NbgraderCourse(layout.course)
    assert [course.autograde(NAME, student) for student in ("ada", "bob")] == [None, None]
    course.generate_feedback(NAME)
    with course.gradebook() as gradebook:
        scores = {name: gradebook.find_submission(NAME, name).score for name in ("ada", "bob")}
    assert scores == {"ada": 3 * COUNT, "bob": 0}
    [bug, *_] = dealt["bob"]
    assert bug["explanation"] not in (layout.course / "feedback" / "bob" / NAME / f"{NAME}.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("made_at", ["before", "while it runs"])
def test_a_watch_answers_it_as_a_lesson(made, tmp_path, monkeypatch, made_at):
    layout = dataclasses.replace(made, course=tmp_path / "course")
    shutil.copytree(made.course, layout.course)
    hand_in(layout, "ada", bugs_of(layout, NAME)["ada"])
    monkeypatch.setattr(build_course, "prepare", lambda *_: [])  # of all lessons
    notebooks = layout.course / "individual"
    if made_at == "while it runs":
        notebooks = notebooks.rename(tmp_path / "made later")

    def forever(watch: Watch) -> None:
        notebooks.rename(layout.course / "individual")
        for _ in range(2):
            watch.round()

    monkeypatch.setattr(Watch, "forever", forever)
    done = CliRunner().invoke(main, ["watch", str(layout.course / "submitted"), "--course", str(layout.course)])
    assert f"ada {NAME}: judged: {3 * COUNT} of {3 * COUNT} points" in done.output
    assert (layout.course / "feedback" / "ada" / NAME / f"{NAME}.html").is_file()
