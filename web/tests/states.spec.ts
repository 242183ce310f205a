import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Browser, Page } from "@playwright/test";
import { backendBlock } from "../src/states/backend";
import { expect, test } from "./browser";
import { caller, keepAside, networkState, served } from "./server";

// What is done to a state here is done to one that its test made, so that each test stands for itself.

const call: ReturnType<typeof caller> = (...of) => caller(served().address, served().token)(...of);

type Version = { version: number; serial: number; source: string; current: boolean; quarantined: boolean };

async function versions(name: string): Promise<Version[]> {
  return (JSON.parse(await call("GET", `${name}/versions`)) as { items: Version[] }).items;
}

const current = async (name: string) => (await versions(name)).find((v) => v.current);
const content = (name: string, version: number) => call("GET", `${name}/versions/${version}/content`);
const lock = (id: string) => ({ ID: id, Operation: "OperationTypeApply", Who: "jan@laptop", Version: "1.12.6" });
const goTo = (page: Page, where: string) => page.goto(`${served().address}/states${where}`);

/** A page of somebody new with that role. */
async function signedInAs(browser: Browser, name: string, role: string): Promise<Page> {
  const page = await browser.newPage();
  const { sign_in_link } = JSON.parse(await call("POST", "/api/users", { name, role })) as { sign_in_link: string };
  await page.goto(sign_in_link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page).toHaveURL(`${served().address}/runs`);
  return page;
}

test.describe("importing", () => {
  let folder = "";
  test.beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), "holdfast-import-"));
  });
  test.afterAll(() => rmSync(folder, { recursive: true, force: true }));
  // The names that are free are answered 404, and the refusal 422; the browser itself says so on its console.
  test.use({ allowed: ["status of 404", "status of 422"] });

  test("takes several files, byte for byte, and says of each why not", async ({ signedIn: page }) => {
    const file = (name: string, text: string) => {
      writeFileSync(path.join(folder, name), text);
      return path.join(folder, name);
    };
    const document = `${JSON.stringify(networkState(7), null, 3)}\n\n`;
    const large = file("large.tfstate", "{");
    truncateSync(large, 33 * 1024 * 1024);
    await goTo(page, "");
    await page.getByRole("button", { name: "Import states" }).click();
    const dialog = page.getByRole("dialog");
    await dialog
      .getByLabel("Choose files")
      .setInputFiles([file("fine.tfstate", document), file("old.tfstate", '{"version":3}'), large]);
    const name = dialog.getByLabel("Name of the state of fine.tfstate");
    await expect(name).toHaveValue("fine");
    await expect(dialog.getByText("this server takes at most 33.6 MB")).toBeVisible();
    await name.fill("history");
    await expect(dialog.getByText("There is a state of this name already")).toBeVisible();
    await name.fill("no such name");
    await expect(dialog.getByText("A name starts with")).toBeVisible();
    await name.fill("from-a.file");
    await dialog.getByRole("button", { name: "Import 2 states" }).click();
    await expect(dialog.getByText("As version 1 of from-a.file, serial 7.")).toBeVisible();
    await expect(dialog.getByText("state_too_old")).toBeVisible();
    expect(await content("from-a.file", 1)).toBe(document);
    expect(await current("from-a.file")).toMatchObject({ version: 1, source: "import" });
    await call("GET", "old", undefined, 404);
    await call("GET", "large", undefined, 404);
    await dialog.getByRole("link", { name: "from-a.file" }).click();
    await expect(page.getByRole("heading", { name: "from-a.file" })).toBeVisible();
    await expect(page.getByRole("row").nth(1)).toContainText("Import");
  });
});

