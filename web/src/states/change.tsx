import { Button, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { acceptVersion, deleteState, forceUnlock, restoreState, rollbackState } from "../api/client";
import type { State, StateVersion } from "../api/words";
import { useMay } from "../app/session";
import { Notice } from "../ui/badge";
import { Dialog } from "../ui/dialog";
import { Facts } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { When } from "../ui/when";
import { Compared } from "./diff";
import { Alive, advice } from "./lock";
import css from "./states.module.css";
import { blockedBy, HolderName } from "./words";

/** Changes the state, and has the page read it again, also when it was refused: then it is not what was thought. */
function useChange(name: string, change: () => Promise<unknown>, done: () => void) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: done,
    onSettled: () => {
      queryClient.invalidateQueries({ queryKey: ["state", name] });
      queryClient.invalidateQueries({ queryKey: ["states"] });
    },
  });
}

/** A question with what it means, one button that does it, and what the server said against it. */
function Ask({
  title,
  does,
  red,
  ready = true,
  wide,
  attempt,
  close,
  children,
}: {
  title: string;
  /** The words of the button that does it. */
  does: string;
  red?: boolean;
  ready?: boolean;
  wide?: boolean;
  attempt: ReturnType<typeof useChange>;
  close: () => void;
  children: ReactNode;
}) {
  return (
    <Dialog title={title} close={close} wide={wide}>
      <form
        className={ui.column}
        onSubmit={(e) => {
          e.preventDefault();
          if (ready && !attempt.isPending) attempt.mutate();
        }}
      >
        {children}
        {attempt.error && <ProblemBox error={attempt.error} />}
        <div className={ui.row}>
          <Button type="submit" color={red ? "red" : undefined} disabled={!ready} loading={attempt.isPending}>
            {does}
          </Button>
          <Button variant="default" onClick={close}>
            Back
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Releases the lock, or ends the hold, that was there when the question was asked, and no newer one. */
export function ReleaseDialog({
  state: current,
  what,
  close,
}: {
  state: State;
  what: "lock" | "hold";
  close: () => void;
}) {
  const [s] = useState(current); // what was asked about, whatever comes in meanwhile
  const [reason, setReason] = useState("");
  const id = s[what]?.id ?? "";
  const attempt = useChange(s.name, () => forceUnlock(s.name, id, reason.trim()), close);
  const changed = current[what]?.id !== id;
  const holder = what === "lock" ? s.lock?.holder : undefined;
  return (
    <Ask
      title={what === "lock" ? "Force unlock" : "End the hold"}
      does={what === "lock" ? "Force unlock" : "End the hold"}
      red
      wide
      ready={reason.trim() !== "" && !changed}
      attempt={attempt}
      close={close}
    >
      {holder && s.lock ? (
        <>
          <Facts
            of={[
              ["Held by", <HolderName key="h" holder={holder} />],
              ["Who", s.lock.who ? <Text limit={300}>{s.lock.who}</Text> : null],
              ["Operation", s.lock.operation ? <Text limit={200}>{s.lock.operation}</Text> : null],
              ["Since", <When key="w" at={s.lock.taken_at} />],
              ["Holder is", <Alive key="a" holder={holder} />],
            ]}
          />
          <Notice
            tone={holder.alive === "no" ? "blue" : holder.alive === "yes" ? "red" : "orange"}
            title={holder.alive === "no" ? "What this means" : "Two writers can break a state"}
          >
            <p>{advice[holder.alive] ?? advice.unknown}</p>
            <p>A save that the holder still sends is refused, and kept aside as a quarantined version.</p>
            {s.hold && <p>The hold of the state stays; it has a question of its own.</p>}
          </Notice>
        </>
      ) : (
        <Notice tone="orange" title="What this means">
          <p>
            Others can lock and change the state from now on. If one does, the apply of the run refuses its plan,
            changes nothing, and has to be planned again.
          </p>
        </Notice>
      )}
      <Textarea
        label="Why"
        description="Kept in the audit log, for whoever asks later."
        value={reason}
        onChange={(e) => setReason(e.currentTarget.value)}
        maxLength={500}
        rows={2}
        required
        data-autofocus
      />
      {changed && !attempt.isPending && !attempt.isSuccess && (
        <Notice tone="orange" role="alert" title={`The ${what} has changed meanwhile`}>
          <p>Close this and look at the state again: this does not release another one.</p>
        </Notice>
      )}
    </Ask>
  );
}

/** What making that version current changes in the state. */
function WhatChanges({ state: s, to }: { state: State; to: number }) {
  return (
    <div className={css.asked}>
      <Compared name={s.name} from={s.version} to={to} title="What that changes in the state" />
    </div>
  );
}

/** Makes an older version current again. */
export function RollbackDialog({
  state: s,
  version: v,
  close,
}: {
  state: State;
  version: StateVersion;
  close: () => void;
}) {
  const attempt = useChange(s.name, () => rollbackState(s.name, v.version), close);
  const mayRead = useMay("tf_state:read");
  const blocked = blockedBy(s);
  return (
    <Ask
      title={`Roll back to version ${v.version}`}
      does={`Roll back to version ${v.version}`}
      ready={blocked === ""}
      wide
      attempt={attempt}
      close={close}
    >
      <p>
        The document of version {v.version} becomes current once more, as a new version
        {v.client_encrypted
          ? " with its old serial, which stands inside the client's encryption too"
          : v.serial === null
            ? ""
            : " with a higher serial and every other byte as it was"}
        . What is deployed does not change: plan afterwards to see how it differs.
      </p>
      {blocked && <Notice tone="orange" role="alert" title={blocked} />}
      {mayRead && !v.client_encrypted && <WhatChanges state={s} to={v.version} />}
    </Ask>
  );
}

/** Makes a version current that was refused and kept aside. */
export function AcceptDialog({
  state: s,
  version: v,
  close,
}: {
  state: State;
  version: StateVersion;
  close: () => void;
}) {
  const attempt = useChange(s.name, () => acceptVersion(s.name, v.version), close);
  const mayRead = useMay("tf_state:read");
  const blocked = blockedBy(s, v);
  return (
    <Ask
      title={`Accept the quarantined version ${v.version}`}
      does={`Make version ${v.version} current`}
      ready={blocked === ""}
      wide
      attempt={attempt}
      close={close}
    >
      <p>
        This save was refused when it came, and its bytes kept. Accept it if it tells what is really there: it becomes
        the current version byte for byte{s.hold ? ", and the hold that waits for it ends" : ""}.
      </p>
      <Facts
        of={[
          ["Saved by", <HolderName key="h" holder={v.created_by} />],
          ["When", <When key="w" at={v.created_at} />],
          ["Its serial", v.serial ?? "not readable"],
          ["Current serial", s.version === 0 ? "nothing is stored" : (s.serial ?? "not readable")],
          [
            "Lineage",
            s.version > 0 && s.lineage !== v.lineage ? (
              <strong key="l">another one than the current version's: it may be of another configuration</strong>
            ) : null,
          ],
        ]}
      />
      {blocked && <Notice tone="orange" role="alert" title={blocked} />}
      {mayRead && s.version > 0 && <WhatChanges state={s} to={v.version} />}
      {!mayRead && <p className="dim small">Comparing it needs the permission tf_state:read.</p>}
    </Ask>
  );
}

/** The field that a state's name is to be typed into. */
function TypedName({ name, typed, setTyped }: { name: string; typed: string; setTyped: (t: string) => void }) {
  return (
    <TextInput
      label={
        <>
          Type the state's name, <Text>{name}</Text>
        </>
      }
      value={typed}
      onChange={(e) => setTyped(e.currentTarget.value)}
      autoComplete="off"
      spellCheck={false}
      data-autofocus
    />
  );
}

/** Deletes a state, so that it can be restored for a time. */
export function DeleteDialog({ state: s, close }: { state: State; close: () => void }) {
  const [typed, setTyped] = useState("");
  const attempt = useChange(s.name, () => deleteState(s.name, false), close);
  const blocked = blockedBy(s);
  return (
    <Ask
      title="Delete this state"
      does="Delete the state"
      red
      ready={typed === s.name && blocked === ""}
      attempt={attempt}
      close={close}
    >
      <p>
        What is deployed goes on existing, and nothing manages it any more. The state and its versions can be restored
        for a time, which its page then shows; after that, bytes and keys are gone. Meanwhile tools that use it are
        refused.
      </p>
      {blocked && <Notice tone="orange" role="alert" title={blocked} />}
      <TypedName name={s.name} typed={typed} setTyped={setTyped} />
    </Ask>
  );
}

/** Ends a deleted state for good. */
export function PurgeDialog({ state: s, close }: { state: State; close: () => void }) {
  const [typed, setTyped] = useState("");
  const navigate = useNavigate();
  const attempt = useChange(
    s.name,
    () => deleteState(s.name, true),
    () => navigate({ to: "/states" }),
  );
  return (
    <Ask title="Purge this state" does="Purge for good" red ready={typed === s.name} attempt={attempt} close={close}>
      <Notice tone="red" title="Nothing brings it back">
        <p>The bytes and the keys of every version are deleted now. What is deployed goes on existing.</p>
      </Notice>
      <TypedName name={s.name} typed={typed} setTyped={setTyped} />
    </Ask>
  );
}

/** Brings a deleted state back. */
export function RestoreButton({ state: s }: { state: State }) {
  const attempt = useChange(
    s.name,
    () => restoreState(s.name),
    () => {},
  );
  return (
    <>
      <Button size="sm" loading={attempt.isPending} onClick={() => attempt.mutate()}>
        Restore
      </Button>
      {attempt.error && <ProblemBox error={attempt.error} />}
    </>
  );
}
