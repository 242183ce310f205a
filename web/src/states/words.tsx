import { Link } from "@tanstack/react-router";
import type { Holder, Lock, State, StateVersion } from "../api/words";
import { Badge } from "../ui/badge";
import { Text } from "../ui/text";
import { duration, useNow } from "../ui/when";

/** Bytes for people: "812 B", "10.4 kB", "31.9 MB"; powers of 1000. */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let v = n / 1000;
  let i = 0;
  while (v >= 999.95 && i < units.length - 1) {
    v /= 1000;
    i++;
  }
  return `${v.toFixed(1)} ${units[i]}`;
}

/** Who it was: a person, or the attempt of a run with a way to that run. */
export function HolderName({ holder }: { holder: Holder }) {
  return (
    <>
      <Text limit={100}>{holder.name || holder.id}</Text>
      {holder.run && (
        <>
          {" "}
          <Link to="/runs/$run" params={{ run: holder.run }} className="small">
            run<span className="hide"> {holder.run}</span>
          </Link>
        </>
      )}
    </>
  );
}

/** That a state is locked, and what is known of its holder's life. */
export function LockBadge({ lock }: { lock: Lock }) {
  switch (lock.holder.alive) {
    case "yes":
      return <Badge tone="orange">Locked</Badge>;
    case "no":
      return <Badge tone="red">Locked, holder gone</Badge>;
    default:
      return <Badge tone="orange">Locked, holder unknown</Badge>;
  }
}

/** The standings of a state that matter to whoever wants to use it. */
export function StateBadges({ state }: { state: State }) {
  return (
    <>
      {state.deleted_at && <Badge tone="red">Deleted</Badge>}
      {state.lock && <LockBadge lock={state.lock} />}
      {state.hold && <Badge tone="purple">Held</Badge>}
      {state.client_encrypted && <Badge tone="blue">Encrypted by the client</Badge>}
    </>
  );
}

/** How long a deleted state can still be brought back. */
export function TimeLeft({ until }: { until: string }) {
  const left = Date.parse(until) - useNow();
  return <>{left > 0 ? `${duration(left)} left to restore it` : "its time to be restored is over"}</>;
}

/**
 * Why a state cannot be changed by hand now, or "" where it can. A lock whose holder is gone stands against nothing. The
 * hold of the run that a version was written by does not stand against accepting that version: it waits for just this.
 */
export function blockedBy(s: State, accepting?: StateVersion): string {
  if (s.deleted_at) return "The state is deleted.";
  if (s.lock && s.lock.holder.alive !== "no")
    return "The state is locked. Wait for its holder, or release the lock first.";
  if (s.hold && !(accepting && accepting.created_by.run === s.hold.run))
    return "The state is held for a run until its apply. Wait for that run, or end the hold first.";
  return "";
}

const allowed = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/** The longest name of a state, in characters. */
export const longestName = 128;

/** What is wrong with a name for a state, or "". */
export function wrongName(name: string): string {
  if (name === "") return "Give it a name.";
  if (name.length > longestName) return `A name has at most ${longestName} characters.`;
  if (!allowed.test(name))
    return "A name starts with a letter or digit and has only letters (A to Z), digits, dots, underscores and hyphens.";
  return "";
}

/** A name for the state in a file: the file's own, without its ending and with hyphens for what no name has. */
export function nameOfFile(file: string): string {
  return file
    .replace(/\.(tfstate\.backup|tfstate|json)$/i, "")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "")
    .slice(0, longestName);
}
