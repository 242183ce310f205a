/**
 * What a terminal would have shown of a line, without its colours: escape sequences removed, and of a line that was
 * rewritten with carriage returns the last state.
 */

// CSI, OSC (ended by BEL or ST), DCS/SOS/PM/APC, and two-character escapes; in their 7-bit form and as C1.
const escapes =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|(?:\u001b[PX^_]|[\u0090\u0098\u009e\u009f])[^\u001b\u009c]*(?:\u001b\\|\u009c)?|\u001b[ -/]*[0-~]/g;

/** Removes escape sequences. */
export function stripEscapes(s: string): string {
  return s.includes("\u001b") || /[\u0080-\u009f]/.test(s) ? s.replace(escapes, "") : s;
}

/** One line (without its end) as it would have looked at last. */
export function shownLine(line: string): string {
  const s = stripEscapes(line).replace(/\r+$/, "");
  const at = s.lastIndexOf("\r");
  return at < 0 ? s : s.slice(at + 1);
}
