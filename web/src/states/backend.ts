/** The tools that keep a state here; the block is the same for both. */
export type Tool = "tofu" | "terraform";

/** The backend block of a state, as `holdfast state backend-config` prints it. A state's name needs no escaping. */
export function backendBlock(origin: string, name: string, tool: Tool): string {
  const base = `${origin}/api/tf-states/${name}`;
  const lines: [string, string][] = [
    ["address       ", `${base}/state`],
    ["lock_address  ", `${base}/lock`],
    ["unlock_address", `${base}/lock`],
    ["lock_method   ", "LOCK"],
    ["unlock_method ", "UNLOCK"],
    ["username      ", "token"],
  ];
  return [
    `# The state of this configuration is ${name}. The token stands in no file:`,
    `#   export TF_HTTP_PASSWORD="$(holdfast token create ${name})"`,
    `#   ${tool} init`,
    "terraform {",
    '  backend "http" {',
    ...lines.map(([k, v]) => `    ${k} = ${JSON.stringify(v)}`),
    "  }",
    "}",
    "",
  ].join("\n");
}

/** What to say in a shell to begin: the token in the environment, where no file keeps it. */
export function toolCommands(name: string, tool: Tool): string {
  return `export TF_HTTP_PASSWORD="$(holdfast token create ${name})"\n${tool} init\n`;
}
