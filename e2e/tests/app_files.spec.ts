/** What the app's snapshots compute: files and tolerances. No browser is needed. */

import { expect, test } from "@playwright/test";
import { PutError, type PutResult } from "pvwire";

import { compare, EXACT, toleranceOf } from "../../app/src/snapshots/compare";
import { jsonOf, snapshotOfJson } from "../../app/src/snapshots/json_file";
import { phoebusOf, snapshotOfPhoebus } from "../../app/src/snapshots/phoebus_file";
import { foresee, restore, writesOf } from "../../app/src/snapshots/restore";
import {
  missingPv,
  savedOf,
  type FullData,
  type SavedPv,
  type Snapshot,
} from "../../app/src/snapshots/snapshot";

const PV: SavedPv = {
  name: "SR:A",
  value: 1.5,
  missing: "",
  type: "Float64",
  choices: undefined,
  text: "1.5 mA",
  severity: "MINOR",
  status: "HIGH",
  seconds: 1_760_000_000,
  nanoseconds: 5,
  tolerance: "",
};

const snapshotOf = (pvs: readonly SavedPv[]): Snapshot => ({
  id: "1",
  title: "Good beam",
  comment: "first line\nsecond line",
  takenMs: Date.UTC(2026, 0, 31, 7, 31, 16, 42),
  pvs,
});

/** What is known of a PV that can be written. */
const DATA = {
  value: { string: "1", number: 1, exact: null, text: null, array: null },
  time: null,
  status: { severity: "NO_ALARM", alarmStatus: "NO_ALARM", mutable: true, writable: true },
  display: {
    type: "Float64",
    typeId: "",
    form: null,
    choices: null,
    controlRange: { min: 0, max: 2 },
  },
  connection: {
    state: "connected",
    connected: true,
    unresponsive: false,
    readable: true,
    reason: null,
  },
} as const satisfies FullData;

const VALUES: readonly SavedPv[] = [
  { ...PV, name: "SR:B,C", tolerance: "0.1" },
  { ...PV, value: NaN },
  { ...PV, name: "I", value: -Infinity, type: "Float32" },
  { ...PV, name: "L", value: 9_007_199_254_740_993n, type: "Int64" },
  { ...PV, name: "U8", value: 255, type: "UInt8" },
  { ...PV, name: "S", value: "a, b c", type: "String", severity: "NO_ALARM", status: "NO_ALARM" },
  { ...PV, name: "E", value: 1, type: "Enum", choices: ["Off", "Top-up"] },
  { ...PV, name: "W", value: [1, -2.5, 1e300], type: "Float64" },
  { ...PV, name: "WL", value: [1, 9_007_199_254_740_993n], type: "Int64" },
  { ...PV, name: "WS", value: ["a", "", "b c"], type: "String" },
  missingPv("GONE", "disconnected"),
];

test("a snapshot's JSON gives back each value exactly", () => {
  const pvs = [...VALUES, { ...PV, name: "Q", value: 'a "b";~\nc', type: "String" as const }];
  const read = snapshotOfJson(jsonOf(snapshotOf(pvs)), "x");
  expect(read).toMatchObject({ title: "Good beam", comment: "first line\nsecond line" });
  expect(read.takenMs).toBe(snapshotOf([]).takenMs);
  expect(read.pvs.map((pv) => ({ ...pv, text: "" }))).toEqual(
    pvs.map((pv) => ({ ...pv, text: "" })),
  );
  expect(() => snapshotOfJson("{}", "x")).toThrow("no snapshot");
});

test("a file that has a PV twice is refused: which value is meant is unknown", () => {
  const text = jsonOf(snapshotOf([PV, { ...PV, value: 2 }]));
  expect(() => snapshotOfJson(text, "x")).toThrow("the file has SR:A twice");
});

