"""What is seen of the work that passes through a server, for metrics."""
