-- name: insert_event
INSERT INTO events(stream, seq, at, kind, body, hash) VALUES (?, ?, ?, ?, ?, ?);

-- name: insert_payload
INSERT OR IGNORE INTO payloads(ref, domain, blob) VALUES (?, ?, ?);

-- name: insert_signal
INSERT INTO signals(stream, signal_id, seq) VALUES (?, ?, ?);

-- name: find_signal
SELECT seq FROM signals WHERE stream = ? AND signal_id = ?;

-- name: insert_head
INSERT INTO heads(stream, tenant, kind, name, head_seq, head_hash, head_at, epoch, state, actor, conversation, root,
                  driving, lease_until, wake_at, flags, idem)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?);

-- name: place
SELECT tenant, head_seq, head_hash, head_at, epoch, state, actor, conversation, driving FROM heads WHERE stream = ?;

-- name: find_stream
SELECT stream, head_seq, head_hash, head_at FROM heads WHERE tenant = ? AND kind = ? AND name = ?;

-- name: move_owner
UPDATE heads SET head_seq = ?, head_hash = ?, head_at = ?, state = ?, driving = ?, wake_at = ? WHERE stream = ?;

-- name: close_run
UPDATE heads SET head_seq = ?, head_hash = ?, head_at = ?, state = ?, driving = 0, wake_at = 0, lease_until = 0
WHERE stream = ?;

-- name: move_signal
UPDATE heads SET head_seq = ?, head_hash = ?, head_at = ?, wake_at = ? WHERE stream = ?;

-- name: move_fact
UPDATE heads SET head_seq = ?, head_hash = ?, head_at = ? WHERE stream = ?;

-- name: oldest_waiting
SELECT stream FROM heads INDEXED BY heads_turn
WHERE tenant = ? AND actor = ? AND conversation = ? AND stream <> ?
  AND state <> 'FINAL_ANSWER' AND state <> 'ERROR' AND state <> 'ABORTED'
ORDER BY stream LIMIT 1;

-- name: wake
UPDATE heads SET wake_at = ? WHERE stream = ?;

-- name: count_open
SELECT count(*) FROM heads
WHERE state <> 'FINAL_ANSWER' AND state <> 'ERROR' AND state <> 'ABORTED';

-- name: find_idem
SELECT h.stream, e.body FROM heads h JOIN events e ON e.stream = h.stream AND e.seq = 0
WHERE h.tenant = ? AND h.actor = ? AND h.idem = ?;

-- name: claim
UPDATE heads SET epoch = epoch + 1, lease_until = :until, driving = 1
WHERE stream = :stream AND lease_until <= :now
  AND state <> 'FINAL_ANSWER' AND state <> 'ERROR' AND state <> 'ABORTED'
  AND (driving = 1 OR conversation IS NULL OR NOT EXISTS (
        SELECT 1 FROM heads o
        WHERE o.tenant = heads.tenant AND o.actor = heads.actor AND o.conversation = heads.conversation
          AND o.state <> 'FINAL_ANSWER' AND o.state <> 'ERROR' AND o.state <> 'ABORTED'
          AND (o.driving = 1 OR o.stream < heads.stream) AND o.stream <> heads.stream))
RETURNING epoch;

-- name: claim_aside
UPDATE heads SET epoch = epoch + 1, lease_until = :until
WHERE stream = :stream AND lease_until <= :now AND state = 'INIT' AND driving = 0
RETURNING epoch;

-- name: renew
UPDATE heads SET lease_until = ? WHERE stream = ? AND epoch = ? AND lease_until > 0 RETURNING 1;

-- name: release
UPDATE heads SET lease_until = 0 WHERE stream = ? AND epoch = ?;

-- name: reclaim
UPDATE heads SET lease_until = 0 WHERE lease_until > 0 RETURNING 1;

-- name: due
SELECT * FROM heads
WHERE state <> 'FINAL_ANSWER' AND state <> 'ERROR' AND state <> 'ABORTED' AND lease_until <= :now
  AND CASE
        WHEN driving = 1 THEN state IN ('INIT', 'LLM_DECIDE', 'TOOL_EXECUTE') OR (wake_at > 0 AND wake_at <= :now)
        ELSE conversation IS NULL OR NOT EXISTS (
          SELECT 1 FROM heads o
          WHERE o.tenant = heads.tenant AND o.actor = heads.actor AND o.conversation = heads.conversation
            AND o.state <> 'FINAL_ANSWER' AND o.state <> 'ERROR' AND o.state <> 'ABORTED'
            AND (o.driving = 1 OR o.stream < heads.stream) AND o.stream <> heads.stream)
      END
ORDER BY stream LIMIT :limit;

-- name: head
SELECT * FROM heads WHERE stream = ?;

-- name: own_head
SELECT * FROM heads WHERE stream = ? AND actor = ?;

-- name: named_head
SELECT * FROM heads WHERE tenant = ? AND kind = ? AND name = ?;

-- name: named_of
SELECT * FROM heads WHERE kind = ? AND name IS NOT NULL AND (? OR tenant = ?);

-- name: read
SELECT stream, seq, at, kind, body, hash, id FROM events WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: changes
SELECT stream, seq, at, kind, body, hash, id FROM events WHERE id > ? ORDER BY id LIMIT ?;

-- name: tip
SELECT coalesce(max(id), 0) FROM events;

-- name: payload
SELECT ref, domain, blob FROM payloads WHERE ref = ?;

-- name: raw_events
SELECT stream, seq, at, CAST(kind AS BLOB), body, hash, id FROM events WHERE stream = ? ORDER BY seq;

-- name: raw_signals
SELECT CAST(signal_id AS BLOB), seq FROM signals WHERE stream = ? ORDER BY seq;
