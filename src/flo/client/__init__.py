"""What a program imports to talk to the server."""
