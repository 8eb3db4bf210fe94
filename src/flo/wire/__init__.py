"""The binary protocol without sockets; both ends speak through it."""
