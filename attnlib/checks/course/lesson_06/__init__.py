"""Lesson 06: the encoder block, its norms, MLP and cost, and a reader of digits made of blocks."""
