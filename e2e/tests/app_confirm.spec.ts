/** The app asks before PVs are written that the operator names, and writes nothing from a page that is read-only. */

import { expect, test } from "../fixtures/app_page";
import { expectAccessible, expectNoFaults, screenOf } from "../fixtures/screen";
import { fits } from "../../app/src/confirm/settings";

const DISPLAY = `<display version="2.0.0"><name>Mode</name><width>300</width><height>100</height>
  <widget type="action_button" version="2.0.0"><name>dump</name><x>10</x><y>10</y><width>120</width><height>30</height>
    <text>Dump the beam</text><pv_name></pv_name>
    <actions><action type="write_pv"><pv_name>$(P):OP:MODE:SET</pv_name><value>Beam dump</value></action></actions>
  </widget></display>`;

test.use({
  relayFlags: ["--confirm-put=*:RF:*", "--confirm-put=ca://*:OP:MODE:SET"],
  displays: { "mode.bob": DISPLAY },
});

test("writes that the operator names are confirmed on every page, and not from one that is read-only", async ({
  app,
  ioc,
  page,
  prefix,
  relay,
}) => {
  const [voltage, mode, shots] = ["RF:VOLTAGE:SET", "OP:MODE:SET", "RING:SHOTS:SET"] as const;
  const full = (record: string): string => `${prefix}:${record}`;
  const dialog = page.getByRole("alertdialog");
  const cancel = dialog.getByRole("button", { name: "Cancel" });
  const confirm = dialog.getByRole("button", { name: "Write" });
  const written = (record: string) => dialog.locator(`[data-put="${full(record)}"]`);
  const outcome = page.locator('[data-part="outcome"]');
  const { input } = app;

  // The page of a PV, by keys alone: Enter ends the typing, and a second one cancels.
  await app.open(`#/pv/${full(voltage)}`);
  await expect(app.value).toHaveText("1.40 MV");
  await input.fill("1.7");
  await page.keyboard.press("Enter");
  await expect(written(voltage).locator('[data-part="now"]')).toHaveText("1.40 MV");
  await expect(written(voltage).locator('[data-part="new"]')).toHaveText("1.7 MV");
  await expect(cancel).toBeFocused();
  await expectAccessible(page);
  const setScreen = await screenOf(page);
  for (const width of [390, 1440]) {
    await setScreen({ width, height: 844, ratio: 1, colorScheme: "light" });
    await expectNoFaults(page, `the question at ${String(width)} px`);
  }
  await page.keyboard.press("Enter");
  await expect(outcome).toHaveText("Refused: not confirmed; nothing was written");
  await expect(input).toBeFocused();
  await input.press("Enter");
  await expect(dialog).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  expect(await ioc.get(voltage)).toBe("1.4");
  await input.press("Enter");
  await expect(cancel).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(confirm).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(outcome).toContainText("Written");
  await expect.poll(() => ioc.get(voltage)).toBe("1.7");

  // A cell of the table; PVs that aren't named are written at once.
  await app.open(`#/table?pvs=${[voltage, mode, shots].map(full).join(",")}`);
  await app.row(full(shots)).getByRole("button", { name: "Write" }).click({ force: true });
  await input.fill("20");
  await input.press("Enter");
  await expect(outcome).toContainText("Written");
  await expect.poll(() => ioc.get(shots)).toBe("20");
  await page.getByRole("button", { name: "Close" }).click();
  await app.row(full(mode)).getByRole("button", { name: "Write" }).click({ force: true });
  await page.getByRole("combobox", { name: "New value" }).selectOption("Injection");
  await page.keyboard.press("Enter");
  await expect(written(mode).locator('[data-part="now"]')).toHaveText("Top-up");
  await expect(written(mode).locator('[data-part="new"]')).toHaveText("Injection");
  await confirm.click();
  await expect(outcome).toContainText("Written");
  await page.getByRole("button", { name: "Close" }).click();

  // A restore asks once, for all of them.
  await app.open(`#/snapshots?pvs=${[voltage, mode, shots].map(full).join(",")}`);
  await page.getByRole("button", { name: "Take 3 PVs now" }).click();
  await expect(page.getByRole("button", { name: "3 same" })).toBeVisible();
  await ioc.put(voltage, 1);
  await ioc.put(mode, "Top-up");
  await ioc.put(shots, 5);
  const restore = page.getByRole("button", { name: "Restore 3 PVs…" });
  for (const isConfirmed of [false, true]) {
    await restore.click();
    await page
      .getByRole("dialog", { name: "Write 3 of 3 PVs?" })
      .getByText("Write", { exact: true })
      .click();
    await expect(dialog.getByRole("heading")).toHaveText("Write 2 PVs?");
    await expect(written(voltage)).toContainText("1.00 MV1.7 MV");
    await expect(written(mode)).toContainText("Top-upInjection");
    await (isConfirmed ? confirm : cancel).click();
    const result = isConfirmed ? /^3 of 3 PVs written/ : "not confirmed; nothing was written";
    await expect(page.getByText(result)).toBeVisible();
    expect(await ioc.get(shots)).toBe(isConfirmed ? "20" : "5");
  }
  await expect.poll(() => ioc.get(voltage)).toBe("1.7");

  // A button of a display; the browser's way back takes the question away.
  const address = `#/display/mode.bob?macro=P=${prefix}`;
  await page.getByRole("link", { name: "Displays" }).click();
  await app.open(address);
  const dump = page.getByRole("button", { name: "Dump the beam" });
  await dump.click();
  await expect(written(mode)).toContainText("InjectionBeam dump");
  await page.goBack();
  await expect(dialog).toBeHidden();
  await app.open(address);
  await dump.click();
  await confirm.click();
  await expect.poll(() => ioc.get(mode)).toBe("Beam dump");

  // Nothing is written from a page that is read-only.
  await page.getByRole("button", { name: "Read-only" }).click();
  await expect(dump).toHaveAttribute("aria-disabled", "true");
  await page.getByRole("link", { name: "Table" }).click();
  const write = app.row(full(shots)).getByRole("button", { name: "Write" });
  await expect(write).toBeDisabled();
  await expect(write).toHaveAttribute("title", "This page is read-only");
  await page.getByRole("button", { name: "Read-only" }).click();
  await expect(write).toBeEnabled();

  // The relay is gone: nothing to confirm, because nothing is written.
  await app.open(`#/pv/${full(voltage)}`);
  await expect(app.value).toHaveText("1.70 MV");
  await relay.kill();
  await expect(page.getByText("No relay")).toBeAttached();
  await expect(dialog).toBeHidden();
});

