"""Invariants, linearizability and what they need."""
