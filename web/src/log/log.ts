import type { LogChunk } from "../api/words";
import { shownLine } from "../text/terminal";

/** The stages of an attempt that have a log, in order. */
export type Section = {
  id: string;
  attempt: string;
  component: string;
  kind: string;
  stage: string;
  /** When its first text was written. */
  at: string;
  /** Lines as a terminal would have shown them; the last one may still grow. */
  lines: string[];
  /** Whether the last line has not ended yet. */
  open: boolean;
  /** The unfinished last line as it came, since its escapes may be cut in two. */
  rest: string;
};

/** The log of a run, as far as it came: grows by chunks, in order within each attempt. */
export class Log {
  readonly sections: Section[] = [];
  private next = new Map<string, number>();
  /** Rises with every change, so that a view knows that there is more. */
  revision = 0;

  /** The number after the last chunk of the attempt that was taken; -1 before the first. */
  after(attempt: string): number {
    return (this.next.get(attempt) ?? 0) - 1;
  }

  /** Takes chunks of one attempt. Those that it has already are ignored, so asking twice does no harm. */
  append(chunks: LogChunk[]): void {
    for (const c of chunks) {
      if (c.seq <= this.after(c.attempt)) continue;
      this.next.set(c.attempt, c.seq + 1);
      this.add(c);
      this.revision++;
    }
  }

  private add(c: LogChunk): void {
    const s = this.section(c);
    const lines = (s.rest + c.text).split("\n");
    s.rest = lines.pop() ?? "";
    if (s.open) s.lines.pop();
    for (const line of lines) s.lines.push(shownLine(line));
    s.open = s.rest !== "";
    if (s.open) s.lines.push(shownLine(s.rest));
  }

  private section(c: LogChunk): Section {
    const last = this.sections.findLast((s) => s.attempt === c.attempt);
    if (last && last.stage === c.stage) return last;
    const s: Section = {
      id: `${c.attempt}/${c.seq}`,
      attempt: c.attempt,
      component: c.component,
      kind: c.kind,
      stage: c.stage,
      at: c.at,
      lines: [],
      open: false,
      rest: "",
    };
    // Sections of one attempt stand together, attempts in the order in which they were first heard of.
    const at = last ? this.sections.indexOf(last) + 1 : this.sections.length;
    this.sections.splice(at, 0, s);
    return s;
  }

  /** All of it as text, each section under a heading, for copying and downloading. */
  text(): string {
    return this.sections.map((s) => `==> ${title(s)}\n${s.lines.join("\n")}\n`).join("\n");
  }

  get lineCount(): number {
    return this.sections.reduce((n, s) => n + s.lines.length, 0);
  }
}

/** What a section is called. */
export function title(s: Pick<Section, "component" | "kind" | "stage">): string {
  const stage = s.stage || "output";
  return s.stage === s.kind ? `${s.component}: ${stage}` : `${s.component}: ${s.kind} / ${stage}`;
}

/** What is known of an attempt that decides on folding. */
export type Standing = { id: string; ended: boolean; failed: boolean };

/**
 * Which sections are folded: those that are finished, except the last one of an attempt that failed, which holds the
 * reason, and except what is last of all, so that a finished run does not show an empty log. chosen holds what the
 * reader opened (false) or folded (true) by hand, which always wins.
 */
export function folded(sections: Section[], attempts: Standing[], chosen: ReadonlyMap<string, boolean>): Set<string> {
  const standing = new Map(attempts.map((a) => [a.id, a]));
  const out = new Set<string>();
  sections.forEach((s, i) => {
    const hand = chosen.get(s.id);
    const attempt = standing.get(s.attempt);
    const lastOfAttempt = sections[i + 1]?.attempt !== s.attempt;
    const finished = !lastOfAttempt || (attempt?.ended ?? false);
    const keep = (lastOfAttempt && (attempt?.failed ?? false)) || i === sections.length - 1;
    if (hand ?? (finished && !keep)) out.add(s.id);
  });
  return out;
}

/** One row of the view. */
export type Row =
  | { kind: "head"; section: Section; folded: boolean }
  | { kind: "line"; section: Section; line: number };

/**
 * The rows of the view without a list of them: a log may have 100,000 lines, and only those on the screen are asked
 * for. filter, in lower case, leaves only the lines that hold it, in every section.
 */
export class Rows {
  private parts: { section: Section; folded: boolean; start: number; matches: number[] | null }[] = [];
  readonly count: number;
  readonly matchCount: number;

  constructor(sections: Section[], fold: ReadonlySet<string>, filter = "") {
    let at = 0;
    let found = 0;
    for (const section of sections) {
      let matches: number[] | null = null;
      if (filter !== "") {
        matches = [];
        section.lines.forEach((l, i) => {
          if (l.toLowerCase().includes(filter)) matches?.push(i);
        });
        if (matches.length === 0) continue;
        found += matches.length;
      }
      const isFolded = filter === "" && fold.has(section.id);
      this.parts.push({ section, folded: isFolded, start: at, matches });
      at += 1 + (isFolded ? 0 : (matches?.length ?? section.lines.length));
    }
    this.count = at;
    this.matchCount = found;
  }

  /** The row at index, which must be less than count. */
  at(index: number): Row {
    let low = 0;
    let high = this.parts.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if ((this.parts[mid]?.start ?? 0) <= index) low = mid;
      else high = mid - 1;
    }
    const part = this.parts[low];
    if (!part || index < 0 || index >= this.count) throw new RangeError(`row ${index} of ${this.count}`);
    const offset = index - part.start;
    if (offset === 0) return { kind: "head", section: part.section, folded: part.folded };
    return { kind: "line", section: part.section, line: part.matches?.[offset - 1] ?? offset - 1 };
  }
}
