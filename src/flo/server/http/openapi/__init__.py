"""The description of the HTTP API: as OpenAPI, and as a page to read."""
