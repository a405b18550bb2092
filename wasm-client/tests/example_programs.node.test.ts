/** The programs of `examples/` against a real relay. */

import { readFile } from "node:fs/promises";
import path from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";

import { Child } from "../../testbed/ts/child.js";
import { privateEpicsNetwork, type EpicsNetwork } from "../../testbed/ts/epics.js";
import { PYTHON, ROOT } from "../../testbed/ts/paths.js";
import { Relay } from "../../testbed/ts/relay.js";

const COUNTER = "sim://counter(rate_hz=5)";

let network: EpicsNetwork;
let relay: Relay;

beforeAll(async () => {
  network = await privateEpicsNetwork();
  relay = await Relay.start(network, ["--enable-put", "--allow-put=*"]);
});

afterAll(async () => {
  await relay.kill();
});

function run(command: string, program: string, ...args: readonly string[]): Child {
  const file = path.join(ROOT, "examples", program);
  return Child.start({ what: program, command, args: [file, ...args], env: network.env });
}

it("node: follows a PV and a formula, and says that the relay is lost", async () => {
  const url = `ws://127.0.0.1:${String(relay.port)}/ws`;
  const formula = `=\`${COUNTER}\` * 2`;
  const child = run(process.execPath, "node/follow.mjs", url, COUNTER, formula);
  await child.waitForOutput(/^sim:\S+ \d+ NO_ALARM$/m);
  await child.waitForOutput(/^=.* \* 2 \d*[02468] NO_ALARM$/m);
  await relay.kill();
  await child.waitForOutput(/^sim:\S+ \d+ \(relayLost since /m);
  await relay.restart();
  await child.end();
});

it("python-http: gets, follows, and says why a put is refused", async () => {
  const url = `http://127.0.0.1:${String(relay.port)}`;
  const get = run(PYTHON, "python-http/pv.py", url, "get", COUNTER);
  await get.waitForOutput(/^\d+ NO_ALARM$/m);
  await get.end();
  const follow = run(PYTHON, "python-http/pv.py", url, "follow", COUNTER);
  await follow.waitForOutput(/^(\d+) NO_ALARM\n(?!\1 )\d+ NO_ALARM$/m);
  await follow.end();
  const put = run(PYTHON, "python-http/pv.py", url, "put", COUNTER, "1");
  await put.waitForOutput(/^4\d\d: .+/m);
  await put.end();
});

/** Follows a PV as Grafana's data source does: one socket, no Origin, `value` is a number. */
async function firstValue(url: string, name: string): Promise<unknown> {
  const socket = new WebSocket(url);
  try {
    return await new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("open", () => {
        socket.send(JSON.stringify({ type: "subscribe", pvs: [name] }));
      });
      socket.on("message", (message: Buffer) => {
        const { value } = JSON.parse(message.toString()) as { value?: unknown };
        if (value !== undefined) resolve(value);
      });
    });
  } finally {
    socket.close();
  }
}

it("grafana: the dashboard's PVs have values at the address of its data source", async () => {
  const folder = path.join(ROOT, "examples/grafana");
  const source = await readFile(`${folder}/provisioning/datasources/pvwire.yaml`, "utf8");
  const [, type] = /^ {4}type: (\S+)$/m.exec(source) ?? [];
  const [, uid] = /^ {4}uid: (\S+)$/m.exec(source) ?? [];
  const [, uri = ""] = /^ {6}liveUpdateURI: (\S+)$/m.exec(source) ?? [];
  const { panels } = JSON.parse(await readFile(`${folder}/dashboards/ring.json`, "utf8")) as {
    panels: { datasource: object; targets: { target: string; live: boolean }[] }[];
  };
  const targets = panels.flatMap((panel) => panel.targets);
  expect(targets.length).toBeGreaterThan(1);
  for (const { datasource } of panels) expect(datasource).toEqual({ type, uid });
  const database = path.join(ROOT, "web-demo/ioc/demo.db");
  const own = await privateEpicsNetwork();
  const ioc = Child.start({
    what: "softIOC",
    command: PYTHON,
    args: ["-m", "epicscorelibs.ioc", "-m", "P=DEMO", "-d", database],
    env: own.env,
  });
  await ioc.waitForOutput(/complete/);
  const served = await Relay.start(own, ["--pvws"]);
  try {
    const url = uri.replace(":8080/", `:${String(served.port)}/`);
    for (const { live, target } of targets) {
      expect(live).toBe(true);
      expect(await firstValue(url, target), target).toBeTypeOf("number");
    }
  } finally {
    await served.kill();
    await ioc.kill();
  }
});
