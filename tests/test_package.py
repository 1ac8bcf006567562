import ast
import inspect
from pathlib import Path

import pytest

import attnlib

SOURCES = [path for path in sorted(Path(attnlib.__file__).parent.glob("*.py")) if path.name != "__main__.py"]
"""The library; `python -m attnlib` belongs to the course."""
ALLOWED = {
    "copy",
    "warnings",
    "torch",
    "jaxtyping",
    "matplotlib",
    "numpy",
    "math",
    "collections",
    "functools",
    "typing",
    "itertools",
    "dataclasses",
    "importlib",
    "pathlib",
    "re",
    "random",
}


@pytest.mark.parametrize("name", attnlib.__all__)
def test_every_public_name_is_documented_and_typed(name):
    thing = getattr(attnlib, name)
    assert inspect.getdoc(thing)
    function = thing.__init__ if inspect.isclass(thing) else thing
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    assert all(p.annotation is not inspect.Parameter.empty for p in parameters)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_one_idea_a_file_and_arrows_that_point_one_way(source):
    text = source.read_text()
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 60, node.name
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1
            assert not (node.module or "").startswith("checks")
        assert {name.split(".")[0] for name in names} <= ALLOWED
