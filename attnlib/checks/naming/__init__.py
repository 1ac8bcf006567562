"""Which mistake it is: a misconception of the course, a symptom, a trait, or the one change that mends it."""
