"""Exercises of lesson 05: causal attention and masks, and how a leak shows."""
