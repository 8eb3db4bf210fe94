"""Who is let in, and what each may do."""
