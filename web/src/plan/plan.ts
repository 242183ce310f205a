import type { RunPlan } from "../api/words";

/** The format of the plan document (package plan of the server) that this page can show. */
export const format = 1;

export type Class =
  | "unknown"
  | "delete"
  | "replace"
  | "forget"
  | "forget_create"
  | "update"
  | "create"
  | "import"
  | "move"
  | "read"
  | "noop";

/** The classes from the most to the least dangerous. One that is not here is as dangerous as "unknown". */
const order: Class[] = [
  "unknown",
  "delete",
  "replace",
  "forget",
  "forget_create",
  "update",
  "create",
  "import",
  "move",
  "read",
  "noop",
];

export type Attribute = {
  path: string;
  before?: string;
  after?: string;
  sensitive?: boolean;
  unknown?: boolean;
  cut?: boolean;
};

export type Change = {
  address: string;
  previous_address?: string;
  module?: string;
  mode: string;
  type: string;
  name: string;
  provider: string;
  deposed?: string;
  actions: string[];
  class: Class;
  create_first?: boolean;
  reason?: string;
  replace_paths?: string[];
  importing?: string;
  attributes: Attribute[];
  attributes_left_out?: number;
};

export type OutputChange = {
  name: string;
  class: Class;
  sensitive?: boolean;
  attributes: Attribute[];
  attributes_left_out?: number;
};

export type Check = { address: string; status: string; messages: string[] };

/** A component's plan, reduced by the agent: no secret is in it. */
export type View = {
  format: number;
  tool_version: string;
  digest: string;
  add: number;
  change: number;
  destroy: number;
  replace: number;
  import: number;
  move: number;
  forget: number;
  outputs: number;
  read: number;
  unknown: number;
  errored: boolean;
  incomplete: boolean;
  drifted: number;
  changes: Change[];
  output_changes: OutputChange[];
  drift: Change[];
  checks: Check[];
  changes_left_out: number;
  truncated: boolean;
};

/** One component's plan as this page has it: view is null where the document is of a format it does not know. */
export type Planned = { component: string; digest: string; view: View | null };

/** Reads the plan of a run. Lists that are null or missing are empty; the changes are put in order of danger. */
export function readPlan(plan: RunPlan): Planned[] {
  return plan.components.map((c) => ({ component: c.name, digest: c.digest, view: readView(c.view) }));
}

function readView(raw: unknown): View | null {
  if (typeof raw !== "object" || raw === null || (raw as View).format !== format) return null;
  const v = raw as View;
  return {
    ...v,
    changes: inOrder((v.changes ?? []).map(whole)),
    drift: inOrder((v.drift ?? []).map(whole)),
    output_changes: (v.output_changes ?? []).map((o) => ({ ...o, attributes: o.attributes ?? [] })),
    checks: v.checks ?? [],
  };
}

function whole(c: Change): Change {
  return { ...c, attributes: c.attributes ?? [], actions: c.actions ?? [] };
}

/** How dangerous a class is; less is more dangerous. */
export function rank(c: Class): number {
  return Math.max(0, order.indexOf(c));
}

/** Whether the class ends or may end an object: those stand first, whatever else a plan holds. */
export function endsObject(c: Class): boolean {
  return rank(c) <= rank("replace");
}

/** The most dangerous first, then by address, bytewise as the server does. */
export function inOrder(changes: Change[]): Change[] {
  return [...changes].sort((a, b) => {
    const d = rank(a.class) - rank(b.class);
    if (d !== 0) return d;
    return a.address < b.address ? -1 : a.address > b.address ? 1 : 0;
  });
}

/** What a run's plan ends: numbers that cover everything, and the objects that the document names. */
export type Ending = {
  /** Objects that cease to exist, or may: destroyed, replaced, or with actions nobody understands. */
  destroys: number;
  replaced: number;
  unknown: number;
  forgotten: number;
  named: { component: string; change: Change }[];
  /** How many of destroys are not named, because the document was cut. */
  unnamed: number;
  /** Whether some component's plan could not be read, failed or is cut, so that the numbers may be too low. */
  uncertain: boolean;
};

export function ending(planned: Planned[]): Ending {
  const e: Ending = {
    destroys: 0,
    replaced: 0,
    unknown: 0,
    forgotten: 0,
    named: [],
    unnamed: 0,
    uncertain: planned.length === 0,
  };
  for (const { component, view } of planned) {
    if (!view) {
      e.uncertain = true;
      continue;
    }
    e.destroys += view.destroy + view.replace + view.unknown;
    e.replaced += view.replace;
    e.unknown += view.unknown;
    e.forgotten += view.forget;
    if (view.errored || view.incomplete) e.uncertain = true;
    for (const change of view.changes) if (endsObject(change.class)) e.named.push({ component, change });
  }
  // Deposed leftovers and the like may make the document name more than it counts, never less that matters.
  e.unnamed = Math.max(0, e.destroys - e.named.length);
  return e;
}

/** Whether a change of this attribute is why the object is replaced. */
export function forcesReplacement(change: Change, path: string): boolean {
  return (change.replace_paths ?? []).some((p) => p === path || path.startsWith(`${p}.`) || path.startsWith(`${p}[`));
}

/** One side of an attribute, in the words it is shown with. */
export type Side = { kind: "value" | "text" | "none" | "sensitive" | "unknown"; text: string };

export function sides(a: Attribute): { before: Side; after: Side } {
  if (a.sensitive) {
    const hidden: Side = { kind: "sensitive", text: "sensitive" };
    return { before: hidden, after: a.unknown ? { kind: "unknown", text: "known after apply" } : hidden };
  }
  return {
    before: side(a.before),
    after: a.unknown ? { kind: "unknown", text: "known after apply" } : side(a.after),
  };
}

function side(json: string | undefined): Side {
  if (json === undefined || json === "") return { kind: "none", text: "none" };
  // Texts of several lines are shown as lines; everything else as the JSON it is, quotes included.
  if (json.startsWith('"') && json.includes("\\n")) {
    try {
      const s: unknown = JSON.parse(json);
      if (typeof s === "string") return { kind: "text", text: s };
    } catch {}
  }
  return { kind: "value", text: json };
}

const reasons: Record<string, string> = {
  replace_because_tainted: "it is tainted",
  replace_because_cannot_update: "what changes cannot be changed in place",
  replace_by_request: "a replacement was asked for",
  replace_by_triggers: "a replace_triggered_by changed",
  delete_because_no_resource_config: "it is not in the configuration any more",
  delete_because_no_module: "its module is not in the configuration any more",
  delete_because_wrong_repetition: "its count or for_each was added or removed",
  delete_because_count_index: "its index is beyond count",
  delete_because_each_key: "its key is not in for_each any more",
  delete_because_no_move_target: "it was moved to an address that is not in the configuration",
  read_because_config_unknown: "its arguments are known after apply",
  read_because_dependency_pending: "it depends on something that changes",
  read_because_check_nested: "it belongs to a check",
};

/** Why the tool does it; its own word where this page has no other. */
export function reasonText(reason: string | undefined): string {
  if (!reason) return "";
  return reasons[reason] ?? reason;
}