test("a restore that is stopped writes nothing more, and says what it has not written", async () => {
  const ending = new AbortController();
  const written: string[] = [];
  const counts: number[] = [];
  const putMany = (puts: readonly (readonly [string, unknown])[]) => {
    written.push(...puts.map(([name]) => name));
    return Promise.resolve(puts.map(() => ({ ok: true }) as PutResult));
  };
  const pvs = Array.from({ length: 100 }, (_, at) => ({ ...PV, name: `P${String(at)}` }));
  const outcomes = await restore(
    { putMany },
    writesOf(pvs, new Map(), () => undefined),
    {
      signal: ending.signal,
      onProgress: (count) => {
        counts.push(count);
        ending.abort();
      },
    },
  );
  // What was on its way is told as it ended.
  expect(written).toHaveLength(36);
  expect(counts[0]).toBe(9);
  expect(outcomes.size).toBe(100);
  expect(outcomes.get("P0")?.kind).toBe("written");
  expect(outcomes.get("P99")).toEqual({
    kind: "refused",
    text: "not written: the restore was stopped",
  });
});

test("Phoebus's file has what it can have, and names what it can't", () => {
  const { text, unfit } = phoebusOf(snapshotOf(VALUES));
  expect(unfit).toEqual([]);
  const lines = text.split("\n");
  expect(lines).toContain("# Good beam");
  expect(lines).toContain(
    'E,1,1760000000.000000005,HIGH,MINOR,enum,"Top-up~[Off;Top-up]",,"---",,0',
  );
  expect(lines).toContain(
    'W,1,1760000000.000000005,HIGH,MINOR,double_array,"[1;-2.5;1e+300]",,"---",,0',
  );
  expect(lines).toContain('S,1,1760000000.000000005,NONE,NONE,string,"a, b c",,"---",,0');
  expect(lines).toContain('GONE,1,0.000000000,UNDEFINED,UNDEFINED,na,"---",,"---",,0');
  // Phoebus doesn't read unsigned types.
  expect(lines).toContain('U8,1,1760000000.000000005,HIGH,MINOR,short,"255",,"---",,0');
  const read = snapshotOfPhoebus(text, "x");
  expect(read).toMatchObject({ title: "Good beam", comment: "first line\nsecond line" });
  expect(read.takenMs).toBe(snapshotOf([]).takenMs);
  expect(read.pvs.map(({ name, value }) => [name, value])).toEqual(
    VALUES.map(({ name, value }) => [name, value]),
  );
  expect(read.pvs[0]).toMatchObject({
    tolerance: "0.1",
    nanoseconds: 5,
    severity: "MINOR",
    status: "HIGH",
  });

  const odd = [
    { ...PV, name: "Q", value: 'say "no"', type: "String" as const },
    { ...PV, name: "T", value: "a~b", type: "String" as const },
    { ...PV, name: "ULONG", value: 2n ** 64n - 1n, type: "UInt64" as const },
    { ...PV, name: "CH", value: 0, type: "Enum" as const, choices: ["a;b", "c"] },
    { ...PV, name: "NONE", value: [], type: "Float64" as const },
  ];
  const other = phoebusOf(snapshotOf(odd));
  expect(other.unfit).toEqual(["Q", "T", "ULONG", "CH", "NONE"]);
  expect(snapshotOfPhoebus(other.text, "x").pvs.every(({ value }) => value === undefined)).toBe(
    true,
  );
});

