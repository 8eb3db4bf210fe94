"""Secrets: what the machine keeps of them is sealed."""
