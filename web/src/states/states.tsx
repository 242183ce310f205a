import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { states } from "../api/client";
import type { State } from "../api/words";
import { ChoiceFilter, TextFilter } from "../ui/filter";
import { Empty, Loading, Page } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";
import css from "./states.module.css";
import { bytes, HolderName, StateBadges } from "./words";

const columns: Column<State>[] = [
  {
    head: "State",
    wide: true,
    cell: (s) => (
      <div className={ui.row}>
        <Link to="/states/$state" params={{ state: s.name }} className={css.name}>
          <Text limit={200}>{s.name}</Text>
        </Link>
        <StateBadges state={s} />
      </div>
    ),
  },
  {
    head: "Version",
    right: true,
    cell: (s) => <span className="numeric">{s.version === 0 ? "none yet" : s.version}</span>,
  },
  {
    head: "Serial",
    right: true,
    cell: (s) => <span className="numeric">{s.serial ?? <span className="dim">not readable</span>}</span>,
  },
  { head: "Size", right: true, tight: true, cell: (s) => <span className="numeric">{bytes(s.size)}</span> },
  {
    head: "Changed by",
    cell: (s) => (s.updated_by ? <HolderName holder={s.updated_by} /> : <span className="dim">nobody yet</span>),
  },
  { head: "Changed", tight: true, cell: (s) => <When at={s.updated_at} /> },
];

/** The managed states, by name. */
export function StatesPage() {
  const search = useSearch({ from: "/signed-in/states" });
  const navigate = useNavigate({ from: "/states" });
  const set = (change: Partial<typeof search>) =>
    navigate({ search: (s) => ({ ...s, ...change, cursor: undefined }), replace: true });
  const filter = { q: search.q, cursor: search.cursor, locked: search.show === "locked", held: search.show === "held" };
  const list = useQuery({
    queryKey: ["states", filter],
    queryFn: ({ signal }) => states(filter, signal),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  return (
    <Page title="States">
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
          options={[
            ["", "All"],
            ["locked", "Locked"],
            ["held", "Held for a run"],
          ]}
          onChange={(show) => set({ show })}
        />
      </search>
      {list.error && <ProblemBox error={list.error} again={() => list.refetch()} />}
      {list.isPending && !list.error && <Loading what="states" />}
      {list.data?.items.length === 0 &&
        (search.q || search.show || search.cursor ? (
          <Empty title="No state matches">
            <p>
              <Button variant="default" size="sm" onClick={() => set({ q: undefined, show: undefined })}>
                Show all states
              </Button>
            </p>
          </Empty>
        ) : (
          <Empty title="No states yet">
            <p className="dim">
              A state is made by the first run of a stack, or by a tool that uses the http backend. For a folder you
              already have:
            </p>
            <pre>
              <code>holdfast state backend-config NAME</code>
            </pre>
          </Empty>
        ))}
      {list.data && list.data.items.length > 0 && (
        <>
          <Table label="States" columns={columns} items={list.data.items} id={(s) => s.name} />
          <Pager next={list.data.next} cursor={search.cursor ?? ""} back="Previous" on="Next" />
        </>
      )}
    </Page>
  );
}
