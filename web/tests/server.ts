import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const run = promisify(execFile);
const top = path.resolve(import.meta.dirname, "../..");
const bin = path.join(top, "bin");
const holdfast = path.join(bin, "holdfast");

/** What the tests know of the server that they look at. */
export type Served = {
  address: string;
  token: string;
  /** A run that waits for approval in production and would destroy three objects. */
  asks: string;
  /** A run that was applied and has outputs. */
  done: string;
  /** A run whose agent was lost in the apply, with a log of 100,000 lines. */
  lost: string;
};

/** What globalSetup left. */
export function served(): Served {
  return JSON.parse(process.env.HOLDFAST_WEB_TEST ?? "{}") as Served;
}

let server: ChildProcess | undefined;
let data = "";

/**
 * Starts the real server with a real agent on a database with many runs, and has real runs made by the command line.
 * The server's home is a folder of its own, so that no credentials of whoever runs the tests are touched.
 */
export default async function setup(): Promise<() => Promise<void>> {
  for (const f of ["holdfast", "holdfast-agent", "holdfast-worker"])
    if (!existsSync(path.join(bin, f))) throw new Error(`There is no ${path.join(bin, f)}. Build it first: make build`);
  data = mkdtempSync(path.join(tmpdir(), "holdfast-web-"));
  const tofu = process.env.HOLDFAST_TOFU_BIN ?? (await run(path.join(top, "scripts/tofu"))).stdout.trim();
  const env: NodeJS.ProcessEnv = { PATH: process.env.PATH, HOME: data, HOLDFAST_TOFU_BIN: tofu };
  try {
    await start(env, "--no-agent");
    await stop();
    const seeded = await run("go", ["run", "./web/tests/seed", path.join(data, "holdfast.db")], { cwd: top });
    const { lost } = JSON.parse(seeded.stdout) as { lost: string };
    const address = await start(env);
    const token = readFileSync(path.join(data, "token"), "utf8").trim();
    const { done, asks } = await realRuns(env);
    await states(address, token);
    process.env.HOLDFAST_WEB_TEST = JSON.stringify({ address, token, asks, done, lost } satisfies Served);
  } catch (e) {
    await teardown();
    throw e;
  }
  return teardown;
}

async function teardown(): Promise<void> {
  await stop();
  rmSync(data, { recursive: true, force: true });
}

/** Starts the server on a free port; the answer is where. */
function start(env: NodeJS.ProcessEnv, ...more: string[]): Promise<string> {
  const child = spawn(holdfast, ["dev", "--no-samples", "--listen", "127.0.0.1:0", "--data", data, ...more], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  server = child;
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (line: string) => {
      said += `${line}\n`;
      const at = /^Holdfast is at (\S+?),/.exec(line);
      if (at?.[1]) resolve(at[1]);
    };
    createInterface({ input: child.stdout }).on("line", hear);
    createInterface({ input: child.stderr }).on("line", hear);
    child.on("exit", (code) => reject(new Error(`holdfast dev ended with ${code}:\n${said}`)));
  });
}

