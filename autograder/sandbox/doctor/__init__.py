"""`python -m autograder doctor`: `attacks` on the promises of the sandbox, and `examine`, which tries them in it."""
