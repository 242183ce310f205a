import { QueryCache, QueryClient, queryOptions, useQuery } from "@tanstack/react-query";
import { whoami } from "../api/client";
import { isSignedOut, Problem } from "../api/problem";

export type Permission =
  | "tf_state:read"
  | "tf_state:write"
  | "tf_state:manage"
  | "run:start"
  | "run:approve"
  | "account:read"
  | "agent:write"
  | "audit:read";

/** Who is signed in. It is asked again when a window comes back, since a role may have changed. */
export const whoamiQuery = queryOptions({
  queryKey: ["whoami"],
  queryFn: ({ signal }) => whoami(signal),
  staleTime: 60_000,
});

/** Whether whoever is signed in may do p. Actions that are not allowed are not shown. */
export function useMay(p: Permission): boolean {
  return useQuery(whoamiQuery).data?.permissions.includes(p) ?? false;
}

/** The cache of the server's answers. onSignedOut is called when an answer says that the session has ended. */
export function newQueryClient(onSignedOut: () => void): QueryClient {
  return new QueryClient({
    queryCache: new QueryCache({
      onError: (error) => {
        if (isSignedOut(error)) onSignedOut();
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 1000,
        // A refusal stays a refusal; an unreachable or overloaded server is asked again.
        retry: (count, error) =>
          count < 3 && error instanceof Problem && (error.status === 0 || error.status === 429 || error.status >= 502),
        retryDelay: (attempt) => Math.min(500 * 2 ** attempt, 5000),
        networkMode: "always", // the server may be on this machine
      },
      mutations: { networkMode: "always" },
    },
  });
}

/** The path to return to after sign-in: only a path of this site, whatever the address says. */
export function safeReturn(to: string | undefined): string {
  if (!to?.startsWith("/") || /^\/[/\\]/.test(to) || to.startsWith("/signin")) return "/";
  try {
    const u = new URL(to, "http://site.invalid");
    return u.host === "site.invalid" ? u.pathname + u.search : "/";
  } catch {
    return "/";
  }
}
