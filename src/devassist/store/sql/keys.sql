-- name: find
SELECT domain, key FROM domains WHERE tenant = ? AND kind = ? AND name = ?;

-- name: load
SELECT tenant, kind, name, key FROM domains WHERE domain = ?;

-- name: insert
INSERT INTO domains(domain, tenant, kind, name, key, created) VALUES (?, ?, ?, ?, ?, ?);

-- name: delete
DELETE FROM domains WHERE domain = ? AND (tenant = ? OR ?);
