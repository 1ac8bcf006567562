"""Take a submission in: read a student's folder within bounds, and trust nothing in it."""
