"""Workflows and their executions."""
