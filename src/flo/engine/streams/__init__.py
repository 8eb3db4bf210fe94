"""Streams: append, read, trim."""
