"""Handing out what is another one for each student: bugs to find, dealt from a lesson by the course's seed."""
