-- Statements that write. {tenant} is the number of a tenant: each has a full-text index of its own, so that neither
-- its speed nor its statistics know of the others'.

-- name: find_tenant
SELECT tenant FROM tenants WHERE name = ?;

-- name: insert_tenant
INSERT INTO tenants(name) VALUES (?) RETURNING tenant;

-- name: make_index
CREATE VIRTUAL TABLE fts_{tenant} USING fts5(
  head, body, content='', contentless_delete=1, prefix='1',
  tokenize='porter unicode61 remove_diacritics 0 categories ''L* M* N* Co'' tokenchars ''_.-/%''');
CREATE VIRTUAL TABLE vocabulary_{tenant} USING fts5vocab(fts_{tenant}, 'row');
INSERT INTO fts_{tenant}(fts_{tenant}, rank) VALUES ('rank', 'bm25(2.0, 1.0)');

-- name: recorded
SELECT recorded FROM tenants WHERE tenant = ?;

-- name: move_recorded
UPDATE tenants SET recorded = ? WHERE tenant = ?;

-- name: move_indexed
UPDATE tenants SET indexed = indexed + ? WHERE tenant = ?;

-- name: count_beliefs
SELECT count(*) FROM beliefs WHERE tenant = ? AND doc_id = ?;

-- name: belief_to_close
SELECT 1 FROM beliefs WHERE belief = ? AND tenant = ? AND doc_id = ? AND recorded_to IS NULL;

-- name: searchable
SELECT b.rev, min(b.valid_from), max(coalesce(b.valid_to, '9999-12-31')) FROM beliefs b
WHERE b.tenant = ? AND b.doc_id = ? AND b.recorded_to IS NULL AND b.status IN ('published', 'repealed')
  AND NOT EXISTS (SELECT 1 FROM hidden h WHERE h.rev = b.rev)
GROUP BY b.rev;

-- name: find_revision
SELECT rev, doc_id, fingerprint FROM revisions WHERE tenant = ? AND rev_id = ?;

-- name: insert_revision
INSERT INTO revisions(tenant, rev_id, doc_id, collection, title, lang, kind, valid_from, effective_date,
                      effective_basis, revision_date, url, labels, clauses, content_sha256, fingerprint, rest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING rev;

-- name: insert_clause
INSERT INTO clauses(key, tenant, clause_id, lineage_id, kind, label, article, sub, paragraph, item, headings, text,
                    text_sha256, parent_id, page, start, "end", refs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: index_clause
INSERT INTO fts_{tenant}(rowid, head, body) VALUES (?, ?, ?);

-- name: unindex_clause
DELETE FROM fts_{tenant} WHERE rowid = ?;

-- name: insert_raw
INSERT OR IGNORE INTO raws(tenant, sha256, body) VALUES (?, ?, ?);

-- name: close_belief
UPDATE beliefs SET recorded_to = ? WHERE belief = ?;

-- name: open_belief
INSERT INTO beliefs(tenant, doc_id, rev, status, valid_from, valid_to, recorded_from) VALUES (?, ?, ?, ?, ?, ?, ?)
RETURNING belief;

-- name: hide
INSERT OR IGNORE INTO hidden(rev) VALUES (?) RETURNING 1;

-- name: show
DELETE FROM hidden WHERE rev = ? RETURNING 1;

-- name: texts_of_revision
SELECT c.key, r.title, c.headings, c.text FROM revisions r CROSS JOIN clauses c
WHERE r.rev = :rev AND c.key BETWEEN :rev << 20 AND (:rev << 20) + 1048575;

-- name: emit
INSERT INTO outbox(remove, key)
SELECT :remove, key FROM clauses WHERE key BETWEEN :rev << 20 AND (:rev << 20) + 1048575 ORDER BY key;

-- name: insert_change
INSERT INTO changes(tenant, at, actor, doc_id, rev_id, reason, content_sha256) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: collection_of
SELECT collection FROM revisions WHERE tenant = ? AND rev_id = ?;

-- name: note_ingested
INSERT OR REPLACE INTO ingested(tenant, collection, name, raw_sha256, parser, rev_id) VALUES (?, ?, ?, ?, ?, ?);

-- name: forget_ingested
DELETE FROM ingested WHERE tenant = (SELECT tenant FROM tenants WHERE name = ?) AND collection = ? AND name = ?;

-- name: quarantine
INSERT OR REPLACE INTO quarantined(tenant, collection, name, raw_sha256, code, detail, at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: release
DELETE FROM quarantined WHERE tenant = ? AND collection = ? AND name = ?;

-- name: insert_embedder
INSERT OR IGNORE INTO embedders(name) VALUES (?);

-- name: keep_embedding
INSERT OR IGNORE INTO embeddings(embedder, sha256, vector)
SELECT embedder, ?2, ?3 FROM embedders WHERE name = ?1;

-- name: set_applied
INSERT INTO followers(name, seq) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET seq = excluded.seq;

-- name: head
SELECT coalesce(max(seq), 0) FROM outbox;
