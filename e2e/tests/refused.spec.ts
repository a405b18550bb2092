/**
 * A page that a relay refuses, or that can't load the package's module, says what is wrong and who
 * acts.
 *
 * Topology: a real relay, and a page of another origin with a readback and a set point.
 */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import type { Page } from "@playwright/test";

import { privateEpicsNetwork } from "../../testbed/ts/epics";
import { freePort } from "../../testbed/ts/ports";
import { Relay } from "../../testbed/ts/relay";
import { servePage } from "../fixtures/built_pages";
import { base, expect } from "../fixtures/test";

/** A policy with all that the page needs. */
const POLICY = {
  "default-src": "'self'",
  "script-src": "'self' 'wasm-unsafe-eval'",
  "style-src": "'self'",
  // The icon of the demo.
  "img-src": "'self' data:",
  "connect-src": "'self' ws://127.0.0.1:* http://127.0.0.1:*",
};

const policy = (changed: Partial<typeof POLICY> = {}): Record<string, string> => ({
  "Content-Security-Policy": Object.entries({ ...POLICY, ...changed })
    .map((directive) => directive.join(" "))
    .join("; "),
});

interface Fixtures {
  /** A relay that accepts the page. */
  relay: Relay;
  pageUrl: string;
}

const test = base.extend<object, Fixtures>({
  pageUrl: [
    // eslint-disable-next-line no-empty-pattern -- Playwright reads the fixtures it needs from here.
    async ({}, provide) => {
      const { close, url } = await servePage("refused");
      await provide(url);
      await close();
    },
    { scope: "worker" },
  ],

  relay: [
    async ({ pageUrl }, provide) => {
      const relay = await relayFor(pageUrl, ["--pvws"]);
      await provide(relay);
      await relay.kill();
    },
    { scope: "worker" },
  ],
});

async function relayFor(pageUrl: string, flags: readonly string[]): Promise<Relay> {
  const origin = new URL(pageUrl).origin;
  return await Relay.start(await privateEpicsNetwork(), [`--allow-origin=${origin}`, ...flags]);
}

/** Opens the page for the relay at `address`. */
async function openFor(page: Page, pageUrl: string, address: string): Promise<void> {
  await page.goto(`${pageUrl}?relay=${encodeURIComponent(address)}`);
}

/** Both widgets say it, and nothing in the page calls the relay lost. */
async function expectReason(page: Page, reason: string | RegExp): Promise<void> {
  const readback = page.locator('.pvwire-readback [data-part="condition"]');
  const setPoint = page.locator('[data-set-point] [data-part="hint"]');
  for (const widget of [readback, setPoint]) {
    await expect(widget).toContainText("Not connected to a relay: ");
    await expect(widget).toContainText(reason);
  }
  await expect(page.locator("body")).not.toContainText(/Relay lost|Connecting/);
}

/** What the console says is wrong, from now on. */
function errorsOf(page: Page): string[] {
  const errors: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  return errors;
}

async function expectValue(page: Page): Promise<void> {
  await expect(page.locator('.pvwire-readback [data-part="value"]')).toHaveText(/^\d+$/);
}

const at = (port: number, path = "/ws"): string => `ws://127.0.0.1:${String(port)}${path}`;

test("origin that isn't listed: the operator adds it", async ({ page, pageUrl, relay }) => {
  // The same page by another origin.
  const other = pageUrl.replace("127.0.0.1", "localhost");
  await openFor(page, other, at(relay.port));
  const reason = "pages of this origin may not connect: the operator adds it by --allow-origin";
  await expectReason(page, reason);
  const origin = new URL(other).origin;
  await expect.poll(() => relay.output).toContain(`a page of ${origin} can't connect: ${reason}`);
});

test("path that isn't there: its address, and where the relay is", async ({
  page,
  pageUrl,
  relay,
}) => {
  await openFor(page, pageUrl, at(relay.port, "/nothing"));
  const address = `http://127.0.0.1:${String(relay.port)}/nothing`;
  await expectReason(
    page,
    `${address} isn't the address of a relay's WebSocket: nothing here; try`,
  );
  await expectReason(page, " /ws ");
});

test("host name that isn't listed: the operator adds it", async ({ page, pageUrl, relay }) => {
  // Browsers resolve it to this machine.
  await openFor(page, pageUrl, `ws://relay.localhost:${String(relay.port)}/ws`);
  await expectReason(
    page,
    "this host name is not one of the relay's: the operator adds it by --allow-host",
  );
});

test("another subprotocol: correct the address, or update", async ({ page, pageUrl, relay }) => {
  await openFor(page, pageUrl, at(relay.port, "/pvws/pv"));
  await expectReason(
    page,
    "/pvws/pv accepts WebSocket handshakes only, without a subprotocol, but this page speaks pvwire.v1: correct the address, or update the older of page and relay",
  );
});

