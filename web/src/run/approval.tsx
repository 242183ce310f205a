import { Button, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { approve, cancel, reject } from "../api/client";
import type { Run } from "../api/words";
import { useMay } from "../app/session";
import { type Ending, ending as endingOf, type Planned } from "../plan/plan";
import { Notice } from "../ui/badge";
import { Dialog } from "../ui/dialog";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import { EndingBanner, EndingList, endingTitle } from "./ending";
import css from "./run.module.css";
import { countsText, isLive } from "./words";

type Shown = { digest: string; planned: Planned[]; ending: Ending };

/** Changes the run, and has the page read it again, also when it was refused: then it is not what was thought. */
function useChange<V>(run: Run, change: (v: V) => Promise<unknown>, done: () => void) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: done,
    onSettled: () => {
      queryClient.invalidateQueries({ queryKey: ["run", run.id] });
      queryClient.invalidateQueries({ queryKey: ["runs"] });
    },
  });
}

/**
 * The question that a run waits with. What is asked for is shown here and nowhere else, and an approval names the
 * digest of exactly that: without its document nobody can approve here.
 */
export function ApprovalPanel({
  run,
  plan,
  failed,
}: {
  run: Run;
  plan?: { digest: string; planned: Planned[] };
  failed: unknown;
}) {
  const may = useMay("run:approve");
  const [dialog, setDialog] = useState<"" | "approve" | "reject">("");
  if (!plan) {
    return (
      <Notice tone="purple" title="Waiting for approval">
        {failed ? <ProblemBox error={failed} /> : <p>The plan is on its way.</p>}
      </Notice>
    );
  }
  const shown: Shown = { ...plan, ending: endingOf(plan.planned) };
  const unreadable = plan.planned.length === 0 || plan.planned.some((p) => p.view === null);
  return (
    <section className={css.ask} aria-label="Approval">
      <EndingBanner ending={shown.ending} level="h2" />
      <div className={css.askBody}>
        <p>
          Waiting for approval{run.production ? " in production" : ""}
          {countsText(run.totals) && (
            <>
              : <strong>{countsText(run.totals)}</strong>
            </>
          )}
          .{" "}
          {run.approval.reason && (
            <span className="dim">
              <Text>{run.approval.reason}</Text>
            </span>
          )}
        </p>
        <div>
          <div className="dim small">An approval holds for this plan and no other</div>
          <div className={css.digest}>{plan.digest}</div>
        </div>
        {unreadable ? (
          <Notice tone="orange" title="This page cannot show the plan">
            <p>
              The agent that made it has another version. Update the server, or review it with: holdfast run show{" "}
              {run.id}
            </p>
          </Notice>
        ) : may ? (
          <div className={css.buttons}>
            <Button color={shown.ending.destroys > 0 ? "red" : "green"} onClick={() => setDialog("approve")}>
              Approve …
            </Button>
            <Button variant="default" onClick={() => setDialog("reject")}>
              Reject …
            </Button>
          </div>
        ) : (
          <p className="dim">Your role cannot approve. Whoever has the role operator can.</p>
        )}
      </div>
      {dialog === "approve" && <ApproveDialog run={run} current={shown} close={() => setDialog("")} />}
      {dialog === "reject" && <RejectDialog run={run} close={() => setDialog("")} />}
    </section>
  );
}

