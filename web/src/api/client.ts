import createClient, { type Middleware } from "openapi-fetch";
import { problemOf, unreachable } from "./problem";
import type { paths } from "./schema";
import type { List, Run, RunStatus, State } from "./words";

/** The session's own value, from whoami. It proves that a change comes from this page; it is in no storage. */
let csrf = "";

const guard: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrf) request.headers.set("X-Holdfast-CSRF", csrf);
    return request;
  },
  onError({ error }) {
    return error instanceof DOMException && error.name === "AbortError" ? error : unreachable(error);
  },
};

const client = createClient<paths>({
  baseUrl: location.origin,
  credentials: "same-origin",
  headers: { Accept: "application/json" },
});
client.use(guard);

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** What the answer holds, or its problem thrown. JSON is asked for, so what could also be a text is none. */
async function answer<T>(asked: Promise<Answer<T>>): Promise<Exclude<T, string>> {
  const { data, error, response } = await asked;
  if (!response.ok) throw problemOf(response, error);
  return data as Exclude<T, string>;
}

/** How many items a page of a list has. */
const page = 50;
/** How many versions a page of a state's has: it stands under what matters more. */
const versionsPage = 25;
/** The most that the server gives of a list at once. */
const most = 200;

export async function whoami(signal?: AbortSignal) {
  const who = await answer(client.GET("/api/whoami", { signal }));
  csrf = who.csrf_token ?? "";
  return who;
}

export function signIn(body: { token?: string; code?: string }) {
  return answer(client.POST("/api/session", { body }));
}

export function signOut() {
  return answer(client.DELETE("/api/session"));
}

export type RunFilter = { q?: string; status?: RunStatus[]; stack?: string; cursor?: string };

export function runs(query: RunFilter, signal?: AbortSignal) {
  return answer(client.GET("/api/runs", { params: { query: { ...query, limit: page } }, signal }));
}

export async function run(id: string, signal?: AbortSignal): Promise<Run> {
  return answer(client.GET("/api/runs/{id}", { params: { path: { id } }, signal }));
}

export function runPlan(id: string, signal?: AbortSignal) {
  return answer(client.GET("/api/runs/{id}/plan", { params: { path: { id } }, signal }));
}

export function runEvents(id: string, after: number, signal?: AbortSignal) {
  return answer(
    client.GET("/api/runs/{id}/events", { params: { path: { id }, query: { after, limit: most } }, signal }),
  );
}

/** Where the browser's EventSource finds the run's events. */
export function eventsAddress(id: string): string {
  return `/api/runs/${encodeURIComponent(id)}/events`;
}

/** Chunks of one attempt's log after one's number, -1 for all. The server bounds how many. */
export function runLogs(id: string, attempt: string, after: number, signal?: AbortSignal) {
  return answer(client.GET("/api/runs/{id}/logs", { params: { path: { id }, query: { attempt, after } }, signal }));
}

export function approve(id: string, digest: string) {
  return answer(client.POST("/api/runs/{id}/approve", { params: { path: { id } }, body: { plan_digest: digest } }));
}

export function reject(id: string, reason: string) {
  return answer(client.POST("/api/runs/{id}/reject", { params: { path: { id } }, body: { reason } }));
}

export function cancel(id: string) {
  return answer(client.POST("/api/runs/{id}/cancel", { params: { path: { id } } }));
}

export type StateFilter = { q?: string; locked?: boolean; held?: boolean; cursor?: string };

export function states(query: StateFilter, signal?: AbortSignal): Promise<List<State>> {
  return answer(client.GET("/api/tf-states", { params: { query: { ...query, limit: page } }, signal }));
}

export function state(name: string, signal?: AbortSignal): Promise<State> {
  return answer(client.GET("/api/tf-states/{name}", { params: { path: { name } }, signal }));
}

export function stateVersions(name: string, cursor: string | undefined, signal?: AbortSignal) {
  return answer(
    client.GET("/api/tf-states/{name}/versions", {
      params: { path: { name }, query: { cursor, limit: versionsPage } },
      signal,
    }),
  );
}

/** Where a version's document is downloaded from, with the session. */
export function contentAddress(name: string, version: number): string {
  return `/api/tf-states/${encodeURIComponent(name)}/versions/${version}/content`;
}

export function accounts(signal?: AbortSignal) {
  return answer(client.GET("/api/accounts", { params: { query: { limit: most } }, signal }));
}

export function agents(cursor: string | undefined, signal?: AbortSignal) {
  return answer(client.GET("/api/provisioning/agents", { params: { query: { cursor, limit: page } }, signal }));
}

export function issueAgent(name: string, accountId: string) {
  return answer(client.POST("/api/provisioning/agents", { body: { name, accountId } }));
}

export function revokeAgent(id: string) {
  return answer(client.DELETE("/api/provisioning/agents/{id}", { params: { path: { id } } }));
}

export type AuditFilter = { action?: string; actor?: string; object?: string; cursor?: string };

export function audit(query: AuditFilter, signal?: AbortSignal) {
  return answer(client.GET("/api/audit", { params: { query: { ...query, limit: page } }, signal }));
}

export function verifyAudit(anchor: string) {
  return answer(client.GET("/api/audit/verify", { params: { query: { anchor: anchor || undefined } } }));
}
