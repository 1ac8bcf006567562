"""Answering submissions as they arrive: where they come from, whose turn it is, and what was answered."""
