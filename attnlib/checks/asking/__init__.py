"""Calling an answer and recording what it does: in this process or another, within limits, watched."""
