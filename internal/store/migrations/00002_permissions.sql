-- +goose Up

-- What the administrators of an organization have changed of the roles' permissions; without a row a permission is as
-- it comes. role is a role or 'disabled'.
CREATE TABLE permissions (
    org        TEXT COLLATE "binary" NOT NULL REFERENCES organizations (id),
    permission TEXT COLLATE "binary" NOT NULL,
    role       TEXT COLLATE "binary" NOT NULL,
    PRIMARY KEY (org, permission)
);
