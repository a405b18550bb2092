/** The facility's displays in the app: one story with a real IOC and a real relay. */

import { writeFileSync } from "node:fs";
import path from "node:path";

import type { Locator, Page } from "@playwright/test";

import { expectAccessible } from "../fixtures/screen";
import { expect, test } from "../fixtures/app_page";

interface WidgetText {
  readonly type: string;
  readonly name: string;
  readonly y: number;
  readonly more: string;
}

const widget = ({ more, name, type, y }: WidgetText): string =>
  `<widget type="${type}" version="2.0.0"><name>${name}</name><x>10</x><y>${String(y)}</y>` +
  `<width>180</width><height>24</height>${more}</widget>`;

const button = (name: string, y: number, actions: string): string =>
  widget({
    type: "action_button",
    name,
    y,
    more: `<text>${name}</text><pv_name></pv_name><actions>${actions}</actions>`,
  });

const opens = (file: string, more = ""): string =>
  `<action type="open_display"><file>${file}</file><target>replace</target>${more}</action>`;

const writes = (pv: string, value: string): string =>
  `<action type="write_pv"><pv_name>${pv}</pv_name><value>${value}</value></action>`;

const pv = (type: string, name: string, y: number, record: string, more = ""): string =>
  widget({ type, name, y, more: `<pv_name>$(P):${record}</pv_name>${more}` });

const display = (name: string, ...widgets: string[]): string =>
  `<display version="2.0.0"><name>${name}</name><width>420</width><height>320</height>${widgets.join("")}</display>`;

const title = (text: string): string =>
  widget({ type: "label", name: "title", y: 290, more: `<text>${text}</text>` });

/** Hides a widget while the beam current is in major alarm. */
const HIDDEN_IN_ALARM = `<rules><rule name="alarm" prop_id="visible" out_exp="false">
  <exp bool_exp="pvSev0 == 2"><value>false</value></exp><pv_name>$(P):RING:CURRENT</pv_name></rule></rules>`;

const MAIN = display(
  "Ring $(P)",
  pv("textupdate", "current", 10, "RING:CURRENT"),
  pv("textupdate", "tune", 40, "RING:TUNE"),
  pv("textupdate", "message", 70, "OP:MESSAGE"),
  pv("textentry", "voltage", 100, "RF:VOLTAGE:SET"),
  pv("combo", "mode", 130, "OP:MODE:SET"),
  widget({ type: "label", name: "healthy", y: 160, more: `<text>Beam</text>${HIDDEN_IN_ALARM}` }),
  button("Sector 3", 190, opens("vacuum/sector.bob", "<macros><S>03</S></macros>")),
  button("Too much", 220, writes("$(P):RF:VOLTAGE:SET", "99")),
  button("Forbidden", 250, writes("$(P):RING:CURRENT", "1")),
  widget({
    type: "textupdate",
    name: "time",
    y: 10,
    more: "<pv_name>sys://time</pv_name>",
  }).replace("<x>10<", "<x>220<"),
  title("First text"),
);

const FILES: Readonly<Record<string, string>> = {
  "main.bob": MAIN,
  "vacuum/sector.bob": display(
    "Sector $(S)",
    button("Details", 10, opens("detail.bob", "<macros><N>$(S)07</N></macros>")),
    title("Sector $(S) of $(P)"),
  ),
  "vacuum/detail.bob": display(
    "Detail",
    pv("textupdate", "counter", 10, "N$(N=0001)"),
    `<widget type="embedded"><name>part</name><y>40</y><width>300</width><height>100</height>
      <file>../common/part.bob</file><macros><R>RING:CURRENT</R></macros></widget>`,
    button("Summary", 150, opens("../summary.bob")),
  ),
  "common/part.bob": display("Part", pv("textupdate", "inner", 0, "$(R)")),
  "summary.bob": display(
    "Summary",
    widget({ type: "label", name: "trail", y: 10, more: "<text>$(P) $(S) $(N)</text>" }),
    widget({
      type: "label",
      name: "ink",
      y: 40,
      more: '<text>Site</text><foreground_color><color name="Site Blue"/></foreground_color>',
    }),
  ),
  "color.def": "Site Blue = 1, 2, 250\n",
};

const box = (page: Page, name: string): Locator => page.locator(`[data-name="${name}"]`);
const valueOf = (page: Page, name: string): Locator =>
  box(page, name).locator('[data-part="value"]');

/** A widget of BOY, the display builder before Phoebus. */
const boyWidget = (type: string, name: string, y: number, more: string): string =>
  `<widget typeId="org.csstudio.opibuilder.widgets.${type}" version="1.0.0"><name>${name}</name><x>10</x>
  <y>${String(y)}</y><width>180</width><height>24</height><border_style>0</border_style><border_width>1</border_width>
  ${more}<wuid>1</wuid></widget>`;

