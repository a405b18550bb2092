/**
 * What does an update cost in a browser? Runs relay, a server of Coniql's kind, a softIOC and headless
 * Chromium, measures, and writes the results to bench/results/ as JSON and as tables.
 *
 * Fails when updates are missing or wrong; never because the machine is slow or a goal is not met.
 */

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";

import { chromium, type Browser, type Page } from "playwright";
import { build, preview } from "vite";

import { privateEpicsNetwork } from "../../testbed/ts/epics";
import { DEMO_DB, PYTHON, ROOT, THOUSAND_DB } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { SoftIoc } from "../../testbed/ts/soft_ioc";
import { serveConiql } from "./coniql_server";
import { camera } from "./measure_camera";
import { chart, wall } from "./measure_chart";
import {
  checkArrived,
  mainThread,
  performance,
  ratesOf,
  type Bench,
  type Measurement,
} from "./measure";
import { modes } from "./measure_modes";
import { app, compiling, packageSize } from "./measure_package";
import { profile, trace } from "./profile";
import type { WayName } from "./page/costs";
import type {} from "./page/main";
import { isOwn, OWN_FEEDS, PEERS, pvNames, PVS, RATE_HZ, type FeedName } from "./pvs";
import { load, origin, report, reportGoals } from "./report";
import type { Point, Round } from "./report";

const decode: Measurement = {
  name: "browser-decode",
  question:
    "What does one update cost in the page's thread, from the message to the application's callback?",
  about:
    `Frames of ${String(PVS)} updates, recorded from a relay and played to the client as fast as it takes` +
    " them, every PV with its own callback or GraphQL subscription; the same updates as Coniql's messages, one by one, to" +
    " `JSON.parse`, graphql-ws and Apollo. CPU time of the page's main thread; least of 15 passes a round.",
  settings: { pvs: PVS },
  labels: {
    decode_ns: ["decode and store", "ns"],
    callback_ns: ["the same and a callback that reads nothing", "ns"],
    light_ns: ["light selection to a callback", "ns"],
    full_ns: ["full selection to a callback", "ns"],
    everything_ns: ["everything there is to a callback", "ns"],
    graphql_light_ns: ["light GraphQL subscription to a callback", "ns"],
    graphql_full_ns: ["full GraphQL subscription to a callback", "ns"],
    graphql_apollo_ns: ["the same through Apollo without cache", "ns"],
    json_parse_ns: ["`JSON.parse` of the message to a callback", "ns"],
    graphql_ws_ns: ["graphql-ws to a callback", "ns"],
    apollo_no_cache_ns: ["Apollo without cache to a callback", "ns"],
    apollo_default_cache_ns: ["Apollo with its default cache to a callback", "ns"],
    updates_per_frame: ["updates in a frame", ""],
    bytes_per_update: ["bytes of an update in a frame", "B"],
    json_bytes_per_update: ["bytes of an update as JSON", "B"],
  },
  points: [{ label: "frames of 1,000 updates", measure: (bench) => costs(bench, WAYS) }],
};

const WAYS: readonly WayName[] = [
  "decode_ns",
  "callback_ns",
  "light_ns",
  "full_ns",
  "everything_ns",
  "graphql_light_ns",
  "graphql_full_ns",
  "graphql_apollo_ns",
  "json_parse_ns",
  "graphql_ws_ns",
  "apollo_no_cache_ns",
  "apollo_default_cache_ns",
];

/** Before it is measured a way has so much CPU time, to be compiled; then so often, each for so long. */
const WAY_WARM_UP_NS = 1e9;
const WAY_PASSES = 15;
const WAY_PASS_MS = 60;
const PROFILE_MS = 3000;

