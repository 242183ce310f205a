import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { runs } from "../api/client";
import type { RunListed, RunStatus } from "../api/words";
import { countsTexts, isLive, kinds, ProductionBadge, RiskBadge, StatusBadge, statuses } from "../run/words";
import { Badge } from "../ui/badge";
import { ChoiceFilter, TextFilter } from "../ui/filter";
import { Empty, Loading, Page } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { Took, When } from "../ui/when";
import css from "./runs.module.css";

// What people look for. In the address several statuses stand with commas.
const groups: [string, string][] = [
  ["", "All"],
  ["awaiting_approval", "Awaiting approval"],
  ["queued,planning,applying,verifying,cancelling", "In progress"],
  ["failed", "Failed"],
  ["succeeded", "Succeeded"],
  ["rejected,cancelled,discarded", "Rejected, cancelled, discarded"],
];

const columns: Column<RunListed>[] = [
  {
    head: "Run",
    wide: true,
    cell: (r) => (
      <div className={css.run}>
        <div className={ui.row}>
          <Link to="/runs/$run" params={{ run: r.id }} className={css.name}>
            <Text limit={128}>{r.stack}</Text>
          </Link>
          {r.kind === "deploy" ? null : (
            <Badge tone={r.kind === "destroy" ? "red" : "grey"}>{kinds[r.kind] ?? r.kind}</Badge>
          )}
          <ProductionBadge production={r.production} />
        </div>
        <code className="dim small">{r.id}</code>
      </div>
    ),
  },
  {
    head: "Status",
    wide: true,
    cell: (r) => (
      <div className={ui.row}>
        <StatusBadge status={r.status} />
        {r.risk === "high" && isLive(r.status) && <RiskBadge risk={r.risk} />}
        {r.partial_apply && <Badge tone="red">Partly applied</Badge>}
      </div>
    ),
  },
  { head: "Plan", cell: (r) => <PlanCell run={r} /> },
  {
    head: "By",
    cell: (r) => (
      <>
        <Text limit={64}>{r.created_by.name}</Text>
        {r.approval.status === "approved" && r.approval.by && (
          <span className="dim small">
            , approved by <Text limit={64}>{r.approval.by}</Text>
          </span>
        )}
      </>
    ),
  },
  { head: "Started", tight: true, cell: (r) => <When at={r.created_at} /> },
  { head: "Took", tight: true, right: true, cell: (r) => <Took from={r.created_at} to={r.ended_at} /> },
];

function PlanCell({ run }: { run: RunListed }) {
  if (run.risk === "") return <span className="dim">not planned{isLive(run.status) ? " yet" : ""}</span>;
  const { ends, rest } = countsTexts(run.totals);
  // Only the plan itself says that nothing changes; that no number is known says nothing.
  if (!ends && !rest) return <span className="dim">{run.risk === "none" ? "no change" : "not counted"}</span>;
  return (
    <>
      {ends && <strong className={css.destroys}>{ends}</strong>}
      {ends && rest && ", "}
      {rest}
    </>
  );
}

/** The statuses that an address names; what is none is left out. */
function statusesOf(text: string | undefined): RunStatus[] | undefined {
  const known = text?.split(",").filter((s): s is RunStatus => s in statuses);
  return known?.length ? known : undefined;
}

/** The runs of the organization, newest first. */
export function RunsPage() {
  const search = useSearch({ from: "/signed-in/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const set = (change: Partial<typeof search>) =>
    navigate({ search: (s) => ({ ...s, ...change, cursor: undefined }), replace: true });
  const filtered = Boolean(search.q || search.status || search.stack);
  const list = useQuery({
    queryKey: ["runs", search],
    queryFn: ({ signal }) => runs({ ...search, status: statusesOf(search.status) }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: 5000,
  });
  const known = groups.some(([v]) => v === (search.status ?? ""));
  return (
    <Page title="Runs">
      <search className={ui.filters} aria-label="Runs">
        <TextFilter
          first
          label="Stack or run"
          value={search.q ?? ""}
          placeholder="A part of its name or id"
          onChange={(q) => set({ q })}
        />
        <ChoiceFilter
          label="Status"
          value={search.status ?? ""}
          options={
            known
              ? groups
              : [
                  ...groups,
                  [search.status ?? "", statuses[search.status as RunListed["status"]]?.label ?? search.status ?? ""],
                ]
          }
          onChange={(status) => set({ status })}
        />
      </search>
      {search.stack && (
        <div className={ui.row}>
          <span>
            Only of the stack{" "}
            <strong>
              <Text>{search.stack}</Text>
            </strong>
          </span>
          <Button variant="default" size="xs" onClick={() => set({ stack: undefined })}>
            Show all stacks
          </Button>
        </div>
      )}
      {list.error && <ProblemBox error={list.error} again={() => list.refetch()} />}
      {list.isPending && !list.error && <Loading what="runs" />}
      {list.data?.items.length === 0 &&
        (filtered || search.cursor ? (
          <NothingFound clear={() => set({ q: undefined, status: undefined, stack: undefined })} />
        ) : (
          <FirstRun />
        ))}
      {list.data && list.data.items.length > 0 && (
        <>
          <Table label="Runs" columns={columns} items={list.data.items} id={(r) => r.id} />
          <Pager next={list.data.next} cursor={search.cursor ?? ""} />
        </>
      )}
    </Page>
  );
}

function NothingFound({ clear }: { clear: () => void }) {
  return (
    <Empty title="No run matches">
      <p>
        <Button variant="default" size="sm" onClick={clear}>
          Show all runs
        </Button>
      </p>
    </Empty>
  );
}

function FirstRun() {
  return (
    <Empty title="No runs yet">
      <p className="dim">
        A run plans a folder of .tf files, waits for approval and applies exactly that plan. Start one from a terminal:
      </p>
      <pre>
        <code>
          holdfast login {location.origin}
          {"\n"}holdfast up DIR
        </code>
      </pre>
    </Empty>
  );
}
