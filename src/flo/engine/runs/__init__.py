"""Runs of actions: invoke, claim, report, end."""
