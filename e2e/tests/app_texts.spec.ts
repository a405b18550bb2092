/** What the app makes of pasted text and of links, and how much its first page loads. No browser is needed. */

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

import { expect, test } from "@playwright/test";
import type { PvClient } from "pvwire";

import { entriesIn, entriesOfFile, namesIn } from "../../app/src/pasted";
import { compare } from "../../app/src/columns";
import { byPrefix, groupsIn, prefixOf } from "../../app/src/groups";
import { innerRange, numbersOf } from "../../app/src/image_parts";
import { kindOf, textOf } from "../../app/src/kind";
import { distance, folded, partsOf } from "../../app/src/near";
import { kindOf as kindOfPv, type StateData } from "../../app/src/pv_kind";
import { PvList } from "../../app/src/pv_list";
import { hrefOf, parseRoute, type Route } from "../../app/src/route";
import { moodOfList, titleOf } from "../../app/src/title";
import { builtPage } from "../fixtures/built_pages";

/** What a PV page with a chart loads, compressed. */
const MAX_FIRST_LOAD_BYTES = 150 * 1024;

const PASTED: readonly (readonly [text: string, names: readonly string[]])[] = [
  ["SR:CURRENT", ["SR:CURRENT"]],
  ["  SR:CURRENT\u00a0\r\n", ["SR:CURRENT"]],
  ["\"SR:CURRENT\", 'SR:TUNE'; SR:CURRENT", ["SR:CURRENT", "SR:TUNE"]],
  ["$ caget -w 5 -t SR:CURRENT SR:TUNE", ["SR:CURRENT", "SR:TUNE"]],
  ["caget -n SR:MODE SR:TUNE", ["SR:MODE", "SR:TUNE"]],
  ["caget -s -d DBR_STRING SR:MODE", ["SR:MODE"]],
  ["camonitor -m va -n SR:MODE", ["SR:MODE"]],
  ["cainfo -s 1 SR:MODE", ["SR:MODE"]],
  ["pvget -d -M raw SR:MODE", ["SR:MODE"]],
  ["SR:MODE    *** Not connected (PV not found)", ["SR:MODE"]],
  ["[op@host ~]$ /opt/epics/bin/caput SR:SET 12", ["SR:SET"]],
  ["pvget -r value ‘SR:IMAGE’", ["SR:IMAGE"]],
  ["caget SR:A\nSR:A    301.25\nSR:B    2026-11-26 10:00:00.1 3 HIGH MINOR", ["SR:A", "SR:B"]],
  ["# magnets\nM1:TEMP.VAL\nM1:TEMP.EGU\n", ["M1:TEMP.VAL", "M1:TEMP.EGU"]],
  ["pva://SR:IMAGE ca://X", ["pva://SR:IMAGE", "ca://X"]],
  ["A<B>-C{1}:x[3]", ["A<B>-C{1}:x[3]"]],
  ['SR:A.{"dbnd":{"d": 1}}', ['SR:A.{"dbnd":{"d": 1}}']],
  ["=`SR:A` + `SR:B`", ["=`SR:A` + `SR:B`"]],
  ["sim://ramp(0, 10, 1)", ["sim://ramp(0, 10, 1)"]],
  [
    '"psim://sine(-5, 5)", ssim://enum(A|B) sim://noise SR:A',
    ["psim://sine(-5, 5)", "ssim://enum(A|B)", "sim://noise", "SR:A"],
  ],
  ["caget sim://ramp(0, 10, 1)", ["sim://ramp(0, 10, 1)"]],
  ["eq://max(`SR:A`, `SR:B`) * 2", ["eq://max(`SR:A`, `SR:B`) * 2"]],
  ["", []],
  ["12.5 ---", []],
];

for (const [text, names] of PASTED) {
  test(`names in ${JSON.stringify(text)}`, () => {
    expect(namesIn(text)).toEqual(names);
  });
}

