"""Pipelines: graphs of nodes that stream batches to each other, and the workers that run them."""
