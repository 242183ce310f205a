// Texts, which are left alone, and whole numbers outside of them that may have more digits than JavaScript keeps.
const long = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;
const mark = "\u0000whole:"; // no value of a tool begins with NUL

/** JSON with whole numbers of any length: those that JavaScript would round, such as ids of 64 bits, become a bigint. */
export function exactJSON(text: string): unknown {
  const marked = text.replace(long, (m) => (m.startsWith('"') ? m : JSON.stringify(mark + m)));
  return JSON.parse(marked, (_, v: unknown) =>
    typeof v === "string" && v.startsWith(mark) ? BigInt(v.slice(mark.length)) : v,
  );
}

/** A value as JSON again. */
export function jsonText(value: unknown): string {
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return `[${value.map(jsonText).join(",")}]`;
  if (typeof value === "object" && value !== null)
    return `{${Object.entries(value)
      .map(([k, v]) => `${JSON.stringify(k)}:${jsonText(v)}`)
      .join(",")}}`;
  return JSON.stringify(value);
}
