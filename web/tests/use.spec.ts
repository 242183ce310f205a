import { readFileSync } from "node:fs";
import { expect, test } from "./browser";
import { served } from "./server";

// One worker runs these in order: the last one changes what the ones before it look at.

test("answers carry a policy that allows nothing inline", async ({ signedIn: page }) => {
  const r = await page.goto(`${served().address}/runs`);
  const policy = r?.headers()["content-security-policy"] ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("style-src 'self'");
  expect(policy).not.toContain("unsafe");
  await expect(page.getByRole("row")).toHaveCount(51);
  // Mantine writes style elements where it is let; whoever lets it again is told here and not by a broken page.
  await expect(page.locator("style")).toHaveCount(0);
});

test.describe("signing in", () => {
  test.use({ allowed: ["status of 401", "status of 400"] });

  test("leads back to where one wanted to go", async ({ page }) => {
    const { address, token } = served();
    await page.goto(`${address}/states?q=hist`);
    await expect(page).toHaveURL(/\/signin\?to=/);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByText("Paste a token.")).toBeVisible();
    await page.getByLabel("Personal token").fill("hf_pat_not-a-token");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("alert")).toContainText("request");
    await page.getByLabel("Personal token").fill(token);
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(`${address}/states?q=hist`);
    await expect(page.getByRole("link", { name: "history" })).toBeVisible();
    expect(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))).not.toContain(
      token,
    );
  });

  test("by a one-time link takes a click, works once, and says what to do after that", async ({ page, browser }) => {
    const { address, token } = served();
    const headers = { Authorization: `Bearer ${token}` };
    const who = (await (await page.request.get(`${address}/api/whoami`, { headers })).json()) as { id: string };
    const made = await page.request.post(`${address}/api/users/${who.id}/sign-in-link`, { headers });
    const link = ((await made.json()) as { sign_in_link: string }).sign_in_link;
    await page.goto(link);
    await expect(page.getByText("It works once.")).toBeVisible();
    expect(page.url(), "the code leaves the address bar").toBe(`${address}/signin`);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page).toHaveURL(`${address}/runs`);

    const another = await browser.newPage();
    await another.goto(link);
    await another.getByRole("button", { name: "Sign in" }).click();
    await expect(another.getByText("A new link", { exact: true })).toBeVisible();
    await another.getByRole("button", { name: "Use a token instead" }).click();
    await expect(another.getByLabel("Personal token")).toBeVisible();
    await another.close();
  });

  test("is asked for again when the session has ended, and on the way back nothing is lost", async ({
    signedIn: page,
  }) => {
    const { address, token } = served();
    await page.goto(`${address}/runs?q=shop`);
    await expect(page.getByRole("row")).not.toHaveCount(0);
    await page.context().clearCookies();
    await expect(page).toHaveURL(/\/signin\?to=%2Fruns%3Fq%3Dshop/);
    await page.getByLabel("Personal token").fill(token);
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(`${address}/runs?q=shop`);
    await page.getByRole("banner").getByRole("button").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect(page).toHaveURL(`${address}/signin`);
    expect((await page.request.get(`${address}/api/whoami`)).status()).toBe(401);
  });

  test("never leads to another site", async ({ page }) => {
    const { address, token } = served();
    for (const to of ["//example.com/", "/\\example.com", "https://example.com/", "javascript:alert(1)"]) {
      await page.context().clearCookies();
      await page.goto(`${address}/signin?to=${encodeURIComponent(to)}`);
      await page.getByLabel("Personal token").fill(token);
      await page.keyboard.press("Enter");
      await expect(page).toHaveURL(`${address}/runs`);
    }
  });
});

test("10,000 runs are listed, paged and filtered without delay", async ({ signedIn: page }) => {
  const { address } = served();
  await page.goto(`${address}/runs`);
  await expect(page.getByRole("row")).toHaveCount(51);
  const first = (await page.getByRole("row").nth(1).textContent()) ?? "";
  const started = Date.now();
  for (let i = 0; i < 5; i++) {
    const before = page.url();
    await page.getByRole("button", { name: "Older" }).click();
    await expect(page).not.toHaveURL(before);
    await expect(page.getByRole("row").nth(1)).not.toHaveText(first);
  }
  expect(Date.now() - started, "milliseconds for five pages").toBeLessThan(10_000);
  await page.getByRole("button", { name: "Newer" }).click();
  await page.getByRole("button", { name: "Start" }).click();
  await expect(page).toHaveURL(`${address}/runs`);

  await page.keyboard.press("/");
  await expect(page.getByLabel("Stack or run")).toBeFocused();
  await page.keyboard.type("fleet-07");
  await expect(page).toHaveURL(/q=fleet-07/);
  await expect(page.getByRole("row").nth(1)).toContainText("fleet-07");
  await page.getByLabel("Status").selectOption("Failed");
  await expect(page).toHaveURL(/status=failed/);
  for (const row of await page.getByRole("row").all()) {
    const text = (await row.textContent()) ?? "";
    if (!text.startsWith("Run")) expect(text).toContain("Failed");
  }
  await page.getByLabel("Stack or run").press("Escape");
  await expect(page).not.toHaveURL(/q=/);
});

