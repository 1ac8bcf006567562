"""The gallery's pages without the site around them, which Sphinx adds (`docs/site/gallery.py`)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer, PythonLexer

from attnlib.checks.practising.programs import differences, wrong_lines
from attnlib.checks.verdict.report import parts_line
from autograder.building.gallery.fragments import in_context, repair, wrong_rows
from autograder.building.gallery.mistakes import Mistake, Place
from autograder.building.gallery.seen import Seen
from autograder.building.gallery.symptom_texts import FAMILIES, SYMPTOMS
from autograder.building.gallery.topics import ANYWHERE, topic_of
from autograder.showing.pages import fill_in

HERE = Path(__file__).parent
FAILED = ("raises", "shapes_do_not_fit", "parameters", "too_much_memory", "too_slow")
"""Symptoms with an error message, which is shown beside each mistake."""
MOST_NEAR = 10
LONGEST_DESCRIPTION = 160  # characters: what a search engine shows


@dataclass(frozen=True)
class Page:
    """A page for Sphinx: its address without `.html`, its title, its text for search engines, its HTML."""

    name: str
    title: str
    description: str
    body: str
    contents: tuple[tuple[str, str], ...]
    """The ids and the headings of its sections."""
    words: str
    """The words by which the site's search finds it."""

    def as_record(self) -> dict[str, Any]:
        """The entry in JSON's types."""
        return asdict(self)


def anchor(name: str) -> str:
    """The address of an exercise on its lesson's list of mistakes, as docutils writes it."""
    return f"exercise-{_slug(name)}"


def task(name: str) -> str:
    """The address of an exercise in its lesson."""
    return f"task-{_slug(name)}"


def heading(mistake: Mistake) -> str:
    """Return the page's title: the place of the mistake, and its name.

    >>> from attnlib.checks import exercises
    >>> from autograder.building.gallery.mistakes import mistakes
    >>> heading(mistakes([exercises()["attention_scores"]])[0])
    'Attention scores: the softmax is taken already'
    """
    first, *_ = mistake.title.split()
    starts_a_sentence = first[1:] == first[1:].lower() and (len(first) > 1 or first == "A")  # and isn't GELU, or W
    lower = mistake.title[0].lower() + mistake.title[1:] if starts_a_sentence else mistake.title
    return f"{topic(mistake)}: {lower}"


def topic(mistake: Mistake) -> str:
    """Name the kind of code in which the mistake is made."""
    return "Any function or module" if mistake.id in ANYWHERE else topic_of(mistake.places[0].exercise.name)


def mistake_pages(found: Sequence[Seen], titles: Mapping[str, str]) -> list[Page]:
    """A page for each mistake; `titles` are those of the lessons."""
    lines = _by_line([one.mistake for one in found])
    return [_page(one, titles, lines) for one in found]


def _page(one: Seen, titles: Mapping[str, str], lines: Mapping[tuple[object, ...], list[Mistake]]) -> Page:
    mistake, first = one.mistake, one.mistake.places[0]
    told = {id: SYMPTOMS[id] for id in one.symptoms}
    near = {other.id: heading(other) for key in _lines(first) for other in lines[key]}
    near.pop(mistake.id, None)
    html = fill_in(
        HERE / "mistake.html",
        {"sentence": _sentence},
        topic=topic(mistake),
        title=heading(mistake),
        first=_place(first, titles),
        symptoms=told.items(),
        wrong=_wrong(first),
        report=one.report,
        still=still if "✓" in (still := parts_line(one.report)) else "",
        reasons=_reasons(mistake),
        repair=_code(repair(first.right, first.program), diff=True),
        program=_code(first.program, wrong_lines(first.right, first.program)),
        threads=mistake.threads,
        lessons=_by_lesson(mistake, titles),
        more_programs=_more_programs(mistake),
        near=[*near.items()][:MOST_NEAR],
    )
    said = [
        one.report.headline,
        *(f"{section.heading} {section.body}" for section in one.report.sections if not section.fixed),
    ]
    words = [
        *(symptom.title for symptom in told.values()),
        first.told.explanation,
        *dict.fromkeys(topic_of(place.exercise.name) for place in mistake.places),
        *said,
        wrong_rows(first.right, first.program),
    ]
    return Page(
        name=f"mistakes/{mistake.id}",
        title=_plain(heading(mistake)),
        description=_shortened(first.told.explanation),
        body=html,
        contents=_contents(html),
        words="\n".join(words),
    )


