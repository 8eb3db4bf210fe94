"""Names of topics."""
