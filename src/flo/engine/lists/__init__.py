"""Lists: indexes that are read from the newest on, and pages that cost what they show."""
