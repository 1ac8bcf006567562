"""What happens to a notebook inside nbgrader, one step a file; `nbgrader_config.py` lists them in their order."""
