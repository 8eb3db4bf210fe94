"""A simulation of tokens alone."""
