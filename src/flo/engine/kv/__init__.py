"""Keys and values."""