test("text of templates is text, and what it hides is shown", async ({ signedIn: page }) => {
  const { address, asks, done } = served();
  await page.goto(`${address}/runs/${asks}`);
  const plan = page.getByRole("region", { name: "Plan of main" });
  await expect(plan).toContainText('terraform_data.keyed["<img src=x onerror=alert(1)>"]');
  await plan.getByText("gnp.exe").click();
  await expect(plan.getByTitle("U+202E right-to-left override").first()).toBeVisible();
  await expect(page.locator("img[src='x']")).toHaveCount(0);
  await plan.getByText("terraform_data.updated").click();
  await plan.getByText("terraform_data.updated").click();
  expect(await page.content()).not.toContain("never-shown");
  await page.goto(`${address}/runs/${done}?tab=outputs`);
  await expect(page.getByText("https://shop.example.org/?q=<b>&x=1")).toBeVisible();
  await expect(page.getByText("hidden, because it is sensitive")).toBeVisible();
  await page.goto(`${address}/states/laptop`);
  await expect(page.getByTitle("U+202E right-to-left override")).toBeVisible();
  await page.goto(`${address}/agents`);
  await expect(page.getByRole("cell").getByText("<img src=x onerror=alert(1)>").first()).toBeVisible();
});

test("a plan shows what ends objects first, and why", async ({ signedIn: page }) => {
  await page.goto(`${served().address}/runs/${served().asks}`);
  const plan = page.getByRole("region", { name: "Plan of main" });
  await expect(plan.locator("details > summary, div > code").first()).toBeVisible();
  const order = await plan
    .locator("code")
    .evaluateAll((of) => of.map((e) => e.textContent ?? "").filter((t) => t.startsWith("terraform_data.")));
  expect(order.slice(0, 4)).toEqual([
    "terraform_data.deleted",
    "terraform_data.first",
    "terraform_data.replaced",
    "terraform_data.forgotten",
  ]);
  await expect(plan).toContainText("the new one is made first");
  await expect(plan).toContainText("moved from terraform_data.old_name");
  await expect(plan).toContainText("it goes on existing");
  await plan.getByText("terraform_data.first").click();
  await expect(plan).toContainText("forces the replacement");
});

test("a log of 100,000 lines folds, finds, follows the keyboard and downloads whole", async ({ signedIn: page }) => {
  const { address, lost } = served();
  await page.goto(`${address}/runs/${lost}`);
  const lines = page.getByRole("region", { name: "Lines of the log" });
  await expect(page.getByText("100,001 lines")).toBeVisible();
  await expect(lines.getByRole("button", { name: /init/ })).toHaveAttribute("aria-expanded", "false");
  await expect(lines.getByRole("button", { name: /main: apply \d/ })).toHaveAttribute("aria-expanded", "true");
  await lines.focus();
  await page.keyboard.press("End");
  await expect(lines.getByText("│ Error:")).toBeVisible();
  expect(await lines.locator("> div > div").count(), "rows on the page").toBeLessThan(200);
  await page.keyboard.press("Home");
  await lines.getByRole("button", { name: /init/ }).click();
  await expect(lines.getByText("terraform_data.item[3]: Still creating")).toBeVisible();
  await page.getByLabel("Find lines in the log").fill("item[99998]");
  await expect(page.getByText("1 found")).toBeVisible();
  await expect(lines.getByText("terraform_data.item[99998]")).toBeVisible();
  const coming = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).click();
  const text = readFileSync(await (await coming).path(), "utf8");
  expect(text.split("\n").filter((l) => l.includes("Still creating"))).toHaveLength(100_000);
  expect(text).not.toContain("\u001b");
});

test("a stuck state says who, since when, whether they live, and the way out", async ({ signedIn: page }) => {
  const { address, lost } = served();
  await page.goto(`${address}/states`);
  await page.getByLabel("Show").selectOption("Locked");
  await expect(page.getByRole("row")).toHaveCount(3);
  await page.getByRole("link", { name: "billing.main" }).click();
  await expect(page.getByText("Its agent was lost")).toBeVisible();
  await expect(
    page.getByText("holdfast state unlock billing.main --id 7c0e4f9a-5a5e-4c3b-8d3f-1f2e3d4c5b6a --force"),
  ).toBeVisible();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: /^Copy/ }).click();
  await expect(page.getByRole("button", { name: /^Copied/ })).toBeVisible();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(
    "state unlock billing.main --id 7c0e4f9a",
  );
  await page.getByRole("link", { name: lost }).first().click();
  await expect(page).toHaveURL(`${address}/runs/${lost}`);
});

test("a version is downloaded byte for byte", async ({ signedIn: page }) => {
  await page.goto(`${served().address}/states/history`);
  const coming = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download version 60" }).click();
  const document = JSON.parse(readFileSync(await (await coming).path(), "utf8")) as { serial: number };
  expect(document.serial).toBe(60);
  const newest = page.getByRole("link", { name: "Download version 60" });
  await page.getByRole("button", { name: "Older" }).click();
  await expect(newest).toHaveCount(0);
  await page.goBack();
  await expect(newest).toBeVisible();
});

