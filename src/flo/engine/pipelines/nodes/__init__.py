"""Nodes in the hands of workers: started, given batches, reported."""
