import { Button, Menu, useMantineColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { signOut } from "../api/client";
import { Problem } from "../api/problem";
import { Notice } from "../ui/badge";
import { Text } from "../ui/text";
import { useMay, whoamiQuery } from "./session";
import css from "./shell.module.css";

/** What is around every page of somebody signed in. */
export function Shell() {
  const mayAudit = useMay("audit:read");
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
            <Link to="/states">States</Link>
            <Link to="/agents">Agents</Link>
            {mayAudit && <Link to="/audit">Audit</Link>}
          </nav>
          <div className={css.who}>
            <WhoMenu />
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

function WhoMenu() {
  const who = useQuery(whoamiQuery).data;
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  if (!who) return null;
  const leave = async () => {
    try {
      await signOut();
    } catch (error) {
      if (!(error instanceof Problem && error.status === 401)) throw error;
    }
    await navigate({ to: "/signin" });
    queryClient.clear();
  };
  return (
    <Menu position="bottom-end" width={240}>
      <Menu.Target>
        <Button variant="default" size="xs" maw="min(14rem, 50vw)">
          <Text limit={64}>{who.name}</Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown aria-label="Account">
        <Menu.Label>
          {who.role || "no role"} in <Text limit={64}>{who.organization}</Text>
        </Menu.Label>
        <Menu.Divider />
        <Menu.Label>Colours</Menu.Label>
        {(["auto", "light", "dark"] as const).map((s) => (
          <Menu.Item
            key={s}
            role="menuitemradio"
            aria-checked={colorScheme === s}
            rightSection={colorScheme === s ? <span aria-hidden="true">✓</span> : null}
            onClick={() => setColorScheme(s)}
          >
            {{ auto: "As the system", light: "Light", dark: "Dark" }[s]}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={leave}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
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
