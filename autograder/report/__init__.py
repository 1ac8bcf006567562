"""`python -m autograder report`: which exercise was hard, and which misconception the class shares."""
