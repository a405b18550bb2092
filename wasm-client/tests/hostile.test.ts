/** A page keeps working with any names and values of an IOC, a relay or a selection. */

import { afterEach, beforeEach, expect, it } from "vitest";

import { createGraphqlClient } from "../ts/graphql/index.js";
import type { PvClient, PvStructure } from "../ts/index.js";
import { readStructure } from "../ts/store/node.js";
import { NodeField } from "../ts/schema.js";
import { list, message, table, text, u8, u32, vector } from "../ts/testing/flatbuffer.js";
import { node } from "../ts/testing/fake_pv.js";
import { createFakeRelay } from "../ts/testing/index.js";
import { decodeImage } from "../ts/widgets/codec.js";
import { wasm } from "./golden.js";

/** Latin-1, and longer than the arguments that a call takes. */
const LATIN = new Uint8Array(2_000_000).fill(0xe4);

let client: PvClient;

beforeEach(async () => {
  const relay = createFakeRelay({
    ...(wasm && { wasm }),
    pvs: { "LATIN.VAL$": { value: LATIN }, TEMP: { value: 21.5, units: "°C", precision: 1 } },
  });
  client = relay.client();
  await client.ready;
});

afterEach(() => {
  client.dispose();
});

/** What a selection shows, once there is a value. */
async function shown(name: string, selection: string): Promise<Record<string, unknown>> {
  const [result] = await client.get<Record<string, unknown>>([name], { selection });
  if (result?.ok !== true) throw new Error(JSON.stringify(result));
  return result.data;
}

it("a large text that isn't UTF-8 is shown", async () => {
  const { value } = await shown("LATIN.VAL$", "{ value { text string } }");
  const { string, text } = value as { string: string; text: string };
  expect(text).toHaveLength(LATIN.length);
  expect(text.slice(-3)).toBe("äää");
  expect(string).toBe(text);
});

it("a field of an unknown type is null; the others are shown", () => {
  const unknown = table(NodeField, {
    name: text("newer"),
    type: u8(99),
    array: u8(1),
    count: u32(1 << 30),
    data: vector(new Uint8Array(8), 1, 8),
  });
  const fields = list([node("known", 5), unknown, node("text", "x")]);
  const structure = table(NodeField, { type: u8(14), fields });
  const buffer = message("PVWF", structure);
  const at = new DataView(buffer).getUint32(0, true);
  expect(readStructure(buffer, at)).toEqual({ known: 5, newer: null, text: "x" });
});

const ODD = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"];

it.each(ODD)("a selection may call a field %s", async (name) => {
  const inner = (data: unknown): unknown => Object.getOwnPropertyDescriptor(data, name)?.value;
  const data = await shown("TEMP", `{ ${name}: value { ${name}: string } }`);
  expect(Object.keys(data)).toEqual([name]);
  expect(Object.getPrototypeOf(data)).toBe(Object.prototype);
  expect(inner(inner(data))).toBe("21.5");
  const graphql = createGraphqlClient(client);
  const { data: result, errors } = await graphql.execute({
    query: `{ ${name}: getChannel(id: "TEMP") { ${name}: display { ${name}: units } } }`,
  });
  expect(errors).toBeUndefined();
  expect(inner(inner(inner(result)))).toBe("°C");
  await expect(shown("TEMP", `{ ${name} }`)).rejects.toThrow(name);
});

it.each(ODD)("an image of a codec named %s isn't supported", async (name) => {
  const structure: PvStructure = {
    value: Uint8Array.of(1, 2, 3),
    codec: { name, parameters: 5 },
    uncompressedSize: 3n,
    dimension: [{ size: 3 }, { size: 1 }],
  };
  await expect(decodeImage(structure)).rejects.toThrow(`Codec ${name} isn't supported`);
});
