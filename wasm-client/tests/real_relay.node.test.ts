/** The client with a real relay and a real IOC, where the tests' relay could be wrong. */

import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";

import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";

import { DEADLINE_MS } from "../../testbed/ts/deadline.js";
import { Relay } from "../../testbed/ts/relay.js";
import { IN_USE, type StreamFault, StreamProxy } from "../../testbed/ts/link_proxy.js";
import { within } from "../../testbed/ts/within.js";
import { createGraphqlClient } from "../ts/graphql/index.js";
import {
  type ConnectionSnapshot,
  createClient,
  type PutResult,
  type PvClient,
  type PvHistory,
} from "../ts/index.js";
import { clientOf, IN_NODE, type RealIoc, startIoc } from "./real.js";

const RECORDS = `
  record(ao, "$(P):SET") { field(VAL, "1") field(PINI, "YES") }
  record(ao, "$(P):PAST:SET") { field(VAL, "1") field(PINI, "YES") }
  record(stringout, "$(P):TEXT:SET") { field(VAL, "before") field(PINI, "YES") }
  record(ao, "$(P):LOCKED") { field(VAL, "2") field(PINI, "YES") }
  record(ao, "$(P):SECRET") { field(VAL, "3") field(PINI, "YES") }
  record(waveform, "$(P):WAVE:SET") { field(FTVL, "UINT64") field(NELM, "3") }
  record(waveform, "$(P):LINE:SET") { field(FTVL, "CHAR") field(NELM, "99") info(Q:form, "String") }
`;

/** A busy machine may take longer to find a PV than a screen would wait. */
const PATIENT = { timeoutMs: DEADLINE_MS };

const prefix = `V${randomBytes(4).toString("hex")}`;
const pv = (name: string): string => `${prefix}:${name}`;

let ioc: RealIoc;
let relay: Relay;
let client: PvClient;

beforeAll(async () => {
  ioc = await startIoc(prefix, RECORDS);
  const rules = path.join(ioc.folder, "rules.toml");
  const text = `[[rule]]\npv = "${pv("SECRET")}"\ndeny = ["read", "put"]\n`;
  await writeFile(rules, `${text}[[rule]]\npv = "*"\nallow = "read"\n`);
  const flags = [
    "--config",
    rules,
    `--history=${pv("PAST:SET")}=1h`,
    "--enable-put",
    `--allow-put=${prefix}:*SET`,
  ];
  relay = await Relay.start(ioc.network, flags);
  client = clientOf(relay.port);
});

afterAll(async () => {
  client.dispose();
  await relay.kill();
  await ioc.end();
});

/** What became of puts, as codes. */
const codes = (results: readonly PutResult[]): string[] =>
  results.map((result) => (result.ok ? "DONE" : result.error.code));

it("reads the past of a PV that the relay keeps, and no other", async () => {
  const name = pv("PAST:SET");
  await client.get([name], PATIENT);
  await client.put(name, 5, { wait: true });
  // The update may come after the put is done.
  const past = (): Promise<PvHistory> => client.history(name, { from: "-1h" });
  await expect.poll(async () => [...(await past()).numbers]).toEqual([1, 5]);
  const { timeNs } = await past();
  expect(Math.abs(Number(timeNs[1]) / 1e6 - Date.now())).toBeLessThan(DEADLINE_MS);
  await expect(client.history(pv("SECRET"))).rejects.toMatchObject({ code: "NOT_ALLOWED" });
  await expect(client.history(name, { points: 3 })).rejects.toMatchObject({ code: "BAD_VALUE" });
});

it("get of a denied name says which rule denies it", async () => {
  const [secret, open] = await client.get([pv("SECRET"), pv("SET")], PATIENT);
  expect(secret).toMatchObject({ ok: false, error: { code: "NOT_ALLOWED", pv: pv("SECRET") } });
  expect(secret?.ok === false && secret.error.message).toContain("rule 1");
  expect(open).toMatchObject({ ok: true, data: { value: { number: 1 } } });
});

