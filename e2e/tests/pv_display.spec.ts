/** `<pv-display>` on a plain page, built with Preact: values, puts, displays that it opens, its attributes. */

import { writeFileSync } from "node:fs";
import path from "node:path";

import type { Locator, TestInfo } from "@playwright/test";

import { expectAccessible } from "../fixtures/screen";
import { test, type ElementsPage } from "../fixtures/elements_page";
import { expect } from "../fixtures/test";

interface WidgetText {
  readonly type: string;
  readonly name: string;
  readonly y: number;
  readonly more?: string;
}

const widget = ({ more = "", name, type, y }: WidgetText): string =>
  `<widget type="${type}" version="2.0.0"><name>${name}</name><x>10</x><y>${String(y)}</y>` +
  `<width>200</width><height>24</height>${more}</widget>`;

const VOLTAGE = "<pv_name>$(P):RF:VOLTAGE:SET</pv_name>";
const OPENS = `<text>Details</text><actions><action type="open_display"><file>sub/detail.bob</file>
  <macros><N>7</N></macros><target>replace</target></action></actions>`;

const display = (name: string, ...widgets: string[]): string =>
  `<display version="2.0.0"><name>${name}</name><width>420</width><height>400</height>${widgets.join("")}</display>`;

const FILES: Readonly<Record<string, string>> = {
  "main.bob": display(
    "Main $(P)",
    widget({ type: "textupdate", name: "voltage", y: 10, more: VOLTAGE }),
    widget({ type: "textentry", name: "entry", y: 40, more: VOLTAGE }),
    widget({ type: "gauge", name: "gauge", y: 70, more: `${VOLTAGE}<height>120</height>` }),
    widget({
      type: "stripchart",
      name: "strip",
      y: 200,
      more: `<height>100</height><traces><trace><y_pv>$(P):RF:VOLTAGE:SET</y_pv></trace></traces>`,
    }),
    widget({ type: "action_button", name: "details", y: 310, more: OPENS }),
    widget({ type: "combo", name: "mode", y: 340, more: "<pv_name>$(P):OP:MODE:SET</pv_name>" }),
  ),
  "detail.bob": display(
    "Detail",
    widget({ type: "label", name: "l", y: 5, more: "<text>N $(N)</text>" }),
  ),
};

/** Serves the displays beside the page, and shows the first. */
async function show(
  elements: ElementsPage,
  prefix: string,
  info: TestInfo,
  more: Readonly<Record<string, string>> = {},
): Promise<Locator> {
  const site = info.outputPath("site");
  writeFileSync(path.join(site, "main.bob"), FILES["main.bob"] ?? "");
  writeFileSync(path.join(site, "detail.bob"), FILES["detail.bob"] ?? "");
  const macros = JSON.stringify({ P: prefix });
  await elements.add("pv-display", { file: "main.bob", macros, ...more });
  return elements.page.locator("pv-display");
}

const box = (screen: Locator, name: string): Locator => screen.locator(`[data-name="${name}"]`);

test("pv-display: live values, a put and its refusal, and code that is loaded on demand", async ({
  elements,
  ioc,
  page,
}, testInfo) => {
  const files: string[] = [];
  page.on("request", (request) => files.push(request.url().replace(/^.*\//, "")));
  await expect(elements.value("Voltage")).toHaveText("1.40 MV");
  expect(files.filter((file) => file.startsWith("pvwire-display"))).toEqual([]);

  const screen = await show(elements, ioc.prefix, testInfo);
  await expect(box(screen, "voltage")).toHaveText("1.40 MV");
  await expect(screen.locator(".pvwire-display-title")).toHaveText(`Main ${ioc.prefix}`);
  expect(files).toContain("pvwire-display.js");
  // Names of SVG and sizes in pixels, which Preact's core doesn't have.
  await expect(box(screen, "gauge").locator("path")).toHaveAttribute("stroke-width", "4");
  const place = await box(screen, "entry").evaluate((element) => getComputedStyle(element).top);
  expect(place).toBe("40px");
  await expect(box(screen, "strip").locator("canvas")).toBeVisible();

  const entry = box(screen, "entry").locator("input");
  await entry.fill("1.6");
  await expect(entry).toHaveAttribute("data-typed", "true");
  await entry.press("Enter");
  await expect(box(screen, "voltage")).toHaveText("1.60 MV");
  await expect(elements.value("Voltage")).toHaveText("1.60 MV");
  await expect(entry).not.toHaveAttribute("data-typed");
  await expect(screen.getByRole("status")).toContainText("Written");
  await entry.fill("99");
  await entry.press("Enter");
  await expect(screen.getByRole("status")).toContainText("Refused");
  await expect(box(screen, "voltage")).toHaveText("1.60 MV");

  // Not permitted: the list shows the PV's value, and nothing else.
  await expect(box(screen, "mode").locator("select")).toBeDisabled();
  await expectAccessible(page);
});

test("pv-display: opens another display, or lets the page open it", async ({
  elements,
  ioc,
  page,
}, testInfo) => {
  const screen = await show(elements, ioc.prefix, testInfo);
  const title = screen.locator(".pvwire-display-title");
  const details = box(screen, "details").getByRole("button");
  // A file that isn't there says so in its place.
  await details.click();
  await expect(screen.getByRole("alert")).toContainText("sub/detail.bob can't be read");
  await screen.getByRole("button", { name: "Back" }).click();
  await expect(title).toHaveText(`Main ${ioc.prefix}`);

  await page.evaluate(() => {
    document.addEventListener("pv-open", (event) => {
      const { detail } = event as CustomEvent<{ file: string; macros: Record<string, string> }>;
      event.preventDefault();
      const element = event.target as HTMLElement;
      element.setAttribute("macros", JSON.stringify(detail.macros));
      element.setAttribute("file", detail.file.replace("/sub/", "/"));
    });
  });
  await details.click();
  await expect(title).toHaveText("Detail");
  await expect(box(screen, "l")).toHaveText("N 7");
});

test("pv-display: takes changes of its attributes, and two of them are apart", async ({
  elements,
  ioc,
  page,
}, testInfo) => {
  const screen = await show(elements, ioc.prefix, testInfo, { "read-only": "", label: "first" });
  await expect(box(screen, "entry").locator("input")).toHaveJSProperty("readOnly", true);
  await page.evaluate(() => document.querySelector("pv-display")?.removeAttribute("read-only"));
  await expect(box(screen, "entry").locator("input")).toHaveJSProperty("readOnly", false);

  await elements.set("first", "macros", "P=X");
  await expect(screen.getByRole("alert")).toContainText("isn't a JSON object");
  await elements.set("first", "macros", JSON.stringify({ P: ioc.prefix }));
  await expect(box(screen, "voltage")).toHaveText("1.40 MV");

  await elements.add("pv-display", { file: "detail.bob", macros: '{"N": 3}', fit: "width" });
  await expect(box(page.locator("pv-display").nth(1), "l")).toHaveText("N 3");
  const ids = await page.evaluate(() =>
    [...document.querySelectorAll("pv-display [id]")].map(({ id }) => id),
  );
  expect(new Set(ids).size).toBe(ids.length);
});
