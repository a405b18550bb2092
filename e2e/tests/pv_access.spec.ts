/** By pvAccess a page shows what the IOC has, to the last digit, and a camera and a table of a real server. */

import path from "node:path";

import type { Locator } from "@playwright/test";

import { Child } from "../../testbed/ts/child";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { servePage } from "../fixtures/built_pages";
import { expectAccessible } from "../fixtures/screen";
import { expect, test as base } from "../fixtures/test";

/** The page shows this name, but the IOC usually has no such record. */
const PV = "NOT_THERE";

const LARGE = `record(int64out, "$(P):${PV}") {
  field(VAL, "9007199254740993") field(PINI, "YES") field(EGU, "turns")
}
`;

const GROUP = `record(ai, "$(P):GAP") {
  field(VAL, "90.1") field(PREC, "3") field(EGU, "mm") field(HIHI, "80") field(HHSV, "MAJOR")
  field(PINI, "YES")
  info(Q:group, { "$(P):GROUP": { "+id": "site:gap:1.0",
    "plain": { "+channel": "VAL", "+type": "plain" }, "gap": { "+channel": "VAL" } } })
}
`;

const test = base.extend({
  beforeRelay: async ({ ioc }, provide) => {
    await provide(() => ioc.get("OP:MESSAGE"));
  },
});

test.use({ source: "pva", moreRecords: LARGE + GROUP });

test("a 64-bit integer has all its digits", async ({ demo, ioc }) => {
  await expect(demo.value(PV)).toHaveText("9007199254740993 turns");

  for (const integer of ["-9223372036854775808", "12", "9007199254740995"]) {
    await ioc.put(PV, integer);
    await expect(demo.value(PV)).toHaveText(`${integer} turns`);
  }
});

test("fields of structures are PVs; a wrong one lists those known", async ({ demo, ioc }) => {
  const shown = async (path: string): Promise<unknown> =>
    await demo.page.evaluate(async (name) => {
      const client = window.__pvwireDemo?.client;
      if (client === undefined) throw new Error("the page has no client yet");
      const selection = `{ value { string(units: true) } time { seconds } status { severity } }`;
      const [result] = await client.get([name], { selection, timeoutMs: 45_000 });
      if (result === undefined || result.ok) return result?.data;
      return { code: result.error.code, message: result.error.message };
    }, `pva://${ioc.prefix}:GROUP${path}`);

  await expect(demo.readback("RF:VOLTAGE:SET")).toHaveAttribute("data-state", "connected");
  expect(await shown("/plain")).toEqual({
    value: { string: "90.1" },
    time: null,
    status: { severity: null },
  });
  expect(await shown("/gap")).toMatchObject({
    value: { string: "90.100 mm" },
    status: { severity: "MAJOR" },
  });
  expect(await shown("/gap/alarm/severity")).toMatchObject({ value: { string: "2" } });
  expect(await shown("/gpa")).toEqual({
    code: "NO_SUCH_FIELD",
    message: 'the structure has no field "gpa"; it has: record, gap, plain',
  });
});

test("status and set points are the same as by Channel Access", async ({ demo, ioc }) => {
  await ioc.put("RF:VOLTAGE:SET", 1.5);
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.50 MV");
  await ioc.put("OP:MESSAGE", "[x] y");
  await expect(demo.value("OP:MESSAGE")).toHaveText("[x] y");
  await expect(demo.condition("VAC:VALVE")).not.toHaveText("");
});

const structured = base.extend<{ server: Child; url: string }>({
  server: async ({ network, prefix }, provide) => {
    const server = Child.start({
      what: "the pvAccess server",
      command: PYTHON,
      args: ["-u", path.join(ROOT, "e2e/fixtures/structures.py"), prefix],
      env: network.env,
    });
    await provide(server);
    await server.kill();
  },

  beforeRelay: async ({ server }, provide) => {
    await provide(() => server.waitForOutput(/serving/));
  },

  url: async ({ prefix, relay }, provide) => {
    const { close, url } = await servePage("structures", { relayPort: relay.port });
    await provide(`${url}?prefix=${prefix}`);
    await close();
  },
});

/** How bright the first pixel is, 0 to 255. */
async function brightness(canvas: Locator): Promise<number> {
  return await canvas.evaluate((element) => {
    const copy = document.createElement("canvas");
    copy.width = copy.height = 1;
    const context = copy.getContext("2d");
    context?.drawImage(element as HTMLCanvasElement, 0, 0);
    return context?.getImageData(0, 0, 1, 1).data[0] ?? NaN;
  });
}

for (const colorScheme of ["light", "dark"] as const) {
  structured.describe(colorScheme, () => {
    structured.use({ colorScheme });

    structured(
      "camera frames and table rows, until their server is gone",
      async ({ page, prefix, server, url }) => {
        await page.goto(url);
        const camera = page.getByRole("img", { name: "Camera: image of 64 × 48 pixels" });
        await expect(camera).toBeVisible({ timeout: 30_000 });
        const seen = new Set<number>();
        await expect
          .poll(async () => seen.add(await brightness(camera)).size, { timeout: 30_000 })
          .toBeGreaterThan(5);
        const table = page.getByRole("table");
        await expect(table.getByRole("columnheader")).toHaveText(["magnet", "current", "turns"]);
        await expect(table.getByRole("cell")).toHaveText([
          ...["Q1", "1.25", "1"],
          ...["Q2", "-0.5", "9007199254740993"],
        ]);
        server.writeLine("table");
        await expect(table.getByRole("cell", { name: "Q3" })).toBeVisible();
        await expectAccessible(page);

        await server.kill();
        for (const pv of ["CAMERA", "TABLE"]) {
          const widget = page.locator(`[data-pv="pva://${prefix}:${pv}"]`);
          await expect(widget).toHaveAttribute("data-state", "disconnected", { timeout: 30_000 });
          await expect(widget).toContainText("Disconnected · old since");
        }
        await expect(table.getByRole("cell", { name: "Q3" })).toBeVisible();
        await expectAccessible(page);
      },
    );
  });
}
