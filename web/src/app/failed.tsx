import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";
import { Empty, Page } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import css from "./shell.module.css";

/** What stands in a page's place when it could not be made. */
export function PageFailed({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  return (
    <main id="main" className={css.main} tabIndex={-1}>
      <Page title="This page could not be shown">
        <ProblemBox
          error={error}
          again={() => {
            reset();
            router.invalidate();
          }}
        />
      </Page>
    </main>
  );
}

/** Of an address that leads nowhere. */
export function NotFound() {
  return (
    <main id="main" className={css.main} tabIndex={-1}>
      <Page title="Nothing here">
        <Empty title="There is no page at this address">
          <p>
            <Link to="/runs">Go to the runs</Link>
          </p>
        </Empty>
      </Page>
    </main>
  );
}
