import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type Change, ending, forcesReplacement, inOrder, readPlan, sides } from "./plan";

const change = (address: string, cls: string, more: Partial<Change> = {}) =>
  ({
    address,
    class: cls,
    mode: "managed",
    type: "t",
    name: "n",
    provider: "p",
    actions: [],
    attributes: [],
    ...more,
  }) as Change;

const view = (more: object) => ({
  format: 1,
  destroy: 0,
  replace: 0,
  unknown: 0,
  forget: 0,
  errored: false,
  incomplete: false,
  ...more,
});
const plan = (...views: object[]) =>
  readPlan({
    plan_digest: "sha256:x",
    components: views.map((v, i) => ({ name: `c${i}`, digest: "sha256:y", view: v })),
  });

describe("order", () => {
  it("puts what ends objects first, and what nobody knows before everything", () => {
    const got = inOrder([
      change("b", "create"),
      change("z", "delete"),
      change("a", "create"),
      change("y", "replace"),
      change("x", "hallucinate"),
      change("w", "forget"),
      change("v", "update"),
      change("c", "delete"),
      change("u", "read"),
    ]).map((c) => c.address);
    expect(got).toEqual(["x", "c", "z", "y", "w", "v", "a", "b", "u"]);
  });
});

describe("what a plan ends", () => {
  it("counts replacements as destroyed and sums over components", () => {
    const e = ending(
      plan(
        view({
          destroy: 1,
          replace: 1,
          changes: [change("a", "replace"), change("b", "delete"), change("c", "create")],
        }),
        view({ destroy: 1, forget: 1, changes: [change("d", "delete"), change("e", "forget")] }),
      ),
    );
    expect(e).toMatchObject({ destroys: 3, replaced: 1, forgotten: 1, unnamed: 0, uncertain: false });
    expect(e.named.map((n) => `${n.component} ${n.change.address}`)).toEqual(["c0 b", "c0 a", "c1 d"]);
  });

  it("says how many it cannot name", () => {
    expect(ending(plan(view({ destroy: 9, changes: [change("a", "delete")] })))).toMatchObject({
      destroys: 9,
      unnamed: 8,
    });
  });

  it.each([
    ["another format", plan({ format: 2 })],
    ["no document", plan(null as unknown as object)],
    ["a failed plan", plan(view({ errored: true }))],
    ["an incomplete plan", plan(view({ incomplete: true }))],
    ["no component", plan()],
  ])("is uncertain with %s", (_, planned) => {
    expect(ending(planned).uncertain).toBe(true);
  });

  it("takes an action that nobody understands for destroying", () => {
    expect(ending(plan(view({ unknown: 1, changes: [change("a", "unknown")] })))).toMatchObject({
      destroys: 1,
      unknown: 1,
      unnamed: 0,
    });
  });
});

describe("attributes", () => {
  it("never shows a sensitive value, even where one was sent", () => {
    const s = sides({ path: "p", before: '"hunter2"', after: '"hunter3"', sensitive: true });
    expect(JSON.stringify(s)).not.toContain("hunter");
  });

  it("marks what is unknown, absent, and of several lines", () => {
    expect(sides({ path: "id", before: '"a"', unknown: true }).after).toEqual({
      kind: "unknown",
      text: "known after apply",
    });
    expect(sides({ path: "n", after: "3" })).toEqual({
      before: { kind: "none", text: "none" },
      after: { kind: "value", text: "3" },
    });
    expect(sides({ path: "n", before: "null", after: '"a\\nb"' })).toEqual({
      before: { kind: "value", text: "null" },
      after: { kind: "text", text: "a\nb" },
    });
  });

  it("knows which attribute forces a replacement", () => {
    const c = change("a", "replace", { replace_paths: ["triggers_replace", "tags"] });
    expect(
      ["triggers_replace", "triggers_replace[0]", "tags.x", "tagsy", "input"].map((p) => forcesReplacement(c, p)),
    ).toEqual([true, true, true, false, false]);
  });
});

// The names of the fields are the server's: this fails when package plan renames one that this page reads.
it("reads the fields that the server writes", () => {
  const source = readFileSync("../internal/plan/view.go", "utf8");
  const tags = new Set([...source.matchAll(/json:"([a-z_]+)/g)].map((m) => m[1]));
  const own = readFileSync("src/plan/plan.ts", "utf8");
  const declared = own.slice(own.indexOf("export type Attribute"), own.indexOf("/** One component's plan as"));
  const read = [...declared.matchAll(/(?:^ {2}|[{;] )([a-z_]+)\??: /gm)].map((m) => m[1]);
  expect(read.length).toBeGreaterThan(40);
  expect(read.filter((f) => !tags.has(f ?? ""))).toEqual([]);
});
