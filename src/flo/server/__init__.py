"""Sockets around shards."""
