"""Lesson 09: a cache of keys and values."""
