"""Role handlers."""
