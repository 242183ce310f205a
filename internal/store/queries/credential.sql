-- name: Credential :one
-- Asked with every request, so it reads no more than an actor is made of.
SELECT sqlc.embed(t),
    COALESCE(u.id, g.id, a.id, '') AS owner, COALESCE(u.name, g.name, a.agent_name, '') AS owner_name,
    COALESCE(u.role, '') AS role, COALESCE(u.platform_admin, FALSE) AS platform_admin,
    COALESCE(u.disabled_at, 0) AS disabled_at, COALESCE(g.account, '') AS account,
    COALESCE(a.run, '') AS run, COALESCE(a.task, '') AS task,
    CAST(COALESCE((SELECT string_agg(p.permission || ' ' || p.role, ',') FROM permissions p WHERE p.org = t.org), '') AS TEXT) AS allocation
FROM tokens t
LEFT JOIN users u ON u.id = t.user_id
LEFT JOIN agents g ON g.id = t.agent
LEFT JOIN attempts a ON a.id = t.attempt
WHERE t.hash = $1;

-- name: CreateToken :exec
INSERT INTO tokens (id, org, name, hash, user_id, agent, attempt, state_id, read_only, created_at, expires_at,
    revoked_at, last_used_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: Token :one
SELECT * FROM tokens WHERE id = $1 AND org = $2;

-- name: RevokeToken :execrows
UPDATE tokens SET revoked_at = CASE WHEN revoked_at = 0 THEN sqlc.arg(at) ELSE revoked_at END WHERE id = sqlc.arg(id);

-- name: EndAgentTokens :exec
UPDATE tokens SET revoked_at = sqlc.arg(at) WHERE agent = sqlc.arg(agent) AND agent <> '' AND revoked_at = 0;

-- name: EndAttemptTokens :exec
UPDATE tokens SET revoked_at = sqlc.arg(at) WHERE attempt = sqlc.arg(attempt) AND attempt <> '' AND revoked_at = 0;

-- name: TouchToken :exec
UPDATE tokens SET last_used_at = sqlc.arg(at) WHERE id = sqlc.arg(id) AND last_used_at < sqlc.arg(at);

-- name: Tokens :many
SELECT * FROM tokens
WHERE org = sqlc.arg(org) AND user_id <> '' AND id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);

-- name: TokensOfUser :many
SELECT * FROM tokens
WHERE user_id = sqlc.arg(user_id) AND user_id <> '' AND org = sqlc.arg(org) AND id < sqlc.arg(before)
ORDER BY id DESC LIMIT sqlc.arg(count);
