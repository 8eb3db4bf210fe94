"""Values to payloads and back."""
