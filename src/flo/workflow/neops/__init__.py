"""Definitions as neops writes them, translated into the one that the engine executes."""
