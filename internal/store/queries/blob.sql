-- name: StageBlob :exec
INSERT INTO loose_blobs (object, org, kind, doomed, since) VALUES ($1, $2, $3, FALSE, $4);

-- name: TouchBlob :execrows
UPDATE loose_blobs SET since = $2 WHERE object = $1 AND NOT doomed;

-- name: UnstageBlob :execrows
DELETE FROM loose_blobs WHERE object = $1 AND NOT doomed;

-- name: DoomBlob :exec
UPDATE loose_blobs SET doomed = TRUE, since = 0 WHERE object = $1 AND NOT doomed;

-- name: AddDoomedBlob :exec
INSERT INTO loose_blobs (object, org, kind, doomed, since) VALUES ($1, $2, $3, TRUE, 0);

-- name: DoomStaleBlobs :exec
UPDATE loose_blobs SET doomed = TRUE, since = 0
WHERE NOT loose_blobs.doomed AND loose_blobs.since < sqlc.arg(before) AND loose_blobs.object IN (
    SELECT b.object FROM loose_blobs b WHERE b.doomed = FALSE AND b.since < sqlc.arg(before) ORDER BY b.since LIMIT sqlc.arg(count));

-- name: StampDoomedBlobs :exec
UPDATE loose_blobs SET since = $1 WHERE doomed = TRUE AND since = 0;

-- name: DoomedBlobs :many
SELECT object, org, kind FROM loose_blobs
WHERE doomed AND since > 0 AND since < sqlc.arg(before) AND object > sqlc.arg(after)
ORDER BY object LIMIT sqlc.arg(count);

-- name: ForgetBlob :exec
DELETE FROM loose_blobs WHERE object = $1 AND doomed;
