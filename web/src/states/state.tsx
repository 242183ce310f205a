import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { contentAddress, state, stateVersions } from "../api/client";
import { Problem } from "../api/problem";
import type { Holder, Lock, State, StateVersion } from "../api/words";
import { useMay } from "../app/session";
import { Badge, Notice } from "../ui/badge";
import { CopyLine } from "../ui/copy";
import { Empty, Facts, Loading, Page, Panel } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";
import css from "./states.module.css";
import { bytes, HolderName, StateBadges } from "./words";

/** One state: who has it, what it is, every version of it. */
export function StatePage() {
  const { state: name } = useParams({ from: "/signed-in/states/$state" });
  const query = useQuery({
    queryKey: ["state", name, "state"],
    queryFn: ({ signal }) => state(name, signal),
    refetchInterval: 5000,
  });
  const s = query.data;
  return (
    <Page title={name} head={<Head name={name} state={s} />}>
      {query.error && <ProblemBox error={query.error} again={() => query.refetch()} />}
      {query.isPending && !query.error && <Loading what="the state" />}
      {s && (
        <>
          {s.client_encrypted && (
            <Notice tone="blue" title="Encrypted by the client">
              <p>
                The tool encrypted this document before it came here. Holdfast keeps it byte for byte, and can neither
                read nor compare it.
              </p>
            </Notice>
          )}
          <div className={css.pair}>
            <LockPanel lock={s.lock} />
            {s.hold && <HoldPanel state={s} />}
            <Panel title="Current document">
              {s.version === 0 ? (
                <p className="dim">Nothing has been written yet.</p>
              ) : (
                <Facts
                  of={[
                    ["Version", s.version],
                    ["Serial", s.serial ?? "not readable"],
                    [
                      "Lineage",
                      s.lineage ? (
                        <span className={css.hash}>
                          <Text limit={200}>{s.lineage}</Text>
                        </span>
                      ) : (
                        "not readable"
                      ),
                    ],
                    ["Size", bytes(s.size)],
                    [
                      "SHA-256",
                      <span key="h" className={css.hash}>
                        {s.sha256}
                      </span>,
                    ],
                    ["Changed", <When key="w" at={s.updated_at} />],
                    ["By", s.updated_by ? <HolderName holder={s.updated_by} /> : null],
                  ]}
                />
              )}
            </Panel>
          </div>
          <Versions name={name} />
        </>
      )}
    </Page>
  );
}

function Head({ name, state: s }: { name: string; state: State | undefined }) {
  return (
    <div className={css.column}>
      <nav className="dim small" aria-label="Where this is">
        <Link to="/states">States</Link>
      </nav>
      <div className={ui.row}>
        <h1>
          <Text limit={300}>{name}</Text>
        </h1>
        {s && <StateBadges state={s} />}
      </div>
    </div>
  );
}

function Alive({ holder }: { holder: Holder }) {
  const say = {
    yes: <Badge tone="green">alive</Badge>,
    no: <Badge tone="red">gone</Badge>,
    unknown: <Badge tone="orange">unknown</Badge>,
  };
  return (
    <>
      {say[holder.alive] ?? say.unknown}
      {holder.evidence && (
        <div className="dim small">
          <Text limit={500}>{holder.evidence}</Text>
        </div>
      )}
      {holder.last_seen && (
        <div className="dim small">
          last seen <When at={holder.last_seen} />
        </div>
      )}
    </>
  );
}

const advice: Record<Holder["alive"], string> = {
  yes: "The holder is working. Releasing the lock now lets two writers at one state; cancel its run instead.",
  no: "The holder is gone, so its lock can be released. What it did not save is not in the state: plan before the next apply.",
  unknown: "Nobody can say whether the holder still works. Ask whoever it names before you release the lock.",
};

function LockPanel({ lock }: { lock: Lock | null }) {
  const mayForce = useMay("tf_state:manage");
  if (!lock) {
    return (
      <Panel title="Lock">
        <p>
          <Badge tone="green">Not locked</Badge>
        </p>
      </Panel>
    );
  }
  const h = lock.holder;
  return (
    <Panel title="Lock" actions={<Badge tone={h.alive === "no" ? "red" : "orange"}>Locked</Badge>}>
      <div className={css.column}>
        <Facts
          of={[
            ["Held by", <HolderName key="h" holder={h} />],
            ["Holder is", <Alive key="a" holder={h} />],
            ["Since", <When key="w" at={lock.taken_at} />],
            ["Operation", lock.operation ? <Text limit={200}>{lock.operation}</Text> : null],
            ["Who", lock.who ? <Text limit={300}>{lock.who}</Text> : null],
            ["Tool version", lock.version ? <Text limit={100}>{lock.version}</Text> : null],
            ["Info", lock.info ? <Text limit={500}>{lock.info}</Text> : null],
            ["Path", lock.path ? <Text limit={300}>{lock.path}</Text> : null],
            ["Client's clock", lock.created ? <Text limit={100}>{lock.created}</Text> : null],
            [
              "Run",
              h.run ? (
                <Link to="/runs/$run" params={{ run: h.run }}>
                  <code>{h.run}</code>
                </Link>
              ) : null,
            ],
            [
              "Lock id",
              <code key="i">
                <Text limit={200}>{lock.id}</Text>
              </code>,
            ],
          ]}
        />
        <Notice tone={h.alive === "no" ? "blue" : "orange"} title="To release it by force">
          <p>{advice[h.alive] ?? advice.unknown}</p>
          <CopyLine text={lock.unlock} what="the command" />
          {!mayForce && <p className="small">This needs the role admin.</p>}
        </Notice>
      </div>
    </Panel>
  );
}

