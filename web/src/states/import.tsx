import { Button, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ChangeEvent, useEffect, useRef, useState } from "react";
import { importState, state } from "../api/client";
import { Problem } from "../api/problem";
import type { StateVersion } from "../api/words";
import { useMay, whoamiQuery } from "../app/session";
import { plain } from "../text/visible";
import { Notice } from "../ui/badge";
import { Dialog } from "../ui/dialog";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import css from "./states.module.css";
import { bytes, longestName, nameOfFile, wrongName } from "./words";

type Stand =
  | { at: "chosen" }
  | { at: "sending"; part: number }
  | { at: "done"; version: StateVersion }
  | { at: "failed"; error: unknown };

type Row = {
  key: number;
  file: File;
  name: string;
  /** A deleted state of that name is to be purged for it. */
  replace: boolean;
  stand: Stand;
};

const waits = (r: Row) => r.stand.at === "chosen" || r.stand.at === "failed";

/** What can be told to be wrong with a row before it is sent. */
function wrongWith(row: Row, rows: Row[], most: number): string {
  if (row.file.size > most)
    return `The file has ${bytes(row.file.size)}; this server takes at most ${bytes(most)} (HOLDFAST_TF_STATE_MAX_BYTES).`;
  if (row.file.size === 0) return "The file is empty.";
  if (rows.some((r) => r !== row && r.name === row.name)) return "Two files have this name; each state needs its own.";
  return wrongName(row.name);
}

/**
 * Makes states of files, one after the other. Nothing that exists is changed. With name the one file goes into the
 * empty state of that name.
 */
