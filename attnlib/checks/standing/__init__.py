"""The learner's progress: the record of the checks, and the overview made from it."""
