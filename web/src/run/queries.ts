import { queryOptions } from "@tanstack/react-query";
import { run, runEvents, runPlan } from "../api/client";
import type { RunEvent } from "../api/words";
import { isLive } from "./words";

/** All keys begin with the run, so that one signal has all of it read again. */
export const runQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "run"],
    queryFn: ({ signal }) => run(id, signal),
    refetchInterval: ({ state }) => (state.data && !isLive(state.data.status) ? 60_000 : 5000),
  });

/** digest is part of the key: another plan is another document, never a newer copy of the one on the screen. */
export const planQuery = (id: string, digest: string) =>
  queryOptions({
    queryKey: ["plan", id, digest],
    queryFn: ({ signal }) => runPlan(id, signal),
    staleTime: 60_000,
  });

/** The history of a run so far; reading it again asks only for what is new. */
export const eventsQuery = (id: string, live: boolean) =>
  queryOptions({
    queryKey: ["run", id, "events"],
    queryFn: async ({ signal, client, queryKey }) => {
      let all = client.getQueryData<RunEvent[]>(queryKey) ?? [];
      for (;;) {
        const page = await runEvents(id, all.at(-1)?.seq ?? 0, signal);
        const last = all.at(-1)?.seq ?? 0;
        const fresh = page.items.filter((e) => e.seq > last);
        all = [...all, ...fresh];
        if (fresh.length === 0 || page.next === "") return all;
      }
    },
    refetchInterval: live ? 5000 : false,
  });
