import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { eventsAddress } from "../api/client";

/** Names of the stream's events: a line of the history has none, "run" says that the run itself changed. */
const names = ["message", "run"];

/**
 * Follows the run's event stream while it is live, and has what changed read again. The stream is only a signal: what
 * is shown always comes from the same reads, so a lost or repeated signal does no harm. It answers whether the stream
 * stands; where it does not, the page's reads go on by the clock.
 */
export function useFollow(run: string, live: boolean, onSignal: () => void): boolean {
  const queryClient = useQueryClient();
  const [connected, setConnected] = useState(false);
  useEffect(() => {
    if (!live) return;
    const source = new EventSource(eventsAddress(run));
    let timer: ReturnType<typeof setTimeout> | undefined;
    // A burst of events is one read.
    const signal = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        queryClient.invalidateQueries({ queryKey: ["run", run] });
        onSignal();
      }, 200);
    };
    for (const n of names) source.addEventListener(n, signal);
    source.onopen = () => {
      setConnected(true);
      signal();
    };
    source.onerror = () => setConnected(false);
    return () => {
      clearTimeout(timer);
      source.close();
      setConnected(false);
    };
  }, [run, live, queryClient, onSignal]);
  return connected;
}
