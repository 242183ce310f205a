import { existsSync } from "node:fs";
import { defineConfig, devices } from "@playwright/test";

const desktop = { ...devices["Desktop Chrome"], viewport: { width: 1280, height: 900 } };
const phone = { ...devices["Desktop Chrome"], viewport: { width: 360, height: 780 }, hasTouch: true };

/** The browser of the system, by the names that systems give it. */
function installed(): string {
  const known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  return known.find((p) => existsSync(p)) ?? "/usr/bin/chromium";
}

// The browser is the system's Chromium; none is ever downloaded.
const chromium = {
  executablePath: process.env.HOLDFAST_CHROMIUM ?? installed(),
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
};

export default defineConfig({
  testDir: "tests",
  globalSetup: "./tests/server.ts",
  timeout: 60_000,
  expect: { timeout: 15_000 },
  workers: 1, // the tests share one server, and the ones that change it come last
  reporter: [["list"]],
  use: { launchOptions: chromium, trace: "retain-on-failure" },
  projects: [
    { name: "desktop", testMatch: "pages.spec.ts", use: desktop },
    { name: "phone", testMatch: "pages.spec.ts", use: phone },
    { name: "use", testMatch: ["states.spec.ts", "use.spec.ts"], use: desktop },
  ],
});