function HoldPanel({ state: s }: { state: State }) {
  if (!s.hold) return null;
  return (
    <Panel title="Hold" actions={<Badge tone="purple">Held</Badge>}>
      <div className={css.column}>
        <p>
          Kept for one run from its plan to its apply, so that nobody else changes what was planned on. It ends with
          that run.
        </p>
        <Facts
          of={[
            [
              "Run",
              <Link key="r" to="/runs/$run" params={{ run: s.hold.run }}>
                <code>{s.hold.run}</code>
              </Link>,
            ],
            ["Since", <When key="w" at={s.hold.since} />],
            ["Hold id", <code key="i">{s.hold.id}</code>],
          ]}
        />
      </div>
    </Panel>
  );
}

const sources: Record<string, string> = {
  write: "Write",
  import: "Import",
  rollback: "Rollback",
  recovery: "Recovery",
};

function versionColumns(name: string, mayRead: boolean): Column<StateVersion>[] {
  return [
    {
      head: "Version",
      wide: true,
      cell: (v) => (
        <div className={ui.row}>
          <strong className="numeric">{v.version}</strong>
          {v.current && <Badge tone="green">Current</Badge>}
          {v.quarantined && <Badge tone="orange">Quarantined</Badge>}
          {v.client_encrypted && <Badge tone="blue">Encrypted by the client</Badge>}
        </div>
      ),
    },
    {
      head: "Serial",
      right: true,
      cell: (v) => <span className="numeric">{v.serial ?? <span className="dim">not readable</span>}</span>,
    },
    { head: "Size", right: true, tight: true, cell: (v) => <span className="numeric">{bytes(v.size)}</span> },
    { head: "Source", cell: (v) => sources[v.source] ?? v.source },
    { head: "By", cell: (v) => <HolderName holder={v.created_by} /> },
    { head: "When", tight: true, cell: (v) => <When at={v.created_at} /> },
    { head: "Tool", cell: (v) => (v.tool_version ? <Text limit={60}>{v.tool_version}</Text> : null) },
    {
      head: "Key",
      cell: (v) => (
        <span className="small">
          {v.key.kind} <Text limit={80}>{`${v.key.name} ${v.key.version}`.trim()}</Text>
        </span>
      ),
    },
    ...(mayRead
      ? [
          {
            head: "Document",
            tight: true,
            cell: (v: StateVersion) => (
              <a href={contentAddress(name, v.version)} download={`${name}.v${v.version}.tfstate`}>
                Download<span className="hide"> version {v.version}</span>
              </a>
            ),
          },
        ]
      : []),
  ];
}

function Versions({ name }: { name: string }) {
  const { cursor } = useSearch({ from: "/signed-in/states/$state" });
  const mayRead = useMay("tf_state:read");
  const list = useQuery({
    queryKey: ["state", name, "versions", cursor],
    queryFn: ({ signal }) => stateVersions(name, cursor, signal),
    placeholderData: keepPreviousData,
    refetchInterval: cursor ? false : 10_000,
  });
  return (
    <section className={css.column} aria-label="Versions">
      <h2>Versions</h2>
      {mayRead && (
        <p className="dim small">
          A document holds every value in clear, passwords too. Downloads are in the audit log.
        </p>
      )}
      {list.error && !(list.error instanceof Problem && list.error.status === 404) && (
        <ProblemBox error={list.error} again={() => list.refetch()} />
      )}
      {list.isPending && !list.error && <Loading what="versions" />}
      {list.data?.items.length === 0 && <Empty title="No versions yet" />}
      {list.data && list.data.items.length > 0 && (
        <>
          <Table
            label="Versions"
            columns={versionColumns(name, mayRead)}
            items={list.data.items}
            id={(v) => v.version}
          />
          <Pager next={list.data.next} cursor={cursor ?? ""} />
        </>
      )}
    </section>
  );
}
