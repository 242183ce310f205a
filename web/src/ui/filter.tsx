import { NativeSelect, TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import css from "./ui.module.css";

/** A text filter that is put into the address a moment after the last key. The first one on a page answers to "/". */
export function TextFilter({
  label,
  value,
  placeholder,
  onChange,
  first,
}: {
  label: string;
  value: string;
  placeholder?: string;
  onChange: (value: string) => void;
  first?: boolean;
}) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  // Another value from outside (back button, link) replaces what is typed; our own coming back does not.
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value;
      setText(value);
    }
  }, [value]);
  const change = useRef(onChange);
  change.current = onChange;
  useEffect(() => {
    if (text === sent.current) return;
    const t = setTimeout(() => {
      sent.current = text;
      change.current(text);
    }, 250);
    return () => clearTimeout(t);
  }, [text]);
  return (
    <TextInput
      data-grow={first}
      label={label}
      value={text}
      placeholder={placeholder}
      onChange={(e) => setText(e.currentTarget.value)}
      onKeyDown={(e) => {
        if (e.key === "Escape" && text !== "") {
          e.preventDefault();
          setText("");
        }
      }}
      data-filter={first ? "" : undefined}
      rightSection={first && text === "" ? <kbd className={css.hint}>/</kbd> : undefined}
      rightSectionPointerEvents="none"
      autoComplete="off"
      spellCheck={false}
      wrapperProps={{ "data-grow": first }}
    />
  );
}

/** A choice that is part of the address. */
export function ChoiceFilter({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string;
  options: [value: string, label: string][];
  onChange: (value: string) => void;
}) {
  return (
    <NativeSelect
      label={label}
      value={value}
      onChange={(e) => onChange(e.currentTarget.value)}
      data={options.map(([v, l]) => ({ value: v, label: l }))}
    />
  );
}
