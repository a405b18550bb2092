/** The app's plots: live and past curves of a real IOC, with zoom, cursor, limits and export. */

import { mkdirSync, readFileSync } from "node:fs";

import path from "node:path";

import type { Page } from "@playwright/test";

import { Child } from "../../testbed/ts/child";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { expectAccessible } from "../fixtures/screen";
import { expect, test, type AppPage } from "../fixtures/app_page";

test.use({ relayFlags: ["--history=*=10m"] });

/** The colour of the first trace in light mode. */
const FIRST = [0x0b, 0x62, 0xa8];

/** Number of pixels of the first chart that have this colour. */
async function pixelsOf(page: Page, [red, green, blue]: readonly number[]): Promise<number> {
  return page
    .locator(".pvwire-chart canvas")
    .first()
    .evaluate(
      (canvas, [red, green, blue]) => {
        if (!(canvas instanceof HTMLCanvasElement)) return 0;
        const { data } =
          canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height) ?? {};
        let count = 0;
        for (let at = 0; data !== undefined && at < data.length; at += 4) {
          if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) count += 1;
        }
        return count;
      },
      [red, green, blue],
    );
}

test("plots: live, zoomed, moved, below each other, exported, without the IOC", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  const [current, mode, pressure, message] = [
    "RING:CURRENT",
    "RING:MODE",
    "VAC:PRESSURE",
    "OP:MESSAGE",
  ].map((record) => `${prefix}:${record}`) as [string, string, string, string];
  const trace = (name: string) => page.locator(`[data-trace="${name}"]`);
  const charts = page.locator(".pvwire-chart canvas");
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 300);
  await app.open(`#/plots?pvs=${[current, mode, pressure, message].join(",")}&last=10`);
  await expect(charts).toHaveCount(1);
  await expect(trace(current)).toContainText("300.00 mA");
  await expect(trace(current)).toContainText("MINOR HIGH");
  await expect(trace(message)).toContainText("No number: nothing to draw");
  await expect.poll(() => pixelsOf(page, FIRST)).toBeGreaterThan(80);
  await ioc.put("RING:CURRENT", 250);
  await expect(trace(current).locator('[data-column="low"]')).toHaveText("250 mA");
  await expect(trace(current).locator('[data-column="high"]')).toHaveText("300 mA");
  await expectAccessible(page);

  // The cursor shows what each PV was; the list says when.
  const box = await charts.first().boundingBox();
  if (box === null) throw new Error("the chart isn't visible");
  const [left, middle, top] = [
    box.x + 0.4 * box.width,
    box.x + 0.9 * box.width,
    box.y + 0.4 * box.height,
  ];
  await expect(async () => {
    await page.mouse.move(middle - 5 * Math.random(), top);
    const at = page.locator('th[data-column="at"]');
    await expect(at).toHaveText(/^\d{4}-\d\d-\d\d /, { timeout: 500 });
  }).toPass();
  await page.mouse.move(5, 5);
  await expect(page.locator('th[data-column="at"]')).toHaveText("Now");

  // Drawing an interval shows it, and the link has it; back is live again.
  await page.mouse.move(left, top);
  await page.mouse.down();
  await page.mouse.move(middle, top, { steps: 4 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=\d+&to=\d+/);
  await expect.poll(() => pixelsOf(page, FIRST)).toBeGreaterThan(80);
  const zoomed = page.url();
  await page.getByRole("button", { name: "Zoom out" }).click();
  await page.getByRole("button", { name: "Earlier" }).click();
  expect(page.url()).not.toBe(zoomed);
  await page.goBack();
  await page.goBack();
  await expect(page).toHaveURL(zoomed);
  await page.goBack();
  await expect(page.getByRole("button", { name: "10 s", exact: true })).toHaveAttribute(
    "aria-pressed",
    "true",
  );

  const [csv] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export CSV" }).click(),
  ]);
  const lines = readFileSync(await csv.path(), "utf8").split("\r\n");
  expect(lines[0]).toBe("PV,time (UTC),value,units,alarm");
  expect(lines.some((line) => /,\d{4}-\d\d-\d\dT[\d:]+\.\d{9}Z,250,mA,NO_ALARM$/.test(line))).toBe(
    true,
  );
  expect(lines.some((line) => line.startsWith(pressure))).toBe(true);
  const [png] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export PNG" }).click(),
  ]);
  expect(
    readFileSync(await png.path())
      .subarray(1, 4)
      .toString(),
  ).toBe("PNG");

  await page.getByRole("button", { name: "Below each other" }).click();
  await expect(charts).toHaveCount(3);
  await page.getByRole("button", { name: "Limits" }).click();
  await page.getByRole("button", { name: "Logarithmic" }).click();
  await expect.poll(() => pixelsOf(page, FIRST)).toBeGreaterThan(80);
  await expectAccessible(page);
  await page.getByRole("checkbox", { name: `Show ${current}` }).uncheck();
  await expect(charts).toHaveCount(2);
  await page.getByRole("checkbox", { name: `Show ${current}` }).check();
  await page.getByRole("button", { name: `Remove ${message}` }).click();
  await expect(charts).toHaveCount(3);
  await page.reload();
  await expect(charts).toHaveCount(3);
  await expect(trace(current)).toContainText("250.00 mA");

  // Rows of the table have curves too, and a PV is written from its cell.
  const set = `${prefix}:RF:VOLTAGE:SET`;
  await page.goto(`${app.url}#/table?pvs=${set},${current}`);
  await page.getByRole("button", { name: "Curves" }).click();
  await expect(app.row(current).locator(".pvwire-sparkline path")).toHaveAttribute(
    "d",
    /^M[\d.]+ [\d.]+L/,
  );
  await app.row(set).hover();
  await page.getByRole("button", { name: `Write ${set}` }).click();
  const dialog = page.getByRole("dialog", { name: `Write ${set}` });
  await dialog.getByRole("textbox").fill("1.75");
  await dialog.getByRole("textbox").press("Enter");
  await expect(dialog).toContainText("Written");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.75");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(app.row(set)).toContainText("1.75");
  await page.goto(`${app.url}#/plots?pvs=${current}`);

  // The curve ends where the IOC did.
  await ioc.kill();
  await expect(trace(current)).toContainText("Disconnected");
  await expect(trace(current)).toHaveAttribute("data-state", "disconnected");
  // A phone shows it beside the old value.
  await page.setViewportSize({ width: 390, height: 844 });
  await trace(current).locator('[data-column="name"]').scrollIntoViewIfNeeded();
  const at = trace(current).locator('[data-column="at"]');
  await expect(at.locator(".pvwire-state-icon")).toBeInViewport();
  await expect(trace(current).locator('[data-column="state"]')).toBeVisible();
});

