import { Button, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { signIn } from "../api/client";
import { Problem } from "../api/problem";
import { safeReturn } from "../app/session";
import { Notice } from "../ui/badge";
import { ProblemBox } from "../ui/problem";
import css from "./signin.module.css";

/** The code of a one-time link, /signin#code=…: a fragment, which is never sent to a server by itself. */
export function codeOf(hash: string): string {
  return new URLSearchParams(hash.replace(/^#/, "")).get("code") ?? "";
}

/** Sign-in with a token, or with the one-time link that led here. */
export function SignInPage() {
  const [code, setCode] = useState(() => codeOf(location.hash));
  useEffect(() => {
    document.title = "Sign in · Holdfast";
    // Out of the address bar, and so out of the history and of a shared screenshot.
    if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  }, []);
  return (
    <main className={css.page}>
      <div className={css.card}>
        <div className={css.head}>
          <img src="/icon.svg" width="36" height="36" alt="" />
          <h1>Sign in to Holdfast</h1>
        </div>
        {code ? <WithLink code={code} other={() => setCode("")} /> : <WithToken />}
      </div>
    </main>
  );
}

function useSignIn() {
  const { to } = useSearch({ from: "/signin" });
  const router = useRouter();
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: signIn,
    onSuccess: async () => {
      queryClient.clear();
      await router.navigate({ href: safeReturn(to), replace: true });
    },
  });
}

function WithLink({ code, other }: { code: string; other: () => void }) {
  const attempt = useSignIn();
  const refused = attempt.error instanceof Problem && attempt.error.status >= 400 && attempt.error.status < 500;
  return (
    <div className={css.form}>
      {!attempt.error && <p>This one-time link signs this browser in. It works once.</p>}
      {attempt.error && <ProblemBox error={attempt.error} />}
      {refused ? (
        <Notice tone="blue" title="A new link">
          <p>
            A link works once and for a limited time. Ask an administrator of your organization for a new one, or sign
            in with a personal token. On the server itself, a restart prints a link as long as nobody has signed in yet.
          </p>
        </Notice>
      ) : (
        <Button onClick={() => attempt.mutate({ code })} loading={attempt.isPending} autoFocus>
          Sign in
        </Button>
      )}
      <Button variant="default" onClick={other}>
        Use a token instead
      </Button>
    </div>
  );
}

function WithToken() {
  const attempt = useSignIn();
  const [missing, setMissing] = useState<ReactNode>(null);
  // The field is not controlled: a token is in the form for as long as it takes to send it, and nowhere else.
  const submit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    const field = new FormData(e.currentTarget).get("token");
    const token = typeof field === "string" ? field.trim() : "";
    setMissing(token === "" ? "Paste a token." : null);
    if (token !== "") attempt.mutate({ token });
  };
  return (
    <form className={css.form} onSubmit={submit} noValidate>
      {attempt.error && <ProblemBox error={attempt.error} />}
      <TextInput
        name="token"
        type="password"
        label="Personal token"
        description="Starts with hf_pat_. Make one with: holdfast token create"
        placeholder="hf_pat_…"
        autoComplete="off"
        spellCheck={false}
        error={missing}
        autoFocus
      />
      <Button type="submit" loading={attempt.isPending}>
        Sign in
      </Button>
    </form>
  );
}
