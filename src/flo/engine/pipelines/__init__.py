"""Pipelines: submit, readiness, nodes under leases, batches handed from node to node."""