test("plots, table and PV show one past interval, marked as such, and the present again", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  const current = `${prefix}:RING:CURRENT`;
  const missing = `${prefix}:MISSING`;
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 300);
  await app.open(`#/table?curves=1&pvs=${current},${missing}`);
  await expect(app.row(current)).toContainText("300.00 mA");
  // The relay's and the IOC's clocks are this one.
  const toMs = Date.now() + 1000;
  await expect.poll(() => Date.now()).toBeGreaterThan(toMs + 1000);
  await ioc.put("RING:CURRENT", 250);
  await expect(app.row(current)).toContainText("250.00 mA");
  await expect(app.row(current).locator(".write")).toBeAttached();

  const interval = `from=${String(toMs - 60_000)}&to=${String(toMs)}`;
  await app.open(`#/table?curves=1&${interval}&pvs=${current},${missing}`);
  const mark = page.getByText(/^The past: values that held at \d{4}-/);
  await expect(mark).toBeVisible();
  await expect(app.row(current)).toContainText(/300\.00 mA.*MINOR/);
  await expect(app.row(current).locator(".write")).not.toBeAttached();
  await expect(app.row(missing)).toHaveAttribute("data-state", "disconnected");
  await expect(page.getByRole("button", { name: "Value then" })).toBeVisible();
  await expect(page).toHaveTitle("Table of 2 PVs, past – pvwire");
  await expectAccessible(page);
  const [csv] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export CSV" }).click(),
  ]);
  expect(readFileSync(await csv.path(), "utf8")).toContain(`${current},300.00 mA,minor alarm`);

  await page.getByRole("link", { name: "Plots" }).click();
  const trace = page.locator(`[data-trace="${current}"]`);
  await expect(page.locator('th[data-column="at"]')).toHaveText(/^\d{4}-/);
  await expect(trace.locator('[data-column="at"]')).toHaveText("300 mA");
  await trace.getByRole("link").click();
  const picture = page.getByRole("region", { name: "Picture" });
  await expect(picture.locator(".pvwire-chart canvas")).toBeVisible();
  await expect(app.value).toHaveText("250.00 mA");
  await picture.getByRole("button", { name: "1 min", exact: true }).click();
  await expect(picture.locator(".pvwire-strip canvas")).toBeVisible();
  await page.goBack();
  await page.goBack();
  await page.goBack();
  await page.getByRole("button", { name: "Show the present" }).click();
  await expect(mark).toBeHidden();
  await expect(app.row(current)).toContainText("250.00 mA");
});