/** Runs each way in a separate page, so that what the JavaScript engine has optimised for another has no effect. */
async function costs(
  { open, profiles, relayUrl }: Bench,
  ways: readonly WayName[],
): Promise<Round> {
  const names = pvNames();
  const { recording, sizes } = await open(
    async (page) =>
      await page.evaluate(async ([url, names]) => await measurements().recordScans(url, names), [
        relayUrl,
        names,
      ] as const),
  );
  const figures: Record<string, number> = {};
  for (const way of ways) {
    figures[way] = await open(async (page) => {
      const run = async (ms: number): Promise<number> =>
        await page.evaluate(async (ms) => await measurements().runWay(ms), ms);
      await page.evaluate(
        async ([way, recording, names]) => {
          await measurements().startWay(way, recording, names);
        },
        [way, recording, names] as const,
      );
      const usedNs = await mainThread(page);
      const warmAtNs = usedNs() + WAY_WARM_UP_NS;
      while (usedNs() < warmAtNs) await run(WAY_PASS_MS);
      const passes: number[] = [];
      for (let pass = 0; pass < WAY_PASSES; pass += 1) {
        const before = usedNs();
        const frames = await run(WAY_PASS_MS);
        passes.push((usedNs() - before) / frames / sizes.updates_per_frame);
      }
      if (profiles) say(`-- ${way}\n${await profile(page, () => run(PROFILE_MS))}`);
      // What others on the machine do only ever adds: caches and cores are shared.
      return Math.min(...passes);
    });
  }
  return { ...figures, ...sizes };
}

const react: Measurement = {
  name: "browser-react",
  question: "How busy is a page that shows 1,000 changing values in React?",
  about:
    `${String(PVS)} PVs × ${String(RATE_HZ)} Hz, a component each, live: pvwire from a relay, the others the same` +
    " updates as Coniql's messages from a local server, with a store that renders once per animation" +
    " frame. By hand: pvwire's callbacks write the same text nodes, without React. Share of the main" +
    " thread as Chromium's own `TaskDuration` reports it.",
  settings: { pvs: PVS, rate_hz: RATE_HZ },
  labels: {
    main_thread_percent: ["main thread", "%"],
    main_thread_cpu_percent: ["its CPU time", "%"],
    times_by_hand: ["CPU time ÷ that of text nodes by hand", ""],
    script_percent: ["of it JavaScript", "%"],
    layout_percent: ["of it style and layout", "%"],
    frames_per_s: ["screen frames", "/s"],
    updates_per_s: ["updates that arrived", "/s"],
  },
  ratio: {
    name: "times_by_hand",
    figure: "main_thread_cpu_percent",
    of: "pvwire",
    per: "text nodes by hand",
  },
  points: [...OWN_FEEDS, ...PEERS].map((feed) => ({
    label: feed,
    measure: async (bench) => await widgets(bench, feed),
  })),
};

async function widgets(bench: Bench, feed: FeedName): Promise<Round> {
  const { coniqlUrl, open, profiles, relayUrl } = bench;
  return await open(async (page) => {
    const own = isOwn(feed);
    const url = own ? relayUrl : coniqlUrl;
    const totals = await page.evaluateHandle(
      ([feed, url]) => measurements().showWidgets(feed, url),
      [feed, url] as const,
    );
    const rates = await ratesOf(page, bench, () => totals.evaluate((read) => read()));
    if (own) checkArrived(rates.updates + rates.skipped);
    if (profiles) {
      const run = async (): Promise<void> => {
        await page.waitForTimeout(PROFILE_MS);
      };
      say(`-- ${feed}: functions\n${await profile(page, run)}`);
      say(`-- ${feed}: main thread\n${await trace(page, run)}`);
    }
    return {
      main_thread_percent: 100 * rates.TaskDuration,
      main_thread_cpu_percent: 100 * rates.cpuSeconds,
      script_percent: 100 * rates.ScriptDuration,
      layout_percent: 100 * (rates.LayoutDuration + rates.RecalcStyleDuration),
      frames_per_s: rates.paints,
      updates_per_s: rates.updates,
    };
  });
}

