"""Reference models: a second, simpler reading of the events."""
