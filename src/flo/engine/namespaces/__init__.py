"""Namespaces: create, delete, look."""
