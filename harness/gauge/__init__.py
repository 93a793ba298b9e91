"""Symmetry groups: their action on weights, and fitting."""
