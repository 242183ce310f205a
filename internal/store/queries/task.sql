-- name: CreateTask :exec
INSERT INTO tasks (id, org, run, place, component, account, kind, status, attempts, created_at, ended_at)
VALUES (sqlc.arg(id), sqlc.arg(org), sqlc.arg(run),
    (SELECT COALESCE(MAX(p.place), 0) + 1 FROM tasks p WHERE p.run = sqlc.arg(run)),
    sqlc.arg(component), sqlc.arg(account), sqlc.arg(kind), sqlc.arg(status), sqlc.arg(attempts),
    sqlc.arg(created_at), sqlc.arg(ended_at));

-- name: Task :one
SELECT * FROM tasks WHERE id = $1;

-- name: UpdateTask :execrows
UPDATE tasks SET status = $1, attempts = $2, ended_at = $3 WHERE id = $4;

-- name: Tasks :many
SELECT * FROM tasks WHERE run = $1 ORDER BY place, id;
