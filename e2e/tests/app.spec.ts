/** The app: one story for each page, with a real IOC and a real relay. */

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { expect, test } from "../fixtures/app_page";
import {
  expectAccessible,
  expectNoFaults,
  nameOf,
  type Screen,
  screenOf,
} from "../fixtures/screen";

test("a page that can't be loaded leaves the others, and is there when it is loaded again", async ({
  app,
  page,
  prefix,
}) => {
  await app.open();
  // As after an update of the relay, whose files have other names.
  await page.route(/\/HealthPage-.*\.js$/, (route) => route.abort());
  await page.getByRole("link", { name: "Health" }).click();
  const broken = page.getByRole("alert").filter({ hasText: "This page can't be shown" });
  await expect(broken).toContainText("load it again");
  await page.getByRole("link", { name: "Table" }).click();
  await expect(broken).toBeHidden();
  await app.search.fill(`${prefix}:RING:CURRENT`);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: `${prefix}:RING:CURRENT` })).toBeVisible();
  await page.unroute(/\/HealthPage-.*\.js$/);
  await page.getByRole("link", { name: "Health" }).click();
  await page.getByRole("button", { name: "Load again" }).click();
  await expect(page.getByRole("region", { name: "The relay" })).toContainText(/Clients/);
});

test("what is copied of a PV reads it: in a shell, in Python, as JSON", async ({
  app,
  context,
  ioc,
  page,
  prefix,
}) => {
  const name = `${prefix}:RING:CURRENT`;
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 300);
  await app.open(`#/pv/${name}`);
  await expect(app.value).toHaveText("300.00 mA");
  const snippet = async (title: string): Promise<string> =>
    (await page.getByLabel(title, { exact: true }).textContent()) ?? "";
  const run = async (program: string, ...words: string[]): Promise<string> =>
    (await promisify(execFile)(program, words)).stdout.trim();
  // As a shell passes them.
  const words = async (command: string, text: string): Promise<string> =>
    await run("sh", "-c", `${command}() { printf '<%s>' "$@"; }\n${text}`);

  const answer = await run("sh", "-c", `${await snippet("curl")} -s`);
  expect(JSON.parse(answer)).toMatchObject({ value: { string: "300.00" } });
  expect(await run("python3", "-c", await snippet("Python"))).toBe("300.00");
  expect(await words("caget", await snippet("caget"))).toBe(`<${name}>`);
  expect(JSON.parse(await snippet("JSON"))).toMatchObject({
    name,
    value: 300,
    units: "mA",
    severity: "MINOR",
    connected: true,
  });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy: curl" }).click();
  await expect(page.getByText("curl: copied")).toBeVisible();
  const clipboard = await page.evaluate(async () => await navigator.clipboard.readText());
  expect(clipboard).toBe(await snippet("curl"));

  const field = `pva://${prefix}:IT'S/alarm/severity`;
  await app.open(`#/pv/${encodeURIComponent(field)}`);
  expect(await words("pvget", await snippet("pvget"))).toBe(
    `<-r><field(alarm.severity)><${prefix}:IT'S>`,
  );

  // The client has the characters of bytes too, but they are no text.
  await app.open(`#/pv/${encodeURIComponent("sim://image(64,48)")}`);
  await expect(app.value).toHaveText(/^\[\d+, \d+, .* 3072 elements\] counts$/);
  await expect(page.locator(".pvwire-plot canvas")).toBeVisible();
  expect(JSON.parse(await snippet("JSON"))).toMatchObject({
    value: expect.stringMatching(/^\[\d+, \d+, /),
  });
});

