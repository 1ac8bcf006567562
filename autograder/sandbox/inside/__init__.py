"""What stands beside a student's code in the sandbox. It holds no answer, and decides nothing.

This folder is mounted there, with attnlib.checks' `attempt`, `limits` and `watch`; nothing else of the repository is.
"""
