"""Actions: registration, settings, schemas."""
