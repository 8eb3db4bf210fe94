"""The words: frozen structs every other package speaks in."""
