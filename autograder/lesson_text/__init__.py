"""The text of a lesson: its cells, its regions, and its released form."""
