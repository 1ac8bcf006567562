"""From the lessons' text to the notebooks, and the gate that a release has to pass."""
