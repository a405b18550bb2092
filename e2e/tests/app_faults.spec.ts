/**
 * The app's pages while their IOC is silent or dead, the relay is dead, or access is refused; then compared with the IOC.
 * Health during the same, and while a client is stalled and disconnected.
 */

import path from "node:path";

import type { Page } from "@playwright/test";

import { Child } from "../../testbed/ts/child";
import { LinkProxy } from "../../testbed/ts/link_proxy";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { AppPage, expect, test } from "../fixtures/app_page";
import { servePage } from "../fixtures/built_pages";
import { expectAccessible } from "../fixtures/screen";
import { ROOT } from "../../testbed/ts/paths";
import type { SoftIoc } from "../../testbed/ts/soft_ioc";

/** Longer than the connection's time-out, which ends after 10 s. */
const STALL_MS = 15_000;

/** An IOC or a relay that is back is searched for at intervals. */
const BACK = { timeout: 45_000 };

const NATS = path.join(ROOT, ".local/nats/usr/sbin/nats-server");

const VOLTAGE = "RF:VOLTAGE:SET";
const RECORDS = [VOLTAGE, "RING:SHOTS:SET", "OP:MODE:SET", "OP:MESSAGE"] as const;
const TEXT = "OP:MESSAGE";

interface Truth {
  readonly name: string;
  readonly text: string;
  readonly severity: string;
  /** A number or a choice, which has a curve. */
  readonly isNumber: boolean;
}

/** What the records have inside the IOC, as the pages must show it. */
async function truthOf(ioc: SoftIoc): Promise<readonly Truth[]> {
  const truth: Truth[] = [];
  for (const record of RECORDS) {
    const value = await ioc.get(record);
    const isNumber = record !== TEXT;
    const text = record === VOLTAGE ? `${Number(value).toFixed(2)} MV` : value;
    const severity = await ioc.get(`${record}.SEVR`);
    truth.push({ name: `${ioc.prefix}:${record}`, text, severity, isNumber });
  }
  return truth;
}

const isAlarm = ({ severity }: Truth): boolean => severity !== "NO_ALARM";

const alarmText = (truth: Truth): RegExp =>
  isAlarm(truth) ? new RegExp(`^${truth.severity} `) : /^No alarm$/;

/** The pages of one list, open beside each other. */
class Lists {
  constructor(
    readonly table: Page,
    readonly alarms: Page,
    readonly plots: Page,
    readonly snapshots: Page,
  ) {}

  cell(page: Page, name: string, column: string) {
    return page.locator(
      `:is([data-row="${name}"], [data-trace="${name}"]) [data-column="${column}"]`,
    );
  }

  alarm(name: string) {
    return this.alarms.locator(`[data-alarm="${name}"]`);
  }

  /** All that is shown of the PVs is what the IOC has; `sinceMs`: when it was written. */
  async expectTruth(truth: readonly Truth[], sinceMs: number): Promise<void> {
    for (const each of truth) {
      const { isNumber, name, severity, text } = each;
      const row = this.table.locator(`[data-row="${name}"]`);
      await expect(row).toHaveAttribute("data-state", "connected", BACK);
      await expect(row).toHaveAttribute("data-severity", severity, BACK);
      await expect(this.cell(this.table, name, "value")).toHaveText(`${text}✎`);
      await expect(this.cell(this.table, name, "state")).toHaveText(alarmText(each));
      await expect(async () => {
        const shown = await this.cell(this.table, name, "time").textContent();
        const timeMs = Date.parse(`${(shown ?? "").replace(" ", "T")}Z`);
        expect(timeMs).toBeGreaterThanOrEqual(sinceMs);
        expect(timeMs).toBeLessThanOrEqual(Date.now());
      }).toPass(BACK);

      const trace = this.plots.locator(`[data-trace="${name}"]`);
      await expect(trace).toHaveAttribute("data-severity", severity, BACK);
      await expect(trace).toHaveAttribute("data-state", "connected");
      await expect(this.cell(this.plots, name, "at")).toHaveText(text);
      await expect(this.cell(this.plots, name, "state")).toHaveText(
        isNumber ? alarmText(each) : /^No number: nothing to draw/,
      );

      await expect(this.cell(this.snapshots, name, "other")).toHaveText(text, BACK);
      await expect(this.cell(this.snapshots, name, "other")).not.toHaveAttribute("data-missing");
    }
    const bad = truth.filter(isAlarm);
    await expect(this.alarms.locator("[data-alarm]")).toHaveCount(bad.length, BACK);
    for (const each of bad) {
      const alarm = this.alarm(each.name);
      await expect(alarm).toHaveAttribute("data-severity", each.severity);
      await expect(alarm.locator(".alarm-value")).toHaveText(each.text);
      await expect(alarm.locator(".alarm-text")).toHaveText(alarmText(each));
    }
  }

