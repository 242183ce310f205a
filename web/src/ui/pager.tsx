import { Button } from "@mantine/core";
import { useNavigate, useRouter, useRouterState } from "@tanstack/react-router";
import css from "./ui.module.css";

declare module "@tanstack/history" {
  interface HistoryState {
    /** How many pages of a list were turned to get here, so that "Newer" can go back to the very same page. */
    turned?: number;
  }
}

/**
 * Turns the pages of a list by cursor. A cursor only leads on, so the way back is the browser's own; an address that
 * was opened in the middle of a list offers its start instead.
 */
export function Pager({
  next,
  cursor,
  back = "Newer",
  on = "Older",
}: {
  next: string;
  cursor: string;
  back?: string;
  on?: string;
}) {
  const navigate = useNavigate();
  const router = useRouter();
  const turned = useRouterState({ select: (s) => s.location.state.turned ?? 0 });
  if (!next && !cursor) return null;
  const turn = (to: string) =>
    navigate({
      to: ".",
      search: (s: Record<string, string | undefined>) => ({ ...s, cursor: to || undefined }),
      state: { turned: to ? turned + 1 : 0 },
    });
  return (
    <nav className={css.pager} aria-label="Pages of the list">
      <div>
        {cursor && (
          <>
            <Button variant="default" size="sm" onClick={() => turn("")}>
              Start
            </Button>
            {turned > 0 && (
              <Button variant="default" size="sm" onClick={() => router.history.back()}>
                ← {back}
              </Button>
            )}
          </>
        )}
      </div>
      <div>
        <Button variant="default" size="sm" disabled={!next} onClick={() => turn(next)}>
          {on} →
        </Button>
      </div>
    </nav>
  );
}