async function stop(): Promise<void> {
  const child = server;
  server = undefined;
  if (!child || child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGINT");
  await ended;
}

async function cli(env: NodeJS.ProcessEnv, ...args: string[]): Promise<string> {
  try {
    return (await run(holdfast, args, { env })).stdout;
  } catch (e) {
    const { stdout, stderr } = e as { stdout?: string; stderr?: string };
    throw new Error(`holdfast ${args.join(" ")} failed:\n${stdout}\n${stderr}`);
  }
}

/** A run that is applied, and one after it that waits, both with the real tool. */
async function realRuns(env: NodeJS.ProcessEnv): Promise<{ done: string; asks: string }> {
  const folder = (which: string) => path.join(import.meta.dirname, "stack", which);
  const up = async (which: string, ...more: string[]) =>
    JSON.parse(
      await cli(env, "up", folder(which), "--stack", "shop", "--account", "local", "--production", "--json", ...more),
    ) as { id: string };
  const done = (await up("before", "--yes")).id;
  const asks = (await up("after", "--detach")).id;
  for (;;) {
    const r = JSON.parse(await cli(env, "run", "show", asks, "--json")) as { status: string; message: string };
    if (r.status === "awaiting_approval") return { done, asks };
    if (["failed", "cancelled", "discarded", "succeeded"].includes(r.status))
      throw new Error(`the run that should wait is ${r.status}: ${r.message}`);
  }
}

/** Asks for something of the states; another answer than the wanted one, by default any 2xx, is an error. */
export type Call = (method: string, where: string, body?: unknown, wanted?: number) => Promise<string>;

export function caller(address: string, token: string): Call {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return async (method, where, body, wanted) => {
    const path = where.startsWith("/") ? where : `/api/tf-states/${where}`;
    const r = await fetch(address + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await r.text();
    if (wanted ? r.status !== wanted : !r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`);
    return text;
  };
}

/** States written over the http backend, as a tool would: one with many versions, one locked by a person, one encrypted. */
async function states(address: string, token: string): Promise<void> {
  const call = caller(address, token);
  const lock = (n: string, who: string) => ({
    ID: `lock-${n}`,
    Operation: "OperationTypeApply",
    Info: "",
    Who: who,
    Version: "1.12.6",
    Path: "",
  });
  const write = async (name: string, document: unknown, id: string) => {
    await call("POST", `${name}/lock`, lock(id, "jan@laptop"));
    await call("POST", `${name}/state?ID=lock-${id}`, document);
    await call("DELETE", `${name}/lock`, lock(id, "jan@laptop"));
  };
  for (let serial = 1; serial <= 60; serial++)
    await write(
      "history",
      {
        version: 4,
        terraform_version: "1.12.6",
        serial,
        lineage: "3f1c1a52-6a0e-4f0c-9a5b-0d0a3c1a7e55",
        outputs: {},
        resources: [],
      },
      `h${serial}`,
    );
  await write(
    "sealed",
    {
      serial: 1,
      lineage: "3f1c1a52-6a0e-4f0c-9a5b-0d0a3c1a7e56",
      meta: { "key_provider.pbkdf2.k": "e30=" },
      encrypted_data: "c2VjcmV0",
      encryption_version: "v0",
    },
    "e1",
  );
  await call("POST", "laptop/lock", lock("held", "Žofie@日本-host\u202eevil"));
  await call("POST", "network/import", networkState(1));
  for (let serial = 2; serial <= 3; serial++) await write("network", networkState(serial), `n${serial}`);
  await keepAside(call, "network", networkState(2));
  await call("POST", "old-network/import", networkState(1));
  await call("DELETE", "old-network");
}

/** A state as a tool would write it: each serial has something added, removed and changed, and a secret. */
export function networkState(serial: number) {
  const resource = (type: string, name: string, instances: unknown[], mode = "managed") => ({
    mode,
    type,
    name,
    provider: 'provider["registry.opentofu.org/hashicorp/aws"]',
    instances,
  });
  const one = (attributes: Record<string, unknown>, sensitive: string[] = []) => ({
    schema_version: 0,
    attributes,
    sensitive_attributes: sensitive.map((value) => [{ type: "get_attr", value }]),
  });
  const subnets = Array.from({ length: serial + 1 }, (_, i) => ({
    index_key: i,
    ...one({ id: `subnet-0${i}`, cidr_block: `10.0.${i}.0/24`, tags: { Name: `net-${i}` } }),
  }));
  return {
    version: 4,
    terraform_version: "1.12.6",
    serial,
    lineage: "6a0e3f1c-1a52-4f0c-9a5b-0d0a3c1a7e57",
    outputs: {
      vpc_id: { value: "vpc-0a1b2c", type: "string" },
      subnets: { value: serial + 1, type: "number" },
      admin_password: { value: `never-shown-${serial}`, type: "string", sensitive: true },
    },
    resources: [
      resource("aws_vpc", "main", [
        one({ id: "vpc-0a1b2c", cidr_block: "10.0.0.0/16", owner_id: serial, tags: { Name: `net v${serial}` } }),
      ]),
      resource("aws_subnet", "private", subnets),
      resource("aws_db_instance", "main", [
        one({ id: "db-1", password: `never-shown-${serial}`, storage: 10 * serial }, ["password"]),
      ]),
      resource("aws_s3_bucket", `logs_${serial}`, [one({ id: `logs-${serial}` })]),
      resource("aws_region", "here", [one({ name: "eu-central-1" })], "data"),
    ],
    check_results: null,
  };
}

/**
 * Has a document refused under a lock, as one that is older than what was saved meanwhile: it is kept as a quarantined
 * version.
 */
export async function keepAside(call: Call, name: string, document: unknown): Promise<void> {
  const lock = { ID: `aside-${name}`, Operation: "OperationTypeApply", Who: "jan@laptop", Version: "1.12.6" };
  await call("POST", `${name}/lock`, lock);
  await call("POST", `${name}/state?ID=${lock.ID}`, document, 409);
  await call("DELETE", `${name}/lock`, lock);
}
