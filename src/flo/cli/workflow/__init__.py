"""flo workflow ..."""
