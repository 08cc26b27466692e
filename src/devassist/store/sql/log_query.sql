-- A page of the log: a key query by one of these paths, {where} joined from the conditions below, shown through log_lines.
-- {direction} is ASC or DESC. The paths fix the order of joins: the planner cannot know which filter is the narrow one.

-- name: page
SELECT l.trace_id, l.seq, l.kind, l.step, l.state, l.tenant, l.user_id, l.conversation_id, l.agent, l.tool_name,
       l.input_text, l.output_text, l.duration_ms, l.error_code, l.error_message, l.degraded, l.metadata, l.timestamp,
       l.hash, l.prev_hash, l.at, l.run
FROM ({keys}) k CROSS JOIN log_lines l ON l.run = k.run AND l.seq = k.seq
ORDER BY k.at {direction}, k.run {direction}, k.seq {direction};

-- name: by_runs
SELECT r.run, r.seq, r.at FROM log_runs u CROSS JOIN log_rows r ON r.run = u.run
WHERE {where} ORDER BY +r.at {direction}, r.run {direction}, r.seq {direction} LIMIT :limit;

-- name: by_time
SELECT r.run, r.seq, r.at FROM log_rows r INDEXED BY log_rows_at CROSS JOIN log_runs u ON u.run = r.run
WHERE {where} ORDER BY r.at {direction}, r.run {direction}, r.seq {direction} LIMIT :limit;

-- name: by_code
SELECT r.run, r.seq, r.at FROM log_rows r INDEXED BY log_rows_code CROSS JOIN log_runs u ON u.run = r.run
WHERE {where} ORDER BY r.at {direction}, r.run {direction}, r.seq {direction} LIMIT :limit;

-- name: by_degraded
SELECT r.run, r.seq, r.at FROM log_rows r INDEXED BY log_rows_degraded CROSS JOIN log_runs u ON u.run = r.run
WHERE r.degraded IS NOT NULL AND {where} ORDER BY r.at {direction}, r.run {direction}, r.seq {direction} LIMIT :limit;

-- name: by_tool
SELECT r.run, r.seq, r.at FROM log_rows r INDEXED BY log_rows_tool CROSS JOIN log_runs u ON u.run = r.run
WHERE {where} ORDER BY r.at {direction}, r.run {direction}, r.seq {direction} LIMIT :limit;

-- name: by_rare_kind
SELECT r.run, r.seq, r.at FROM log_rows r INDEXED BY log_rows_rare CROSS JOIN log_runs u ON u.run = r.run
WHERE r.kind NOT IN ('model_intended', 'model_replied', 'tool_intended', 'tool_returned') AND {where}
ORDER BY r.at {direction}, r.run {direction}, r.seq {direction} LIMIT :limit;

-- name: count_runs
SELECT count(*) FROM (SELECT 1 FROM log_runs u WHERE {where} LIMIT :few + 1);

-- name: indexed_hits
SELECT t.id FROM texts t WHERE t.id IN (SELECT rowid FROM texts_fts WHERE texts_fts MATCH :match) AND {where}
UNION ALL
SELECT t.id FROM texts t WHERE t.id > (SELECT indexed FROM cursor) AND {where}
LIMIT :few + 1;

-- name: scanned_hits
SELECT t.id FROM texts t WHERE {where} LIMIT :few + 1;

-- name: where_always
1;

-- name: where_tenant
u.tenant = :tenant;

-- name: where_own
u.actor = (SELECT id FROM domains WHERE domain = :own);

-- name: where_user_id
u.actor IN (SELECT id FROM domains WHERE name = :user_id AND erased = 0);

-- name: where_trace_id
u.trace_id = :trace_id;

-- name: where_conversation_id
u.conversation = :conversation_id;

-- name: where_agent
u.agent = :agent;

-- name: where_kind
r.kind = :kind;

-- name: where_state
r.state = :state;

-- name: where_error_code
r.code = :error_code;

-- name: where_any_degraded
r.degraded IS NOT NULL;

-- name: where_degraded
instr(',' || r.degraded || ',', ',' || :degraded || ',') > 0;

-- name: where_tool_name
r.tool = :tool_name;

-- name: where_step
r.step = :step;

-- name: where_since
r.at >= :since;

-- name: where_until
r.at < :until;

-- name: where_before
(r.at, r.run, r.seq) < (:at, :run, :seq);

-- name: where_after
(r.at, r.run, r.seq) > (:at, :run, :seq);

-- name: where_hit
u.run IN (SELECT run FROM texts WHERE id IN (SELECT value FROM json_each(:hits)))
AND (r.input IN (SELECT value FROM json_each(:hits)) OR r.output IN (SELECT value FROM json_each(:hits))
  OR r.message IN (SELECT value FROM json_each(:hits)));

-- name: where_text
EXISTS (SELECT 1 FROM texts t WHERE t.id IN (r.input, r.output, r.message) AND {where});

-- name: term_like
t.body LIKE :{term} ESCAPE '\';

-- name: term_folded
contains_folded(t.body, :{term});

-- name: relied
SELECT u.trace_id, min(r.at) AS at, CASE WHEN a.erased = 0 THEN a.name END AS user_id, u.conversation, u.agent,
       (SELECT state FROM log_rows l WHERE l.run = u.run ORDER BY l.seq DESC LIMIT 1) AS state,
       c.doc_id, c.rev_id, c.clause_id, min(f.used) AS used, min(nullif(f.rank, 0)) AS rank, u.run
FROM log_references f CROSS JOIN log_clauses c ON c.key = f.clause CROSS JOIN log_runs u ON u.run = f.run
JOIN log_rows r ON r.run = f.run AND r.seq = f.seq LEFT JOIN domains a ON a.id = u.actor
WHERE {which} AND f.run IN (
  SELECT DISTINCT f.run
  FROM log_references f CROSS JOIN log_clauses c ON c.key = f.clause CROSS JOIN log_runs u ON u.run = f.run
  WHERE {where} ORDER BY f.run DESC LIMIT :limit)
GROUP BY u.run, c.key
ORDER BY u.run DESC, used, rank IS NULL, rank, c.clause_id;

-- name: where_doc_id
c.doc_id = :doc_id;

-- name: where_rev_id
c.rev_id = :rev_id;

-- name: where_older_run
f.run < :older_run;
