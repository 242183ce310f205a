-- name: AuditTail :one
SELECT * FROM audit WHERE org = $1 ORDER BY seq DESC LIMIT 1;

-- name: AppendAudit :exec
INSERT INTO audit (org, seq, at, actor_kind, actor_id, actor_name, token, action, object, data, request_id, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: Audit :many
SELECT * FROM audit
WHERE org = sqlc.arg(org) AND seq < sqlc.arg(before)
    AND (CAST(sqlc.arg(action) AS TEXT) = '' OR action = sqlc.arg(action))
    AND SUBSTR(action, 1, LENGTH(CAST(sqlc.arg(prefix) AS TEXT))) = CAST(sqlc.arg(prefix) AS TEXT)
    AND (CAST(sqlc.arg(actor) AS TEXT) = '' OR actor_id = sqlc.arg(actor))
ORDER BY seq DESC LIMIT sqlc.arg(count);

-- name: AuditOfObject :many
SELECT * FROM audit
WHERE org = sqlc.arg(org) AND object = sqlc.arg(object) AND seq < sqlc.arg(before)
    AND (CAST(sqlc.arg(action) AS TEXT) = '' OR action = sqlc.arg(action))
    AND SUBSTR(action, 1, LENGTH(CAST(sqlc.arg(prefix) AS TEXT))) = CAST(sqlc.arg(prefix) AS TEXT)
    AND (CAST(sqlc.arg(actor) AS TEXT) = '' OR actor_id = sqlc.arg(actor))
ORDER BY seq DESC LIMIT sqlc.arg(count);

-- name: AuditFrom :many
SELECT * FROM audit WHERE org = sqlc.arg(org) AND seq >= sqlc.arg(first) ORDER BY seq LIMIT sqlc.arg(count);
