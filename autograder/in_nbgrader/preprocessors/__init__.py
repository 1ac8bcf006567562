"""nbgrader's steps from notebook to notebook, as far as they are ours; `nbgrader_config.py` gives their order."""
