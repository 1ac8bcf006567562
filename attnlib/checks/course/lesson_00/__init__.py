"""Lesson 00: the tools."""
