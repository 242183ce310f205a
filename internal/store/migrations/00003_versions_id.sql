-- +goose Up

-- A version is found by its object when the object's data key is wrapped anew.
CREATE INDEX versions_id ON versions (id);
