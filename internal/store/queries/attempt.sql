-- name: CreateAttempt :exec
INSERT INTO attempts (id, org, task, run, place, component, task_kind, number, agent, agent_name, status,
    final, sign_at, stage, progress, offered_at, accepted_at, heartbeat_at, ended_at, class, message,
    partial_apply, report, next_log, log_bytes)
VALUES (sqlc.arg(id), sqlc.arg(org), sqlc.arg(task), sqlc.arg(run), (SELECT COALESCE(MAX(p.place), 0) + 1 FROM
    attempts p WHERE p.run = sqlc.arg(run)), sqlc.arg(component), sqlc.arg(task_kind), sqlc.arg(number),
    sqlc.arg(agent), sqlc.arg(agent_name), sqlc.arg(status), sqlc.arg(final), sqlc.arg(sign_at),
    sqlc.arg(stage), sqlc.arg(progress), sqlc.arg(offered_at), sqlc.arg(accepted_at), sqlc.arg(heartbeat_at),
    sqlc.arg(ended_at), sqlc.arg(class), sqlc.arg(message), sqlc.arg(partial_apply), sqlc.arg(report),
    sqlc.arg(next_log), sqlc.arg(log_bytes));

-- name: Attempt :one
SELECT * FROM attempts WHERE id = $1;

-- name: UpdateAttempt :execrows
-- Without next_log and log_bytes, which only stored logs move.
UPDATE attempts SET agent = $1, agent_name = $2, status = $3, final = $4, sign_at = $5, stage = $6, progress =
    $7, offered_at = $8, accepted_at = $9, heartbeat_at = $10, ended_at = $11, class = $12, message = $13,
    partial_apply = $14, report = $15
WHERE id = $16;

-- name: AttemptsOfRun :many
SELECT * FROM attempts WHERE run = $1 ORDER BY place, id;

-- name: AttemptsOfTask :many
SELECT * FROM attempts WHERE task = $1 ORDER BY number;

-- name: StaleAttempts :many
SELECT id FROM attempts WHERE NOT final AND sign_at < sqlc.arg(before) ORDER BY sign_at, id LIMIT sqlc.arg(count);