test("a choice that is renumbered during the question is restored as what was saved", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  const mode = `${prefix}:OP:MODE:SET`;
  // Labels that are numbers are written as indexes.
  await ioc.put("OP:MODE:SET.ZRST", "10");
  await ioc.put("OP:MODE:SET.ONST", "20");
  await app.open(`#/snapshots?pvs=${mode}`);
  await expect(page.getByText("Without a value now")).toBeHidden();
  await page.getByRole("button", { name: "Take 1 PV now" }).click();
  const now = app.row(mode).locator('[data-column="other"]');
  await expect(now).toHaveText("20");
  await ioc.put("OP:MODE:SET", "Injection");
  await expect(now).toHaveText("Injection");
  await page.getByRole("button", { name: "Restore 1 PV…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Write" }).click();
  const question = page.getByRole("alertdialog");
  await expect(question.locator('[data-part="new"]')).toHaveText("20");
  await ioc.put("OP:MODE:SET.ONST", "10");
  await ioc.put("OP:MODE:SET.ZRST", "20");
  await ioc.put("OP:MODE:SET.THST", "Renumbered");
  await expect(question.locator('[data-part="now"]')).toHaveText("Renumbered");
  await question.getByRole("button", { name: "Write" }).click();
  await expect(page.getByText(/^1 of 1 PV written/)).toBeVisible();
  expect(await ioc.get("OP:MODE:SET")).toBe("20");
});

test("a pattern fits a PV, its fields, and its name with and without a source", () => {
  for (const [pattern, name, does] of [
    ["SR:BEAM*", "SR:BEAM:CURRENT", true],
    ["SR:BEAM*", "ca://SR:BEAM:CURRENT.DRVH", true],
    ["SR:BEAM", "SR:BEAM", true],
    ["SR:BEAM", "SR:BEAM.VAL", true],
    ["SR:BEAM", 'SR:BEAM.VAL{"dbnd":{}}', true],
    ["SR:BEAM", "pva://SR:BEAM/value", true],
    ["SR:BEAM.VAL", "SR:BEAM", true],
    ["SR:BEAM.VAL", "SR:BEAM.DRVH", false],
    ["SR:BEAM", "SR:BEAM2", false],
    ["SR:BEA?", "SR:BEAM", true],
    ["SR:BEA?", "SR:BEAMS", false],
    ["pva://BL*", "pva://BL7:GAP", true],
    // The default source may be pvAccess.
    ["pva://BL*", "BL7:GAP", true],
    ["pva://BL*", "ca://BL7:GAP", false],
    ["S{R}[1]+", "S{R}[1]+", true],
    ["*", "anything", true],
    ["*", "loc://anything", false],
  ] as const) {
    expect([pattern, name, fits(pattern, name)]).toEqual([pattern, name, does]);
  }
});