  /** Nothing of these PVs looks present, neither by text nor by colour; old values stay. */
  async expectOld(truth: readonly Truth[], state: string, words: RegExp): Promise<void> {
    for (const { isNumber, name, text } of truth) {
      const alarm = this.alarm(name);
      for (const [shown, page] of [
        [this.table.locator(`[data-row="${name}"]`), this.table],
        [this.plots.locator(`[data-trace="${name}"]`), this.plots],
      ] as const) {
        if (page === this.table || isNumber) {
          await expect(this.cell(page, name, "state")).toHaveText(words);
        }
        await expect(shown).toHaveAttribute("data-state", state);
        await expect(shown).not.toHaveAttribute("data-severity");
      }
      await expect(this.cell(this.table, name, "value")).toHaveText(`${text}✎`);
      await expect(alarm.locator(".alarm-text")).toHaveText(words);
      await expect(alarm).toHaveAttribute("data-state", state);
      await expect(alarm).not.toHaveAttribute("data-severity");
      await expect(this.cell(this.snapshots, name, "other")).toHaveAttribute(
        "data-missing",
        "true",
      );
    }
    await expect(
      this.snapshots.getByRole("button", { name: `${String(truth.length)} can't be compared` }),
    ).toBeVisible();
  }
}

test("table, alarms, plots and snapshots are right after each fault, and old values look old", async ({
  app,
  ioc,
  page,
  prefix,
  relay,
}) => {
  test.setTimeout(300_000);
  const names = RECORDS.map((record) => `${prefix}:${record}`).join(",");
  const open = async (name: string): Promise<Page> => {
    const other = name === "table" ? page : await page.context().newPage();
    await new AppPage(other, app.url).open(`#/${name}?utc=1&last=60&pvs=${names}`);
    return other;
  };
  const lists = new Lists(
    await open("table"),
    await open("alarms"),
    await open("plots"),
    await open("snapshots"),
  );
  await expect(lists.snapshots.getByText("Without a value now")).toBeHidden();
  await lists.snapshots.getByRole("button", { name: "Take 4 PVs now" }).click();
  await expect(lists.snapshots.getByRole("button", { name: "4 same" })).toBeVisible();
  let sinceMs = 0;
  // Each differs from the one before: of a value that is written again an IOC sends no update.
  const modes = ["Injection", "Machine study", "Beam dump", "User beam", "Injection"];
  /** Other values, in other alarms. */
  const write = async (voltage: number, message: string): Promise<readonly Truth[]> => {
    sinceMs = Date.now();
    await ioc.put(VOLTAGE, voltage);
    await ioc.put("RING:SHOTS:SET", Math.round(10 * voltage));
    await ioc.put("OP:MODE:SET", modes.shift() ?? "");
    await ioc.put(TEXT, message);
    return truthOf(ioc);
  };
  let truth = await write(2.2, "before the stall");
  expect(truth.filter(isAlarm)).not.toHaveLength(0);
  await lists.expectTruth(truth, sinceMs);

  // The IOC hangs: first without response, then disconnected, and right when it goes on.
  const begin = Date.now();
  ioc.hang();
  await lists.expectOld(truth, "connected", /^No response since \d\d:\d\d:\d\d$/);
  await lists.expectOld(truth, "disconnected", /^Disconnected · old since \d\d:\d\d:\d\d$/);
  await expect.poll(() => Date.now(), BACK).toBeGreaterThan(begin + STALL_MS);
  ioc.resume();
  truth = await write(2.7, "after the stall");
  await lists.expectTruth(truth, sinceMs);

  // The IOC ends, and is there again with the values of its database.
  await ioc.kill();
  await lists.expectOld(truth, "disconnected", /^Disconnected · old since/);
  sinceMs = Date.now();
  await ioc.restart();
  await lists.expectTruth(await truthOf(ioc), sinceMs);
  truth = await write(2.2, "after the restart");
  await lists.expectTruth(truth, sinceMs);

  // The relay ends; what changes meanwhile is shown when it is back.
  await relay.kill();
  await lists.expectOld(truth, "relayLost", /^Relay lost · old since/);
  truth = await write(1.5, "while the relay was away");
  await relay.restart();
  await lists.expectTruth(truth, sinceMs);

  // The IOC withdraws read access: not even an old value remains.
  const voltage = `${prefix}:${VOLTAGE}`;
  await ioc.put(`${VOLTAGE}.ASG`, "HIDDEN");
  await expect(lists.cell(lists.table, voltage, "state")).toHaveText("No read access");
  await expect(lists.cell(lists.table, voltage, "value")).toHaveText("–✎");
  await expect(lists.cell(lists.table, voltage, "time")).toHaveText("–");
  await expect(lists.alarm(voltage)).toContainText(/–\s*No read access/);
  await expect(lists.cell(lists.plots, voltage, "at")).toHaveText("–");
  await expect(lists.cell(lists.plots, voltage, "state")).toHaveText("No read access");
  await expect(lists.cell(lists.snapshots, voltage, "other")).toHaveAttribute(
    "data-missing",
    "true",
  );
  await write(2.7, "after the refusal");
  await ioc.put(`${VOLTAGE}.ASG`, "OPERATOR");
  await lists.expectTruth(await truthOf(ioc), sinceMs);
  expect(relay.output).not.toContain("panicked");
});

