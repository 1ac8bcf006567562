"""Exercises of lesson 12: a published model, from its file of weights to what its heads know."""
