import type { ReactNode } from "react";
import css from "./ui.module.css";

export type Tone = "red" | "orange" | "green" | "blue" | "purple" | "grey";

/** A short standing. Its words say it; the colour only repeats it. */
export function Badge({ tone, live, children }: { tone: Tone; live?: boolean; children: ReactNode }) {
  return (
    <span className={`${css.badge} ${css[tone]}`}>
      {live !== undefined && <span className={css.dot} data-live={live} aria-hidden="true" />}
      {children}
    </span>
  );
}

/** A box that says something about what is below or above it. */
export function Notice({
  tone,
  title,
  children,
  role,
}: {
  tone: Tone;
  title?: ReactNode;
  children?: ReactNode;
  role?: "alert" | "status";
}) {
  return (
    <div className={`${css.notice} ${css[tone]}`} role={role}>
      {title && <div className={css.noticeTitle}>{title}</div>}
      {children}
    </div>
  );
}