test.describe("pages of one PV, an image, two arrays and a display", () => {
  const DISPLAY = `<display version="2.0.0"><name>Ring</name><width>300</width><height>100</height>
    <widget type="textupdate" version="2.0.0"><name>current</name><x>10</x><y>10</y><width>180</width><height>24</height>
    <pv_name>$(P):RING:CURRENT</pv_name></widget></display>`;
  const array = (name: string, length: number): string =>
    `record(waveform, "$(P):${name}") {
      field(FTVL, "SHORT") field(NELM, "${String(length)}") field(INP, [${[...Array(length).keys()].join(", ")}])
    }
    `;
  test.use({
    displays: { "ring.bob": DISPLAY },
    moreRecords: array("CAMERA", 96) + array("XY:X", 4) + array("XY:Y", 4),
  });

  test("a PV, an image, an XY plot and a display are right after each fault, and old values look old", async ({
    app,
    ioc,
    page,
    prefix,
    relay,
  }) => {
    test.setTimeout(300_000);
    const [current, camera, x, y] = ["RING:CURRENT", "CAMERA", "XY:X", "XY:Y"].map(
      (record) => `${prefix}:${record}`,
    ) as [string, string, string, string];
    const hold = async (value: number): Promise<void> => {
      await ioc.hold("RING:CURRENT");
      await ioc.put("RING:CURRENT", value);
    };
    await hold(250);
    const open = async (hash: string): Promise<AppPage> => {
      const other = new AppPage(await page.context().newPage(), app.url);
      await other.open(hash);
      return other;
    };
    const pv = await open(`#/pv/${current}`);
    const image = await open(`#/pv/${camera}?columns=12&at=3,2`);
    const plot = await open(`#/plots?last=60&x=${x}&pvs=${x},${y}`);
    const display = await open(`#/display/ring.bob?macro=P=${prefix}`);
    const index = await open("#/displays");
    const trace = plot.page.locator(`[data-trace="${y}"]`);
    const curve = plot.page.getByRole("region", { name: "Charts" }).getByRole("img").first();
    const readback = display.page.locator('[data-name="current"]');
    const pixel = image.page.locator('[data-part="pixel"]');
    const shown = [pv.now, image.now, trace, readback];

    const expectTruth = async (value: number): Promise<void> => {
      for (const one of shown) {
        await expect(one).toHaveAttribute("data-state", "connected", BACK);
        await expect(one).toHaveAttribute("data-severity", /./, BACK);
      }
      const text = `${value.toFixed(2)} mA`;
      await expect(pv.value).toHaveText(text);
      await expect(pv.page).toHaveTitle(new RegExp(text));
      await expect(readback.locator('[data-part="value"]')).toHaveText(text);
      await expect(pixel).toHaveText("Column 3, row 2: 27");
      await expect(curve).toHaveAttribute("aria-label", /: 4 points, /);
      await expect(index.page.getByRole("link", { name: "ring.bob" })).toBeVisible();
    };
    /** Nothing looks present; old values stay. */
    const expectOld = async (value: number, state: string, words: RegExp): Promise<void> => {
      for (const one of shown) {
        await expect(one).toHaveAttribute("data-state", state, BACK);
        await expect(one).not.toHaveAttribute("data-severity");
      }
      for (const one of [pv, image]) await expect(one.condition).toHaveText(words);
      await expect(trace).toContainText(words);
      const text = `${value.toFixed(2)} mA`;
      await expect(pv.value).toHaveText(text);
      await expect(readback.locator('[data-part="value"]')).toHaveText(text);
      await expect(pixel).toHaveText("Column 3, row 2: 27");
    };
    await expectTruth(250);

    // The IOC hangs for longer than the connection's time-out.
    const begin = Date.now();
    ioc.hang();
    await expectOld(250, "connected", /No response since/);
    await expectOld(250, "disconnected", /Disconnected · old since/);
    await expect.poll(() => Date.now(), BACK).toBeGreaterThan(begin + STALL_MS);
    ioc.resume();
    await hold(260);
    await expectTruth(260);

    await ioc.kill();
    await expectOld(260, "disconnected", /Disconnected · old since/);
    await ioc.restart();
    await hold(240);
    await expectTruth(240);

    await relay.kill();
    await expectOld(240, "relayLost", /Relay lost · old since/);
    await expect(index.page.getByText("Relay lost since")).toBeVisible();
    await hold(255);
    await relay.restart();
    await expectTruth(255);
    await expect(index.page.getByText("Relay lost since")).toBeHidden();

    // The IOC withdraws read access: not even an old value remains.
    for (const record of ["RING:CURRENT", "CAMERA", "XY:X", "XY:Y"]) {
      await ioc.put(`${record}.ASG`, "HIDDEN");
    }
    for (const one of [pv, image]) {
      await expect(one.condition).toHaveText("No read access");
      await expect(one.value).toHaveText("–");
    }
    await expect(pixel).toBeHidden();
    await expect(trace).toContainText("No read access");
    await expect(curve).toHaveAttribute("aria-label", /^Nothing to draw|: 0 points, /);
    await expect(readback).not.toContainText("255");
    for (const one of shown) await expect(one).not.toHaveAttribute("data-severity");
    for (const record of ["RING:CURRENT", "CAMERA", "XY:X", "XY:Y"]) {
      await ioc.put(`${record}.ASG`, "DEFAULT");
    }
    await expectTruth(255);
    expect(relay.output).not.toContain("panicked");
  });
});

