import { useQuery } from "@tanstack/react-query";
import type { Run, RunEvent } from "../api/words";
import { Facts, Loading, Panel } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import { Clock, When } from "../ui/when";
import { ApprovalFacts } from "./approval";
import { eventsQuery } from "./queries";
import css from "./run.module.css";
import { isLive } from "./words";

/** The approval: who said what about which plan, and by which rule it was needed. */
export function ApprovalBox({ run }: { run: Run }) {
  const a = run.approval;
  const policy = { always: "always", high_risk: "when the risk is high", never: "never" }[a.policy] ?? a.policy;
  return (
    <Panel title="Approval">
      <div className={css.dialog}>
        <div>
          <strong>
            <ApprovalFacts run={run} />
          </strong>{" "}
          {a.at && <When at={a.at} />}
        </div>
        <Facts
          of={[
            [
              a.status === "rejected" ? "Rejected plan" : "Approved plan",
              a.digest ? <span className={css.digest}>{a.digest}</span> : null,
            ],
            ["Why", a.reason ? <Text>{a.reason}</Text> : null],
            ["Needed", policy],
            [
              "Plan",
              run.plan_digest && run.plan_digest !== a.digest ? (
                <span className={css.digest}>{run.plan_digest}</span>
              ) : null,
            ],
          ]}
        />
      </div>
    </Panel>
  );
}

function tone(e: RunEvent): string | undefined {
  if (e.level === "ERROR") return "red";
  if (e.level === "WARN") return "orange";
  if (/\.approved$/.test(e.type)) return "purple";
  if (/\.(succeeded|applied)$/.test(e.type)) return "green";
  return undefined;
}

/** The text of an event without its phase, which it begins with for those who read it in a terminal. */
function textOf(e: RunEvent): string {
  return e.text.replace(/^\[phase:[a-z_]+\] /, "");
}

/** What happened, oldest first. */
export function Timeline({ run }: { run: Run }) {
  const events = useQuery(eventsQuery(run.id, isLive(run.status)));
  return (
    <Panel title="Timeline">
      {events.error && <ProblemBox error={events.error} again={() => events.refetch()} />}
      {events.isPending && !events.error && <Loading what="the timeline" />}
      {events.data?.length === 0 && <p className="dim">Nothing has happened yet.</p>}
      <ol className={css.timeline}>
        {events.data?.map((e) => (
          <li key={e.seq} data-tone={tone(e)}>
            <div className={css.eventMeta}>
              <Clock at={e.at} />
              {e.level !== "INFO" && <> · {e.level === "ERROR" ? "error" : "warning"}</>}
              {e.component && (
                <>
                  {" · "}
                  <Text limit={64}>{e.component}</Text>
                </>
              )}
              {e.by && (
                <>
                  {" · by "}
                  <strong>
                    <Text limit={64}>{e.by}</Text>
                  </strong>
                </>
              )}
            </div>
            <Text lines limit={600}>
              {textOf(e)}
            </Text>
          </li>
        ))}
      </ol>
    </Panel>
  );
}
