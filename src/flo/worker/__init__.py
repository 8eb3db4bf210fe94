"""What a program imports to do the work."""
