"""Try the check of one exercise: on misconceptions, on right answers, on mutants of right answers."""

import importlib
import time
from dataclasses import replace
from typing import Any
from zlib import crc32

from attnlib.checks import Exercise, exercises
from attnlib.checks.asking.attempt import Local
from attnlib.checks.asking.observation import Asking
from attnlib.checks.asking.time_limits import TimeLimits, here
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.right import right_answers
from attnlib.checks.naming.symptom_names import SYMPTOMS
from attnlib.checks.verdict.judge import cases_of, run_exercise, try_case
from attnlib.checks.verdict.report import Report
from autograder.lesson_text.layout import Layout
from autograder.proof.answers import Answer, run_source, solution, written_plainly
from autograder.proof.counts import Cost, Fate, Judgement, Proof
from autograder.proof.equivalent import EQUIVALENT
from autograder.proof.mutants import Mutant, mutants
from autograder.proof.observed import Observed
from autograder.proof.withheld import told_instead, told_of_dropped

ONE_IN = 10
"""One mutant in this many has its report noted; one misconception in this many has its check's cost measured."""
MOST_TOLD = 50
"""Roughly the most mutants of an exercise whose report is noted: a long answer has two thousand."""


def code_exercises() -> list[str]:
    """The exercises answered in code, in course order: wrong letters of predictions all have names."""
    return [name for name, exercise in exercises().items() if exercise.kind != "choice"]


def verdicts(name: str, seeds: range) -> Proof:
    """Check every misconception and every right answer, visible and hidden, with each seed."""
    exercise = exercises()[name]
    wrong = [(m.id, m.same_as or m.id, m.implementation) for m in exercise.misconceptions]
    lesson = solution(Layout(), exercise)
    right = [("the lesson's", None, run_source(lesson, lesson.source))]
    right += [(f"alternative {i}", None, answer) for i, answer in enumerate(right_answers(name), 1)]
    answers = [*right, *wrong]
    _warm_up(exercise)
    found: list[Judgement] = []
    for seed in seeds:
        observed = Observed(exercise, seed)
        found += [_verdict(observed, *answer, hidden) for hidden in (False, True) for answer in answers]
    return Proof(verdicts=tuple(found))


def slips(name: str) -> Proof:
    """Return what is said of each slip, what would be said of it without a catalogue, and what of dropped ones."""
    exercise = exercises()[name]
    if not isinstance(exercise, WrittenExercise):
        return Proof()
    _warm_up(exercise)
    lesson, asking = solution(Layout(), exercise), Asking(limits=here())
    told = told_instead(exercise, lesson, asking), told_of_dropped(exercise, lesson, asking)
    return Proof(withheld=tuple(told[0]), dropped=tuple(told[1]))


def _verdict(observed: Observed, answer: str, expected: str | None, attempt: Any, hidden: bool) -> Judgement:
    """Return all that a check would say, running the answer only once on each case."""
    exercise, seed, name = observed.exercise, observed.asking.seed, f"{observed.exercise.name}: {answer}"
    report = observed.report(attempt, hidden=hidden)
    timed = seed == 0 and not hidden and (expected is None or crc32(name.encode()) % ONE_IN == 0)
    cost = _cost(exercise, attempt) if timed else None
    return Judgement(name, expected, hidden, seed, report.passed, report.diagnosis, cost)


def _cost(exercise: Exercise, attempt: Any) -> Cost:
    """Measure the cost of the visible check as a student runs it."""
    cpu, wall = time.process_time(), time.perf_counter()
    run_exercise(exercise, attempt)
    return Cost(1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall))


def _warm_up(exercise: Exercise) -> None:
    """Load what torch loads at its first use, about a second once per session, whatever the attempt."""
    importlib.import_module("torch._dynamo")
    for case in cases_of(exercise, hidden=True):
        try_case(exercise, exercise.reference, case)


def fates(name: str) -> Proof:
    """Find the fate of each mutant of the lesson's solution, and of an alternative, under the grader's check."""
    exercise, reasons = exercises()[name], EQUIVALENT.get(name, {})
    lesson, plain = solution(Layout(), exercise), written_plainly(name)
    _warm_up(exercise)
    limits = replace(here(), case_cpu=here().mutant_cpu)
    tried = [(lesson, mutant) for mutant in mutants(lesson.source)]
    tried += [(plain, replace(mutant, key=f"bank: {mutant.key}")) for mutant in mutants(plain.source)] if plain else []
    one_in = max(ONE_IN, len(tried) // MOST_TOLD)
    found = {
        mutant.key: _fate(exercise, answer, mutant, reasons.get(mutant.key, ""), limits, one_in)
        for answer, mutant in tried
    }
    stale = [key for key in reasons if key not in found or found[key].killed_by]
    return Proof(fates=tuple(found.values()), stale=tuple(f"{name}: {key}" for key in stale))


def _fate(exercise: Exercise, answer: Answer, mutant: Mutant, reason: str, limits: TimeLimits, one_in: int) -> Fate:
    fate = Fate(mutant.key, mutant.shown, _killed_by(exercise, answer, mutant.source, limits), reason)
    if fate.killed_by != "visible" or crc32(mutant.key.encode()) % one_in:
        return fate
    try:
        attempt = run_source(answer, mutant.source)
    except Exception:
        return fate  # the cell itself fails, and Python says why
    cpu = time.process_time()
    report = run_exercise(exercise, attempt, Asking(limits=limits))
    return replace(fate, told_by=_way(exercise, report), cpu_ms=1000 * (time.process_time() - cpu))


def _way(exercise: Exercise, report: Report) -> str:
    """Return the one of `counts.WAYS` that applies."""
    if report.diagnosis is None:
        return "exception" if report.failure is not None and report.failure.kind == "raised" else "nothing"
    if report.diagnosis in {m.id for m in exercise.misconceptions}:
        return "misconception"
    return "symptom" if report.diagnosis in SYMPTOMS else "change"


def _killed_by(exercise: Exercise, answer: Answer, source: str, limits: TimeLimits) -> str:
    """Return which cases tell the mutant from a right answer: "visible", only "hidden", or "" if none do."""
    try:
        attempt = run_source(answer, source)
    except Exception:
        return "visible"  # the cell itself fails
    asked = Local(attempt, limits)
    for case in sorted(cases_of(exercise, hidden=True), key=lambda case: case.hidden):
        if try_case(exercise, asked, case).difference is not None:
            return "hidden" if case.hidden else "visible"
    assert run_exercise(exercise, attempt, Asking(limits=limits), hidden=True).passed
    return ""
