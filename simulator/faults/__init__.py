"""Faults of disk, network, time and processes, from a seed."""
