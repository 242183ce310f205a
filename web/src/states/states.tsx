import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type StateFilter, states } from "../api/client";
import type { State } from "../api/words";
import { useMay } from "../app/session";
import { Badge } from "../ui/badge";
import { ChoiceFilter, TextFilter } from "../ui/filter";
import { Empty, Loading, Page } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";
import { ImportDialog } from "./import";
import css from "./states.module.css";
import { bytes, HolderName, LockBadge, TimeLeft } from "./words";

const columns: Column<State>[] = [
  {
    head: "State",
    wide: true,
    cell: (s) => (
      <div className={ui.row}>
        <Link to="/states/$state" params={{ state: s.name }} className={css.name}>
          <Text limit={200}>{s.name}</Text>
        </Link>
        {s.client_encrypted && <Badge tone="blue">Encrypted by the client</Badge>}
        {s.deleted_at && (
          <span className="dim small">
            {s.restorable_until ? (
              <>
                deleted <When at={s.deleted_at} />, <TimeLeft until={s.restorable_until} />
              </>
            ) : (
              "being purged"
            )}
          </span>
        )}
      </div>
    ),
  },
  { head: "Lock or hold", cell: (s) => (s.lock || s.hold ? <LockOrHold state={s} /> : null) },
  {
    head: "Version",
    right: true,
    cell: (s) => <span className="numeric">{s.version === 0 ? "none yet" : s.version}</span>,
  },
  {
    head: "Serial",
    right: true,
    cell: (s) =>
      s.version === 0 ? null : <span className="numeric">{s.serial ?? <span className="dim">not readable</span>}</span>,
  },
  { head: "Size", right: true, tight: true, cell: (s) => <span className="numeric">{bytes(s.size)}</span> },
  {
    head: "Changed by",
    cell: (s) => (s.updated_by ? <HolderName holder={s.updated_by} /> : <span className="dim">nobody yet</span>),
  },
  { head: "Changed", tight: true, cell: (s) => <When at={s.updated_at} /> },
];

/** Who has the state, since when, and the way to the run that has it. */
function LockOrHold({ state: s }: { state: State }) {
  return (
    <div className={css.holders}>
      {s.lock && (
        <div>
          <LockBadge lock={s.lock} />{" "}
          <span className="small">
            <HolderName holder={s.lock.holder} />, <When at={s.lock.taken_at} />
          </span>
        </div>
      )}
      {s.hold && (
        <div>
          <Badge tone="purple">Held</Badge>{" "}
          <span className="small">
            for a{" "}
            <Link to="/runs/$run" params={{ run: s.hold.run }}>
              run<span className="hide"> {s.hold.run}</span>
            </Link>
            , <When at={s.hold.since} />
          </span>
        </div>
      )}
    </div>
  );
}

/** What a list of states can be narrowed to: in the address, in words, and as the server is asked. */
const shows: [value: string, label: string, filter: StateFilter][] = [
  ["", "All", {}],
  ["locked", "Locked", { locked: true }],
  ["stale", "Locked, holder gone or unknown", { stale: true }],
  ["held", "Held for a run", { held: true }],
  ["encrypted", "Encrypted by the client", { client_encrypted: true }],
  ["deleted", "Deleted", { deleted: true }],
];

/** The managed states, by name. */
export function StatesPage() {
  const search = useSearch({ from: "/signed-in/states" });
  const navigate = useNavigate({ from: "/states" });
  const mayWrite = useMay("tf_state:write");
  const [importing, setImporting] = useState(false);
  const set = (change: Partial<typeof search>) =>
    navigate({ search: (s) => ({ ...s, ...change, cursor: undefined }), replace: true });
  const narrowed = shows.find(([v]) => v === search.show)?.[2] ?? {};
  const filter = { q: search.q, cursor: search.cursor, ...narrowed };
  const list = useQuery({
    queryKey: ["states", filter],
    queryFn: ({ signal }) => states(filter, signal),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  const importButton = mayWrite && (
    <Button size="sm" onClick={() => setImporting(true)}>
      Import states …
    </Button>
  );
  return (
    <Page title="States" actions={importButton}>
      <StatesTabs />
      <search className={ui.filters} aria-label="States">
        <TextFilter
          first
          label="State"
          value={search.q ?? ""}
          placeholder="A part of its name"
          onChange={(q) => set({ q })}
        />
        <ChoiceFilter
          label="Show"
          value={search.show ?? ""}
          options={shows.map(([value, label]) => [value, label])}
          onChange={(show) => set({ show })}
        />
      </search>
      {search.show === "stale" && (
        <p className="dim small">
          Of a lock that a person's tool took, nobody can say whether its holder still works: ask them before you
          release it.
        </p>
      )}
      {list.error && <ProblemBox error={list.error} again={() => list.refetch()} />}
      {list.isPending && !list.error && <Loading what="states" />}
      {list.data?.items.length === 0 &&
        (search.q || search.show || search.cursor ? (
          <Empty title={search.show === "deleted" && !search.q ? "No deleted states" : "No state matches"}>
            <p>
              <Button variant="default" size="sm" onClick={() => set({ q: undefined, show: undefined })}>
                Show all states
              </Button>
            </p>
          </Empty>
        ) : (
          <NoStates mayWrite={mayWrite} />
        ))}
      {list.data && (list.data.items.length > 0 || list.data.next !== "") && (
        <>
          {list.data.items.length > 0 && (
            <Table label="States" columns={columns} items={list.data.items} id={(s) => s.name} />
          )}
          <Pager next={list.data.next} cursor={search.cursor ?? ""} back="Previous" on="Next" />
        </>
      )}
      {importing && <ImportDialog close={() => setImporting(false)} />}
    </Page>
  );
}

/** Both ways into the states: by their names, and by what is in them. */
export function StatesTabs() {
  return (
    <nav className={css.tabs} aria-label="States">
      <Link to="/states" activeOptions={{ exact: true, includeSearch: false }}>
        By name
      </Link>
      <Link to="/resources" activeOptions={{ includeSearch: false }}>
        By resource
      </Link>
    </nav>
  );
}

function NoStates({ mayWrite }: { mayWrite: boolean }) {
  return (
    <Empty title="No states yet">
      <p className="dim">
        A state is made by the first run of a stack, or by a tool that uses the http backend
        {mayWrite && ", or of a state file you import"}. For a folder you already have:
      </p>
      <pre>
        <code>holdfast state backend-config NAME</code>
      </pre>
    </Empty>
  );
}