test("PV: typed, shown, written, refused, lost and found again", async ({
  app,
  ioc,
  page,
  prefix,
  relay,
}) => {
  await app.open();
  const current = `${prefix}:RING:CURRENT`;
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 300);

  // A name that the relay doesn't know yet, as it is pasted from a mail.
  await page.keyboard.press("/");
  await expect(app.search).toBeFocused();
  await app.search.fill(`$ caget -w 3 "${current}",`);
  await page.keyboard.press("Enter");
  await expect(app.value).toHaveText("300.00 mA");
  await expect(app.condition).toHaveText("MINOR HIGH");
  await expect(page).toHaveTitle(new RegExp(`^MINOR ${current} 300.00 mA – pvwire$`));
  const about = page.getByRole("region", { name: "About this PV" });
  for (const text of ["190 to 310 mA", "210 to 290 mA", "150 to 350 mA", "Float64"]) {
    await expect(about).toContainText(text);
  }
  await expect(about).toContainText(/Server\s*(?:localhost|127\.0\.0\.1):\d+/);
  await expect(about.locator('[data-part="rate"]')).toHaveText(/^\d+\.\d updates\/s$/);
  await expect(app.now).toContainText("Stored beam current");
  await about.getByRole("button", { name: "Measure" }).click();
  const latency = about.locator('[data-part="latency"]');
  await expect(latency).toHaveText("Waiting for an update…");
  await expect(async () => {
    await ioc.put("RING:CURRENT", 301);
    await ioc.put("RING:CURRENT", 300);
    await expect(latency).toHaveText(
      /^half of \d+ updates?: (?:at most \d+ ms|more than 5 s); 99 %: (?:at most \d+ ms|more than 5 s) from the IOC's/,
      { timeout: 1000 },
    );
  }).toPass();
  await expect(app.value).toHaveText("300.00 mA");
  await expect(page.locator(".pvwire-strip canvas")).toBeVisible();
  await expect(page.getByRole("region", { name: "Write" })).toContainText(/no write access/);
  await page.getByRole("button", { name: "UTC" }).click();
  await expect(app.now).toContainText(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} UTC/);
  await expectAccessible(page);

  // Now it is known, and offered by a part of it.
  await app.search.fill("ring:curr");
  await expect(page.getByRole("option")).toHaveText([new RegExp(current)]);
  await page.keyboard.press("Escape");

  // The set point: written, and refused by the relay's rules.
  const set = `${prefix}:RF:VOLTAGE:SET`;
  await app.search.fill(set);
  await page.keyboard.press("Enter");
  const { input } = app;
  await input.fill("1.7");
  await input.press("Enter");
  await expect(page.locator('[data-part="outcome"]')).toContainText("Written");
  expect(await ioc.get("RF:VOLTAGE:SET")).toBe("1.7");
  await expect(about).toContainText(
    /Last write through this relay\s*1\.7 by a client at 127\.0\.0\.1, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d/,
  );
  await page.getByRole("button", { name: "Read-only" }).click();
  await expect(input).toBeHidden();
  await expect(page).toHaveURL(/lock=1/);

  // The link has the whole state, and back leads to the PV before.
  await page.reload();
  await expect(app.value).toContainText("1.7");
  await expect(page.getByText("This page is read-only.")).toBeVisible();
  await page.goBack();
  await expect(app.value).toHaveText("300.00 mA");

  // The IOC ends.
  await ioc.kill();
  await expect(app.condition).toContainText("Disconnected · old since");
  await expect(about).toContainText(/Last alarm/);
  await ioc.restart();
  await expect(app.now).toHaveAttribute("data-state", "connected", { timeout: 45_000 });

  // The relay ends.
  await relay.kill();
  await expect(page.getByText("Relay lost since")).toBeVisible();
  await expect(app.condition).toContainText("Relay lost");
  await relay.restart();
  await expect(app.now).toHaveAttribute("data-state", "connected", { timeout: 45_000 });

  // A mistyped name: what the relay knows and is similar.
  await app.search.fill(`${prefix}:RING:CURENT`);
  await page.keyboard.press("Enter");
  await expect(app.condition).toContainText("Not found");
  await page.locator(".near").getByRole("link", { name: current }).click();
  await expect(app.now.getByRole("heading")).toHaveText(current);
  // The fields of its record, each a link.
  await page.getByText("Fields of the record").click();
  const fields = page.locator(".record-fields");
  await expect(fields.locator("div", { hasText: ".DESC" })).toContainText("Stored beam current");
  await expect(fields.locator("div", { hasText: ".HIHI" })).toContainText("310");
  await expect(page.getByText(/As they were at \d{4}-\S+ \S+, UTC/)).toBeVisible();
  await expect(fields.getByRole("link", { name: ".SCAN" })).toHaveAttribute(
    "href",
    `#/pv/${current}.SCAN?utc=1`,
  );
  await expectAccessible(page);
  await page.locator("h1").click();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keys" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
});

