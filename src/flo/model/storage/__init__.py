"""What is stored: rows of the archive, records of streams, and how both are read."""
