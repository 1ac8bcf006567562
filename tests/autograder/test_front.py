"""The site's first page and the reader to try, before a browser has seen them."""

import json
import os
import re
import shutil
import subprocess
from html import unescape

import exported_reader
import numpy as np
import pytest
import torch
from markupsafe import escape

from attnlib.checks import exercises
from attnlib.checks.practising.records import ten_bugs
from autograder.building.front import date_reader, pages
from autograder.lesson_text.layout import Layout
from autograder.showing.errors import CourseError

LAYOUT = Layout()
READ = """
const reader = new DateReader(given.reader);
const all = given.texts.map(text => reader.read(text));
console.log(JSON.stringify(all.map(read => read && [read.logits, read.weights])));
"""


@pytest.fixture(scope="module")
def trained():
    """A reader after a few steps."""
    return date_reader.train_reader(LAYOUT.solutions, steps=20)


@pytest.fixture(scope="module")
def empty():
    """A reader with the same sizes, and other weights."""
    lesson, texts = date_reader.dates(LAYOUT.solutions)
    return lesson["DateReader"](texts, num_heads=4)


def in_node(exported, texts):
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is missing (apt install nodejs)")
    given = json.dumps({"reader": exported, "texts": texts})
    code = (pages.HERE / "reader.js").read_text(encoding="utf-8").replace('"use strict";', "", 1)
    program = f'"use strict"; const given = JSON.parse(require("fs").readFileSync(0, "utf8"));{code}{READ}'
    done = subprocess.run([node, "-e", program], input=given, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


def test_the_browser_reads_a_thousand_dates_as_pytorch_does(trained, empty):
    exported = date_reader.exported(trained)
    reader = exported_reader.load(empty, exported)
    off = 0.0
    for text, read in zip(trained.texts, in_node(exported, trained.texts), strict=True):
        for here, there in zip(exported_reader.read(reader, text), read, strict=True):
            off = max(off, np.abs(np.subtract(here, there)).max())
    assert len(trained.texts) == 1000
    assert off < 1e-4


def test_a_character_without_a_number_is_read_as_padding_is(trained, empty):
    exported = date_reader.exported(trained)
    reader = exported_reader.load(empty, exported)
    text = "x20 July Ж 1969😀"
    unknown = [j for j, character in enumerate(text) if character not in reader.number_of]
    known, none, nothing = in_node(exported, [text, "ЖЖ", ""])
    for here, there in zip(exported_reader.read(reader, text), known, strict=True):
        np.testing.assert_allclose(there, here, atol=1e-4, rtol=0)
    assert len(unknown) == 3
    assert not np.array(known[1])[..., unknown].any()
    assert none is nothing is None


def test_the_exported_weights_are_those_of_the_reader(trained, empty):
    reader = exported_reader.load(empty, json.loads(json.dumps(date_reader.exported(trained))))
    for name, numbers in trained.reader.state_dict().items():
        torch.testing.assert_close(reader.state_dict()[name].float(), numbers, atol=0, rtol=1e-6)


def test_training_gives_the_same_weights_again_and_leaves_nothing_behind(trained, monkeypatch):
    monkeypatch.setenv("ATTNLIB_PROGRESS", "1")
    torch.manual_seed(7)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    again = date_reader.train_reader(LAYOUT.solutions, steps=20)
    assert date_reader.exported(again) == date_reader.exported(trained)
    assert torch.equal(torch.get_rng_state(), state)
    assert (torch.get_num_threads(), os.environ["ATTNLIB_PROGRESS"]) == (threads, "1")


@pytest.mark.slow
def test_the_reader_of_the_site_reads_nearly_all_unseen_dates():
    assert date_reader.train_reader(LAYOUT.solutions).missed() <= 10


def test_the_page_to_try_is_small_and_loads_nothing(trained):
    page = pages.try_page(trained, LAYOUT)
    assert len(page.encode()) < 300_000
    assert not re.search(r'(src|srcset|href)="(https?:)?//', page)
    assert f"{len(trained.texts) - trained.missed():,} right to the last character" in " ".join(page.split())
    assert set(trained.samples) == set(date_reader.LANGUAGES)
    assert len((pages.HERE / "reader.js").read_text(encoding="utf-8").splitlines()) < 200


def first_page():
    return pages.first_page({lesson: f"Title of {lesson}" for lesson in LAYOUT.lessons()}, LAYOUT)


def test_the_first_page_has_three_doors_and_every_lesson():
    page = first_page()
    doors = re.findall(r'<h2><a href="([^"]+)">', page)
    assert doors == ["try.html", "course.html#start", "docs/instructors.html"]
    assert re.findall(r'<li><a href="notebooks/(.*).html">Title of \1</a>', page) == LAYOUT.lessons()
    assert f"{sum(exercise.points for exercise in exercises().values())} points" in page


def test_the_command_to_start_has_the_address_where_one_is_known(monkeypatch):
    monkeypatch.setattr(pages, "repository_url", lambda root: None)
    assert ">make lab</code>" in first_page()
    monkeypatch.setattr(pages, "repository_url", lambda root: "https://github.com/someone/attention")
    assert "git clone https://github.com/someone/attention attention &amp;&amp; make -C attention lab" in first_page()


def test_the_first_page_shows_what_the_check_says(monkeypatch):
    (told,) = (one for one in exercises()[pages.EXERCISE].misconceptions if one.id == pages.DIAGNOSIS)
    page = first_page()
    assert told.title in page
    assert "split_heads: the values are not right" in page
    assert "Not explained by it" not in page  # one mistake, and no other
    monkeypatch.setattr(pages, "WRONG", pages.WRONG.replace("x.reshape(b, num_heads, n, d)", "x"))
    with pytest.raises(CourseError, match=r"shows 'reshaped', and the check of split_heads says"):
        first_page()


def test_the_marked_line_is_the_wrong_one():
    assert "reshape" in pages.WRONG.splitlines()[pages.MARKED - 1]
    assert "<mark>    return x.reshape(b, num_heads, n, d)</mark>" in first_page()


def test_the_page_of_bugs_has_ten_whose_lines_can_be_pressed():
    page = pages.bugs_page(LAYOUT)
    sections = re.findall(r'<section class="bug" id="bug-(\d+)" data-lines="([\d ]+)".*?</section>', page, re.DOTALL)
    assert [int(number) for number, _ in sections] == list(range(1, 11))
    assert not re.search(r'(src|srcset|href)="(https?:)?//', page)
    known = ten_bugs(pages.SEED)
    assert len({bug["exercise"] for bug in known}) == 10
    assert [bug["level"] for bug in known] == sorted(bug["level"] for bug in known)
    for bug, (number, lines) in zip(known, sections, strict=True):
        assert lines == " ".join(map(str, bug["lines"]))
        section = page.split(f'id="bug-{number}"')[1].split("</section>")[0]
        shown = re.findall(r'data-line="(\d+)">.*?<code style="--in: (\d+)">(.*?)</code></button>', section)
        code = {int(n): " " * int(indent) + unescape(text) for n, indent, text in shown}
        assert code == {n: row for n, row in enumerate(bug["code"].split("\n"), 1) if row.strip()}
        assert escape(bug["symptom"]) in section
        assert escape(bug["diff"]) in section
