-- The decision log: a projection of the journal, rebuilt at any time. Texts and names stand here in the clear until
-- their erasure domain is erased. A log of another version is dropped and made again (log_writer.VERSION).
PRAGMA user_version = 3;

CREATE TABLE IF NOT EXISTS cursor(
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  position   INTEGER NOT NULL,            -- the journal row up to which everything stands here
  generation INTEGER NOT NULL,            -- rises with every rebuild: ids of runs and texts are of one generation
  indexed    INTEGER NOT NULL             -- texts up to this id are in the full-text index
);
INSERT OR IGNORE INTO cursor VALUES (1, 0, 1, 0);

-- Erasure overwrites names and texts in place, by blanks of equal length. Rows are never deleted or resized: moving its
-- neighbours within a b-tree could leave copies of them in unused bytes of a page, where no later erasure finds them.
CREATE TABLE IF NOT EXISTS domains(
  id     INTEGER PRIMARY KEY,
  domain BLOB    NOT NULL UNIQUE,
  name   TEXT,
  erased INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS log_runs(
  run          INTEGER PRIMARY KEY,
  stream       BLOB    NOT NULL UNIQUE,
  kind         TEXT    NOT NULL,          -- 'run', or the kind of a stream of facts
  tenant       TEXT    NOT NULL,
  domain       INTEGER REFERENCES domains(id),
  actor        INTEGER REFERENCES domains(id),
  conversation TEXT,
  agent        TEXT,
  trace_id     TEXT GENERATED ALWAYS AS (CASE WHEN kind = 'run' THEN lower(hex(stream)) END) VIRTUAL
);
CREATE INDEX IF NOT EXISTS log_runs_trace ON log_runs(trace_id);
CREATE INDEX IF NOT EXISTS log_runs_actor ON log_runs(actor);
CREATE INDEX IF NOT EXISTS log_runs_conversation ON log_runs(conversation);

-- One row per distinct text of a run, cut to what the longest column shows. ref: the first 8 bytes of its reference.
CREATE TABLE IF NOT EXISTS texts(
  id   INTEGER PRIMARY KEY,
  run  INTEGER NOT NULL,
  ref  INTEGER NOT NULL,
  body TEXT    NOT NULL
);

CREATE VIRTUAL TABLE IF NOT EXISTS texts_fts USING fts5(
  body, content='texts', content_rowid='id', tokenize='trigram', detail=none, columnsize=0
);
-- Segments are merged when eight of a level are there, not four: a quarter less work to index a text.
INSERT INTO texts_fts(texts_fts, rank)
SELECT 'automerge', 8 WHERE NOT EXISTS (SELECT 1 FROM texts_fts_config WHERE k = 'automerge');

CREATE TABLE IF NOT EXISTS log_rows(
  run         INTEGER NOT NULL,
  seq         INTEGER NOT NULL,
  at          INTEGER NOT NULL,           -- microseconds since the Unix epoch
  kind        TEXT    NOT NULL,
  step        INTEGER,
  state       TEXT    CHECK (             -- not IN (...), which would build a table of eight for each row
    state = 'INIT' OR state = 'LLM_DECIDE' OR state = 'TOOL_EXECUTE' OR state = 'AWAIT_APPROVAL' OR state = 'WAIT'
    OR state = 'FINAL_ANSWER' OR state = 'ERROR' OR state = 'ABORTED'),
  tool        TEXT,
  input       INTEGER,                    -- these three are texts.id
  output      INTEGER,
  message     INTEGER,
  code        TEXT,
  degraded    TEXT,                       -- codes that an answer was marked with, joined by commas
  duration_ms INTEGER NOT NULL DEFAULT 0,
  metadata    TEXT    NOT NULL,           -- JSON: what the event says beyond the columns
  hash        BLOB    NOT NULL,
  PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS log_rows_at ON log_rows(at);
CREATE INDEX IF NOT EXISTS log_rows_code ON log_rows(code, at) WHERE code IS NOT NULL;
CREATE INDEX IF NOT EXISTS log_rows_degraded ON log_rows(at) WHERE degraded IS NOT NULL;
CREATE INDEX IF NOT EXISTS log_rows_tool ON log_rows(tool, at) WHERE tool IS NOT NULL;
CREATE INDEX IF NOT EXISTS log_rows_rare ON log_rows(kind, at)
  WHERE kind NOT IN ('model_intended', 'model_replied', 'tool_intended', 'tool_returned');

-- Clauses of knowledge that runs used, and by which run: links of four bytes, so that an erasure blanks them in place. No
-- index leads to a link, for the same reason; who asks for the answers that relied on a document has time.
CREATE TABLE IF NOT EXISTS log_clauses(
  key       BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 4),
  doc_id    TEXT NOT NULL,
  rev_id    TEXT NOT NULL,
  clause_id TEXT NOT NULL,
  UNIQUE (rev_id, clause_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS log_clauses_doc ON log_clauses(doc_id);

CREATE TABLE IF NOT EXISTS log_references(
  id     INTEGER PRIMARY KEY,
  run    INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  clause BLOB    NOT NULL CHECK (length(clause) = 4),
  used   TEXT    NOT NULL CHECK (used IN ('retrieved', 'cited')),
  rank   INTEGER NOT NULL                -- among what was retrieved, from 1; 0 where it has none
);

-- Texts that an erasure still has to blank.
CREATE VIEW IF NOT EXISTS texts_of_domain AS
SELECT d.domain AS domain, t.id AS text
FROM domains d
CROSS JOIN log_runs u ON u.domain = d.id
CROSS JOIN log_rows r ON r.run = u.run
CROSS JOIN texts t ON t.id IN (r.input, r.output, r.message)
WHERE d.erased = 0;

-- All that is said of a row, with its place.
CREATE VIEW IF NOT EXISTS log_lines AS
SELECT
  r.run AS run,
  r.at AS at,
  u.trace_id AS trace_id,
  r.seq AS seq,
  r.kind AS kind,
  r.step AS step,
  r.state AS state,
  u.tenant AS tenant,
  CASE WHEN a.erased = 0 THEN a.name END AS user_id,
  u.conversation AS conversation_id,
  u.agent AS agent,
  r.tool AS tool_name,
  CASE WHEN d.erased = 0 THEN substr(i.body, 1, 1000) END AS input_text,
  CASE WHEN d.erased = 0 THEN substr(o.body, 1, 4000) END AS output_text,
  r.duration_ms AS duration_ms,
  r.code AS error_code,
  CASE WHEN d.erased = 0 THEN substr(m.body, 1, 2000) END AS error_message,
  r.degraded AS degraded,
  r.metadata AS metadata,
  strftime('%Y-%m-%dT%H:%M:%S', r.at / 1000000, 'unixepoch') || printf('.%06dZ', r.at % 1000000) AS timestamp,
  lower(hex(r.hash)) AS hash,
  CASE WHEN r.seq = 0 THEN lower(hex(zeroblob(32))) ELSE lower(hex(p.hash)) END AS prev_hash
FROM log_rows r
JOIN log_runs u ON u.run = r.run
LEFT JOIN domains a ON a.id = u.actor
LEFT JOIN domains d ON d.id = u.domain
LEFT JOIN texts i ON i.id = r.input
LEFT JOIN texts o ON o.id = r.output
LEFT JOIN texts m ON m.id = r.message
LEFT JOIN log_rows p ON p.run = r.run AND p.seq = r.seq - 1;

-- Which answers relied on what; like decision_log it is for any SQL client.
CREATE VIEW IF NOT EXISTS knowledge_used AS
SELECT
  u.trace_id AS trace_id,
  f.seq AS seq,
  r.at AS at,
  u.tenant AS tenant,
  CASE WHEN a.erased = 0 THEN a.name END AS user_id,
  u.conversation AS conversation_id,
  u.agent AS agent,
  c.doc_id AS doc_id,
  c.rev_id AS rev_id,
  c.clause_id AS clause_id,
  f.used AS used,
  f.rank AS rank
FROM log_references f
JOIN log_clauses c ON c.key = f.clause
JOIN log_runs u ON u.run = f.run
JOIN log_rows r ON r.run = f.run AND r.seq = f.seq
LEFT JOIN domains a ON a.id = u.actor;

-- The table that people query with any SQL client; its columns are a promise.
CREATE VIEW IF NOT EXISTS decision_log AS
SELECT trace_id, seq, kind, step, state, tenant, user_id, conversation_id, agent, tool_name, input_text, output_text,
       duration_ms, error_code, error_message, degraded, metadata, timestamp, hash, prev_hash
FROM log_lines;
