-- name: CreateRun :exec
INSERT INTO runs (id, org, stack, turn, stack_name, account, kind, status, final, risk, plan_digest,
    approval_policy, approval_required, approval_reason, approval_status, approval_digest, approval_by,
    approval_by_name, approval_at, production, hold, created_by, created_at, ended_at, class, partial_apply,
    message, cancel_asked, waits_for, start_key, events)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
    $23, $24, $25, $26, $27, $28, $29, $30, $31);

-- name: Run :one
SELECT * FROM runs WHERE id = sqlc.arg(id) AND (org = sqlc.arg(org) OR CAST(sqlc.arg(org) AS TEXT) = '');

-- name: UpdateRun :execrows
UPDATE runs SET status = $1, final = $2, risk = $3, plan_digest = $4, approval_policy = $5, approval_required
    = $6, approval_reason = $7, approval_status = $8, approval_digest = $9, approval_by = $10,
    approval_by_name = $11, approval_at = $12, ended_at = $13, class = $14, partial_apply = $15, message =
    $16, cancel_asked = $17, waits_for = $18
WHERE id = $19;

-- name: PutComponent :exec
INSERT INTO components (run, name, place, hash, state_name, state_id, source_object, source_sha256,
    source_size, inputs, action, status, plan, view, message, outputs)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (run, name) DO UPDATE SET place = excluded.place, hash = excluded.hash, state_name =
    excluded.state_name, state_id = excluded.state_id, source_object = excluded.source_object, source_sha256 =
    excluded.source_sha256, source_size = excluded.source_size, inputs = excluded.inputs, action =
    excluded.action, status = excluded.status, plan = excluded.plan, view = excluded.view, message =
    excluded.message, outputs = excluded.outputs;

-- name: Components :many
SELECT * FROM components WHERE run = $1 ORDER BY place, name;

-- name: ComponentHashes :many
SELECT name, hash FROM components WHERE run = $1;

-- name: ComponentsInBrief :many
-- Without what is large.
SELECT run, name, place, hash, state_name, state_id, source_object, source_sha256, source_size, inputs, action,
    status, plan, '' AS view, message, '' AS outputs
FROM components WHERE run = $1 ORDER BY place, name;

-- name: Runs :many
SELECT * FROM runs
WHERE org = sqlc.arg(org) AND id < sqlc.arg(before)
    AND (CAST(sqlc.arg(any_status) AS BOOLEAN) OR status IN (
        sqlc.arg(status1), sqlc.arg(status2), sqlc.arg(status3), sqlc.arg(status4), sqlc.arg(status5),
        sqlc.arg(status6), sqlc.arg(status7), sqlc.arg(status8), sqlc.arg(status9), sqlc.arg(status10),
        sqlc.arg(status11)))
    AND (LOWER(stack_name) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!'
        OR LOWER(id) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!')
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: RunsOfStack :many
SELECT * FROM runs
WHERE stack = sqlc.arg(stack) AND org = sqlc.arg(org) AND id < sqlc.arg(before)
    AND (CAST(sqlc.arg(any_status) AS BOOLEAN) OR status IN (
        sqlc.arg(status1), sqlc.arg(status2), sqlc.arg(status3), sqlc.arg(status4), sqlc.arg(status5),
        sqlc.arg(status6), sqlc.arg(status7), sqlc.arg(status8), sqlc.arg(status9), sqlc.arg(status10),
        sqlc.arg(status11)))
    AND (LOWER(stack_name) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!'
        OR LOWER(id) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!')
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: UnfinishedRuns :many
-- Runs, for statuses that are not final: what has ended costs nothing.
SELECT * FROM runs
WHERE org = sqlc.arg(org) AND id < sqlc.arg(before) AND NOT final
    AND (stack = sqlc.arg(stack) OR CAST(sqlc.arg(stack) AS TEXT) = '')
    AND (CAST(sqlc.arg(any_status) AS BOOLEAN) OR status IN (
        sqlc.arg(status1), sqlc.arg(status2), sqlc.arg(status3), sqlc.arg(status4), sqlc.arg(status5),
        sqlc.arg(status6), sqlc.arg(status7), sqlc.arg(status8), sqlc.arg(status9), sqlc.arg(status10),
        sqlc.arg(status11)))
    AND (LOWER(stack_name) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!'
        OR LOWER(id) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!')
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: OpenRuns :many
SELECT id FROM runs WHERE NOT final AND id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(count);

-- name: RunByKey :one
SELECT id FROM runs WHERE stack = sqlc.arg(stack) AND start_key = sqlc.arg(start_key) AND start_key <> '';

-- name: RunAhead :one
SELECT a.id FROM runs a
WHERE a.stack = sqlc.arg(stack) AND NOT a.final AND a.kind <> 'preview'
    AND a.turn < (SELECT r.turn FROM runs r WHERE r.id = sqlc.arg(run))
ORDER BY a.turn LIMIT 1;
