-- +goose Up

-- Where the bytes are that do not stand in the row: '' in chunks, 'blob' in the object store.
ALTER TABLE objects ADD COLUMN place TEXT COLLATE "binary" NOT NULL DEFAULT '';

-- What is, or may be, in the object store without a row in objects that refers to it: while it is written, and from when
-- its object was deleted until it is gone from there as well.
CREATE TABLE loose_blobs (
    object TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org    TEXT    COLLATE "binary" NOT NULL,
    kind   TEXT    COLLATE "binary" NOT NULL,
    doomed BOOLEAN NOT NULL, -- nothing will ever refer to it
    since  BIGINT  NOT NULL  -- when it was last written to; of a doomed one, when a sweep first saw it, 0 before
);
CREATE INDEX loose_blobs_since ON loose_blobs (doomed, since);