test("Phoebus's file gives back no other choice and no other texts", () => {
  const choices = ["Zero", "One", "One", " Two"];
  const fit = [
    { ...PV, name: "E", value: 3, type: "Enum", choices },
    { ...PV, name: "WS", value: [" a", "b ", ""], type: "String" },
  ] as const;
  const odd = [
    { ...PV, name: "EQUAL", value: 2, type: "Enum", choices },
    { ...PV, name: "EMPTY", value: [""], type: "String" },
  ] as const;
  const { text, unfit } = phoebusOf(snapshotOf([...fit, ...odd]));
  expect(unfit).toEqual(["EQUAL", "EMPTY"]);
  const values = snapshotOfPhoebus(text, "x").pvs.map(({ value }) => value);
  expect(values).toEqual([3, [" a", "b ", ""], undefined, undefined]);
  // Another program writes such labels.
  const { pvs } = snapshotOfPhoebus("PV,VALUE_TYPE,VALUE\nA,enum,One~[One;One]", "x");
  expect(pvs[0]).toMatchObject({
    value: undefined,
    missing: "the file has several choices “One”",
  });
});

test("an older .snp of Phoebus is read, with its order of columns and bare values", () => {
  const text = [
    "# Date: 2016-03-03 12:30:33.400",
    "PV,READBACK,READBACK_VALUE,DELTA,READ_ONLY,TIMESTAMP,STATUS,SEVERITY,VALUE_TYPE,VALUE",
    "A,,---,0.5,false,1457004633.250000000,NO_ALARM,NONE,double,3.25",
    "B,,---,,false,1457004633.1,HIHI_ALARM,MAJOR,double_array,[1.0;2.0]",
    "C,,---,,false,0.0,UDF,INVALID,enum,On~[Off;On]",
    "D,,---,,true,,,,na,---",
  ].join("\r\n");
  const { pvs, takenMs, title } = snapshotOfPhoebus(text, "old");
  expect(title).toBe("old");
  expect(takenMs).toBe(Date.parse("2016-03-03T12:30:33.400"));
  expect(pvs.map(({ value }) => value)).toEqual([3.25, [1, 2], 1, undefined]);
  expect(pvs[0]).toMatchObject({ tolerance: "0.5", severity: "NO_ALARM", seconds: 1_457_004_633 });
  expect(() => snapshotOfPhoebus("PV,READBACK,READ_ONLY\nA,,0", "x")).toThrow("without values");
  const bad = "PV,VALUE_TYPE,VALUE\nA,int,1.5";
  expect(() => snapshotOfPhoebus(bad, "x")).toThrow("“1.5” is no value of the type int");
});

test("a text that Phoebus's file can't have is no value, and is not written", () => {
  const columns = "PV,SELECTED,TIMESTAMP,STATUS,SEVERITY,VALUE_TYPE,VALUE,READBACK,READ_ONLY";
  const texts = ['"say "hi" now"', '"say ""hi"" now"', '"a ""b, c"" d"', '"[""a"";""b""]"'];
  const rows = texts.map((text, at) => `A${String(at)},1,1.5,NONE,NONE,string,${text},,1`);
  // A line feed in a text.
  rows.push('B,1,1.5,NONE,NONE,string,"one', 'two",,1', "C,1,1.5,NONE,NONE,string,whole,,0");
  const { pvs } = snapshotOfPhoebus([columns, ...rows].join("\n"), "x");
  const read = pvs.filter(({ value }) => value !== undefined);
  expect(read.map(({ name, value }) => [name, value])).toEqual([["C", "whole"]]);
  expect(pvs.find(({ name }) => name === "A0")?.missing).toContain("quotation mark");
});

test("a number where a JSON file has a text is taken as its text, and anything else is refused", () => {
  const file = (tolerance: unknown): string =>
    JSON.stringify({
      format: "pvwire-snapshot",
      version: 1,
      title: 2024,
      pvs: [{ name: "A", type: "Float64", value: 1, tolerance }],
    });
  const read = snapshotOfJson(file(0.1), "x");
  expect([read.title, read.pvs[0]?.tolerance]).toEqual(["2024", "0.1"]);
  expect(() => snapshotOfJson(file({}), "x")).toThrow("a tolerance of the file is no text");
});

