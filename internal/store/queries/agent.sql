-- name: CreateAgent :exec
INSERT INTO agents (id, org, account, name, version, capabilities, sealing_key, created_at, registered_at,
    last_seen_at, draining, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: Agent :one
SELECT * FROM agents WHERE id = $1 AND org = $2;

-- name: UpdateAgent :execrows
UPDATE agents SET name = sqlc.arg(name), version = sqlc.arg(version), capabilities = sqlc.arg(capabilities),
    sealing_key = sqlc.arg(sealing_key), registered_at = sqlc.arg(registered_at), last_seen_at = sqlc.arg(last_seen_at),
    draining = sqlc.arg(draining),
    revoked_at = CASE WHEN revoked_at <> 0 THEN revoked_at ELSE sqlc.arg(revoked_at) END
WHERE id = sqlc.arg(id) AND org = sqlc.arg(org);

-- name: Agents :many
SELECT * FROM agents
WHERE org = sqlc.arg(org) AND (name, id) > (sqlc.arg(after_name), sqlc.arg(after_id))
ORDER BY name, id LIMIT sqlc.arg(count);
