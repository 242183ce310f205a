import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { state } from "../api/client";
import type { Attempt, Run } from "../api/words";
import { plain } from "../text/visible";
import { Badge, Notice, type Tone } from "../ui/badge";
import { Empty } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { duration, Took, useNow, When } from "../ui/when";
import css from "./run.module.css";
import { isLive } from "./words";

const classes: Record<Run["class"], { title: string; hint: string }> = {
  "": { title: "The run failed", hint: "" },
  configuration: {
    title: "The configuration failed",
    hint: "The log below holds the tool's own message. Change the configuration or its inputs, then start a new run.",
  },
  infrastructure: {
    title: "The infrastructure failed",
    hint: "A provider, the network or the agent's host did. Often the same run works later: start a new one.",
  },
  cancelled: { title: "The run was cancelled", hint: "" },
  refused: {
    title: "Holdfast refused to go on",
    hint: "Nothing was applied after the refusal. Start a new run: it plans against what is there now.",
  },
  lost: {
    title: "The agent was lost",
    hint: "It stopped answering. An apply never starts again by itself: see that the agent is back, then start a new run, which plans from the state as it was saved last.",
  },
};

/** Why a run did not end well, and what to do about it. */
export function FailureBox({ run }: { run: Run }) {
  const ended = run.status === "failed" || run.class !== "" || run.partial_apply;
  if (!ended || run.status === "succeeded") return null;
  const c = classes[run.class] ?? { title: `The run failed (${run.class})`, hint: "" };
  const calm = run.class === "cancelled" && !run.partial_apply;
  const failed = run.components.filter((x) => x.status === "failed" && x.message && x.message !== run.message);
  return (
    <Notice tone={calm ? "grey" : "red"} title={c.title}>
      {run.message && (
        <p>
          <Text lines>{run.message}</Text>
        </p>
      )}
      {failed.map((x) => (
        <p key={x.name}>
          <strong>
            <Text limit={64}>{x.name}</Text>:
          </strong>{" "}
          <Text lines>{x.message}</Text>
        </p>
      ))}
      {run.partial_apply && (
        <p>
          <strong>Something may have been left half-made.</strong> What was made is in the state as far as it could be
          saved. Plan again to see what is missing.
        </p>
      )}
      {c.hint && <p>{c.hint}</p>}
      {!isLive(run.status) && run.components.map((x) => <StateLeft key={x.name} run={run.id} name={x.state} />)}
    </Notice>
  );
}

/** Says that a state is still locked or held by the run, and leads there. */
function StateLeft({ run, name }: { run: string; name: string }) {
  const { data } = useQuery({
    queryKey: ["state", name, "state"],
    queryFn: ({ signal }) => state(name, signal),
    enabled: name !== "",
    refetchInterval: 15_000,
  });
  const locked = data?.lock?.holder.run === run;
  const held = data?.hold?.run === run;
  if (!locked && !held) return null;
  return (
    <p>
      The state{" "}
      <Link to="/states/$state" params={{ state: name }}>
        <Text limit={128}>{name}</Text>
      </Link>{" "}
      is still {locked ? "locked" : "held"} by this run{locked && held ? ", and held" : ""}. Its page says whether the
      holder lives and how to release it.
    </p>
  );
}

type Output = { value?: unknown; type?: unknown; sensitive?: boolean };

