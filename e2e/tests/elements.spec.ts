/** Custom elements on a plain page, through every fault of a PV, its IOC and the relay. */

import { expectAccessible } from "../fixtures/screen";
import { test, type ElementsPage } from "../fixtures/elements_page";
import { expect } from "../fixtures/test";

const STALL_MS = 15_000;
const VOLTAGE = "Voltage";
const MESSAGE = "Message of the operator";
const FORMULA = "Voltage in kV";
const INPUT = "Set the voltage";
const PLOT = "The last minute";
const ALL = [VOLTAGE, MESSAGE, FORMULA, PLOT];
const CLOCK = String.raw`\d\d:\d\d:\d\d`;

/** Every field that a user sees while all is well. */
async function expectWell(elements: ElementsPage, volts: string): Promise<void> {
  await expect(elements.value(VOLTAGE)).toHaveText(`${volts} MV`);
  await expect(elements.value(PLOT)).toHaveText(`${volts} MV`);
  await expect(elements.value(FORMULA)).toHaveText(String(1000 * Number(volts)));
  await expect(elements.input(INPUT).field).toHaveValue(volts);
  await expect(elements.input(INPUT).hint).toHaveText("0 to 3 MV");
  for (const label of ALL) {
    await expect(elements.widget(label), label).toHaveAttribute("data-state", "connected");
    await expect(elements.widget(label), label).toHaveAttribute("data-present", "true");
    await expect(elements.widget(label), label).not.toHaveAttribute("data-stale");
  }
  await expect(elements.widget(VOLTAGE)).toHaveAttribute("data-severity", "NO_ALARM");
  await expect(elements.widget(INPUT)).toHaveAttribute("data-writable", "true");
}

/** Every field of PVs whose value may be old: kept, marked and without an alarm. */
async function expectOld(
  elements: ElementsPage,
  state: string,
  words: RegExp,
  hint: RegExp,
): Promise<void> {
  for (const label of [VOLTAGE, MESSAGE, PLOT]) {
    await expect(elements.condition(label), label).toHaveText(words);
    await expect(elements.widget(label), label).toHaveAttribute("data-state", state);
    await expect(elements.widget(label), label).not.toHaveAttribute("data-severity");
    await expect(elements.widget(label), label).not.toHaveAttribute("data-present");
  }
  await expect(elements.value(VOLTAGE)).toHaveText("1.40 MV");
  await expect(elements.value(MESSAGE)).toHaveText("before");
  await expect(elements.widget(INPUT)).toHaveAttribute("data-state", state);
  await expect(elements.input(INPUT).hint).toHaveText(hint);
}

test("elements: live values, alarm, and words for screen readers", async ({
  elements,
  ioc,
  page,
}, testInfo) => {
  await ioc.put("OP:MESSAGE", "before");
  await expectWell(elements, "1.40");
  await expect(elements.value(MESSAGE)).toHaveText("before");
  await expect(page.getByRole("group", { name: VOLTAGE, exact: true })).toBeVisible();
  await expect(page.getByRole("textbox", { name: INPUT })).toBeVisible();
  await expect(elements.element(PLOT).locator("canvas")).toBeVisible();
  await expect(elements.element(VOLTAGE).locator("time")).toHaveText(/^\d\d:\d\d:\d\d\.\d{3}$/);
  await expect(elements.element(VOLTAGE).locator("[data-access]")).toHaveText("rw");
  for (const [volts, severity, words] of [
    [2.2, "MINOR", "MINOR HIGH"],
    [2.7, "MAJOR", "MAJOR HIHI"],
  ] as const) {
    await ioc.put("RF:VOLTAGE:SET", volts);
    await expect(elements.value(VOLTAGE)).toHaveText(`${volts.toFixed(2)} MV`);
    for (const label of [VOLTAGE, PLOT]) {
      await expect(elements.condition(label)).toHaveText(words);
      await expect(elements.widget(label)).toHaveAttribute("data-severity", severity);
    }
    await expect(elements.widget(INPUT)).toHaveAttribute("data-severity", severity);
  }
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await expectAccessible(page);
    await page.screenshot({ path: testInfo.outputPath(`alarm-${colorScheme}.png`) });
  }
  const contrast = (): Promise<boolean> =>
    page.evaluate(() =>
      performance
        .getEntriesByType("resource")
        .some(({ name }) => name.endsWith("-forced_colours.js")),
    );
  expect(await contrast(), "nothing that this page doesn't need").toBe(false);
  await page.emulateMedia({ colorScheme: "light", forcedColors: "active" });
  await expect.poll(contrast).toBe(true);
  await expect(elements.element(VOLTAGE).locator(".pvwire-readback-value")).toHaveCSS(
    "outline-width",
    "4px",
  );
  await page.screenshot({ path: testInfo.outputPath("alarm-forced.png") });
});

