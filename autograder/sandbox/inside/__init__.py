"""The modules that run beside a student's code in the sandbox. They hold no answer, and decide nothing.

This folder is mounted there, with the files of attnlib.checks that call an answer, and nothing else of the repository.
"""
