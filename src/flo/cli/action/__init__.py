"""flo action ..."""
