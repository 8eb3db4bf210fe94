"""Finds the way of a workflow execution again, from its definition and what the archive has."""