const boyDisplay = (name: string, ...widgets: string[]): string =>
  `<?xml version="1.0" encoding="UTF-8"?><display typeId="org.csstudio.opibuilder.Display" version="1.0.0">
  <name>${name}</name><width>420</width><height>320</height><wuid>1</wuid>${widgets.join("\n")}</display>`;

const boyColour = (name: string, red: number, green: number, blue: number): string =>
  `<${name}><color red="${String(red)}" green="${String(green)}" blue="${String(blue)}"/></${name}>`;

/** A rectangle that is red in major alarm: BOY numbers that severity 1. */
const BOY_RULE = `<rules><rule name="alarm" prop_id="background_color" out_exp="false"><exp bool_exp="pvSev0 == 1">
  <value><color red="255" green="0" blue="0"/></value></exp><pv trig="true">$(P):RING:CURRENT</pv></rule></rules>`;

const BOY_FILES: Readonly<Record<string, string>> = {
  "boy/main.opi": boyDisplay(
    "Old ring $(P)",
    boyWidget("Label", "heading", 10, "<text>Ring $(P)</text>"),
    boyWidget(
      "TextUpdate",
      "current",
      40,
      `<pv_name>$(P):RING:CURRENT</pv_name><text>###</text><format_type>0</format_type><precision>1</precision>
      <precision_from_pv>true</precision_from_pv><show_units>true</show_units>`,
    ),
    boyWidget(
      "TextInput",
      "voltage",
      70,
      `<pv_name>$(P):RF:VOLTAGE:SET</pv_name><text></text><precision>1</precision>
      <precision_from_pv>false</precision_from_pv><show_units>true</show_units>`,
    ),
    boyWidget(
      "Rectangle",
      "lamp",
      100,
      `${boyColour("background_color", 0, 128, 0)}<line_width>0</line_width><pv_name></pv_name>${BOY_RULE}`,
    ),
    boyWidget(
      "ActionButton",
      "details",
      130,
      `<text>Details</text><pv_name></pv_name><actions hook="true" hook_all="false"><action type="OPEN_DISPLAY">
      <path>detail.opi</path><macros><include_parent_macros>true</include_parent_macros><R>RING:TUNE</R></macros>
      <mode>0</mode></action></actions>`,
    ),
    boyWidget(
      "linkingContainer",
      "part",
      160,
      "<opi_file>part.opi</opi_file><resize_behaviour>3</resize_behaviour><macros><R>OP:MESSAGE</R></macros>",
    ),
    boyWidget("edm.symbolwidget", "unknown", 200, ""),
  ),
  "boy/detail.opi": boyDisplay(
    "Old detail",
    boyWidget("TextUpdate", "tune", 10, "<pv_name>$(P):$(R)</pv_name>"),
  ),
  "boy/part.opi": boyDisplay(
    "Old part",
    boyWidget("TextUpdate", "inner", 0, "<pv_name>$(P):$(R)</pv_name>"),
  ),
  // It is shown in place of the older one beside it.
  "boy/new.opi": boyDisplay("Old", boyWidget("Label", "heading", 10, "<text>Old</text>")),
  "boy/new.bob": display("New", title("New")),
};

test.use({ displays: { ...FILES, ...BOY_FILES } });

/** Every widget with a PV, and its text from what the IOC has. */
const TRUTH: readonly (readonly [name: string, record: string, text: (value: string) => string])[] =
  [
    ["current", "RING:CURRENT", (value) => `${Number(value).toFixed(2)} mA`],
    ["tune", "RING:TUNE", (value) => Number(value).toFixed(4)],
    ["message", "OP:MESSAGE", (value) => value],
  ];

