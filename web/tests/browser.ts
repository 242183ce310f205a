import AxeBuilder from "@axe-core/playwright";
import { test as base, expect, type Page, type TestInfo } from "@playwright/test";
import { served } from "./server";

/**
 * A page of somebody signed in. Whatever the content security policy stops, whatever throws, and every error on the
 * console fails the test, unless it named the text in allowed.
 */
export const test = base.extend<{ signedIn: Page; allowed: string[] }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright takes the names of fixtures from it
  allowed: async ({}, use) => use([]),
  page: async ({ page, allowed }, use) => {
    const wrong: string[] = [];
    page.on("pageerror", (e) => wrong.push(`thrown: ${e.message}`));
    page.on("console", (m) => {
      if (["error", "warning"].includes(m.type())) wrong.push(`console: ${m.text()} ${m.location().url}`);
    });
    page.on("dialog", (d) => {
      wrong.push(`dialog: ${d.message()}`);
      d.dismiss();
    });
    await use(page);
    expect(wrong.filter((w) => !allowed.some((a) => w.includes(a)))).toEqual([]);
  },
  signedIn: async ({ page }, use) => {
    const { address, token } = served();
    const r = await page.request.post(`${address}/api/session`, { data: { token }, headers: { Origin: address } });
    expect(r.status(), await r.text()).toBe(200);
    await use(page);
  },
});

/**
 * What a machine can say of a page, in light and in dark: it fits into the window, so that nothing is to be found by
 * scrolling sideways, and axe finds nothing. Of a long list the first rows stand for all. A picture of each is kept
 * in shots/, for the eye.
 */
export async function look(page: Page, name: string, info: TestInfo, whole = false): Promise<void> {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(over, "pixels beyond the window").toBeLessThanOrEqual(0);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", colorScheme);
    const { violations } = await new AxeBuilder({ page }).exclude("tbody tr:nth-child(n+7)").analyze();
    const said = violations.map(
      (v) => `${v.id}: ${v.nodes.map((n) => `${n.target.join(" ")} ${n.failureSummary}`).join("\n")}`,
    );
    expect(said, `axe, ${colorScheme}`).toEqual([]);
    await page.screenshot({ path: `shots/${name}-${info.project.name}-${colorScheme}.png`, fullPage: whole });
  }
}

export { expect };
