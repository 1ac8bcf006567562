"""Bring a submission's cells into the order that was released, whatever an editor did to them."""
