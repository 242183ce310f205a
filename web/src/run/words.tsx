import type { Counts, RunListed, RunStatus } from "../api/words";
import { Badge, type Tone } from "../ui/badge";

/** The statuses of a run in the order of its life, with how they are said and coloured. */
export const statuses: Record<RunStatus, { label: string; tone: Tone; live: boolean }> = {
  queued: { label: "Queued", tone: "grey", live: true },
  planning: { label: "Planning", tone: "blue", live: true },
  awaiting_approval: { label: "Awaiting approval", tone: "purple", live: true },
  applying: { label: "Applying", tone: "blue", live: true },
  verifying: { label: "Verifying", tone: "blue", live: true },
  cancelling: { label: "Cancelling", tone: "orange", live: true },
  succeeded: { label: "Succeeded", tone: "green", live: false },
  failed: { label: "Failed", tone: "red", live: false },
  rejected: { label: "Rejected", tone: "grey", live: false },
  cancelled: { label: "Cancelled", tone: "grey", live: false },
  discarded: { label: "Discarded", tone: "grey", live: false },
};

/** Whether something can still happen to the run. A status this page does not know counts as live. */
export function isLive(status: RunStatus): boolean {
  return statuses[status]?.live ?? true;
}

export function StatusBadge({ status }: { status: RunStatus }) {
  const s = statuses[status] ?? { label: status, tone: "orange", live: true };
  const moving = s.live && status !== "awaiting_approval" && status !== "queued";
  return (
    <Badge tone={s.tone} live={moving}>
      {s.label}
    </Badge>
  );
}

export function RiskBadge({ risk }: { risk: RunListed["risk"] }) {
  if (risk === "") return null;
  if (risk === "high") return <Badge tone="red">High risk</Badge>;
  if (risk === "low") return <Badge tone="grey">Low risk</Badge>;
  return <Badge tone="grey">No change</Badge>;
}

export function ProductionBadge({ production }: { production: boolean }) {
  return production ? <Badge tone="orange">Production</Badge> : null;
}

export const kinds: Record<RunListed["kind"], string> = { deploy: "Deploy", destroy: "Destroy", preview: "Preview" };

/** Counts as words, in two parts: what ends objects, then the rest: "1 to destroy, 2 to replace" and "3 to add". */
export function countsTexts(c: Counts): { ends: string; rest: string } {
  const say = (of: [number, string][]) =>
    of
      .filter(([n]) => n > 0)
      .map(([n, what]) => `${n.toLocaleString("en")} ${what}`)
      .join(", ");
  return {
    ends: say([
      [c.destroy, "to destroy"],
      [c.replace, "to replace"],
    ]),
    rest: say([
      [c.forget, "to forget"],
      [c.change, "to change"],
      [c.add, "to add"],
      [c.import, "to import"],
      [c.move, "to move"],
      [c.outputs, c.outputs === 1 ? "output" : "outputs"],
    ]),
  };
}

/** All of it as one text; empty where nothing would change. */
export function countsText(c: Counts): string {
  const { ends, rest } = countsTexts(c);
  return [ends, rest].filter(Boolean).join(", ");
}
