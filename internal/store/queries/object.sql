-- name: AttachObject :exec
INSERT INTO objects (id, org, kind, key_kind, key_name, key_version, wrapped, size, sealed, sha256, md5, inline,
    chunks, created_at, place)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: Object :one
SELECT * FROM objects WHERE id = $1;

-- name: Head :one
SELECT s.id AS state, v.number, sqlc.embed(o)
FROM states s
JOIN versions v ON v.state_id = s.id AND v.number = s.head
JOIN objects o ON o.id = v.id
WHERE s.org = $1 AND s.name = $2 AND s.deleted_at = 0;

-- name: HasObject :one
SELECT EXISTS (SELECT 1 FROM objects WHERE id = $1);

-- name: DeleteObject :one
DELETE FROM objects WHERE id = $1 RETURNING org, kind, chunks, place;

-- name: DropObject :exec
DELETE FROM objects WHERE id = $1;

-- name: PutChunk :exec
INSERT INTO chunks (object, seq, data) VALUES ($1, $2, $3)
ON CONFLICT (object, seq) DO UPDATE SET data = excluded.data;

-- name: Chunks :many
SELECT data FROM chunks WHERE object = sqlc.arg(object) AND seq >= sqlc.arg(first) AND seq < sqlc.arg(until) ORDER BY seq;

-- name: CountChunks :one
SELECT COUNT(*) FROM chunks WHERE object = sqlc.arg(object) AND seq < sqlc.arg(chunks);

-- name: DeleteChunks :exec
DELETE FROM chunks WHERE object = $1;

-- name: DeleteSomeChunks :execrows
DELETE FROM chunks
WHERE chunks.object = sqlc.arg(object) AND chunks.seq IN (
    SELECT c.seq FROM chunks c WHERE c.object = sqlc.arg(object) ORDER BY c.seq LIMIT sqlc.arg(count));

-- name: Stage :exec
INSERT INTO staged (object, staged_at) VALUES ($1, $2)
ON CONFLICT (object) DO UPDATE SET staged_at = excluded.staged_at;

-- name: Unstage :execrows
DELETE FROM staged WHERE object = $1;
