/**
 * Text from templates, tools and people is shown as text, and characters that hide or reorder text are shown as
 * marks: a name must not look like another one, and a log must not rewrite what stands beside it.
 */

/** A run of plain text, or one character shown as a mark. */
export type Piece = { kind: "text"; text: string } | { kind: "mark"; text: string; title: string };

const named: Record<number, [string, string]> = {
  0: ["\\0", "NUL"],
  7: ["\\a", "bell"],
  8: ["\\b", "backspace"],
  9: ["\\t", "tab"],
  10: ["\\n", "new line"],
  11: ["\\v", "vertical tab"],
  12: ["\\f", "form feed"],
  13: ["\\r", "carriage return"],
  27: ["\\e", "escape"],
  8206: ["U+200E", "left-to-right mark"],
  8207: ["U+200F", "right-to-left mark"],
  8232: ["U+2028", "line separator"],
  8233: ["U+2029", "paragraph separator"],
  8234: ["U+202A", "left-to-right embedding"],
  8235: ["U+202B", "right-to-left embedding"],
  8236: ["U+202C", "end of direction"],
  8237: ["U+202D", "left-to-right override"],
  8238: ["U+202E", "right-to-left override"],
  8294: ["U+2066", "left-to-right isolate"],
  8295: ["U+2067", "right-to-left isolate"],
  8296: ["U+2068", "first strong isolate"],
  8297: ["U+2069", "end of isolate"],
  65279: ["U+FEFF", "zero-width no-break space"],
};

// C0, DEL and C1; soft hyphen; Arabic letter mark; Hangul and Khmer fillers; zero-width and bidi characters;
// line and paragraph separators; word joiner to the deprecated formats; byte order mark; interlinear marks;
// lone surrogates; tags. The joiners 200C and 200D are letters of some scripts, so they count only after ASCII.
// biome-ignore-start lint/suspicious/noControlCharactersInRegex: they are what is looked for
// biome-ignore-start lint/suspicious/noMisleadingCharacterClass: each stands for itself
const hidden =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f]|(?<=[\u0000-\u007f]|^)[\u200c\u200d]/g;
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: see above
// biome-ignore-end lint/suspicious/noMisleadingCharacterClass: see above

function mark(c: string): Piece {
  const point = c.codePointAt(0) ?? 0;
  const code = `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  const [text, name] = named[point] ?? [code, "hidden character"];
  return { kind: "mark", text, title: text === code ? `${code} ${name}` : `${name} (${code})` };
}

/** Splits s into plain text and marks. With lines, new lines and tabs stay as they are. */
export function pieces(s: string, lines = false): Piece[] {
  const out: Piece[] = [];
  let from = 0;
  for (const m of s.matchAll(hidden)) {
    const c = m[0];
    if (lines && (c === "\n" || c === "\t")) continue;
    if (m.index > from) out.push({ kind: "text", text: s.slice(from, m.index) });
    out.push(mark(c));
    from = m.index + c.length;
  }
  if (from < s.length) out.push({ kind: "text", text: s.slice(from) });
  return out;
}

/** The same as one string, for titles and labels. */
export function plain(s: string): string {
  return pieces(s)
    .map((p) => (p.kind === "text" ? p.text : `⟨${p.text}⟩`))
    .join("");
}
