"""flo stream group ..."""