test("rows that Phoebus must not write, its tolerances, blanks and short floats stay so", async () => {
  const rows = [
    { ...PV, name: "RO", readOnly: true },
    { ...PV, name: "T", tolerance: "0,5 %" },
    { ...PV, name: "S", value: " a ", type: "String" },
    { ...PV, name: "D", value: "---", type: "String" },
    { ...PV, name: "F", value: Math.fround(0.1), type: "Float32" },
  ] as const;
  const { text, unfit } = phoebusOf(snapshotOf(rows));
  expect(unfit).toEqual(["D"]);
  const { pvs } = snapshotOfPhoebus(text.replace(String(Math.fround(0.1)), "0.1"), "x");
  expect(pvs.map(({ readOnly }) => readOnly === true)).toEqual([true, false, false, false, false]);
  expect(pvs.map(({ value }) => value)).toEqual([1.5, 1.5, " a ", undefined, Math.fround(0.1)]);
  expect(pvs[1]?.tolerance).toBe("0.5%");
  expect(snapshotOfJson(jsonOf(snapshotOf(rows)), "x").pvs[0]?.readOnly).toBe(true);
  const { kind } = foresee(rows[0], undefined);
  expect(kind).toBe("refused");

  // What the forecast refused isn't written, although it could be by then.
  const written: string[] = [];
  const putMany = (puts: readonly (readonly [string, unknown])[]) => {
    written.push(...puts.map(([name]) => name));
    return Promise.resolve(puts.map(() => ({ ok: true }) as PutResult));
  };
  const forecast = new Map([["T", { kind: "refused", text: "disconnected" } as const]]);
  const outcomes = await restore(
    { putMany },
    writesOf(rows, forecast, () => undefined),
  );
  expect(written).toEqual(["S", "D", "F"]);
  expect(outcomes.get("T")?.text).toBe("disconnected");
});

test("a restore of many PVs keeps 36 puts on their way, and waits while the relay takes no more", async () => {
  const count = 100;
  const puts = Array.from({ length: count }, (_, at) => [`P${String(at)}`, at] as const);
  const written: string[] = [];
  let [open, most, refusals] = [0, 0, 0];
  const putMany = async (some: readonly (readonly [string, unknown])[]) => {
    open += some.length;
    most = Math.max(most, open);
    await Promise.resolve();
    open -= some.length;
    return some.map(([name]): PutResult => {
      if (written.length >= 64 && refusals < 20) {
        refusals += 1;
        const why = "too many puts and calls a second: ask more slowly (max_puts_per_s)";
        return { ok: false, error: new PutError(name, "NOT_ALLOWED", why, false) };
      }
      written.push(name);
      return { ok: true, superseded: false };
    });
  };
  const outcomes = await restore({ putMany }, { puts, refused: new Map() });
  expect(most).toBe(36);
  expect(refusals).toBeGreaterThan(0);
  // Each is written once, and until the relay refused some they were written in their order.
  expect(written.slice(0, 64)).toEqual(puts.slice(0, 64).map(([name]) => name));
  expect([...written].sort()).toEqual(puts.map(([name]) => name).sort());
  expect(outcomes.size).toBe(count);
  expect([...outcomes.values()].every(({ kind }) => kind === "written")).toBe(true);
});

test("a byte array with a zero is saved, exchanged and restored element for element", () => {
  const data: FullData = {
    ...DATA,
    value: {
      string: "[10, 0, 20, 200]",
      number: null,
      exact: null,
      text: "\n",
      array: Uint8Array.of(10, 0, 20, 200),
    },
    display: { ...DATA.display, type: "UInt8", controlRange: null },
  };
  const bytes = [10, 0, 20, 200];
  const saved = savedOf("A", data);
  expect(saved).toMatchObject({ value: bytes, text: "[10, 0, 20, 200]" });
  const other = { ...saved, value: [10, 0, 21, 201] };
  expect(compare(saved, other, EXACT).text).toBe("2 of 4 elements");
  const files = [
    snapshotOfJson(jsonOf(snapshotOf([saved])), "x"),
    snapshotOfPhoebus(phoebusOf(snapshotOf([saved])).text, "x"),
  ];
  for (const { pvs } of files) {
    expect(writesOf(pvs, new Map(), () => data).puts).toEqual([["A", bytes]]);
  }
  // It is a text where it is shown as one.
  expect(savedOf("A.VAL$", { ...data }).value).toBe("\n");
  const asText = { ...data.display, form: "String" } as FullData["display"];
  expect(savedOf("A", { ...data, display: asText }).value).toBe("\n");
  // A text that was saved of it isn't its value.
  expect(foresee({ ...saved, value: "\n" }, data)).toEqual({
    kind: "refused",
    text: "the snapshot has no array, and the PV has one",
  });
});

