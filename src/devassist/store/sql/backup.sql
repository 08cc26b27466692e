-- name: runs
SELECT count(*), coalesce(sum(state <> 'FINAL_ANSWER' AND state <> 'ERROR' AND state <> 'ABORTED'), 0)
FROM heads WHERE kind = 'run';

-- name: attach
ATTACH ? AS staged;

-- name: lost
SELECT stream, state, idem FROM main.heads h
WHERE kind = 'run' AND NOT EXISTS (SELECT 1 FROM staged.heads s WHERE s.stream = h.stream)
ORDER BY stream;

-- name: later
SELECT h.stream, h.state, s.head_seq FROM staged.heads s JOIN main.heads h ON h.stream = s.stream
WHERE s.kind = 'run' AND s.state <> 'FINAL_ANSWER' AND s.state <> 'ERROR' AND s.state <> 'ABORTED'
ORDER BY h.stream;

-- name: since
SELECT seq, at, kind, body FROM main.events
WHERE stream = ? AND seq > ? AND kind IN ('tool_intended', 'tool_returned', 'late_outcome') ORDER BY seq;
