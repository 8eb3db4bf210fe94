"""What clients were told, held against what is durable."""
