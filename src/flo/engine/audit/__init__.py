"""The audit: who did what, and who was refused."""
