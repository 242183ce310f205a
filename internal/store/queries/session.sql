-- name: CreateSession :exec
INSERT INTO sessions (hash, user_id, org, created_at, expires_at) VALUES ($1, $2, $3, $4, $5);

-- name: Session :one
SELECT sqlc.embed(sessions), sqlc.embed(users),
    CAST(COALESCE((SELECT string_agg(p.permission || ' ' || p.role, ',') FROM permissions p WHERE p.org = sessions.org), '') AS TEXT) AS allocation
FROM sessions JOIN users ON users.id = sessions.user_id
WHERE sessions.hash = $1;

-- name: DeleteSession :exec
DELETE FROM sessions WHERE hash = $1;

-- name: SweepSessions :exec
DELETE FROM sessions WHERE expires_at < $1;

-- name: CreateSignInLink :exec
INSERT INTO sign_in_links (hash, user_id, expires_at, used_at) VALUES ($1, $2, $3, $4);

-- name: UseSignInLink :one
UPDATE sign_in_links SET used_at = sqlc.arg(now)
WHERE hash = sqlc.arg(hash) AND used_at = 0 AND expires_at > sqlc.arg(now)
RETURNING *;

-- name: SweepSignInLinks :exec
DELETE FROM sign_in_links WHERE expires_at < $1;
