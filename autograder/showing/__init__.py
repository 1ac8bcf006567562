"""Where text that a student may have chosen is shown: terminals, tables of numbers, pages, logs."""
