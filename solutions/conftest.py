"""`pytest --nbval solutions` executes the notebooks; the lessons' text is no module to collect doctests from."""

collect_ignore_glob = ["*.py"]
