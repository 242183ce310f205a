import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { isSignedOut } from "../api/problem";
import { Loading } from "../ui/page";
import { NotFound, PageFailed } from "./failed";
import { safeReturn, whoamiQuery } from "./session";
import { Shell } from "./shell";

type Search = Record<string, string | undefined>;

/** Takes the named parameters of an address, as texts; empty ones and others are dropped. */
function texts<K extends string>(...names: K[]) {
  return (search: Record<string, unknown>): { [P in K]?: string } => {
    const out: Search = {};
    for (const n of names) if (typeof search[n] === "string" && search[n] !== "") out[n] = search[n];
    return out as { [P in K]?: string };
  };
}

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
  notFoundComponent: NotFound,
  errorComponent: PageFailed,
});

const signin = createRoute({
  getParentRoute: () => root,
  path: "/signin",
  validateSearch: texts("to"),
  component: lazyRouteComponent(() => import("../signin/signin"), "SignInPage"),
});

const signedIn = createRoute({
  getParentRoute: () => root,
  id: "signed-in",
  component: Shell,
  errorComponent: PageFailed,
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.ensureQueryData(whoamiQuery);
    } catch (error) {
      if (isSignedOut(error))
        throw redirect({ to: "/signin", search: { to: safeReturn(location.href) }, replace: true });
      throw error;
    }
  },
});

const home = createRoute({
  getParentRoute: () => signedIn,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/runs", replace: true });
  },
});

const runs = createRoute({
  getParentRoute: () => signedIn,
  path: "/runs",
  validateSearch: texts("q", "status", "stack", "cursor"),
  component: lazyRouteComponent(() => import("../runs/runs"), "RunsPage"),
});

const run = createRoute({
  getParentRoute: () => signedIn,
  path: "/runs/$run",
  validateSearch: texts("tab"),
  component: lazyRouteComponent(() => import("../run/run"), "RunPage"),
});

const states = createRoute({
  getParentRoute: () => signedIn,
  path: "/states",
  validateSearch: texts("q", "show", "cursor"),
  component: lazyRouteComponent(() => import("../states/states"), "StatesPage"),
});

const resources = createRoute({
  getParentRoute: () => signedIn,
  path: "/resources",
  validateSearch: texts("q", "cursor"),
  component: lazyRouteComponent(() => import("../states/search"), "ResourcesPage"),
});

const state = createRoute({
  getParentRoute: () => signedIn,
  path: "/states/$state",
  validateSearch: texts("tab", "show", "cursor", "from", "to", "q"),
  component: lazyRouteComponent(() => import("../states/state"), "StatePage"),
});

const agents = createRoute({
  getParentRoute: () => signedIn,
  path: "/agents",
  validateSearch: texts("cursor"),
  component: lazyRouteComponent(() => import("../agents/agents"), "AgentsPage"),
});

const audit = createRoute({
  getParentRoute: () => signedIn,
  path: "/audit",
  validateSearch: texts("action", "actor", "object", "cursor"),
  component: lazyRouteComponent(() => import("../audit/audit"), "AuditPage"),
});

export function newRouter(queryClient: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([
      signin,
      signedIn.addChildren([home, runs, run, states, resources, state, agents, audit]),
    ]),
    context: { queryClient },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
    defaultPendingComponent: () => <Loading what="the page" />,
    // Plain addresses: ?q=7 is the text 7, as it would be in a link somebody typed.
    parseSearch: (s) => Object.fromEntries(new URLSearchParams(s)),
    stringifySearch: (o) => {
      const q = new URLSearchParams();
      for (const [k, v] of Object.entries(o)) if (typeof v === "string" && v !== "") q.set(k, v);
      return q.size ? `?${q}` : "";
    },
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
