-- +goose Up

-- The resources of each state's current document, by name: their values stay sealed in the document. A row is not
-- written while the list of the state stays what it is, which resources_hash says; '' is a list that was not made yet.
ALTER TABLE states ADD COLUMN resources_hash TEXT COLLATE "binary" NOT NULL DEFAULT '';
ALTER TABLE states ADD COLUMN resources_truncated BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX states_unlisted ON states (id) WHERE resources_hash = '';

CREATE TABLE state_resources (
    state_id  TEXT   COLLATE "binary" NOT NULL REFERENCES states (id),
    address   TEXT   COLLATE "binary" NOT NULL,
    org       TEXT   COLLATE "binary" NOT NULL,
    module    TEXT   COLLATE "binary" NOT NULL,
    mode      TEXT   COLLATE "binary" NOT NULL,
    type      TEXT   COLLATE "binary" NOT NULL,
    name      TEXT   COLLATE "binary" NOT NULL,
    provider  TEXT   COLLATE "binary" NOT NULL,
    instances BIGINT NOT NULL,
    PRIMARY KEY (state_id, address)
);
-- A search looks at addresses and providers alone until it has found something, so the index holds both.
CREATE INDEX state_resources_search ON state_resources (org, address, state_id, provider);
CREATE INDEX state_resources_type ON state_resources (org, type, address, state_id, provider);