test("a curve that is flat but for one bit leaves the page alive", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  const current = `${prefix}:RING:CURRENT`;
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 1);
  await app.open(`#/plots?pvs=${current}&last=10`);
  const cell = (column: string) => page.locator(`[data-trace] [data-column="${column}"]`);
  await expect(cell("high")).toHaveText("1 mA");
  await ioc.put("RING:CURRENT", "1.0000000000000002");
  await ioc.put("RING:CURRENT", "1.0000000000000004");
  await expect.poll(() => pixelsOf(page, FIRST)).toBeGreaterThan(80);
  await ioc.put("RING:CURRENT", 2);
  await expect(cell("high")).toHaveText("2 mA");
});

test.describe("in another time zone", () => {
  test.use({ timezoneId: "Europe/Berlin" });

  test("the ends of a past interval are the same times after a change to UTC", async ({
    app,
    page,
    prefix,
  }) => {
    const from = Date.UTC(2026, 0, 31, 7, 31, 16);
    const ends = `from=${String(from)}&to=${String(from + 60_000)}`;
    await app.open(`#/plots?pvs=${prefix}:RING:CURRENT&${ends}`);
    await expect(page.getByLabel(/^From, local time/)).toHaveValue("2026-01-31T08:31:16");
    await page.getByRole("button", { name: "UTC", exact: true }).click();
    await expect(page.getByLabel("From, UTC")).toHaveValue("2026-01-31T07:31:16");
    await expect(page.getByLabel("To, UTC")).toHaveValue("2026-01-31T07:32:16");
    const charts = page.getByRole("region", { name: "Charts" });
    await charts.getByRole("button", { name: "Show", exact: true }).click();
    await expect(page).toHaveURL(new RegExp(`from=${String(from)}&`));
  });
});

test.describe("with a past on disk", () => {
  test.use({
    relayFlags: async ({ prefix }, provide, testInfo) => {
      const folder = testInfo.outputPath(prefix);
      mkdirSync(folder);
      await provide(["--history=*=10m", `--history-dir=${folder}`]);
    },
  });

  test("the page of a PV whose IOC is gone shows the curve that the relay has kept", async ({
    app,
    ioc,
    page,
    prefix,
    relay,
  }) => {
    const picture = page.getByRole("region", { name: "Picture" });
    await app.open(`#/pv/${prefix}:RING:CURRENT`);
    await expect(picture.locator("canvas")).toBeVisible();
    const begin = Date.now();
    // The updates of the last second may be lost.
    await expect.poll(() => Date.now()).toBeGreaterThan(begin + 3000);
    await ioc.kill();
    await relay.restart();
    await page.reload();
    await expect(app.condition).toContainText("Not found");
    await expect(picture.locator("canvas")).toBeVisible();
    await app.open(`#/pv/${prefix}:NEVER`);
    await expect(app.condition).toContainText("Not found");
    await expect(picture).toBeHidden();
  });
});

test.describe("with a past on disk, while the relay is away", () => {
  test.use({
    relayFlags: async ({ prefix }, provide, testInfo) => {
      const folder = testInfo.outputPath(prefix);
      mkdirSync(folder);
      await provide(["--history=*=10m", `--history-dir=${folder}`]);
    },
  });

  test("a table of the past reads what it could not read when the relay is back", async ({
    app,
    page,
    prefix,
    relay,
  }) => {
    // It changes all the time: what holds between two updates is known.
    const name = `${prefix}:RING:CURRENT`;
    await app.open(`#/table?pvs=${name}`);
    await expect(app.row(name)).toContainText(" mA");
    const begin = Date.now();
    // The updates of the last second may be lost.
    await expect.poll(() => Date.now()).toBeGreaterThan(begin + 3000);
    await relay.kill();
    await expect(page.getByText("Relay lost since")).toBeVisible();
    const past = `from=${String(begin - 60_000)}&to=${String(begin + 1000)}`;
    await page.goto(`${app.url}#/table?${past}&pvs=${name}`);
    await expect(page.getByText("The past: values that held at")).toBeVisible();
    const value = app.row(name).locator('[data-column="value"]');
    await expect(value).toHaveText("–");
    await expect(app.row(name)).toHaveAttribute("data-state", "disconnected");
    await relay.restart();
    await expect(value).toHaveText(/^\d+\.\d\d mA$/, { timeout: 45_000 });
  });
});

