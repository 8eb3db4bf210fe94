"""flo server ..."""
