import { Button, TextInput } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { Run } from "../api/words";
import { isLive } from "../run/words";
import { CopyButton } from "../ui/copy";
import { Empty, Loading } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Text } from "../ui/text";
import ui from "../ui/ui.module.css";
import { Clock } from "../ui/when";
import { useLog } from "./follow";
import { folded, type Row, Rows, title } from "./log";
import css from "./view.module.css";

/** A line longer than this is cut on the screen; copying and downloading give all of it. */
const lineLimit = 3000;

/** The log of a run: its finished stages folded, following its end while it grows. */
export function LogView({ run, signals }: { run: Run; signals: number }) {
  const { log, revision, error, loaded } = useLog(run, signals);
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [filter, setFilter] = useState("");
  const [wrap, setWrap] = useState(() => matchMedia("(max-width: 48rem)").matches);
  const wanted = useDeferredValue(filter.toLowerCase());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log grows in place and says so by its revision
  const rows = useMemo(() => {
    const standing = run.attempts.map((a) => ({
      id: a.id,
      ended: a.ended_at !== null,
      failed: a.status === "failed" || a.status === "lost",
    }));
    return new Rows(log.sections, folded(log.sections, standing, chosen), wanted);
  }, [log, revision, run.attempts, chosen, wanted]);
  const live = isLive(run.status);

  if (log.sections.length === 0) {
    if (error) return <ProblemBox error={error} />;
    if (!loaded && run.attempts.length > 0) return <Loading what="the log" />;
    return (
      <Empty title="No log yet">
        <p className="dim">
          {live
            ? `It begins when an agent of the account ${run.account} takes the work.`
            : "No agent worked on this run."}
        </p>
      </Empty>
    );
  }
  const save = () => {
    const address = URL.createObjectURL(new Blob([log.text()], { type: "text/plain;charset=utf-8" }));
    const a = document.createElement("a");
    a.href = address;
    a.download = `${run.id}.log`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  return (
    <section className={ui.panel} aria-label="Log">
      {error && <ProblemBox error={error} />}
      <div className={css.bar}>
        <TextInput
          aria-label="Find lines in the log"
          placeholder="Find lines"
          value={filter}
          onChange={(e) => setFilter(e.currentTarget.value)}
          data-filter=""
          size="xs"
          spellCheck={false}
        />
        <span className="dim small numeric" role="status">
          {wanted ? `${rows.matchCount.toLocaleString("en")} found` : `${log.lineCount.toLocaleString("en")} lines`}
        </span>
        <Button variant="default" size="xs" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>
          {wrap ? "Do not wrap" : "Wrap"}
        </Button>
        <CopyButton text={() => log.text()} what="the log" />
        <Button variant="default" size="xs" onClick={save}>
          Download
        </Button>
      </div>
      <Lines
        rows={rows}
        wrap={wrap}
        follow={live && wanted === ""}
        revision={revision}
        onFold={(id, fold) => setChosen(new Map(chosen).set(id, fold))}
      />
    </section>
  );
}

function Lines({
  rows,
  wrap,
  follow,
  revision,
  onFold,
}: {
  rows: Rows;
  wrap: boolean;
  follow: boolean;
  revision: number;
  onFold: (id: string, fold: boolean) => void;
}) {
  const box = useRef<HTMLElement>(null);
  const atEnd = useRef(true);
  const virtual = useVirtualizer({
    count: rows.count,
    getScrollElement: () => box.current,
    estimateSize: () => 20,
    overscan: 30,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new revision is what makes it scroll
  useEffect(() => {
    if (follow && atEnd.current) virtual.scrollToIndex(rows.count - 1, { align: "end" });
  }, [revision, follow, rows.count, virtual]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows have other heights when they wrap
  useEffect(() => virtual.measure(), [wrap, virtual]);
  const keys = (e: KeyboardEvent) => {
    if (e.key !== "Home" && e.key !== "End") return;
    e.preventDefault();
    virtual.scrollToIndex(e.key === "Home" ? 0 : rows.count - 1, { align: e.key === "Home" ? "start" : "end" });
  };
  return (
    <section
      className={css.scroll}
      ref={box}
      aria-label="Lines of the log"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      onKeyDown={keys}
      onScroll={(e) => {
        const b = e.currentTarget;
        atEnd.current = b.scrollHeight - b.scrollTop - b.clientHeight < 40;
      }}
    >
      <div className={css.rows} data-wrap={wrap} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((v) => (
          <div
            key={v.key}
            data-index={v.index}
            ref={virtual.measureElement}
            className={css.row}
            style={{ transform: `translateY(${v.start}px)` }}
          >
            <OneRow row={rows.at(v.index)} onFold={onFold} />
          </div>
        ))}
      </div>
    </section>
  );
}

function OneRow({ row, onFold }: { row: Row; onFold: (id: string, fold: boolean) => void }) {
  const s = row.section;
  if (row.kind === "head") {
    return (
      <button type="button" className={css.head} aria-expanded={!row.folded} onClick={() => onFold(s.id, !row.folded)}>
        <span aria-hidden="true">{row.folded ? "▸" : "▾"}</span>
        <strong>
          <Text limit={100}>{title(s)}</Text>
        </strong>
        <span className={css.count}>
          {s.lines.length.toLocaleString("en")} {s.lines.length === 1 ? "line" : "lines"} · <Clock at={s.at} />
        </span>
      </button>
    );
  }
  const text = s.lines[row.line] ?? "";
  const tone = /^\s*[│|╷╵]?\s*Error\b/.test(text) ? css.error : /^\s*[│|]?\s*Warning\b/.test(text) ? css.warning : "";
  return (
    <div className={`${css.line} ${tone}`}>
      <span className={css.number} aria-hidden="true">
        {row.line + 1}
      </span>
      <Text lines limit={lineLimit}>
        {text}
      </Text>
    </div>
  );
}
