"""The text of a lesson: its cells, its regions, and what was released of it."""
