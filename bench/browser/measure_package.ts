/**
 * What a page spends before it shows anything: bytes that it loads, and time until a selection is compiled. And what the
 * relay's app needs: time until values are there, memory, and steps from nothing to a user's first PV.
 */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";

import type { Page } from "playwright";

import { Child } from "../../testbed/ts/child";
import { privateEpicsNetwork, type EpicsNetwork } from "../../testbed/ts/epics";
import { DEMO_DB, PYTHON, ROOT } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { SoftIoc } from "../../testbed/ts/soft_ioc";
import { bundle, weigh } from "../../wasm-client/tests/weight";
import { renderers, type Bench, type Measurement } from "./measure";
import type { Round } from "./report";

const PACKAGE = path.join(ROOT, "wasm-client");

const bytesOf = async (entry: string): Promise<number> =>
  weigh((await bundle(path.join(PACKAGE, "ts", entry, "index.ts"))).core);

const kibOfModule = (name: string): number =>
  gzipSync(readFileSync(path.join(PACKAGE, `pkg/${name}_bg.wasm`)), { level: 9 }).length / 1024;

export const packageSize: Measurement = {
  name: "package",
  question: "How much does a page load that imports the package?",
  about: "Minified by Vite and compressed by gzip; what is loaded on demand only is not counted.",
  settings: {},
  mostRounds: 1,
  labels: {
    wasm_kb: ["WebAssembly", "KiB"],
    js_kb: ["JavaScript of `pvwire`", "KiB"],
    react_kb: ["`pvwire/react` adds", "KiB"],
    graphql_kb: ["JavaScript that `pvwire/graphql` adds", "KiB"],
    graphql_wasm_kb: ["WebAssembly that it loads with the first document", "KiB"],
    widgets_kb: ["`pvwire/widgets`, beside React and uPlot", "KiB"],
  },
  points: [
    {
      label: "sizes",
      measure: async (): Promise<Round> => {
        const core = await bytesOf("");
        return {
          wasm_kb: kibOfModule("pvwire_wasm"),
          js_kb: core / 1024,
          react_kb: ((await bytesOf("react")) - core) / 1024,
          graphql_kb: ((await bytesOf("graphql")) - core) / 1024,
          graphql_wasm_kb: kibOfModule("pvwire_graphql"),
          widgets_kb: (await bytesOf("widgets")) / 1024,
        };
      },
    },
  ],
};

/** What the page has; runs there. */
declare const measurements: NonNullable<Window["measurements"]>;

export const compiling: Measurement = {
  name: "browser-compile",
  question: "How long does it take to compile a selection?",
  about:
    "Ten selections of three to ten fields, each time with another name in it, so that none is known." +
    " `client.pv(name, selection)` with a loaded module, and the module's part alone. Least of 10 passes," +
    " median over the selections.",
  settings: {},
  labels: {
    compile_us: ["a selection, median", "µs"],
    compile_longest_us: ["a selection, longest", "µs"],
    compile_wasm_us: ["in WebAssembly, median", "µs"],
    known_us: ["a PV with a selection that is known", "µs"],
  },
  points: [
    {
      label: "selections",
      measure: async ({ open, relayUrl }) =>
        await open(async (page) => {
          const times = await page.evaluate(
            async (url) => await measurements().compileTimes(url),
            relayUrl,
          );
          return { ...times };
        }),
    },
  ],
};

const RECORDS = 1000;
const ROWS = 10_000;

interface AppBench {
  readonly page: Page;
  readonly url: string;
  readonly names: readonly string[];
}

/** The app of a relay with 1,000 records that may be written. */
async function withApp(bench: Bench, work: (app: AppBench) => Promise<Round>): Promise<Round> {
  const prefix = `B${randomBytes(4).toString("hex").toUpperCase()}`;
  const folder = mkdtempSync(path.join(tmpdir(), "pvwire-app-"));
  const database = path.join(folder, "records.db");
  const records = Array.from({ length: RECORDS }, (_, at) => `N${String(at).padStart(4, "0")}`);
  const record = (name: string, at: number): string =>
    `record(ao, "$(P):${name}") { field(VAL, "${String(at)}") field(PINI, "YES") field(ASG, "OPERATOR") }`;
  writeFileSync(database, records.map(record).join("\n"));
  const network = await privateEpicsNetwork();
  const ioc = await SoftIoc.start(prefix, network, "ca", [DEMO_DB, database]);
  const relay = await Relay.start(network, ["--enable-put", `--allow-put=${prefix}:*`]);
  const url = `http://127.0.0.1:${String(relay.port)}/`;
  const names = records.map((name) => `${prefix}:${name}`);
  try {
    return await bench.open(async (page) => await work({ page, url, names }));
  } finally {
    await relay.kill();
    await ioc.kill();
    rmSync(folder, { recursive: true });
  }
}

