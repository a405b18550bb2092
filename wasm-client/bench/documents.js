/**
 * Benchmark: reading, checking and planning GraphQL documents that are new to the module.
 *
 * `node wasm-client/bench/documents.js [PKG ...]` measures one or more builds of the module, in turn,
 * so that a busy machine slows all of them alike.
 */

import console from "node:console";
import { readFileSync } from "node:fs";
import process from "node:process";
import { pathToFileURL } from "node:url";

const ROUNDS = 300;
const DOCUMENTS = 50;

/** One PV as a screen shows it; and everything that a form shows of one, through a fragment. */
const LIGHT = `subscription Readback($id: ID!) {
  subscribeChannel(id: $id) {
    id
    value { float string }
    time { datetime seconds }
    status { quality }
  }
}
`;
const FULL = `subscription Form($id: ID!, $units: Boolean = false) {
  subscribeChannel(id: $id) {
    id
    time { datetime seconds nanoseconds }
    value { string(units: $units) float base64Array(length: 10) { numberType base64 } }
    status { quality message mutable }
    display { ...Limits description role widget units precision choices }
  }
}
fragment Limits on ChannelDisplay {
  controlRange { min max }
  displayRange { min max }
  alarmRange { min max }
  warningRange { min max }
}
`;
const VARIABLES = '{"id":"ca://TEMP"}';

async function open(pkg) {
  const { initSync, plan } = await import(pathToFileURL(`${pkg}/pvwire_wasm.js`).href);
  initSync(readFileSync(`${pkg}/pvwire_wasm_bg.wasm`));
  return { pkg, plan, best: { light: Infinity, full: Infinity } };
}

let unseen = 0;

/** The document behind a comment that no other has: one that was seen is kept. */
const fresh = (text) => `#${(unseen += 1)}\n${text}`;

const pkgs = process.argv.slice(2);
const builds = await Promise.all(
  (pkgs.length > 0 ? pkgs : [`${import.meta.dirname}/../pkg`]).map(open),
);
for (let round = 0; round < ROUNDS; round += 1) {
  for (const { best, pkg, plan } of builds) {
    for (const [name, text] of Object.entries({ light: LIGHT, full: FULL })) {
      const texts = Array.from({ length: DOCUMENTS }, () => fresh(text));
      const start = process.hrtime.bigint();
      let last = "";
      for (const text of texts) last = plan(text, undefined, VARIABLES);
      const us = Number(process.hrtime.bigint() - start) / 1000 / DOCUMENTS;
      if (!last.startsWith("subscription\n{ ")) throw new Error(`${pkg}: ${last}`);
      best[name] = Math.min(best[name], us);
    }
  }
}
for (const { pkg, best } of builds) {
  console.log(`${pkg}: light ${best.light.toFixed(1)} µs, full ${best.full.toFixed(1)} µs`);
}
