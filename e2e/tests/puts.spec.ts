/** What an operator sets arrives at the IOC unchanged, or the page says why not. */

import { expect, test } from "../fixtures/test";

const RECONNECT_MS = 30_000;

test("Enter sends a number to the IOC, and other pages show it", async ({ demo, beside, ioc }) => {
  const voltage = demo.setPoint("RF:VOLTAGE:SET");
  await expect(voltage.field).toHaveValue("1.40");
  await expect(voltage.hint).toHaveText("0 to 3 MV");

  await voltage.send("1.755");

  await expect(voltage.outcome).toHaveText(/^Written \d\d:\d\d:\d\d$/);
  await expect(voltage.field).toBeFocused();
  await expect(demo.value("RF:VOLTAGE:SET")).toHaveText("1.75 MV");
  await expect(beside.setPoint("RF:VOLTAGE:SET").field).toHaveValue("1.75");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.755");
});

test("without limits any finite number is sent, but no nan or inf", async ({ demo, ioc }) => {
  const voltage = demo.setPoint("RF:VOLTAGE:SET");
  await expect(voltage.hint).toHaveText("0 to 3 MV");
  await voltage.send("-7.5");
  await expect(voltage.outcome).toContainText("-7.5 is not within 0 to 3 MV");
  for (const text of ["nan", "inf", "-inf"]) {
    await voltage.send(text);
    await expect(voltage.outcome).toContainText(`${text} is not a finite number`);
  }
  // EPICS's default: a record without limits.
  await ioc.put("RF:VOLTAGE:SET.DRVL", 0);
  await ioc.put("RF:VOLTAGE:SET.DRVH", 0);
  await expect(voltage.hint).toHaveText("Not sent · the PV has 1.40 MV");
  await voltage.send("-7.555");
  await expect(voltage.outcome).toContainText("Written");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("-7.555");
  await expect(voltage.hint).toHaveText("");
});

test("typed input is marked unsent and kept; Escape reverts it", async ({ demo, ioc }) => {
  const voltage = demo.setPoint("RF:VOLTAGE:SET");
  await expect(voltage.field).toHaveValue("1.40");
  await voltage.type("1.9");
  await expect(voltage.row).toHaveAttribute("data-phase", "unsent");

  await ioc.put("RF:VOLTAGE:SET", 2.2);
  await expect(voltage.hint).toHaveText("Not sent · the PV has 2.20 MV (MINOR)");
  await expect(voltage.field).toHaveValue("1.9");

  await voltage.field.press("Escape");
  await expect(voltage.row).toHaveAttribute("data-phase", "live");
  await expect(voltage.field).toHaveValue("2.20");
  // Enter does not send the displayed text either, which lacks the digits that are not displayed.
  await ioc.put("RF:VOLTAGE:SET", 1.2345);
  await expect(voltage.field).toHaveValue("1.23");
  await voltage.field.press("Enter");
  // An IOC processes a page's puts in order: this one would be written after one sent by Enter.
  await demo.setPoint("RING:SHOTS:SET").send("13");
  await expect(demo.setPoint("RING:SHOTS:SET").outcome).toContainText("Written");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.2345");
});

test("arrow keys step within limits; Send and Undo match the keys", async ({ demo, ioc }) => {
  const voltage = demo.setPoint("RF:VOLTAGE:SET");
  await expect(voltage.field).toHaveValue("1.40");
  await voltage.field.press("ArrowUp");
  await voltage.field.press("PageUp");
  await expect(voltage.field).toHaveValue("1.51");
  await voltage.button("Send").click();
  await expect(voltage.outcome).toContainText("Written");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.51");

  await voltage.type("2.995");
  await voltage.field.press("ArrowUp");
  await expect(voltage.field).toHaveValue("3.00");
  await voltage.button("Undo").click();
  await expect(voltage.field).toHaveValue("1.51");
  await expect(voltage.field).toBeFocused();
});

test("choices from buttons and lists reach the IOC and other pages", async ({
  demo,
  beside,
  ioc,
}) => {
  const feedback = demo.setPoint("FB:ORBIT:SET");
  await expect(feedback.button("Slow")).toHaveAttribute("aria-pressed", "true");
  await feedback.button("Fast").click();
  await expect(feedback.outcome).toContainText("Written");
  await expect(feedback.button("Fast")).toHaveAttribute("aria-pressed", "true");
  await expect(beside.setPoint("FB:ORBIT:SET").button("Fast")).toHaveAttribute(
    "aria-pressed",
    "true",
  );
  expect(await ioc.get("FB:ORBIT:SET")).toBe("Fast");

  const mode = demo.setPoint("OP:MODE:SET");
  await expect(mode.list).toHaveValue("1 Top-up");
  await mode.list.selectOption("Beam dump");
  await expect(mode.hint).toHaveText(/^Not sent · the PV has Top-up/);
  expect(await ioc.get("OP:MODE:SET")).toBe("Top-up");
  await mode.list.press("Enter");
  await expect(mode.outcome).toContainText("Written");
  await expect(beside.setPoint("OP:MODE:SET").list).toHaveValue("4 Beam dump");
  expect(await ioc.get("OP:MODE:SET")).toBe("Beam dump");
});

