import type { Page } from "@playwright/test";
import { expect, look, test } from "./browser";
import { served } from "./server";

/** Every page as it stands once loaded: in this project's width and in both colours, for axe, the eye and the policy. */
const pages: { name: string; at: () => string; ready: (p: Page) => Promise<void> }[] = [
  { name: "runs", at: () => "/runs", ready: (p) => expect(p.getByRole("row")).not.toHaveCount(0) },
  {
    name: "runs-none",
    at: () => "/runs?q=nothing-has-this-name",
    ready: (p) => expect(p.getByText("No run matches")).toBeVisible(),
  },
  {
    name: "run-asks",
    at: () => `/runs/${served().asks}`,
    ready: async (p) => {
      await expect(p.getByRole("heading", { name: "3 will be destroyed" })).toBeVisible();
      await expect(p.getByRole("region", { name: "Plan of main" })).toBeVisible();
    },
  },
  {
    name: "run-lost",
    at: () => `/runs/${served().lost}`,
    ready: async (p) => {
      await expect(p.getByText("The agent was lost")).toBeVisible();
      await expect(p.getByText("is still locked by this run, and held")).toBeVisible();
      await expect(p.getByText("100,001 lines")).toBeVisible();
    },
  },
  {
    name: "run-plan",
    at: () => `/runs/${served().done}?tab=plan`,
    ready: (p) => expect(p.getByText("Nothing will be destroyed")).toBeVisible(),
  },
  {
    name: "run-log",
    at: () => `/runs/${served().done}?tab=log`,
    ready: (p) => expect(p.getByRole("button", { name: /main: apply/ }).last()).toBeVisible(),
  },
  {
    name: "run-outputs",
    at: () => `/runs/${served().done}?tab=outputs`,
    ready: (p) => expect(p.getByText("hidden, because it is sensitive")).toBeVisible(),
  },
  {
    name: "run-attempts",
    at: () => `/runs/${served().done}?tab=attempts`,
    ready: (p) => expect(p.getByRole("row")).toHaveCount(3),
  },
  {
    name: "states",
    at: () => "/states",
    ready: (p) => expect(p.getByRole("link", { name: "billing.main" })).toBeVisible(),
  },
  {
    name: "state-locked",
    at: () => "/states/billing.main",
    ready: async (p) => {
      await expect(p.getByRole("heading", { name: "Hold" })).toBeVisible();
      await expect(p.getByText("Its agent was lost")).toBeVisible();
      await expect(p.getByText("No versions yet")).toBeVisible();
    },
  },
  {
    name: "state-laptop",
    at: () => "/states/laptop",
    ready: (p) => expect(p.getByText("To release it by force")).toBeVisible(),
  },
  { name: "state-versions", at: () => "/states/history", ready: (p) => expect(p.getByRole("row")).toHaveCount(26) },
  {
    name: "state-sealed",
    at: () => "/states/sealed",
    ready: (p) => expect(p.getByText("can neither read nor compare it")).toBeVisible(),
  },
  {
    name: "states-deleted",
    at: () => "/states?show=deleted",
    ready: (p) => expect(p.getByText("left to restore it")).toBeVisible(),
  },
  {
    name: "state-deleted",
    at: () => "/states/old-network",
    ready: (p) => expect(p.getByRole("button", { name: "Restore" })).toBeVisible(),
  },
  {
    name: "state-quarantine",
    at: () => "/states/network?show=quarantined",
    ready: async (p) => {
      await expect(p.getByText("A save was refused, and is kept aside")).toBeVisible();
      await expect(p.getByRole("button", { name: "Accept" })).toBeVisible();
    },
  },
  {
    name: "state-compare",
    at: () => "/states/network?tab=compare&from=1&to=3",
    ready: (p) => expect(p.getByText("aws_s3_bucket.logs_1")).toBeVisible(),
  },
  {
    name: "state-resources",
    at: () => "/states/network?tab=resources",
    ready: async (p) => {
      await expect(p.getByRole("region", { name: "Outputs" })).toBeVisible();
      await p.getByRole("region", { name: "Resources" }).getByText("aws_db_instance.main").click();
      await expect(p.getByText("storage")).toBeVisible();
    },
  },
  {
    name: "resources",
    at: () => "/resources",
    ready: (p) => expect(p.getByRole("link", { name: "aws_db_instance.main" })).toBeVisible(),
  },
  {
    name: "state-use",
    at: () => "/states/network?tab=use",
    ready: (p) => expect(p.getByText("backend.tf")).toBeVisible(),
  },
  { name: "agents", at: () => "/agents", ready: (p) => expect(p.getByText("never-seen").first()).toBeVisible() },
  { name: "audit", at: () => "/audit", ready: (p) => expect(p.getByText("Details").first()).toBeVisible() },
  {
    name: "nothing",
    at: () => "/there/is/no-such.page",
    ready: (p) => expect(p.getByText("There is no page at this address")).toBeVisible(),
  },
];