test.describe("against another PV", () => {
  test.use({
    moreRecords: `
record(waveform, "$(P):XY:X") { field(FTVL, "DOUBLE") field(NELM, "8") field(EGU, "mm") field(INP, [1, 2, 3, 4]) }
record(waveform, "$(P):XY:Y") { field(FTVL, "DOUBLE") field(NELM, "8") field(EGU, "V") field(INP, [10, 20, 30, 45]) }
record(ao, "$(P):XY:A") { field(PINI, "YES") field(VAL, "1") field(EGU, "mA") field(HIGH, "5") field(HSV, "MINOR") }
record(ao, "$(P):XY:B") { field(PINI, "YES") field(VAL, "10") field(EGU, "kV") }
`,
  });

  test("XY: arrays and two numbers, by the link, exported, and without the IOC", async ({
    app,
    ioc,
    page,
    prefix,
  }) => {
    const [x, y, a, b] = ["X", "Y", "A", "B"].map((name) => `${prefix}:XY:${name}`) as [
      string,
      string,
      string,
      string,
    ];
    const trace = (name: string) => page.locator(`[data-trace="${name}"]`);
    const picture = page.getByRole("region", { name: "Charts" }).getByRole("img").first();
    const saidOf = (text: string) => expect(picture).toHaveAttribute("aria-label", text);
    await app.open(`#/plots?last=60&pvs=${[x, y].join(",")}`);
    await page.getByLabel("Horizontal axis").selectOption(x);
    await saidOf(`${y} against ${x}: 4 points, horizontally 1 to 4 mm, vertically 10 to 45 V`);
    await expect(page).toHaveTitle(`Plot of ${y} against ${x} – pvwire`);
    await ioc.put("XY:Y", "[10, 20, 30]");
    await saidOf(`${y} against ${x}: 3 points, horizontally 1 to 3 mm, vertically 10 to 30 V`);
    await expect(trace(y)).toContainText("3 elements");
    await page.reload();
    await expect(page.getByLabel("Horizontal axis")).toHaveValue(x);
    await expect(trace(y)).toContainText("the first 3 are drawn");
    await expectAccessible(page);
    await page.getByLabel("Horizontal axis").selectOption("Index of the element");
    await expect(picture).toHaveAttribute("aria-label", /: 4 points, horizontally 0 to 3/);

    // A part of it is chosen by dragging, and by keys; the link has it, and the point at the cursor is told.
    const view = page.getByRole("group", { name: /^Curves: keys/ });
    const near = page.locator('[data-part="near"]');
    const box = await view.boundingBox();
    if (box === null) throw new Error("the picture has no place");
    const place = (across: number, up: number): [number, number] => [
      box.x + across * box.width,
      box.y + (1 - up) * box.height,
    ];
    await page.mouse.move(...place(0.95, 0.95));
    await expect(near).toHaveText(`${x} 4 mm · element 3`);
    await page.mouse.move(...place(0.4, 0.2));
    await page.mouse.down();
    await page.mouse.move(...place(0.99, 0.8), { steps: 3 });
    await page.mouse.up();
    await expect(page).toHaveURL(/zoom=/);
    // Element 0 is outside now.
    await page.mouse.move(...place(0.05, 0.05));
    await expect(near).toHaveText(/ (?:mm|V) · element [123]$/);
    await expectAccessible(page);
    const link = page.url();
    await page.reload();
    await expect(page.getByRole("button", { name: "Show all" })).toBeVisible();
    expect(page.url()).toBe(link);
    await view.press("0");
    await expect(page.getByRole("button", { name: "Show all" })).toBeHidden();
    await expect(page).not.toHaveURL(/zoom=/);
    // Keys go from point to point of the picture that is drawn.
    await page.mouse.move(...place(0.04, 0.04));
    await expect(near).toContainText("element 0");
    for (const element of [1, 2]) {
      await view.press("Shift+ArrowRight");
      await expect(near).toContainText(`element ${String(element)}`);
    }
    await view.press("+");
    await expect(page).toHaveURL(/zoom=/);
    await page.getByRole("button", { name: "Show all" }).click();

    // Two numbers: all pairs since the page was opened, and the present one.
    await app.open(`#/plots?last=60&x=${a}&limits=1&pvs=${[a, b].join(",")}`);
    await saidOf(
      `${b} against ${a}: 1 point, horizontally 1 mA, vertically 10 kV; now 1 mA and 10 kV`,
    );
    await ioc.put("XY:A", 6);
    await expect(trace(a)).toContainText("MINOR HIGH");
    await ioc.put("XY:B", 25);
    await saidOf(
      `${b} against ${a}: 3 points, horizontally 1 to 6 mA, vertically 10 to 25 kV; now 6 mA and 25 kV`,
    );
    await expectAccessible(page);
    const [csv] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export CSV" }).click(),
    ]);
    const lines = readFileSync(await csv.path(), "utf8").split("\r\n");
    expect(lines[0]).toBe("horizontal,vertical,element,time (UTC),x,x units,y,y units");
    expect(lines[3]).toMatch(
      new RegExp(`^${a},${b},,\\d{4}-\\d\\d-\\d\\dT[\\d:]+\\.\\d{6}Z,6,mA,25,kV$`),
    );

    // Of the IOC that is gone nothing is present, and what was drawn over time stays.
    await ioc.kill();
    await expect(trace(a)).toHaveAttribute("data-state", "disconnected");
    await expect(picture).toHaveAttribute("aria-label", /: 3 points, [^;]*$/);
    await app.open(`#/plots?x=${x}&pvs=${[x, y].join(",")}`);
    await page.reload();
    await saidOf(`Nothing to draw against ${x}`);
    await ioc.restart();
    await expect(picture).toHaveAttribute("aria-label", /: 4 points, /, { timeout: 45_000 });
  });
});

