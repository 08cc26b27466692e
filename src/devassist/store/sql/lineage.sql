-- name: tip
SELECT id, at, hash FROM events ORDER BY id DESC LIMIT 1;

-- name: hash_at
SELECT hash FROM events WHERE id = ?;

-- name: get
SELECT value FROM meta WHERE name = ?;

-- name: put
INSERT INTO meta(name, value) VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET value = excluded.value;

-- name: drop
DELETE FROM meta WHERE name = ?;

-- name: sealed
SELECT 1 FROM payloads WHERE domain <> zeroblob(16) LIMIT 1;

-- name: erasures
SELECT 1 FROM heads WHERE kind = 'erasure' LIMIT 1;

-- name: domains
SELECT 1 FROM domains LIMIT 1;
