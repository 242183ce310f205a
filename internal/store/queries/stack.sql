-- name: PutStack :one
INSERT INTO stacks (id, org, name, account, production, approval, hold, created_at, updated_at, deleted_at,
    last_run, runs)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, '', 0)
ON CONFLICT (org, name) WHERE deleted_at = 0 DO UPDATE
SET account = excluded.account, production = excluded.production, approval = excluded.approval,
    hold = excluded.hold, updated_at = excluded.updated_at
RETURNING *;

-- name: Stack :one
SELECT * FROM stacks WHERE org = $1 AND name = $2 AND deleted_at = 0;

-- name: Stacks :many
SELECT * FROM stacks
WHERE org = sqlc.arg(org) AND deleted_at = 0 AND name > sqlc.arg(after)
    AND LOWER(name) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!'
ORDER BY name LIMIT sqlc.arg(count);

-- name: DeleteStack :execrows
UPDATE stacks SET deleted_at = sqlc.arg(at), updated_at = sqlc.arg(at) WHERE id = sqlc.arg(id) AND deleted_at = 0;

-- name: CountRun :one
UPDATE stacks SET last_run = sqlc.arg(run), runs = runs + 1 WHERE id = sqlc.arg(id) RETURNING runs;
