"""The same done to many runs, as one job."""
