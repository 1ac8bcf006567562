"""Show text that a student may have chosen, in terminals, tables of numbers, pages and logs."""
