-- name: CountEvent :one
UPDATE runs SET events = events + 1 WHERE id = $1 RETURNING events;

-- name: AppendEvent :exec
INSERT INTO events (run, seq, at, level, type, phase, component, text, person)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: Events :many
SELECT * FROM events WHERE run = sqlc.arg(run) AND seq > sqlc.arg(after) ORDER BY seq LIMIT sqlc.arg(count);

-- name: NextLog :one
SELECT next_log FROM attempts WHERE id = $1;

-- name: MoveLog :exec
UPDATE attempts SET next_log = sqlc.arg(next_log), log_bytes = log_bytes + sqlc.arg(more) WHERE id = sqlc.arg(id);

-- name: AppendLog :exec
INSERT INTO logs (attempt, seq, stage, at, text) VALUES ($1, $2, $3, $4, $5);

-- name: Logs :many
SELECT * FROM logs WHERE attempt = sqlc.arg(attempt) AND seq > sqlc.arg(after) ORDER BY seq LIMIT sqlc.arg(count);