test("a line with # is the title of a group, in a text, in a link and in what is saved", () => {
  const text = "SR:A\n# Vacuum\n SR:B, SR:C\n#---\nSR:B\n## RF \nSR:D";
  const entries = ["SR:A", "# Vacuum", "SR:B", "SR:C", "# RF", "SR:D"];
  expect(entriesIn(text)).toEqual(entries);
  expect(entriesIn(entries.join("\n"))).toEqual(entries);
  expect(groupsIn(entries)).toEqual([
    { title: "", begin: 0, end: 1 },
    { title: "Vacuum", begin: 1, end: 3 },
    { title: "RF", begin: 3, end: 4 },
  ]);
  expect(groupsIn(["# Empty", "# Full", "A"])).toEqual([{ title: "Full", begin: 0, end: 1 }]);
});

test("a PV stays in each of its groups, and comes once without groups", () => {
  const entries = ["# Vacuum", "SR:A:1", "SR:A:2", "# RF", "SR:A:1"];
  expect(entriesIn("# Vacuum\nSR:A:1 SR:A:2 SR:A:1\n# RF\nSR:A:1")).toEqual(entries);
  expect(byPrefix(entries)).toEqual(["# SR:A", "SR:A:1", "SR:A:2"]);
});

test("a file gives its names: a list, or the column PV of a table", () => {
  expect(entriesOfFile("# Vacuum\nSR:A\nSR:B\n")).toEqual(["# Vacuum", "SR:A", "SR:B"]);
  const ours = 'PV,value,state\r\nSR:A,"1,5 mA",no alarm\r\n"SR:B,C",2,"minor"\r\n';
  expect(entriesOfFile(ours)).toEqual(["SR:A", "SR:B,C"]);
  expect(entriesOfFile("PV,value\r\n'=`SR:A` + 1,2\r\n")).toEqual(["=`SR:A` + 1"]);
  const phoebus = "# Date: 2026\n#\nPV,READBACK,READ_ONLY\nSR:A,SR:R,0\nSR:B,,1\n";
  expect(entriesOfFile(phoebus)).toEqual(["SR:A", "SR:B"]);
});

