"""What the shard remembers of the store, so that it need not be asked."""
