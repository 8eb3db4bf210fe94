"""Who may use the server: tokens."""
