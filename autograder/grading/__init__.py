"""Grading a class: taking submissions in, judging them side by side, entering what was found."""
