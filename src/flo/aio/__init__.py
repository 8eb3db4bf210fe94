"""Small helpers for event loops, for both halves."""
