"""Consumer groups of streams: read, ack, redeliver."""
