"""Our own steps from notebook to notebook among nbgrader's; `nbgrader_config.py` gives their order."""
