"""The document of a workflow: read, render, schema."""
