"""What a program holds of something that it started."""
