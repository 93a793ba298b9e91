"""Measurement formulae: pure functions on arrays."""
