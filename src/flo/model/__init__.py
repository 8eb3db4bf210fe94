"""The model: the frozen structs that travel between all other packages."""
