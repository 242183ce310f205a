import { Button, NativeSelect, TextInput } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { accounts, agents, issueAgent, revokeAgent } from "../api/client";
import type { Agent, IssuedAgent } from "../api/words";
import { useMay } from "../app/session";
import { plain } from "../text/visible";
import { Badge, Notice, type Tone } from "../ui/badge";
import { CopyLine } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { Empty, Loading, Page } from "../ui/page";
import { Pager } from "../ui/pager";
import { ProblemBox } from "../ui/problem";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";

const statuses: Record<Agent["status"], { label: string; tone: Tone; live: boolean }> = {
  never_seen: { label: "Never seen", tone: "grey", live: false },
  online: { label: "Online", tone: "green", live: true },
  draining: { label: "Draining", tone: "orange", live: true },
  offline: { label: "Offline", tone: "red", live: false },
  revoked: { label: "Revoked", tone: "grey", live: false },
};

function columns(revoke: ((a: Agent) => void) | null): Column<Agent>[] {
  return [
    {
      head: "Agent",
      wide: true,
      cell: (a) => (
        <>
          <strong>
            <Text limit={100}>{a.name}</Text>
          </strong>
          <div className="dim small">
            <code>{a.id}</code>
          </div>
        </>
      ),
    },
    {
      head: "Status",
      cell: (a) => {
        const s = statuses[a.status] ?? { label: a.status, tone: "orange", live: false };
        return (
          <Badge tone={s.tone} live={s.live}>
            {s.label}
          </Badge>
        );
      },
    },
    { head: "Account", tight: true, cell: (a) => <Text limit={128}>{a.account}</Text> },
    {
      head: "Version",
      cell: (a) => (a.version ? <Text limit={60}>{a.version}</Text> : <span className="dim">unknown</span>),
    },
    {
      head: "Can do",
      cell: (a) =>
        a.capabilities.length === 0 ? null : (
          <span className="small">
            <Text limit={160}>{a.capabilities.join(", ")}</Text>
          </span>
        ),
    },
    {
      head: "Last seen",
      tight: true,
      cell: (a) => (a.last_seen_at ? <When at={a.last_seen_at} /> : <span className="dim">never</span>),
    },
    ...(revoke
      ? [
          {
            head: "Token",
            right: true,
            cell: (a: Agent) =>
              a.revoked_at ? (
                <span className="dim">
                  revoked <When at={a.revoked_at} />
                </span>
              ) : (
                <Button variant="default" size="xs" onClick={() => revoke(a)}>
                  Revoke …<span className="hide"> {plain(a.name)}</span>
                </Button>
              ),
          },
        ]
      : []),
  ];
}

/** The agents of the organization. */
export function AgentsPage() {
  const { cursor } = useSearch({ from: "/signed-in/agents" });
  const may = useMay("agent:write");
  const [issuing, setIssuing] = useState(false);
  const [revoking, setRevoking] = useState<Agent | null>(null);
  const list = useQuery({
    queryKey: ["agents", cursor],
    queryFn: ({ signal }) => agents(cursor, signal),
    placeholderData: keepPreviousData,
    refetchInterval: 5000,
  });
  const issue = may && (
    <Button size="sm" onClick={() => setIssuing(true)}>
      Add an agent …
    </Button>
  );
  return (
    <Page title="Agents" actions={issue}>
      {list.error && <ProblemBox error={list.error} again={() => list.refetch()} />}
      {list.isPending && !list.error && <Loading what="agents" />}
      {list.data?.items.length === 0 && (
        <Empty title="No agents yet">
          <p className="dim">
            An agent works inside your own cloud account: it plans and applies there, and asks this server for work.
            Runs wait until their account has one.
          </p>
          {!may && <p className="dim">Whoever has the role admin can add one.</p>}
        </Empty>
      )}
      {list.data && list.data.items.length > 0 && (
        <>
          <Table label="Agents" columns={columns(may ? setRevoking : null)} items={list.data.items} id={(a) => a.id} />
          <Pager next={list.data.next} cursor={cursor ?? ""} back="Previous" on="Next" />
        </>
      )}
      {issuing && <IssueDialog close={() => setIssuing(false)} />}
      {revoking && <RevokeDialog agent={revoking} close={() => setRevoking(null)} />}
    </Page>
  );
}

function IssueDialog({ close }: { close: () => void }) {
  const queryClient = useQueryClient();
  const list = useQuery({ queryKey: ["accounts"], queryFn: ({ signal }) => accounts(signal) });
  const usable = list.data?.items.filter((a) => a.enabled) ?? [];
  const [missing, setMissing] = useState("");
  const attempt = useMutation({
    mutationFn: (v: { name: string; account: string }) => issueAgent(v.name, v.account),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["agents"] }),
    gcTime: 0, // the answer holds the token
  });
  const submit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget);
    const name = String(form.get("name") ?? "").trim();
    setMissing(name === "" ? "Give it a name." : "");
    if (name !== "") attempt.mutate({ name, account: String(form.get("account") ?? "") });
  };
  if (attempt.data) return <Issued issued={attempt.data} close={close} />;
  return (
    <Dialog title="Add an agent" close={close}>
      <form className={ui.column} onSubmit={submit} noValidate>
        {list.error && <ProblemBox error={list.error} />}
        {list.data && usable.length === 0 && (
          <Notice tone="orange" title="There is no enabled account">
            <p>An agent serves one account. Add it first: holdfast account add NAME</p>
          </Notice>
        )}
        <TextInput
          name="name"
          label="Name"
          description="Where it will run, for example prod-eu-1"
          maxLength={64}
          error={missing}
          data-autofocus
        />
        <NativeSelect name="account" label="Account" data={usable.map((a) => a.name)} disabled={usable.length === 0} />
        {attempt.error && <ProblemBox error={attempt.error} />}
        <div className={ui.row}>
          <Button type="submit" loading={attempt.isPending} disabled={usable.length === 0}>
            Make its token
          </Button>
          <Button variant="default" onClick={close}>
            Back
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Issued({ issued, close }: { issued: IssuedAgent; close: () => void }) {
  return (
    <Dialog title="The agent's token" close={close} wide keep>
      <div className={ui.column}>
        <p>
          This is shown once. Give it to the broker of{" "}
          <strong>
            <Text limit={100}>{issued.agent.name}</Text>
          </strong>{" "}
          in the account <Text limit={128}>{issued.agent.account}</Text>.
        </p>
        <CopyLine text={issued.token} what="the token" />
        <div className={ui.row}>
          <Button onClick={close}>I have kept it</Button>
        </div>
      </div>
    </Dialog>
  );
}

function RevokeDialog({ agent, close }: { agent: Agent; close: () => void }) {
  const queryClient = useQueryClient();
  const attempt = useMutation({
    mutationFn: () => revokeAgent(agent.id),
    onSuccess: close,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["agents"] }),
  });
  return (
    <Dialog title="Revoke this agent" close={close}>
      <div className={ui.column}>
        <p>
          <strong>
            <Text limit={100}>{agent.name}</Text>
          </strong>{" "}
          gets no more work and its token ends at once. What it is working on counts as lost. This cannot be undone; a
          new agent can be added.
        </p>
        {attempt.error && <ProblemBox error={attempt.error} />}
        <div className={ui.row}>
          <Button color="red" loading={attempt.isPending} onClick={() => attempt.mutate()}>
            Revoke
          </Button>
          <Button variant="default" onClick={close} data-autofocus>
            Back
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
