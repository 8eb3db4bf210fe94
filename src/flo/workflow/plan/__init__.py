"""Plans: which executor is called next."""
