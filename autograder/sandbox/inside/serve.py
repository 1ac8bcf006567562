"""A child of the zygote: one student's answer to one exercise. It runs the cells, then calls the answer as asked."""

import builtins
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

import torch

from . import cells
from .attempt import Failed, Failure, LocalSession, Terms, failure_of, unfit_reason
from .refuse import Refusal
from .shortcuts import shortcuts
from .wire import Channel, Closed


def serve(connection: Any) -> None:
    """Answer the grader until it is gone."""
    channel = Channel(connection)
    try:
        task = channel.receive()
        refusal = Refusal(task["forbidden"])
        attempt = prepare(channel, task)
        refusal.begin()
        Server(channel, attempt).run()
    except Closed:
        pass


def prepare(channel: Channel, task: dict[str, Any]) -> Any:
    """Run what the exercise needs of the notebook, report it, and return the answer."""
    sys.meta_path.insert(0, View(task["library"]))
    builtins.input = _no_input
    cells.offer_colab()
    units, outcomes = cells.parse(task["cells"], task["wanted"])
    every, seen = units, cells.needed(units, task["expression"], "seen")
    units = cells.needed(units, task["expression"], task["run"])
    chosen = set(map(id, units))
    left_out = set().union(*(unit.binds for unit in every if id(unit) not in chosen))
    try:
        uses = shortcuts(cells.definitions(units, task["expression"]), task["forbidden"])
    except RecursionError:  # too deeply nested to be read; what it calls is still noticed
        uses = []
    found = [[use.name, use.text] for use in uses]
    channel.send({"shortcuts": found, "left_out": sorted(left_out), "unseen": len(units) - len(seen)})
    namespace = cells.new_namespace()
    sys.modules["__main__"] = ModuleType("__main__")
    sys.modules["__main__"].__dict__.update(namespace)
    namespace = sys.modules["__main__"].__dict__
    outcomes += cells.run_units(units, namespace, task["stuck"])
    told: dict[str, Any] = {
        "cells": [vars(outcome) for outcome in outcomes],
        "missing": "",
        "unfit": None,
        "value": None,
    }
    attempt = None
    try:
        attempt = eval(task["expression"], namespace)
        told["unfit"] = None if task["kind"] == "choice" else unfit_reason(task["kind"], attempt)
        told["value"] = _simple(attempt) if task["kind"] == "choice" else None
    except BaseException as error:
        told["missing"] = failure_of(error).text.removeprefix("raised ")
    channel.send(told)
    return attempt


def _no_input(prompt: object = "") -> str:
    raise EOFError("there is nobody to answer while grading")


def _simple(value: Any) -> dict[str, Any]:
    """A choice, as it can be sent: its text if it is one, else what kind of thing it is."""
    if type(value) is str:
        return {"text": value[:1000]}
    return {"none": value is None or value is Ellipsis, "type": type(value).__name__[:100]}


class Server:
    """Calls the answer; every reply is raw numbers, or a failure in words."""

    def __init__(self, channel: Channel, attempt: Any) -> None:
        self.channel, self.attempt = channel, attempt
        self.session = LocalSession(attempt, Terms(outputs=()))

    def run(self) -> None:
        """Answer until the grader closes the connection."""
        torch.set_num_threads(1)
        while True:
            asked = self.channel.receive()
            try:
                reply = self._answer(asked)
            except Failed as error:
                reply = {"failure": vars(error.failure)}
            reply["printed"], reply["devices_mixed"] = self.session.printed[:2000], self.session.devices_mixed
            try:
                self.channel.send(reply)
            except TypeError as error:
                failure = Failure("type", f"returned what cannot be compared: {error}")
                self.channel.send({"failure": vars(failure), "printed": "", "devices_mixed": False})

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        session, what = self.session, asked["do"]
        if what == "open":
            terms = Terms(outputs=tuple(asked["outputs"]), forbidden=tuple(asked["forbidden"]), device=asked["device"])
            self.session = LocalSession(self.attempt, terms)
        elif what == "build":
            shapes = asked["shapes"]
            session.build(asked["sizes"], shapes, getattr(torch, asked["dtype"]))
        elif what == "load":
            session.load(asked["weights"])
        elif what == "train":
            session.train(asked["mode"])
        elif what == "call":
            return {"tensors": list(session.call(asked["inputs"], asked["gradient"]))}
        elif what == "inputs":
            return {"tensors": session.inputs()}
        elif what == "backward":
            return {"tensors": session.backward(asked["cotangents"])}
        return {}


class View(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """The library as this exercise may use it: the sources that came with the task, and nothing else by its name."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources
        self.names = {name.split(".")[0] for name in sources} | {"attnlib", "autograder"}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name.split(".")[0] not in self.names:
            return None
        if name not in self.sources:
            raise ModuleNotFoundError(f"{name} is not available while grading", name=name)
        package = any(other.startswith(f"{name}.") for other in self.sources)
        return importlib.util.spec_from_loader(name, self, is_package=package)

    def get_source(self, fullname: str) -> str:
        return self.sources[fullname]

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.sources[fullname], f"<{fullname}>", "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        return any(other.startswith(f"{fullname}.") for other in self.sources)