/** Twelve columns, eight rows; an element is the number of its pixel. */
const CAMERA = `record(waveform, "$(P):CAMERA") {
  field(FTVL, "SHORT") field(NELM, "96") field(INP, [${[...Array(96).keys()].join(", ")}])
}
`;

/** Where the middle of a pixel of the image is in its overlay. */
async function middleOf(
  app: AppPage,
  [column, row]: readonly [number, number],
  [columns, rows]: readonly [number, number],
): Promise<{ x: number; y: number }> {
  const box = await app.pixels.boundingBox();
  if (box === null) throw new Error("no image");
  return { x: ((column + 0.5) / columns) * box.width, y: ((row + 0.5) / rows) * box.height };
}

async function drag(page: Page, app: AppPage, from: [number, number], to: [number, number]) {
  const box = await app.pixels.boundingBox();
  const [start, end] = [await middleOf(app, from, [12, 8]), await middleOf(app, to, [12, 8])];
  const at = ({ x, y }: { x: number; y: number }) =>
    [(box?.x ?? 0) + x, (box?.y ?? 0) + y] as const;
  await page.mouse.move(...at(start));
  await page.mouse.down();
  await page.mouse.move(...at(end), { steps: 4 });
  await page.mouse.up();
}

test.describe("images", () => {
  test.use({ moreRecords: CAMERA });

  test("array as an image: cursor, row and column, region, colours; the link has all of it", async ({
    app,
    ioc,
    page,
    prefix,
  }) => {
    await app.open(`#/pv/${prefix}:CAMERA`);
    await page.getByRole("button", { name: "As an image" }).click();
    const columns = page.getByRole("spinbutton", { name: "Columns" });
    await columns.fill("12");
    await columns.press("Enter");
    await expect(page.getByRole("img", { name: /image of 12 × 8 pixels/ })).toBeVisible();
    const part = (name: string) => page.locator(`[data-part="${name}"]`);
    const [pixel, region] = [part("pixel"), part("region")];
    // The page may still be laid out: then the click is elsewhere in the image.
    await expect(async () => {
      await app.pixels.click({ position: await middleOf(app, [3, 2], [12, 8]) });
      await expect(pixel).toHaveText("Column 3, row 2: 27", { timeout: 1000 });
    }).toPass();
    const row = page.getByRole("img", { name: "Row 2, pixels 0 to 11: 24 to 35" });
    await expect(row).toBeVisible();
    await expect(page.getByRole("img", { name: "Column 3, pixels 0 to 7: 3 to 87" })).toBeVisible();
    await app.pixels.press("ArrowRight");
    await expect(pixel).toHaveText("Column 4, row 2: 28");
    await app.pixels.press("Shift+ArrowDown");
    await expect(pixel).toHaveText("Column 4, row 7: 88");

    await drag(page, app, [2, 1], [7, 5]);
    const numbers = "Region of 6 × 5 pixels from column 2, row 1: 14 to 67, mean 40.5";
    await expect(region).toHaveText(numbers);
    await expect(page.getByRole("img", { name: /image of 6 × 5 pixels/ })).toBeVisible();
    await app.pixels.click({ position: await middleOf(app, [0, 4], [6, 5]) });
    await expect(pixel).toHaveText("Column 2, row 5: 62");
    await expect(page.getByRole("img", { name: "Row 5, pixels 2 to 7: 62 to 67" })).toBeVisible();

    await page.getByRole("combobox", { name: "Colours" }).selectOption("Viridis");
    await page.getByRole("combobox", { name: "Scale" }).selectOption("fixed");
    const from = page.getByRole("spinbutton", { name: "from" });
    // What is typed stays, and a number is taken over once it is whole.
    await from.press("ControlOrMeta+a");
    await from.pressSequentially("-5");
    await from.press("Enter");
    await expect(page.getByRole("img", { name: /^Colours from -5 to / })).toBeVisible();
    await from.fill("0");
    const to = page.getByRole("spinbutton", { name: "to" });
    await to.fill("200");
    await to.press("Enter");
    const bar = page.getByRole("img", { name: "Colours from 0 to 200" });
    await expect(bar).toBeVisible();
    await expectAccessible(page);
    await page.reload();
    await expect(region).toHaveText(numbers);
    await expect(pixel).toHaveText("Column 2, row 5: 62");
    await expect(bar).toBeVisible();
    await page.getByRole("button", { name: "Whole image" }).click();
    // The same by keys alone: from one corner to the other.
    await app.pixels.focus();
    for (const key of [
      "r",
      "ArrowRight",
      "Escape",
      "r",
      "ArrowLeft",
      "ArrowLeft",
      "Shift+ArrowUp",
    ]) {
      await page.keyboard.press(key);
    }
    await expect(pixel).toHaveText("Column 1, row 0: 1");
    await page.keyboard.press("r");
    await expect(page.getByRole("img", { name: /image of 3 × 6 pixels/ })).toBeVisible();
    await page.getByRole("button", { name: "Whole image" }).click();
    await app.pixels.focus();
    for (const key of ["ArrowRight", ...Array<string>(5).fill("ArrowDown")]) {
      await page.keyboard.press(key);
    }
    await expect(pixel).toHaveText("Column 2, row 5: 62");
    await expect(region).toBeHidden();
    await page
      .getByRole("combobox", { name: "Scale" })
      .selectOption("without the outer hundredths");
    await expect(page.getByRole("img", { name: /^Colours from 0 to 95$/ })).toBeVisible();

    // What was shown remains when the IOC is gone.
    await ioc.kill();
    await expect(app.condition).toContainText("Disconnected · old since");
    await expect(pixel).toHaveText("Column 2, row 5: 62");
  });

  test("coloured image of pvAccess: its pixels' colours, and a region of it", async ({
    app,
    network,
    page,
    prefix,
  }) => {
    const server = Child.start({
      what: "the pvAccess server",
      command: PYTHON,
      args: ["-u", path.join(ROOT, "e2e/fixtures/structures.py"), prefix],
      env: network.env,
    });
    await server.waitForOutput(/serving/);
    await app.open(`#/pv/pva://${prefix}:COLOURED?at=2,1`);
    const pixel = page.locator('[data-part="pixel"]');
    await expect(page.getByRole("img", { name: /image of 6 × 4 pixels/ })).toBeVisible({
      timeout: 30_000,
    });
    await expect(pixel).toHaveText("Column 2, row 1: red 8, green 108, blue 208");
    await expect(page.getByRole("combobox", { name: "Scale" })).toBeHidden();
    await app.open(`#/pv/pva://${prefix}:COLOURED?at=5,3&region=4,2,9,9`);
    await expect(page.getByRole("img", { name: /image of 2 × 2 pixels/ })).toBeVisible();
    await expect(page.locator('[data-part="region"]')).toHaveText(
      "Region of 2 × 2 pixels from column 4, row 2: 16 to 223, mean 119.5",
    );
    await expect(pixel).toHaveText("Column 5, row 3: red 23, green 123, blue 223");
    await server.kill();
    await expect(app.condition).toContainText("Disconnected · old since", { timeout: 30_000 });
  });
});

