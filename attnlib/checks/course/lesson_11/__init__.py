"""Exercises of lesson 11: scores that find a head by what it looks at, and the circuits that say what it does."""
