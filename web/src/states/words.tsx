import { Link } from "@tanstack/react-router";
import type { Holder, State } from "../api/words";
import { Badge } from "../ui/badge";
import { Text } from "../ui/text";

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
            run
          </Link>
        </>
      )}
    </>
  );
}

/** The standings of a state that matter to whoever wants to use it. */
export function StateBadges({ state }: { state: State }) {
  return (
    <>
      {state.deleted_at && <Badge tone="red">Deleted</Badge>}
      {state.lock && (
        <Badge tone={state.lock.holder.alive === "no" ? "red" : "orange"}>
          {state.lock.holder.alive === "no" ? "Locked, holder gone" : "Locked"}
        </Badge>
      )}
      {state.hold && <Badge tone="purple">Held</Badge>}
      {state.client_encrypted && <Badge tone="blue">Encrypted by the client</Badge>}
    </>
  );
}
