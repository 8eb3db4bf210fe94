"""Function blocks in a simulation of their own: workflows that lock, execute and roll back."""
