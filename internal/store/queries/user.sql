-- name: CreateOrganization :exec
INSERT INTO organizations (id, name, created_at) VALUES ($1, $2, $3);

-- name: Organization :one
SELECT * FROM organizations WHERE name = $1;

-- name: Organizations :many
SELECT * FROM organizations WHERE name > sqlc.arg(after) ORDER BY name LIMIT sqlc.arg(count);

-- name: CreateUser :exec
INSERT INTO users (id, org, name, service, role, platform_admin, created_at, disabled_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: User :one
SELECT * FROM users WHERE id = $1 AND org = $2;

-- name: UpdateUser :execrows
UPDATE users SET name = $1, service = $2, role = $3, platform_admin = $4, disabled_at = $5
WHERE id = $6 AND org = $7;

-- name: Users :many
SELECT * FROM users WHERE org = sqlc.arg(org) AND name > sqlc.arg(after) ORDER BY name LIMIT sqlc.arg(count);

-- name: OrganizationByID :one
SELECT * FROM organizations WHERE id = $1;

-- name: UserByID :one
SELECT * FROM users WHERE id = $1;
