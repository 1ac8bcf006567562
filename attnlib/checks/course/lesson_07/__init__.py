"""Lesson 07: where the words stand."""
