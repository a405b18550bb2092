/** What a large display paints looks as the elements do that it stands for, at several ratios and sizes. */

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

import type { Page } from "@playwright/test";

import { DEADLINE_MS } from "../../testbed/ts/deadline";
import { expect, test } from "../fixtures/app_page";
import { on } from "../fixtures/pictures";

const WIDGETS = 450;
const COLUMNS = 15;

const LOOKS = [
  ["textupdate", "<precision>2</precision>"],
  [
    "textupdate",
    "<horizontal_alignment>1</horizontal_alignment><vertical_alignment>1</vertical_alignment>",
  ],
  [
    "textupdate",
    "<horizontal_alignment>2</horizontal_alignment><vertical_alignment>2</vertical_alignment>",
  ],
  ["textupdate", '<font><font family="Liberation Mono" style="BOLD" size="11.0"/></font>'],
  ["led", ""],
  ["led", "<square>true</square><height>16</height>"],
  ["progressbar", ""],
  ["progressbar", "<horizontal>false</horizontal>"],
  ["tank", "<scale_visible>false</scale_visible>"],
] as const;

function widget(at: number): string {
  const [type, more] = LOOKS[at % LOOKS.length] ?? LOOKS[0];
  const [x, y] = [(at % COLUMNS) * 61 + 3, Math.floor(at / COLUMNS) * 23 + 2];
  const height = more.includes("<height>") ? "" : "<height>21</height>";
  return `<widget type="${type}" version="2.0.0"><name>w${String(at)}</name><x>${String(x)}</x><y>${String(y)}</y>
    <width>59</width>${height}${more}<pv_name>loc://v${String(at)}(${String(((at * 73) % 1000) / 10)})</pv_name></widget>`;
}

test.use({
  // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
  screens: async ({}, provide, testInfo) => {
    const folder = testInfo.outputPath("screens");
    mkdirSync(folder);
    const widgets = Array.from({ length: WIDGETS }, (_, at) => widget(at)).join("");
    const text = `<display version="2.0.0"><name>Many</name><width>930</width><height>700</height>${widgets}</display>`;
    writeFileSync(path.join(folder, "many.bob"), text);
    await provide(folder);
  },
});
test.setTimeout(12 * DEADLINE_MS);

/** Share of the pixels that may differ clearly, and where edges are between pixels, which are rounded. */
const MOST_DIFFERENT = { whole: 0.01, between: 0.06 };

/** Share of the pixels that differ clearly. */
async function difference(page: Page, one: Buffer, other: Buffer): Promise<number> {
  return page.evaluate(
    async (pictures) => {
      const [before, after] = await Promise.all(
        pictures.map(async (picture) => {
          const bytes = Uint8Array.from(atob(picture), (sign) => sign.charCodeAt(0));
          const bitmap = await createImageBitmap(new Blob([bytes]));
          const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
          context?.drawImage(bitmap, 0, 0);
          return context?.getImageData(0, 0, bitmap.width, bitmap.height).data ?? [];
        }),
      );
      let count = 0;
      for (let at = 0; at < (before?.length ?? 0); at += 4) {
        const differences = [0, 1, 2].map((part) =>
          Math.abs((before?.[at + part] ?? 0) - (after?.[at + part] ?? 0)),
        );
        if (Math.max(...differences) > 80) count += 1;
      }
      return (4 * count) / (before?.length ?? 1);
    },
    [one.toString("base64"), other.toString("base64")],
  );
}

test("what is painted looks as elements do, at several ratios and sizes", async ({
  app,
  browser,
}) => {
  for (const [ratio, fit, edges] of [
    [1, "", "whole"],
    [2, "", "whole"],
    [1.25, "", "between"],
    [1, "?fit=width", "between"],
  ] as const) {
    await on(browser, { width: 1240, height: 1150, ratio, colorScheme: "light" }, async (page) => {
      await page.goto(`${app.url}#/display/many.bob${fit}`);
      const painted = page.locator("[data-painted]");
      await expect(painted).toHaveCount(WIDGETS, { timeout: 2 * DEADLINE_MS });
      // The content of the elements follows within two seconds.
      const behind = page.locator('[data-type="textupdate"]', { hasText: "–" });
      await expect(behind).toHaveCount(0);
      const sheet = page.locator(".pvwire-display-sheet");
      const before = await sheet.screenshot({ scale: "device" });
      await page.addStyleTag({
        content:
          ".pvwire-display-canvases { display: none } [data-painted] > * { opacity: 1 !important }",
      });
      const after = await sheet.screenshot({ scale: "device" });
      const share = await difference(page, before, after);
      expect(share, `at ${String(ratio)}${fit}`).toBeLessThan(MOST_DIFFERENT[edges]);
    });
  }
});