test("an edited file shows what a restore would write, and no other text", () => {
  const shown = (pv: object): string | undefined => {
    const file = jsonOf(snapshotOf([])).replace(/"pvs": \[\s*\]/, `"pvs": [${JSON.stringify(pv)}]`);
    return snapshotOfJson(file, "x").pvs[0]?.text;
  };
  expect(shown({ name: "A", value: 50, text: "5.00 A" })).toBe("50");
  const choices = ["Off", "Top-up"];
  expect(shown({ name: "A", value: 0, text: "Top-up", choices })).toBe("Off");
  expect(shown({ name: "A", value: [1, 2.5], text: "[1]" })).toBe("[1, 2.5]");
  expect(shown({ name: "A", value: ["a, b", ""] })).toBe('["a, b", ""]');
  const many = Array.from({ length: 12 }, (_, at) => at);
  expect(shown({ name: "A", value: many })).toBe("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 12 elements]");
  expect(shown({ name: "A", value: { number: "-Infinity" } })).toBe("-Infinity");
  expect(shown({ name: "A", value: { integer: "-9007199254740993" } })).toBe("-9007199254740993");
  const wrong = [{ number: "x" }, { number: "" }, { number: "1" }, { integer: "" }, {}, true, null];
  for (const value of wrong) {
    expect(() => shown({ name: "A", value })).toThrow(`${JSON.stringify(value)} is no value`);
    expect(() => shown({ name: "A", value: [value] })).toThrow("is no value");
  }
});

test("a saved choice is written by its label, and not as the index that another one has now", () => {
  const saved: SavedPv = { ...PV, type: "Enum", value: 1, choices: ["Off", "Top-up"] };
  const written = (change: Partial<SavedPv>, choices: readonly string[] | null): unknown => {
    const display = { ...DATA.display, type: choices === null ? "Float64" : "Enum", choices };
    const data = { ...DATA, display } as FullData;
    const pv = { ...saved, ...change };
    const { puts, refused } = writesOf([pv], new Map(), () => data);
    expect(foresee(pv, data).kind).toBe(puts.length === 1 ? "would" : "refused");
    return puts[0]?.[1] ?? refused.get(pv.name)?.text;
  };
  expect(written({}, ["Off", "Top-up"])).toBe("Top-up");
  expect(written({}, ["Top-up", "Off"])).toBe("Top-up");
  expect(written({}, ["Off", "On"])).toBe("the PV has no choice “Top-up”");
  expect(written({}, null)).toBe("the snapshot has a choice, and the PV has none");
  expect(written({ choices: undefined }, null)).toBe(
    "the snapshot has a choice, and the PV has none",
  );

  // A number is taken as an index, and the relay takes the first of equal labels.
  const digits = { value: 0, choices: ["2", "1", "0"] };
  expect(written(digits, ["2", "1", "0"])).toBe(0);
  expect(written(digits, ["0", "1", "2"])).toBe(2);
  const equal = { value: 2, choices: ["Zero", "One", "One"] };
  expect(written(equal, ["Zero", "One", "One"])).toBe(2);
  expect(written(equal, ["One", "One", "Zero"])).toBe("the PV has several choices “One”");
  const [one, other] = [
    { ...saved, ...equal },
    { ...saved, ...equal, value: 1 },
  ];
  expect(compare(one, other, EXACT).kind).toBe("differs");
  expect(compare(one, one, EXACT).kind).toBe("same");
});