test("refused writes of the table and of acknowledgements say who refuses them, and change nothing", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  const [gap, limit, voltage] = ["ID:GAP:SET", "MAG:DIPOLE:LIMIT", VOLTAGE].map(
    (record) => `${prefix}:${record}`,
  ) as [string, string, string];
  await ioc.put(VOLTAGE, 2.7);
  await app.open(`#/table?pvs=${[gap, limit, voltage].join(",")}`);
  const dialog = page.getByRole("dialog");
  const write = async (name: string): Promise<void> => {
    await app.row(name).hover();
    await page.getByRole("button", { name: `Write ${name}` }).click();
  };
  const close = async (): Promise<void> => {
    await dialog.getByRole("button", { name: "Close" }).click();
    await expect(dialog).toBeHidden();
  };
  await write(gap);
  await expect(dialog).toContainText("The IOC gives no write access");
  await close();
  await write(limit);
  await expect(dialog).toContainText("Writing is not allowed by the relay");
  await close();

  // The relay's rules allow the record and not its field.
  await app.open(`#/alarms?pvs=${voltage}`);
  const alarm = page.locator(`[data-alarm="${voltage}"]`);
  await alarm.getByRole("button", { name: `Acknowledge ${voltage}` }).click();
  await expect(alarm.getByRole("status")).toContainText(/^Not acknowledged: /);
  await expect(alarm).toHaveAttribute("data-severity", "MAJOR");
  expect(await ioc.get(`${VOLTAGE}.ACKS`)).toBe("MAJOR");
});

