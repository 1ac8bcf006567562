"""Lesson 02: scaled dot-product attention."""
