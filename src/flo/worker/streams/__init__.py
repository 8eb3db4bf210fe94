"""Workers that process the records of a stream."""
