import { Button } from "@mantine/core";
import { useEffect, useState } from "react";
import { Text } from "./text";
import css from "./ui.module.css";

/** Puts text on the clipboard; false where the browser refuses (no secure context, no permission). */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A button that copies, and says whether it did. */
export function CopyButton({ text, label, what }: { text: string | (() => string); label?: string; what: string }) {
  const [done, setDone] = useState<"" | "copied" | "failed">("");
  useEffect(() => {
    if (!done) return;
    const t = setTimeout(() => setDone(""), 2000);
    return () => clearTimeout(t);
  }, [done]);
  return (
    <Button
      className={css.copyButton}
      variant="default"
      size="xs"
      onClick={async () => setDone((await copyText(typeof text === "string" ? text : text())) ? "copied" : "failed")}
    >
      {done === "copied" ? "Copied" : done === "failed" ? "Not allowed by the browser" : (label ?? "Copy")}
      <span className="hide"> {done === "" && what}</span>
      <span className="hide" role="status">
        {done === "copied" ? `${what} copied` : done === "failed" ? `${what} could not be copied` : ""}
      </span>
    </Button>
  );
}

/** A line to be copied, such as a command. What is copied is the exact text; what is shown has its marks. */
export function CopyLine({ text, what }: { text: string; what: string }) {
  return (
    <div className={css.copyLine}>
      <code className={css.copyText}>
        <Text>{text}</Text>
      </code>
      <CopyButton text={text} what={what} />
    </div>
  );
}
