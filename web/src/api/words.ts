// interim
export type List<T> = { items: T[]; next: string };
export type ProblemBody = {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  hint?: string;
  request_id: string;
};
export type Whoami = {
  kind: string;
  id: string;
  name: string;
  role: string;
  organization: string;
  permissions: string[];
  csrf_token?: string;
};
export type Account = { id: string; name: string; enabled: boolean; created_at: string };
export type Agent = {
  id: string;
  name: string;
  account: string;
  status: "never_seen" | "online" | "draining" | "offline" | "revoked";
  version: string;
  capabilities: string[];
  created_at: string;
  last_seen_at: string | null;
  revoked_at: string | null;
};
export type IssuedAgent = { agent: Agent; token: string };
export type AuditRecord = {
  seq: number;
  at: string;
  actor_kind: string;
  actor_id: string;
  actor_name: string;
  action: string;
  object: string;
  data: unknown;
  request_id: string;
  hash: string;
};
export type AuditVerified = { intact: boolean; records: number; broken_at: number; reason: string; anchor: string };
export type Counts = {
  add: number;
  change: number;
  destroy: number;
  replace: number;
  import: number;
  move: number;
  forget: number;
  outputs: number;
};
export type Person = { kind: string; id: string; name: string };
export type Approval = {
  required: boolean;
  policy: "always" | "high_risk" | "never";
  reason: string;
  status: "pending" | "approved" | "rejected" | "skipped" | "void" | "";
  digest: string;
  by: string;
  at: string | null;
};
export type RunStatus =
  | "queued"
  | "planning"
  | "awaiting_approval"
  | "applying"
  | "verifying"
  | "cancelling"
  | "succeeded"
  | "failed"
  | "rejected"
  | "cancelled"
  | "discarded";
export type RunListed = {
  id: string;
  stack: string;
  kind: "deploy" | "destroy" | "preview";
  status: RunStatus;
  risk: "none" | "low" | "high" | "";
  plan_digest: string;
  approval: Approval;
  production: boolean;
  created_by: Person;
  created_at: string;
  ended_at: string | null;
  class: "configuration" | "infrastructure" | "cancelled" | "refused" | "lost" | "";
  partial_apply: boolean;
  message: string;
  totals: Counts;
};
export type ComponentPlan = Counts & {
  digest: string;
  changes: boolean;
  risk: string;
  tool: string;
  tool_version: string;
  base_sha256: string;
  base_serial: number;
};
export type RunComponent = {
  name: string;
  state: string;
  action: string;
  status: string;
  plan: ComponentPlan | null;
  task: string;
  message: string;
  source: { sha256: string; size: number };
  outputs: unknown;
};
export type Attempt = {
  id: string;
  task: string;
  component: string;
  kind: "plan" | "apply";
  number: number;
  agent: string;
  status: "offered" | "accepted" | "cancelling" | "succeeded" | "failed" | "cancelled" | "lost" | "superseded";
  stage: string;
  progress: string;
  offered_at: string | null;
  accepted_at: string | null;
  heartbeat_at: string | null;
  ended_at: string | null;
  class: string;
  message: string;
};
export type Run = RunListed & {
  account: string;
  hold: boolean;
  waits_for?: string;
  components: RunComponent[];
  attempts: Attempt[];
};
export type RunPlan = { plan_digest: string; components: { name: string; digest: string; view: unknown }[] };
export type RunEvent = {
  seq: number;
  at: string;
  level: "INFO" | "WARN" | "ERROR";
  type: string;
  phase: string;
  component: string;
  text: string;
  by: string;
};
export type LogChunk = {
  attempt: string;
  component: string;
  kind: string;
  seq: number;
  stage: string;
  at: string;
  text: string;
};
export type Holder = {
  kind: "user" | "attempt" | "system";
  id: string;
  name: string;
  run?: string;
  task?: string;
  attempt?: string;
  alive: "yes" | "no" | "unknown";
  evidence?: string;
  last_seen: string | null;
};
export type Lock = {
  id: string;
  operation: string;
  info: string;
  who: string;
  version: string;
  created: string;
  path: string;
  taken_at: string;
  holder: Holder;
  unlock: string;
};
export type Hold = { id: string; run: string; since: string };
export type State = {
  name: string;
  version: number;
  serial: number | null;
  lineage: string;
  size: number;
  sha256: string;
  created_at: string;
  updated_at: string;
  updated_by: Holder | null;
  client_encrypted: boolean;
  deleted_at: string | null;
  lock: Lock | null;
  hold: Hold | null;
};
export type StateVersion = {
  version: number;
  serial: number | null;
  lineage: string;
  size: number;
  sha256: string;
  source: string;
  quarantined: boolean;
  current: boolean;
  tool_version: string;
  created_at: string;
  created_by: Holder;
  key: { kind: string; name: string; version: string };
  client_encrypted: boolean;
  lock_id: string;
};
