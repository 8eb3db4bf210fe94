"""A simulation of secrets and of the audit."""
