"""A child of the zygote: one student's answer to one exercise. It runs the cells, then calls the answer as asked."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch

from . import beside, cells, needed, running
from .attempt import Local, Terms
from .contract import unfit_reason
from .failure import Failed, Failure, failure_of
from .refuse import Refusal
from .shell import new_namespace
from .shortcuts import shortcuts
from .time_limits import TimeLimits
from .wire import Channel, Closed, encode

MOST_SHOWN = 1 << 20


def serve(connection: Any, limits: dict[str, float]) -> None:
    """Answer the grader until it is gone; the limits on time are the grader's.

    A further task is about another answer of the same notebook, which may call and import the same.
    """
    channel = Channel(connection)
    try:
        task = channel.receive()
        times = TimeLimits(**limits)
        if task.get("show"):
            channel.send({"shown": show(task, times)})
            return
        if task.get("explain"):
            channel.send({"told": explain(prepare(channel, task, times), task, times)})
            return
        named = any("sklearn.datasets" in cell["source"] for cell in task["cells"])
        refusal = Refusal(task["refused"], data=named)
        sys.meta_path.insert(0, View(task["library"]))
        attempt = prepare(channel, task, times)
        refusal.begin()
        while True:
            attempt = prepare(channel, Server(channel, attempt, times).run(), times)
    except Closed:
        pass


EXPECTED: dict[Any, Any] = {}
"""The references' results, for children that explain."""


def learn(library: dict[str, str], modules: list[str]) -> None:
    """Import modules of the whole course, answers included, for children that judge nothing."""
    if library:
        sys.meta_path.insert(0, Library(library))
    for name in modules:
        importlib.import_module(name)
    importlib.import_module("attnlib.checks.asking.time_limits").here()  # else every child would measure the machine


def expect(module: str, name: str) -> None:
    """Note what an exercise's reference does, else every child would run it; not beside a GPU.

    There autograd would start threads, which do not survive a fork.
    """
    if torch.cuda.device_count() == 0:
        judge = importlib.import_module("attnlib.checks.verdict.judge")
        judge.expect(exercise_of(module, name), EXPECTED)


def exercise_of(module: str, name: str) -> Any:
    """Return the exercise of this name in a lesson's module."""
    return next(exercise for exercise in importlib.import_module(module).EXERCISES if exercise.name == name)


def explain(attempt: Any, task: dict[str, Any], limits: TimeLimits) -> Any:
    """Return what the notebook's check reports on the answer, from the answer's own source."""
    judge = importlib.import_module("attnlib.checks.verdict.judge")
    exercise = exercise_of(task["explain"], task["exercise"])
    torch.set_num_threads(1)
    times = judge.TimeLimits(**vars(limits))
    told = judge.explain(exercise, attempt, limits=times, confined=task["confined"], memory=EXPECTED)
    return told.as_record()


def show(task: dict[str, Any], limits: TimeLimits) -> dict[str, dict[str, Any]]:
    """Run a lesson's own cells with the whole library; return, by cell, the plain values bound at its end."""
    sys.meta_path.insert(0, View(task["library"]))
    namespace, found = new_namespace(), {}
    units, _ = cells.parse(task["cells"], "")
    bound = {name: set().union(*(u.binds for u in units if u.cell == name)) for name in task["show"]}
    wanted = " or ".join(sorted(set().union(*bound.values())))
    for outcome in running.run_units(needed.needed(units, wanted, "needed"), namespace, limits):
        values = {name: namespace[name] for name in bound.get(outcome.cell, ()) if name in namespace}
        found[outcome.cell] = {name: value for name, value in values.items() if _is_plain(value)}
    return {cell: values for cell, values in found.items() if cell in bound}


def _is_plain(value: Any) -> bool:
    """True if the value can be sent as it is, and is not large."""
    if isinstance(value, dict) and not all(type(key) is str for key in value):
        return False
    try:
        return len(encode({"": value})) < MOST_SHOWN
    except (TypeError, ValueError, RecursionError):
        return False


def prepare(channel: Channel, task: dict[str, Any], limits: TimeLimits) -> Any:
    """Run what the exercise needs of the notebook, report it, and return the answer."""
    files = task.get("beside", {})
    beside.put_beside(files)
    units, outcomes = cells.parse(task["cells"], task["wanted"])
    every, seen = units, needed.needed(units, task["expression"], "seen")
    units = needed.needed(units, task["expression"], task["run"])
    chosen = set(map(id, units))
    left_out = set().union(*(unit.binds for unit in every if id(unit) not in chosen))
    try:
        modules = beside.modules_in(files)
        uses = shortcuts(needed.definitions(units, task["expression"], modules), task["forbidden"])
    except RecursionError:  # too deeply nested to be read; what it calls is still noticed
        uses = []
    found = [[use.name, use.text] for use in uses]
    channel.send({"shortcuts": found, "left_out": sorted(left_out), "unseen": len(units) - len(seen)})
    namespace = new_namespace()
    outcomes += running.run_units(units, namespace, limits, task["stuck"], task.get("shown"))
    settle_process()
    told: dict[str, Any] = {
        "cells": [vars(outcome) for outcome in outcomes],
        "missing": None,
        "unfit": None,
        "value": None,
    }
    attempt = None
    try:
        attempt = eval(task["expression"], namespace)
        told["unfit"] = None if task["kind"] == "choice" else unfit_reason(task["kind"], attempt)
        told["value"] = _simple(attempt) if task["kind"] == "choice" else None
    except BaseException as error:
        told["missing"] = vars(failure_of(error))
    channel.send(told)
    return attempt


