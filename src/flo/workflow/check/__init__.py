"""Checks of a definition."""
