import { useSyncExternalStore } from "react";

// One clock for all times on the page, so that a list of 50 has one timer and shows one moment.
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const watchers = new Set<() => void>();

function subscribe(changed: () => void) {
  watchers.add(changed);
  if (timer === undefined) {
    now = Date.now();
    timer = setInterval(() => {
      now = Date.now();
      for (const w of watchers) w();
    }, 1000);
  }
  return () => {
    watchers.delete(changed);
    if (watchers.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time now in milliseconds, at a step of one second; components that show an age use it. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** "42 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function duration(milliseconds: number): string {
  const s = Math.max(0, Math.round(milliseconds / 1000));
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`;
  const d = Math.floor(h / 24);
  return h % 24 && d < 10 ? `${d} d ${h % 24} h` : `${d} d`;
}

function age(milliseconds: number): string {
  if (milliseconds < 5000) return "just now";
  const s = Math.floor(milliseconds / 1000);
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} d ago`;
}

/** A moment as its age, with the exact time in its title; older than 30 days, the date. */
export function When({ at }: { at: string }) {
  const current = useNow();
  const then = Date.parse(at);
  if (Number.isNaN(then)) return <span>{at || "unknown"}</span>;
  const old = current - then > 30 * 86400_000;
  const exact = new Date(then).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
  return (
    <time dateTime={at} title={exact} className="nowrap">
      {old ? new Date(then).toLocaleDateString("en-GB", { dateStyle: "medium" }) : age(current - then)}
    </time>
  );
}

/** How long something took, or has taken so far. */
export function Took({ from, to }: { from: string; to?: string | null }) {
  const current = useNow();
  const end = to ? Date.parse(to) : current;
  return <span className="nowrap numeric">{duration(end - Date.parse(from))}</span>;
}

/** A clock time, for logs and timelines. */
export function Clock({ at }: { at: string }) {
  const then = new Date(at);
  return (
    <time dateTime={at} title={then.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" })}>
      {then.toLocaleTimeString("en-GB")}
    </time>
  );
}
