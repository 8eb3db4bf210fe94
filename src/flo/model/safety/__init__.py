"""Secrets and the audit: what travels."""
