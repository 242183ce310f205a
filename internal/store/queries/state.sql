-- name: State :one
SELECT sqlc.embed(s),
    COALESCE(v.id, '') AS id, COALESCE(v.serial, 0) AS serial, COALESCE(v.serial_known, FALSE) AS serial_known,
    COALESCE(v.lineage, '') AS lineage, COALESCE(v.size, 0) AS size, COALESCE(v.sha256, '') AS sha256,
    COALESCE(v.md5, '') AS md5, COALESCE(v.source, '') AS source, COALESCE(v.encrypted, FALSE) AS encrypted,
    COALESCE(v.quarantined, FALSE) AS quarantined, COALESCE(v.terraform, '') AS terraform,
    COALESCE(v.key_kind, '') AS key_kind, COALESCE(v.key_name, '') AS key_name,
    COALESCE(v.key_version, '') AS key_version, COALESCE(v.created_at, 0) AS created_at,
    COALESCE(v.made_by, '') AS made_by, COALESCE(v.lock_key, '') AS lock_key, COALESCE(v.lock_id, '') AS lock_id
FROM states s LEFT JOIN versions v ON v.state_id = s.id AND v.number = s.head
WHERE s.org = $1 AND s.name = $2;

-- name: StateByID :one
SELECT sqlc.embed(s),
    COALESCE(v.id, '') AS id, COALESCE(v.serial, 0) AS serial, COALESCE(v.serial_known, FALSE) AS serial_known,
    COALESCE(v.lineage, '') AS lineage, COALESCE(v.size, 0) AS size, COALESCE(v.sha256, '') AS sha256,
    COALESCE(v.md5, '') AS md5, COALESCE(v.source, '') AS source, COALESCE(v.encrypted, FALSE) AS encrypted,
    COALESCE(v.quarantined, FALSE) AS quarantined, COALESCE(v.terraform, '') AS terraform,
    COALESCE(v.key_kind, '') AS key_kind, COALESCE(v.key_name, '') AS key_name,
    COALESCE(v.key_version, '') AS key_version, COALESCE(v.created_at, 0) AS created_at,
    COALESCE(v.made_by, '') AS made_by, COALESCE(v.lock_key, '') AS lock_key, COALESCE(v.lock_id, '') AS lock_id
FROM states s LEFT JOIN versions v ON v.state_id = s.id AND v.number = s.head
WHERE s.id = $1;

-- name: States :many
SELECT sqlc.embed(s),
    COALESCE(v.id, '') AS id, COALESCE(v.serial, 0) AS serial, COALESCE(v.serial_known, FALSE) AS serial_known,
    COALESCE(v.lineage, '') AS lineage, COALESCE(v.size, 0) AS size, COALESCE(v.sha256, '') AS sha256,
    COALESCE(v.md5, '') AS md5, COALESCE(v.source, '') AS source, COALESCE(v.encrypted, FALSE) AS encrypted,
    COALESCE(v.quarantined, FALSE) AS quarantined, COALESCE(v.terraform, '') AS terraform,
    COALESCE(v.key_kind, '') AS key_kind, COALESCE(v.key_name, '') AS key_name,
    COALESCE(v.key_version, '') AS key_version, COALESCE(v.created_at, 0) AS created_at,
    COALESCE(v.made_by, '') AS made_by, COALESCE(v.lock_key, '') AS lock_key, COALESCE(v.lock_id, '') AS lock_id
FROM states s LEFT JOIN versions v ON v.state_id = s.id AND v.number = s.head
WHERE s.org = sqlc.arg(org) AND s.name > sqlc.arg(after)
    AND (s.deleted_at <> 0) = CAST(sqlc.arg(deleted) AS BOOLEAN)
    AND (NOT CAST(sqlc.arg(locked) AS BOOLEAN) OR s.lock_key <> '')
    AND (NOT CAST(sqlc.arg(held) AS BOOLEAN) OR s.hold_run <> '')
    AND (NOT CAST(sqlc.arg(encrypted) AS BOOLEAN) OR v.encrypted)
    AND LOWER(s.name) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!'
ORDER BY s.name LIMIT sqlc.arg(count);

-- name: CreateState :exec
INSERT INTO states (id, org, name, created_at, updated_at, deleted_at, versions, head, lock_key, lock_info,
    lock_holder, lock_taken_at, hold_run, hold_since)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: UpdateState :execrows
UPDATE states SET updated_at = $1, deleted_at = $2, versions = $3, head = $4, lock_key = $5, lock_info = $6,
    lock_holder = $7, lock_taken_at = $8, hold_run = $9, hold_since = $10
WHERE id = $11;

-- name: PurgeState :execrows
DELETE FROM states WHERE id = $1;
