/** GraphQL operations are answered from the store, and subscriptions continue. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import {
  createGraphqlClient,
  type GraphqlClient,
  type GraphqlResult,
} from "../ts/graphql/index.js";
import { loadGraphql } from "../ts/graphql/module.js";
import type { PvClient } from "../ts/index.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, runPromises } from "./fake_relay.js";

let pvs: PvClient;
let client: GraphqlClient;

beforeEach(async () => {
  vi.useFakeTimers();
  pvs = fakeClient();
  client = createGraphqlClient(pvs);
  await Promise.all([pvs.ready, loadGraphql(undefined)]);
});

afterEach(() => {
  client.dispose();
  pvs.dispose();
  vi.useRealTimers();
});

/** Results and errors of a subscription. */
interface Received {
  results: GraphqlResult[];
  errors: unknown[];
  completed: number;
  stop: () => void;
}

async function listen(query: string, variables?: Record<string, unknown>): Promise<Received> {
  const received: Received = { results: [], errors: [], completed: 0, stop: () => undefined };
  received.stop = client.subscribe(
    { query, variables },
    {
      next: (result) => received.results.push(result),
      error: (error) => received.errors.push(error),
      complete: () => (received.completed += 1),
    },
  );
  await runPromises();
  await runPromises();
  return received;
}

const last = ({ results }: Received): unknown => results.at(-1)?.data;

/** Opens the connection; the relay knows the golden names, in the order of `names`. */
async function connect(): Promise<FakeSocket> {
  const socket = FakeSocket.last;
  socket.open();
  await runPromises();
  return socket;
}

/** Listens to the golden PVs and lets them have their snapshot. */
async function atTheSnapshot(): Promise<FakeSocket> {
  for (const name of GOLDEN_NAMES) pvs.pv(name).subscribe(() => undefined);
  const socket = await connect();
  socket.answer("snapshot", "subscribe");
  vi.advanceTimersByTime(300);
  return socket;
}

