import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { contentAddress, stateVersions } from "../api/client";
import { Problem } from "../api/problem";
import type { State, StateVersion } from "../api/words";
import { useMay } from "../app/session";
import { Badge, Notice } from "../ui/badge";
import { ChoiceFilter } from "../ui/filter";
import { Empty, Loading } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";
import { AcceptDialog, RollbackDialog } from "./change";
import css from "./states.module.css";
import { blockedBy, bytes, HolderName } from "./words";

const sources: Record<string, string> = {
  write: "Write",
  import: "Import",
  rollback: "Rollback",
  recovery: "Recovery",
};

const columns: Column<StateVersion>[] = [
  {
    head: "Version",
    wide: true,
    cell: (v) => (
      <>
        <div className={ui.row}>
          <strong className="numeric">{v.version}</strong>
          {v.current && <Badge tone="green">Current</Badge>}
          {v.quarantined && <Badge tone="orange">Quarantined</Badge>}
          {v.client_encrypted && <Badge tone="blue">Encrypted by the client</Badge>}
        </div>
        <div className={`${css.hash} dim`} title={`SHA-256 ${v.sha256}`}>
          {v.sha256.slice(0, 12)}
        </div>
      </>
    ),
  },
  {
    head: "Serial",
    right: true,
    cell: (v) => <span className="numeric">{v.serial ?? <span className="dim">not readable</span>}</span>,
  },
  { head: "Size", right: true, tight: true, cell: (v) => <span className="numeric">{bytes(v.size)}</span> },
  {
    head: "Source",
    cell: (v) => (
      <>
        {sources[v.source] ?? v.source}
        {v.tool_version && (
          <div className="dim small">
            <Text limit={60}>{v.tool_version}</Text>
          </div>
        )}
      </>
    ),
  },
  { head: "By", cell: (v) => <HolderName holder={v.created_by} /> },
  { head: "When", tight: true, cell: (v) => <When at={v.created_at} /> },
  {
    head: "Key",
    cell: (v) => (
      <span className="small">
        {v.key.kind} <Text limit={80}>{`${v.key.name} ${v.key.version}`.trim()}</Text>
      </span>
    ),
  },
];

type Asked = { does: "rollback" | "accept"; version: StateVersion };

/** What can be done with one version, by whom may. */
function actionsColumn(
  s: State,
  may: { read: boolean; write: boolean },
  ask: (a: Asked) => void,
): Column<StateVersion> {
  return {
    head: "Actions",
    wide: true,
    cell: (v) => (
      <div className={css.actions}>
        {may.read && (
          <a href={contentAddress(s.name, v.version)} download={`${s.name}-${v.version}.tfstate`}>
            Download<span className="hide"> version {v.version}</span>
          </a>
        )}
        {may.read && !v.current && s.version > 0 && (
          <Link
            to="/states/$state"
            params={{ state: s.name }}
            search={{
              tab: "compare",
              from: String(Math.min(v.version, s.version)),
              to: String(Math.max(v.version, s.version)),
            }}
          >
            Compare<span className="hide"> version {v.version} with the current one</span>
          </Link>
        )}
        {may.write && !v.current && (
          <Button
            variant="default"
            size="xs"
            disabled={blockedBy(s, v.quarantined ? v : undefined) !== ""}
            onClick={() => ask({ does: v.quarantined ? "accept" : "rollback", version: v })}
          >
            {v.quarantined ? "Accept …" : "Roll back …"}
            <span className="hide">
              {" "}
              {v.quarantined ? "" : "to "}version {v.version}
            </span>
          </Button>
        )}
      </div>
    ),
  };
}

/** What was stored of a state, newest first, and what can be done with it. */
export function Versions({ state: s }: { state: State }) {
  const { cursor, show } = useSearch({ from: "/signed-in/states/$state" });
  const navigate = useNavigate({ from: "/states/$state" });
  const may = { read: useMay("tf_state:read"), write: useMay("tf_state:write") };
  const [asked, setAsked] = useState<Asked | null>(null);
  const quarantined = show === "quarantined";
  const list = useQuery({
    queryKey: ["state", s.name, "versions", quarantined, cursor],
    queryFn: ({ signal }) => stateVersions(s.name, { quarantined, cursor }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: cursor ? false : 10_000,
  });
  const offered = (may.read || may.write) && !s.deleted_at;
  const blocked = blockedBy(s);
  return (
    <section className={css.column} aria-label="Versions">
      <div className={css.choice}>
        <ChoiceFilter
          label="Show"
          value={quarantined ? "quarantined" : ""}
          options={[
            ["", "All versions"],
            ["quarantined", "Quarantined: refused, and kept aside"],
          ]}
          onChange={(v) =>
            navigate({
              search: (old) => ({ ...old, show: v || undefined, cursor: undefined }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      </div>
      {may.write && blocked && !s.deleted_at && (
        <p className="dim small">Rolling back and deleting are not available now. {blocked}</p>
      )}
      {may.read && !s.deleted_at && (
        <p className="dim small">
          A document holds every value in clear, passwords too. Downloads are in the audit log.
        </p>
      )}
      {list.error && !(list.error instanceof Problem && list.error.status === 404) && (
        <ProblemBox error={list.error} again={() => list.refetch()} />
      )}
      {list.isPending && !list.error && <Loading what="versions" />}
      {list.data?.items.length === 0 &&
        (quarantined ? (
          <Empty title="No quarantined versions">
            <p className="dim">No save of a lock's holder was refused, or it was accepted since.</p>
          </Empty>
        ) : (
          <Empty title="No versions yet" />
        ))}
      {list.data && list.data.items.length > 0 && (
        <>
          <Table
            label="Versions"
            columns={offered ? [...columns, actionsColumn(s, may, setAsked)] : columns}
            items={list.data.items}
            id={(v) => v.version}
          />
          <Pager next={list.data.next} cursor={cursor ?? ""} />
        </>
      )}
      {asked?.does === "rollback" && <RollbackDialog state={s} version={asked.version} close={() => setAsked(null)} />}
      {asked?.does === "accept" && <AcceptDialog state={s} version={asked.version} close={() => setAsked(null)} />}
    </section>
  );
}

/** Says that saves were refused and kept: they may tell of what exists and is in no other version. */
export function QuarantineNotice({ name }: { name: string }) {
  const list = useQuery({
    queryKey: ["state", name, "versions", true, undefined],
    queryFn: ({ signal }) => stateVersions(name, { quarantined: true }, signal),
    refetchInterval: 30_000,
  });
  const kept = list.data?.items ?? [];
  if (kept.length === 0) return null;
  return (
    <Notice
      tone="orange"
      title={
        kept.length === 1
          ? "A save was refused, and is kept aside"
          : `${kept.length} saves were refused, and are kept aside`
      }
    >
      <p>
        {kept.length === 1 ? "It" : "They"} may tell of what was made and is in no other version.{" "}
        <Link to="/states/$state" params={{ state: name }} search={{ show: "quarantined" }}>
          Compare and accept {kept.length === 1 ? "it" : "them"}
        </Link>{" "}
        where that is what is true.
      </p>
    </Notice>
  );
}
