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
