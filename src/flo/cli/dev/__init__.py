"""flo dev ..."""