test("a version is rolled back to after a question that shows what changes", async ({ signedIn: page }) => {
  for (const serial of [1, 2]) await call("POST", "rolls/state", networkState(serial));
  await goTo(page, "/rolls");
  await page.getByRole("button", { name: "Roll back … to version 1" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText("aws_s3_bucket.logs_1")).toBeVisible();
  await dialog.getByRole("button", { name: "Back", exact: true }).click();
  await expect(dialog).toHaveCount(0);
  expect(await current("rolls")).toMatchObject({ version: 2 });
  await page.getByRole("button", { name: "Roll back … to version 1" }).click();
  await dialog.getByRole("button", { name: "Roll back to version 1" }).click();
  await expect(dialog).toHaveCount(0);
  const first = page.getByRole("row").nth(1);
  await expect(first).toContainText("Current");
  await expect(first).toContainText("Rollback");
  expect(await current("rolls")).toMatchObject({ version: 3, serial: 3, source: "rollback" });
  expect(await content("rolls", 3)).toBe(JSON.stringify({ ...networkState(1), serial: 3 }));
});

test("any two versions are compared by resource, and secrets are in no page", async ({ signedIn: page }) => {
  await goTo(page, "/network?tab=compare");
  await expect(page.getByLabel("From version", { exact: true })).toHaveValue("2");
  await expect(page.getByLabel("To version", { exact: true })).toHaveValue("3");
  const diff = (from: number, to: number) =>
    page.getByRole("region", { name: `From version ${from} to version ${to}` });
  await expect(diff(2, 3).getByText("aws_s3_bucket.logs_2")).toBeVisible();
  await page.getByLabel("From version", { exact: true }).selectOption("1");
  await expect(page).toHaveURL(/from=1&to=3/);
  const shown = diff(1, 3);
  const row = (address: string) => shown.locator("details, div").filter({ hasText: address }).last();
  await expect(row("aws_s3_bucket.logs_1")).toContainText("Removed");
  await expect(row("aws_s3_bucket.logs_3")).toContainText("Added");
  await expect(shown.locator("details").filter({ hasText: "aws_db_instance.main" })).toContainText("(sensitive)");
  const changed = shown.locator("details").filter({ hasText: "aws_vpc.main" });
  await expect(changed).toContainText('"net v1"');
  await expect(changed).toContainText('"net v3"');
  await page.getByRole("button", { name: "Swap" }).click();
  await expect(page).toHaveURL(/from=3&to=1/);
  await expect(diff(3, 1).getByText("aws_s3_bucket.logs_3")).toBeVisible();
  await page.getByRole("tab", { name: "Resources" }).click();
  await expect(page.getByRole("region", { name: "Outputs" })).toContainText("vpc-0a1b2c");
  await page.getByRole("region", { name: "Resources" }).getByText("aws_db_instance.main").click();
  await expect(page.getByRole("table", { name: "Values of aws_db_instance.main" })).toContainText("(sensitive)");
  expect(await page.content()).not.toContain("never-shown");
});

test("a resource is found across the states, and leads to its values", async ({ signedIn: page }) => {
  await goTo(page, "");
  await page.getByRole("link", { name: "By resource" }).click();
  await page.getByLabel("Resource", { exact: true }).fill("aws_db");
  await expect(page).toHaveURL(/\/resources\?q=aws_db/);
  await expect(page.getByRole("navigation", { name: "Pages" }).getByText("States")).toHaveAttribute(
    "aria-current",
    "page",
  );
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: "network", exact: true }) });
  await expect(row).toHaveCount(1);
  await row.getByRole("link", { name: "aws_db_instance.main" }).click();
  await expect(page).toHaveURL(/\/states\/network\?tab=resources&q=aws_db_instance.main/);
  await page.getByRole("region", { name: "Resources" }).getByText("aws_db_instance.main").click();
  await expect(page.getByText("storage")).toBeVisible();
});

