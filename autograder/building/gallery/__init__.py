"""The gallery of mistakes: a page for each misconception, and an index by symptom."""
