"""A session that outlives its connections."""
