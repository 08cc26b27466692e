-- name: version
PRAGMA user_version;

-- name: made
SELECT type, name FROM sqlite_master
WHERE type IN ('view', 'table') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
ORDER BY type = 'table', sql NOT LIKE 'CREATE VIRTUAL%';

-- name: old_generation
SELECT generation FROM cursor;

-- name: set_generation
UPDATE cursor SET generation = ?;

-- name: cursor
SELECT position, generation, indexed FROM cursor;

-- name: move
UPDATE cursor SET position = ?;

-- name: last_run
SELECT coalesce(max(run), 0) FROM log_runs;

-- name: last_text
SELECT coalesce(max(id), 0) FROM texts;

-- name: find_run
SELECT run FROM log_runs WHERE stream = ?;

-- name: texts_of
SELECT t.ref, t.id FROM log_rows r JOIN texts t ON t.id IN (r.input, r.output, r.message) WHERE r.run = ?;

-- name: insert_run
INSERT INTO log_runs(run, stream, kind, tenant, domain, actor, conversation, agent) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: find_domain
SELECT id FROM domains WHERE domain = ?;

-- name: find_live_domain
SELECT id FROM domains WHERE domain = ? AND erased = 0;

-- name: insert_domain
INSERT INTO domains(domain, name, erased) VALUES (?, ?, ?) RETURNING id;

-- name: insert_text
INSERT INTO texts(id, run, ref, body) VALUES (?, ?, ?, ?);

-- name: insert_row
INSERT INTO log_rows(run, seq, at, kind, step, state, tool, input, output, message, code, degraded, duration_ms,
                     metadata, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, seq) DO NOTHING;

-- name: last_clause
SELECT max(key) FROM log_clauses;

-- name: find_clause
SELECT key FROM log_clauses WHERE rev_id = ? AND clause_id = ?;

-- name: insert_clause
INSERT INTO log_clauses(key, doc_id, rev_id, clause_id) VALUES (?, ?, ?, ?);

-- name: insert_reference
INSERT INTO log_references(run, seq, clause, used, rank) VALUES (?, ?, ?, ?, ?);

-- name: index_texts
INSERT INTO texts_fts(rowid, body) SELECT id, body FROM texts WHERE id > ? AND id <= ? AND trim(body) <> '';

-- name: move_indexed
UPDATE cursor SET indexed = ?;

-- name: erase_index
INSERT INTO texts_fts(texts_fts, rowid, body)
SELECT 'delete', t.id, t.body
FROM texts t
WHERE t.id IN (SELECT text FROM texts_of_domain WHERE domain = ?) AND t.id <= (SELECT indexed FROM cursor)
  AND trim(t.body) <> '';

-- name: erase_texts
UPDATE texts SET body = printf('%*s', length(CAST(body AS BLOB)), '')
WHERE id IN (SELECT text FROM texts_of_domain WHERE domain = ?);

-- name: erase_references
UPDATE log_references SET clause = zeroblob(4)
WHERE run IN (SELECT run FROM log_runs WHERE domain = (SELECT id FROM domains WHERE domain = ? AND erased = 0));

-- name: erase_name
UPDATE domains
SET name = CASE WHEN name IS NOT NULL THEN printf('%*s', length(CAST(name AS BLOB)), '') END, erased = 1
WHERE domain = ? AND erased = 0;

-- name: optimize
INSERT INTO texts_fts(texts_fts) VALUES ('optimize');

-- name: checkpoint
PRAGMA wal_checkpoint(TRUNCATE);

-- name: wipe
INSERT INTO texts_fts(texts_fts) VALUES ('delete-all');
DELETE FROM log_rows;
DELETE FROM log_references;
DELETE FROM log_clauses;
DELETE FROM texts;
DELETE FROM log_runs;
DELETE FROM domains;
UPDATE cursor SET position = 0, indexed = 0, generation = generation + 1;

-- name: count
SELECT count(*) FROM log_rows;
