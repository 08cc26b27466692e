-- Reading and searching. In {where} the conditions below are joined over a belief b and its revision r: it is what a
-- search may see. {tenant} is the number of a tenant, {probe} tells whether the clause at hand is of such a revision.

-- name: find_tenant
SELECT tenant FROM tenants WHERE name = ?;

-- name: holds
b.tenant = :tenant AND b.status IN ('published', 'repealed')
AND b.valid_from <= :day AND (b.valid_to IS NULL OR :day < b.valid_to);

-- name: searchable
b.tenant = :tenant AND b.status IN ('published', 'repealed');

-- name: believed
b.recorded_from <= :known AND (b.recorded_to IS NULL OR :known < b.recorded_to);

-- name: in_collections
r.collection IN (SELECT value FROM json_each(:collections));

-- name: in_documents
b.doc_id IN (SELECT value FROM json_each(:doc_ids));

-- name: of_kinds
r.kind IN (SELECT value FROM json_each(:kinds));

-- name: in_langs
r.lang IN (SELECT value FROM json_each(:langs));

-- name: open
(r.labels = '[]'
 OR EXISTS (SELECT 1 FROM json_each(r.labels) l WHERE l.value IN (SELECT value FROM json_each(:labels))));

-- name: shown
NOT EXISTS (SELECT 1 FROM hidden h WHERE h.rev = b.rev);

-- name: probe_each
EXISTS (SELECT 1 FROM beliefs b CROSS JOIN revisions r ON r.rev = b.rev WHERE b.rev = f.rowid >> 20 AND {where});

-- name: probe_set
f.rowid >> 20 IN (SELECT b.rev FROM beliefs b JOIN revisions r ON r.rev = b.rev WHERE {where});

-- name: probe_collections
f.rowid >> 20 IN (
  SELECT b.rev FROM revisions r CROSS JOIN beliefs b ON b.rev = r.rev
  WHERE r.tenant = :tenant AND r.collection IN (SELECT value FROM json_each(:collections)) AND {where});

-- name: ranked_then_filtered
SELECT f.rowid, -f.rank FROM fts_{tenant} f WHERE fts_{tenant} MATCH :match AND {probe} ORDER BY f.rank LIMIT :limit;

-- name: filtered_then_ranked
SELECT f.rowid, -bm25(fts_{tenant}, 2.0, 1.0) AS score FROM fts_{tenant} f
WHERE fts_{tenant} MATCH :match AND {probe} ORDER BY score DESC LIMIT :limit;

-- name: frequency
SELECT doc FROM vocabulary_{tenant} WHERE term = ?;

-- name: count_matches
SELECT count(*) FROM fts_{tenant} WHERE fts_{tenant} MATCH ?;

-- name: indexed
SELECT indexed FROM tenants WHERE tenant = ?;

-- name: collection_extent
SELECT sum(clauses) FROM revisions WHERE tenant = :tenant
AND collection IN (SELECT value FROM json_each(:collections));

-- name: articles
SELECT c.key FROM clauses c
CROSS JOIN revisions r ON r.rev = c.key >> 20 CROSS JOIN beliefs b ON b.rev = r.rev
WHERE c.tenant = :tenant AND c.article = :article AND c.sub = :sub
  AND (:titles = '[]' OR r.title IN (SELECT value FROM json_each(:titles))) AND {where}
ORDER BY r.doc_id, c.key LIMIT :limit;

-- name: titles
SELECT DISTINCT r.title FROM beliefs b JOIN revisions r ON r.rev = b.rev WHERE {where} ORDER BY r.title;

-- name: titles_stamp
SELECT coalesce(max(seq), 0) FROM changes;

-- name: clause_columns
c.key, c.clause_id, c.lineage_id, c.kind, c.label, c.text, c.text_sha256, c.article, c.sub, c.paragraph, c.item,
c.headings, c.parent_id, c.page, c.start, c."end", c.refs;

-- name: clauses
SELECT {columns}, r.doc_id, r.rev_id, r.collection, r.title, r.lang, r.kind, r.effective_date, r.effective_basis,
       r.revision_date, b.valid_from, b.valid_to, r.rev, r.url, r.labels
FROM json_each(:keys) k CROSS JOIN clauses c ON c.key = k.value
CROSS JOIN revisions r ON r.rev = c.key >> 20 CROSS JOIN beliefs b ON b.rev = r.rev
WHERE {where} ORDER BY k.key;

-- name: latest
SELECT b.doc_id, r.rev_id, max(b.valid_from) FROM beliefs b JOIN revisions r ON r.rev = b.rev
WHERE b.doc_id IN (SELECT value FROM json_each(:documents)) AND {where} GROUP BY b.doc_id;

-- name: clause
SELECT {columns}, r.doc_id, r.rev_id, r.collection, r.title, r.lang, r.kind, r.effective_date, r.effective_basis,
       r.revision_date, b.valid_from, b.valid_to, r.rev, r.url, r.labels
FROM clauses c JOIN revisions r ON r.rev = c.key >> 20 JOIN beliefs b ON b.rev = r.rev
WHERE c.tenant = ? AND c.clause_id = ? ORDER BY b.recorded_from DESC, b.belief DESC LIMIT 1;

