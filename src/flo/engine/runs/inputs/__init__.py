"""Inputs of runs that are too large for memory."""
