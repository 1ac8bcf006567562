"""Lesson 01: queries, keys and values."""