test("displays: opened with macros, written, refused, in alarm, changed, and lost", async ({
  app,
  ioc,
  page,
  prefix,
  relay,
  screens,
}) => {
  const writeMain = (text: string): void => {
    writeFileSync(path.join(screens, "main.bob"), text);
  };
  const expectTruth = async (): Promise<void> => {
    for (const [name, record, text] of TRUTH) {
      await expect(box(page, name)).toHaveAttribute("data-state", "connected", { timeout: 45_000 });
      await expect(box(page, name)).not.toHaveAttribute("data-stale");
      await expect(valueOf(page, name)).toHaveText(text(await ioc.get(record)));
    }
    const voltage = `${Number(await ioc.get("RF:VOLTAGE:SET")).toFixed(2)} MV`;
    await expect(box(page, "voltage").locator("input")).toHaveValue(voltage);
    await expect(valueOf(page, "time")).toHaveText(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
  };
  const hold = async (): Promise<void> => {
    await ioc.hold("RING:CURRENT");
    await ioc.put("RING:TUNE.SCAN", "Passive");
    await ioc.put("RING:CURRENT", 250);
  };
  await hold();

  // The list, and a display by its link.
  await app.open("#/displays");
  await expect(page.getByText("9 of 9 displays")).toBeVisible();
  await page.getByRole("searchbox").fill("vac det");
  await expect(page.locator(".display-list a")).toHaveText(["vacuum/detail.bob"]);
  await expectAccessible(page);
  await page.goto(`${app.url}#/display/main.bob?macro=P=${prefix}`);
  await expect(page.locator(".pvwire-display-title")).toHaveText(`Ring ${prefix}`);
  await expectTruth();
  await expectAccessible(page);

  // Five displays, each with the macros of those before it, and the browser's way back.
  await page.getByRole("button", { name: "Sector 3" }).click();
  await expect(box(page, "title")).toHaveText(`Sector 03 of ${prefix}`);
  await page.getByRole("button", { name: "Details" }).click();
  await expect(box(page, "counter")).toHaveAttribute("data-pv", `${prefix}:N0307`);
  await expect(valueOf(page, "inner")).toHaveText("250.00 mA");
  await page.getByRole("button", { name: "Summary" }).click();
  await expect(box(page, "trail")).toHaveText(`${prefix} 03 0307`);
  await expect(box(page, "ink")).toHaveCSS("color", "rgb(1, 2, 250)");
  await page.goBack();
  await expect(valueOf(page, "inner")).toHaveText("250.00 mA");
  await page.getByRole("button", { name: "Back" }).click();
  await expect(box(page, "title")).toHaveText(`Sector 03 of ${prefix}`);
  await page.getByRole("button", { name: "Forward" }).click();
  await page.reload();
  await expect(box(page, "counter")).toHaveAttribute("data-pv", `${prefix}:N0307`);
  await page.goto(`${app.url}#/display/main.bob?macro=P=${prefix}`);

  // Written, and refused for each reason.
  const voltage = box(page, "voltage").locator("input");
  await voltage.fill("1.7");
  await voltage.press("Enter");
  await expect(page.locator('[data-outcome="written"]')).toContainText("Written");
  await expect.poll(() => ioc.get("RF:VOLTAGE:SET")).toBe("1.7");
  await page.getByRole("button", { name: "Too much" }).click();
  await expect(page.locator('[data-outcome="refused"]')).toContainText("Refused");
  const forbidden = page.getByRole("button", { name: "Forbidden" });
  await expect(forbidden).toHaveAttribute("aria-disabled", "true");
  await forbidden.click({ force: true });
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.7");
  expect(await ioc.get("RING:CURRENT")).toBe("250");
  await page.getByRole("button", { name: "Read-only" }).click();
  await expect(box(page, "voltage")).toHaveAttribute("title", /read-only/);
  await expect(voltage).not.toBeEditable();
  await page.getByRole("button", { name: "Read-only" }).click();
  await expect(voltage).toBeEditable();
  await expectTruth();

  // An alarm, and the rule that hides a widget in it.
  await ioc.put("RING:CURRENT", 350);
  await expect(box(page, "current")).toHaveAttribute("data-severity", "MAJOR");
  await expect(box(page, "healthy")).toHaveCount(0);
  await ioc.put("RING:CURRENT", 250);
  await expect(box(page, "healthy")).toBeVisible();

  // The file changes, is written in part, and is whole again.
  writeMain(MAIN.replace("First text", "Second text"));
  await expect(box(page, "title")).toHaveText("Second text");
  await expectTruth();
  writeMain(MAIN.slice(0, 500));
  await expect(page.locator(".pvwire-display-problem")).toBeVisible();
  await expect(box(page, "title")).toHaveText("Second text");
  writeMain(MAIN.replace("First text", "Third text"));
  await expect(box(page, "title")).toHaveText("Third text");
  await expect(page.locator(".pvwire-display-problem")).toHaveCount(0);
  await expectTruth();

  // The IOC is silent: nothing looks present, and the rule doesn't know the alarm.
  await ioc.put("RING:CURRENT", 350);
  await expect(box(page, "healthy")).toHaveCount(0);
  ioc.hang();
  for (const [name] of TRUTH) {
    await expect(box(page, name)).toHaveAttribute("data-stale", "true");
    await expect(box(page, name)).not.toHaveAttribute("data-severity");
  }
  await expect(box(page, "healthy")).toBeVisible();
  ioc.resume();
  await expect(box(page, "healthy")).toHaveCount(0, { timeout: 45_000 });
  await expectTruth();

  // The IOC ends, and is there again with other values.
  await ioc.kill();
  for (const [name] of TRUTH) {
    await expect(box(page, name)).toHaveAttribute("data-state", "disconnected");
    await expect(box(page, name)).not.toHaveAttribute("data-present");
  }
  await expect(box(page, "voltage")).toHaveAttribute("data-read-only", "true");
  await ioc.restart();
  await hold();
  await expectTruth();

  // The relay ends.
  await relay.kill();
  for (const [name] of TRUTH) {
    await expect(box(page, name)).toHaveAttribute("data-state", "relayLost");
  }
  await ioc.put("OP:MESSAGE", "Written meanwhile");
  writeMain(MAIN.replace("First text", "Changed meanwhile"));
  await relay.restart();
  await expectTruth();
  await expect(box(page, "title")).toHaveText("Changed meanwhile");
  expect(relay.output).not.toContain("panicked");
});

// Nothing is asked for that the folder doesn't have: a 404 would be a fault of the page.
test("displays of BOY: live, written, coloured by a rule, and opened with macros", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:TUNE.SCAN", "Passive");
  await ioc.put("RING:CURRENT", 250);

  // The list has one of two displays of the same name.
  await app.open("#/displays");
  await page.getByRole("searchbox").fill("boy");
  await expect(page.locator(".display-list a")).toHaveText([
    "boy/detail.opi",
    "boy/main.opi",
    "boy/new.bob",
    "boy/part.opi",
  ]);
  await page.goto(`${app.url}#/display/boy/main.opi?macro=P=${prefix}`);
  await expect(page.locator(".pvwire-display-title")).toHaveText(`Old ring ${prefix}`);
  await expect(box(page, "heading")).toHaveText(`Ring ${prefix}`);
  await expect(valueOf(page, "current")).toHaveText("250.00 mA");
  await expect(valueOf(page, "inner")).toHaveText(await ioc.get("OP:MESSAGE"));
  await expectAccessible(page);

  // A set point, with the file's digits.
  const voltage = box(page, "voltage").locator("input");
  await voltage.fill("1.7");
  await voltage.press("Enter");
  await expect.poll(() => ioc.get("RF:VOLTAGE:SET")).toBe("1.7");
  await expect(voltage).toHaveValue("1.7 MV");

  // The rule knows the alarm.
  const ground = (): Promise<string> =>
    box(page, "lamp").evaluate((element) => {
      const all = [element, ...element.querySelectorAll("*")].map((each) => getComputedStyle(each));
      return all.map(({ backgroundColor }) => backgroundColor).join();
    });
  await expect.poll(ground).toContain("rgb(0, 128, 0)");
  await ioc.put("RING:CURRENT", 350);
  await expect.poll(ground).toContain("rgb(255, 0, 0)");
  await ioc.put("RING:CURRENT", 250);
  await expect.poll(ground).toContain("rgb(0, 128, 0)");

  // What isn't shown is listed.
  await page.getByRole("button", { name: /not shown/ }).click();
  await expect(page.getByText("widgets of type edm.symbolwidget")).toBeVisible();
  await page.getByRole("button", { name: /not shown/ }).click();

  // Another display, with macros, and the way back.
  await page.getByRole("button", { name: "Details" }).click();
  await expect(box(page, "tune")).toHaveAttribute("data-pv", `${prefix}:RING:TUNE`);
  await expect(valueOf(page, "tune")).toHaveText(Number(await ioc.get("RING:TUNE")).toFixed(4));
  await page.goBack();
  await expect(valueOf(page, "current")).toHaveText("250.00 mA");
  await page.goto(`${app.url}#/display/boy/new.opi?macro=P=${prefix}`);
  await expect(box(page, "title")).toHaveText("New");
});

test("the alarms of a display's PVs, those of an embedded display too, are one click away, and so is the way back", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 350);
  await app.open(`#/display/vacuum/detail.bob?macro=P=${prefix}&macro=N=0307`);
  await expect(box(page, "inner")).toHaveAttribute("data-severity", "MAJOR");
  await page.getByRole("button", { name: "Alarms (1)" }).click();
  const alarm = page.locator(`[data-alarm="${prefix}:RING:CURRENT"]`);
  await expect(alarm).toContainText("MAJOR HIHI");
  await expect(page.getByRole("button", { name: "1 no alarm" })).toBeHidden();
  await expect(page.locator("[data-alarm]")).toHaveCount(1);
  await expectAccessible(page);
  await page.getByRole("link", { name: "Back to vacuum/detail.bob" }).click();
  await expect(box(page, "counter")).toHaveAttribute("data-pv", `${prefix}:N0307`);
  await ioc.put("RING:CURRENT", 250);
  await expect(page.getByRole("button", { name: "Alarms", exact: true })).toBeVisible();
});
