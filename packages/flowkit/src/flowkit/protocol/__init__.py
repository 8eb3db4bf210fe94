"""The messages that travel between coordinator and workers."""
