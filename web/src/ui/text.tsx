import { useState } from "react";
import { pieces } from "../text/visible";
import css from "./ui.module.css";

type Props = {
  /** What somebody or something outside Holdfast wrote. */
  children: string;
  /** Most characters shown before a button that shows the rest. */
  limit?: number;
  /** Keep new lines and tabs. */
  lines?: boolean;
};

/** Text that is not ours: shown as text, its hidden characters as marks, its direction kept to itself. */
export function Text({ children, limit = 2000, lines = false }: Props) {
  const [all, setAll] = useState(false);
  const cut = !all && children.length > limit;
  const shown = cut ? children.slice(0, limit) : children;
  return (
    <bdi className={css.text}>
      {pieces(shown, lines).map((p, i) =>
        p.kind === "text" ? (
          p.text
        ) : (
          <span key={i} className={css.mark} title={p.title}>
            {p.text}
          </span>
        ),
      )}
      {cut && (
        <button type="button" className={css.more} onClick={() => setAll(true)}>
          … show {(children.length - limit).toLocaleString("en")} more characters
        </button>
      )}
    </bdi>
  );
}