function readOutputs(raw: unknown): [string, Output][] {
  if (typeof raw !== "object" || raw === null) return [];
  return Object.entries(raw as Record<string, unknown>)
    .map(([name, o]): [string, Output] => [name, typeof o === "object" && o !== null ? (o as Output) : { value: o }])
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

/** What the run's components gave out; sensitive values never reach this page. */
export function Outputs({ run }: { run: Run }) {
  const of = run.components
    .map((c) => ({ component: c, outputs: readOutputs(c.outputs) }))
    .filter((x) => x.outputs.length > 0);
  if (of.length === 0) {
    const when = isLive(run.status) ? "They come with the apply." : "";
    return (
      <Empty title="No outputs">
        <p className="dim">{when || "The configuration has none, or nothing was applied."}</p>
      </Empty>
    );
  }
  return of.map(({ component, outputs }) => (
    <section key={component.name} className={ui.panel} aria-label={`Outputs of ${plain(component.name)}`}>
      {run.components.length > 1 && (
        <div className={ui.panelHead}>
          <h3>
            <Text limit={64}>{component.name}</Text>
          </h3>
        </div>
      )}
      <dl className={css.values}>
        {outputs.map(([name, o]) => (
          <div key={name} className={css.output}>
            <dt>
              <Text limit={200}>{name}</Text>
            </dt>
            <dd>
              {o.sensitive ? (
                <span className={css.hidden}>hidden, because it is sensitive</span>
              ) : (
                <pre>
                  <Text lines limit={4000}>
                    {typeof o.value === "string" ? o.value : (JSON.stringify(o.value, null, 2) ?? "null")}
                  </Text>
                </pre>
              )}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  ));
}

const attemptTones: Record<Attempt["status"], Tone> = {
  offered: "grey",
  accepted: "blue",
  cancelling: "orange",
  succeeded: "green",
  failed: "red",
  cancelled: "grey",
  lost: "red",
  superseded: "grey",
};

/** How long an attempt may be silent before this page says so; the server's own limit is 2 minutes. */
const silence = 30_000;

function Heartbeat({ attempt }: { attempt: Attempt }) {
  const now = useNow();
  if (!attempt.heartbeat_at) return <span className="dim">none yet</span>;
  if (attempt.ended_at) return <When at={attempt.heartbeat_at} />;
  const age = now - Date.parse(attempt.heartbeat_at);
  return age > silence ? <Badge tone="orange">silent for {duration(age)}</Badge> : <When at={attempt.heartbeat_at} />;
}

const attemptColumns: Column<Attempt>[] = [
  {
    head: "Attempt",
    wide: true,
    cell: (a) => (
      <>
        <strong>
          <Text limit={64}>{a.component}</Text>: {a.kind}
        </strong>{" "}
        <span className="dim">#{a.number}</span>
        <div className="dim small">
          <code>{a.id}</code>
        </div>
        {a.message && (
          <div>
            <Text lines limit={300}>
              {a.message}
            </Text>
          </div>
        )}
      </>
    ),
  },
  { head: "Status", cell: (a) => <Badge tone={attemptTones[a.status] ?? "orange"}>{a.status}</Badge> },
  { head: "Agent", cell: (a) => (a.agent ? <Text limit={64}>{a.agent}</Text> : "none yet") },
  {
    head: "Stage",
    cell: (a) => (
      <>
        {a.stage || "not started"}
        {a.progress && (
          <div className="dim small">
            <Text limit={200}>{a.progress}</Text>
          </div>
        )}
      </>
    ),
  },
  { head: "Heartbeat", cell: (a) => <Heartbeat attempt={a} /> },
  {
    head: "Took",
    right: true,
    cell: (a) => (a.accepted_at ? <Took from={a.accepted_at} to={a.ended_at} /> : "not accepted"),
  },
  { head: "Stages", tight: true, cell: (a) => (a.stages.length === 0 ? null : <Stages attempt={a} />) },
];

/** How long each stage took, and how much of it the tool itself did. */
function Stages({ attempt: a }: { attempt: Attempt }) {
  if (a.stages.length === 0) return null;
  return (
    <ul className="small numeric">
      {a.stages.map((s) => (
        <li key={s.stage}>
          {s.stage} {seconds(s.milliseconds)}
          {s.tool_milliseconds > 0 && <span className="dim"> (tool {seconds(s.tool_milliseconds)})</span>}
        </li>
      ))}
    </ul>
  );
}

function seconds(milliseconds: number): string {
  return milliseconds < 60_000
    ? `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 2 : 1)} s`
    : duration(milliseconds);
}

/** Each execution of the run's tasks. */
export function Attempts({ run }: { run: Run }) {
  if (run.attempts.length === 0) {
    return (
      <Empty title="No attempts yet">
        <p className="dim">No agent of the account {run.account} has taken a task of this run.</p>
      </Empty>
    );
  }
  return <Table label="Attempts" columns={attemptColumns} items={run.attempts} id={(a) => a.id} />;
}
