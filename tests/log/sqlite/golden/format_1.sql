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
CREATE TABLE log (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
);
INSERT INTO "log" VALUES(2,2,1700000000001,742109644,X'9293AB52756E52656C6561736564A764656661756C74A673656E642D3296AC52756E436F6D706C65746564A764656661756C74A673656E642D31CF0000018BCFE56800C40473656E74A773756363657373');
INSERT INTO "log" VALUES(4,1,1700000000002,861035113,X'9193AB52756E52656C6561736564A764656661756C74A673656E642D34');
CREATE TABLE meta (
    format INTEGER NOT NULL,
    start INTEGER NOT NULL,
    start_checksum INTEGER NOT NULL,
    position INTEGER NOT NULL,
    position_checksum INTEGER NOT NULL
);
INSERT INTO "meta" VALUES(1,2,2777512614,5,861035113);
CREATE TABLE records (
    row INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
);
INSERT INTO "records" VALUES(1099511627779,2,1700000000002,9,3630188587,X'929603CF0000018BCFE56801C4047061696481A168A178A16B019604CF0000018BCFE56802C400C0C000');
CREATE TRIGGER log_end AFTER INSERT ON log BEGIN
    UPDATE meta SET position = new.first + new.count, position_checksum = new.checksum;
END;
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
COMMIT;
