/** A page gets live values from a relay with its own TLS. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import { Relay } from "../../testbed/ts/relay";
import { expect, test } from "../fixtures/test";

// The test makes its own certificate; browsers of users trust the relay's.
test.use({ ignoreHTTPSErrors: true });

/** A new certificate for 127.0.0.1, as flags for the relay. */
function certificate(folder: string): string[] {
  const [key, cert] = [path.join(folder, "tls.key"), path.join(folder, "tls.crt")];
  execFileSync("openssl", [
    ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
    ...["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1"],
    ...["-addext", "subjectAltName=IP:127.0.0.1"],
  ]);
  return [`--tls-cert=${cert}`, `--tls-key=${key}`];
}

test("the page uses wss:// and the relay's own page https://", async ({
  page,
  pageUrl,
  ioc,
  network,
  source,
}) => {
  const folder = mkdtempSync(path.join(tmpdir(), "pvwire-tls-"));
  const relay = await Relay.start(network, [
    ...certificate(folder),
    `--default-source=${source}`,
    `--allow-origin=${new URL(pageUrl).origin}`,
  ]);
  try {
    const address = `127.0.0.1:${String(relay.port)}`;
    await page.goto(`https://${address}/`);
    await expect(page.locator("#about")).toContainText("up for");

    // The page comes from another server, which has no proxy to this relay.
    await page.addInitScript((url) => {
      window.WebSocket = class extends WebSocket {
        constructor(_: string | URL, protocols?: string | string[]) {
          super(url, protocols);
        }
      };
    }, `wss://${address}/ws`);
    await page.goto(`${pageUrl}?prefix=${ioc.prefix}`);
    const value = page.locator(`[data-pv="${ioc.prefix}:RF:VOLTAGE:SET"] [data-part="value"]`);
    await ioc.put("RF:VOLTAGE:SET", 2.2);
    await expect(value).toHaveText("2.20 MV");
    await ioc.put("RF:VOLTAGE:SET", 2.3);
    await expect(value).toHaveText("2.30 MV");

    const status = await page.request.get(`https://${address}/status`);
    expect(await status.json()).toMatchObject({ clients: 1 });
  } finally {
    await relay.kill();
    rmSync(folder, { recursive: true });
  }
});
