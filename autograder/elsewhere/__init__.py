"""Adapters: each packs the grader for another platform, or takes its grades there; the judge knows none of them."""