describe("a subscription to one PV", () => {
  const query = `subscription Temp($id: ID!) {
    temp: subscribeChannel(id: $id) {
      id
      value { float string(units: true) }
      time { datetime }
      status { quality mutable }
      display { precision units controlRange { min max } }
      __typename
    }
  }`;

  it("tells of all of it first, then of what changed", async () => {
    const received = await listen(query, { id: "TEMP" });
    const socket = await connect();
    expect(received.results, "nothing is known yet").toEqual([]);
    for (const name of GOLDEN_NAMES.slice(1)) pvs.pv(name).subscribe(() => undefined);
    socket.answer("snapshot", "subscribe");
    vi.advanceTimersByTime(300);
    expect(received.results).toEqual([
      {
        data: {
          temp: {
            id: "ca://TEMP",
            value: { float: 21.5, string: "21.50 °C" },
            time: { datetime: "2025-07-20T08:26:40.123456Z" },
            status: { quality: "VALID", mutable: true },
            display: { precision: 2, units: "°C", controlRange: { min: 10, max: 90 } },
            __typename: "Channel",
          },
        },
      },
    ]);

    socket.frame("update");
    vi.advanceTimersByTime(300);
    expect(received.results).toHaveLength(2);
    expect(last(received)).toEqual({
      temp: {
        id: "ca://TEMP",
        value: { float: 81, string: "81.00 °C" },
        time: { datetime: "2025-07-20T08:26:40.223506Z" },
        status: { quality: "ALARM", mutable: true },
        display: null,
        __typename: "Channel",
      },
    });
    received.stop();
    received.stop();
    expect(received).toMatchObject({ completed: 1, errors: [] });
  });

  it("is told at once of what the page knows already", async () => {
    await atTheSnapshot();
    const received = await listen(query, { id: "MODE" });
    expect(last(received)).toMatchObject({
      temp: { id: "ca://MODE", value: { float: 2, string: "State 2" }, display: { units: null } },
    });
  });

  it("isn't told of changes that it didn't select", async () => {
    const socket = await atTheSnapshot();
    const received = await listen(
      'subscription { subscribeChannel(id: "TEMP") { display { units } } }',
    );
    expect(received.results).toHaveLength(1);
    socket.frame("update");
    vi.advanceTimersByTime(300);
    expect(received.results).toHaveLength(1);
    for (const frame of ["special_numbers", "disconnected"] as const) socket.frame(frame);
    vi.advanceTimersByTime(300);
    expect(received.results).toHaveLength(1);
    socket.frame("metadata_change");
    vi.advanceTimersByTime(300);
    expect(received.results).toHaveLength(2);
    expect(last(received)).toEqual({ subscribeChannel: { display: { units: "K" } } });
  });

  it("reports PVs that don't exist and names that are refused", async () => {
    const selection = "{ id value { float } status { quality message } connection { state } }";
    await atTheSnapshot();
    const refused = await listen(`subscription { subscribeChannel(id: "") ${selection} }`);
    const late = await listen(`subscription { subscribeChannel(id: "LATE") ${selection} }`);
    expect(last(refused)).toEqual({
      subscribeChannel: {
        id: "ca://",
        value: null,
        status: { quality: "UNDEFINED", message: "a PV name can't be empty" },
        connection: { state: "refused" },
      },
    });
    expect(late.results, "the search goes on").toEqual([]);
    FakeSocket.last.end(1006);
    vi.advanceTimersByTime(300);
    expect(last(late)).toMatchObject({
      subscribeChannel: { connection: { state: "relayLost" }, status: { quality: "UNDEFINED" } },
    });
  });

  it("gives the PV back when it ends", async () => {
    const received = await listen('subscription { subscribeChannel(id: "TEMP") { id } }');
    const socket = await connect();
    socket.answer("snapshot", "subscribe");
    received.stop();
    vi.advanceTimersByTime(3000);
    expect(socket.sent("unsubscribe")).toHaveLength(1);
  });
});

describe("a subscription to many PVs", () => {
  it("tells of those that changed, together", async () => {
    const received = await listen(
      "subscription($ids: [ID!]!) { subscribeChannels(ids: $ids) { id value { string } } }",
      { ids: GOLDEN_NAMES },
    );
    const socket = await connect();
    socket.answer("snapshot", "subscribe");
    vi.advanceTimersByTime(300);
    await runPromises();
    expect(received.results).toHaveLength(1);
    expect(last(received)).toEqual({
      subscribeChannels: [
        { id: "ca://", value: null },
        { id: "ca://TEMP", value: { string: "21.50" } },
        { id: "ca://MODE", value: { string: "State 2" } },
        { id: "ca://TEXT", value: { string: "Träger läuft" } },
      ],
    });
    socket.frame("update");
    vi.advanceTimersByTime(300);
    await runPromises();
    expect(received.results).toHaveLength(2);
    expect(last(received)).toEqual({
      subscribeChannels: [
        { id: "ca://TEMP", value: { string: "81.00" } },
        { id: "ca://MODE", value: { string: "State 15" } },
        { id: "ca://TEXT", value: { string: "" } },
      ],
    });
  });
});

