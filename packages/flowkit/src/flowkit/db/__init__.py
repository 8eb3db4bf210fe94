"""The `db` handle: the server, seen as FlowKit's collections."""
