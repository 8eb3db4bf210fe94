"""The RPC listener."""