-- name: is_eligible
SELECT 1 FROM clauses c CROSS JOIN revisions r ON r.rev = c.key >> 20 CROSS JOIN beliefs b ON b.rev = r.rev
WHERE c.tenant = :tenant AND c.clause_id = :clause_id AND {where};

-- name: withheld
SELECT coalesce(sum(clauses), 0) FROM (
  SELECT DISTINCT r.rev, r.clauses FROM revisions r INDEXED BY revisions_labelled CROSS JOIN beliefs b ON b.rev = r.rev
  WHERE r.tenant = :tenant AND r.labels <> '[]' AND {where} AND NOT {open});

-- name: collections
SELECT collection, count(DISTINCT doc_id), sum(clauses) FROM (
  SELECT DISTINCT r.collection, r.doc_id, r.rev, r.clauses FROM beliefs b JOIN revisions r ON r.rev = b.rev
  WHERE {where})
GROUP BY collection ORDER BY collection;

-- name: page
SELECT DISTINCT b.doc_id FROM beliefs b JOIN revisions r ON r.rev = b.rev
WHERE b.tenant = :tenant AND b.doc_id > :after AND {where}
  AND (:text IS NULL OR instr(lower(r.title), :text) OR instr(b.doc_id, :text))
ORDER BY b.doc_id LIMIT :limit;

-- name: documents
SELECT r.doc_id, r.collection, r.title, r.kind, r.lang, r.labels, r.rev_id, b.valid_from, b.valid_to, r.clauses
FROM beliefs b JOIN revisions r ON r.rev = b.rev
WHERE b.tenant = :tenant AND b.doc_id IN (SELECT value FROM json_each(:documents)) AND {where}
ORDER BY r.doc_id, b.valid_from;

-- name: beliefs
SELECT b.belief, b.doc_id, r.rev_id, b.status, b.valid_from, b.valid_to, b.recorded_from, b.recorded_to
FROM beliefs b JOIN revisions r ON r.rev = b.rev WHERE b.tenant = ? AND b.doc_id = ?
ORDER BY b.recorded_from, b.belief;

-- name: revision
SELECT rev, doc_id, rev_id, collection, title, lang, kind, valid_from, effective_date, effective_basis, labels,
       content_sha256, rest
FROM revisions WHERE tenant = ? AND rev_id = ?;

-- name: revision_clauses
SELECT {columns} FROM clauses c WHERE c.key BETWEEN :rev << 20 AND (:rev << 20) + 1048575 ORDER BY c.key;

-- name: raw
SELECT body FROM raws WHERE tenant = ? AND sha256 = ?;

-- name: quarantined
SELECT name, raw_sha256, code, detail, at, collection FROM quarantined WHERE tenant = ?
ORDER BY at DESC, collection, name LIMIT ?;

-- name: ingested
SELECT name, raw_sha256, parser, rev_id FROM ingested WHERE tenant = ? AND collection = ? AND name = ?;

-- name: ingested_below
SELECT name, raw_sha256, parser, rev_id FROM ingested
WHERE tenant = :tenant AND collection = :collection AND name >= :prefix
  AND substr(name, 1, length(:prefix)) = :prefix
ORDER BY name;

-- name: outbox
SELECT o.seq, CASE o.remove WHEN 1 THEN 'remove' ELSE 'upsert' END, o.key, r.rev_id, c.text_sha256
FROM outbox o CROSS JOIN clauses c ON c.key = o.key CROSS JOIN revisions r ON r.rev = o.key >> 20
WHERE o.seq > ? ORDER BY o.seq LIMIT ?;

-- name: changes
SELECT seq, at, actor, doc_id, rev_id, reason, content_sha256 FROM changes WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: items
SELECT c.key, c.text_sha256, min(b.valid_from), max(coalesce(b.valid_to, '9999-12-31')), r.collection, r.doc_id,
       r.lang, r.kind, r.labels, r.title, c.headings, c.text
FROM json_each(?) k CROSS JOIN clauses c ON c.key = k.value
CROSS JOIN revisions r ON r.rev = c.key >> 20 CROSS JOIN beliefs b ON b.rev = r.rev
WHERE b.recorded_to IS NULL AND b.status IN ('published', 'repealed')
  AND NOT EXISTS (SELECT 1 FROM hidden h WHERE h.rev = r.rev)
GROUP BY k.key ORDER BY k.key;

-- name: all_keys
SELECT c.key FROM clauses c WHERE c.key > ? AND EXISTS (
  SELECT 1 FROM beliefs b WHERE b.rev = c.key >> 20 AND b.recorded_to IS NULL
  AND b.status IN ('published', 'repealed'))
  AND NOT EXISTS (SELECT 1 FROM hidden h WHERE h.rev = c.key >> 20)
ORDER BY c.key LIMIT ?;

-- name: embeddings
SELECT e.sha256, e.vector FROM json_each(?2) k CROSS JOIN embeddings e
ON e.embedder = (SELECT embedder FROM embedders WHERE name = ?1) AND e.sha256 = k.value;

-- name: applied
SELECT seq FROM followers WHERE name = ?;

-- name: recorded_last
SELECT coalesce(max(recorded), 0) FROM tenants;

-- name: head
SELECT coalesce(max(seq), 0) FROM outbox;
