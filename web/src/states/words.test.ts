import { describe, expect, it } from "vitest";
import type { Holder, State, StateVersion } from "../api/words";
import { blockedBy, nameOfFile, wrongName } from "./words";

describe("the name of a file's state", () => {
  it.each([
    ["network.tfstate", "network"],
    ["network.tfstate.backup", "network"],
    ["shop.main.json", "shop.main"],
    ["my state (1).tfstate", "my-state-1-"],
    ["..hidden", "hidden"],
    ["žofie.tfstate", "ofie"],
    [`${"a".repeat(200)}.tfstate`, "a".repeat(128)],
  ])("%s is %s", (file, name) => {
    expect(nameOfFile(file)).toBe(name);
    expect(wrongName(name)).toBe("");
  });

  it.each(["", "-x", ".x", "a/b", "a b", "ž", "a".repeat(129)])("%s is refused", (name) => {
    expect(wrongName(name)).not.toBe("");
  });
});

describe("what stands against a change by hand", () => {
  const free = { lock: null, hold: null, deleted_at: null } as State;
  const holder = (alive: Holder["alive"]) => ({ alive }) as Holder;
  const lock = (alive: Holder["alive"]) => ({ holder: holder(alive) }) as State["lock"];
  const hold = { id: "hold-run_1", run: "run_1", since: "" };
  const saved = (run: string) => ({ created_by: { run } }) as StateVersion;

  it("is a lock whose holder may live", () => {
    expect(blockedBy(free)).toBe("");
    expect(blockedBy({ ...free, lock: lock("yes") })).not.toBe("");
    expect(blockedBy({ ...free, lock: lock("unknown") })).not.toBe("");
    expect(blockedBy({ ...free, lock: lock("no") })).toBe("");
  });

  it("is a hold, but for the save that it waits for", () => {
    expect(blockedBy({ ...free, hold })).not.toBe("");
    expect(blockedBy({ ...free, hold }, saved("run_2"))).not.toBe("");
    expect(blockedBy({ ...free, hold }, saved("run_1"))).toBe("");
    expect(blockedBy({ ...free, hold, lock: lock("yes") }, saved("run_1"))).not.toBe("");
  });
});
