-- name: Allocation :one
-- As in the queries of what an actor is made of, which read it with every request.
SELECT CAST(COALESCE(string_agg(permission || ' ' || role, ','), '') AS TEXT) AS allocation FROM permissions WHERE org = $1;

-- name: Allocate :exec
INSERT INTO permissions (org, permission, role) VALUES ($1, $2, $3)
ON CONFLICT (org, permission) DO UPDATE SET role = excluded.role;
