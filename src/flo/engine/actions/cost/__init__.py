"""What it costs at most to hold a value against a JSON Schema, found out from the schema alone."""
