-- name: Setting :one
SELECT value FROM settings WHERE key = $1;

-- name: CreateSetting :exec
INSERT INTO settings (key, value) VALUES ($1, $2);
