-- The table of knowledge. What is written stays: beliefs are only ever closed, revisions, clauses and changes never
-- touched again. Names given from outside are unique in their tenant. Days are ISO texts, which sort as they should;
-- times are microseconds since the Unix epoch.
PRAGMA user_version = 1;

CREATE TABLE IF NOT EXISTS tenants(
  tenant   INTEGER PRIMARY KEY,
  name     TEXT    NOT NULL UNIQUE,
  recorded INTEGER NOT NULL DEFAULT 0,    -- when something was recorded last: the next is recorded later
  indexed  INTEGER NOT NULL DEFAULT 0     -- how many clauses its full-text index holds
);

CREATE TABLE IF NOT EXISTS revisions(
  rev             INTEGER PRIMARY KEY,
  tenant          INTEGER NOT NULL REFERENCES tenants(tenant),
  rev_id          TEXT    NOT NULL,
  doc_id          TEXT    NOT NULL,
  collection      TEXT    NOT NULL,
  title           TEXT    NOT NULL,
  lang            TEXT    NOT NULL,
  kind            TEXT    NOT NULL,
  valid_from      TEXT    NOT NULL,
  effective_date  TEXT,
  effective_basis TEXT    NOT NULL,
  revision_date   TEXT,                   -- when it was last amended, NULL for never
  url             TEXT    NOT NULL,
  labels          TEXT    NOT NULL,       -- JSON array, '[]' for everybody
  clauses         INTEGER NOT NULL,       -- how many it has
  content_sha256  TEXT    NOT NULL,
  fingerprint     BLOB    NOT NULL,       -- of all that may not differ under one rev_id
  rest            BLOB    NOT NULL,       -- zstd of the JSON of what no query asks for
  UNIQUE (tenant, rev_id)
);
CREATE INDEX IF NOT EXISTS revisions_collection ON revisions(tenant, collection, clauses);
CREATE INDEX IF NOT EXISTS revisions_labelled ON revisions(tenant) WHERE labels <> '[]';

-- key = (rev << 20) + ordinal: the revision of a key is known without looking it up.
CREATE TABLE IF NOT EXISTS clauses(
  key         INTEGER PRIMARY KEY,
  tenant      INTEGER NOT NULL,
  clause_id   TEXT    NOT NULL,
  lineage_id  TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  label       TEXT    NOT NULL,
  article     INTEGER,
  sub         INTEGER,
  paragraph   INTEGER,
  item        INTEGER,
  headings    TEXT    NOT NULL,           -- JSON array
  text        TEXT    NOT NULL,
  text_sha256 TEXT    NOT NULL,
  parent_id   TEXT,
  page        INTEGER,
  start       INTEGER,
  "end"       INTEGER,
  refs        TEXT    NOT NULL,           -- JSON array
  UNIQUE (tenant, clause_id)
);
CREATE INDEX IF NOT EXISTS clauses_number ON clauses(tenant, article, sub) WHERE article IS NOT NULL;

CREATE TABLE IF NOT EXISTS beliefs(
  belief        INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant        INTEGER NOT NULL,
  doc_id        TEXT    NOT NULL,
  rev           INTEGER NOT NULL REFERENCES revisions(rev),
  status        TEXT    NOT NULL CHECK (status IN ('draft', 'published', 'repealed', 'withdrawn')),
  valid_from    TEXT    NOT NULL CHECK (valid_from GLOB '[0-9]*' AND valid_from IS date(valid_from)),
  valid_to      TEXT             CHECK (
    valid_to IS NULL OR valid_to GLOB '[0-9]*' AND valid_to IS date(valid_to) AND valid_to > valid_from),
  recorded_from INTEGER NOT NULL,
  recorded_to   INTEGER          CHECK (recorded_to > recorded_from),
  CHECK (status <> 'repealed' OR valid_to IS NOT NULL)
);
CREATE INDEX IF NOT EXISTS beliefs_document ON beliefs(tenant, doc_id, valid_from);
CREATE INDEX IF NOT EXISTS beliefs_revision
  ON beliefs(rev, valid_from, valid_to, recorded_from, recorded_to, status);

