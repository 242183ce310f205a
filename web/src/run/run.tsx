import { Tabs } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import type { Run } from "../api/words";
import { LogView } from "../log/view";
import { readPlan } from "../plan/plan";
import { PlanView } from "../plan/view";
import { Notice } from "../ui/badge";
import { Loading, Page } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { Took, When } from "../ui/when";
import { ApprovalPanel, CancelButton } from "./approval";
import { useFollow } from "./follow";
import { Attempts, FailureBox, Outputs } from "./outcome";
import { planQuery, runQuery } from "./queries";
import css from "./run.module.css";
import { ApprovalBox, Timeline } from "./timeline";
import { isLive, kinds, ProductionBadge, RiskBadge, StatusBadge } from "./words";

/** One run: what it would do, the question, what happened. */
export function RunPage() {
  const { run: id } = useParams({ from: "/signed-in/runs/$run" });
  const run = useQuery(runQuery(id));
  if (run.data) return <Loaded key={id} run={run.data} stale={run.error} />;
  return (
    <Page title="Run">
      {run.error ? <ProblemBox error={run.error} again={() => run.refetch()} /> : <Loading what="the run" />}
    </Page>
  );
}

function Loaded({ run, stale }: { run: Run; stale: unknown }) {
  const live = isLive(run.status);
  const queryClient = useQueryClient();
  const [signals, setSignals] = useState(0);
  const onSignal = useCallback(() => setSignals((n) => n + 1), []);
  const connected = useFollow(run.id, live, onSignal);
  const hasPlan = run.plan_digest !== "" || run.components.some((c) => c.plan !== null);
  const plan = useQuery({ ...planQuery(run.id, run.plan_digest), enabled: hasPlan });
  const planned = useMemo(
    () => plan.data && { digest: plan.data.plan_digest, planned: readPlan(plan.data) },
    [plan.data],
  );
  return (
    <Page title={`${run.stack}: ${kinds[run.kind] ?? run.kind}`} head={<Head run={run} connected={connected} />}>
      {stale ? (
        <ProblemBox error={stale} again={() => queryClient.invalidateQueries({ queryKey: ["run", run.id] })} />
      ) : null}
      {run.waits_for && run.status === "queued" && (
        <Notice tone="blue" title="Waiting for its turn">
          <p>
            Another run of this stack is ahead of it:{" "}
            <Link to="/runs/$run" params={{ run: run.waits_for }}>
              <code>{run.waits_for}</code>
            </Link>
          </p>
        </Notice>
      )}
      <FailureBox run={run} />
      {run.status === "awaiting_approval" && <ApprovalPanel run={run} plan={planned} failed={plan.error} />}
      <div className={css.columns}>
        <Details run={run} plan={planned} planFailed={plan.error} hasPlan={hasPlan} signals={signals} />
        <div>
          <ApprovalBox run={run} />
          <Timeline run={run} />
        </div>
      </div>
    </Page>
  );
}

function Head({ run, connected }: { run: Run; connected: boolean }) {
  const live = isLive(run.status);
  return (
    <div className={css.head}>
      <nav className={css.crumbs} aria-label="Where this is">
        <Link to="/runs">Runs</Link> /{" "}
        <Link to="/runs" search={{ stack: run.stack }}>
          <Text limit={128}>{run.stack}</Text>
        </Link>{" "}
        / <code>{run.id}</code>
      </nav>
      <div className={css.headRow}>
        <h1>
          {kinds[run.kind] ?? run.kind} <Text limit={128}>{run.stack}</Text>
        </h1>
        <div className={ui.row}>
          <StatusBadge status={run.status} />
          <RiskBadge risk={run.risk} />
          <ProductionBadge production={run.production} />
        </div>
        <CancelButton run={run} />
      </div>
      <div className={css.meta}>
        <span>
          by <Text limit={64}>{run.created_by.name}</Text>, <When at={run.created_at} />
        </span>
        <span>
          {live ? "for " : "took "}
          <Took from={run.created_at} to={run.ended_at} />
        </span>
        <span>
          account <Text limit={128}>{run.account}</Text>
        </span>
        {run.components.map((c) => (
          <span key={c.name}>
            state{" "}
            <Link to="/states/$state" params={{ state: c.state }}>
              <Text limit={128}>{c.state}</Text>
            </Link>
          </span>
        ))}
        {live && <span role="status">{connected ? "live" : "reading again every 5 s"}</span>}
      </div>
    </div>
  );
}

const tabs = ["plan", "log", "outputs", "attempts"] as const;

function Details({
  run,
  plan,
  planFailed,
  hasPlan,
  signals,
}: {
  run: Run;
  plan: { digest: string; planned: ReturnType<typeof readPlan> } | undefined;
  planFailed: unknown;
  hasPlan: boolean;
  signals: number;
}) {
  const search = useSearch({ from: "/signed-in/runs/$run" });
  const navigate = useNavigate({ from: "/runs/$run" });
  const followed = useNaturalTab(run, hasPlan);
  const tab = tabs.find((t) => t === search.tab) ?? followed;
  return (
    <div>
      <Tabs
        value={tab}
        onChange={(t) => navigate({ search: { tab: t ?? undefined }, replace: true, resetScroll: false })}
        keepMounted={false}
      >
        <Tabs.List aria-label="Details of the run">
          <Tabs.Tab value="plan">Plan</Tabs.Tab>
          <Tabs.Tab value="log">Log</Tabs.Tab>
          <Tabs.Tab value="outputs">Outputs</Tabs.Tab>
          <Tabs.Tab value="attempts">Attempts</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="plan" pt="md">
          {planFailed ? (
            <ProblemBox error={planFailed} />
          ) : (
            <PlanView
              planned={plan?.planned}
              hasPlan={hasPlan}
              live={isLive(run.status)}
              asked={run.status === "awaiting_approval"}
            />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="log" pt="md">
          <LogView run={run} signals={signals} />
        </Tabs.Panel>
        <Tabs.Panel value="outputs" pt="md">
          <Outputs run={run} />
        </Tabs.Panel>
        <Tabs.Panel value="attempts" pt="md">
          <Attempts run={run} />
        </Tabs.Panel>
      </Tabs>
    </div>
  );
}

/**
 * What somebody who opens the run most likely came for. It moves with the run to the plan when it asks and to the log
 * when it applies, and stays where it is when the run ends: nobody's log is taken away while it is read.
 */
function useNaturalTab(run: Run, hasPlan: boolean): (typeof tabs)[number] {
  const [tab, setTab] = useState<(typeof tabs)[number]>(() =>
    ["failed", "applying", "planning", "cancelling"].includes(run.status) || !hasPlan ? "log" : "plan",
  );
  useEffect(() => {
    if (run.status === "awaiting_approval") setTab("plan");
    if (run.status === "applying") setTab("log");
  }, [run.status]);
  return tab;
}
