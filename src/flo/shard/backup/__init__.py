"""A data folder is copied while a server writes to it, and such a copy is put back."""
