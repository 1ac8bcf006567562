"""Hand out work that differs from student to student: bugs to find, dealt from a lesson by the course's seed."""
