"""flo stream ..."""
