"""Exercises of lesson 11: scores that find a head by where it looks, and circuits that show what it does."""