test("an agent is added, its token shown once, and revoked", async ({ signedIn: page }) => {
  await page.goto(`${served().address}/agents`);
  await page.getByRole("button", { name: "Add an agent …" }).click();
  await page.getByRole("button", { name: "Make its token" }).click();
  await expect(page.getByText("Give it a name.")).toBeVisible();
  await page.getByLabel("Name").fill("from-the-browser");
  await page.getByRole("button", { name: "Make its token" }).click();
  await expect(page.getByRole("dialog")).toContainText(/hf_agt_[\w-]{40}/);
  await page.getByRole("button", { name: "I have kept it" }).click();
  const row = page.getByRole("row", { name: /from-the-browser/ });
  await row.getByRole("button", { name: /Revoke/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await expect(row).toContainText("Revoked");
});

test("the audit log is filtered and its chain verified", async ({ signedIn: page }) => {
  await page.goto(`${served().address}/audit`);
  await page.getByLabel("Action").fill("agent.");
  await expect(
    page
      .getByRole("cell")
      .getByText(/^agent\./)
      .first(),
  ).toBeVisible();
  await expect(page.getByRole("cell").getByText(/^run\./)).toHaveCount(0);
  await page.getByRole("button", { name: "Verify the chain" }).click();
  await expect(page.getByText(/Intact: \d+ records/)).toBeVisible();
  const anchor =
    (await page
      .locator("code")
      .getByText(/^\d+:[0-9a-f]{64}$/)
      .textContent()) ?? "";
  await page.getByLabel("Anchor of an earlier check").fill(anchor.replace(/:./, (c) => (c === ":0" ? ":1" : ":0")));
  await page.getByRole("button", { name: "Verify the chain" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
});

test("a viewer is offered nothing that a viewer may not do", async ({ browser }) => {
  const { address, token, asks } = served();
  const page = await browser.newPage();
  const made = await page.request.post(`${address}/api/users`, {
    headers: { Authorization: `Bearer ${token}` },
    data: { name: "reader", role: "viewer" },
  });
  await page.goto(((await made.json()) as { sign_in_link: string }).sign_in_link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page).toHaveURL(`${address}/runs`);
  await page.goto(`${address}/runs/${asks}`);
  await expect(page.getByText("Your role cannot approve.")).toBeVisible();
  await expect(page.getByRole("button", { name: /Approve|Reject|Cancel/ })).toHaveCount(0);
  await expect(page.getByRole("link", { name: "Audit" })).toHaveCount(0);
  await page.goto(`${address}/states/history`);
  await expect(page.getByRole("row")).toHaveCount(26);
  await expect(page.getByRole("link", { name: /Download/ })).toHaveCount(0);
  await page.goto(`${address}/agents`);
  await expect(page.getByRole("row")).not.toHaveCount(0);
  await expect(page.getByRole("button", { name: /Add|Revoke/ })).toHaveCount(0);
  await page.close();
});

test("with the keyboard alone a plan that destroys in production is approved, and watched to its end", async ({
  signedIn: page,
}) => {
  const { address, asks } = served();
  await page.goto(`${address}/runs?q=shop`);
  await expect(page.getByRole("link", { name: "shop" }).first()).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  await page.keyboard.press("Enter");
  const tabTo = async (name: string | RegExp, role: "button" | "link" = "button") => {
    const target = page.getByRole(role, { name }).first();
    for (let i = 0; i < 60; i++) {
      if (await target.evaluate((e) => e === document.activeElement)) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`60 tabs and not at ${name}`);
  };
  await tabTo("shop", "link");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(`${address}/runs/${asks}`);
  await expect(page.getByRole("main")).toBeFocused();
  await expect(page.getByRole("heading", { name: "3 will be destroyed" })).toBeVisible();
  await tabTo("Approve …");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("terraform_data.deleted");
  await expect(dialog).toContainText(/sha256:[0-9a-f]{64}/);
  await expect(dialog.getByRole("textbox")).toBeFocused();
  await expect(dialog.getByRole("button", { name: "Approve and apply" })).toBeDisabled();
  await page.keyboard.type("shoP");
  await page.keyboard.press("Enter");
  await expect(dialog).toBeVisible();
  await page.keyboard.press("Backspace");
  await page.keyboard.type("p");
  await expect(dialog.getByRole("button", { name: "Approve and apply" })).toBeEnabled();
  await page.keyboard.press("Enter");
  await expect(dialog).toHaveCount(0);
  await expect(page.getByText("Succeeded")).toBeVisible({ timeout: 45_000 });
  await expect(page.getByText(/Approved by/)).toBeVisible();
  await expect(page.getByRole("region", { name: "Lines of the log" })).toContainText("Apply complete!");
  await page.getByRole("tab", { name: "Outputs" }).click();
  await expect(page.getByText("https://shop.example.org/?q=<b>&x=2")).toBeVisible();
});
