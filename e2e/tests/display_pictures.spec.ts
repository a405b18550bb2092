/** Displays with every widget type, at three widths and two ratios, compared with pictures of them. */

import { cpSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";

import type { Page } from "@playwright/test";

import { ROOT } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { SoftIoc } from "../../testbed/ts/soft_ioc";
import { serveFolder } from "../../testbed/ts/static_server";
import { FILES, NOT_SHOWN, PICTURED, READ_ONLY, RECORDS } from "../fixtures/pictured_displays";
import { expectPicture, on, painted } from "../fixtures/pictures";
import { expect, test as base } from "../fixtures/test";

/** Columns of displays by the width of the window. */
const WIDTHS: ReadonlyMap<number, number> = new Map([
  [390, 2],
  [1024, 5],
  [1920, 7],
]);

/** Later than any value, so that a chart's curve fills its window. */
const BEGIN = Date.parse("2031-03-01T12:34:56.000Z");

/** A chart is drawn when the time changes: for each picture it is another, the same in each run. */
const timeOf = (width: number): number => BEGIN + 1000 * (1 + [...WIDTHS.keys()].indexOf(width));

const DIST = path.join(ROOT, "wasm-client/dist");

const STYLE = `body { margin: 4px; background: light-dark(#e4e8ec, #12161a); color-scheme: light dark }
  main { display: grid; gap: 6px; align-items: start }
  pv-display { min-width: 0; overflow: clip }
  .pvwire-display-bar { position: static }
  /* Its own bound follows the window's height, which follows it. */
  .pvwire-display-notes.pvwire-display-notes { max-height: 200px }`;

const test = base.extend<{ site: string }>({
  ioc: async ({ network, prefix, source }, provide, testInfo) => {
    const database = testInfo.outputPath("pictured.db");
    writeFileSync(database, RECORDS);
    const ioc = await SoftIoc.start(prefix, network, source, [database]);
    await provide(ioc);
    await ioc.kill();
  },
  site: async ({ ioc, network, prefix }, provide, testInfo) => {
    const port = await freePort();
    const origin = `http://127.0.0.1:${String(port)}`;
    const relay = await Relay.start(network, [
      `--allow-origin=${origin}`,
      "--enable-put",
      `--allow-put=${prefix}:*:SET`,
    ]);
    const folder = testInfo.outputPath("site");
    mkdirSync(path.join(folder, "pvwire"), { recursive: true });
    for (const file of readdirSync(DIST).filter((name) => name.startsWith("pvwire"))) {
      cpSync(path.join(DIST, file), path.join(folder, "pvwire", file));
    }
    for (const [name, text] of FILES) writeFileSync(path.join(folder, name), text);
    const macros = JSON.stringify({ P: ioc.prefix, S: "03", R: "VALUE" });
    const displays = PICTURED.map(
      ({ file, name }) =>
        `<pv-display file="${file}" macros='${macros}' fit="width"${name === READ_ONLY ? " read-only" : ""}></pv-display>`,
    );
    writeFileSync(
      path.join(folder, "index.html"),
      `<!doctype html><html lang="en"><meta charset="utf-8"><title>Displays</title><style>${STYLE}</style>
       <script type="module" src="pvwire/pvwire.js"></script>
       <pv-relay url="ws://127.0.0.1:${String(relay.port)}/ws"></pv-relay><main>${displays.join("")}</main></html>`,
    );
    const end = await serveFolder(folder, port);
    await provide(origin);
    await end();
    await relay.kill();
  },
});

test.use({ still: true });

async function open(page: Page, site: string): Promise<void> {
  await page.clock.setFixedTime(BEGIN);
  await page.goto(site);
  await expect(page.locator(".pvwire-display-sheet")).toHaveCount(PICTURED.length);
  await page.locator(`[file="${fileOf(NOT_SHOWN)}"] .pvwire-display-notes-button`).click();
}

const fileOf = (name: string): string => PICTURED.find((each) => each.name === name)?.file ?? "";

/** How tall the page is, once all displays have the scale of their width. */
async function heightOf(page: Page): Promise<number> {
  const measure = (): Promise<number> =>
    page.evaluate(() => {
      const sheets = [...document.querySelectorAll(".pvwire-display-sheet")];
      const isScaled = sheets.every((sheet) => {
        const room = sheet.closest("pv-display")?.clientWidth ?? 0;
        return Math.abs(sheet.getBoundingClientRect().width - room) < 1;
      });
      const { bottom } = document.querySelector("main")?.getBoundingClientRect() ?? { bottom: 0 };
      return isScaled ? Math.ceil(bottom + window.scrollY) + 4 : 0;
    });
  await expect.poll(measure).toBeGreaterThan(0);
  return await measure();
}

/** Lays the displays out in columns, all of them in view: those out of view lag behind. */
async function columns(page: Page, width: number): Promise<void> {
  const content = `main { grid-template-columns: repeat(${String(WIDTHS.get(width))}, minmax(0, 1fr)) }`;
  await page.addStyleTag({ content });
  await page.setViewportSize({ width, height: 600 });
  await page.setViewportSize({ width, height: await heightOf(page) });
  await expect.poll(() => heightOf(page)).toBe(page.viewportSize()?.height ?? 0);
  await painted(page);
}

/** Charts over time are drawn as values arrive: their place is compared, not their curves. */
const overTime = (page: Page) => [
  page.locator('[file="strip_chart.bob"] canvas'),
  page.locator('[file="data_browser.bob"] canvas'),
];

/** Every PV has its state: a value, or that no server has it. */
async function allAnswered(page: Page): Promise<void> {
  await expect(page.locator('[data-state="connecting"]')).toHaveCount(0);
}

test("displays at three widths and two ratios, and without their IOC", async ({
  browser,
  ioc,
  site,
}) => {
  for (const ratio of [1, 2] as const) {
    const colorScheme = ratio === 1 ? "light" : "dark";
    await on(browser, { width: 1024, height: 900, ratio, colorScheme }, async (page) => {
      await open(page, site);
      for (const width of WIDTHS.keys()) {
        await columns(page, width);
        await allAnswered(page);
        await page.clock.setFixedTime(timeOf(width));
        await expectPicture(page, `displays-${String(width)}-${String(ratio)}`, overTime(page));
      }
    });
  }
  await on(browser, { width: 1024, height: 900, ratio: 1, colorScheme: "light" }, async (page) => {
    await open(page, site);
    await columns(page, 1024);
    await allAnswered(page);
    await ioc.kill();
    await expect(page.locator('[data-state="connected"]:not([data-pv^="loc:"])')).toHaveCount(0);
    await page.clock.setFixedTime(timeOf(1024));
    await expectPicture(page, "displays-disconnected", overTime(page));
  });
});
