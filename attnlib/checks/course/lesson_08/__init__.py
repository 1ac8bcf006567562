"""Lesson 08: a language model."""
