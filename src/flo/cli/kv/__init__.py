"""flo kv ..."""
