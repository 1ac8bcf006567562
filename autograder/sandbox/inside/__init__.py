"""What stands beside a student's code in the sandbox. It holds no answer, and decides nothing.

This folder is mounted there, with those files of attnlib.checks that call an answer; nothing else of the repository is.
"""
