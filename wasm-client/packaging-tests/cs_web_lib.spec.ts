/** cs-web-lib's own widgets show PVs, by the package's adapter and as they are. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

import type { Locator, Page } from "@playwright/test";

import { privateEpicsNetwork, type EpicsNetwork } from "../../testbed/ts/epics";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { Relay } from "../../testbed/ts/relay";
import { SoftIoc } from "../../testbed/ts/soft_ioc";
import { run, serving } from "./command";
import { expect, install, test as base } from "./fixtures";

/** What cs-web-lib's widgets show by their outline, in the colours that its app gives them. */
const DISCONNECTED = "dotted rgb(255, 0, 255)";
const NO_ALARM = "solid rgb(0, 0, 0)";
const ALARM = "solid rgb(255, 0, 0)";
const INVALID = "solid rgb(128, 0, 128)";

/** All tests use one installation and build: cs-web-lib is large. */
const test = base.extend<{ serve: (work: () => Promise<void>) => Promise<void> }, { app: string }>({
  app: [
    async ({ folder, tarball }, provide) => {
      const cwd = await install("cs-web-lib", folder, tarball);
      await run(["npm", "run", "build"], { cwd });
      await provide(cwd);
    },
    { scope: "worker", timeout: 600_000 },
  ],

  serve: async ({ app: cwd, pageUrl, port }, provide) => {
    const where = ["--", "--host=127.0.0.1", `--port=${String(port)}`, "--strictPort"];
    await provide((work) => serving(["npm", "run", "preview", ...where], pageUrl, { cwd }, work));
  },
});

const region = (page: Page, name: string): Locator =>
  page.getByRole("region", { name, exact: true });

const textbox = (page: Page, name: string): Locator => region(page, name).getByRole("textbox");

const outlineOf = (page: Page, name: string): Promise<string> =>
  region(page, name)
    .locator("fieldset")
    .evaluate((border) => {
      const { outlineColor, outlineStyle } = getComputedStyle(border);
      return `${outlineStyle} ${outlineColor}`;
    });

test("cs-web-lib: the published package's own widgets", async ({
  page,
  pageUrl,
  records: { prefix, putRelay },
  serve,
}) => {
  const wrong: string[] = [];
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("console", (message) => {
    // cs-web-lib's own connection has no PVWS here: it would complain of whatever came to it.
    if (/Failed to (subscribe|unsubscribe|put|query)|No connections for/.test(message.text()))
      wrong.push(message.text());
  });
  const text = (name: string): Locator => textbox(page, name);
  const outline = (name: string): Promise<string> => outlineOf(page, name);
  await serve(async () => {
    const relay = encodeURIComponent(`ws://127.0.0.1:${String(putRelay.port)}/ws`);
    await page.goto(`${pageUrl}?prefix=${prefix}&relay=${relay}`);
    await expect(text("readback"), "precision and units of the record").toHaveValue("20.5 mm");
    await expect(text("counter")).toHaveValue(/^\d+$/);
    const first = Number(await text("counter").inputValue());
    await expect
      .poll(async () => Number(await text("counter").inputValue()))
      .toBeGreaterThan(first + 2);
    await expect.poll(() => outline("set point"), "no alarm").toBe(NO_ALARM);
    await expect(text("nobody's")).toHaveValue("######");
    await expect.poll(() => outline("nobody's"), "never connected").toBe(DISCONNECTED);

    await text("set point").fill("90");
    await text("set point").press("Enter");
    await expect(text("readback"), "what was written comes back").toHaveValue("90.0 mm");
    await expect.poll(() => outline("set point"), "in alarm").toBe(ALARM);
    await expect(text("readback")).toHaveCSS("color", "rgb(255, 0, 0)");
    await text("set point").fill("30.26");
    await text("set point").press("Enter");
    await expect(text("readback")).toHaveValue("30.3 mm");
    await expect.poll(() => outline("set point"), "no alarm again").toBe(NO_ALARM);

    await putRelay.kill();
    await expect.poll(() => outline("set point"), "the relay is lost").toBe(INVALID);
    await expect(text("readback"), "the last value stays").toHaveValue("30.3 mm");
    await putRelay.restart();
    await expect.poll(() => outline("set point"), "the relay is back").toBe(NO_ALARM);
  });
  expect(wrong).toEqual([]);
});

const SOURCES = ["ca", "pva"] as const;

/** What `tools/truth.py` tells of a PV. */
interface Truth {
  readonly type: string;
  readonly value: string | readonly string[];
  readonly severity: number;
  readonly time_ns: number;
  readonly write: boolean;
  readonly units: string;
  readonly precision: number | null;
  readonly choices: readonly string[];
  readonly alarm: readonly [string, string];
  readonly warning: readonly [string, string];
}