test("a slider writes while it is moved and ends where it was left", async ({
  demo,
  beside,
  ioc,
}) => {
  const corrector = demo.setPoint("MAG:CORR4:SET");
  await expect(corrector.slider).toHaveValue("0.8");
  const steps = 25;
  await corrector.slider.focus();
  for (let step = 0; step < steps; step += 1) {
    await demo.page.keyboard.press("ArrowRight");
  }

  await expect(corrector.row.locator('[data-part="value"]')).toHaveText("1.05 A");
  await expect(corrector.outcome).toContainText("Written");
  await expect(corrector.slider).toHaveValue("1.05");
  await expect(beside.setPoint("MAG:CORR4:SET").slider).toHaveValue("1.05");
  expect(Number(await ioc.get("MAG:CORR4:SET"))).toBe(1.05);
});

test("text arrives unchanged, also in brackets and when empty", async ({ demo, beside, ioc }) => {
  const message = demo.setPoint("OP:MESSAGE");
  await expect(message.field).toHaveValue("Beam available to users");
  for (const text of ["Injection at 14:00", "[x] y", "{x}", ""]) {
    await message.send(text);

    await expect(message.outcome).toContainText("Written");
    await expect(message.field).toHaveValue(text);
    await expect(message.row).toHaveAttribute("data-phase", "live");
    await expect(beside.setPoint("OP:MESSAGE").field).toHaveValue(text);
    expect(await ioc.get("OP:MESSAGE")).toBe(text);
  }
});

test("invalid values are refused with a reason and not sent", async ({ demo, ioc }) => {
  const voltage = demo.setPoint("RF:VOLTAGE:SET");
  await expect(voltage.field).toHaveValue("1.40");
  for (const [text, reason] of [
    ["abc", '"abc" is not a number'],
    ["", '"" is not a number'],
    ["1,5", '"1,5" is not a number'],
    ["3.5", "3.5 is not within 0 to 3 MV"],
  ] as const) {
    await voltage.send(text);
    await expect(voltage.outcome).toContainText(`Refused: ${reason}`);
    await expect(voltage.row).toHaveAttribute("data-phase", "unsent");
    await expect(voltage.field).toHaveValue(text);
  }
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.4");

  const message = demo.setPoint("OP:MESSAGE");
  await message.send("a message of more than thirty-nine bytes");
  await expect(message.outcome).toContainText("Refused: too long: 40 bytes");
  expect(await ioc.get("OP:MESSAGE")).toBe("Beam available to users");
});

test("a label that was renamed meanwhile is refused", async ({ demo, beside, ioc }) => {
  // This page's updates are postponed, from the new label on, until it has put a choice that no
  // longer exists.
  const postponed: (() => void)[] = [];
  let isReleased = false;
  await demo.page.routeWebSocket(/\/ws$/, (socket) => {
    const relay = socket.connectToServer();
    relay.onMessage((message) => {
      const pass = (): void => {
        socket.send(message);
      };
      if (!isReleased && (postponed.length > 0 || message.includes("Turbo"))) postponed.push(pass);
      else pass();
    });
  });
  await demo.open();
  const feedback = demo.setPoint("FB:ORBIT:SET");
  await expect(feedback.button("Fast")).toBeEnabled();
  await expect(beside.setPoint("FB:ORBIT:SET").button("Fast")).toBeEnabled();
  await ioc.put("FB:ORBIT:SET.TWST", "Turbo");
  await expect(beside.setPoint("FB:ORBIT:SET").button("Turbo")).toBeVisible();
  await expect.poll(() => postponed.length).toBeGreaterThan(0);

  await feedback.button("Fast").click();
  await expect(feedback.outcome).toHaveText("Sending…");
  isReleased = true;
  for (const pass of postponed) pass();

  await expect(feedback.outcome).toHaveText(
    'Refused: "Fast" is not a choice; the PV has: Off, Slow, Turbo',
  );
  await expect(feedback.button("Turbo")).toHaveAttribute("aria-pressed", "false");
  expect(await ioc.get("FB:ORBIT:SET")).toBe("Slow");
});

