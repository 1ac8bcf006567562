"""Answer submissions as they arrive: their source, their turn, and the record of answers."""
