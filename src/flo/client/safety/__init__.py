"""Secrets and the audit, for clients."""
