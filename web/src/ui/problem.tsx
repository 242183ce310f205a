import { Button } from "@mantine/core";
import { Problem } from "../api/problem";
import { Notice } from "./badge";
import { Text } from "./text";

/** Why something did not work, what to do, and the id to find it by in the server's log. */
export function ProblemBox({ error, again }: { error: unknown; again?: () => void }) {
  const p = error instanceof Problem ? error : undefined;
  const message = p?.message ?? (error instanceof Error ? error.message : String(error));
  return (
    <Notice tone="red" role="alert" title={<Text lines>{message}</Text>}>
      {p?.hint && (
        <p>
          <Text lines>{p.hint}</Text>
        </p>
      )}
      {(p?.requestId || p?.code) && (
        <p className="small">
          {p.code && <code>{p.code}</code>}
          {p.code && p.requestId && " · "}
          {p.requestId && (
            <>
              request <code>{p.requestId}</code>
            </>
          )}
        </p>
      )}
      {again && (
        <div>
          <Button variant="default" size="xs" onClick={again}>
            Try again
          </Button>
        </div>
      )}
    </Notice>
  );
}
