"""The gallery of mistakes: a page for each misconception, and an index by what one sees of it."""
