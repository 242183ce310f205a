import createClient, { type Middleware } from "openapi-fetch";
import { exactJSON } from "./exact";
import { problemOf, unreachable } from "./problem";
import type { paths } from "./schema";
import type {
  List,
  Resource,
  ResourceDetail,
  Run,
  RunStatus,
  State,
  StateDiff,
  StateOutputs,
  StateResources,
  StateVersion,
} from "./words";

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

export type StateFilter = {
  q?: string;
  cursor?: string;
  locked?: boolean;
  stale?: boolean;
  held?: boolean;
  client_encrypted?: boolean;
  deleted?: boolean;
};

export function states(query: StateFilter, signal?: AbortSignal): Promise<List<State>> {
  return answer(client.GET("/api/tf-states", { params: { query: { ...query, limit: page } }, signal }));
}

export function state(name: string, signal?: AbortSignal): Promise<State> {
  return answer(client.GET("/api/tf-states/{name}", { params: { path: { name } }, signal }));
}

export type VersionFilter = { quarantined?: boolean; cursor?: string };

export function stateVersions(name: string, query: VersionFilter, signal?: AbortSignal) {
  return answer(
    client.GET("/api/tf-states/{name}/versions", {
      params: { path: { name }, query: { ...query, limit: versionsPage } },
      signal,
    }),
  );
}

/** The newest versions at once, for a choice among them. */
export function allVersions(name: string, signal?: AbortSignal) {
  return answer(
    client.GET("/api/tf-states/{name}/versions", { params: { path: { name }, query: { limit: most } }, signal }),
  );
}

export function rollbackState(name: string, version: number) {
  return answer(client.POST("/api/tf-states/{name}/rollback", { params: { path: { name } }, body: { version } }));
}

export function acceptVersion(name: string, version: number) {
  return answer(client.POST("/api/tf-states/{name}/accept", { params: { path: { name } }, body: { version } }));
}

/** Releases the lock, or ends the hold, with that id and no other. */
export function forceUnlock(name: string, id: string, reason: string) {
  return answer(
    client.POST("/api/tf-states/{name}/force-unlock", { params: { path: { name } }, body: { id, reason } }),
  );
}

export function deleteState(name: string, purge: boolean) {
  return answer(client.DELETE("/api/tf-states/{name}", { params: { path: { name }, query: { purge } } }));
}

export function restoreState(name: string) {
  return answer(client.POST("/api/tf-states/{name}/restore", { params: { path: { name } } }));
}

/**
 * Makes a state of a file, byte for byte; with replace in the place of a deleted one, which is purged. told hears how much of it has been sent, from 0 to 1: fetch cannot say that,
 * so this is an XMLHttpRequest.
 */
export function importState(
  name: string,
  file: Blob,
  replace: boolean,
  told: (part: number) => void,
  signal: AbortSignal,
) {
  return new Promise<StateVersion>((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open("POST", ofState(name, replace ? "import?replace_deleted=true" : "import"));
    x.responseType = "json";
    x.setRequestHeader("Accept", "application/json");
    x.setRequestHeader("Content-Type", "application/json");
    if (csrf) x.setRequestHeader("X-Holdfast-CSRF", csrf);
    x.upload.onprogress = (e) => told(e.total > 0 ? e.loaded / e.total : 0);
    x.onload = () => {
      if (x.status === 201) return resolve(x.response as StateVersion);
      const headers = { get: (n: string) => x.getResponseHeader(n) };
      reject(problemOf({ status: x.status, statusText: x.statusText, headers }, x.response));
    };
    x.onerror = () => reject(unreachable(undefined));
    x.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => x.abort(), { once: true });
    x.send(file);
  });
}

/** An answer with values of states in it, whose numbers may have more digits than JavaScript's have. */
async function exactAnswer<T>(path: string, query: Record<string, string | number | undefined>, signal?: AbortSignal) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v !== undefined && v !== "") q.set(k, String(v));
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${path}?${q}`, { headers: { Accept: "application/json" }, signal });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw unreachable(error);
  }
  if (!response.ok) throw problemOf(response, jsonOr(text));
  return exactJSON(text) as T;
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const ofState = (name: string, what: string) => `/api/tf-states/${encodeURIComponent(name)}/${what}`;

/** How two versions differ, resource by resource. */
export function stateDiff(name: string, from: number, to: number, signal?: AbortSignal) {
  return exactAnswer<StateDiff>(ofState(name, "diff"), { from, to }, signal);
}

export type ResourceFilter = { q?: string; cursor?: string };

/** The resources of all states, by address. */
export function searchResources(query: ResourceFilter, signal?: AbortSignal): Promise<List<Resource>> {
  return exactAnswer("/api/state-resources", { ...query, limit: page }, signal);
}

/** The resources of one state's current document, without values. */
export function stateResources(name: string, query: ResourceFilter, signal?: AbortSignal): Promise<StateResources> {
  return exactAnswer(ofState(name, "resources"), { ...query, limit: page }, signal);
}

/** One resource with its values, the sensitive ones left out. */
export function stateResource(name: string, address: string, signal?: AbortSignal) {
  return exactAnswer<ResourceDetail>(ofState(name, "resource"), { address }, signal);
}

/** The outputs of the current document, the sensitive values left out. */
export function stateOutputs(name: string, signal?: AbortSignal) {
  return exactAnswer<StateOutputs>(ofState(name, "outputs"), {}, signal);
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