const latency: Measurement = {
  name: "browser-latency",
  question: "How old is a value when JavaScript is called with it?",
  about:
    `${String(PVS)} PVs × ${String(RATE_HZ)} Hz, one client, a callback each; from the time stamp that IOC or` +
    " relay has set, on the same machine. Callbacks come with the next animation frame, 60 a second.",
  settings: { pvs: PVS, rate_hz: RATE_HZ },
  labels: {
    latency_p50_ms: ["time stamp to callback, median", "ms"],
    latency_p99_ms: ["time stamp to callback, 99 %", "ms"],
    latency_max_ms: ["time stamp to callback, longest", "ms"],
    callbacks_per_s: ["callbacks", "/s"],
    updates_per_s: ["updates that arrived", "/s"],
  },
  points: [
    {
      label: "softIOC, Channel Access",
      measure: async (bench) => {
        const prefix = `B${randomBytes(4).toString("hex").toUpperCase()}`;
        const ioc = await SoftIoc.start(prefix, bench.network, "ca", [DEMO_DB, THOUSAND_DB]);
        const names = Array.from(
          { length: PVS },
          (_, pv) => `${prefix}:N${String(pv).padStart(4, "0")}`,
        );
        try {
          return await ages(bench, names);
        } finally {
          await ioc.kill();
        }
      },
    },
    { label: "PVs of the relay", measure: async (bench) => await ages(bench, pvNames()) },
  ],
};

async function ages({ ms, open, relayUrl, warmUpMs }: Bench, names: string[]): Promise<Round> {
  return await open(async (page) => {
    const figures = await page.evaluate(
      async ([url, names, warmUpMs, ms]) => await measurements().latency(url, names, warmUpMs, ms),
      [relayUrl, names, warmUpMs, ms] as const,
    );
    checkArrived(figures.updates_per_s);
    return { ...figures };
  });
}

const arrays: Measurement = {
  name: "browser-array",
  question: "How much of a large array arrives in a page, and how busy is its thread?",
  about: `One waveform of doubles at ${String(RATE_HZ)} Hz, a callback that reads it.`,
  settings: { rate_hz: RATE_HZ },
  labels: {
    megabytes_per_s: ["arrived", "MB/s"],
    updates_per_s: ["updates", "/s"],
    left_out_per_s: ["updates left out", "/s"],
    main_thread_percent: ["main thread", "%"],
  },
  points: [100_000, 1_000_000, 3_000_000].map((elements) => ({
    label: `${elements.toLocaleString("en")} doubles`,
    measure: async ({ ms, open, relayUrl, warmUpMs }) =>
      await open(async (page) => {
        const name = `sim://waveform(size=${String(elements)},rate_hz=${String(RATE_HZ)})`;
        const cdp = await page.context().newCDPSession(page);
        const before = await performance(cdp);
        const figures = await page.evaluate(
          async ([url, name, elements, warmUpMs, ms]) =>
            await measurements().arrays(url, name, elements, warmUpMs, ms),
          [relayUrl, name, elements, warmUpMs, ms] as const,
        );
        const after = await performance(cdp);
        const busy = after.TaskDuration - before.TaskDuration;
        const seconds = after.Timestamp - before.Timestamp;
        return { ...figures, main_thread_percent: (100 * busy) / seconds };
      }),
  })),
};

const MEASUREMENTS = [packageSize, decode, react, wall, latency, modes, arrays, chart, camera, app];

/** What the page has; runs there. */
declare const measurements: NonNullable<Window["measurements"]>;

const PAGE = path.join(import.meta.dirname, "page");
const BUILT = path.join(ROOT, ".local/bench-browser");

