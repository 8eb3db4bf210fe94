"""Proofs: that a data folder is what was written, and a signed note of how far it had come."""