test.describe("health", () => {
  test.use({
    user: "jane",
    relayFlags: [
      "--auth=trusted-header",
      "--trusted-proxy=127.0.0.1",
      "--disconnect-access=jane",
      "--ack-window-ms=500",
      "--evict-after-ms=60000",
    ],
  });

  test("health: a stalled client, its end by an operator, a dead IOC and a dead relay", async ({
    app,
    browser,
    ioc,
    page,
    prefix,
    relay,
  }) => {
    test.setTimeout(180_000);
    const [current, tune] = ["RING:CURRENT", "RING:TUNE"].map((name) => `${prefix}:${name}`) as [
      string,
      string,
    ];
    // A page of another user, over a link that can stall.
    const link = await LinkProxy.start(relay.port);
    const served = await servePage("app", { relayPort: link.port, user: "bob" });
    const bob = new AppPage(await browser.newPage(), served.url);
    await bob.open(`#/table?pvs=${current},${tune}`);
    await expect(bob.row(current)).toHaveAttribute("data-state", "connected");

    await app.open("#/health");
    const clients = page.getByRole("region", { name: "Clients" });
    const ofBob = clients.getByRole("row").filter({ hasText: "bob" });
    await expect(clients).toContainText("2 clients, none behind");
    await expect(ofBob.getByRole("button", { name: /^2 PVs of / })).toHaveText("2");
    const first = await ofBob.getAttribute("data-name");

    link.stall();
    await expect(clients).toContainText("2 clients, 1 behind");
    await expect(ofBob).toHaveAttribute("data-state", "behind");
    await expect(ofBob).toContainText(/behind\d+ s, \d+ updates/);
    await expect(clients.getByRole("row").nth(1)).toContainText("bob");
    link.restore();
    await expect(clients).toContainText("2 clients, none behind");
    await expect(ofBob).toContainText(/in step–[1-9]/);

    // What it watches, and the order of the tables: both are in the link.
    await ofBob.getByRole("button", { name: /^2 PVs of / }).click();
    await expect(clients.getByRole("listitem")).toHaveText([`ca://${current}`, `ca://${tune}`]);
    const pvs = page.getByRole("region", { name: "PVs", exact: true });
    const missing = `${prefix}:MISSING`;
    await bob.open(`#/table?pvs=${current},${tune},${missing}`);
    await expect(clients.getByRole("listitem")).toHaveCount(3);
    const names = pvs.locator("tbody td[data-column=name]");
    await expect(names).toHaveText([missing, current, tune].map((name) => `ca://${name}`));
    const byName = pvs.getByRole("columnheader", { name: "PV" });
    await byName.getByRole("button").focus();
    await page.keyboard.press("Enter");
    await expect(byName).toHaveAttribute("aria-sort", "ascending");
    await page.keyboard.press("Enter");
    await expect(byName).toHaveAttribute("aria-sort", "descending");
    await pvs.getByRole("searchbox").fill("ring connected");
    await clients.getByRole("columnheader", { name: "User" }).getByRole("button").click();
    await page.route("**/status/clients/*", (route) =>
      route.continue({ url: `${route.request().url()}&limit=2` }),
    );
    await page.reload();
    await expect(clients.getByRole("listitem")).toHaveCount(2);
    await clients.getByRole("button", { name: "More" }).click();
    await page.unroute("**/status/clients/*");
    await expect(byName).toHaveAttribute("aria-sort", "descending");
    await expect(names).toHaveText([tune, current].map((name) => `ca://${name}`));
    await expect(clients.getByRole("columnheader", { name: "User" })).toHaveAttribute(
      "aria-sort",
      "ascending",
    );
    await expect(clients.getByRole("listitem")).toHaveCount(3);
    await expect(clients.getByRole("button", { name: "More" })).toHaveCount(0);
    await expectAccessible(page);

    // Of the relay: limits, sources and servers.
    await expect(page.getByRole("region", { name: "Limits" })).toContainText("of 10,000");
    const ca = page.getByRole("region", { name: "Sources", exact: true }).getByRole("row").last();
    await expect(ca).toContainText(/^ca32/);
    await expect(page.getByRole("region", { name: "Servers", exact: true })).toContainText(
      /:\d+22/,
    );

    // Who has not the right has no button, and is refused.
    const dialog = page.getByRole("dialog");
    const end = ofBob.getByRole("button", { name: /^Disconnect / });
    const other = new AppPage(await browser.newPage(), served.url);
    await other.page.route("**/status", async (route) => {
      const status = (await (await route.fetch()).json()) as object;
      await route.fulfill({ json: { ...status, mayDisconnect: true } });
    });
    await other.open("#/health");
    await expect(other.page.getByRole("button", { name: /^Disconnect / })).toHaveCount(3);
    const refused = async (of: Page, status: number | undefined, why: string): Promise<void> => {
      if (status !== undefined) {
        await of.route("**/status/clients/*", (route) => route.fulfill({ status, body: "no\n" }));
      }
      const row = of.getByRole("row").filter({ hasText: "jane" });
      await row.getByRole("button", { name: /^Disconnect / }).click();
      await of.getByRole("dialog").getByRole("button", { name: "Disconnect" }).click();
      await expect(of.getByRole("alert")).toContainText(`is not disconnected: ${why}`);
      await of.unroute("**/status/clients/*");
    };
    await refused(other.page, undefined, "the relay's operator names who may do so");
    await refused(other.page, 401, "the relay asks you to log in again");
    await refused(other.page, 404, "it has left already");
    await refused(other.page, 503, "the relay can't write its audit file");
    await other.page.unroute("**/status");
    await expect(other.page.getByRole("button", { name: /^Disconnect / })).toHaveCount(0);
    await other.page.close();
    await expect(clients).toContainText("2 clients");

    // An operator's press, which can be taken back; the client's page is there again.
    await end.click();
    await expect(dialog).toContainText(/Disconnect bob at 127\.0\.0\.1/);
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await expect(dialog).toBeHidden();
    const before = await ofBob.getAttribute("data-name");
    await end.click();
    await dialog.getByRole("button", { name: "Disconnect" }).click();
    await expect(clients.getByRole("alert")).toContainText("was disconnected.");
    await expect(ofBob).not.toHaveAttribute("data-name", before ?? "");
    await expect(bob.row(current)).toHaveAttribute("data-state", "connected");
    expect(first).not.toBeNull();
    expect(relay.output).toMatch(/client \S+ of user "bob" at \S+ was disconnected by user "jane"/);

    await pvs.getByRole("searchbox").fill("disconnected ring");
    await expect(names).toHaveCount(0);
    await ioc.kill();
    await expect(names).toHaveCount(2, { timeout: 45_000 });
    await expect(page.getByRole("region", { name: "The relay" })).toContainText(/Disconnected\s*2/);
    await ioc.restart();
    await expect(names).toHaveCount(0, { timeout: 45_000 });

    await page.route("**/status", (route) => route.fulfill({ status: 401, body: "no\n" }));
    const shown = page.getByRole("region", { name: "The relay" });
    await expect(shown).toContainText("No status: the relay shows it after a login.");
    for (const [status, why] of [
      [403, "the relay doesn't show it to you"],
      [404, "the relay shows it to operators only, at another address"],
    ] as const) {
      await page.unroute("**/status");
      await page.route("**/status", (route) => route.fulfill({ status, body: "no\n" }));
      await expect(shown).toContainText(`No status: ${why}.`);
    }
    await page.unroute("**/status");
    await expect(clients).toBeVisible();
    await relay.kill();
    await expect(shown).toContainText("No status");
    await expect(clients).toBeHidden();

    link.end();
    await served.close();
    await bob.page.close();
  });
});

