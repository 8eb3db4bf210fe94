"""What every package may use, and that knows none of them."""