/** From the navigation until the frame after the one with the value, in a browser that has nothing of the app. */
async function firstValue({ names, page, url }: AppBench): Promise<Round> {
  await page.addInitScript(() => {
    const isThere = (): boolean =>
      /^\d/.test(document.querySelector('.pv-now [data-part="value"]')?.textContent ?? "");
    const check = (): void => {
      requestAnimationFrame(() => {
        if (!isThere()) check();
        else document.documentElement.dataset.firstValueMs = performance.now().toFixed(1);
      });
    };
    check();
  });
  await page.goto(`${url}#/pv/${names[0] ?? ""}`);
  const shown = page.locator("html[data-first-value-ms]");
  return { first_value_ms: Number(await shown.getAttribute("data-first-value-ms")) };
}

/** Counts frames while the rows stay, whose first one must have each value, and while they are scrolled in each frame. */
async function largeTable({ page, url }: AppBench, { ms, warmUpMs }: Bench): Promise<Round> {
  const names = Array.from(
    { length: ROWS },
    (_, at) => `sim://counter(10,start=${String(1000 * at)})`,
  );
  await page.goto(`${url}#/table?pvs=${names.map(encodeURIComponent).join(",")}`);
  await page.getByRole("button", { name: `${String(ROWS)} no alarm` }).waitFor();
  await page.waitForTimeout(warmUpMs);
  const rows = page.getByRole("region", { name: "Rows" });
  const count = (step: number): Promise<{ frames: number; values: number }> =>
    rows.evaluate(
      async (room, { ms, step }) => {
        const [began, values] = [performance.now(), new Set<string>()];
        let frames = 0;
        for (; performance.now() - began < ms; frames += 1) {
          await new Promise(requestAnimationFrame);
          values.add(room.querySelector('td[data-column="value"]')?.textContent ?? "");
          room.scrollTop += step;
        }
        const perS = 1000 / (performance.now() - began);
        return { frames: frames * perS, values: values.size * perS };
      },
      { ms, step },
    );
  const resting = await count(0);
  if (resting.values < 0.9 * 10)
    throw new Error(`a row changed ${String(resting.values)} times a second`);
  const scrolled = await count(40);
  const residentKb = (await renderers(page))
    .map((id) => readFileSync(`/proc/${id}/status`, "utf8"))
    .map((status) => Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]));
  const cdp = await page.context().newCDPSession(page);
  const { usedSize } = await cdp.send("Runtime.getHeapUsage");
  return {
    frames_per_s: resting.frames,
    scrolled_frames_per_s: scrolled.frames,
    // The browser's spare process is small.
    tab_mib: Math.max(...residentKb) / 1024,
    heap_mib: usedSize / 2 ** 20,
  };
}

/** The milliseconds in a text of the page. */
async function shownMs(page: Page, text: RegExp): Promise<number> {
  const shown = await page.getByText(text).textContent();
  return Number(/(\d+) ms/.exec(shown ?? "")?.[1]);
}

async function snapshot({ names, page, url }: AppBench): Promise<Round> {
  const press = async (name: string): Promise<void> => {
    await page.getByRole("button", { name }).click();
  };
  await page.goto(`${url}#/snapshots?pvs=${names.join(",")}`);
  // All values are there.
  await page.getByRole("button", { name: "Take 1000 PVs now" }).waitFor();
  await page.getByText("Without a value now").waitFor({ state: "hidden" });
  await press("Take 1000 PVs now");
  const taken = await shownMs(page, /^1000 values taken in \d+ ms\.$/);
  const [file] = await Promise.all([page.waitForEvent("download"), press("Save as JSON")]);
  const text = readFileSync(await file.path(), "utf8").replace(/"value":(\d+)/g, '"value":$1.5');
  const buffer = Buffer.from(text);
  const other = { name: "other.json", mimeType: "text/plain", buffer };
  await page.getByLabel("Snapshot file").setInputFiles(other);
  await page.getByRole("button", { name: "1000 differ" }).waitFor();
  await press("Restore 1000 PVs…");
  await page.getByRole("dialog").getByRole("button", { name: "Write" }).click();
  const restored = await shownMs(page, /^1000 of 1000 PVs written in \d+ ms\.$/);
  await page.getByRole("button", { name: "1000 same" }).waitFor();
  return { take_ms: taken, restore_ms: restored };
}