test("wss:// to a port without TLS: use ws://, or the operator sets it", async ({
  page,
  pageUrl,
  relay,
}) => {
  const reason = "has no TLS: use ws://, or the relay's operator sets tls_cert and tls_key";
  await openFor(page, pageUrl, at(relay.port).replace("ws:", "wss:"));
  await expectReason(page, `127.0.0.1:${String(relay.port)} ${reason}`);
  // The door for Coniql's clients answers plain requests of this path.
  const door = await relayFor(pageUrl, ["--coniql"]);
  await openFor(page, pageUrl, at(door.port).replace("ws:", "wss:"));
  await expectReason(page, `127.0.0.1:${String(door.port)} ${reason}`);
  await door.kill();
});

test("ws:// to a port with TLS, and a certificate that isn't trusted", async ({
  page,
  pageUrl,
}) => {
  const folder = mkdtempSync(path.join(tmpdir(), "pvwire-refused-"));
  const [key, cert] = [path.join(folder, "tls.key"), path.join(folder, "tls.crt")];
  execFileSync("openssl", [
    ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
    ...["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1"],
    ...["-addext", "subjectAltName=IP:127.0.0.1"],
  ]);
  const relay = await relayFor(pageUrl, [`--tls-cert=${cert}`, `--tls-key=${key}`]);
  try {
    await openFor(page, pageUrl, at(relay.port));
    await expectReason(page, "this port accepts TLS only: use https:// and wss://");
    await openFor(page, pageUrl, at(relay.port).replace("ws:", "wss:"));
    await expectReason(page, "the browser doesn't accept the relay's certificate");
    await expectReason(page, "the relay's operator replaces it (tls_cert)");
  } finally {
    await relay.kill();
    rmSync(folder, { recursive: true });
  }
});

test("nothing at the address: it can't be reached", async ({ page, pageUrl }) => {
  await openFor(page, pageUrl, at(await freePort()));
  await expectReason(page, "the relay can't be reached");
});

test("a server that is no relay: correct the address", async ({ page, pageUrl }) => {
  await openFor(page, pageUrl, pageUrl.replace("http:", "ws:"));
  await expectReason(page, "is no relay (status 200): correct the address");
});

test("policy that forbids WebAssembly or the relay: the server's operator adds it", async ({
  page,
}) => {
  const relay = await Relay.start(await privateEpicsNetwork(), ["--allow-origin=*"]);
  const address = at(relay.port);
  const errors = errorsOf(page);
  for (const { changed, reason } of [
    {
      changed: { "script-src": "'self'" },
      reason:
        "the WebAssembly module can't be loaded: the page's Content Security Policy forbids it: the operator of the page's server adds 'wasm-unsafe-eval' to script-src",
    },
    {
      changed: { "connect-src": "'self'" },
      reason: `the page's Content Security Policy forbids connections to ${new URL(address).host}: the operator of the page's server adds ${new URL(address).origin} to connect-src`,
    },
    { changed: {}, reason: undefined },
  ]) {
    const { close, url } = await servePage("refused", { headers: policy(changed) });
    await openFor(page, url, address);
    if (reason === undefined) await expectValue(page);
    else await expectReason(page, reason);
    if ("script-src" in changed) expect(errors.join("\n")).toContain(reason);
    await close();
  }
  await relay.kill();
});

test("policy of the documentation: values, plots and images are whole", async ({ page, relay }) => {
  const errors = errorsOf(page);
  const headers = policy({ "connect-src": "'self'" });
  const { close, url } = await servePage("demo", { headers, relayPort: relay.port });
  await page.goto(`${url}#/beamline`);
  for (const shown of [".pvwire-image canvas", ".pvwire-waveform .uplot canvas"]) {
    await expect(page.locator(shown)).toBeVisible();
  }
  await expect(page.locator(".pvwire-image")).toContainText("No alarm");
  expect(errors.filter((error) => error.includes("Content Security Policy"))).toEqual([]);
  await close();
});

test("module that isn't there, or the server's page in its place", async ({
  context,
  page,
  pageUrl,
  relay,
}) => {
  const errors = errorsOf(page);
  for (const { status, type } of [
    { status: 404, type: "text/plain" },
    { status: 200, type: "text/html" },
  ]) {
    await context.route("**/*.wasm", async (route) => {
      await route.fulfill({ status, contentType: type, body: "<!doctype html>" });
    });
    await openFor(page, pageUrl, at(relay.port));
    const reason = new RegExp(
      `the WebAssembly module can't be loaded: http\\S+\\.wasm \\(status ${String(status)}\\) is another file: the operator of the page's server copies the package's there`,
    );
    await expectReason(page, reason);
    expect(errors.join("\n")).toMatch(reason);
    await context.unroute("**/*.wasm");
  }
  await openFor(page, pageUrl, at(relay.port));
  await expectValue(page);
});
