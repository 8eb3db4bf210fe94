"""How operations are declared: their fields, bounds and help, and the list of all of them."""
