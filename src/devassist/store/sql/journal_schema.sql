-- The journal: events are written once, heads move with them, payloads are sealed. Version 1.
CREATE TABLE IF NOT EXISTS meta(
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- id is the followers' cursor; AUTOINCREMENT so that it is never given twice.
CREATE TABLE IF NOT EXISTS events(
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  stream BLOB    NOT NULL CHECK (length(stream) = 16),
  seq    INTEGER NOT NULL CHECK (seq >= 0),
  at     INTEGER NOT NULL,
  kind   TEXT    NOT NULL,
  body   BLOB    NOT NULL,
  hash   BLOB    NOT NULL CHECK (length(hash) = 32)
);
CREATE UNIQUE INDEX IF NOT EXISTS events_place ON events(stream, seq);

CREATE TRIGGER IF NOT EXISTS events_no_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never updated'); END;
CREATE TRIGGER IF NOT EXISTS events_no_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
-- INSERT OR REPLACE would delete the old row without firing the trigger above.
CREATE TRIGGER IF NOT EXISTS events_no_replace BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND seq = NEW.seq)
  OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'events are never replaced'); END;

CREATE TABLE IF NOT EXISTS heads(
  stream       BLOB    PRIMARY KEY CHECK (length(stream) = 16),
  tenant       TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  name         TEXT,
  head_seq     INTEGER NOT NULL,
  head_hash    BLOB    NOT NULL,
  head_at      INTEGER NOT NULL,
  epoch        INTEGER NOT NULL DEFAULT 0,
  -- An OR chain: SQLite builds the list of an IN anew for every row.
  state        TEXT    CHECK (state IS NULL OR state = 'LLM_DECIDE' OR state = 'TOOL_EXECUTE' OR state = 'INIT'
                              OR state = 'FINAL_ANSWER' OR state = 'WAIT' OR state = 'AWAIT_APPROVAL'
                              OR state = 'ERROR' OR state = 'ABORTED'),
  actor        BLOB,
  conversation TEXT,
  root         BLOB,
  driving      INTEGER NOT NULL DEFAULT 0,
  lease_until  INTEGER NOT NULL DEFAULT 0,
  wake_at      INTEGER NOT NULL DEFAULT 0,
  flags        TEXT    NOT NULL DEFAULT '',
  idem         BLOB
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS heads_name ON heads(tenant, kind, name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS heads_idem ON heads(tenant, actor, idem) WHERE idem IS NOT NULL;
-- One driven root run per conversation.
CREATE UNIQUE INDEX IF NOT EXISTS heads_driving ON heads(tenant, actor, conversation)
  WHERE driving = 1 AND conversation IS NOT NULL;
-- Open runs. Not state IN (...), which would build a table of five for each row that moves; queries say it in these words.
CREATE INDEX IF NOT EXISTS heads_turn ON heads(tenant, actor, conversation, stream)
  WHERE state <> 'FINAL_ANSWER' AND state <> 'ERROR' AND state <> 'ABORTED';
-- The sweep looks at open runs every second, however many have ended.
CREATE INDEX IF NOT EXISTS heads_open ON heads(stream)
  WHERE state <> 'FINAL_ANSWER' AND state <> 'ERROR' AND state <> 'ABORTED';
CREATE INDEX IF NOT EXISTS heads_conversation ON heads(tenant, actor, conversation, stream)
  WHERE conversation IS NOT NULL;

CREATE TABLE IF NOT EXISTS signals(
  stream    BLOB NOT NULL,
  signal_id TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  PRIMARY KEY (stream, signal_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS payloads(
  id     INTEGER PRIMARY KEY,
  ref    BLOB NOT NULL CHECK (length(ref) = 32),
  domain BLOB NOT NULL CHECK (length(domain) = 16),
  blob   BLOB NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS payloads_ref ON payloads(ref);
CREATE TRIGGER IF NOT EXISTS payloads_no_update BEFORE UPDATE ON payloads
BEGIN SELECT RAISE(ABORT, 'payloads are never updated'); END;
CREATE TRIGGER IF NOT EXISTS payloads_no_delete BEFORE DELETE ON payloads
BEGIN SELECT RAISE(ABORT, 'payloads are never deleted'); END;
CREATE TRIGGER IF NOT EXISTS payloads_no_replace BEFORE INSERT ON payloads
WHEN EXISTS (SELECT 1 FROM payloads WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'payloads are never replaced'); END;

INSERT OR IGNORE INTO meta VALUES ('schema_version', '1');
-- Which journal this is: the key directory remembers it. A rewind that was noticed changes it, and stands in the row
-- 'rewind' until a person goes on from there.
INSERT OR IGNORE INTO meta VALUES ('incarnation', lower(hex(randomblob(16))));
