import { Button, TextInput } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { audit, verifyAudit } from "../api/client";
import type { AuditRecord } from "../api/words";
import { Notice } from "../ui/badge";
import { CopyLine } from "../ui/copy";
import { TextFilter } from "../ui/filter";
import { Empty, Loading, Page, Panel } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";
import css from "./audit.module.css";

function ObjectName({ record: r }: { record: AuditRecord }) {
  if (!r.object) return null;
  if (/^run[_-]/.test(r.object)) {
    return (
      <Link to="/runs/$run" params={{ run: r.object }}>
        <code>
          <Text limit={200}>{r.object}</Text>
        </code>
      </Link>
    );
  }
  if (r.action.startsWith("state.")) {
    return (
      <Link to="/states/$state" params={{ state: r.object }}>
        <Text limit={200}>{r.object}</Text>
      </Link>
    );
  }
  return <Text limit={200}>{r.object}</Text>;
}

/** What the record says besides; as JSON, since it differs from action to action. */
function Data({ record: r }: { record: AuditRecord }) {
  const text = JSON.stringify(r.data ?? {}, null, 2);
  return (
    <details>
      <summary className="small">Details</summary>
      <div className={css.data}>
        {text !== "{}" && (
          <pre>
            <Text lines limit={4000}>
              {text}
            </Text>
          </pre>
        )}
        <div className="small">
          actor <code>{`${r.actor_kind} ${r.actor_id}`}</code>
        </div>
        {r.request_id && (
          <div className="small">
            request <code>{r.request_id}</code>
          </div>
        )}
        <div className="small">
          hash <code>{r.hash}</code>
        </div>
      </div>
    </details>
  );
}

const columns: Column<AuditRecord>[] = [
  { head: "No.", right: true, cell: (r) => <span className="numeric dim">{r.seq}</span> },
  { head: "When", tight: true, cell: (r) => <When at={r.at} /> },
  { head: "Who", cell: (r) => <Text limit={100}>{r.actor_name || `${r.actor_kind} ${r.actor_id}`.trim()}</Text> },
  {
    head: "Did",
    cell: (r) => (
      <code>
        <Text limit={100}>{r.action}</Text>
      </code>
    ),
  },
  { head: "To", cell: (r) => <ObjectName record={r} /> },
  { head: "More", wide: true, cell: (r) => <Data record={r} /> },
];

/** The audit log, newest first. */
export function AuditPage() {
  const search = useSearch({ from: "/signed-in/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const set = (change: Partial<typeof search>) =>
    navigate({ search: (s) => ({ ...s, ...change, cursor: undefined }), replace: true });
  const list = useQuery({
    queryKey: ["audit", search],
    queryFn: ({ signal }) => audit(search, signal),
    placeholderData: keepPreviousData,
    refetchInterval: search.cursor ? false : 15_000,
  });
  return (
    <Page title="Audit">
      <VerifyPanel />
      <search className={ui.filters} aria-label="Audit log">
        <TextFilter
          first
          label="Action"
          value={search.action ?? ""}
          placeholder="run.approve, or run. for all of runs"
          onChange={(action) => set({ action })}
        />
        <TextFilter
          label="Actor"
          value={search.actor ?? ""}
          placeholder="The id of a user or token"
          onChange={(actor) => set({ actor })}
        />
        <TextFilter
          label="Object"
          value={search.object ?? ""}
          placeholder="A run's id, a state's name"
          onChange={(object) => set({ object })}
        />
      </search>
      {list.error && <ProblemBox error={list.error} again={() => list.refetch()} />}
      {list.isPending && !list.error && <Loading what="the audit log" />}
      {list.data?.items.length === 0 && (
        <Empty title="No record matches">
          {(search.action || search.actor || search.object) && (
            <p>
              <Button
                variant="default"
                size="sm"
                onClick={() => set({ action: undefined, actor: undefined, object: undefined })}
              >
                Show all records
              </Button>
            </p>
          )}
        </Empty>
      )}
      {list.data && list.data.items.length > 0 && (
        <>
          <Table label="Audit log" columns={columns} items={list.data.items} id={(r) => r.seq} />
          <Pager next={list.data.next} cursor={search.cursor ?? ""} />
        </>
      )}
    </Page>
  );
}

function VerifyPanel() {
  const attempt = useMutation({ mutationFn: verifyAudit });
  const [anchor, setAnchor] = useState("");
  const submit = (e: FormEvent) => {
    e.preventDefault();
    attempt.mutate(anchor.trim());
  };
  const v = attempt.data;
  return (
    <Panel title="The chain">
      <div className={ui.column}>
        <p className="dim">
          Each record holds a hash over the one before it: a record that was changed or taken out breaks the chain.
        </p>
        <form className={ui.filters} onSubmit={submit}>
          <TextInput
            label="Anchor of an earlier check"
            description="Optional. It proves that no record at the end was cut off since."
            placeholder="SEQ:HASH"
            value={anchor}
            onChange={(e) => setAnchor(e.currentTarget.value)}
            wrapperProps={{ "data-grow": true }}
            spellCheck={false}
            autoComplete="off"
          />
          <Button type="submit" variant="default" loading={attempt.isPending} data-fixed>
            Verify the chain
          </Button>
        </form>
        {attempt.error && <ProblemBox error={attempt.error} />}
        {v?.intact && (
          <Notice tone="green" role="status" title={`Intact: ${v.records.toLocaleString("en")} records`}>
            {v.unkeyed > 0 && (
              <p>
                The first {v.unkeyed.toLocaleString("en")} are from before the server had any key; they prove nothing.
              </p>
            )}
            <p>Keep this anchor outside of Holdfast, and give it to the next check:</p>
            <CopyLine text={v.anchor} what="the anchor" />
          </Notice>
        )}
        {v && !v.intact && (
          <Notice tone="red" role="alert" title={v.broken_at ? `Broken at record ${v.broken_at}` : "Not intact"}>
            <p>
              <Text>{v.reason}</Text>
            </p>
            <p>
              Records before it can be trusted, those from it on cannot. Compare with a backup, and with the anchors
              that were kept.
            </p>
          </Notice>
        )}
      </div>
    </Panel>
  );
}