test("search: only names of the typed text are offered, and what is chosen opens", async ({
  app,
  page,
  prefix,
}) => {
  const [current, tune] = [`${prefix}:RING:CURRENT`, `${prefix}:RING:TUNE`];
  // The relay knows names that were shown.
  await app.open(`#/table?pvs=${current},${tune}`);
  await expect(app.row(tune)).toHaveAttribute("data-state", "connected");
  const options = page.getByRole("option");
  await app.search.fill(`${prefix}:ring`);
  await expect(options).toHaveText([new RegExp(tune), new RegExp(current)]);
  await app.search.fill(`${prefix}:ring:c`);
  await expect(options).toHaveText([new RegExp(current)]);
  // Enter at once shows what was typed, and no name that was offered for another text.
  await app.search.fill(`${prefix}:ring`);
  await expect(options).toHaveCount(2);
  await app.search.fill(tune);
  await app.search.press("Enter");
  await expect(app.now.getByRole("heading")).toHaveText(tune);
  await expect(options).toHaveCount(0);

  await app.search.fill(`${prefix}:ring`);
  await expect(options).toHaveCount(2);
  await app.search.press("ArrowDown");
  await app.search.press("ArrowDown");
  await expect(options.nth(1)).toHaveAttribute("aria-selected", "true");
  await app.search.press("Enter");
  await expect(app.now.getByRole("heading")).toHaveText(current);

  // Without a text: what was shown last. Escape and leaving close the list.
  await app.search.fill("");
  await expect(options).toHaveText([current, tune]);
  await app.search.press("Escape");
  await expect(options).toHaveCount(0);
  await app.search.press("ArrowDown");
  await expect(options).toHaveCount(2);
  await page.getByRole("heading", { name: current }).click();
  await expect(options).toHaveCount(0);
  await app.search.fill(`${prefix}:ring:t`);
  await options.first().click();
  await expect(app.now.getByRole("heading")).toHaveText(tune);

  // A name with commas and blanks is one name; several names are a table.
  await app.search.fill("sim://ramp(0, 10, 1)");
  await app.search.press("Enter");
  await expect(app.now.getByRole("heading")).toHaveText("sim://ramp(0, 10, 1)");
  await app.search.fill(`${current}, ${tune}`);
  await app.search.press("Enter");
  await expect(page.getByText("2 of 2 PVs")).toBeVisible();
});

