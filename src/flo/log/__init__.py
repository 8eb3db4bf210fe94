"""Where events live: one protocol, and backends that are engines people trust."""
