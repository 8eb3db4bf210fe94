CREATE TABLE meta (
    format INTEGER NOT NULL,
    start INTEGER NOT NULL,
    start_checksum INTEGER NOT NULL,
    start_digest BLOB NOT NULL,
    position INTEGER NOT NULL,
    position_checksum INTEGER NOT NULL,
    position_digest BLOB NOT NULL,
    store_id BLOB NOT NULL,
    commits INTEGER NOT NULL,
    archive_first INTEGER NOT NULL,
    archive_next INTEGER NOT NULL
);

CREATE TABLE log (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL
);

CREATE TRIGGER log_end AFTER INSERT ON log BEGIN
    UPDATE meta SET position = new.first + new.count, position_checksum = new.checksum,
        position_digest = new.digest, commits = commits + 1;
END;

CREATE TABLE archive (
    row INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    status TEXT NOT NULL,
    finished_at_ms INTEGER NOT NULL,
    key TEXT,
    dead INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    tags TEXT,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
);

CREATE TABLE archive_gaps (
    row INTEGER PRIMARY KEY
);

CREATE UNIQUE INDEX archive_address ON archive (kind, namespace, name, number);

CREATE INDEX archive_key ON archive (kind, namespace, name, key) WHERE key IS NOT NULL;

CREATE INDEX archive_dead ON archive (kind, namespace, name, number) WHERE dead = 1;

CREATE INDEX archive_status ON archive (kind, namespace, name, status, number) WHERE sequence > 0;

CREATE INDEX archive_sequence ON archive (kind, namespace, status, sequence) WHERE sequence > 0;

CREATE TABLE archive_tags (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    tag TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    row INTEGER NOT NULL,
    PRIMARY KEY (kind, namespace, tag, sequence)
) WITHOUT ROWID;

CREATE TRIGGER archive_untagged AFTER DELETE ON archive WHEN old.tags IS NOT NULL BEGIN
    DELETE FROM archive_tags WHERE kind = old.kind AND namespace = old.namespace
        AND sequence = old.sequence AND tag IN (SELECT value FROM json_each(old.tags));
END;

CREATE TABLE payloads (
    row INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
);

CREATE UNIQUE INDEX payloads_address ON payloads (kind, namespace, name, number);

CREATE TABLE records (
    row INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
);
