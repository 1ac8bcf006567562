"""The course without a clone: the notebooks that came with the package, in a folder of the learner's."""
