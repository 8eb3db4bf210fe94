"""What clients were answered, checked against what is durable."""
