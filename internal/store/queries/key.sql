-- name: ObjectKeys :many
SELECT id, org, kind, key_kind, key_name, key_version, wrapped FROM objects
WHERE id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(count);

-- name: RewrapObject :execrows
UPDATE objects SET key_kind = sqlc.arg(key_kind), key_name = sqlc.arg(key_name), key_version = sqlc.arg(key_version),
    wrapped = sqlc.arg(wrapped)
WHERE id = sqlc.arg(id) AND wrapped = sqlc.arg(before);

-- name: RewrapVersion :exec
UPDATE versions SET key_kind = $1, key_name = $2, key_version = $3 WHERE id = $4;

-- name: KeyUses :many
SELECT key_kind, key_name, key_version, COUNT(*) AS objects FROM objects
GROUP BY key_kind, key_name, key_version ORDER BY key_kind, key_name, key_version;
