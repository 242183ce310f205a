import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { backendBlock, toolCommands } from "./backend";

it("is, byte for byte, what the command line prints", () => {
  const golden = readFileSync("../internal/cli/testdata/views/backend-config.piped", "utf8");
  expect(backendBlock("https://hf.example", "shop.main", "tofu")).toBe(golden);
});

it("names the tool that was chosen", () => {
  expect(toolCommands("net", "terraform")).toBe(
    'export TF_HTTP_PASSWORD="$(holdfast token create net)"\nterraform init\n',
  );
  expect(backendBlock("https://hf.example", "net", "terraform")).toContain("#   terraform init");
});
