"""Function blocks, as a program that uses them sees them."""