test.describe("in the dark", () => {
  test.use({ colorScheme: "dark" });

  test("table and alarms: a pasted list, sorted, filtered and exported", async ({
    app,
    ioc,
    page,
    prefix,
    relay,
  }) => {
    await page.addInitScript(() => {
      window.AudioContext = class extends AudioContext {
        override createOscillator(): OscillatorNode {
          document.documentElement.toggleAttribute("data-sounded", true);
          return super.createOscillator();
        }
      };
    });
    await ioc.hold("RING:CURRENT");
    await ioc.put("RING:CURRENT", 350);
    await app.open("#/table");
    const names = ["RING:CURRENT", "RING:TUNE", "N0007", "N0001"].map(
      (name) => `${prefix}:${name}`,
    );
    const [current = "", , seventh = "", first = ""] = names;
    const missing = `${prefix}:MISSING`;
    const mail = `> Please check ${names.slice(0, 2).join(", ")};\n${seventh}   12.5\n"${first}"\n${missing}\n`;
    // A sentence brings words, so a mail is pasted as its lines with names.
    await page.getByRole("textbox", { name: /^Names/ }).fill(mail.replace("> Please check ", ""));
    await page.getByRole("button", { name: "Show these PVs" }).click();
    await expect(app.row(current)).toContainText("MAJOR HIHI");
    await expect(page.getByText("5 of 5 PVs")).toBeVisible();
    await expect(app.row(missing)).toContainText("Not found");
    const order = (): Promise<(string | null)[]> =>
      page
        .locator("[data-row]")
        .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-row")));
    await page.getByRole("button", { name: "PV", exact: true }).click();
    await expect.poll(order).toEqual([...names, missing].sort());
    await page.getByRole("button", { name: "State" }).click();
    await expect.poll(async () => (await order()).slice(0, 2)).toEqual([current, missing]);
    await expectAccessible(page);

    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export CSV" }).click(),
    ]);
    const lines = readFileSync(await file.path(), "utf8").split("\r\n");
    expect(lines[0]).toBe("PV,value,state,alarm,status,message,time (local)");
    expect(lines[1]).toMatch(new RegExp(`^${current},350.00 mA,major alarm,MAJOR,HIHI,`));
    await page.getByRole("button", { name: "1 major alarm" }).click();
    await expect.poll(order).toEqual([current]);
    await page.getByRole("button", { name: "1 major alarm" }).click();
    await page.getByRole("searchbox").fill("n000");
    await expect.poll(async () => (await order()).sort()).toEqual([first, seventh]);

    // The list goes with the page.
    await page.getByRole("link", { name: "Alarms" }).click();
    const alarm = page.locator(`[data-alarm="${current}"]`);
    await expect(alarm).toContainText(/350\.00 mA\s*MAJOR HIHI\s*since \d{4}-\S+ \S+ or earlier/);
    await expect(page.locator("[data-alarm]")).toHaveCount(2);
    await expectAccessible(page);
    await ioc.put("RING:CURRENT", 250);
    await expect(alarm).toBeHidden();
    // The press itself sounds, and then each PV that becomes worse.
    await page.getByRole("button", { name: "Sound" }).click();
    const sounded = page.locator("html[data-sounded]");
    await expect(sounded).toBeAttached();
    await sounded.evaluate((root) => {
      root.removeAttribute("data-sounded");
    });
    await ioc.kill();
    await expect(sounded).toBeAttached();
    await expect(page).toHaveURL(/sound=1/);
    await expect(page.locator("[data-alarm]")).toHaveCount(5);
    await expect(page).toHaveTitle("5 alarms – pvwire");
    await alarm.getByRole("link").click();
    await expect(app.condition).toContainText("Disconnected");
    expect(relay.output).not.toContain("panicked");
  });
});

test("table: groups are folded, count their alarms, and stay in the link and in saved lists", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 300);
  const [current, tune, first, missing] = ["RING:CURRENT", "RING:TUNE", "N0001", "MISSING"].map(
    (name) => `${prefix}:${name}`,
  ) as [string, string, string, string];
  const group = (title: string) => page.locator(`[data-group="${title}"]`);
  await app.open("#/table");
  const text = `# Ring, all\n${tune}\n${current}\n# Others\n${first}\n${missing}`;
  await page.getByRole("textbox", { name: /^Names/ }).fill(text);
  await page.getByRole("button", { name: "Show these PVs" }).click();
  await expect(group("Ring, all")).toContainText(/Ring, all\s*2 PVs\s*1 minor alarm$/);
  await expect(group("Others")).toContainText("1 not connected or not readable");
  await expectAccessible(page);

  // Sorting and filters leave the groups; a filter hides no alarm from a title.
  await page.getByRole("button", { name: "PV", exact: true }).click();
  const lines = (): Promise<(string | null)[]> =>
    page
      .locator("[data-row], [data-group]")
      .evaluateAll((rows) =>
        rows.map((row) => row.getAttribute("data-row") ?? row.getAttribute("data-group")),
      );
  await expect.poll(lines).toEqual(["Ring, all", current, tune, "Others", missing, first]);
  await page.getByRole("searchbox").fill("tune");
  await expect.poll(lines).toEqual(["Ring, all", tune]);
  await expect(group("Ring, all")).toContainText("1 of 2 PVs");
  await expect(group("Ring, all")).toContainText("1 minor alarm");
  await page.getByRole("searchbox").fill("");

  const fold = group("Ring, all").getByRole("button");
  await fold.click();
  await expect(fold).toHaveAttribute("aria-expanded", "false");
  await expect.poll(lines).toEqual(["Ring, all", "Others", missing, first]);
  await page.reload();
  await expect.poll(lines).toEqual(["Ring, all", "Others", missing, first]);
  await page.getByRole("button", { name: "Unfold all" }).click();
  await page.getByRole("button", { name: "Fold all" }).click();
  await expect.poll(lines).toEqual(["Ring, all", "Others"]);

  // The other pages have the PVs, and bring the groups back.
  await page.getByRole("link", { name: "Alarms" }).click();
  await expect(page.locator("[data-alarm]")).toHaveCount(2);
  await page.getByRole("link", { name: "Table" }).click();
  await expect.poll(async () => (await lines()).length).toBe(6);
  page.once("dialog", (dialog) => void dialog.accept("Both"));
  await page.getByText("Change the list").click();
  await page.getByRole("button", { name: "Save in this browser" }).click();
  await page.getByRole("button", { name: "No groups" }).click();
  await expect.poll(lines).toEqual([tune, current, first, missing]);
  await page.getByRole("button", { name: "Group by prefix" }).click();
  await expect(group(`${prefix}:RING`)).toContainText("2 PVs");
  await page.getByText("Change the list").click();
  await page.getByRole("button", { name: "Both (4)" }).click();
  await expect(group("Others")).toBeVisible();
});

