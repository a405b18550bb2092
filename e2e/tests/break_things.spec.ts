/** `make demo`: its buttons that kill or pause the IOC and the relay, and a fleet of which one relay is killed. */

import path from "node:path";

import { expect, type Locator, type Page } from "@playwright/test";

import { expectAccessible } from "../fixtures/screen";
import { Child } from "../../testbed/ts/child";
import { DEADLINE_MS } from "../../testbed/ts/deadline";
import { PYTHON, RELAY, ROOT } from "../../testbed/ts/paths";
import { base, test as withoutDemo } from "../fixtures/test";

/** The demo builds its page before it prints the address. */
const START_MS = 4 * DEADLINE_MS;

/** The IOC and the relay are started again five seconds after they ended. */
const BACK = { timeout: 4 * DEADLINE_MS };

/** libca and the relay each wait some seconds before they consider a silent connection lost. */
const SILENT = { timeout: 2 * DEADLINE_MS };

/** One demo for all tests of this file: each test waits until what it broke works again. */
const test = base.extend<object, { demoUrl: string }>({
  demoUrl: [
    // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
    async ({}, provide) => {
      const demo = Child.start({
        what: "the demo",
        command: PYTHON,
        args: ["-u", path.join(ROOT, "tools/demo.py")],
        env: { PVWIRE_RELAY: RELAY },
      });
      const [, url = ""] = await demo.waitForOutput(/The page: +(\S+)/, START_MS);
      await provide(url);
      await demo.end();
    },
    { scope: "worker", timeout: START_MS + DEADLINE_MS },
  ],
});

const readback = (page: Page): Locator => page.locator('[data-pv="DEMO:RF:VOLTAGE"]');

const breaking = (page: Page): Locator => page.getByRole("region", { name: "Break things" });

/**
 * Notes what the page shows of the processes and the PV from now on, also what lasts only a moment:
 * a busy machine may check the page again only when all is restarted.
 */
async function notesOf(page: Page): Promise<() => Promise<string[]>> {
  const seen = await page.evaluateHandle(() => {
    const seen: string[] = [];
    const note = (): void => {
      const pv = document.querySelector<HTMLElement>('[data-pv="DEMO:RF:VOLTAGE"]');
      const region = document.querySelector('[aria-label="Break things"]');
      const button = region?.querySelector("button");
      for (const now of [
        `PV: ${pv?.dataset.state ?? ""}: ${pv?.textContent ?? ""}`,
        region?.querySelector('[role="status"]')?.textContent ?? "",
        `${button?.textContent ?? ""}${button?.disabled === true ? " (disabled)" : ""}`,
        document.querySelector('[role="alert"]')?.textContent ?? "",
      ]) {
        if (!seen.includes(now)) seen.push(now);
      }
    };
    const all = { attributes: true, characterData: true, childList: true, subtree: true };
    new MutationObserver(note).observe(document.body, all);
    return seen;
  });
  return async () => await seen.jsonValue();
}

test.setTimeout(16 * DEADLINE_MS);

test("what is killed shows as lost, and is right after its restart", async ({ demoUrl, page }) => {
  await page.goto(demoUrl);
  await expect(readback(page)).toHaveAttribute("data-state", "connected", BACK);
  await page.getByRole("button", { name: "Tools" }).click();
  await expect(breaking(page)).toContainText("IOC: running. Relay: running.");
  await expectAccessible(page);

  const seen = await notesOf(page);
  await breaking(page).getByRole("button", { name: "Kill the IOC" }).click();
  await expect
    .poll(seen)
    .toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^PV: disconnected: .*Disconnected · old since/),
        expect.stringContaining("IOC: killed, starts again 5 s later."),
        "Kill the IOC (disabled)",
      ]),
    );
  await expectAccessible(page);
  await expect(readback(page)).toHaveAttribute("data-state", "connected", BACK);
  await expect(breaking(page)).toContainText("IOC: running.", BACK);

  await breaking(page).getByRole("button", { name: "Kill the relay" }).click();
  await expect
    .poll(seen)
    .toEqual(
      expect.arrayContaining([
        expect.stringContaining("Relay lost"),
        expect.stringMatching(/^PV: relayLost: /),
      ]),
    );
  await expect(readback(page)).toHaveAttribute("data-state", "connected", BACK);
  await expect(page.getByRole("alert")).toBeHidden();
});

