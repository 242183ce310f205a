import type { ProblemBody } from "./words";

/** A refusal of the server (RFC 9457), or that it could not be reached. status is 0 where no answer came. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  readonly requestId: string;

  constructor(p: { status: number; detail: string; code?: string; hint?: string; request_id?: string }) {
    super(p.detail);
    this.name = "Problem";
    this.status = p.status;
    this.code = p.code ?? "";
    this.hint = p.hint ?? "";
    this.requestId = p.request_id ?? "";
  }
}

/** What of an answer tells of a problem: fetch's Response has it. */
type Answered = { status: number; statusText: string; headers: { get(name: string): string | null } };

/** The problem an answer that is not 2xx stands for; body is what it held, parsed or as text. */
export function problemOf(response: Answered, body: unknown): Problem {
  const requestId = response.headers.get("X-Request-Id") ?? "";
  if (isProblemBody(body))
    return new Problem({ ...body, request_id: body.request_id || requestId, status: response.status });
  return new Problem({
    status: response.status,
    detail: `The server answered ${response.status} ${response.statusText}`.trim(),
    hint:
      response.status >= 500
        ? "Something between this page and Holdfast may have answered. Try again; if it stays, look at the server's log."
        : "",
    request_id: requestId,
  });
}

/** The problem of a request that got no answer. */
export function unreachable(cause: unknown): Problem {
  const why = cause instanceof Error && cause.message ? ` (${cause.message})` : "";
  return new Problem({
    status: 0,
    detail: `The server cannot be reached${why}.`,
    hint: "This page goes on trying. Check the network, and that the server runs.",
  });
}

function isProblemBody(body: unknown): body is ProblemBody {
  return typeof body === "object" && body !== null && "detail" in body && typeof body.detail === "string";
}

/** Whether an answer says that nobody is signed in. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof Problem && error.status === 401;
}
