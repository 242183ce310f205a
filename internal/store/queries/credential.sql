-- name: Credential :one
SELECT sqlc.embed(t),
    COALESCE(u.id, '') AS user_id, COALESCE(u.org, '') AS user_org, COALESCE(u.name, '') AS user_name,
    COALESCE(u.service, FALSE) AS user_service, COALESCE(u.role, '') AS user_role,
    COALESCE(u.platform_admin, FALSE) AS user_platform_admin, COALESCE(u.created_at, 0) AS user_created_at,
    COALESCE(u.disabled_at, 0) AS user_disabled_at,
    COALESCE(g.id, '') AS agent_id, COALESCE(g.org, '') AS agent_org, COALESCE(g.account, '') AS agent_account,
    COALESCE(g.name, '') AS agent_name, COALESCE(g.version, '') AS agent_version,
    COALESCE(g.capabilities, '') AS agent_capabilities, COALESCE(g.sealing_key, '') AS agent_sealing_key,
    COALESCE(g.created_at, 0) AS agent_created_at, COALESCE(g.registered_at, 0) AS agent_registered_at,
    COALESCE(g.last_seen_at, 0) AS agent_last_seen_at, COALESCE(g.draining, FALSE) AS agent_draining,
    COALESCE(g.revoked_at, 0) AS agent_revoked_at,
    COALESCE(c.id, '') AS account_id, COALESCE(c.org, '') AS account_org, COALESCE(c.name, '') AS account_name,
    COALESCE(c.enabled, FALSE) AS account_enabled, COALESCE(c.created_at, 0) AS account_created_at,
    COALESCE(a.id, '') AS attempt_id, COALESCE(a.org, '') AS attempt_org, COALESCE(a.task, '') AS attempt_task,
    COALESCE(a.run, '') AS attempt_run, COALESCE(a.place, 0) AS attempt_place,
    COALESCE(a.component, '') AS attempt_component, COALESCE(a.task_kind, '') AS attempt_task_kind,
    COALESCE(a.number, 0) AS attempt_number, COALESCE(a.agent, '') AS attempt_agent,
    COALESCE(a.agent_name, '') AS attempt_agent_name, COALESCE(a.status, '') AS attempt_status,
    COALESCE(a.final, FALSE) AS attempt_final, COALESCE(a.sign_at, 0) AS attempt_sign_at,
    COALESCE(a.stage, '') AS attempt_stage, COALESCE(a.progress, '') AS attempt_progress,
    COALESCE(a.offered_at, 0) AS attempt_offered_at, COALESCE(a.accepted_at, 0) AS attempt_accepted_at,
    COALESCE(a.heartbeat_at, 0) AS attempt_heartbeat_at, COALESCE(a.ended_at, 0) AS attempt_ended_at,
    COALESCE(a.class, '') AS attempt_class, COALESCE(a.message, '') AS attempt_message,
    COALESCE(a.partial_apply, FALSE) AS attempt_partial_apply, COALESCE(a.report, '') AS attempt_report,
    COALESCE(a.next_log, 0) AS attempt_next_log, COALESCE(a.log_bytes, 0) AS attempt_log_bytes
FROM tokens t
LEFT JOIN users u ON u.id = t.user_id
LEFT JOIN agents g ON g.id = t.agent
LEFT JOIN accounts c ON c.id = g.account
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
