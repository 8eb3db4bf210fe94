"""Configuration, time, hashing and logs."""
