/** The past of a PV as a GraphQL query. */

import { expect, it } from "vitest";

import { createGraphqlClient } from "../ts/graphql/index.js";
import type { PvHistory } from "../ts/index.js";
import { client, clock, eachWithFakeRelay, relay } from "./faked.js";

eachWithFakeRelay();

it("is that of the client, by aliases and with variables", async () => {
  for (const value of [1, 2]) {
    clock.advance(1000);
    relay.set("TEMP", value);
  }
  relay.set("TEMP", { value: 2.5, severity: "MAJOR", alarmStatus: 3 });
  clock.advance(1000);
  const query = `query ($id: ID!, $from: String) {
    all: history(id: $id)
    history(id: $id, from: $from, to: null, points: 100)
    getChannel(id: $id) { value { float } }
  }`;
  const graphql = createGraphqlClient(client);
  const { data, errors } = await graphql.execute<Record<"all" | "history", PvHistory>>({
    query,
    variables: { id: "TEMP", from: "-2s" },
  });
  expect(errors).toBeUndefined();
  expect(data?.all).toEqual(await client.history("TEMP"));
  expect([...(data?.all.numbers ?? [])]).toEqual([1, 2, 2.5]);
  expect(data?.history).toEqual(await client.history("TEMP", { from: "-2s", points: 100 }));
  expect(data?.history.hasHeld).toBe(true);
  expect(data).toMatchObject({ getChannel: { value: { float: 2.5 } } });
});

it("is null with an error if the relay refuses the question", async () => {
  relay.set("TEMP", 1);
  const query = `{ history(id: "TEMP") wrong: history(id: "TEMP", from: "yesterday") }`;
  const { data, errors } = await createGraphqlClient(client).execute({ query });
  expect(data).toMatchObject({ history: { name: "TEMP" }, wrong: null });
  expect(errors).toMatchObject([{ path: ["wrong"], extensions: { code: "BAD_VALUE" } }]);
});