test("health: the relays of a fleet, and each of many PVs", async ({
  browser,
  ioc,
  network,
  page,
  prefix,
}) => {
  const port = await freePort();
  const nats = Child.start({
    what: "NATS",
    command: process.env.PVWIRE_NATS_SERVER ?? NATS,
    args: ["--addr", "127.0.0.1", "--port", String(port)],
    env: {},
  });
  await nats.waitForOutput(/Server is ready/);
  const flags = [`--bus=nats://127.0.0.1:${String(port)}`];
  const one = await Relay.start(network, flags);
  const two = await Relay.start(network, flags);
  const served = await servePage("app", { relayPort: one.port });
  const ofTwo = await servePage("app", { relayPort: two.port });

  const names = Array.from({ length: 1000 }, (_, n) => `${prefix}:N${String(n).padStart(4, "0")}`);
  const table = new AppPage(await browser.newPage(), ofTwo.url);
  await table.open(`#/table?pvs=${names.join(",")},${prefix}:NOT_THERE`);
  await expect(table.page.getByRole("button", { name: "1 not connected" })).toBeVisible(BACK);

  // Each relay shows both; each owns some of the PVs.
  const app = new AppPage(page, served.url);
  await app.open("#/health");
  const fleet = page.getByRole("region", { name: "Fleet", exact: true });
  const member = (relay: Relay) =>
    fleet.getByRole("row").filter({ hasText: `:${String(relay.port)}` });
  await expect(member(one)).toContainText(/\(this relay\)owns PVs and serves clientsrunning/);
  for (const relay of [one, two]) {
    await expect(member(relay).getByRole("cell").nth(5)).toHaveText(/^[1-9]\d\d$/, BACK);
  }
  await expect(member(two).getByRole("cell").last()).toHaveText("1");
  await expectAccessible(page);

  // Those that the status lists no longer are searched in the relay.
  await app.page.goto(`${ofTwo.url}#/health`);
  const pvs = page.getByRole("region", { name: "PVs", exact: true });
  const rows = pvs.locator("tbody tr");
  await expect(pvs.getByRole("status")).toHaveText("200 of 1001 PVs, by name; more may follow");
  await pvs.getByRole("button", { name: "More" }).click();
  await expect(rows).toHaveCount(400);
  const search = pvs.getByRole("searchbox");
  await search.fill("n0999 connected");
  await expect(rows).toHaveCount(1);
  await expect(rows.first()).toContainText(`ca://${prefix}:N0999`);
  await expect(rows.first()).toHaveAttribute("data-state", "Connected");
  await expect(pvs.getByRole("status")).toHaveText("1 of 1001 PVs");
  await search.fill("not found");
  await expect(rows.locator("[data-column=name]")).toHaveText([`ca://${prefix}:NOT_THERE`]);
  await search.fill("n099 disconnected");
  await expect(rows).toHaveCount(0);
  await ioc.kill();
  await expect(rows).toHaveCount(10, BACK);
  await page.route("**/status/pvs?*", (route) => route.fulfill({ status: 503, body: "no\n" }));
  await search.fill("n099");
  await expect(pvs.getByRole("status")).toContainText(
    "the others aren't listed: the relay answers 503",
  );

  // A relay that has died is no longer one of the fleet.
  await one.kill();
  await expect(fleet.getByRole("row")).toHaveCount(2, BACK);
  await expect(member(two)).toContainText("(this relay)");

  await two.kill();
  await nats.kill();
  for (const each of [served, ofTwo]) await each.close();
  await table.page.close();
});