/** Runs what the command line asks for; gives the exit code. */
export async function main(words: string[]): Promise<number> {
  const { values } = parseArgs({
    args: words,
    options: {
      scenario: { type: "string", multiple: true },
      rounds: { type: "string", default: "5" },
      /** Of what takes long. */
      minutes: { type: "string", default: "10" },
      /** Only these points of a scenario, printed and not written. */
      point: { type: "string", multiple: true },
      /** One short round, printed and not written. */
      quick: { type: "boolean", default: false },
      /** Prints where each way's time goes, with names, which makes the code larger. */
      profile: { type: "boolean", default: false },
    },
  });
  const wanted = [...MEASUREMENTS, compiling].filter(
    ({ name }) => values.scenario?.includes(name) ?? true,
  );
  const isBrief = values.quick || values.profile;
  const rounds = isBrief ? 1 : Number(values.rounds);
  const keep = !isBrief && values.point === undefined;
  const [warmUpMs, ms, longMs] = values.quick
    ? [2000, 2000, 30_000]
    : [3000, 8000, 60_000 * Number(values.minutes)];

  await build({
    root: PAGE,
    logLevel: "error",
    build: { outDir: BUILT, emptyOutDir: true, minify: !values.profile },
  });
  mkdirSync(path.dirname(THOUSAND_DB), { recursive: true });
  writeFileSync(THOUSAND_DB, execFileSync(PYTHON, [path.join(ROOT, "tools/thousand_db.py")]));

  const [pagePort, coniqlPort, network] = await Promise.all([
    freePort(),
    freePort(),
    privateEpicsNetwork(),
  ]);
  const host = "127.0.0.1";
  const server = await preview({
    root: PAGE,
    logLevel: "error",
    build: { outDir: BUILT },
    preview: { port: pagePort, host, strictPort: true },
  });
  const pageUrl = `http://${host}:${String(pagePort)}`;
  const endConiql = await serveConiql(coniqlPort);
  const relay = await Relay.start(network, [`--allow-origin=${pageUrl}`]);
  const bench: Bench = {
    open: async (work) => await withPage(pageUrl, work),
    pageUrl,
    relayUrl: `ws://${host}:${String(relay.port)}/ws`,
    coniqlUrl: `ws://${host}:${String(coniqlPort)}`,
    network,
    warmUpMs,
    ms,
    longMs,
    profiles: values.profile,
  };
  try {
    for (const { points, ...scenario } of wanted) {
      const some = points.filter(({ label }) => values.point?.includes(label) ?? true);
      await carryOut({ ...scenario, points: some }, bench, rounds, keep);
    }
    if (keep) say(reportGoals());
    return 0;
  } finally {
    await relay.kill();
    await endConiql();
    await server.close();
  }
}

/** All rounds, each of all points in turn. */
async function carryOut(
  { mostRounds = Infinity, points, ...scenario }: Measurement,
  bench: Bench,
  wantedRounds: number,
  keep: boolean,
): Promise<void> {
  const before = load();
  const rounds = Math.min(wantedRounds, mostRounds);
  const measured: (Point & { rounds: Round[] })[] = points.map(({ label }) => ({
    label,
    rounds: [],
  }));
  for (let round = 1; round <= rounds; round += 1) {
    say(`== ${scenario.name}: round ${String(round)} of ${String(rounds)}`);
    for (const [at, { measure }] of points.entries()) {
      measured[at]?.rounds.push(await measure(bench));
    }
  }
  const version = await bench.open((page) => Promise.resolve(page.context().browser()?.version()));
  const circumstances = {
    ...origin(),
    browser: `Chromium ${version ?? "?"}, headless`,
    load_average_before: before,
    load_average_after: load(),
  };
  say(`\n${report(scenario, measured, circumstances, keep)}`);
}

async function withPage<T>(url: string, work: (page: Page) => Promise<T>): Promise<T> {
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1600, height: 1200 } });
    const failed = new Promise<never>((_, reject) => {
      page.on("pageerror", reject);
    });
    await page.goto(url);
    await page.waitForFunction(() => window.measurements !== undefined);
    return await Promise.race([work(page), failed]);
  } finally {
    await browser.close();
  }
}

async function launch(): Promise<Browser> {
  const browsers = ["chromium", "google-chrome", "chromium-headless-shell"];
  const system = browsers.map((name) => `/usr/bin/${name}`).find((file) => existsSync(file));
  const executablePath = process.env.PVWIRE_CHROMIUM ?? system;
  return await chromium.launch({
    ...(executablePath === undefined ? {} : { executablePath }),
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"],
  });
}

const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
