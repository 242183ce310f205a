-- name: InsertVersion :execrows
INSERT INTO versions (id, state_id, number, serial, serial_known, lineage, size, sha256, md5, source, encrypted,
    quarantined, terraform, key_kind, key_name, key_version, created_at, made_by, lock_key, lock_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (state_id, number) DO NOTHING;

-- name: AddVersion :exec
INSERT INTO versions (id, state_id, number, serial, serial_known, lineage, size, sha256, md5, source, encrypted,
    quarantined, terraform, key_kind, key_name, key_version, created_at, made_by, lock_key, lock_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20);

-- name: OpenVersion :one
-- The object of a version that may still be replaced: the lock it was written under is held.
SELECT v.id, COALESCE(o.chunks, 0) AS chunks, COALESCE(o.place, '') AS place, COALESCE(o.org, '') AS org,
    COALESCE(o.kind, '') AS kind
FROM versions v JOIN states s ON s.id = v.state_id LEFT JOIN objects o ON o.id = v.id
WHERE v.state_id = sqlc.arg(state_id) AND v.number = sqlc.arg(number)
    AND v.lock_key = sqlc.arg(lock_key) AND s.lock_key = sqlc.arg(lock_key) AND v.lock_key <> '';

-- name: ReplaceVersion :exec
UPDATE versions SET id = $1, serial = $2, serial_known = $3, lineage = $4, size = $5, sha256 = $6, md5 = $7,
    source = $8, encrypted = $9, quarantined = $10, terraform = $11, key_kind = $12, key_name = $13,
    key_version = $14, created_at = $15, made_by = $16, lock_id = $17
WHERE state_id = $18 AND number = $19;

-- name: Version :one
SELECT * FROM versions WHERE state_id = $1 AND number = $2;

-- name: Versions :many
SELECT * FROM versions
WHERE state_id = sqlc.arg(state_id) AND number < sqlc.arg(before)
ORDER BY number DESC LIMIT sqlc.arg(count);

-- name: QuarantinedVersions :many
SELECT * FROM versions
WHERE state_id = sqlc.arg(state_id) AND number < sqlc.arg(before) AND quarantined
ORDER BY number DESC LIMIT sqlc.arg(count);

-- name: VersionBefore :one
SELECT number FROM versions
WHERE state_id = sqlc.arg(state_id) AND number < sqlc.arg(number) AND NOT quarantined
ORDER BY number DESC LIMIT 1;

-- name: DeleteVersion :one
DELETE FROM versions WHERE state_id = $1 AND number = $2 RETURNING id;

-- name: DropVersion :exec
DELETE FROM versions WHERE state_id = $1 AND number = $2;

-- name: VersionsBeyond :many
SELECT v.id, COALESCE(o.chunks, 0) AS chunks, COALESCE(o.place, '') AS place, COALESCE(o.org, '') AS org,
    COALESCE(o.kind, '') AS kind, v.number
FROM versions v LEFT JOIN objects o ON o.id = v.id
WHERE v.state_id = sqlc.arg(state_id) AND NOT v.quarantined
    AND v.number <> (SELECT s.head FROM states s WHERE s.id = sqlc.arg(state_id))
    AND v.number <= (SELECT k.number FROM versions k WHERE k.state_id = sqlc.arg(state_id) AND NOT k.quarantined
        ORDER BY k.number DESC LIMIT 1 OFFSET sqlc.arg(keep))
ORDER BY v.number LIMIT sqlc.arg(count);
