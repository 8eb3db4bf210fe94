"""Requests that were carried out: a repeated one is answered, and not carried out again."""
