import { problemOf, unreachable } from "./problem";
import type * as w from "./words";

let csrf = ""; // of the session, from whoami; never in storage
type Query = Record<string, string | number | boolean | undefined>;

async function call<T>(
  method: string,
  path: string,
  query: Query = {},
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v !== undefined && v !== "" && v !== false) q.set(k, String(v));
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") headers["X-Holdfast-CSRF"] = csrf;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const url = q.size ? `${path}?${q}` : path;
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      signal: signal ?? null,
    });
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw unreachable(e);
  }
  const text = await response.text();
  let parsed: unknown = text;
  try {
    parsed = text === "" ? undefined : JSON.parse(text);
  } catch {}
  if (!response.ok) throw problemOf(response, parsed);
  return parsed as T;
}
const e = encodeURIComponent;

export async function whoami(signal?: AbortSignal) {
  const who = await call<w.Whoami>("GET", "/api/whoami", {}, undefined, signal);
  csrf = who.csrf_token ?? "";
  return who;
}
export const signIn = (body: { token?: string; code?: string }) => call<void>("POST", "/api/session", {}, body);
export const signOut = () => call<void>("DELETE", "/api/session");

export type RunFilter = { q?: string; status?: string; stack?: string; cursor?: string };
export const runs = (f: RunFilter, signal?: AbortSignal) =>
  call<w.List<w.RunListed>>("GET", "/api/runs", { ...f, limit: 50 }, undefined, signal);
export const run = (id: string, signal?: AbortSignal) =>
  call<w.Run>("GET", `/api/runs/${e(id)}`, {}, undefined, signal);
export const runPlan = (id: string, signal?: AbortSignal) =>
  call<w.RunPlan>("GET", `/api/runs/${e(id)}/plan`, {}, undefined, signal);
export const runEvents = (id: string, after: number, signal?: AbortSignal) =>
  call<w.List<w.RunEvent>>("GET", `/api/runs/${e(id)}/events`, { after, limit: 500 }, undefined, signal);
export const runLogs = (id: string, attempt: string, after: number, signal?: AbortSignal) =>
  call<w.List<w.LogChunk>>("GET", `/api/runs/${e(id)}/logs`, { attempt, after }, undefined, signal);
export const eventsAddress = (id: string) => `/api/runs/${e(id)}/events`;
export const approve = (id: string, digest: string) =>
  call<w.Run>("POST", `/api/runs/${e(id)}/approve`, {}, { plan_digest: digest });
export const reject = (id: string, reason: string) => call<w.Run>("POST", `/api/runs/${e(id)}/reject`, {}, { reason });
export const cancel = (id: string) => call<w.Run>("POST", `/api/runs/${e(id)}/cancel`);

export type StateFilter = { q?: string; locked?: boolean; held?: boolean; cursor?: string };
export const states = (f: StateFilter, signal?: AbortSignal) =>
  call<w.List<w.State>>("GET", "/api/tf-states", { ...f, limit: 50 }, undefined, signal);
export const state = (name: string, signal?: AbortSignal) =>
  call<w.State>("GET", `/api/tf-states/${e(name)}`, {}, undefined, signal);
export const stateVersions = (name: string, cursor: string, signal?: AbortSignal) =>
  call<w.List<w.StateVersion>>("GET", `/api/tf-states/${e(name)}/versions`, { cursor, limit: 25 }, undefined, signal);
export const contentAddress = (name: string, version: number) =>
  `/api/tf-states/${e(name)}/versions/${version}/content`;

export const accounts = (signal?: AbortSignal) =>
  call<w.List<w.Account>>("GET", "/api/accounts", { limit: 500 }, undefined, signal);
export const agents = (cursor: string, signal?: AbortSignal) =>
  call<w.List<w.Agent>>("GET", "/api/provisioning/agents", { cursor, limit: 50 }, undefined, signal);
export const issueAgent = (name: string, accountId: string) =>
  call<w.IssuedAgent>("POST", "/api/provisioning/agents", {}, { name, accountId });
export const revokeAgent = (id: string) => call<void>("DELETE", `/api/provisioning/agents/${e(id)}`);

export type AuditFilter = { action?: string; actor?: string; object?: string; cursor?: string };
export const audit = (f: AuditFilter, signal?: AbortSignal) =>
  call<w.List<w.AuditRecord>>("GET", "/api/audit", { ...f, limit: 50 }, undefined, signal);
export const verifyAudit = (anchor: string) => call<w.AuditVerified>("GET", "/api/audit/verify", { anchor });