for (const { name, at, ready } of pages) {
  test(name, async ({ signedIn: page }, info) => {
    await page.goto(served().address + at());
    await ready(page);
    await look(page, name, info, true);
  });
}

test.describe("without a session", () => {
  // The browser itself says on its console that an answer was 401.
  test.use({ allowed: ["status of 401"] });
  for (const [name, hash, button] of [
    ["signin", "", "Sign in"],
    ["signin-link", "#code=some-code", "Sign in"],
  ] as const) {
    test(name, async ({ page }, info) => {
      await page.goto(`${served().address}/signin${hash}`);
      await expect(page.getByRole("button", { name: button })).toBeVisible();
      await look(page, name, info);
    });
  }
});

for (const [name, open] of [
  ["dialog-approve", "Approve …"],
  ["dialog-reject", "Reject …"],
  ["dialog-cancel", "Cancel the run …"],
] as const) {
  test(name, async ({ signedIn: page }, info) => {
    await page.goto(`${served().address}/runs/${served().asks}`);
    await page.getByRole("button", { name: open }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog).toBeVisible();
    await expect(dialog).toHaveCSS("opacity", "1");
    await look(page, name, info);
  });
}

test("dialog-agent and the account menu", async ({ signedIn: page }, info) => {
  await page.goto(`${served().address}/agents`);
  await page.getByRole("button", { name: "Add an agent …" }).click();
  await expect(page.getByRole("dialog").getByLabel("Account")).toHaveValue("local");
  await look(page, "dialog-agent", info);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.getByRole("banner").getByRole("button").click();
  await expect(page.getByRole("button", { name: "Sign out" })).toBeVisible();
  await look(page, "menu", info);
});

for (const [name, at, open] of [
  ["dialog-unlock", "laptop", "Force unlock …"],
  ["dialog-hold", "billing.main", "End the hold …"],
  ["dialog-delete", "network", "Delete …"],
  ["dialog-rollback", "network", "Roll back … to version 1"],
  ["dialog-accept", "network", "Accept … version 4"],
  ["dialog-purge", "old-network", "Purge …"],
] as const) {
  test(name, async ({ signedIn: page }, info) => {
    await page.goto(`${served().address}/states/${at}`);
    await page.getByRole("button", { name: open }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog).toBeVisible();
    await expect(dialog).toHaveCSS("opacity", "1");
    await expect(dialog.getByText("Loading")).toHaveCount(0);
    await look(page, name, info);
  });
}

test.describe("importing", () => {
  test.use({ allowed: ["status of 404"] }); // it asks whether the names are free
  test("dialog-import", async ({ signedIn: page }, info) => {
    await page.goto(`${served().address}/states`);
    await page.getByRole("button", { name: "Import states" }).click();
    const file = (name: string, text = "{}") => ({ name, mimeType: "application/json", buffer: Buffer.from(text) });
    await page
      .getByLabel("Choose files")
      .setInputFiles([
        file("free.tfstate"),
        file("network.tfstate"),
        file("old-network.tfstate"),
        file("empty.json", ""),
      ]);
    const dialog = page.getByRole("dialog");
    await expect(dialog.getByText("There is a state of this name already")).toBeVisible();
    await expect(dialog.getByText("A deleted state has this name")).toBeVisible();
    await expect(dialog.getByText("The file is empty")).toBeVisible();
    await look(page, "dialog-import", info);
  });
});
