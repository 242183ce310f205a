-- +goose Up

-- Times are microseconds since 1970, 0 for none. Texts are never NULL: '' is none. COLLATE "binary" compares and
-- sorts by byte: SQLite has that collation, and on PostgreSQL it is made before the migrations run.

CREATE TABLE settings (
    key   TEXT COLLATE "binary" NOT NULL PRIMARY KEY,
    value TEXT COLLATE "binary" NOT NULL
);

CREATE TABLE organizations (
    id         TEXT   COLLATE "binary" NOT NULL PRIMARY KEY,
    name       TEXT   COLLATE "binary" NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX organizations_name ON organizations (name);

CREATE TABLE users (
    id             TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org            TEXT    COLLATE "binary" NOT NULL REFERENCES organizations (id),
    name           TEXT    COLLATE "binary" NOT NULL,
    service        BOOLEAN NOT NULL,
    role           TEXT    COLLATE "binary" NOT NULL,
    platform_admin BOOLEAN NOT NULL,
    created_at     BIGINT  NOT NULL,
    disabled_at    BIGINT  NOT NULL
);
CREATE UNIQUE INDEX users_name ON users (org, name);

CREATE TABLE accounts (
    id         TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org        TEXT    COLLATE "binary" NOT NULL REFERENCES organizations (id),
    name       TEXT    COLLATE "binary" NOT NULL,
    enabled    BOOLEAN NOT NULL,
    created_at BIGINT  NOT NULL
);
CREATE UNIQUE INDEX accounts_name ON accounts (org, name);

CREATE TABLE agents (
    id            TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org           TEXT    COLLATE "binary" NOT NULL REFERENCES organizations (id),
    account       TEXT    COLLATE "binary" NOT NULL REFERENCES accounts (id),
    name          TEXT    COLLATE "binary" NOT NULL,
    version       TEXT    COLLATE "binary" NOT NULL,
    capabilities  TEXT    COLLATE "binary" NOT NULL, -- a JSON list
    sealing_key   TEXT    COLLATE "binary" NOT NULL,
    created_at    BIGINT  NOT NULL,
    registered_at BIGINT  NOT NULL,
    last_seen_at  BIGINT  NOT NULL,
    draining      BOOLEAN NOT NULL,
    revoked_at    BIGINT  NOT NULL
);
CREATE INDEX agents_list ON agents (org, name, id);
-- A revoked agent gives its name free.
CREATE UNIQUE INDEX agents_name ON agents (org, name) WHERE revoked_at = 0;

CREATE TABLE tokens (
    id           TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org          TEXT    COLLATE "binary" NOT NULL REFERENCES organizations (id),
    name         TEXT    COLLATE "binary" NOT NULL,
    hash         TEXT    COLLATE "binary" NOT NULL,
    user_id      TEXT    COLLATE "binary" NOT NULL,
    agent        TEXT    COLLATE "binary" NOT NULL,
    attempt      TEXT    COLLATE "binary" NOT NULL,
    state_id     TEXT    COLLATE "binary" NOT NULL,
    read_only    BOOLEAN NOT NULL,
    created_at   BIGINT  NOT NULL,
    expires_at   BIGINT  NOT NULL,
    revoked_at   BIGINT  NOT NULL,
    last_used_at BIGINT  NOT NULL
);
CREATE UNIQUE INDEX tokens_hash ON tokens (hash);
CREATE INDEX tokens_personal ON tokens (org, id) WHERE user_id <> '';
CREATE INDEX tokens_user ON tokens (user_id, id) WHERE user_id <> '';
CREATE INDEX tokens_agent ON tokens (agent) WHERE agent <> '';
CREATE INDEX tokens_attempt ON tokens (attempt) WHERE attempt <> '';

CREATE TABLE sessions (
    hash       TEXT   COLLATE "binary" NOT NULL PRIMARY KEY,
    user_id    TEXT   COLLATE "binary" NOT NULL REFERENCES users (id),
    org        TEXT   COLLATE "binary" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_expires ON sessions (expires_at);

CREATE TABLE sign_in_links (
    hash       TEXT   COLLATE "binary" NOT NULL PRIMARY KEY,
    user_id    TEXT   COLLATE "binary" NOT NULL REFERENCES users (id),
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX sign_in_links_expires ON sign_in_links (expires_at);

CREATE TABLE states (
    id            TEXT   COLLATE "binary" NOT NULL PRIMARY KEY,
    org           TEXT   COLLATE "binary" NOT NULL REFERENCES organizations (id),
    name          TEXT   COLLATE "binary" NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    deleted_at    BIGINT NOT NULL,
    versions      BIGINT NOT NULL,
    head          BIGINT NOT NULL, -- number of a version, 0 without one
    lock_key      TEXT   COLLATE "binary" NOT NULL, -- '' where not locked
    lock_info     TEXT   COLLATE "binary" NOT NULL, -- JSON
    lock_holder   TEXT   COLLATE "binary" NOT NULL, -- JSON
    lock_taken_at BIGINT NOT NULL,
    hold_run      TEXT   COLLATE "binary" NOT NULL, -- '' where not held
    hold_since    BIGINT NOT NULL
);
CREATE UNIQUE INDEX states_name ON states (org, name);

CREATE TABLE versions (
    id           TEXT    COLLATE "binary" NOT NULL, -- also of the object with its bytes
    state_id     TEXT    COLLATE "binary" NOT NULL REFERENCES states (id),
    number       BIGINT  NOT NULL,
    serial       BIGINT  NOT NULL, -- the 64 bits of an unsigned number
    serial_known BOOLEAN NOT NULL,
    lineage      TEXT    COLLATE "binary" NOT NULL,
    size         BIGINT  NOT NULL,
    sha256       TEXT    COLLATE "binary" NOT NULL,
    md5          TEXT    COLLATE "binary" NOT NULL,
    source       TEXT    COLLATE "binary" NOT NULL,
    encrypted    BOOLEAN NOT NULL,
    quarantined  BOOLEAN NOT NULL,
    terraform    TEXT    COLLATE "binary" NOT NULL,
    key_kind     TEXT    COLLATE "binary" NOT NULL,
    key_name     TEXT    COLLATE "binary" NOT NULL,
    key_version  TEXT    COLLATE "binary" NOT NULL,
    created_at   BIGINT  NOT NULL,
    made_by      TEXT    COLLATE "binary" NOT NULL, -- JSON
    lock_key     TEXT    COLLATE "binary" NOT NULL,
    lock_id      TEXT    COLLATE "binary" NOT NULL,
    PRIMARY KEY (state_id, number)
);
CREATE INDEX versions_quarantined ON versions (state_id, number) WHERE quarantined;

CREATE TABLE objects (
    id          TEXT   COLLATE "binary" NOT NULL PRIMARY KEY,
    org         TEXT   COLLATE "binary" NOT NULL,
    kind        TEXT   COLLATE "binary" NOT NULL,
    key_kind    TEXT   COLLATE "binary" NOT NULL,
    key_name    TEXT   COLLATE "binary" NOT NULL,
    key_version TEXT   COLLATE "binary" NOT NULL,
    wrapped     BYTEA  NOT NULL,
    size        BIGINT NOT NULL,
    sealed      BIGINT NOT NULL,
    sha256      TEXT   COLLATE "binary" NOT NULL,
    md5         TEXT   COLLATE "binary" NOT NULL,
    inline      BYTEA  NOT NULL, -- empty where the bytes are in chunks
    chunks      BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);

CREATE TABLE chunks (
    object TEXT   COLLATE "binary" NOT NULL,
    seq    BIGINT NOT NULL,
    data   BYTEA  NOT NULL,
    PRIMARY KEY (object, seq)
);

-- Objects with chunks that are not attached yet. Apart from the chunks, so that attaching rewrites no large row
-- and the sweep reads only what it may delete.
CREATE TABLE staged (
    object    TEXT   COLLATE "binary" NOT NULL PRIMARY KEY,
    staged_at BIGINT NOT NULL
);
CREATE INDEX staged_age ON staged (staged_at);

CREATE TABLE stacks (
    id         TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org        TEXT    COLLATE "binary" NOT NULL REFERENCES organizations (id),
    name       TEXT    COLLATE "binary" NOT NULL,
    account    TEXT    COLLATE "binary" NOT NULL REFERENCES accounts (id),
    production BOOLEAN NOT NULL,
    approval   TEXT    COLLATE "binary" NOT NULL,
    hold       BOOLEAN NOT NULL,
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL,
    deleted_at BIGINT  NOT NULL,
    last_run   TEXT    COLLATE "binary" NOT NULL,
    runs       BIGINT  NOT NULL -- how many runs were ever made
);
-- A deleted stack gives its name free.
CREATE UNIQUE INDEX stacks_name ON stacks (org, name) WHERE deleted_at = 0;

CREATE TABLE runs (
    id                TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org               TEXT    COLLATE "binary" NOT NULL,
    stack             TEXT    COLLATE "binary" NOT NULL REFERENCES stacks (id),
    turn              BIGINT  NOT NULL, -- counts the runs of the stack: ids of two servers need not sort by time
    stack_name        TEXT    COLLATE "binary" NOT NULL,
    account           TEXT    COLLATE "binary" NOT NULL,
    kind              TEXT    COLLATE "binary" NOT NULL,
    status            TEXT    COLLATE "binary" NOT NULL,
    final             BOOLEAN NOT NULL, -- by status, so that an index can leave the ended ones out
    risk              TEXT    COLLATE "binary" NOT NULL,
    plan_digest       TEXT    COLLATE "binary" NOT NULL,
    approval_policy   TEXT    COLLATE "binary" NOT NULL,
    approval_required BOOLEAN NOT NULL,
    approval_reason   TEXT    COLLATE "binary" NOT NULL,
    approval_status   TEXT    COLLATE "binary" NOT NULL,
    approval_digest   TEXT    COLLATE "binary" NOT NULL,
    approval_by       TEXT    COLLATE "binary" NOT NULL,
    approval_by_name  TEXT    COLLATE "binary" NOT NULL,
    approval_at       BIGINT  NOT NULL,
    production        BOOLEAN NOT NULL,
    hold              BOOLEAN NOT NULL,
    created_by        TEXT    COLLATE "binary" NOT NULL, -- JSON
    created_at        BIGINT  NOT NULL,
    ended_at          BIGINT  NOT NULL,
    class             TEXT    COLLATE "binary" NOT NULL,
    partial_apply     BOOLEAN NOT NULL,
    message           TEXT    COLLATE "binary" NOT NULL,
    cancel_asked      BOOLEAN NOT NULL,
    waits_for         TEXT    COLLATE "binary" NOT NULL,
    start_key         TEXT    COLLATE "binary" NOT NULL,
    events            BIGINT  NOT NULL -- the last event's seq
);
CREATE UNIQUE INDEX runs_key ON runs (stack, start_key) WHERE start_key <> '';
CREATE INDEX runs_list ON runs (org, id);
CREATE INDEX runs_stack ON runs (stack, id);
CREATE INDEX runs_open ON runs (id) WHERE NOT final;
CREATE INDEX runs_open_list ON runs (org, id) WHERE NOT final;
CREATE INDEX runs_ahead ON runs (stack, turn) WHERE NOT final;

CREATE TABLE components (
    run           TEXT   COLLATE "binary" NOT NULL REFERENCES runs (id),
    name          TEXT   COLLATE "binary" NOT NULL,
    place         BIGINT NOT NULL, -- in the run's list
    hash          TEXT   COLLATE "binary" NOT NULL, -- of all that is below: tells what an update may leave alone
    state_name    TEXT   COLLATE "binary" NOT NULL,
    state_id      TEXT   COLLATE "binary" NOT NULL,
    source_object TEXT   COLLATE "binary" NOT NULL,
    source_sha256 TEXT   COLLATE "binary" NOT NULL,
    source_size   BIGINT NOT NULL,
    inputs        TEXT   COLLATE "binary" NOT NULL, -- JSON
    action        TEXT   COLLATE "binary" NOT NULL,
    status        TEXT   COLLATE "binary" NOT NULL,
    plan          TEXT   COLLATE "binary" NOT NULL, -- JSON without the view; '' before the plan
    view          TEXT   COLLATE "binary" NOT NULL, -- JSON
    message       TEXT   COLLATE "binary" NOT NULL,
    outputs       TEXT   COLLATE "binary" NOT NULL, -- JSON
    PRIMARY KEY (run, name)
);

CREATE TABLE events (
    run       TEXT   COLLATE "binary" NOT NULL REFERENCES runs (id),
    seq       BIGINT NOT NULL,
    at        BIGINT NOT NULL,
    level     TEXT   COLLATE "binary" NOT NULL,
    type      TEXT   COLLATE "binary" NOT NULL,
    phase     TEXT   COLLATE "binary" NOT NULL,
    component TEXT   COLLATE "binary" NOT NULL,
    text      TEXT   COLLATE "binary" NOT NULL,
    person    TEXT   COLLATE "binary" NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE tasks (
    id         TEXT   COLLATE "binary" NOT NULL PRIMARY KEY,
    org        TEXT   COLLATE "binary" NOT NULL,
    run        TEXT   COLLATE "binary" NOT NULL REFERENCES runs (id),
    place      BIGINT NOT NULL, -- rises within the run: ids of one millisecond do not sort by making
    component  TEXT   COLLATE "binary" NOT NULL,
    account    TEXT   COLLATE "binary" NOT NULL,
    kind       TEXT   COLLATE "binary" NOT NULL,
    status     TEXT   COLLATE "binary" NOT NULL,
    attempts   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL
);
CREATE INDEX tasks_run ON tasks (run, place, id);
CREATE INDEX tasks_ready ON tasks (account, created_at, place, id) WHERE status = 'ready';

CREATE TABLE attempts (
    id            TEXT    COLLATE "binary" NOT NULL PRIMARY KEY,
    org           TEXT    COLLATE "binary" NOT NULL,
    task          TEXT    COLLATE "binary" NOT NULL REFERENCES tasks (id),
    run           TEXT    COLLATE "binary" NOT NULL,
    place         BIGINT  NOT NULL, -- rises within the run
    component     TEXT    COLLATE "binary" NOT NULL,
    task_kind     TEXT    COLLATE "binary" NOT NULL,
    number        BIGINT  NOT NULL,
    agent         TEXT    COLLATE "binary" NOT NULL,
    agent_name    TEXT    COLLATE "binary" NOT NULL,
    status        TEXT    COLLATE "binary" NOT NULL,
    final         BOOLEAN NOT NULL, -- by status
    sign_at       BIGINT  NOT NULL, -- the last sign of life
    stage         TEXT    COLLATE "binary" NOT NULL,
    progress      TEXT    COLLATE "binary" NOT NULL,
    offered_at    BIGINT  NOT NULL,
    accepted_at   BIGINT  NOT NULL,
    heartbeat_at  BIGINT  NOT NULL,
    ended_at      BIGINT  NOT NULL,
    class         TEXT    COLLATE "binary" NOT NULL,
    message       TEXT    COLLATE "binary" NOT NULL,
    partial_apply BOOLEAN NOT NULL,
    report        TEXT    COLLATE "binary" NOT NULL, -- JSON
    next_log      BIGINT  NOT NULL,
    log_bytes     BIGINT  NOT NULL
);
CREATE UNIQUE INDEX attempts_number ON attempts (task, number);
CREATE INDEX attempts_run ON attempts (run, place, id);
CREATE INDEX attempts_stale ON attempts (sign_at, id) WHERE NOT final;

CREATE TABLE logs (
    attempt TEXT   COLLATE "binary" NOT NULL REFERENCES attempts (id),
    seq     BIGINT NOT NULL,
    stage   TEXT   COLLATE "binary" NOT NULL,
    at      BIGINT NOT NULL,
    text    TEXT   COLLATE "binary" NOT NULL,
    PRIMARY KEY (attempt, seq)
);

-- No references from here: the log outlives what it tells of.
CREATE TABLE audit (
    org        TEXT   COLLATE "binary" NOT NULL,
    seq        BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    actor_kind TEXT   COLLATE "binary" NOT NULL,
    actor_id   TEXT   COLLATE "binary" NOT NULL,
    actor_name TEXT   COLLATE "binary" NOT NULL,
    token      TEXT   COLLATE "binary" NOT NULL,
    action     TEXT   COLLATE "binary" NOT NULL,
    object     TEXT   COLLATE "binary" NOT NULL,
    data       TEXT   COLLATE "binary" NOT NULL, -- JSON, byte for byte as it was hashed
    request_id TEXT   COLLATE "binary" NOT NULL,
    hash       TEXT   COLLATE "binary" NOT NULL,
    PRIMARY KEY (org, seq)
);
CREATE INDEX audit_object ON audit (org, object, seq);