/** The state of PVs by an independent Channel Access client. */
async function truthOf(network: EpicsNetwork, names: string[]): Promise<Record<string, Truth>> {
  const program = path.join(ROOT, "tools/truth.py");
  const env = { ...process.env, ...network.env };
  const { stdout } = await promisify(execFile)(PYTHON, [program, "get", ...names], { env });
  return JSON.parse(stdout) as Record<string, Truth>;
}

/** All that cs-web-lib can know of such a PV. */
function expected(source: "ca" | "pva", known: Truth): Record<string, unknown> {
  const range = ([min, max]: readonly [string, string]): unknown => ({
    min: Number(min),
    max: Number(max),
  });
  const { value } = known;
  const isNumber = known.type === "Float64";
  const isEnum = known.type === "Enum";
  return {
    connected: true,
    // A pvAccess server doesn't tell who may write.
    readonly: source === "ca" && !known.write,
    // It takes INVALID for valid.
    quality: ["valid", "warning", "alarm", "valid"][known.severity],
    seconds: Math.floor(known.time_ns / 1e9),
    ...(isNumber ? { units: known.units, precision: known.precision } : {}),
    ...(isEnum ? { text: known.choices[Number(value)], choices: known.choices } : {}),
    ...(typeof value === "string" ? {} : { elements: value.map(Number) }),
    ...(typeof value === "string" && isNumber
      ? { text: String(Number(value)), alarm: range(known.alarm), warning: range(known.warning) }
      : {}),
    ...(known.type === "String" ? { text: value } : {}),
  };
}

test("cs-web-lib without pvwire: its connection to PVWS", async ({
  page,
  pageUrl,
  port,
  serve,
}) => {
  const prefix = `P${randomBytes(4).toString("hex")}`;
  const network = await privateEpicsNetwork();
  const database = path.join(ROOT, "e2e/fixtures/pvws.db");
  const ioc = await SoftIoc.start(prefix, network, "pva", [database]);
  const relay = await Relay.start(network, [
    "--pvws",
    `--allow-origin=http://127.0.0.1:${String(port)}`,
    "--enable-put",
    `--allow-put=${prefix}:*`,
    "--allow-put=loc://*",
  ]);
  // The relay's own PVs, as Phoebus names them.
  const [constant, local] = ["sim://const(42)", `loc://${prefix}<VDouble>(5)`];
  const names = ["SET", "MODE", "TEXT", "WAVE"].map((record) => `${prefix}:${record}`);
  const set = `${prefix}:SET`;

  /** Waits until cs-web-lib knows of every PV exactly what is true, under both spellings. */
  const isTrue = async (message: string): Promise<void> => {
    const truth = await truthOf(network, names);
    const all = names.flatMap((name) => {
      const known = truth[name];
      if (known === undefined) throw new Error(`no IOC answers for ${name}`);
      return SOURCES.map((source) => [`${source}://${name}`, expected(source, known)] as const);
    });
    const known = (): Promise<unknown> =>
      page.evaluate(() => JSON.parse(JSON.stringify(window.known())) as unknown);
    await expect.poll(known, { message }).toMatchObject(Object.fromEntries(all));
  };
  const shown = (name: string): Locator => textbox(page, `shown ${name}`);
  const write = async (name: string, value: string): Promise<void> => {
    await textbox(page, `set ${name}`).fill(value);
    await textbox(page, `set ${name}`).press("Enter");
  };

  await serve(async () => {
    const query = new URLSearchParams({ server: `127.0.0.1:${String(relay.port)}` });
    for (const name of names) {
      query.append("pv", `ca://${name}`);
      query.append("pv", `pva://${name}`);
    }
    query.append("pv", constant);
    query.append("pv", local);
    await page.goto(`${pageUrl}pvws.html?${query.toString()}`);
    await isTrue("at first");
    for (const source of SOURCES) {
      const of = (record: string): Locator => shown(`${source}://${prefix}:${record}`);
      await expect(of("SET"), "precision and units").toHaveValue("20.5 mm");
      await expect(of("MODE")).toHaveValue("on");
      await expect(of("TEXT")).toHaveValue("hello [x]");
      await expect(of("WAVE")).toHaveValue("1.50, -2.00 V");
    }

    await expect(shown(constant)).toHaveValue(/^42\b/);
    await expect(shown(local)).toHaveValue(/^5\b/);
    await write(local, "7");
    await expect(shown(local)).toHaveValue(/^7\b/);

    await write(`ca://${set}`, "90");
    await expect(shown(`pva://${set}`), "what was written comes back").toHaveValue("90.0 mm");
    await expect.poll(() => outlineOf(page, `set ca://${set}`), "in alarm").toBe(ALARM);
    await isTrue("in alarm");
    await write(`pva://${set}`, "30.26");
    await expect(shown(`ca://${set}`)).toHaveValue("30.3 mm");
    await expect.poll(() => outlineOf(page, `set ca://${set}`), "no alarm again").toBe(NO_ALARM);
    await write(`ca://${prefix}:TEXT`, "written [y]");
    await expect(shown(`pva://${prefix}:TEXT`)).toHaveValue("written [y]");
    await write(`pva://${prefix}:MODE`, "broken");
    await expect(shown(`ca://${prefix}:MODE`)).toHaveValue("broken");
    await ioc.put("SET.EGU", "um");
    await ioc.put("SET.HIGH", 25);
    await ioc.put("SET", 31);
    await isTrue("with changed metadata");

    await ioc.kill();
    for (const source of SOURCES) {
      const of = (record: string): Locator => shown(`${source}://${prefix}:${record}`);
      await expect(of("SET"), "the IOC is lost").toHaveValue("NaN um");
      await expect(of("MODE")).toHaveValue("NaN");
      await expect(of("TEXT")).toHaveValue("NaN");
      await expect(of("WAVE")).toHaveValue(" V");
    }
    await ioc.restart();
    await isTrue("after the restart of the IOC");

    await relay.kill();
    await expect.poll(() => outlineOf(page, `shown ca://${set}`)).toBe(DISCONNECTED);
    await expect(shown(`ca://${set}`), "the last value stays").toHaveValue("20.5 mm");
    await ioc.put("SET", -75);
    await ioc.put("SET.EGU", "nm");
    await ioc.put("MODE", 0);
    await relay.restart();
    await isTrue("after the restart of the relay");
    await expect(shown(constant)).toHaveValue(/^42\b/);
    await expect(shown(local), "a new life of the relay").toHaveValue(/^5\b/);
    await expect(shown(`pva://${set}`)).toHaveValue("-75.0 nm");
    await expect.poll(() => outlineOf(page, `set pva://${set}`), "a warning").toBe(ALARM);
  });
  await relay.kill();
  await ioc.kill();
});

