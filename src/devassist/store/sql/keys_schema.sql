-- The key store: which erasure domain is whose, and its key. Deleting a row is erasure. Version 1.
CREATE TABLE IF NOT EXISTS domains(
  domain  BLOB    NOT NULL PRIMARY KEY CHECK (length(domain) = 16),
  tenant  TEXT    NOT NULL,
  kind    TEXT    NOT NULL CHECK (kind IN ('user', 'subject')),
  name    TEXT    NOT NULL,
  key     BLOB    NOT NULL CHECK (length(key) = 32),
  created INTEGER NOT NULL,
  UNIQUE (tenant, kind, name)
) STRICT, WITHOUT ROWID;

-- Ids of domains that were erased: a journal that is put back to an earlier state is told of them again. An id names
-- nobody, and stands in the journal anyway.
CREATE TABLE IF NOT EXISTS destroyed(
  domain BLOB    NOT NULL PRIMARY KEY CHECK (length(domain) = 16),
  tenant TEXT    NOT NULL,
  at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who may call. Rows are never deleted: one that ever was means that callers need a key. owner is a domain, so the name
-- goes when that is erased; digest is the SHA-256 of the secret.
CREATE TABLE IF NOT EXISTS api_keys(
  key_id  TEXT    NOT NULL PRIMARY KEY CHECK (length(key_id) = 12),
  tenant  TEXT    NOT NULL,
  owner   BLOB    NOT NULL CHECK (length(owner) = 16),
  role    TEXT    NOT NULL CHECK (role IN ('user', 'admin')),
  digest  BLOB    NOT NULL CHECK (length(digest) = 32),
  label   TEXT    NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  revoked INTEGER,
  sees    TEXT    NOT NULL DEFAULT ''  -- labels of documents that it opens, joined by blanks
) STRICT, WITHOUT ROWID;
