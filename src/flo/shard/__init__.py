"""One log, one state, one loop."""
