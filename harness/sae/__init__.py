"""Sparse dictionaries of a subject's states, and their training."""