test.describe("dark", () => {
  test.use({ colorScheme: "dark" });

  test("a paused IOC shows as disconnected and continues afterwards", async ({
    demoUrl,
    page,
    request,
  }) => {
    await page.goto(demoUrl);
    await expect(readback(page)).toHaveAttribute("data-state", "connected", BACK);
    await page.getByRole("button", { name: "Tools" }).click();
    await breaking(page).getByRole("button", { name: "Pause the IOC" }).click();
    await expect(breaking(page)).toContainText("IOC: paused (simulated hang).");
    await expect(readback(page)).toHaveAttribute("data-state", "disconnected", SILENT);
    await expectAccessible(page);
    await breaking(page).getByRole("button", { name: "Resume the IOC" }).click();
    await expect(readback(page)).toHaveAttribute("data-state", "connected", BACK);
    await expect(breaking(page)).toContainText("IOC: running.");

    // Only the page itself may do this: requests of other pages are refused.
    const foreign = await request.post(new URL("demo/ioc/kill", demoUrl).href);
    expect(foreign.status()).toBe(403);
    const headers = { "X-Pvwire-Demo": "yes" };
    const other = await request.post(new URL("demo/page/kill", demoUrl).href, { headers });
    expect(other.status()).toBe(404);
    await expect(breaking(page)).toContainText("IOC: running. Relay: running.");
  });
});

withoutDemo("without the demo's server there are no such buttons", async ({ demo }) => {
  const requested: string[] = [];
  demo.page.on("request", (each) => requested.push(each.url()));
  await demo.page.goto("about:blank");
  await demo.open();
  await expect(demo.readback("RF:VOLTAGE")).toHaveAttribute("data-state", "connected");
  await demo.page.getByRole("button", { name: "Tools" }).click();
  await expect(demo.page.getByRole("region", { name: "Tools" })).toBeVisible();
  await expect(breaking(demo.page)).toHaveCount(0);
  expect(requested.join()).not.toContain("demo/processes");
});

/** The page shows which relay owns what. */
base("values go on when the owner that the page uses is killed", async ({ page }) => {
  const demo = Child.start({
    what: "the demo",
    command: PYTHON,
    args: ["-u", path.join(ROOT, "tools/demo.py"), "--fleet", "2"],
    env: { PVWIRE_RELAY: RELAY },
  });
  try {
    const [, url = ""] = await demo.waitForOutput(/The page: +(\S+)/, BACK.timeout);
    await page.goto(url);
    const fleet = page.getByRole("region", { name: "Fleet" });
    const connected = page.locator('[data-pv="DEMO:RF:VOLTAGE"][data-state="connected"]').first();
    await expect(connected).toBeVisible(BACK);
    await expect(fleet).toContainText("PVs, one channel each (casr)", BACK);
    await expect(fleet.getByText(/owns [1-9][\d,]* PVs/)).toHaveCount(2);
    await expectAccessible(page);

    const used = fleet.locator('[data-used="true"]');
    const other = fleet.locator('[data-used="false"]');
    const [killed, heir] = await Promise.all(
      [used, other].map((relay) => relay.getAttribute("data-relay")),
    );
    await used.getByRole("button").click();
    await expect(used).toHaveAttribute("data-relay", String(heir), BACK);
    await expect(fleet.locator(`[data-relay="${String(killed)}"]`)).toHaveAttribute(
      "data-state",
      "running",
      BACK,
    );
    // All PVs of the page have a connection again: those of the killed owner too.
    await expect(connected).toBeVisible(BACK);
    await expect(page.locator(".troubles")).not.toContainText("disconnected", BACK);
    await expect(page.getByRole("alert")).toBeHidden();
  } finally {
    await demo.end();
  }
});
