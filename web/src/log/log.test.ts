import { describe, expect, it } from "vitest";
import type { LogChunk } from "../api/words";
import { folded, Log, Rows } from "./log";

const chunk = (attempt: string, seq: number, stage: string, text: string): LogChunk => ({
  attempt,
  component: "main",
  kind: attempt.startsWith("p") ? "plan" : "apply",
  seq,
  stage,
  at: "2026-01-01T00:00:00Z",
  text,
});

function log(...chunks: LogChunk[]): Log {
  const l = new Log();
  l.append(chunks);
  return l;
}

const none = new Map<string, boolean>();

describe("lines", () => {
  it("joins what was cut in two, escapes included, and shows the unfinished line", () => {
    const l = new Log();
    l.append([chunk("p1", 0, "init", "one\ntw")]);
    expect(l.sections[0]?.lines).toEqual(["one", "tw"]);
    l.append([chunk("p1", 1, "init", "o \u001b[3")]);
    l.append([chunk("p1", 2, "init", "1mred\u001b[0m\n\nlast\n")]);
    expect(l.sections[0]?.lines).toEqual(["one", "two red", "", "last"]);
    expect(l.lineCount).toBe(4);
  });

  it("takes a chunk once", () => {
    const l = log(chunk("p1", 0, "init", "a\n"), chunk("p1", 1, "init", "b\n"));
    l.append([chunk("p1", 1, "init", "b\n"), chunk("p1", 0, "init", "a\n"), chunk("p1", 2, "init", "c\n")]);
    expect(l.sections[0]?.lines).toEqual(["a", "b", "c"]);
    expect(l.after("p1")).toBe(2);
    expect(l.after("other")).toBe(-1);
  });

  it("keeps each attempt's stages together, also when chunks come mixed", () => {
    const l = log(
      chunk("p1", 0, "init", "a\n"),
      chunk("p2", 0, "init", "b\n"),
      chunk("p1", 1, "plan", "c\n"),
      chunk("p2", 1, "plan", "d\n"),
    );
    expect(l.sections.map((s) => `${s.attempt} ${s.stage}`)).toEqual(["p1 init", "p1 plan", "p2 init", "p2 plan"]);
  });

  it("gives it all as text", () => {
    expect(log(chunk("p1", 0, "init", "a\n"), chunk("p1", 1, "plan", "b\n")).text()).toBe(
      "==> main: plan / init\na\n\n==> main: plan\nb\n",
    );
  });
});

describe("folding", () => {
  const two = () =>
    log(
      chunk("p1", 0, "init", "a\n"),
      chunk("p1", 1, "plan", "b\n"),
      chunk("a1", 0, "apply", "c\n"),
      chunk("a1", 1, "outputs", "d\n"),
    );
  const open = (l: Log, ...args: [Parameters<typeof folded>[1], ReadonlyMap<string, boolean>]) => {
    const f = folded(l.sections, ...args);
    return l.sections.filter((s) => !f.has(s.id)).map((s) => s.stage);
  };

  it("folds what is finished and leaves what is going on open", () => {
    expect(
      open(
        two(),
        [
          { id: "p1", ended: true, failed: false },
          { id: "a1", ended: false, failed: false },
        ],
        none,
      ),
    ).toEqual(["outputs"]);
  });

  it("leaves the stage that failed open", () => {
    const l = log(chunk("p1", 0, "init", "a\n"), chunk("p1", 1, "plan", "b\n"), chunk("p2", 0, "init", "c\n"));
    expect(
      open(
        l,
        [
          { id: "p1", ended: true, failed: true },
          { id: "p2", ended: false, failed: false },
        ],
        none,
      ),
    ).toEqual(["plan", "init"]);
  });

  it("obeys the reader", () => {
    const l = two();
    const ids = l.sections.map((s) => s.id);
    const chosen = new Map([
      [ids[0] ?? "", false],
      [ids[3] ?? "", true],
    ]);
    expect(
      open(
        l,
        [
          { id: "p1", ended: true, failed: false },
          { id: "a1", ended: false, failed: false },
        ],
        chosen,
      ),
    ).toEqual(["init"]);
  });
});

describe("rows", () => {
  const l = log(
    chunk("p1", 0, "init", "a\nb\n"),
    chunk("p1", 1, "plan", "c\n"),
    chunk("a1", 0, "apply", "d\nERROR e\n"),
  );
  const flat = (r: Rows) =>
    Array.from({ length: r.count }, (_, i) => {
      const row = r.at(i);
      return row.kind === "head" ? `[${row.section.stage}${row.folded ? "-" : ""}]` : row.section.lines[row.line];
    });

  it("are the heads and the lines of what is open", () => {
    expect(flat(new Rows(l.sections, new Set([l.sections[0]?.id ?? ""])))).toEqual([
      "[init-]",
      "[plan]",
      "c",
      "[apply]",
      "d",
      "ERROR e",
    ]);
  });

  it("are only what holds the filter, folded or not", () => {
    const r = new Rows(l.sections, new Set(l.sections.map((s) => s.id)), "error");
    expect(flat(r)).toEqual(["[apply]", "ERROR e"]);
    expect(r.matchCount).toBe(1);
    expect(() => r.at(2)).toThrow(RangeError);
  });

  it("of 100,000 lines are found without a list of them", () => {
    const big = log(...Array.from({ length: 400 }, (_, i) => chunk("a1", i, "apply", "line\n".repeat(250))));
    const r = new Rows(big.sections, new Set());
    expect(r.count).toBe(100_001);
    expect(r.at(100_000)).toMatchObject({ kind: "line", line: 99_999 });
  });
});
