"""Answers that nobody would think of first: right ones that a check might reject, wrong ones that it might miss."""
