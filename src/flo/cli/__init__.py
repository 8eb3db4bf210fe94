"""The `flo` command."""
