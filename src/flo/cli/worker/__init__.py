"""flo worker ..."""