/** A client with one PV, whose severity and time are set. */
function onePv() {
  const listeners = new Set<() => void>();
  let data: unknown;
  const pv = {
    subscribe: (listener: () => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    getSnapshot: () => data,
  };
  const set = (severity: string, seconds: number, state = "connected"): void => {
    data = {
      value: { number: seconds, string: String(seconds) },
      time: { seconds, nanoseconds: 0 },
      status: { severity },
      connection: { state, unresponsive: false, readable: true, since: null, lastHeard: null },
    };
    for (const listener of listeners) listener();
  };
  const client = { pv: () => pv } as unknown as PvClient;
  return { client, set };
}

test("an alarm that the page found may be older than its newest update; one that it saw begin isn't", () => {
  const { client, set } = onePv();
  const list = new PvList(client, ["SR:A"]);
  const end = list.subscribe(() => undefined);
  set("MAJOR", 100);
  expect(list.rows[0]).toMatchObject({ kind: "MAJOR", sinceMs: 100_000, then: "" });
  expect(list.rows[0]).toMatchObject({ isEarlier: true });
  set("NO_ALARM", 200);
  set("MINOR", 300);
  expect(list.rows[0]).toMatchObject({ kind: "MINOR", sinceMs: 300_000, then: "300" });
  expect(list.rows[0]).toMatchObject({ isEarlier: false });
  set("MINOR", 400, "disconnected");
  expect(list.rows[0]).toMatchObject({ kind: "gone", isEarlier: false });
  set("MINOR", 500);
  expect(list.rows[0]).toMatchObject({ kind: "MINOR", isEarlier: true });
  end();
});

test("an alarm sounds that is over before the page is drawn; what the page found is silent", () => {
  const { client, set } = onePv();
  const list = new PvList(client, ["SR:A"]);
  const end = list.subscribe(() => undefined);
  set("MAJOR", 100);
  expect(list.takeWorst()).toBeUndefined();
  set("NO_ALARM", 101);
  set("MINOR", 102);
  set("MAJOR", 103);
  set("NO_ALARM", 104);
  expect(list.takeWorst()).toBe("MAJOR");
  expect(list.takeWorst()).toBeUndefined();
  end();
});

test("names are grouped by what they have before the last colon", () => {
  expect(
    ["SR:VAC:P1", "pva://SR:VAC:P2.HIHI", "P3", "sim://ramp(0:1, 2)", "A:B.{'dbnd':{}}"].map(
      prefixOf,
    ),
  ).toEqual(["SR:VAC", "SR:VAC", "", "", "A"]);
  expect(byPrefix(["# Old", "SR:VAC:P1", "RF:V", "P3", "SR:VAC:P2", "RF:I"])).toEqual([
    "P3",
    "# SR:VAC",
    "SR:VAC:P1",
    "SR:VAC:P2",
    "# RF",
    "RF:V",
    "RF:I",
  ]);
});

test("a link gives back the state from which it was made", () => {
  const routes: Route[] = [
    {
      page: "pv",
      name: "SR:A/B?c=d&e#f,100%",
      macros: {},
      names: [],
      settings: { window: "60", lock: "1" },
    },
    {
      page: "table",
      name: "",
      macros: {},
      names: ["A,B", "# Vacuum, east", "pva://C", "# RF", "µ"],
      settings: { q: "a&b", sort: "-time", folded: "Vacuum, east\nRF" },
    },
    { page: "alarms", name: "", macros: {}, names: [], settings: {} },
    {
      page: "display",
      name: "ops/a b+c?.bob",
      macros: { P: "SR:A=1&b", "DESC,2": "" },
      names: [],
      settings: { fit: "width" },
    },
  ];
  for (const route of routes) expect(parseRoute(hrefOf(route))).toEqual(route);
  expect(parseRoute("")).toMatchObject({ page: "pv", name: "" });
  expect(parseRoute("#/pv/100%")).toMatchObject({ name: "100%" });
});

test("masked pixels are in no number of an image", () => {
  const elements = Float64Array.from({ length: 100 }, (_, at) => (at % 10 === 0 ? NaN : at));
  const picture = { width: 10, height: 10, elements, order: "mono" } as const;
  expect(numbersOf(picture)).toEqual({ low: 1, high: 99, mean: 50 });
  expect(innerRange(picture)).toEqual([1, 99]);
});

test("a NaN in a table leaves the other values in order", () => {
  const values = [3, "b", NaN, 1, "", NaN, Infinity, 2, -Infinity, "a"];
  const up = [-Infinity, 1, 2, 3, Infinity, NaN, NaN, "", "a", "b"];
  expect([...values].sort(compare)).toEqual(up);
  expect([...values].reverse().sort(compare)).toEqual(up);
  expect([...values].sort((one, other) => -compare(one, other))).toEqual([...up].reverse());
});

test("a PV that can't be read, or has no value yet, isn't one without an alarm", () => {
  const pv = (
    severity: StateData["status"]["severity"],
    change: Partial<StateData["connection"]> = {},
  ): StateData => ({
    status: { severity },
    connection: { state: "connected", unresponsive: false, readable: true, ...change },
  });
  const [some, none] = [() => true, () => false];
  expect(kindOfPv(pv(null, { readable: false }), none)).toBe("gone");
  expect(kindOfPv(pv("NO_ALARM", { readable: false }), some)).toBe("gone");
  expect(kindOfPv(pv(null), none)).toBe("gone");
  // A server that gives no alarm.
  expect(kindOfPv(pv(null), some)).toBe("NO_ALARM");
  expect(kindOfPv(pv("MAJOR"), some)).toBe("MAJOR");
  expect(kindOfPv(pv("MAJOR", { unresponsive: true }), some)).toBe("gone");
  expect(kindOfPv(pv("MAJOR", { state: "disconnected" }), some)).toBe("gone");
  expect(kindOfPv(pv(null, { state: "connecting" }), none)).toBe("searched");
  expect(kindOfPv(undefined, none)).toBe("searched");
});

test("the icon is the worst state of a list, and the title has no old value", () => {
  const kinds = ["MAJOR", "INVALID", "gone", "MINOR", "searched", "NO_ALARM"] as const;
  const none = { MAJOR: 0, INVALID: 0, gone: 0, MINOR: 0, searched: 0, NO_ALARM: 0 };
  expect(moodOfList(kinds, { ...none, INVALID: 1, gone: 2, NO_ALARM: 9 })).toBe("INVALID");
  expect(moodOfList(kinds, { ...none, gone: 2, MINOR: 1 })).toBe("LOST");
  expect(moodOfList(kinds, { ...none, MINOR: 1, searched: 3, NO_ALARM: 9 })).toBe("MINOR");
  expect(moodOfList(kinds, { ...none, searched: 3, NO_ALARM: 9 })).toBe("NO_ALARM");
  expect(moodOfList(kinds, { ...none, searched: 3 })).toBe("NONE");
  const minor = { severity: "MINOR", isPresent: true, isStale: false, text: "MINOR HIGH" } as const;
  expect(titleOf("SR:A", "3 mA", minor)).toBe("MINOR SR:A 3 mA");
  const silent = { severity: undefined, isPresent: false, isStale: true, text: "No response" };
  expect(titleOf("SR:A", "3 mA", silent)).toBe("SR:A No response");
});

test("an array has a curve by both protocols; only a single number has a chart", () => {
  const of = (elementCount: number) =>
    kindOf({ type: "Float64", typeId: "epics:nt/NTScalarArray:1.0", elementCount }, null);
  expect([1, 0, 2000].map(of)).toEqual(["number", "waveform", "waveform"]);
});

test("bytes that are shown as numbers are no text", () => {
  expect(textOf({ string: "[104, 105] V", text: "hi" })).toBeNull();
  expect(textOf({ string: "hi", text: "hi" })).toBe("hi");
  expect(textOf({ string: "1 V", text: null })).toBeNull();
});

test("numbered names are offered as one pattern, few of them by their names", () => {
  expect(folded(["A1", "A2", "B", "A30", "C1:X", "C2:X", "A4"])).toEqual([
    { name: "A*", isPattern: true },
    ...["B", "C1:X", "C2:X"].map((name) => ({ name, isPattern: false })),
  ]);
});

test("mistyped names are near", () => {
  expect(distance("SR:CURENT", "SR:CURRENT")).toBe(1);
  expect(distance("SR:CURRNET", "SR:CURRENT")).toBe(1);
  expect(distance("", "AB")).toBe(2);
  expect(partsOf("ca://SR:CURENT.EGU")).toEqual(["SR:CURENT", "CURENT", "SR", "SR:CU", "RENT"]);
});

test("the first page loads at most 150 KiB", () => {
  const folder = path.join(builtPage("app"), "app");
  const files = readdirSync(folder);
  // Loaded in another language, with other pages and their plots, to measure the latency, with a plot against a PV, with a past interval, with a structure, for a name that isn't found, with the fields of a record, with an archiver, with a formula, with an image, with a compressed or large array or a refused connection, or when a text is offered or written, or a put confirmed.
  const later =
    /^(?:language|opi|PvLatency|latency|ImageTools|ImageView|ListBox|TablePage|AlarmsPage|HealthPage|PlotsPage|SnapshotsPage|Suggestions|PvFields|PvTree|ConfirmPut|DisplayPage|DisplaysPage|columns|displays|box_state|bar_scale|context|knob|sight|BandCanvases|plots|PageTime|xy|Canvas|archive|pvwire_archive_bg|clock|tail|blosc|codec|extras|large_worker|painter|pvwire_page_bg|of_page)-/;
  const first = files.filter((file) => file.endsWith(".gz") && !later.test(file));
  const bytes = first.map((file) => readFileSync(path.join(folder, file)).length);
  const sum = bytes.reduce((all, each) => all + each, 0);
  expect(first.some((file) => file.startsWith("uPlot"))).toBe(true);
  expect(first.some((file) => file.startsWith("pvwire_wasm_bg"))).toBe(true);
  expect(sum).toBeLessThanOrEqual(MAX_FIRST_LOAD_BYTES);
  console.log(`First page of the app: ${String(sum)} bytes compressed`);
});