describe("a query", () => {
  it("answers the valid alias of two and reports the other", async () => {
    const answer = client.execute({
      query: `{
        good: getChannel(id: "A", timeout: 1) { id value { float } }
        bad: getChannel(id: "B", timeout: 1) { id value { float } }
      }`,
    });
    await runPromises();
    const socket = FakeSocket.last;
    socket.open();
    expect(socket.sent("get").map((request) => request.names)).toEqual([["A", "B"]]);
    socket.answer("got", "get");
    expect(await answer).toEqual({
      data: { good: { id: "ca://A", value: { float: 21.5 } }, bad: null },
      errors: [
        {
          message: "no value within 1000 ms",
          locations: [{ line: 3, column: 9 }],
          path: ["bad"],
          extensions: { code: "TIMED_OUT" },
        },
      ],
    });
  });

  it("asks for descriptions only when it reads them", async () => {
    const query = (fields: string): string => `{ getChannel(id: "A") { ${fields} } }`;
    void client.execute({ query: query("display { units }") });
    void client.execute({ query: query("display { text: description }") });
    await runPromises();
    FakeSocket.last.open();
    const gets = FakeSocket.last.sent("get");
    expect(gets.map((request) => request.describes)).toEqual([false, true]);
  });

  it("answers a list with null for what isn't there", async () => {
    const answer = client.execute({
      query: 'query($t: Float!) { all: getChannels(ids: ["A", "B"], timeout: $t) { id } }',
      variables: { t: 1 },
    });
    await runPromises();
    FakeSocket.last.open();
    FakeSocket.last.answer("got", "get");
    expect(await answer).toMatchObject({
      data: { all: [{ id: "ca://A" }, null] },
      errors: [{ path: ["all", 1] }],
    });
  });

  it("goes through subscribe as well, with one result", async () => {
    const received = await listen("{ __typename a: __typename @skip(if: true) }");
    expect(received).toMatchObject({
      results: [{ data: { __typename: "Query" } }],
      completed: 1,
      errors: [],
    });
  });
});

describe("a request that is wrong", () => {
  it("is told as errors of the document", async () => {
    const received = await listen("subscription { subscribeChannel { vale } }");
    expect(received.completed).toBe(0);
    expect(received.errors).toEqual([
      [
        {
          message: 'Cannot query field "vale" on type "Channel". Did you mean "value"?',
          locations: [{ line: 1, column: 35 }],
        },
        {
          message:
            'Field "subscribeChannel" argument "id" of type "ID!" is required, but it was not provided.',
          locations: [{ line: 1, column: 16 }],
        },
      ],
    ]);
    expect(await client.execute({ query: "{" })).toEqual({
      errors: [
        {
          message: "Syntax Error: Expected Name, found <EOF>.",
          locations: [{ line: 1, column: 2 }],
        },
      ],
    });
  });

  it("is told as a result when its variables are wrong", async () => {
    const received = await listen("subscription($id: ID!) { subscribeChannel(id: $id) { id } }");
    expect(received).toMatchObject({
      results: [{ errors: [{ message: /required type "ID!" was not provided/ }] }],
      completed: 1,
      errors: [],
    });
  });

  it("can name one operation of several", async () => {
    const query = "query A { a: __typename } query B { b: __typename }";
    expect(await client.execute({ query, operationName: "B" })).toEqual({ data: { b: "Query" } });
    expect(await client.execute({ query })).toMatchObject({
      errors: [{ message: /^Must provide operation name/ }],
    });
    expect(
      await client.execute({ query: "subscription { subscribeChannel(id: 1) { id } }" }),
    ).toEqual({ errors: [{ message: "A subscription has many results: subscribe to it." }] });
  });

  it("leaves no data where a field that is never null has none", async () => {
    const query = "query($t: Float = 1) { getChannels(ids: [], timeout: $t) { id } __typename }";
    expect(await client.execute({ query, variables: { t: null } })).toEqual({
      data: null,
      errors: [
        {
          message: 'Argument "timeout" of non-null type "Float!" must not be null.',
          locations: [{ line: 1, column: 54 }],
          path: ["getChannels"],
        },
      ],
    });
  });
});

