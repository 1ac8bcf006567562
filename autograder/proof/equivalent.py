"""Mutants that are right answers, each with its reason: equivalent.toml, by exercise."""

import tomllib
from pathlib import Path


def _read() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for group in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["group"]:
        for key in group["mutants"]:
            found.setdefault(group["exercise"], {})[key] = group["reason"]
    return found


EQUIVALENT = _read()