test("a tolerance is a number or a part of the saved value", () => {
  expect(toleranceOf("")).toEqual(EXACT);
  expect(toleranceOf("2 %")).toEqual({ absolute: 0, relative: 0.02 });
  expect(toleranceOf("0,5")).toEqual({ absolute: 0.5, relative: 0 });
  for (const wrong of ["-1", "%", "abc", "1e999"]) expect(toleranceOf(wrong)).toBeUndefined();
  const kindOf = (value: SavedPv["value"], other: SavedPv["value"], tolerance = ""): string =>
    compare({ ...PV, value, tolerance }, { ...PV, value: other }, EXACT).kind;
  expect(kindOf(0.3, 0.1, "0.2")).toBe("same");
  expect(kindOf(0.3, 0.1, "0.199")).toBe("differs");
  expect(kindOf(-100, -101, "1%")).toBe("same");
  expect(kindOf(0, 1e-300, "5%")).toBe("differs");
  expect(kindOf(NaN, NaN)).toBe("same");
  expect(kindOf(NaN, 1, "9")).toBe("differs");
  expect(kindOf(Infinity, 5, "0.1")).toBe("differs");
  expect(kindOf(5, Infinity, "1%")).toBe("differs");
  expect(kindOf(Infinity, Infinity, "0.1")).toBe("same");
  expect(kindOf(1, 1n)).toBe("same");
  expect(kindOf(9_007_199_254_740_993n, 9_007_199_254_740_992)).toBe("differs");
  expect(kindOf([1, 2], [1, 2.5], "0.5")).toBe("same");
  expect(kindOf([1, 2], [1, 2, 3])).toBe("differs");
  expect(kindOf("a", "b", "100%")).toBe("differs");
  const [one, other] = [
    { ...PV, value: 1, choices: ["Off", "On"] },
    { ...PV, value: 0, choices: ["On", "Off"] },
  ];
  expect(compare(one, other, EXACT).kind).toBe("same");
  expect(compare(missingPv("A", "gone"), PV, EXACT)).toEqual({
    kind: "unknown",
    text: "not saved: gone",
  });
});

test("a dry run gives a reason for every PV that isn't written", () => {
  const textOf = (saved: Partial<SavedPv>, change: object = {}): string =>
    foresee({ ...PV, ...saved }, { ...DATA, ...change }).text;
  expect(textOf({})).toBe("would be written");
  expect(textOf({ value: 3 })).toBe("outside the control limits 0 to 2");
  expect(textOf({ value: "abc" })).toBe("the snapshot has a text, and the PV is a number");
  expect(textOf({ value: undefined, missing: "not found" })).toBe(
    "the snapshot has no value: not found",
  );
  const { connection, display, status } = DATA;
  expect(textOf({}, { status: { ...status, mutable: false } })).toBe("no write access at the IOC");
  expect(textOf({}, { status: { ...status, writable: false } })).toBe(
    "writing is not allowed by the relay",
  );
  expect(textOf({}, { status: { ...status, writable: null } })).toContain("only writing shows");
  const gone = { ...connection, connected: false, state: "disconnected" };
  expect(textOf({}, { connection: gone })).toBe("disconnected");
  expect(textOf({}, { connection: { ...connection, unresponsive: true } })).toContain(
    "doesn't respond",
  );
  const choices = { ...display, type: "Enum", choices: ["A", "B"], controlRange: null };
  expect(textOf({ value: 0, choices: ["C"] }, { display: choices })).toBe(
    "the PV has no choice “C”",
  );
  expect(foresee(PV, undefined).text).toBe("searched");
});