describe("a mutation", () => {
  const put = async (ids: string[], values: string[]): Promise<GraphqlResult> =>
    client.execute({
      query: `mutation($ids: [ID!]!, $values: [String!]!) {
        putChannels(ids: $ids, values: $values, timeout: 1) {
          value { string float stringArray base64Array { numberType base64 } exact }
        }
      }`,
      variables: { ids, values },
    });

  it("writes numbers, text and arrays, and reads what came of it", async () => {
    for (const name of ["n(1)", 's("x")', "a([1,2])"])
      pvs.pv(`loc://${name}`).subscribe(() => undefined);
    const none = { base64Array: null, stringArray: null };
    expect(await put(["loc://n", "loc://s", "loc://a"], ["2.5", "[x] y", "[0, 1.688, 2]"])).toEqual(
      {
        data: {
          putChannels: [
            { value: { ...none, string: "2.5", float: 2.5, exact: null } },
            { value: { ...none, string: "[x] y", float: null, exact: null } },
            {
              value: {
                string: expect.stringContaining("[0") as unknown,
                float: null,
                exact: null,
                stringArray: ["0", "1.688", "2"],
                base64Array: { numberType: "FLOAT64", base64: "AAAAAAAAAAA1XrpJDAL7PwAAAAAAAABA" },
              },
            },
          ],
        },
      },
    );
    const base64 = '{"numberType": "INT16", "base64": "AQD+/wMA"}';
    expect(await put(["loc://a"], [base64])).toMatchObject({
      data: {
        putChannels: [
          {
            value: {
              stringArray: ["1", "-2", "3"],
              base64Array: { numberType: "INT16", base64: "AQD+/wMA" },
            },
          },
        ],
      },
    });
    expect(await put(["loc://s"], ['{"a": 1}'])).toMatchObject({
      data: { putChannels: [{ value: { string: '{"a": 1}' } }] },
    });
    expect(await put(["loc://s"], ["[1, 2]"]), "what is put to a string is text").toMatchObject({
      data: { putChannels: [{ value: { string: "[1, 2]" } }] },
    });
    expect(await put(["loc://a"], ["[9007199254740993, -1]"])).toMatchObject({
      data: { putChannels: [{ value: { stringArray: ["9007199254740993", "-1"] } }] },
    });
  });

  it("says for each PV why it wasn't written", async () => {
    pvs.pv("loc://n(1)").subscribe(() => undefined);
    pvs.pv("loc://a([1,2])").subscribe(() => undefined);
    const ids = ["loc://n", "loc://n", "loc://a", "loc://a"];
    const wrong = ['[1, "x"]', '{"numberType": "INT99", "base64": ""}'];
    expect(await put(ids, ["no number", "3", ...wrong])).toEqual({
      data: {
        putChannels: [
          null,
          expect.objectContaining({ value: expect.anything() as unknown }),
          null,
          null,
        ],
      },
      errors: [
        {
          message: '"no number" is not a number, but the PV holds one',
          locations: [{ line: 2, column: 9 }],
          path: ["putChannels", 0],
          extensions: { code: "BAD_VALUE", mayBeWritten: false },
        },
        expect.objectContaining({
          message: "a list to write holds numbers or strings only",
          path: ["putChannels", 2],
        }),
        expect.objectContaining({
          message: "there is no number type INT99",
          path: ["putChannels", 3],
        }),
      ],
    });
    expect(await put(["loc://n"], ["1", "2"])).toMatchObject({
      data: null,
      errors: [{ message: "2 values can't be put to 1 PVs", path: ["putChannels"] }],
    });
  });
});