test("a lock is forced with a reason, and never a newer one", async ({ signedIn: page }) => {
  await call("POST", "stuck/lock", lock("first"));
  await goTo(page, "/stuck");
  await expect(page.getByRole("button", { name: "Delete …" })).toBeDisabled();
  await expect(page.getByText("Rolling back and deleting are not available now.")).toBeVisible();
  await page.getByRole("button", { name: "Force unlock …" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("Nobody can say whether the holder still works.");
  const does = dialog.getByRole("button", { name: "Force unlock" });
  await expect(does).toBeDisabled();
  await dialog.getByLabel("Why").fill("The laptop is gone");
  await expect(does).toBeEnabled();
  await call("DELETE", "stuck/lock", lock("first"));
  await call("POST", "stuck/lock", lock("second"));
  await expect(dialog.getByRole("alert")).toContainText("The lock has changed meanwhile");
  await expect(does).toBeDisabled();
  await dialog.getByRole("button", { name: "Back" }).click();
  await page.getByRole("button", { name: "Force unlock …" }).click();
  await dialog.getByLabel("Why").fill("The laptop is gone");
  await does.click();
  await expect(dialog).toHaveCount(0);
  await expect(page.getByText("Not locked")).toBeVisible();
  const { items } = JSON.parse(await call("GET", "/api/audit?action=state.force_unlock&object=stuck")) as {
    items: { data: { reason: string; lock_id: string } }[];
  };
  expect(items.map((r) => r.data)).toMatchObject([{ reason: "The laptop is gone", lock_id: "second" }]);
});

test("a state is deleted and purged by its name typed, and restored", async ({ signedIn: page }) => {
  await call("POST", "goes/import", networkState(4));
  const dialog = page.getByRole("dialog");
  const remove = async (open: string, does: string) => {
    await page.getByRole("button", { name: open }).click();
    await dialog.getByLabel("Type the state's name, goes").fill("Goes");
    await expect(dialog.getByRole("button", { name: does })).toBeDisabled();
    await page.keyboard.press("Enter");
    await expect(dialog).toBeVisible();
    await dialog.getByLabel("Type the state's name, goes").fill("goes");
    await page.keyboard.press("Enter");
    await expect(dialog).toHaveCount(0);
  };
  await goTo(page, "/goes");
  await remove("Delete …", "Delete the state");
  await expect(page.getByText("left to restore it")).toBeVisible();
  await call("GET", "goes/state", undefined, 410);
  await goTo(page, "?show=deleted");
  await page.getByRole("link", { name: "goes" }).click();
  await page.getByRole("button", { name: "Restore" }).click();
  await expect(page.getByText("Not locked")).toBeVisible();
  expect(JSON.parse(await call("GET", "goes/state"))).toMatchObject({ serial: 4 });
  await remove("Delete …", "Delete the state");
  await remove("Purge …", "Purge for good");
  await expect(page).toHaveURL(`${served().address}/states`);
  await call("GET", "goes", undefined, 404);
});

test("a save that was refused is shown, compared and accepted", async ({ signedIn: page }) => {
  await call("POST", "refused/import", networkState(5));
  await keepAside(call, "refused", networkState(3));
  await goTo(page, "/refused");
  await page.getByRole("link", { name: "Compare and accept it" }).click();
  await expect(page.getByRole("row")).toHaveCount(2);
  await page.getByRole("button", { name: "Accept … version 2" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText("aws_s3_bucket.logs_5")).toBeVisible();
  await dialog.getByRole("button", { name: "Make version 2 current" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page.getByText("No quarantined versions")).toBeVisible();
  await expect(page.getByText("A save was refused")).toHaveCount(0);
  expect(await current("refused")).toMatchObject({ serial: 3, source: "recovery" });
});

test("the backend block is copied as the command line prints it, with no token", async ({ signedIn: page }) => {
  const { address } = served();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await goTo(page, "/network?tab=use");
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  await page.getByRole("button", { name: "Copy the backend block" }).click();
  await expect(page.getByRole("button", { name: /^Copied/ })).toBeVisible();
  expect(await clipboard()).toBe(backendBlock(address, "network", "tofu"));
  await page.getByLabel("Tool").selectOption("Terraform");
  await page.getByRole("button", { name: "Copy the commands" }).click();
  await expect.poll(clipboard).toBe('export TF_HTTP_PASSWORD="$(holdfast token create network)"\nterraform init\n');
});

test("the list is narrowed by the server to what somebody looks for", async ({ signedIn: page }) => {
  await goTo(page, "");
  const names = () => page.getByRole("row").getByRole("link").filter({ hasNotText: /^run/ }).allTextContents();
  for (const [show, want] of [
    ["Encrypted by the client", ["sealed"]],
    ["Locked, holder gone or unknown", ["billing.main", "laptop"]],
    ["Held for a run", ["billing.main"]],
    ["Deleted", ["old-network"]],
  ] as const) {
    await page.getByLabel("Show").selectOption(show);
    await expect.poll(names, { message: show }).toEqual(want);
  }
});

test("each sees the actions that their role allows, as an administrator has allocated them", async ({ browser }) => {
  const actions = /Delete|Roll back|Accept|Force|Import/;
  const viewer = await signedInAs(browser, "state-viewer", "viewer");
  await goTo(viewer, "");
  await expect(viewer.getByRole("link", { name: "network" }).first()).toBeVisible();
  await expect(viewer.getByRole("button", { name: actions })).toHaveCount(0);
  await goTo(viewer, "/network");
  await expect(viewer.getByRole("row")).toHaveCount(5);
  await expect(viewer.getByRole("button", { name: actions })).toHaveCount(0);
  await expect(viewer.getByRole("link", { name: /Download|Compare version/ })).toHaveCount(0);
  await viewer.getByRole("tab", { name: "Compare" }).click();
  await expect(viewer.getByText("needs the permission tf_state:read")).toBeVisible();
  await goTo(viewer, "/laptop");
  await expect(viewer.getByText("To release it by force")).toBeVisible();
  await expect(viewer.getByRole("button", { name: actions })).toHaveCount(0);
  await goTo(viewer, "/old-network");
  await expect(viewer.getByText("This state is deleted")).toBeVisible();
  await expect(viewer.getByRole("button", { name: /Restore|Purge/ })).toHaveCount(0);
  await viewer.close();

  const operator = await signedInAs(browser, "state-operator", "operator");
  await goTo(operator, "/network");
  await expect(operator.getByRole("button", { name: "Roll back … to version 1" })).toBeVisible();
  await expect(operator.getByRole("button", { name: /Delete/ })).toHaveCount(0);
  await call("PATCH", "/api/permissions/tf_state:manage", { role: "operator" });
  await call("PATCH", "/api/permissions/tf_state:write", { role: "admin" });
  try {
    await goTo(operator, "/network");
    await expect(operator.getByRole("button", { name: "Delete …" })).toBeVisible();
    await expect(operator.getByRole("button", { name: /Roll back/ })).toHaveCount(0);
  } finally {
    await call("PATCH", "/api/permissions/tf_state:manage", { role: "admin" });
    await call("PATCH", "/api/permissions/tf_state:write", { role: "operator" });
  }
  await operator.close();
});

test("a downloaded version is the document that was written", async ({ signedIn: page }) => {
  await goTo(page, "/network");
  const coming = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download version 1" }).click();
  expect(readFileSync(await (await coming).path(), "utf8")).toBe(JSON.stringify(networkState(1)));
});