const run = promisify(execFile);

/** What a newcomer does: the wheel is there, and so is an IOC. */
async function fromNothing(bench: Bench): Promise<Round> {
  const wheels = path.join(ROOT, ".local/wheels");
  const wheel = readdirSync(wheels).find((name) => name.endsWith(".whl"));
  if (wheel === undefined) throw new Error(`${wheels} has no wheel: run "make wheel"`);
  const folder = mkdtempSync(path.join(tmpdir(), "pvwire-nothing-"));
  const network: EpicsNetwork = await privateEpicsNetwork();
  const prefix = `B${randomBytes(4).toString("hex").toUpperCase()}`;
  const ioc = await SoftIoc.start(prefix, network, "ca", [DEMO_DB]);
  const port = await freePort();
  let relay: Child | undefined;
  try {
    const began = performance.now();
    const seconds = (): number => (performance.now() - began) / 1000;
    let commands = 0;
    const command = async (work: Promise<unknown>): Promise<void> => {
      commands += 1;
      await work;
    };
    await command(run(PYTHON, ["-m", "venv", folder]));
    await command(run(path.join(folder, "bin/pip"), ["install", "-q", path.join(wheels, wheel)]));
    const installed = seconds();
    relay = Child.start({
      what: "relay",
      command: path.join(folder, "bin/pvwire-relay"),
      args: ["--listen", `127.0.0.1:${String(port)}`],
      env: network.env,
    });
    await command(relay.waitForOutput(/listening on https?:\/\/\S+/));
    const started = seconds();
    const shown = await bench.open(async (page) => {
      // The browser was started meanwhile; a user has it.
      const opened = seconds();
      await page.goto(`http://127.0.0.1:${String(port)}/`);
      const search = page.getByRole("combobox", { name: "PV name" });
      await search.fill(`${prefix}:RING:CURRENT`);
      await search.press("Enter");
      const value = page.locator('.pv-now [data-part="value"]');
      await value.filter({ hasText: /^\d+\.\d\d mA$/ }).waitFor();
      return seconds() - opened;
    });
    return {
      commands,
      install_s: installed,
      start_s: started - installed,
      value_s: shown,
      total_s: started + shown,
    };
  } finally {
    await relay?.kill();
    await ioc.kill();
    rmSync(folder, { recursive: true });
  }
}

export const app: Measurement = {
  name: "browser-app",
  question: "How soon does the relay's app show values, and what does it need?",
  about:
    "The app as the relay serves it. First value: from the navigation until it is painted, in a browser that has" +
    " nothing of the app. Table: 10,000 PVs of the relay at 10 Hz, with each value in the first row, then scrolled in each frame; memory of the tab's process." +
    " Snapshot: 1,000 records of a softIOC, as the page says it. From nothing: a program makes an empty Python" +
    " environment, installs the wheel with what it needs from the registry, starts the relay, opens the page, types the" +
    " name of a PV and presses Enter; without the time in which a person reads and types.",
  settings: { rows: ROWS, records: RECORDS, rate_hz: 10 },
  labels: {
    first_value_ms: ["first value", "ms"],
    frames_per_s: ["frames", "/s"],
    scrolled_frames_per_s: ["frames while it scrolls", "/s"],
    tab_mib: ["memory of the tab", "MiB"],
    heap_mib: ["of it JavaScript", "MiB"],
    take_ms: ["taken", "ms"],
    restore_ms: ["restored", "ms"],
    commands: ["commands", ""],
    install_s: ["installed", "s"],
    start_s: ["started", "s"],
    value_s: ["first own PV on the page", "s"],
    total_s: ["in all", "s"],
  },
  points: [
    { label: "first value", measure: (bench) => withApp(bench, firstValue) },
    {
      label: "table of 10,000 PVs",
      measure: (bench) => withApp(bench, (app) => largeTable(app, bench)),
    },
    { label: "snapshot of 1,000 PVs", measure: (bench) => withApp(bench, snapshot) },
    { label: "from nothing to a PV", measure: fromNothing },
  ],
};