test("DISP refuses puts; without access or a rule none can be sent", async ({ demo, ioc }) => {
  const phase = demo.setPoint("RF:PHASE:SET");
  await expect(phase.field).toBeEnabled();
  await phase.send("12");
  await expect(phase.outcome).toContainText(/^Refused: .*DISP/);
  await expect(phase.row).toHaveAttribute("data-phase", "unsent");
  expect(await ioc.get("RF:PHASE:SET")).toBe("31.5");

  for (const [pv, reason, value] of [
    ["ID:GAP:SET", "The IOC gives no write access", "9"],
    ["MAG:DIPOLE:LIMIT", "Writing is not allowed by the relay", "750"],
  ] as const) {
    const setPoint = demo.setPoint(pv);
    await expect(setPoint.hint).toHaveText(reason);
    await expect(setPoint.field).toBeDisabled();
    await expect(setPoint.field).not.toBeEditable();
    await setPoint.field.press("ArrowUp");
    await setPoint.field.press("Enter");
    await expect(setPoint.row).toHaveAttribute("data-phase", "live");
    expect(await ioc.get(pv)).toBe(value);
  }
});

test("revoked write access disables the input until it is granted", async ({ demo, ioc }) => {
  const voltage = demo.setPoint("RF:VOLTAGE:SET");
  const feedback = demo.setPoint("FB:ORBIT:SET");
  await expect(voltage.field).toBeEnabled();
  await expect(feedback.button("Fast")).toBeEnabled();
  await voltage.type("1.6");

  await ioc.put("RF:VOLTAGE:SET.ASG", "DEFAULT");
  await ioc.put("FB:ORBIT:SET.ASG", "DEFAULT");

  await expect(voltage.field).toBeDisabled();
  await expect(voltage.hint).toHaveText("The IOC gives no write access · Not sent");
  await expect(feedback.button("Fast")).toBeDisabled();
  await expect(feedback.hint).toHaveText("The IOC gives no write access");
  await voltage.field.press("Enter");
  await expect(voltage.row).toHaveAttribute("data-phase", "unsent");

  await ioc.put("RF:VOLTAGE:SET.ASG", "OPERATOR");
  await expect(voltage.field).toBeEnabled();
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.4");
  await voltage.field.press("Enter");
  await expect(voltage.outcome).toContainText("Written");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.6");
});

test("two pages that set one PV get their own results", async ({ demo, beside, ioc }) => {
  const [one, two] = [demo, beside].map((page) => page.setPoint("RF:VOLTAGE:SET"));
  if (one === undefined || two === undefined) throw new Error("two pages were opened");
  await expect(one.field).toBeEnabled();
  await expect(two.field).toBeEnabled();

  for (const round of [1, 2, 3]) {
    const ours = `1.${String(round)}1`;
    const theirs = `1.${String(round)}2`;
    await Promise.all([one.type(ours), two.type(theirs)]);
    await Promise.all([one.field.press("Enter"), two.field.press("Enter")]);
    for (const { outcome, row } of [one, two]) {
      // The outcome alone may be that of the round before.
      await expect(row).toHaveAttribute("data-phase", "live");
      await expect(outcome).toContainText("Written");
    }
    const last = await ioc.get("RF:VOLTAGE:SET");
    expect([ours, theirs]).toContain(last);
    await expect(one.field).toHaveValue(last);
    await expect(two.field).toHaveValue(last);
  }

  await Promise.all([one.type("1.8"), two.type("much")]);
  await Promise.all([one.field.press("Enter"), two.field.press("Enter")]);
  await expect(one.outcome).toContainText("Written");
  await expect(two.outcome).toHaveText('Refused: "much" is not a number');
  await expect(two.hint).toHaveText("Not sent · the PV has 1.80 MV");
  await two.field.press("Escape");
  await expect(two.field).toHaveValue("1.80");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.8");
});

test("without the relay nothing is sent, now or later", async ({ demo, ioc, relay }) => {
  const voltage = demo.setPoint("RF:VOLTAGE:SET");
  await expect(voltage.field).toBeEnabled();
  await voltage.type("1.6");
  await relay.kill();

  await expect(voltage.hint).toHaveText("Relay lost: nothing can be sent · Not sent");
  await expect(voltage.field).toBeDisabled();
  await voltage.field.press("Enter");
  await expect(voltage.button("Send")).toBeDisabled();
  await expect(demo.setPoint("FB:ORBIT:SET").button("Fast")).toBeDisabled();
  await expect(demo.setPoint("MAG:CORR4:SET").slider).toBeDisabled();
  await relay.restart();

  await expect(voltage.field).toBeEnabled({ timeout: RECONNECT_MS });
  await expect(voltage.hint).toHaveText("Not sent · the PV has 1.40 MV");
  // An IOC processes a page's puts in order: this one would be written after one that was kept.
  await demo.setPoint("RING:SHOTS:SET").send("13");
  await expect(demo.setPoint("RING:SHOTS:SET").outcome).toContainText("Written");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.4");
});
