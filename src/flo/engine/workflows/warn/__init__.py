"""What is allowed, and is probably not meant: said where it is done."""
