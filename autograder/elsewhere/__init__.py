"""Adapters that pack the grader for other platforms, or take grades there; the judge knows none of them."""
