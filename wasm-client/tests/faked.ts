/** A client of a relay of `pvwire/testing`, both new for each test, on a clock of the test. */

import { afterEach, beforeEach } from "vitest";

import type { PvClient } from "../ts/index.js";
import {
  createFakeClock,
  createFakeRelay,
  type FakeClock,
  type FakeRelay,
  type FakeRelayOptions,
} from "../ts/testing/index.js";
import { wasm } from "./golden.js";

export let clock: FakeClock;
export let relay: FakeRelay;
export let client: PvClient;

/** Called once at the top of a test file. */
export function eachWithFakeRelay(pvs: FakeRelayOptions["pvs"] = {}): void {
  beforeEach(async () => {
    clock = createFakeClock();
    relay = createFakeRelay({ clock, ...(wasm && { wasm }), pvs });
    client = relay.client();
    await client.ready;
  });

  afterEach(() => {
    client.dispose();
  });
}

/** Lets promises run that need nothing from outside. */
export async function runPromises(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}
