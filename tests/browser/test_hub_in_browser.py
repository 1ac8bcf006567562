"""A student and an instructor on a real JupyterHub: release, fetch, hand in, collect, grade, give back, by clicks."""

import json
import re
import shutil

import pytest
from hub import NEEDED, ROOT, running_hub, shown
from jupyter_servers import BOUND, SETTINGS, press
from nbgrader.api import Gradebook
from test_student_in_browser import cell, fill, run
from tiny_course import POINTS, RIGHT, TINY, make_layout

from autograder.building.build_course import prepare

pytestmark = [pytest.mark.browser, pytest.mark.slow, NEEDED]

MANAGE = "ngshare_exchange.course_management"
THEIR_CHECKOUT = "/home/ann/attention-from-scratch/autograder/course"


@pytest.fixture
def hub(tmp_path):
    """An instructor whose course is prepared, and a student on its roster."""
    with running_hub(tmp_path / "hub", ["admin", "ann", "sam"]) as hub:
        layout = make_layout(hub.home("ann") / "attention")
        prepare(layout, ())
        (layout.course / "course_settings.py").write_text(hub.settings)
        config = shown("an instructor's server starts in their home")
        assert THEIR_CHECKOUT in config
        (hub.home("ann") / "nbgrader_config.py").write_text(config.replace(THEIR_CHECKOUT, str(layout.course)))
        shutil.copytree(ROOT / "notebooks" / ".jupyter", hub.home("sam") / ".jupyter")
        hub.call("admin", MANAGE, "create_course", "attention", "ann")
        hub.call("ann", MANAGE, "add_student", "attention", "sam", "--no-gb")
        for who in ("ann", "sam"):
            for name, settings in SETTINGS.items():
                folder = hub.home(who) / ".jupyter" / "lab" / "user-settings" / "@jupyterlab"
                path = folder / f"{name}.jupyterlab-settings"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(settings), encoding="utf-8")
        yield hub


@pytest.fixture
def log_in(hub, chromium, tmp_path):
    """Logs somebody in, and gives the page with their JupyterLab."""
    opened = {}

    def log_in(who):
        context = chromium.new_context(viewport={"width": 1200, "height": 800})
        context.set_default_timeout(1000 * BOUND)
        opened[who] = page = context.new_page()
        page.goto(f"{hub.address}/hub/login")
        page.get_by_label("Username").fill(who)
        page.get_by_label("Password").fill("any")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**/user/{who}/lab**")
        page.get_by_role("menuitem", name="Nbgrader").wait_for()
        return page

    yield log_in
    for who, page in opened.items():
        page.screenshot(path=tmp_path / f"last_of_{who}.png")
        page.context.close()


def menu(page, entry, instead_of=None):
    page.get_by_role("menuitem", name="Nbgrader").click()
    chosen = page.get_by_role("menuitem", name=entry)
    chosen.wait_for()
    if instead_of:
        assert page.get_by_role("menuitem", name=instead_of).count() == 0
    chosen.click()


def answer(page, picture):
    """Open the fetched notebook from the list, answer one exercise, run it with its check, and save."""
    page.locator("#fetched_assignments_list a.assignment-notebooks-link").click()
    page.locator("#fetched_assignments_list .nested_list_item a").filter(has_text=TINY).click()
    page.locator(".jp-Toolbar-kernelName").filter(has_text="Python 3").wait_for()
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for()
    fill(page, "def pairwise_dot", RIGHT["pairwise_dot"])
    for source in ("import torch", "def pairwise_dot", 'check("pairwise_dot"'):
        run(page, source)
    cell(page, 'check("pairwise_dot"').locator(".jp-OutputArea-output").filter(has_text="✓").wait_for()
    page.keyboard.press("ControlOrMeta+S")
    page.locator(".jp-mod-dirty").wait_for(state="detached")
    picture(page, "hub_answered")


def test_a_day_on_the_hub(hub, log_in, picture):
    ann = log_in("ann")
    menu(ann, "Formgrader")
    ann.frame_locator("iframe").get_by_role("link", name=TINY).first.wait_for()
    picture(ann, "hub_formgrader")
    manage = f"{hub.address}/user/ann/formgrader/manage_assignments"
    ann.goto(manage)
    press(ann, "release")

    sam = log_in("sam")
    assert sam.get_by_text("Create Assignment").count() == 0
    menu(sam, "Assignment List", instead_of="Formgrader")
    sam.locator("#released_assignments_list").get_by_role("button", name="Fetch").click()
    sam.locator("#fetched_assignments_list").get_by_role("button", name="Submit").wait_for()
    picture(sam, "hub_fetched")
    answer(sam, picture)
    sam.get_by_role("tab", name="Assignments").click()
    sam.locator("#fetched_assignments_list").get_by_role("button", name="Submit").click()
    handed_in = sam.locator("#submitted_assignments_list")
    handed_in.get_by_role("button", name="Fetch Feedback").wait_for()
    picture(sam, "hub_submitted")

    ann.goto(manage)
    press(ann, "collect")
    ann.goto(f"{hub.address}/user/ann/formgrader/manage_submissions/{TINY}")
    press(ann, "autograde")
    with Gradebook(f"sqlite:///{hub.home('ann')}/attention/course/gradebook.db") as gradebook:
        assert gradebook.find_submission(TINY, "sam").score == POINTS["pairwise_dot"]
    ann.goto(f"{hub.address}/user/ann/formgrader/gradebook/{TINY}/{TINY}")
    ann.get_by_role("link", name="Submission #1").click()
    ann.get_by_text("pairwise_dot").first.wait_for()
    picture(ann, "hub_submission")
    ann.goto(manage)
    press(ann, "generate-feedback")
    press(ann, "release-feedback")

    menu(sam, "Assignment List")
    handed_in.get_by_role("button", name="Fetch Feedback").click()
    handed_in.get_by_text("(view feedback)").click()
    picture(sam, "hub_feedback_fetched")
    (feedback,) = (hub.home("sam") / TINY / "feedback").rglob("*.html")
    sam.goto(f"{hub.address}/user/sam/files/{feedback.relative_to(hub.home('sam'))}")
    score = re.search(r"Score:\s*([\d.]+) / ([\d.]+)", sam.locator("body").inner_text())
    assert score is not None
    assert tuple(map(float, score.groups())) == (POINTS["pairwise_dot"], sum(POINTS.values()))
    picture(sam, "hub_feedback")