/** An Archiver Appliance, which has a sample a day since 2020: the number of the day since 1970, modulo 1000. */
class Archiver {
  #child: Child;

  private constructor(readonly port: number) {
    this.#child = this.#spawn();
  }

  static async start(): Promise<Archiver> {
    const archiver = new Archiver(await freePort());
    await archiver.#child.waitForOutput(/running/);
    return archiver;
  }

  async kill(): Promise<void> {
    await this.#child.kill();
  }

  async restart(): Promise<void> {
    this.#child = this.#spawn();
    await this.#child.waitForOutput(/running/);
  }

  #spawn(): Child {
    return Child.start({
      what: "archiver",
      command: PYTHON,
      args: [path.join(ROOT, "testbed/python/archiver.py"), String(this.port), "86400"],
      env: {},
    });
  }
}

const archived = test.extend<{ archiver: Archiver }>({
  // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
  archiver: async ({}, provide) => {
    const archiver = await Archiver.start();
    await provide(archiver);
    await archiver.kill();
  },

  relay: async ({ archiver, network, prefix }, provide) => {
    const relay = await Relay.start(network, [
      `--archiver=${prefix}:*=http://127.0.0.1:${String(archiver.port)}/retrieval`,
      `--history=${prefix}:*=10m`,
    ]);
    await provide(relay);
    await relay.kill();
  },
});

