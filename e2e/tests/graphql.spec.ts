/** Apps written for Coniql show what its documentation says, on a real IOC. */

import path from "node:path";

import { expect, type Page } from "@playwright/test";

import type { App } from "../pages/graphql/main";
import { Child } from "../../testbed/ts/child";
import { PYTHON, ROOT } from "../../testbed/ts/paths";
import { Relay } from "../../testbed/ts/relay";
import { servePage } from "../fixtures/built_pages";
import { test as base } from "../fixtures/test";

type AppName = "apollo" | "apollo3" | "urql";

/** An app in the page. */
class GraphqlApp {
  readonly #page: Page;
  readonly #name: AppName;

  constructor(page: Page, name: AppName) {
    this.#page = page;
    this.#name = name;
  }

  async run(
    kind: "query" | "mutate",
    document: string,
    variables?: Record<string, unknown>,
  ): Promise<unknown> {
    return await this.#page.evaluate(
      async ([name, kind, document, variables]) =>
        (window.apps as Readonly<Record<AppName, App>>)[name][kind](document, variables),
      [this.#name, kind, document, variables] as const,
    );
  }

  async subscribe(document: string, variables: Record<string, unknown> = {}): Promise<void> {
    await this.#page.evaluate(
      ([name, document, variables]) => {
        (window.apps as Readonly<Record<AppName, App>>)[name].subscribe(document, variables);
      },
      [this.#name, document, variables] as const,
    );
  }

  /** The results of subscriptions so far. */
  async results(): Promise<unknown[]> {
    return await this.#page.evaluate(
      (name) => (window.apps as Readonly<Record<AppName, App>>)[name].results,
      this.#name,
    );
  }
}

interface Fixtures {
  records: Child;
  putRelay: Relay;
  app: (name: AppName) => GraphqlApp;
}

const test = base.extend<Fixtures>({
  records: async ({ network, prefix }, provide) => {
    const db = path.join(ROOT, "e2e/fixtures/graphql.db");
    const ioc = Child.start({
      what: "softIOC",
      command: PYTHON,
      args: ["-m", "epicscorelibs.ioc", "-m", `P=${prefix}`, "-d", db],
      env: network.env,
    });
    await provide(ioc);
    await ioc.kill();
  },

  putRelay: async ({ network, prefix }, provide) => {
    const relay = await Relay.start(network, ["--enable-put", `--allow-put=${prefix}:*`]);
    await provide(relay);
    await relay.kill();
  },

  app: async ({ page, records, putRelay }, provide) => {
    await records.waitForOutput(/complete/);
    const { close, url } = await servePage("graphql", { relayPort: putRelay.port });
    await page.goto(url);
    await page.waitForFunction(() => window.apps !== undefined);
    await provide((name) => new GraphqlApp(page, name));
    await close();
  },
});

const APPS: readonly AppName[] = ["apollo", "apollo3", "urql"];