/** Records of one name, each of another class, and what cs-web-lib shows of them. */
const CLASSES = {
  number: ['ao, "$(P):X") { field(VAL, "20.5") field(EGU, "mm") field(PREC, "1")', "20.5 mm"],
  array: [
    'waveform, "$(P):X") { field(FTVL, "DOUBLE") field(NELM, "4") field(INP, [1.5, -2]) ' +
      'field(EGU, "V") field(PREC, "2")',
    "1.50, -2.00 V",
  ],
  text: ['stringout, "$(P):X") { field(VAL, "5")', "5"],
  label: ['bo, "$(P):X") { field(VAL, "1") field(ZNAM, "off") field(ONAM, "on")', "on"],
} as const;

test("cs-web-lib without pvwire: a PV that comes back in another class", async ({
  page,
  pageUrl,
  port,
  serve,
}, testInfo) => {
  const prefix = `P${randomBytes(4).toString("hex")}`;
  const network = await privateEpicsNetwork();
  const relay = await Relay.start(network, [
    "--pvws",
    "--pvws-throttle-ms=0",
    "--pvws-array-throttle-ms=0",
    `--allow-origin=http://127.0.0.1:${String(port)}`,
  ]);
  const names = SOURCES.map((source) => `${source}://${prefix}:X`);
  const iocOf = async (kind: keyof typeof CLASSES): Promise<SoftIoc> => {
    const database = testInfo.outputPath(`${kind}.db`);
    await writeFile(database, `record(${CLASSES[kind][0]} field(PINI, "YES") }\n`);
    return SoftIoc.start(prefix, network, "pva", [database]);
  };

  await serve(async () => {
    const query = new URLSearchParams({ server: `127.0.0.1:${String(relay.port)}` });
    for (const name of names) query.append("pv", name);
    await page.goto(`${pageUrl}pvws.html?${query.toString()}`);
    const kinds = ["number", "array", "number", "text", "array", "text", "number"] as const;
    const last = ["label", "array", "label", "text", "label", "number"] as const;
    for (const kind of [...kinds, ...last]) {
      const ioc = await iocOf(kind);
      for (const name of names) {
        const shown = textbox(page, `shown ${name}`);
        await expect(shown, `${name} as ${kind}`).toHaveValue(CLASSES[kind][1]);
      }
      const known = await page.evaluate(
        () => JSON.parse(JSON.stringify(window.known())) as unknown,
      );
      const elements = kind === "array" ? [1.5, -2] : [];
      for (const name of names) {
        const pv = (known as Record<string, { elements?: number[] }>)[name];
        expect(pv?.elements ?? [], `elements of ${name} as ${kind}`).toEqual(elements);
      }
      await ioc.kill();
      for (const name of names) {
        const shown = textbox(page, `shown ${name}`);
        await expect(shown, "the IOC is lost").not.toHaveValue(CLASSES[kind][1]);
      }
    }
  });
  await relay.kill();
});

declare global {
  interface Window {
    known: () => unknown;
  }
}
