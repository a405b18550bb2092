/** Time of `JSON.parse` of updates as PVWS sends them, in Node: `node parse.mjs UPDATES ROUNDS` prints ns of one update. */

/* global console, performance */

import process from "node:process";

const [updates, rounds] = process.argv.slice(2).map(Number);
const texts = Array.from({ length: updates }, (_, number) =>
  JSON.stringify({
    type: "update",
    pv: `BENCH:N${String(number).padStart(5, "0")}`,
    value: 1000.5 + number * 1.0009765625,
    severity: ["NONE", "MINOR", "MAJOR", "INVALID"][number % 4],
    seconds: 1_790_000_000,
    nanos: (number * 999_983) % 1_000_000_000,
  }),
);

let read = 0;
const times = Array.from({ length: rounds }, () => {
  const began = performance.now();
  for (const text of texts) read += JSON.parse(text).value;
  return ((performance.now() - began) * 1e6) / updates;
});
if (!(read > 0)) throw new Error("nothing was read");
times.sort((one, other) => one - other);
console.log(`${times[rounds >> 1].toFixed(0)} ns`);