test.describe("with a folder for lists", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "pvwire-saved-"));
  test.use({ relayFlags: [`--saved=${folder}`] });
  test.afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  test("a list that is saved on the relay is there in another browser, and can be removed", async ({
    app,
    browser,
    page,
    prefix,
    relay,
  }) => {
    const pv = `${prefix}:RING:CURRENT`;
    await app.open(`#/table?pvs=%23%20Ring,${pv}`);
    await page.getByText("Change the list").click();
    page.once("dialog", (dialog) => void dialog.accept("Ring/1"));
    await page.getByRole("button", { name: "Save on the relay" }).click();
    await expect(page.getByText("Saved as Ring/1 on the relay.")).toBeVisible();

    const other = await browser.newPage();
    await other.goto(`${app.url}#/table`);
    await other.getByRole("button", { name: "Ring/1 (1)" }).click();
    await expect(other.locator(`[data-row="${pv}"]`)).toBeVisible();
    await expect(other.locator("[data-group]")).toHaveCount(1);
    await other.getByText("Change the list").click();
    // A list that others may use isn't lost by one press.
    other.once("dialog", (dialog) => void dialog.dismiss());
    await other.getByRole("button", { name: "Remove the list Ring/1" }).click();
    await expect(other.getByRole("button", { name: "Ring/1 (1)" })).toBeVisible();
    other.once("dialog", (dialog) => void dialog.accept());
    await other.getByRole("button", { name: "Remove the list Ring/1" }).click();
    await expect(other.getByText("Ring/1 is removed.")).toBeVisible();
    await expect(other.getByRole("list", { name: "Saved on the relay" })).toHaveCount(0);
    await relay.kill();
    other.once("dialog", (dialog) => void dialog.accept("Late"));
    await other.getByRole("button", { name: "Save on the relay" }).click();
    await expect(other.getByText("The relay has changed nothing, or doesn't say so")).toBeVisible();
    await other.close();
  });
});

