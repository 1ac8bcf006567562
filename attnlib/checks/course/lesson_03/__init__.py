"""Lesson 03: multi-head attention."""
