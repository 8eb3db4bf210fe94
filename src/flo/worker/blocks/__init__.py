"""Workers that run function blocks."""
