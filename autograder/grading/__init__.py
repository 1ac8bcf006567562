"""Grade a class: take submissions in, judge them side by side, enter the results."""