function ApproveDialog({ run, current, close }: { run: Run; current: Shown; close: () => void }) {
  const [shown] = useState(current); // what was asked when the dialog opened, whatever comes in meanwhile
  const [typed, setTyped] = useState("");
  const attempt = useChange(run, () => approve(run.id, shown.digest), close);
  const destroys = shown.ending.destroys > 0 || shown.ending.uncertain;
  const typing = run.production && destroys;
  const changed = current.digest !== shown.digest || run.status !== "awaiting_approval";
  const confirmed = !typing || typed === run.stack;
  return (
    <Dialog title="Approve this plan" close={close} wide>
      <form
        className={css.dialog}
        onSubmit={(e) => {
          e.preventDefault();
          if (confirmed && !changed) attempt.mutate(undefined);
        }}
      >
        <p>
          Exactly this plan of the stack{" "}
          <strong>
            <Text limit={128}>{run.stack}</Text>
          </strong>
          {run.production && " (production)"} will be applied: {countsText(run.totals) || "no change"}.
        </p>
        <div className={css.digest}>{shown.digest}</div>
        <Notice tone={destroys ? "red" : "grey"} title={endingTitle(shown.ending)}>
          <div className={shown.ending.named.length > 8 ? css.dialogList : undefined}>
            <EndingList ending={shown.ending} all />
          </div>
        </Notice>
        {typing && (
          <TextInput
            label={
              <>
                Type the stack's name, <Text>{run.stack}</Text>, to approve destroying in production
              </>
            }
            value={typed}
            onChange={(e) => setTyped(e.currentTarget.value)}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
          />
        )}
        {changed && (
          <Notice tone="orange" role="alert" title="The run has changed meanwhile">
            <p>Close this and look at it again: this plan cannot be approved any more.</p>
          </Notice>
        )}
        {attempt.error && <ProblemBox error={attempt.error} />}
        <div className={css.buttons}>
          <Button
            type="submit"
            color={destroys ? "red" : "green"}
            disabled={!confirmed || changed}
            loading={attempt.isPending}
          >
            Approve and apply
          </Button>
          <Button variant="default" onClick={close}>
            Back
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function RejectDialog({ run, close }: { run: Run; close: () => void }) {
  const [reason, setReason] = useState("");
  const attempt = useChange(run, () => reject(run.id, reason), close);
  return (
    <Dialog title="Reject this plan" close={close}>
      <form
        className={css.dialog}
        onSubmit={(e) => {
          e.preventDefault();
          attempt.mutate(undefined);
        }}
      >
        <p>The run ends here. Nothing is applied, and the plan is deleted.</p>
        <Textarea
          label="Why"
          description="Shown on this page and kept in the audit log. Optional."
          value={reason}
          onChange={(e) => setReason(e.currentTarget.value)}
          maxLength={1000}
          rows={3}
          data-autofocus
        />
        {attempt.error && <ProblemBox error={attempt.error} />}
        <div className={css.buttons}>
          <Button type="submit" color="red" loading={attempt.isPending}>
            Reject
          </Button>
          <Button variant="default" onClick={close}>
            Back
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Asks the run to stop, while there is something to stop. */
export function CancelButton({ run }: { run: Run }) {
  const may = useMay("run:start");
  const [open, setOpen] = useState(false);
  const attempt = useChange(
    run,
    () => cancel(run.id),
    () => setOpen(false),
  );
  if (!may || !isLive(run.status) || run.status === "cancelling") return null;
  const applying = run.status === "applying" || run.status === "verifying";
  return (
    <>
      <Button variant="default" size="sm" onClick={() => setOpen(true)}>
        Cancel the run …
      </Button>
      {open && (
        <Dialog title="Cancel this run" close={() => setOpen(false)}>
          <div className={css.dialog}>
            {applying ? (
              <Notice tone="orange" title="It is being applied">
                <p>
                  No new step is started, and the tool is asked to stop after the objects it is working on. Some changes
                  will have been made, others not; the state is saved to the end.
                </p>
              </Notice>
            ) : (
              <p>Nothing has been applied. The run ends, and its plan is deleted.</p>
            )}
            {attempt.error && <ProblemBox error={attempt.error} />}
            <div className={css.buttons}>
              <Button color="red" loading={attempt.isPending} onClick={() => attempt.mutate(undefined)} data-autofocus>
                Cancel the run
              </Button>
              <Button variant="default" onClick={() => setOpen(false)}>
                Back
              </Button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Who said what about which plan. */
export function ApprovalFacts({ run }: { run: Run }): ReactNode {
  const a = run.approval;
  const policy = { always: "always", high_risk: "for high risk", never: "never" }[a.policy] ?? a.policy;
  const who = a.by ? <Text limit={64}>{a.by}</Text> : null;
  const words: Record<typeof a.status, ReactNode> = {
    "": <>Asked for {policy}; the plan is not made yet.</>,
    pending: <>Waiting for approval.</>,
    approved: <>Approved by {who ?? "somebody"}</>,
    rejected: <>Rejected by {who ?? "somebody"}</>,
    skipped: <>Not needed.</>,
    void: <>Void: what {who ?? "somebody"} approved has changed since.</>,
  };
  return words[a.status] ?? a.status;
}
