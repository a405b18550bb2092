/** A client of a fake relay, new for each test, on the test's clock. */

import { afterEach, beforeEach, vi } from "vitest";

import type { PvClient } from "../ts/index.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, settle, type FakeOptions } from "./fake_relay.js";

export let client: PvClient;

/** Called once at the top of a test file. */
export function eachWithClient(): void {
  beforeEach(async () => {
    vi.useFakeTimers();
    client = fakeClient();
    await client.ready;
  });

  afterEach(() => {
    client.dispose();
    vi.useRealTimers();
  });
}

/** Connects, and subscribes to the PVs of the golden frames. */
export async function open(): Promise<FakeSocket> {
  for (const name of GOLDEN_NAMES) client.pv(name).subscribe(() => undefined);
  FakeSocket.last.open();
  await settle();
  FakeSocket.last.answer("snapshot", "subscribe");
  return FakeSocket.last;
}

export const state = (): string => client.connection.getSnapshot().state;

/** Continues with another client. */
export function replaceClient(options?: FakeOptions): void {
  client.dispose();
  client = fakeClient(options);
}
