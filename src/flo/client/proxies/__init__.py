"""What blocks instead of being awaited: the nouns of the client, for scripts."""