def symptom_pages(found: Sequence[Seen], titles: Mapping[str, str]) -> list[Page]:
    """A page for each symptom that some mistake has, with the mistakes by lesson."""
    pages = []
    for id, symptom in SYMPTOMS.items():
        shown = [one for one in found if id in one.symptoms]
        groups = [
            ({"id": lesson, "title": title}, [_entry(one, id) for one in shown if _lesson(one) == lesson])
            for lesson, title in titles.items()
        ]
        if shown:
            groups = [(lesson, entries) for lesson, entries in groups if entries]
            html = fill_in(HERE / "symptom.html", {}, symptom=symptom, count=len(shown), groups=groups)
            name, title = f"mistakes/symptom-{id}", _plain(symptom.title)
            pages.append(Page(name, title, _shortened(symptom.text), html, _contents(html), symptom.text))
    return pages


def index(found: Sequence[Seen], titles: Mapping[str, str]) -> str:
    """The gallery's first page, below its heading and introduction."""
    families = []
    for family, symptoms in FAMILIES.items():
        counted = [(id, told, sum(id in one.symptoms for one in found)) for id, told in symptoms.items()]
        families.append((family, [entry for entry in counted if entry[2]]))
    lessons = [
        {
            "id": id,
            "title": title,
            "count": sum(any(p.exercise.lesson == id for p in one.mistake.places) for one in found),
        }
        for id, title in titles.items()
    ]
    return fill_in(HERE / "index.html", {"slug": _slug}, families=families, lessons=lessons)


def _place(place: Place, titles: Mapping[str, str]) -> dict[str, str]:
    name, lesson = place.exercise.name, place.exercise.lesson
    return {
        "name": name,
        "file": lesson,
        "lesson": titles[lesson],
        "anchor": anchor(name),
        "address": f"notebooks/{lesson}.html#{task(name)}",
        "program": place.program,
    }


def _by_lesson(mistake: Mistake, titles: Mapping[str, str]) -> list[tuple[str, list[dict[str, str]]]]:
    places = [_place(place, titles) for place in mistake.places]
    return [
        (title, here) for title in titles.values() if (here := [place for place in places if place["lesson"] == title])
    ]


def _entry(one: Seen, id: str) -> dict[str, str]:
    failure = one.report.failure
    said = _shortened(failure.error) if id in FAILED and failure is not None else ""
    return {"id": one.mistake.id, "title": heading(one.mistake), "said": said}


def _lesson(one: Seen) -> str:
    return one.mistake.places[0].exercise.lesson


def _reasons(mistake: Mistake) -> list[tuple[list[str], str]]:
    """Each explanation once; all but the first with their exercises."""
    found: dict[str, list[str]] = {}
    for place in mistake.places:
        found.setdefault(place.told.explanation, []).append(place.exercise.name)
    return [(names if number else [], text) for number, (text, names) in enumerate(found.items())]


def _more_programs(mistake: Mistake) -> list[tuple[list[str], Markup]]:
    """The wrong lines of other spellings and exercises, each once."""
    first = mistake.places[0]
    found: dict[str, list[str]] = {}
    for place in mistake.places:
        for program in filter(None, (place.program, *place.others)):
            names = found.setdefault(wrong_rows(place.right or first.right, program), [])
            if place.exercise.name not in names:
                names.append(place.exercise.name)
    found.pop(wrong_rows(first.right, first.program), None)
    return [(names, _code(rows)) for rows, names in found.items()]


def _wrong(place: Place) -> Markup:
    if not place.program:
        return _code(ANYWHERE[place.told.id])
    return _code(*in_context(place.right, place.program))


def _lines(place: Place) -> list[tuple[object, ...]]:
    """The lines of the right answer that the program replaces."""
    if not place.program:
        return []
    return [
        (place.exercise.name, row)
        for first, last, *_ in differences(place.right, place.program)
        for row in range(first, last)
    ]


def _by_line(mistakes: Iterable[Mistake]) -> dict[tuple[object, ...], list[Mistake]]:
    found: dict[tuple[object, ...], list[Mistake]] = {}
    for mistake in mistakes:
        for place in mistake.places:
            for line in _lines(place):
                found.setdefault(line, []).append(mistake)
    return found


def _code(text: str, wrong: Sequence[int] = (), *, diff: bool = False) -> Markup:
    """Python, or a diff, in the site's colours, the wrong lines marked."""
    formatter = HtmlFormatter(hl_lines=[*wrong], wrapcode=True)
    return Markup(highlight(text.strip("\n"), DiffLexer() if diff else PythonLexer(), formatter))


def _contents(html: str) -> tuple[tuple[str, str], ...]:
    return tuple(re.findall(r'<section id="([\w-]+)">\n<h2>(.*?)</h2>', html))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _plain(text: str) -> str:
    return text.replace("`", "")


def _shortened(text: str) -> str:
    text = _plain(text)
    return text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 2].rsplit(" ", 1)[0] + " …"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
