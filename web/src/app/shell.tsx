import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef } from "react";
import { Problem } from "../api/problem";
import { Notice } from "../ui/badge";
import { useMay, whoamiQuery } from "./session";
import css from "./shell.module.css";

// The menu brings a library for placing it with it, which no page needs to begin with.
const WhoMenu = lazy(() => import("./who"));

/** What is around every page of somebody signed in. */
export function Shell() {
  const mayAudit = useMay("audit:read");
  const inStates = useLocation().pathname === "/resources"; // another way into the states
  useSlash();
  const main = useFocusOnNewPage();
  return (
    <>
      <a className={css.skip} href="#main">
        Skip to the content
      </a>
      <header className={css.top}>
        <div className={css.bar}>
          <Link to="/runs" className={css.brand}>
            <img src="/icon.svg" width="26" height="26" alt="" />
            Holdfast
          </Link>
          <nav className={css.nav} aria-label="Pages">
            <Link to="/runs">Runs</Link>
            <Link to="/states" {...(inStates && { "aria-current": "page" })}>
              States
            </Link>
            <Link to="/agents">Agents</Link>
            {mayAudit && <Link to="/audit">Audit</Link>}
          </nav>
          <div className={css.who}>
            <Suspense fallback={null}>
              <WhoMenu />
            </Suspense>
          </div>
        </div>
      </header>
      <Away />
      <main id="main" className={css.main} tabIndex={-1} ref={main}>
        <Outlet />
      </main>
    </>
  );
}

/** Says that the server is away, while what was loaded stays on the page. */
function Away() {
  const { error } = useQuery({ ...whoamiQuery, refetchInterval: 15_000 });
  if (!(error instanceof Problem) || error.status === 401) return null;
  return (
    <div className={css.away}>
      <Notice tone="orange" role="status" title={error.message}>
        {error.hint && <p>{error.hint}</p>}
      </Notice>
    </div>
  );
}

/** "/" puts the cursor into the page's filter. */
function useSlash() {
  useEffect(() => {
    const pressed = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey) return;
      if (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) return;
      if (document.querySelector('[aria-modal="true"]')) return;
      const filter = document.querySelector<HTMLInputElement>("[data-filter]");
      if (!filter) return;
      e.preventDefault();
      filter.focus();
      filter.select();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

/** Moves the focus to the content when another page is shown, as loading a document would. */
function useFocusOnNewPage() {
  const path = useLocation().pathname;
  const main = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current === path) return;
    shown.current = path;
    main.current?.focus({ preventScroll: true });
  }, [path]);
  return main;
}
