/** The tutorial of the first screen: its commands, its page and its application, as they are written. */

import { cp, mkdtemp, mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import type { Page } from "@playwright/test";

import { Child } from "../../testbed/ts/child";
import { PYTHON, RELAY, ROOT } from "../../testbed/ts/paths";
import { freePort } from "../../testbed/ts/ports";
import { run, serving } from "./command";
import { expect, test } from "./fixtures";

const TUTORIAL = path.join(ROOT, "docs/tutorials/first-screen.md");
const APP = path.join(ROOT, "examples/react");
const EXAMPLES = path.join(ROOT, "examples/README.md");
const CURRENT = "DEMO:RING:CURRENT";

/** The blocks of one section in one language. */
function blocksOf(text: string, section: number, language: string): string[] {
  const [, body = ""] = text.split(new RegExp(`^## ${String(section)}\\. .*$`, "m"));
  const [own = ""] = body.split(/^## /m);
  return [...own.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map(
    ([, block = ""]) => block,
  );
}

/** The number that an element with this label shows, and that it changes. */
async function expectLive(page: Page, label: string): Promise<void> {
  const value = page.locator(`[label="${label}"] [data-part="value"]`);
  await expect(value).toHaveText(/^\d+\.\d\d mA$/);
  const first = await value.innerText();
  await expect(value).not.toHaveText(first);
}

test("tutorial: your first screen, without code and with React", async ({
  folder,
  page,
  port,
  tarball,
}) => {
  const text = await readFile(TUTORIAL, "utf8");
  const relayPort = await freePort();
  const here = (command: string): string =>
    command
      .replace(/\b8080\b/g, String(relayPort))
      .replace(/\b8000\b/g, String(port))
      .replace(/\S*pvwire-\d\S*\.tgz/, tarball);
  const cwd = await mkdtemp(path.join(folder, "tutorial-"));
  const [install = "", curl = ""] = blocksOf(text, 1, "sh").map(here);
  const startDemo = (): Child => {
    const words = install.split("\n").find((line) => line.includes("/pvwire-relay demo"));
    const [, ...args] = words?.split(" ") ?? [];
    const env = { PVWIRE_PYTHON: PYTHON };
    return Child.start({ what: "demo", command: RELAY, args, env });
  };
  let demo = startDemo();
  await demo.waitForOutput(/Ctrl-C/);
  try {
    expect(
      JSON.parse(await run(["bash", "-euc", curl.replace("curl", "curl -sf")], { cwd })),
    ).toMatchObject({
      display: { units: "mA" },
    });

    await test.step("a screen without code", async () => {
      const [unpack = "", serve = ""] = blocksOf(text, 2, "sh").map(here);
      await run(["bash", "-euc", unpack], { cwd });
      const [html = ""] = blocksOf(text, 2, "html").map(here);
      await writeFile(path.join(cwd, "my-page/index.html"), html);
      const pageUrl = `http://127.0.0.1:${String(port)}/`;
      await serving(serve.trim().split(" "), pageUrl, { cwd }, async () => {
        await page.goto(pageUrl);
        await expectLive(page, "Beam current");
        await expect(page.locator("pv-plot canvas")).toBeVisible();
        const other = page.locator("#other [data-part='value']");
        const field = page.getByLabel("Another PV");
        await field.fill("DEMO:RING:MODE");
        await field.press("Enter");
        await expect(other).toHaveText(/^[A-Z][a-z]+/);
        await field.fill(`=\`${CURRENT}\` / 1000`);
        await field.press("Enter");
        await expect(other).toHaveText(/^0\.\d+$/);
        const voltage = page.getByRole("textbox", { name: "RF voltage" });
        await voltage.fill("1.9");
        await voltage.press("Enter");
        await expect(page.locator("pv-input")).toContainText(/written/i);
        await demo.end();
        await expect(page.locator("[label='Beam current']")).toContainText("Relay lost");
        demo = startDemo();
        await expectLive(page, "Beam current");
      });
    });

    await test.step("a screen in React", async () => {
      expect(blocksOf(text, 3, "tsx")[0]).toBe(await readFile(`${APP}/src/App.tsx`, "utf8"));
      const [commands = ""] = blocksOf(text, 3, "sh").map(here);
      await mkdir(path.join(cwd, "pvwire/examples"), { recursive: true });
      await cp(APP, path.join(cwd, "pvwire/examples/react"), { recursive: true });
      const steps = commands.trim().split("\n");
      // The examples' document has the same commands, with the package's name in place of its file.
      const npm = steps.filter((step) => step.startsWith("npm "));
      const example = /^## React\n.*?^```sh\n(.*?)^```/ms.exec(await readFile(EXAMPLES, "utf8"));
      expect(example?.[1]?.trim().split(/\n| && /)).toEqual(
        npm.map((step) => step.replace(tarball, "pvwire")),
      );
      const dev = steps.pop() ?? "";
      const env = { npm_config_prefer_offline: "true", npm_config_audit: "false" };
      await run(["bash", "-euc", steps.join("\n")], { cwd, env });
      const app = path.join(cwd, "my-app");
      const config = await readFile(`${app}/vite.config.js`, "utf8");
      await writeFile(`${app}/vite.config.js`, here(config));
      await run(["npm", "run", "build"], { cwd: app });
      const url = `http://127.0.0.1:${String(port)}/`;
      const where = ["--", "--host=127.0.0.1", `--port=${String(port)}`, "--strictPort"];
      await serving([...dev.split(" "), ...where], url, { cwd: app }, async () => {
        await page.goto(url);
        const shown = page.locator("output");
        await expect(shown.nth(0)).toHaveText(/^\d+\.\d\d mA (NO_ALARM|MINOR|MAJOR)$/);
        await expect(shown.nth(1)).toHaveText(/^0\.\d+ (NO_ALARM|MINOR|MAJOR)$/);
        await page.getByLabel("New value of").fill("1.25");
        await page.getByRole("button", { name: "Set" }).click();
        await expect(shown.nth(2)).toHaveText("1.25 MV NO_ALARM");
        await expect(page.getByText("written")).toBeVisible();
      });
    });
  } finally {
    await demo.end();
  }
});
