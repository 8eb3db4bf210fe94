"""flo pipeline ..."""