describe("fields that only GraphQL has", () => {
  const ask = async (id: string, selection: string): Promise<unknown> => {
    const received = await listen(
      `subscription { subscribeChannel(id: ${JSON.stringify(id)}) ${selection} }`,
    );
    received.stop();
    return (last(received) as { subscribeChannel: unknown }).subscribeChannel;
  };

  it("show arrays as text and as typed arrays", async () => {
    const socket = await atTheSnapshot();
    const ids = ["F64", "I16", "U8", "F32", "STR"];
    for (const id of ids) pvs.pv(id).subscribe(() => undefined);
    await runPromises();
    socket.answer("snapshot", "subscribe", [20, 21, 22, 23, 24]);
    const before = ["update", "special_numbers", "disconnected", "metadata_change"] as const;
    for (const frame of before) socket.frame(frame);
    socket.frame("arrays");
    const selection = `{ value {
      stringArray short: stringArray(length: 1) base64Array(length: 2) { numberType base64 }
      float64Array(length: 2) array
    } }`;
    const [doubles, shorts, , empty, strings] = (await Promise.all(
      ids.map((id) => ask(id, selection)),
    )) as [unknown, unknown, unknown, unknown, unknown];
    expect(doubles).toEqual({
      value: {
        stringArray: ["1.5", "-2.5", "nan"],
        short: ["1.5"],
        base64Array: { numberType: "FLOAT64", base64: "AAAAAAAA+D8AAAAAAAAEwA==" },
        float64Array: Float64Array.of(1.5, -2.5),
        array: Float64Array.of(1.5, -2.5, NaN),
      },
    });
    expect(shorts).toMatchObject({
      value: {
        short: ["1"],
        base64Array: { numberType: "INT16" },
        float64Array: Float64Array.of(1, -2),
        array: Int16Array.of(1, -2, 3, 4, 5),
      },
    });
    expect(empty).toMatchObject({ value: { stringArray: [], array: new Float32Array() } });
    expect(strings).toMatchObject({
      value: { stringArray: ["one", "", "drei"], base64Array: null, float64Array: null },
    });
  });

  it("show Coniql's forms of what a PV has in others", async () => {
    await atTheSnapshot();
    expect(
      await ask(
        "TEMP",
        "{ time { seconds } display { role widget form units description choices } }",
      ),
    ).toEqual({
      time: { seconds: 1753000000.1234567 },
      display: {
        role: "RW",
        widget: "TEXTINPUT",
        form: null,
        units: "°C",
        description: "Magnet 1 temperature",
        choices: null,
      },
    });
    expect(await ask("MODE", "{ display { role widget units precision } }")).toEqual({
      // The relay may not write it; whether jane may, whom it greets, only a put can show.
      display: { role: "RW", widget: "TEXTINPUT", units: null, precision: null },
    });
  });
});

describe("the client", () => {
  it("can be looped over, and the loop's end ends the operation", async () => {
    await atTheSnapshot();
    const loop = client.iterate({ query: 'subscription { subscribeChannel(id: "TEMP") { id } }' });
    expect(await loop.next()).toEqual({
      done: false,
      value: { data: { subscribeChannel: { id: "ca://TEMP" } } },
    });
    expect(await loop.return?.()).toMatchObject({ done: true });
    const wrong = client.iterate({ query: "{" });
    await expect(wrong.next()).rejects.toMatchObject([{ message: /^Syntax Error/ }]);
  });

  it("tells of the connection as graphql-ws does", async () => {
    const received: unknown[] = [];
    for (const event of ["connecting", "opened", "connected", "error", "closed"] as const) {
      client.on(event, (...args: never[]) => received.push([event, ...args]));
    }
    await listen('subscription { subscribeChannel(id: "TEMP") { id } }');
    await connect();
    client.terminate();
    vi.advanceTimersByTime(1000);
    await connect();
    client.dispose();
    expect(received).toEqual([
      ["connecting", false],
      ["opened", undefined],
      ["connected", undefined, undefined, false],
      ["closed", { code: 1006, reason: "terminated" }],
      ["connecting", true],
      ["opened", undefined],
      ["connected", undefined, undefined, true],
    ]);
  });

  it("completes subscriptions when disposed and refuses new ones", async () => {
    const received = await listen('subscription { subscribeChannel(id: "TEMP") { id } }');
    client.dispose();
    expect(received.completed).toBe(1);
    const late = await listen("{ __typename }");
    expect(late.errors).toMatchObject([{ code: "CLOSED" }]);
    expect(FakeSocket.last.closedWith, "the PVs' client is its owner's").toBeUndefined();
  });
});
