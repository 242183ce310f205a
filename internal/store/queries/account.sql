-- name: CreateAccount :exec
INSERT INTO accounts (id, org, name, enabled, created_at) VALUES ($1, $2, $3, $4, $5);

-- name: Account :one
SELECT * FROM accounts WHERE org = $1 AND name = $2;

-- name: AccountByID :one
SELECT * FROM accounts WHERE id = $1;

-- name: Accounts :many
SELECT * FROM accounts WHERE org = sqlc.arg(org) AND name > sqlc.arg(after) ORDER BY name LIMIT sqlc.arg(count);

-- name: SetAccountEnabled :execrows
UPDATE accounts SET enabled = $1 WHERE id = $2;
