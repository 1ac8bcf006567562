"""The catalogue of slips: each stands once, in the step that it does wrong."""