it("the largest 64-bit integer is put by pvAccess and read back", async () => {
  const name = `pva://${pv("WAVE:SET")}`;
  const most = 18446744073709551615n;
  expect(await client.put(name, [most, 0n], PATIENT)).toMatchObject({ ok: true });
  const [result] = await client.get([name], PATIENT);
  expect(result?.ok === true && result.data.value?.array).toEqual(BigUint64Array.of(most, 0n));
});

it("putMany has a result each; allPermitted sends all or none", async () => {
  const [set, text, locked] = ["SET", "TEXT:SET", "LOCKED"].map(pv) as [string, string, string];
  const puts = [
    [set, 5],
    [locked, 6],
    [text, "after"],
    [set, "abc"],
    [set, 7],
  ] as const;
  const valuesNow = async (): Promise<unknown[]> => {
    const results = await client.get([set, locked, text], PATIENT);
    return results.map((result) => (result.ok ? result.data.value?.string : result.error.code));
  };
  const all = await client.putMany(puts, { ...PATIENT, allPermitted: true, wait: true });
  expect(codes(all)).toEqual(["WITHHELD", "NOT_ALLOWED", "WITHHELD", "WITHHELD", "WITHHELD"]);
  expect(await valuesNow()).toEqual(["1", "2", "before"]);
  const some = await client.putMany(puts, { ...PATIENT, wait: true });
  expect(codes(some)).toEqual(["DONE", "NOT_ALLOWED", "DONE", "BAD_VALUE", "DONE"]);
  expect(await valuesNow()).toEqual(["7", "2", "after"]);
});

it("an array of characters reads as text, by Channel Access too", async () => {
  const line = pv("LINE:SET");
  expect(await client.put(line, "Träger läuft", { ...PATIENT, wait: true })).toMatchObject({
    ok: true,
  });
  const shown = client.pv<{ value: { string: string } | null }>(line, "{ value { string } }");
  const end = shown.subscribe(() => undefined);
  await expect.poll(() => shown.getSnapshot()?.value?.string).toBe("Träger läuft");
  end();
});

it("a mutation writes the permitted puts and reports the others", async () => {
  const graphql = createGraphqlClient(client);
  const result = await graphql.execute({
    query: `mutation ($ids: [ID!]!) {
      putChannels(ids: $ids, values: ["9", "10", "by GraphQL"], timeout: 30, wait: true) { value { string } }
    }`,
    variables: { ids: ["SET", "LOCKED", "TEXT:SET"].map(pv) },
  });
  expect(result.data).toEqual({
    putChannels: [{ value: { string: "9" } }, null, { value: { string: "by GraphQL" } }],
  });
  expect(result.errors).toMatchObject([
    { path: ["putChannels", 1], extensions: { code: "NOT_ALLOWED", mayBeWritten: false } },
  ]);
});

it("a relay that hangs shows on every PV within 3 s", async () => {
  interface Shown {
    readonly status: { readonly quality: string };
    readonly connection: { readonly unresponsive: boolean; readonly lastHeard: string | null };
  }
  const selection = "{ status { quality } connection { unresponsive lastHeard } }";
  const shown = client.pv<Shown>(pv("SET"), selection);
  let calls = 0;
  const end = shown.subscribe(() => (calls += 1));
  const now = (): Shown | undefined => shown.getSnapshot();
  await expect.poll(() => now()?.status.quality).toBe("VALID");
  const before = calls;
  let heardMs = NaN;
  await within(3500, async () => {
    relay.resume();
    await expect.poll(() => now()?.connection.unresponsive).toBe(false);
    const beganMs = Date.now();
    relay.hang();
    await expect.poll(() => now()?.connection.unresponsive, { interval: 20 }).toBe(true);
    const tookMs = Date.now() - beganMs;
    heardMs = Date.parse(now()?.connection.lastHeard ?? "");
    // Nothing may have come for up to two seconds before.
    return Math.abs(heardMs - beganMs) < 2500 ? tookMs : Infinity;
  });
  expect(calls).toBeGreaterThan(before);
  expect(now()?.status.quality).toBe("UNDEFINED");
  const { silentSinceMs, state } = client.connection.getSnapshot();
  expect([state, silentSinceMs]).toEqual(["open", expect.closeTo(heardMs, -2)]);
  relay.resume();
  await expect.poll(() => now()?.status.quality).toBe("VALID");
  expect(now()?.connection).toEqual({ unresponsive: false, lastHeard: null });
  expect(client.connection.getSnapshot().silentSinceMs).toBeUndefined();
  expect(client.stats.getSnapshot().reconnectsTotal).toBe(0);
  end();
});

