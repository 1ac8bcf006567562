"""What a head does: ablation, its OV circuit, and how two heads compose."""

from attnlib.checks.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
