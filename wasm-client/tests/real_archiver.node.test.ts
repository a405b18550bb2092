/** The past of a real PV from the HTTP face of an archiver, a real relay's memory, and live updates, as one. */

import { randomBytes } from "node:crypto";
import path from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { Child } from "../../testbed/ts/child.js";
import { DEADLINE_MS } from "../../testbed/ts/deadline.js";
import { PYTHON, ROOT } from "../../testbed/ts/paths.js";
import { freePort } from "../../testbed/ts/ports.js";
import { Relay } from "../../testbed/ts/relay.js";
import { Tail } from "../ts/history/tail.js";
import type { LivePvHistory, PvClient } from "../ts/index.js";
import { archiveWasm } from "./golden.js";
import { clientOf, startIoc, type RealIoc } from "./real.js";

/** Seconds between two samples of the archiver. */
const STEP = 10;
const STEP_NS = BigInt(STEP) * 1_000_000_000n;

const prefix = `V${randomBytes(4).toString("hex")}`;
const COUNTER = `${prefix}:N`;

let archiver: Child;
let ioc: RealIoc;
let relay: Relay;
let client: PvClient;

beforeAll(async () => {
  const record = `record(calc, "${COUNTER}") { field(CALC, "VAL+1") field(SCAN, ".1 second") }`;
  ioc = await startIoc(prefix, record);
  const port = await freePort();
  archiver = Child.start({
    what: "archiver",
    command: PYTHON,
    args: [path.join(ROOT, "testbed/python/archiver.py"), String(port), String(STEP)],
    env: {},
  });
  await archiver.waitForOutput(/running/);
  const flags = ["--history=*=1h", `--archiver=*=http://127.0.0.1:${String(port)}/retrieval`];
  relay = await Relay.start(ioc.network, flags);
  client = clientOf(relay.port, archiveWasm && { archiveWasm });
});

afterAll(async () => {
  client.dispose();
  await relay.kill();
  await archiver.kill();
  await ioc.end();
});

/** Number of the archived sample at a time. */
const number = (ns: bigint): number => Number((ns / STEP_NS) % 1000n);

it("a past is one line: archived samples, what the relay keeps, and live updates", async () => {
  let shown: LivePvHistory | undefined;
  const tail: Tail = new Tail(client, COUNTER, { from: "-10m" }, () => {
    shown = tail.shown;
  });
  const live = (): LivePvHistory => shown ?? tail.shown;
  const isArchived = (ns: bigint): boolean => ns % STEP_NS === 0n;
  await expect.poll(() => live().timeNs.length, { timeout: DEADLINE_MS }).toBeGreaterThan(80);
  // On a busy machine an update may be left out, which is counted.
  const skipped = client.inspect(COUNTER)?.skipped;
  tail.end();
  const { error, gaps, numbers, timeNs } = live();
  expect(error).toBeUndefined();
  expect(gaps).toEqual([]);
  expect(timeNs.every((ns, row) => row === 0 || ns > (timeNs[row - 1] ?? 0n))).toBe(true);
  const first = timeNs.findIndex((ns) => !isArchived(ns));
  expect(first).toBeGreaterThanOrEqual(59);
  let missing = 0;
  for (let row = 0; row < timeNs.length; row += 1) {
    const ns = timeNs[row] ?? 0n;
    if (row < first) {
      expect(numbers[row]).toBe(number(ns));
      expect(ns - (timeNs[row - 1] ?? ns - STEP_NS)).toBe(STEP_NS);
    } else if (row > first) {
      missing += (numbers[row] ?? NaN) - (numbers[row - 1] ?? NaN) - 1;
    }
  }
  expect(missing).toBe(skipped);
  // The last archived sample is just before the first one that the relay has.
  expect((timeNs[first] ?? 0n) - (timeNs[first - 1] ?? 0n)).toBeLessThanOrEqual(STEP_NS);
});

it("years are thinned by the archiver, texts and enums come as they are, and an unknown PV has no past", async () => {
  const range = { from: "2021-06-01T00:00:00Z", to: "2023-06-01T00:00:00Z" };
  const days = { from: "2021-12-30T00:00:00Z", to: "2022-01-03T00:00:00Z" };
  const thinned = await client.history(`${prefix}:X`, { ...days, points: 400 });
  expect(thinned.archiveError).toBeUndefined();
  expect(thinned.timeNs.length).toBeGreaterThan(250);
  expect(thinned.timeNs.length).toBeLessThan(1000);
  const rows = thinned.bins.reduce((sum, bin) => sum + bin.rows, 0);
  expect(rows).toBe(thinned.timeNs.length);
  const samples = thinned.bins.reduce((sum, bin) => sum + bin.updates, 0);
  expect(samples).toBe((4 * 86_400) / STEP + 1);
  expect(Math.max(...thinned.numbers)).toBe(999);
  expect(Math.max(...thinned.severities)).toBe(2);
  const text = await client.history(`${prefix}:X:text`, {
    ...days,
    points: 400,
    to: "2021-12-30T00:01:00Z",
  });
  expect(text.texts.get(0)).toBe(
    `text ${String(number(BigInt(Date.parse(days.from)) * 1_000_000n))}`,
  );
  expect(text.hasHeld).toBe(true);
  const unknown = await client.history(`${prefix}:X:unknown`, range);
  expect([unknown.timeNs.length, unknown.archiveError]).toEqual([0, undefined]);
  const failing = await client.history(`${prefix}:X:cut`, days);
  expect(failing.archiveError).toMatchObject({ code: "FAILED" });
  expect(failing.archiveError?.message).toContain("was cut");
});
