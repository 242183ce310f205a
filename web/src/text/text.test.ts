import { describe, expect, it } from "vitest";
import { shownLine, stripEscapes } from "./terminal";
import { pieces, plain } from "./visible";

describe("hidden characters become marks", () => {
  it.each([
    ["Žofie@日本-host\u202eevil", "Žofie@日本-host⟨U+202E⟩evil"],
    ["a\nb\tc\rd\u0000e\u001b[31m", "a⟨\\n⟩b⟨\\t⟩c⟨\\r⟩d⟨\\0⟩e⟨\\e⟩[31m"],
    ["a\u2028b\u200bc\ufeffd\u00ade", "a⟨U+2028⟩b⟨U+200B⟩c⟨U+FEFF⟩d⟨U+00AD⟩e"],
    ["lone \ud800 and \udc00.", "lone ⟨U+D800⟩ and ⟨U+DC00⟩."],
    ["\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"],
    ["tag\u{e0041}", "tag⟨U+E0041⟩"],
    ["admin\u200d", "admin⟨U+200D⟩"],
    ["\u009b31m", "⟨U+009B⟩31m"],
  ])("%j", (input, want) => {
    expect(plain(input)).toBe(want);
  });

  it.each(["👩‍💻 works", "می‌خواهم", "𝄞 clef", "<img src=x onerror=alert(1)>", "plain"])("leaves %j alone", (s) => {
    expect(plain(s)).toBe(s);
  });

  it("keeps lines and tabs of longer texts, and nothing else", () => {
    expect(pieces("a\n\tb\r", true)).toEqual([
      { kind: "text", text: "a\n\tb" },
      { kind: "mark", text: "\\r", title: "carriage return (U+000D)" },
    ]);
  });
});

describe("terminal lines", () => {
  it.each([
    ["\u001b[1m\u001b[32mApply complete!\u001b[0m", "Apply complete!"],
    ["\u001b]8;;https://example.com\u0007link\u001b]8;;\u0007", "link"],
    ["\u001b]0;title\u001b\\rest", "rest"],
    ["\u009b31mred", "red"],
    ["\u001bPdevice\u001b\\after", "after"],
    ["no escapes [31m", "no escapes [31m"],
  ])("strips %j", (input, want) => {
    expect(stripEscapes(input)).toBe(want);
  });

  it("shows the last state of a rewritten line", () => {
    expect(shownLine("10%\r50%\r100%\r\r")).toBe("100%");
    expect(shownLine("plain\r")).toBe("plain");
  });
});