test("elements: IOC killed and restarted, relay killed and restarted", async ({
  elements,
  ioc,
  page,
  relay,
}) => {
  await ioc.put("OP:MESSAGE", "before");
  await expectWell(elements, "1.40");
  await expect(elements.value(MESSAGE)).toHaveText("before");
  await ioc.kill();
  await expectOld(
    elements,
    "disconnected",
    new RegExp(`^Disconnected · old since ${CLOCK}$`),
    /^Disconnected: nothing can be sent$/,
  );
  await expect(elements.widget(FORMULA)).not.toHaveAttribute("data-present");
  await expectAccessible(page);
  await ioc.restart();
  await expectWell(elements, "1.40");

  await ioc.put("OP:MESSAGE", "before");
  await expect(elements.value(MESSAGE)).toHaveText("before");
  await relay.kill();
  await expectOld(
    elements,
    "relayLost",
    new RegExp(`^Relay lost · old since ${CLOCK}$`),
    /^Relay lost: nothing can be sent$/,
  );
  await ioc.put("RF:VOLTAGE:SET", 1.9);
  await relay.restart();
  await expectWell(elements, "1.90");
});

test("elements: an IOC that stalls for 15 s", async ({ elements, ioc, page }) => {
  await ioc.put("OP:MESSAGE", "before");
  await expectWell(elements, "1.40");
  await expect(elements.value(MESSAGE)).toHaveText("before");
  const begin = Date.now();
  ioc.hang();
  const words = new RegExp(`^No response since ${CLOCK}$`);
  await expect(elements.condition(VOLTAGE)).toHaveText(words);
  await expect(elements.condition(PLOT)).toHaveText(words);
  await expect(elements.input(INPUT).hint).toContainText(/^No response since/);
  await expect(elements.widget(VOLTAGE)).toHaveAttribute("data-stale", "true");
  await expect(elements.widget(VOLTAGE)).not.toHaveAttribute("data-severity");
  await expectOld(
    elements,
    "disconnected",
    new RegExp(`^Disconnected · old since ${CLOCK}$`),
    /^Disconnected: nothing can be sent$/,
  );
  await page.waitForFunction((end) => Date.now() >= end, begin + STALL_MS);
  ioc.resume();
  await expectWell(elements, "1.40");
});

test("elements: not found, refused, no access, and the outcome of puts", async ({
  elements,
  ioc,
  page,
}) => {
  const { prefix } = ioc;
  await expectWell(elements, "1.40");
  await elements.add("pv-value", { name: `${prefix}:NOT_THERE`, label: "Missing" });
  await elements.add("pv-value", { name: "sim://nothing", label: "Unknown" });
  await elements.add("pv-input", { name: `${prefix}:RF:PHASE:SET`, label: "Phase" });
  await elements.add("pv-input", { name: `${prefix}:NOT_THERE`, label: "Missing input" });
  await elements.add("pv-plot", { name: `${prefix}:NOT_THERE`, label: "Missing plot" });
  await expect(elements.condition("Missing")).toHaveText("Not found · still searching");
  await expect(elements.condition("Missing plot")).toHaveText("Not found · still searching");
  await expect(elements.value("Missing")).toHaveText("–");
  await expect(elements.input("Missing input").hint).toHaveText("Not found: nothing can be sent");
  await expect(elements.condition("Unknown")).toHaveText(/^Refused: .+/);
  await expect(elements.input("Phase").hint).toHaveText("Writing is not allowed by the relay");

  const voltage = elements.input(INPUT);
  await voltage.send("1.755");
  await expect(voltage.outcome).toHaveText(new RegExp(`^Written ${CLOCK}$`));
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.755");
  await voltage.send("7");
  await expect(voltage.outcome).toHaveText("Refused: 7 is not within 0 to 3 MV; nothing was sent");
  // The relay's own reason.
  await voltage.send("much");
  await expect(voltage.outcome).toHaveText(/^Refused: .*much/);
  await voltage.button("Undo").click();
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.755");
  // The IOC withdraws the access.
  await ioc.put("RF:VOLTAGE:SET.ASG", "DEFAULT");
  await expect(voltage.hint).toContainText("The IOC gives no write access");
  await expect(elements.element(VOLTAGE).locator("[data-access]")).toHaveText("ro");
  await ioc.put("RF:VOLTAGE:SET.ASG", "HIDDEN");
  await expect(elements.condition(VOLTAGE)).toHaveText("No read access");
  await expect(elements.value(VOLTAGE)).toHaveText("–");
  await expectAccessible(page);
});

