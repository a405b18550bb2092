/**
 * Opens the page of `pvwire-relay demo` in a browser and waits until it shows values that change:
 * `node see_demo.js BROWSER [PICTURE]`. Prints "ready" when the browser has started, reads the page's address from its
 * input, prints "live" when a value has changed, and writes a picture of the page if it is named. Fails if the page
 * breaks its own policy, needs another host, or requests what the relay doesn't have.
 */

import { once } from "node:events";
import process from "node:process";
import { createInterface } from "node:readline";
import { URL } from "node:url";

import { chromium } from "@playwright/test";

const [browserPath, picture] = process.argv.slice(2);
const DEADLINE_MS = 60_000;

/** Waits until the text of the element is another number than before, twice: it may be missing at first. */
async function changes(page, selector) {
  const shown = ({ selector, before }) => {
    const now = globalThis.document.querySelector(selector)?.textContent ?? "";
    return /\d/.test(now) && now !== before ? now : undefined;
  };
  const first = await (await page.waitForFunction(shown, { selector, before: "" })).jsonValue();
  await page.waitForFunction(shown, { selector, before: first });
}

const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 950 } });
  page.setDefaultTimeout(DEADLINE_MS);
  process.stdout.write("ready\n");
  const [url] = await once(createInterface(process.stdin), "line");
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    if (message.text().includes("Content Security Policy")) faults.push(message.text());
  });
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (/^(http|ws)/.test(protocol) && host !== new URL(url).host) faults.push(request.url());
  });
  page.on("response", (response) => {
    if (response.status() >= 400) faults.push(`${response.url()}: ${String(response.status())}`);
  });
  const isSimulated = url.includes("#/wall");
  await page.goto(url);
  if (isSimulated) {
    await page.locator(".wall-room").press("ArrowRight");
    await changes(page, ".wall-cell");
  } else {
    await changes(page, '[data-pv="DEMO:N0000"]');
  }
  process.stdout.write("live\n");
  if (isSimulated) {
    await page.getByText("5,000 of 5,000 connected").first().waitFor();
    if (picture) await page.screenshot({ path: picture });
    await page.goto(url.replace("#/wall", "#/beamline"));
    await page.locator("canvas").first().waitFor();
  } else {
    if (picture) await page.screenshot({ path: picture });
    // GraphiQL is loaded when it is opened.
    await page.goto(`${url}#/console`);
    await page.locator(".console").first().waitFor();
  }
  if (faults.length > 0) throw new Error(faults.join("\n"));
} finally {
  await browser.close();
  process.stdin.destroy();
}
