"""Counts again what the engine keeps count of."""
