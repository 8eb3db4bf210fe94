"""What was the way from the coordinator to the broker."""