test("health: the relay's numbers, and what is said when it doesn't show them", async ({
  app,
  page,
  relay,
}) => {
  await app.open("#/health");
  const shown = page.getByRole("region", { name: "The relay" });
  await expect(shown).toContainText(/Clients\s*1/);
  const clients = page.getByRole("region", { name: "Clients" });
  await expect(clients).toContainText("1 client, none behind");
  await expect(clients.getByRole("row").nth(1)).toContainText(/^127\.0\.0\.1:\d+–in step–00\d+ s/);
  await expect(shown).toContainText(/No update was sent in the last \d+ s\./);
  await expect(page.getByRole("region", { name: "This page" })).toContainText(/Connection\s*open/);
  await expect(page.getByRole("link", { name: /^The relay's own page/ })).toHaveAttribute(
    "href",
    "status",
  );
  await expectAccessible(page);
  // A relay that doesn't answer has no figures of now, and is asked once at a time.
  let questions = 0;
  await page.route("**/status", () => {
    questions += 1;
  });
  await expect(page.getByRole("region", { name: "The relay" })).toContainText(
    "No status: the relay doesn't answer.",
    { timeout: 15_000 },
  );
  expect(questions).toBeLessThanOrEqual(2);
  await page.unroute("**/status");
  await expect(page.getByRole("region", { name: "The relay" })).toContainText(/Clients/);
  await relay.kill();
  await expect(page.getByRole("region", { name: "The relay" })).toContainText("No status");
});

test("pages are complete from a phone to a wall", async ({ app, ioc, page, prefix }) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 300);
  const current = `${prefix}:RING:CURRENT`;
  const names = [current, `${prefix}:RING:TUNE`, `${prefix}:OP:MESSAGE`, `${prefix}:MISSING`];
  // Of what is missing, too: a snapshot with a dry run has all columns.
  await app.open(`#/snapshots?pvs=${names.join(",")}`);
  await page.getByRole("button", { name: "Take 4 PVs now" }).click();
  await expect(page).toHaveURL(/snapshot=\w/);
  const snapshot = new URL(page.url()).hash;
  const past = `from=${String(Date.now() - 60_000)}&to=${String(Date.now())}`;
  const pages = [
    ["snapshots", snapshot],
    ["plots", `#/plots?limits=1&last=60&pvs=${names.join(",")}`],
    ["plots below each other", `#/plots?stack=1&last=60&pvs=${names.join(",")}`],
    ["plots against a PV", `#/plots?limits=1&last=60&x=${current}&pvs=${names.join(",")}`],
    ["pv", `#/pv/${current}?fields=1`],
    ["choices", `#/pv/${prefix}:OP:MODE:SET`],
    ["table", `#/table?curves=1&pvs=${names.join(",")}`],
    ["table with groups", `#/table?curves=1&pvs=%23 Ring,${names.join(",%23 More,")}`],
    ["table of the past", `#/table?${past}&pvs=${names.join(",")}`],
    ["plots of the past", `#/plots?${past}&pvs=${names.join(",")}`],
    ["kiosk", `#/table?kiosk=1&pvs=${names.join(",")}`],
    ["alarms", `#/alarms?pvs=${names.join(",")}`],
    ["health", "#/health"],
    ["welcome", "#/"],
  ] as const;
  const setScreen = await screenOf(page);
  for (const ratio of [1, 2]) {
    for (const [title, hash] of pages) {
      await app.open(hash);
      await page.reload();
      if (title === "pv") await expect(app.value).toHaveText("300.00 mA");
      if (title === "pv") await expect(page.locator(".record-fields")).toBeVisible();
      if (title === "snapshots") await page.getByRole("button", { name: "Dry run" }).click();
      for (const width of ratio === 1 ? [390, 1024, 1440, 2560] : [390, 2560]) {
        const colorScheme = width === 1024 || width === 2560 ? "dark" : "light";
        const height = { 390: 844, 2560: 1440 }[width] ?? 900;
        const screen: Screen = { width, height, ratio, colorScheme };
        await setScreen(screen);
        await expectNoFaults(page, `${title}, ${nameOf(screen)}`);
      }
    }
  }
});

