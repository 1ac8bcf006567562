"""Lesson 10: attention block by block."""
