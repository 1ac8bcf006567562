"""Lesson 04: cross-attention."""
