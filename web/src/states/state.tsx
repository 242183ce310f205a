import { Button, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { state } from "../api/client";
import type { State } from "../api/words";
import { useMay } from "../app/session";
import { Notice } from "../ui/badge";
import { CopyButton } from "../ui/copy";
import { Empty, Facts, Loading, Page, Panel } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";
import { DeleteDialog, PurgeDialog, RestoreButton } from "./change";
import { Compare } from "./diff";
import { ImportDialog } from "./import";
import { HoldPanel, LockPanel } from "./lock";
import { Resources } from "./resources";
import { Snippet } from "./snippet";
import css from "./states.module.css";
import { QuarantineNotice, Versions } from "./versions";
import { blockedBy, bytes, HolderName, StateBadges, TimeLeft } from "./words";

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
      {s && <Loaded key={name} state={s} />}
    </Page>
  );
}

function Loaded({ state: s }: { state: State }) {
  return (
    <>
      {s.deleted_at && <DeletedNotice state={s} />}
      {s.client_encrypted && (
        <Notice tone="blue" title="Encrypted by the client">
          <p>
            The tool encrypted this document before it came here. Holdfast keeps it byte for byte, and can neither read
            nor compare it.
          </p>
        </Notice>
      )}
      {!s.deleted_at && <QuarantineNotice name={s.name} />}
      <div className={css.pair}>
        {!s.deleted_at && <LockPanel state={s} />}
        <HoldPanel state={s} />
        <CurrentPanel state={s} />
      </div>
      {s.deleted_at ? <Versions state={s} /> : <Details state={s} />}
    </>
  );
}

function CurrentPanel({ state: s }: { state: State }) {
  const mayWrite = useMay("tf_state:write");
  const [importing, setImporting] = useState(false);
  if (s.version === 0) {
    return (
      <Panel title="Current document">
        <div className={css.column}>
          <p className="dim">Nothing has been written yet.</p>
          {mayWrite && blockedBy(s) === "" && (
            <div>
              <Button variant="default" size="sm" onClick={() => setImporting(true)}>
                Import a state file …
              </Button>
            </div>
          )}
        </div>
        {importing && <ImportDialog name={s.name} close={() => setImporting(false)} />}
      </Panel>
    );
  }
  return (
    <Panel title="Current document">
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
            <div key="h" className={css.sum}>
              <span className={css.hash}>{s.sha256}</span>
              <CopyButton text={s.sha256} what="the SHA-256" />
            </div>,
          ],
          ["Changed", <When key="w" at={s.updated_at} />],
          ["By", s.updated_by ? <HolderName holder={s.updated_by} /> : null],
        ]}
      />
    </Panel>
  );
}

function Head({ name, state: s }: { name: string; state: State | undefined }) {
  const mayManage = useMay("tf_state:manage");
  const [deleting, setDeleting] = useState(false);
  const blocked = s ? blockedBy(s) : "";
  return (
    <div className={css.column}>
      <nav className="dim small" aria-label="Where this is">
        <Link to="/states">States</Link>
      </nav>
      <div className={css.headRow}>
        <h1>
          <Text limit={300}>{name}</Text>
        </h1>
        {s && <StateBadges state={s} />}
        {s && mayManage && !s.deleted_at && (
          <Button
            variant="default"
            size="sm"
            disabled={blocked !== ""}
            title={blocked || undefined}
            onClick={() => setDeleting(true)}
          >
            Delete …
          </Button>
        )}
      </div>
      {s && deleting && <DeleteDialog state={s} close={() => setDeleting(false)} />}
    </div>
  );
}

/** That the state is deleted, for how long it can come back, and both ways out. */
function DeletedNotice({ state: s }: { state: State }) {
  const mayManage = useMay("tf_state:manage");
  const [purging, setPurging] = useState(false);
  if (!s.restorable_until) return <Notice tone="red" title="This state is being purged, and comes back no more" />;
  return (
    <Notice tone="red" title="This state is deleted">
      <p>
        Deleted {s.deleted_at && <When at={s.deleted_at} />}; <TimeLeft until={s.restorable_until} />. Until then its
        bytes are kept, and tools that use it are refused.
      </p>
      {mayManage ? (
        <div className={ui.row}>
          <RestoreButton state={s} />
          <Button variant="default" size="sm" onClick={() => setPurging(true)}>
            Purge …
          </Button>
        </div>
      ) : (
        <p className="small">Restoring it needs the permission tf_state:manage, which you do not have.</p>
      )}
      {purging && <PurgeDialog state={s} close={() => setPurging(false)} />}
    </Notice>
  );
}

const tabs = ["versions", "compare", "resources", "use"] as const;

function Details({ state: s }: { state: State }) {
  const search = useSearch({ from: "/signed-in/states/$state" });
  const navigate = useNavigate({ from: "/states/$state" });
  const mayRead = useMay("tf_state:read");
  const tab = tabs.find((t) => t === search.tab) ?? "versions";
  return (
    <Tabs
      value={tab}
      onChange={(t) =>
        navigate({ search: { tab: t && t !== "versions" ? t : undefined }, replace: true, resetScroll: false })
      }
      keepMounted={false}
    >
      <Tabs.List aria-label="Details of the state" className={css.details}>
        <Tabs.Tab value="versions">Versions</Tabs.Tab>
        <Tabs.Tab value="compare">Compare</Tabs.Tab>
        <Tabs.Tab value="resources">Resources</Tabs.Tab>
        <Tabs.Tab value="use">Use it</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="versions" pt="md">
        <Versions state={s} />
      </Tabs.Panel>
      <Tabs.Panel value="compare" pt="md">
        {mayRead ? <Compare state={s} /> : <MayNotRead what="Comparing versions" />}
      </Tabs.Panel>
      <Tabs.Panel value="resources" pt="md">
        <Resources state={s} />
      </Tabs.Panel>
      <Tabs.Panel value="use" pt="md">
        <Snippet name={s.name} />
      </Tabs.Panel>
    </Tabs>
  );
}

function MayNotRead({ what }: { what: string }) {
  return (
    <Empty title={`${what} needs the permission tf_state:read`}>
      <p className="dim">A state can hold secrets that nothing marks as such. An administrator gives the permission.</p>
    </Empty>
  );
}
