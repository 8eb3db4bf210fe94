"""Workers that execute actions."""