it("a client of two relays moves to the other one when its relay is killed", async () => {
  const flags = ["--enable-put", `--allow-put=${prefix}:*SET`];
  const pair = await Promise.all([
    Relay.start(ioc.network, flags),
    Relay.start(ioc.network, flags),
  ]);
  const urls = pair.map(({ port }) => `ws://127.0.0.1:${String(port)}/ws`);
  const mover = createClient({ urls, ...IN_NODE });
  const set = mover.pv(pv("SET"));
  set.subscribe(() => undefined);
  const shown = (): unknown => {
    const { connection, status, value } = set.getSnapshot() ?? {};
    return [connection?.state, status?.writable, value?.number];
  };
  try {
    expect(await mover.put(pv("SET"), 21, { ...PATIENT, wait: true })).toMatchObject({ ok: true });
    await expect.poll(shown).toEqual(["connected", true, 21]);
    const { relayUrl } = mover.connection.getSnapshot();
    await pair[urls.indexOf(relayUrl)]?.kill();
    // Without a connection nothing is written, so this waits for the other relay.
    await expect.poll(() => mover.connection.getSnapshot().relayUrl).not.toBe(relayUrl);
    await expect.poll(() => mover.connection.getSnapshot().state).toBe("open");
    expect(await mover.put(pv("SET"), 22, { ...PATIENT, wait: true })).toMatchObject({ ok: true });
    await expect.poll(shown).toEqual(["connected", true, 22]);
  } finally {
    mover.dispose();
    await Promise.all(pair.map((one) => one.kill()));
  }
});

/** The longest pause of a small PV: 3 s, and the time that a busy machine takes to reconnect. */
const MOST_PAUSE_MS = 6000;

const COUNTER = "sim://counter(rate_hz=20)";
const WAVE = "sim://waveform(100000,rate_hz=5)";

afterEach(() => {
  vi.restoreAllMocks();
});

/**
 * A stream of large values that stalls, trickles, is buffered, refused or cut on its way: large values arrive all the
 * same.
 */
it.each(Object.keys(IN_USE) as StreamFault[])("%s: small PVs go on within 3 s", async (fault) => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const proxy = await StreamProxy.start(relay.port, fault);
  const page = clientOf(proxy.port);
  const states: ConnectionSnapshot[] = [];
  page.connection.subscribe(() => states.push(page.connection.getSnapshot()));

  let [longest, last, small, large] = [0, Date.now(), 0, 0];
  const counter = page.pv(COUNTER);
  const wave = page.pv(WAVE);
  counter.subscribe(() => {
    small += 1;
    if (small > 1) longest = Math.max(longest, Date.now() - last);
    last = Date.now();
  });
  wave.subscribe(() => (large += 1));
  await expect.poll(() => proxy.streams).toBeGreaterThan(0);
  if (IN_USE[fault]) {
    await expect.poll(() => warned.mock.calls.flat().join()).toContain("stream of large values");
    const lost = states.find(({ state }) => state === "lost");
    expect(lost?.reason).toContain("the stream of large values");
  }
  const [smallBefore, largeBefore] = [small, large];
  await expect.poll(() => small - smallBefore).toBeGreaterThan(40);
  await expect.poll(() => large - largeBefore).toBeGreaterThan(5);

  expect(longest).toBeLessThan(MOST_PAUSE_MS);
  expect(page.connection.getSnapshot().state).toBe("open");
  expect(counter.getSnapshot()?.connection.state).toBe("connected");
  expect(states.some(({ state }) => state === "lost")).toBe(IN_USE[fault]);
  page.dispose();
  proxy.end();
});
