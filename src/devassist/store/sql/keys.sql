-- name: find
SELECT domain, key FROM domains WHERE tenant = ? AND kind = ? AND name = ?;

-- name: load
SELECT tenant, kind, name, key FROM domains WHERE domain = ?;

-- name: insert
INSERT INTO domains(domain, tenant, kind, name, key, created) VALUES (?, ?, ?, ?, ?, ?);

-- name: remember
INSERT OR IGNORE INTO destroyed(domain, tenant, at)
SELECT domain, tenant, ? FROM domains WHERE domain = ? AND (tenant = ? OR ?);

-- name: destroyed
SELECT domain, tenant FROM destroyed;

-- name: delete
DELETE FROM domains WHERE domain = ? AND (tenant = ? OR ?);

-- name: unlabel
UPDATE api_keys SET label = '' WHERE owner = ? AND (tenant = ? OR ?);

-- name: add_key
INSERT INTO api_keys(key_id, tenant, owner, role, digest, label, created, expires, revoked, sees)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: has_sees
SELECT 1 FROM pragma_table_info('api_keys') WHERE name = 'sees';

-- name: add_sees
ALTER TABLE api_keys ADD COLUMN sees TEXT NOT NULL DEFAULT '';

-- name: list_keys
SELECT key_id, tenant, owner, role, digest, label, created, expires, revoked, sees FROM api_keys
WHERE tenant = ? OR ? ORDER BY created, key_id;

-- name: revoke_key
UPDATE api_keys SET revoked = ? WHERE key_id = ? AND (tenant = ? OR ?) AND revoked IS NULL RETURNING 1;