RECURSION = sys.getrecursionlimit()


def settle_process() -> None:
    """Restore the settings of torch, numpy and Python: one that a cell has changed is no part of the answer."""
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", False)
    torch.autograd.set_detect_anomaly(False)
    if torch.are_deterministic_algorithms_enabled():  # otherwise torch would spend a second importing its compiler
        torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_flush_denormal(False)
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    sys.setrecursionlimit(max(RECURSION, sys.getrecursionlimit()))


def _simple(value: Any) -> dict[str, Any]:
    """Return a choice as it can be sent: its text if it is one, else its type."""
    if type(value) is str:
        return {"text": value[:1000]}
    return {"none": value is None or value is Ellipsis, "type": type(value).__name__[:100]}


class Server:
    """Calls the answer; every reply is raw numbers, or a failure in words."""

    def __init__(self, channel: Channel, attempt: Any, limits: TimeLimits) -> None:
        self.channel, self.attempt = channel, Local(attempt, replace(limits, check_wall=limits.child_wall))
        self.session = self.attempt.open(Terms(outputs=()))

    def run(self) -> dict[str, Any]:
        """Answer until the grader closes the connection, or sends the next task, which is returned."""
        torch.set_num_threads(1)
        while "cells" not in (asked := self.channel.receive()):
            try:
                reply = self._answer(asked)
            except Failed as error:
                reply = {"failure": vars(error.failure)}
            session = self.session
            reply["printed"], reply["devices_mixed"] = session.printed[:2000], session.devices_mixed
            reply["touched"] = session.touched
            try:
                self.channel.send(reply)
            except TypeError as error:
                failure = Failure("type", f"returned what cannot be compared: {error}")
                self.channel.send({"failure": vars(failure), "printed": "", "devices_mixed": False})
        return asked

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if opening := asked.get("open"):
            terms = {name: tuple(value) if isinstance(value, list) else value for name, value in opening.items()}
            self.session = self.attempt.open(Terms(**terms))
        for step in asked.get("before", ()):
            self._do(step)
        return self._do(asked)

    def _do(self, asked: dict[str, Any]) -> dict[str, Any]:
        session, what = self.session, asked["do"]
        if what == "build":
            shapes = asked["shapes"]
            session.build(asked["sizes"], shapes, getattr(torch, asked["dtype"]))
        elif what == "load":
            session.load(asked["weights"])
        elif what == "keep":
            session.keep(asked["numbers"])
        elif what == "train":
            session.train(asked["mode"])
        elif what == "call":
            return {"tensors": list(session.call(asked["inputs"], asked["gradient"]))}
        elif what == "inputs":
            return {"tensors": session.inputs()}
        elif what == "backward":
            return {"tensors": session.backward(asked["cotangents"])}
        return {}


@cache
def compiled(source: str, filename: str) -> CodeType:
    """Compile a module; the warm process does so once for all its children."""
    return compile(source, filename, "exec", dont_inherit=True)


class View(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the library as this exercise may use it: the sources that came with the task, and nothing else of it."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources
        self.names = {name.split(".")[0] for name in sources} | {"attnlib", "autograder"}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name.split(".")[0] not in self.names:
            return None
        if name not in self.sources:
            raise ModuleNotFoundError(f"{name} is not available while grading", name=name)
        return importlib.util.spec_from_loader(name, self, is_package=self.is_package(name))

    def get_source(self, fullname: str) -> str:
        return self.sources[fullname]

    def get_code(self, fullname: str) -> CodeType:
        return compiled(self.sources[fullname], f"<{fullname}>")

    def is_package(self, fullname: str) -> bool:
        return any(other.startswith(f"{fullname}.") for other in self.sources)


class Library(View):
    """Finds the whole library. Its modules have paths, as if it were installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        spec = super().find_spec(name, path, target)
        if spec is not None:
            spec.origin, spec.has_location = self.file(name), True
        return spec

    def file(self, name: str) -> str:
        """Return the path that the module would have."""
        return f"/{name.replace('.', '/')}{'/__init__' if self.is_package(name) else ''}.py"

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.sources[fullname], self.file(fullname), "exec", dont_inherit=True)

    def get_data(self, path: str) -> bytes:
        """Return a text beside a module, for `pkgutil.get_data`."""
        return self.sources[path].encode()