CREATE TRIGGER IF NOT EXISTS beliefs_are_only_closed BEFORE UPDATE ON beliefs
WHEN OLD.recorded_to IS NOT NULL OR NEW.recorded_to IS NULL
  OR (OLD.belief, OLD.tenant, OLD.doc_id, OLD.rev, OLD.status, OLD.valid_from, OLD.valid_to, OLD.recorded_from)
     IS NOT (NEW.belief, NEW.tenant, NEW.doc_id, NEW.rev, NEW.status, NEW.valid_from, NEW.valid_to, NEW.recorded_from)
BEGIN SELECT RAISE(ABORT, 'a belief is never changed but to be closed, once'); END;

CREATE TRIGGER IF NOT EXISTS beliefs_stay BEFORE DELETE ON beliefs
BEGIN SELECT RAISE(ABORT, 'a belief is never deleted'); END;

CREATE TRIGGER IF NOT EXISTS beliefs_begin_open BEFORE INSERT ON beliefs WHEN NEW.recorded_to IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a belief begins open'); END;

CREATE TRIGGER IF NOT EXISTS beliefs_never_overlap BEFORE INSERT ON beliefs
WHEN NEW.status IN ('published', 'repealed') AND EXISTS (
  SELECT 1 FROM beliefs b
  WHERE b.tenant = NEW.tenant AND b.doc_id = NEW.doc_id AND b.recorded_to IS NULL
    AND b.status IN ('published', 'repealed')
    AND (NEW.valid_to IS NULL OR b.valid_from < NEW.valid_to)
    AND (b.valid_to IS NULL OR NEW.valid_from < b.valid_to))
BEGIN SELECT RAISE(ABORT, 'two revisions of a document would hold on one day'); END;

CREATE TRIGGER IF NOT EXISTS revisions_never_change BEFORE UPDATE ON revisions
BEGIN SELECT RAISE(ABORT, 'a revision is never changed'); END;
CREATE TRIGGER IF NOT EXISTS revisions_stay BEFORE DELETE ON revisions
BEGIN SELECT RAISE(ABORT, 'a revision is never deleted'); END;
CREATE TRIGGER IF NOT EXISTS clauses_never_change BEFORE UPDATE ON clauses
BEGIN SELECT RAISE(ABORT, 'a clause is never changed'); END;
CREATE TRIGGER IF NOT EXISTS clauses_stay BEFORE DELETE ON clauses
BEGIN SELECT RAISE(ABORT, 'a clause is never deleted'); END;

-- Deleted or withdrawn: out of every search, whatever day or time it asks about. Their full-text rows are gone too.
CREATE TABLE IF NOT EXISTS hidden(rev INTEGER PRIMARY KEY REFERENCES revisions(rev));

CREATE TABLE IF NOT EXISTS raws(
  raw    INTEGER PRIMARY KEY,
  tenant INTEGER NOT NULL,
  sha256 TEXT    NOT NULL,
  body   BLOB    NOT NULL,                -- zstd
  UNIQUE (tenant, sha256)
);

CREATE TABLE IF NOT EXISTS outbox(
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  remove INTEGER NOT NULL,                -- 0: upsert
  key    INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS changes(
  seq            INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant         INTEGER NOT NULL,
  at             INTEGER NOT NULL,
  actor          TEXT    NOT NULL,
  doc_id         TEXT    NOT NULL,
  rev_id         TEXT,
  reason         TEXT    NOT NULL,
  content_sha256 TEXT,
  UNIQUE (tenant, at)
);

CREATE TABLE IF NOT EXISTS ingested(
  tenant     INTEGER NOT NULL,
  collection TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  raw_sha256 TEXT    NOT NULL,
  parser     TEXT    NOT NULL,
  rev_id     TEXT    NOT NULL,
  PRIMARY KEY (tenant, collection, name)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS quarantined(
  tenant     INTEGER NOT NULL,
  collection TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  raw_sha256 TEXT    NOT NULL,
  code       TEXT    NOT NULL,
  detail     TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  PRIMARY KEY (tenant, collection, name)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS followers(name TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;

-- A cache: by content, so a text that moves to another number, day or tenant is not embedded again.
CREATE TABLE IF NOT EXISTS embedders(embedder INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS embeddings(
  embedding INTEGER PRIMARY KEY,
  embedder  INTEGER NOT NULL REFERENCES embedders(embedder),
  sha256    TEXT    NOT NULL,
  vector    BLOB    NOT NULL,
  UNIQUE (embedder, sha256)
);
