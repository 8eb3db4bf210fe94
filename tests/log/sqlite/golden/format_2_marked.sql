PRAGMA application_id = 1181511457;
BEGIN TRANSACTION;
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
INSERT INTO "archive" VALUES(2,'run','default','send',1,'completed',1700000000000,'k',0,2,NULL,3455322373,X'');
CREATE TABLE archive_gaps (
    row INTEGER PRIMARY KEY
);
CREATE TABLE archive_tags (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    tag TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    row INTEGER NOT NULL,
    PRIMARY KEY (kind, namespace, tag, sequence)
) WITHOUT ROWID;
CREATE TABLE log (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL
);
INSERT INTO "log" VALUES(2,2,1700000000001,742109644,X'B28AB0FDC1C49EBB7C250007B3C9E4EC9DD086F96CD934B5B4EACF7AC7627319',X'9293AB52756E52656C6561736564A764656661756C74A673656E642D3296AC52756E436F6D706C65746564A764656661756C74A673656E642D31CF0000018BCFE56800C40473656E74A773756363657373');
INSERT INTO "log" VALUES(4,1,1700000000002,861035113,X'A93064944F6CB674C1BBC19F573FC90013D29581658482374C52722A766C2561',X'9193AB52756E52656C6561736564A764656661756C74A673656E642D34');
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
INSERT INTO "meta" VALUES(2,2,2777512614,X'0000000000000000000000000000000000000000000000000000000000000000',5,861035113,X'A93064944F6CB674C1BBC19F573FC90013D29581658482374C52722A766C2561',X'000102030405060708090A0B0C0D0E0F',0,3,3);
CREATE TABLE payloads (
    row INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE records (
    row INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
);
INSERT INTO "records" VALUES(1099511627779,2,1700000000002,9,3630188587,X'929603CF0000018BCFE56801C4047061696481A168A178A16B019604CF0000018BCFE56802C400C0C000');
CREATE UNIQUE INDEX archive_address ON archive (kind, namespace, name, number);
CREATE UNIQUE INDEX payloads_address ON payloads (kind, namespace, name, number);
CREATE INDEX archive_key ON archive (kind, namespace, name, key) WHERE key IS NOT NULL;
CREATE INDEX archive_dead ON archive (kind, namespace, name, number) WHERE dead = 1;
CREATE INDEX archive_status ON archive (kind, namespace, name, status, number) WHERE sequence > 0;
CREATE INDEX archive_sequence ON archive (kind, namespace, status, sequence) WHERE sequence > 0;
CREATE TRIGGER log_end AFTER INSERT ON log BEGIN
    UPDATE meta SET position = new.first + new.count, position_checksum = new.checksum,
        position_digest = new.digest, commits = commits + 1;
END;
CREATE TRIGGER archive_untagged AFTER DELETE ON archive WHEN old.tags IS NOT NULL BEGIN
    DELETE FROM archive_tags WHERE kind = old.kind AND namespace = old.namespace
        AND sequence = old.sequence AND tag IN (SELECT value FROM json_each(old.tags));
END;
COMMIT;
