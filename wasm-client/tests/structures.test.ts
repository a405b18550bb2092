/** A structure that changes field by field is complete for a document that comes late. */

import { afterEach, beforeAll, expect, it, vi } from "vitest";

import { createGraphqlClient } from "../ts/graphql/index.js";
import { loadGraphql } from "../ts/graphql/module.js";
import { graphqlWasm } from "./golden.js";
import { clientOf, flush, Relay, tagged, type Event } from "./vectors.js";

beforeAll(async () => {
  await loadGraphql(graphqlWasm);
});

afterEach(() => {
  vi.useRealTimers();
});

const time = { seconds: 1_753_000_000, nanoseconds: 0 };

const changed = (fields: unknown, partial: boolean): Event =>
  ({
    PV: {
      ...(partial
        ? {}
        : {
            metadata: { type: "Structure", typeId: "epics:nt/NTTable:1.0" },
            connection: { state: "connected", sinceMs: 1_752_999_990_000 },
          }),
      value: { type: "Structure", fields, partial },
      time,
      alarm: { severity: "NO_ALARM", status: 0 },
    },
  }) as unknown as Event;

const column = (...array: number[]): unknown => ({
  name: "value",
  type: "Structure",
  fields: [{ name: "x", type: "Int32", array }],
});

const labels = (...array: string[]): unknown => ({ name: "labels", type: "String", array });

const DOCUMENT =
  'subscription { subscribeChannel(id: "PV") { value { table { labels columns { array } } } } }';

it.each([
  ["no selection reads it", "{ status { quality } }"],
  ["another selection reads it", "{ value { structure } }"],
])("after many changes when %s", async (_, selection) => {
  vi.useFakeTimers();
  const relay = new Relay("");
  const client = clientOf(relay);
  await client.ready;
  const pv = client.pv("PV", selection);
  pv.subscribe(() => pv.getSnapshot());
  relay.change(changed([labels("X"), column(0)], false));
  await flush();
  const results: unknown[] = [];
  const stops: (() => void)[] = [];
  for (let nth = 1; nth <= 50; nth += 1) {
    relay.change(changed([column(nth)], true));
    await flush();
    if (nth % 20 !== 0) continue;
    // Another document each time, from before and after parts were combined.
    const stop = createGraphqlClient(client).subscribe(
      { query: DOCUMENT },
      {
        next: (result) => results.push(tagged(result)),
        error: (error) => results.push(error),
        complete: () => undefined,
      },
    );
    await flush();
    const columns = [{ array: { $array: "Int32", of: [nth] } }];
    const value = { table: { labels: ["X"], columns } };
    expect(results.at(-1)).toEqual({ data: { subscribeChannel: { value } } });
    if (nth === 20) stop();
    else stops.push(stop);
  }
  relay.change(changed([labels("Y")], true));
  await flush();
  const value = { table: { labels: ["Y"], columns: [{ array: { $array: "Int32", of: [50] } }] } };
  expect(results.at(-1)).toEqual({ data: { subscribeChannel: { value } } });
  for (const stop of stops) stop();
  client.dispose();
});
