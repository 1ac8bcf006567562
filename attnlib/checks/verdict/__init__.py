"""Points and words: what an attempt earned, and what the student reads."""
