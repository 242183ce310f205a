import { useEffect, useRef, useState } from "react";
import { runLogs } from "../api/client";
import { Problem } from "../api/problem";
import type { Run } from "../api/words";
import { isLive } from "../run/words";
import { Log } from "./log";

/** How often the log is asked for without a signal, while the run is live. */
const every = 2000;

/**
 * The log of a run, growing. Each attempt's chunks are asked for from where the last answer ended, so that whatever
 * is lost between is asked for again; signals says that there may be more. An attempt that has ended is read to its
 * end once more after the end was seen, and then not again.
 */
export function useLog(
  run: Run,
  signals: number,
): { log: Log; revision: number; error: Problem | null; loaded: boolean } {
  const [log] = useState(() => new Log());
  const [revision, setRevision] = useState(0);
  const [error, setError] = useState<Problem | null>(null);
  const [loaded, setLoaded] = useState(false);
  const complete = useRef(new Set<string>());
  const live = isLive(run.status);
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (!live) return;
    const t = setInterval(() => setTick((n) => n + 1), every);
    return () => clearInterval(t);
  }, [live]);
  const attempts = run.attempts.map((a) => `${a.id} ${a.ended_at ? "ended" : ""}`).join(",");
  // biome-ignore lint/correctness/useExhaustiveDependencies: signals and tick are what it waits for
  useEffect(() => {
    const stop = new AbortController();
    const read = async () => {
      for (const part of attempts.split(",")) {
        const [id, ended] = part.split(" ");
        if (!id || complete.current.has(id)) continue;
        for (;;) {
          const page = await runLogs(run.id, id, log.after(id), stop.signal);
          const before = log.after(id);
          log.append(page.items);
          if (log.after(id) !== before) setRevision(log.revision);
          if (page.items.length === 0 || log.after(id) === before) break;
        }
        if (ended) complete.current.add(id);
      }
      setError(null);
      setLoaded(true);
    };
    read().catch((e: unknown) => {
      if (e instanceof Problem) setError(e);
      else if (!stop.signal.aborted) throw e;
    });
    return () => stop.abort();
  }, [run.id, attempts, log, signals, tick]);
  return { log, revision, error, loaded };
}
