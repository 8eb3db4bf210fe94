"""Blocks in workflow executions: what they acquire, execute and roll back."""
