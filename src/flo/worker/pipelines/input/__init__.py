"""Where the batches of a node come from."""
