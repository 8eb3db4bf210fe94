"""Losses: what was missing of the store when a server was started on it all the same."""