archived(
  "plots and the page of a PV show years from an archiver, joined with live values",
  async ({ app, archiver, ioc, page, prefix }) => {
    const current = `${prefix}:RING:CURRENT`;
    const cell = (column: string) =>
      page.locator(`[data-trace="${current}"] [data-column="${column}"]`);
    const DAY_S = 86_400;
    await ioc.hold("RING:CURRENT");
    await ioc.put("RING:CURRENT", 2000);
    // The last year is live; samples are below 1000.
    await app.open(`#/plots?pvs=${current}&last=${String(365 * DAY_S)}&utc=1`);
    await expect(cell("low")).toHaveText(/^\d{1,3} mA$/);
    await expect(cell("high")).toHaveText("2000 mA");
    await expect.poll(() => pixelsOf(page, FIRST)).toBeGreaterThan(500);
    await ioc.put("RING:CURRENT", 2001);
    await expect(cell("at")).toHaveText("2001.00 mA");
    const [csv] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export CSV" }).click(),
    ]);
    const text = readFileSync(await csv.path(), "utf8");
    const lastYear = String(new Date().getUTCFullYear() - 1);
    expect(text).toMatch(new RegExp(`,${lastYear}-\\d\\d-\\d\\dT[\\d:.]+Z,\\d{1,3},mA,`));
    for (const live of ["2000", "2001"]) expect(text).toContain(`,${live},mA,`);

    const toMs = Date.now() - 1000 * DAY_S;
    const years = `from=${String(toMs - 1000 * 3 * 366 * DAY_S)}&to=${String(toMs)}`;
    for (const hash of [`#/plots?pvs=${current}&${years}`, `#/pv/${current}?${years}`]) {
      const expectYears = async (): Promise<void> => {
        await expect(cell("low")).toHaveText("0 mA");
        await expect(cell("high")).toHaveText("999 mA");
        await expect(cell("state")).not.toContainText("no past");
        await expect.poll(() => pixelsOf(page, FIRST)).toBeGreaterThan(500);
      };
      await app.open(hash);
      await expectYears();
      await archiver.kill();
      await page.reload();
      await expect(cell("state")).toContainText(/no past: .*archiver/);
      await expect(cell("low")).toHaveText("–");
      await archiver.restart();
      await page.reload();
      await expectYears();
    }
    await expect(app.value).toHaveText("2001.00 mA");
  },
);