export function ImportDialog({ close, name }: { close: () => void; name?: string }) {
  const queryClient = useQueryClient();
  const most = useQuery(whoamiQuery).data?.state_max_bytes ?? 0;
  const [rows, setRows] = useState<Row[]>([]);
  const [busy, setBusy] = useState(false);
  const stop = useRef(new AbortController());
  const nextKey = useRef(0);
  // Whoever leaves the page takes the upload with them.
  useEffect(() => {
    stop.current = new AbortController();
    return () => stop.current.abort(new Error("The dialog was closed."));
  }, []);

  const change = (key: number, c: Partial<Row>) =>
    setRows((all) => all.map((r) => (r.key === key ? { ...r, ...c } : r)));
  const choose = (e: ChangeEvent<HTMLInputElement>) => {
    const chosen = [...(e.currentTarget.files ?? [])].map((file): Row => {
      nextKey.current++;
      return {
        key: nextKey.current,
        file,
        name: name ?? nameOfFile(file.name),
        replace: false,
        stand: { at: "chosen" },
      };
    });
    e.currentTarget.value = ""; // so that the same file can be chosen again
    setRows((all) => (name ? chosen.slice(0, 1) : [...all, ...chosen]));
  };
  const ready = rows.filter((r) => waits(r) && wrongWith(r, rows, most) === "");
  const send = async () => {
    setBusy(true);
    for (const row of ready) {
      if (stop.current.signal.aborted) break;
      change(row.key, { stand: { at: "sending", part: 0 } });
      try {
        const told = (part: number) => change(row.key, { stand: { at: "sending", part } });
        const version = await importState(row.name, row.file, row.replace, told, stop.current.signal);
        change(row.key, { stand: { at: "done", version } });
      } catch (error) {
        change(row.key, { stand: { at: "failed", error } });
      }
    }
    setBusy(false);
    queryClient.invalidateQueries({ queryKey: ["states"] });
    queryClient.invalidateQueries({ queryKey: ["state"] });
  };
  const done = rows.filter((r) => r.stand.at === "done").length;
  return (
    <Dialog title={name ? `Import into ${plain(name)}` : "Import states"} close={close} wide keep>
      <form
        className={ui.column}
        onSubmit={(e) => {
          e.preventDefault();
          if (!busy && ready.length > 0) send();
        }}
      >
        <p>
          A file becomes the first version of a new state, byte for byte, with its serial and lineage; a state that
          exists is never changed. Stop everything that writes the old place first, save it with{" "}
          <code>tofu state pull</code>, and use the old place no more.
        </p>
        <label className={css.files}>
          <input type="file" multiple={!name} accept=".tfstate,.json,.backup,application/json" onChange={choose} />
          <span>{rows.length > 0 && !name ? "Choose more files …" : name ? "Choose a file …" : "Choose files …"}</span>
        </label>
        {rows.length > 0 && (
          <ul className={css.imports} aria-label="Files to import">
            {rows.map((r) => (
              <ImportRow
                key={r.key}
                row={r}
                fixed={name !== undefined}
                wrong={waits(r) ? wrongWith(r, rows, most) : ""}
                rename={(n) => change(r.key, { name: n, replace: false, stand: { at: "chosen" } })}
                replace={(on) => change(r.key, { replace: on })}
                drop={busy ? null : () => setRows((all) => all.filter((x) => x.key !== r.key))}
              />
            ))}
          </ul>
        )}
        <p className="hide" role="status">
          {done > 0 && `${done} of ${rows.length} imported`}
        </p>
        <div className={ui.row}>
          <Button type="submit" loading={busy} disabled={ready.length === 0}>
            {ready.length > 1 ? `Import ${ready.length} states` : "Import"}
          </Button>
          <Button variant="default" onClick={close}>
            {done > 0 && !busy ? "Done" : "Back"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function ImportRow({
  row,
  fixed,
  wrong,
  rename,
  replace,
  drop,
}: {
  row: Row;
  fixed: boolean;
  wrong: string;
  rename: (name: string) => void;
  replace: (on: boolean) => void;
  drop: (() => void) | null;
}) {
  const { stand } = row;
  const mayManage = useMay("tf_state:manage");
  const taken = useTaken(row.name, !fixed && waits(row) && wrong === "");
  const label = plain(row.file.name);
  return (
    <li className={css.import}>
      <div className={ui.row}>
        <strong>
          <Text limit={120}>{row.file.name}</Text>
        </strong>
        <span className="dim small">{bytes(row.file.size)}</span>
        {drop && stand.at !== "done" && (
          <Button variant="default" size="xs" onClick={drop} ml="auto">
            Remove<span className="hide"> {label}</span>
          </Button>
        )}
      </div>
      {waits(row) && !fixed && (
        <TextInput
          label={
            <>
              Name of the state<span className="hide"> of {label}</span>
            </>
          }
          value={row.name}
          onChange={(e) => rename(e.currentTarget.value)}
          maxLength={longestName + 1}
          error={wrong || (taken === "live" ? "There is a state of this name already; an import changes none." : "")}
          autoComplete="off"
          spellCheck={false}
        />
      )}
      {waits(row) && fixed && wrong && <Notice tone="red" title={wrong} />}
      {taken === "deleted" && (
        <Notice tone="orange" title="A deleted state has this name, and can still be restored">
          {mayManage ? (
            <label className={css.check}>
              <input type="checkbox" checked={row.replace} onChange={(e) => replace(e.currentTarget.checked)} />
              <span>Import in its place: its versions are gone for good.</span>
            </label>
          ) : (
            <p>Choose another name, or have it purged by somebody who may.</p>
          )}
        </Notice>
      )}
      {stand.at === "sending" && <Progress part={stand.part} what={label} />}
      {stand.at === "failed" && <ProblemBox error={stand.error} />}
      {stand.at === "done" && (
        <Notice tone="green" title="Imported">
          <p>
            As version {stand.version.version} of{" "}
            <Link to="/states/$state" params={{ state: row.name }}>
              <Text limit={200}>{row.name}</Text>
            </Link>
            , {stand.version.serial === null ? "its serial is not readable" : `serial ${stand.version.serial}`}.
          </p>
        </Notice>
      )}
    </li>
  );
}

/** Whether a state of that name is there, asked a moment after the last key and before anything is sent. */
function useTaken(name: string, ask: boolean): "" | "live" | "deleted" {
  const [settled, setSettled] = useState(name);
  useEffect(() => {
    const t = setTimeout(() => setSettled(name), 300);
    return () => clearTimeout(t);
  }, [name]);
  const found = useQuery({
    queryKey: ["state", settled, "taken"],
    queryFn: async ({ signal }) => {
      try {
        const s = await state(settled, signal);
        if (s.deleted_at) return "deleted";
        return s.version > 0 ? "live" : "";
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return "";
        throw error;
      }
    },
    enabled: ask && settled === name,
    staleTime: 5000,
  });
  return ask && settled === name ? (found.data ?? "") : "";
}

function Progress({ part, what }: { part: number; what: string }) {
  const percent = Math.round(part * 100);
  return (
    <div className={css.progress}>
      <progress max={100} value={percent} aria-label={`Sending ${what}`} />
      <span className="small numeric">{percent < 100 ? `${percent} %` : "being checked and stored …"}</span>
    </div>
  );
}