/** Without the fields that Apollo adds to every selection. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (key, member: unknown) =>
    key === "__typename" ? undefined : member,
  ) as unknown;
}

const ENCODED = { numberType: "FLOAT64", base64: "AAAAAAAAAAA1XrpJDAL7PwAAAAAAAABA" };

for (const name of APPS) {
  test.describe(`with ${name}`, () => {
    test("queries show values, limits and labels", async ({ app, prefix }) => {
      const query = async (document: string): Promise<unknown> =>
        plain(await app(name).run("query", document));

      expect(
        await query(`query {
          getChannel(id: "ca://${prefix}:COUNT") {
            id
            value { float string }
            display {
              widget
              controlRange { min max }
              displayRange { min max }
              alarmRange { min max }
              warningRange { min max }
              units
              precision
              form
            }
            status { quality }
          }
        }`),
      ).toEqual({
        data: {
          getChannel: {
            id: `ca://${prefix}:COUNT`,
            value: { float: 42, string: "42" },
            display: {
              widget: "TEXTINPUT",
              controlRange: { min: 10, max: 90 },
              displayRange: { min: 0, max: 100 },
              alarmRange: { min: 2, max: 98 },
              warningRange: { min: 5, max: 96 },
              units: "",
              precision: null,
              form: null,
            },
            status: { quality: "VALID" },
          },
        },
      });
      expect(
        await query(`{ getChannel(id: "ca://${prefix}:COUNT") { display { description } } }`),
      ).toEqual({ data: { getChannel: { display: { description: "Turns of the spindle" } } } });
      expect(
        await query(`{ getChannel(id: "ca://${prefix}:COUNT.RTYP") { value { string } } }`),
      ).toEqual({ data: { getChannel: { value: { string: "longout" } } } });
      expect(
        await query(
          `{ getChannel(id: "${prefix}:UNIT") { id value { string float } display { choices } } }`,
        ),
      ).toEqual({
        data: {
          getChannel: {
            id: `ca://${prefix}:UNIT`,
            value: { string: "nm", float: 3 },
            display: { choices: ["m", "mm", "um", "nm"] },
          },
        },
      });
      expect(
        await query(`{
          getChannel(id: "ca://${prefix}:NONE") { value { float string } display { alarmRange { min } } }
        }`),
      ).toEqual({
        data: {
          getChannel: { value: { float: null, string: "nan" }, display: { alarmRange: null } },
        },
      });
      const simulated = (await query(`query {
        getChannel(id: "ssim://sine") { value { float } time { datetime } display { widget } }
      }`)) as { data: { getChannel: { value: { float: number }; time: { datetime: string } } } };
      const { time, value } = simulated.data.getChannel;
      expect(Math.abs(value.float)).toBeLessThanOrEqual(5);
      expect(Math.abs(Date.parse(time.datetime) - Date.now())).toBeLessThan(60_000);
      const failed = (await query(`{
        good: getChannel(id: "ca://${prefix}:COUNT") { value { float } }
        bad: getChannel(id: "ca://${prefix}:NOBODY", timeout: 0.5) { id }
      }`)) as { data: unknown; error: string };
      expect(failed.data).toEqual({ good: { value: { float: 42 } }, bad: null });
      expect(failed.error).toMatch(/not found within 500 ms/);
    });

    test("mutations write numbers, labels, arrays and text", async ({ app, prefix }) => {
      const mutate = async (
        document: string,
        variables?: Record<string, unknown>,
      ): Promise<unknown> => plain(await app(name).run("mutate", document, variables));

      expect(
        await mutate(`mutation {
          putChannels(ids: ["ca://${prefix}:COUNT", "ca://${prefix}:UNIT"], values: ["55", "1"]) {
            value { string }
            time { datetime }
          }
        }`),
      ).toEqual({
        data: {
          putChannels: [
            { value: { string: "55" }, time: { datetime: expect.stringMatching(/Z$/) as unknown } },
            { value: { string: "mm" }, time: { datetime: expect.stringMatching(/Z$/) as unknown } },
          ],
        },
      });
      expect(
        await mutate(`mutation {
          putChannels(ids: ["ca://${prefix}:WAVE"], values: ["[0, 1.688, 2]"]) {
            value { stringArray base64Array { numberType base64 } }
          }
        }`),
      ).toEqual({
        data: {
          putChannels: [{ value: { stringArray: ["0.0", "1.7", "2.0"], base64Array: ENCODED } }],
        },
      });
      const put = `mutation Put($ids: [ID!]!, $values: [String!]!) {
        putChannels(ids: $ids, values: $values) { value { string stringArray(length: 2) } }
      }`;
      expect(
        await mutate(put, { ids: [`ca://${prefix}:WAVE`], values: [JSON.stringify(ENCODED)] }),
      ).toMatchObject({ data: { putChannels: [{ value: { stringArray: ["0.0", "1.7"] } }] } });
      expect(await mutate(put, { ids: [`ca://${prefix}:TEXT`], values: ["[x] y"] })).toMatchObject({
        data: { putChannels: [{ value: { string: "[x] y" } }] },
      });
      expect(
        await mutate(put, {
          ids: [`ca://${prefix}:UNIT`, `ca://${prefix}:COUNT`],
          values: ["furlong", "12"],
        }),
      ).toMatchObject({
        data: { putChannels: [null, { value: { string: "12" } }] },
        error: expect.stringMatching(/furlong/),
      });
    });

    test("subscriptions are complete first, then say what changed", async ({
      app,
      prefix,
      records,
    }) => {
      await app(name).subscribe(`subscription {
        subscribeChannel(id: "ca://${prefix}:TICK") {
          value { string(units: true) float }
          display { precision units }
        }
      }`);
      // The next change comes when the page has the one before, so that no two arrive together.
      for (const count of [1, 2, 3]) {
        await expect.poll(async () => (await app(name).results()).length).toBe(count);
        if (count < 3) records.writeLine(`ioc('dbpf "${prefix}:TICK.PROC" 1')`);
      }
      type Ticks = { subscribeChannel: { value: { float: number } } }[];
      const [first, second, third] = plain(await app(name).results()) as Ticks;
      const start = first?.subscribeChannel.value.float ?? NaN;
      const value = (float: number): unknown => ({ string: `${float.toFixed(5)} mm`, float });
      expect(first).toEqual({
        subscribeChannel: { value: value(start), display: { precision: 5, units: "mm" } },
      });
      expect(second).toEqual({ subscribeChannel: { value: value(start + 1), display: null } });
      expect(third).toEqual({ subscribeChannel: { value: value(start + 2), display: null } });
    });

    test("a second equal subscription is complete too, as documented", async ({ app, prefix }) => {
      const document = `subscription {
        subscribeChannel(id: "ca://${prefix}:COUNT") { value { float } display { widget } }
      }`;
      const whole = {
        subscribeChannel: { value: { float: 42 }, display: { widget: "TEXTINPUT" } },
      };
      for (const component of [1, 2]) {
        // urql joins operations whose variables are equal.
        await app(name).subscribe(document, name === "urql" ? { component } : {});
        await expect
          .poll(async () => plain(await app(name).results()))
          .toEqual(Array.from({ length: component }, () => whole));
      }
    });

    test("the documentation's own examples are answered as it says", async ({ app, prefix }) => {
      const COUNT = `ca://${prefix}:COUNT`;
      expect(
        plain(
          await app(name).run(
            "query",
            `query { getChannel(id: "${COUNT}") { value { string(units: true) } } }`,
          ),
        ),
      ).toEqual({ data: { getChannel: { value: { string: "42" } } } });
      expect(
        plain(
          await app(name).run(
            "mutate",
            `mutation {
              putChannels(ids: ["${COUNT}"], values: ["45"]) { value { string(units: true) } }
            }`,
          ),
        ),
      ).toEqual({ data: { putChannels: [{ value: { string: "45" } }] } });
      await app(name).subscribe(`subscription {
        subscribeChannel(id: "ssim://sine") {
          value { string }
          status { quality }
          display { description precision }
        }
      }`);
      await expect.poll(async () => (await app(name).results()).length).toBeGreaterThanOrEqual(3);
      const [first, ...others] = plain(await app(name).results()) as unknown[];
      const value = { string: expect.stringMatching(/^-?\d\.\d{5}$/) as unknown };
      const description = expect.stringMatching(/sine/i) as unknown;
      expect(first).toEqual({
        subscribeChannel: {
          value,
          status: { quality: expect.stringMatching(/VALID|WARNING|ALARM/) as unknown },
          display: { description, precision: 5 },
        },
      });
      // The quality is reported only when it changes.
      for (const other of others) {
        expect(other).toMatchObject({ subscribeChannel: { value, display: null } });
      }
    });

    test("a subscription says that the IOC is gone", async ({ app, prefix, records }) => {
      await app(name).subscribe(`subscription {
        subscribeChannel(id: "ca://${prefix}:COUNT") { value { float } status { quality } }
      }`);
      await expect
        .poll(async () => plain(await app(name).results()))
        .toEqual([{ subscribeChannel: { value: { float: 42 }, status: { quality: "VALID" } } }]);
      await records.kill();
      await expect
        .poll(async () => plain((await app(name).results()).at(-1)))
        .toEqual({ subscribeChannel: { value: null, status: { quality: "UNDEFINED" } } });
    });

    test("a wrong document is told with what was meant", async ({ app }) => {
      expect(
        await app(name).run("query", '{ getChannel(id: "X") { valu { float } } }'),
      ).toMatchObject({
        error: expect.stringMatching(/Cannot query field "valu" on type "Channel"/),
      });
    });
  });
}
