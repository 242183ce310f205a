import { Loader } from "@mantine/core";
import { type ReactNode, useEffect } from "react";
import { plain } from "../text/visible";
import css from "./ui.module.css";

/** A page: its title in the tab, its heading, what can be done at the top. */
export function Page({
  title,
  head,
  actions,
  children,
}: {
  title: string;
  head?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${plain(title)} · Holdfast`;
  }, [title]);
  return (
    <div className={css.page}>
      {head ?? (
        <div className={css.pageHead}>
          <h1>{title}</h1>
          {actions && <div className={css.row}>{actions}</div>}
        </div>
      )}
      {children}
    </div>
  );
}

/** A box with a heading. */
export function Panel({
  title,
  actions,
  children,
  flush,
}: {
  title: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  return (
    <section className={css.panel}>
      <div className={css.panelHead}>
        <h2>{title}</h2>
        {actions}
      </div>
      {flush ? children : <div className={css.panelBody}>{children}</div>}
    </section>
  );
}

/** Names with their values. A value of null is left out. */
export function Facts({ of }: { of: [string, ReactNode][] }) {
  return (
    <dl className={css.facts}>
      {of.map(([name, value]) =>
        value === null || value === undefined || value === "" ? null : (
          <div key={name} className={css.fact}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

/** That something is on its way. */
export function Loading({ what }: { what: string }) {
  return (
    <div className={css.loading} role="status">
      <Loader size="sm" aria-hidden="true" />
      <span>Loading {what} …</span>
    </div>
  );
}

/** That there is nothing, and what to do about it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={`${css.panel} ${css.empty}`}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}
