"""Naming a mistake: a misconception of the course, a symptom, a trait, or the one change that fixes it."""