test("elements: other names, removal, and one connection", async ({ elements, ioc, relay }) => {
  const status = async (): Promise<{ clients: unknown; pvs: string[] }> => {
    const answer = await fetch(`http://127.0.0.1:${String(relay.port)}/status?format=json`);
    return (await answer.json()) as { clients: unknown; pvs: string[] };
  };
  await expectWell(elements, "1.40");
  await elements.add("pv-value", { name: "sim://counter(rate_hz=5)", label: "Counter" });
  await expect(elements.value("Counter")).toHaveText(/^\d+$/);
  expect((await status()).clients).toBe(1);

  // What was typed for one PV is not sent to another.
  const voltage = elements.input(INPUT);
  await voltage.type("2.5");
  await expect(voltage.row).toHaveAttribute("data-phase", "unsent");
  await elements.set(INPUT, "name", `${ioc.prefix}:RF:PHASE:SET`);
  await expect(voltage.row).toHaveAttribute("data-phase", "live");
  await expect(voltage.field).not.toHaveValue("2.5");
  await voltage.field.press("Enter");
  await elements.set(INPUT, "name", `${ioc.prefix}:RF:VOLTAGE:SET`);
  await expect(voltage.field).toHaveValue("1.40");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.4");

  await elements.set("Counter", "name", `${ioc.prefix}:OP:MESSAGE`);
  await ioc.put("OP:MESSAGE", "another name");
  await expect(elements.value("Counter")).toHaveText("another name");
  await elements.set("Counter", "label", "Renamed");
  await expect(elements.widget("Renamed")).toHaveAttribute("aria-label", "Renamed");

  // The last element leaves, and the connection with it.
  await elements.page.evaluate(() => {
    document.querySelector("main")?.replaceChildren();
  });
  await expect.poll(async () => (await status()).clients).toBe(0);
});

test("elements: a name that a script sets before the module is loaded is shown", async ({
  elements,
  ioc,
  page,
}) => {
  await ioc.put("OP:MESSAGE", "set early");
  await page.evaluate((name) => {
    // An element of a document that has no such element yet is upgraded when it is inserted.
    const early = document.implementation.createHTMLDocument().createElement("pv-value");
    Object.assign(early, { name, label: "Early" });
    document.querySelector("main")?.append(early);
  }, `${ioc.prefix}:OP:MESSAGE`);
  await expect(elements.value("Early")).toHaveText("set early");
});

test("elements: the page's relay is found by a browser that doesn't know :has()", async ({
  elements,
  ioc,
  page,
}) => {
  await page.addInitScript(() => {
    type Query = (selector: string) => Element | null;
    const query: Query = Reflect.get(Document.prototype, "querySelector");
    Reflect.set(Document.prototype, "querySelector", function (this: Document, selector: string) {
      if (selector.includes(":has(")) throw new DOMException("not a valid selector", "SyntaxError");
      return Reflect.apply(query, this, [selector]);
    });
  });
  await page.reload();
  await ioc.put("OP:MESSAGE", "found");
  await expect(elements.value(MESSAGE)).toHaveText("found");
});
