"""The plain right answers, whose lines slips replace. Each is the reference, too, if its exercise names no other.

`lesson_07.py` has those of lesson 07. Right above an answer are the helpers that are part of it.
"""
