"""Copies of a data folder that are made while a server writes to it."""
