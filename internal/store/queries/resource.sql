-- name: ListedResources :many
SELECT * FROM state_resources WHERE state_id = $1 ORDER BY address;

-- name: DropResources :exec
DELETE FROM state_resources WHERE state_id = $1;

-- name: SetStateResources :execrows
UPDATE states SET resources_hash = $1, resources_truncated = $2 WHERE id = $3;

-- name: UnlistedStates :many
SELECT id FROM states
WHERE resources_hash = '' AND id > sqlc.arg(after) AND head <> 0 AND deleted_at = 0
ORDER BY id LIMIT sqlc.arg(count);

-- name: StateResources :many
SELECT sqlc.embed(r), s.name AS state_name
FROM state_resources r JOIN states s ON s.id = r.state_id
WHERE r.state_id = sqlc.arg(state_id) AND r.address > sqlc.arg(after)
    AND (CAST(sqlc.arg(kind) AS TEXT) = '' OR r.type = sqlc.arg(kind))
    AND (LOWER(r.address) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!' OR LOWER(r.provider) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!')
ORDER BY r.address LIMIT sqlc.arg(count);

-- name: SearchResources :many
SELECT sqlc.embed(r), s.name AS state_name
FROM state_resources r JOIN states s ON s.id = r.state_id
WHERE r.org = sqlc.arg(org) AND (r.address, r.state_id) > (sqlc.arg(address), sqlc.arg(state_id))
    AND (LOWER(r.address) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!' OR LOWER(r.provider) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!')
ORDER BY r.address, r.state_id LIMIT sqlc.arg(count);

-- name: SearchResourcesOfType :many
SELECT sqlc.embed(r), s.name AS state_name
FROM state_resources r JOIN states s ON s.id = r.state_id
WHERE r.org = sqlc.arg(org) AND r.type = sqlc.arg(kind) AND (r.address, r.state_id) > (sqlc.arg(address), sqlc.arg(state_id))
    AND (LOWER(r.address) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!' OR LOWER(r.provider) LIKE CAST(sqlc.arg(pattern) AS TEXT) ESCAPE '!')
ORDER BY r.address, r.state_id LIMIT sqlc.arg(count);