test.describe("where some alarms may be acknowledged", () => {
  test.use({ relayFlags: ["--allow-put=*:RF:*.ACKS"] });

  test("an alarm is acknowledged for all, with its outcome, and only where the record may be written", async ({
    app,
    ioc,
    page,
    prefix,
  }) => {
    const [voltage, shots, current] = ["RF:VOLTAGE:SET", "RING:SHOTS:SET", "RING:CURRENT"] as const;
    await ioc.hold(current);
    await ioc.put(current, 300);
    await ioc.put(voltage, 2.7);
    await ioc.put(`${shots}.HSV`, "MINOR");
    await ioc.put(`${shots}.HIGH`, 15);
    await ioc.put(shots, 20);
    const names = [voltage, shots, current].map((record) => `${prefix}:${record}`);
    await app.open(`#/alarms?pvs=${names.join(",")}`);
    const alarm = (record: string) => page.locator(`[data-alarm="${prefix}:${record}"]`);
    const acknowledge = (record: string) =>
      alarm(record).getByRole("button", { name: `Acknowledge ${prefix}:${record}` });
    await expect(page.locator("[data-alarm]")).toHaveCount(3);
    await expect(acknowledge(voltage)).toBeVisible();
    await expect(acknowledge(shots)).toBeVisible();
    // The IOC allows no client to write it.
    await expect(acknowledge(current)).toBeHidden();
    await page.getByRole("button", { name: "Read-only" }).click();
    await expect(acknowledge(voltage)).toBeDisabled();
    await page.getByRole("button", { name: "Read-only" }).click();
    await expectAccessible(page);

    await acknowledge(voltage).click();
    await expect(alarm(voltage).getByRole("status")).toHaveText(/^Acknowledged \d\d:\d\d:\d\d$/);
    expect(await ioc.get(`${voltage}.ACKS`)).toBe("NO_ALARM");
    // It is still an alarm, and a worse one waits again.
    await expect(alarm(voltage)).toContainText("MAJOR HIHI");
    await acknowledge(shots).click();
    await expect(alarm(shots).getByRole("status")).toHaveText(/^Not acknowledged: .*no rule/);
    expect(await ioc.get(`${shots}.ACKS`)).toBe("MINOR");
    await ioc.put(voltage, 1);
    await expect(alarm(voltage)).toBeHidden();
    await ioc.put(voltage, 2.7);
    await expect(acknowledge(voltage)).toBeVisible();
  });

  test("an alarm that is over is listed until it is acknowledged, and never as one that is there", async ({
    app,
    ioc,
    page,
    prefix,
  }) => {
    const voltage = "RF:VOLTAGE:SET";
    await ioc.put(voltage, 2.7);
    await ioc.put(voltage, 1);
    expect(await ioc.get(`${voltage}.ACKS`)).toBe("MAJOR");
    await app.open(`#/alarms?pvs=${prefix}:${voltage},${prefix}:RING:SHOTS:SET`);
    const over = page.locator("[data-over]");
    const alarm = page.locator("[data-alarm]");
    await expect(page.getByText("No alarm. All 2 PVs are connected.")).toBeVisible();
    await expect(over).toHaveText(new RegExp(`${voltage}\\s*no alarm now, MAJOR before`));
    await expect(over).not.toHaveAttribute("data-severity");
    await expect(page).toHaveTitle("0 alarms – pvwire");
    await expectAccessible(page);
    // It comes again, and is over again.
    await ioc.put(voltage, 2.7);
    await expect(alarm).toContainText("MAJOR HIHI");
    await expect(over).toHaveCount(0);
    await ioc.put(voltage, 1);
    await expect(alarm).toHaveCount(0);
    await over.getByRole("button", { name: `Acknowledge ${prefix}:${voltage}` }).click();
    await expect(over).toHaveCount(0);
    expect(await ioc.get(`${voltage}.ACKS`)).toBe("NO_ALARM");
  });
});
