/** `make demo FLEET=2`: the page shows which relay owns what, and goes on when the one that it uses is killed. */

import path from "node:path";

import { expect } from "@playwright/test";

import { expectAccessible } from "../fixtures/screen";
import { base as test } from "../fixtures/test";
import { Child } from "../../testbed/ts/child";
import { DEADLINE_MS } from "../../testbed/ts/deadline";
import { PYTHON, RELAY, ROOT } from "../../testbed/ts/paths";

/** The demo builds its page before it prints the address; a relay is started again after five seconds. */
const SLOW = { timeout: 4 * DEADLINE_MS };

test("values go on when the owner that the page uses is killed", async ({ page }) => {
  const demo = Child.start({
    what: "the demo",
    command: PYTHON,
    args: ["-u", path.join(ROOT, "tools/demo.py"), "--fleet", "2"],
    env: { PVWIRE_RELAY: RELAY },
  });
  try {
    const [, url = ""] = await demo.waitForOutput(/The page: +(\S+)/, SLOW.timeout);
    await page.goto(url);
    const fleet = page.getByRole("region", { name: "Fleet" });
    const connected = page.locator('[data-pv="DEMO:RF:VOLTAGE"][data-state="connected"]').first();
    await expect(connected).toBeVisible(SLOW);
    await expect(fleet).toContainText("PVs, one channel each (casr)", SLOW);
    await expect(fleet.getByText(/owns [1-9][\d,]* PVs/)).toHaveCount(2);
    await expectAccessible(page);

    const used = fleet.locator('[data-used="true"]');
    const other = fleet.locator('[data-used="false"]');
    const [killed, heir] = await Promise.all(
      [used, other].map((relay) => relay.getAttribute("data-relay")),
    );
    await used.getByRole("button").click();
    await expect(used).toHaveAttribute("data-relay", String(heir), SLOW);
    await expect(fleet.locator(`[data-relay="${String(killed)}"]`)).toHaveAttribute(
      "data-state",
      "running",
      SLOW,
    );
    // All PVs of the page have a connection again: those of the killed owner too.
    await expect(connected).toBeVisible(SLOW);
    await expect(page.locator(".troubles")).not.toContainText("disconnected", SLOW);
    await expect(page.getByRole("alert")).toBeHidden();
  } finally {
    await demo.end();
  }
});
