import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { searchResources } from "../api/client";
import type { Resource } from "../api/words";
import { TextFilter } from "../ui/filter";
import { Empty, Loading, Page } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { StatesTabs } from "./states";
import css from "./states.module.css";

const columns: Column<Resource>[] = [
  {
    head: "Resource",
    wide: true,
    cell: (r) => (
      <Link
        to="/states/$state"
        params={{ state: r.state }}
        search={{ tab: "resources", q: r.address }}
        className={css.name}
      >
        <code>
          <Text limit={300}>{r.address}</Text>
        </code>
      </Link>
    ),
  },
  {
    head: "State",
    cell: (r) => (
      <Link to="/states/$state" params={{ state: r.state }}>
        <Text limit={200}>{r.state}</Text>
      </Link>
    ),
  },
  { head: "Type", cell: (r) => <Text limit={120}>{r.mode === "data" ? `${r.type} (data)` : r.type}</Text> },
  {
    head: "Provider",
    cell: (r) => (
      <span className="small">
        <Text limit={200}>{r.provider}</Text>
      </span>
    ),
  },
  {
    head: "Instances",
    right: true,
    cell: (r) => <span className="numeric">{r.instances.toLocaleString("en")}</span>,
  },
];

/** The resources of all states: which state has the thing that somebody asks about. */
export function ResourcesPage() {
  const search = useSearch({ from: "/signed-in/resources" });
  const navigate = useNavigate({ from: "/resources" });
  const set = (q: string | undefined) =>
    navigate({ search: (s) => ({ ...s, q: q || undefined, cursor: undefined }), replace: true });
  const list = useQuery({
    queryKey: ["resources", search],
    queryFn: ({ signal }) => searchResources(search, signal),
    placeholderData: keepPreviousData,
  });
  return (
    <Page title="States">
      <StatesTabs />
      <search className={ui.filters} aria-label="Resources of all states">
        <TextFilter
          first
          label="Resource"
          value={search.q ?? ""}
          placeholder="A part of its address or provider, such as aws_s3_bucket"
          onChange={set}
        />
      </search>
      <p className="dim small">
        Addresses, types and providers of every state's current document; values stay sealed. What a client encrypted is
        not in it.
      </p>
      {list.error && <ProblemBox error={list.error} again={() => list.refetch()} />}
      {list.isPending && !list.error && <Loading what="resources" />}
      {list.data?.items.length === 0 &&
        (search.q || search.cursor ? (
          <Empty title="No resource matches">
            <p>
              <Button variant="default" size="sm" onClick={() => set(undefined)}>
                Show all resources
              </Button>
            </p>
          </Empty>
        ) : (
          <Empty title="No resources yet">
            <p className="dim">They come with the first state that has some.</p>
          </Empty>
        ))}
      {list.data && list.data.items.length > 0 && (
        <>
          <Table label="Resources" columns={columns} items={list.data.items} id={(r) => `${r.state} ${r.address}`} />
          <Pager next={list.data.next} cursor={search.cursor ?? ""} back="Previous" on="Next" />
        </>
      )}
    </Page>
  );
}