test("a long text and alarms are whole on a phone, and in forced colours", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  const setScreen = await screenOf(page);
  const phone: Screen = { width: 390, height: 844, ratio: 1, colorScheme: "light" };
  await setScreen(phone);
  const text = Array.from({ length: 60 }, (_, at) => `word${String(at)}`).join(" ");
  await app.open(`#/pv/${encodeURIComponent(`loc://long("${text}")`)}`);
  await expect(app.value).toContainText("word0 word1");
  // Its beginning can be seen, and the rest by the keyboard.
  const isAbove = await app.value.evaluate((box) => {
    const range = document.createRange();
    range.selectNodeContents(box);
    return range.getBoundingClientRect().top < box.getBoundingClientRect().top;
  });
  expect(isAbove).toBe(false);
  await app.value.focus();
  await expect(app.value).toBeFocused();
  await expectAccessible(page);

  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 345);
  const name = `${prefix}:RING:CURRENT`;
  await page.emulateMedia({ forcedColors: "active" });
  for (const [kind, words] of [
    ["alarms", ".alarm-text"],
    ["table", '[data-column="state"] > span'],
  ] as const) {
    await app.open(`#/${kind}?pvs=${name},${prefix}:MISSING`);
    await setScreen(phone);
    const major = page.locator(`[data-severity="MAJOR"] ${words}`);
    await expect(major).toContainText("MAJOR HIHI");
    const [ink, ground] = await major.evaluate((element) => {
      const { backgroundColor, color } = getComputedStyle(element);
      return [color, backgroundColor] as const;
    });
    expect(ground, `${kind}: inverse`).toBe(
      await page.evaluate(() => getComputedStyle(document.body).color),
    );
    expect(ink).not.toBe(ground);
    await expectNoFaults(page, `${kind}, forced colours`);
  }
});

test("the icon of the alarms shows a major alarm that a filter hides", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 350);
  const current = `${prefix}:RING:CURRENT`;
  await app.open(`#/alarms?q=nothing&pvs=${current}`);
  await expect(page.getByText("No alarm passes the filters.")).toBeVisible();
  await expect(page).toHaveTitle("1 alarm – pvwire");
  // The colour of a major alarm.
  await expect(page.locator('link[rel="icon"]')).toHaveAttribute("href", /d0342c/);

  // An alarm that becomes another one is still the same one, and the first state counts as no new alarm.
  await page.getByRole("searchbox").fill("");
  const alarm = page.locator(`[data-alarm="${current}"]`);
  await expect(alarm).toContainText("MAJOR HIHI");
  for (const value of [300, 350, 300]) {
    await ioc.put("RING:CURRENT", value);
    await expect(alarm).toContainText(value === 350 ? "MAJOR HIHI" : "MINOR HIGH");
  }
  await expect(alarm).not.toContainText("times");
});

test("a late answer to a pattern doesn't lead back from another page", async ({
  app,
  page,
  prefix,
}) => {
  const tune = `${prefix}:RING:TUNE`;
  await app.open(`#/table?pvs=${tune}`);
  await expect(app.row(tune)).toHaveAttribute("data-state", "connected");
  await page.getByText("Change the list").click();
  await page.getByRole("textbox", { name: /^Names/ }).fill(`${prefix}:*`);
  // The page is left in the same task, long before the relay can answer.
  await page.evaluate(() => {
    document.querySelector<HTMLFormElement>(".list-box form")?.requestSubmit();
    window.location.hash = "#/health?lock=1";
  });
  await expect(page.getByRole("region", { name: "The relay" })).toContainText(/Clients/);
  // A later question is answered after it.
  await app.search.fill(`${prefix}:ring`);
  await expect(page.getByRole("option")).toHaveText([new RegExp(tune)]);
  expect(new URL(page.url()).hash).toBe("#/health?lock=1");
});

test.describe("by pvAccess", () => {
  test.use({ source: "pva" });

  test("the structure around a record's value is a tree of its fields, and follows them", async ({
    app,
    ioc,
    page,
    prefix,
  }) => {
    await ioc.hold("RING:CURRENT");
    await ioc.put("RING:CURRENT", 350);
    await app.open(`#/pv/${prefix}:RING:CURRENT`);
    await page.getByText("Structure of pvAccess").click();
    const tree = page.locator(".pv-tree");
    await expect(tree).toContainText(/value\s*350/);
    for (const part of ["alarm", "timeStamp", "display", "control", "valueAlarm"]) {
      await expect(tree.getByText(part, { exact: true })).toBeVisible();
    }
    await expect(tree).toContainText(/units\s*mA/);
    await expect(tree).toContainText(/severity\s*2/);
    await expectAccessible(page);
    await ioc.put("RING:CURRENT", 250);
    await expect(tree).toContainText(/severity\s*0/);
  });
});
