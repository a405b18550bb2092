/** The lists of the app: from patterns, files and groups, with the columns that a person chooses. */

import { readFileSync, writeFileSync } from "node:fs";

import { expectAccessible } from "../fixtures/screen";
import { expect, test } from "../fixtures/app_page";

/** More names than a list takes of a pattern. */
const KNOWN = 10_010;

test.describe("with names of files", () => {
  test.use({
    relayFlags: async ({ prefix }, provide, testInfo) => {
      const [list, database] = ["names.txt", "names.db"].map((name) => testInfo.outputPath(name));
      const names = Array.from({ length: KNOWN }, (_, at) => `${prefix}:KNOWN:${String(at)}`);
      writeFileSync(list ?? "", names.join("\n"));
      const record = `record(ai, "${prefix}:DESCRIBED") { field(DESC, "Pressure in sector 3") }`;
      writeFileSync(database ?? "", record);
      await provide([`--names-file=${list ?? ""}`, `--names-file=${database ?? ""}`]);
    },
  });

  test("a pattern brings more than one answer, says what it leaves out, and which names are unknown", async ({
    app,
    page,
    prefix,
  }) => {
    // This page opens the first 20 only.
    await app.open("#/plots");
    const text = page.getByRole("textbox", { name: /^Names/ });
    const show = page.getByRole("button", { name: "Show these PVs" });
    await text.fill(`${prefix}:KNOWN:12*`);
    await show.click();
    // 12, 12x, 12xx.
    await expect(page.getByText("The first 20 of 111 PVs are drawn.")).toBeVisible();
    await expect(page.getByText("only the first")).toBeHidden();
    await page.getByText("Change the list").click();
    await text.fill(`${prefix}:KNOWN:*`);
    await show.click();
    await expect(page.getByText("The first 20 of 10000 PVs are drawn.")).toBeVisible();
    const cut = page.getByText(`${prefix}:KNOWN:*: only the first 10000 names are in the list`);
    await expect(cut).toBeVisible();
    await expectAccessible(page);
    // Another list is whole.
    await page.goto(`${app.url}#/plots?pvs=${prefix}:RING:TUNE`);
    await expect(cut).toBeHidden();

    await page.getByText("Change the list").click();
    await text.fill(`${prefix}:NOBODY*`);
    await show.click();
    await expect(page.getByText(`${prefix}:NOBODY*: no known name.`)).toBeVisible();
    await expect(text).toHaveValue(`${prefix}:NOBODY*`);
    await expect(page).toHaveURL(/RING:TUNE/);
  });

  test("a name is offered with the description that a database has of it", async ({
    app,
    page,
    prefix,
  }) => {
    await app.open();
    await app.search.fill(`${prefix}:desc`);
    const option = page.getByRole("option");
    await expect(option).toHaveText([`${prefix}:DESCRIBED Pressure in sector 3 ca`]);
    await expectAccessible(page);
  });
});

test("a list of files is added to the text, and saved lists are replaced only when confirmed", async ({
  app,
  page,
  prefix,
}) => {
  const [current, tune] = [`${prefix}:RING:CURRENT`, `${prefix}:RING:TUNE`];
  await app.open("#/table");
  const text = page.getByRole("textbox", { name: /^Names/ });
  await text.fill("# Ring");
  await page.getByLabel("Files with names").setInputFiles([
    { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from(`PV,value\n${current},"1,5 mA"\n`) },
    { name: "b.txt", mimeType: "text/plain", buffer: Buffer.from(`${tune}\n`) },
  ]);
  await expect(page.getByText("a.csv, b.txt: 2 PVs added to the text.")).toBeVisible();
  await expect(text).toHaveValue(`# Ring\n${current}\n${tune}`);
  await page.getByRole("button", { name: "Show these PVs" }).click();
  await expect(page.locator('[data-group="Ring"]')).toContainText("2 PVs");

  await page.getByText("Change the list").click();
  const save = page.getByRole("button", { name: "Save in this browser" });
  page.once("dialog", (dialog) => void dialog.accept("Mine"));
  await save.click();
  await expect(page.getByRole("button", { name: "Mine (2)" })).toBeVisible();
  await page.goto(`${app.url}#/table?pvs=${tune}`);
  await page.getByText("Change the list").click();
  const answers: string[] = [];
  page.on("dialog", (dialog) => {
    answers.push(dialog.message());
    void (dialog.type() === "prompt" ? dialog.accept("Mine") : dialog.dismiss());
  });
  await save.click();
  await expect
    .poll(() => answers)
    .toEqual(["Name of this list in this browser", "Replace the list Mine?"]);
  await expect(page.getByRole("button", { name: "Mine (2)" })).toBeVisible();
});

test("a PV in two groups has a row in each, also after sorting and filtering", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 250);
  const [current, tune] = [`${prefix}:RING:CURRENT`, `${prefix}:RING:TUNE`];
  await app.open(`#/table?pvs=%23 One,${current},${tune},%23 Two,${tune},${current}`);
  const values = (): Promise<(string | null)[]> =>
    page
      .locator("[data-row]")
      .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-row")));
  await expect.poll(values).toEqual([current, tune, tune, current]);
  await page.getByRole("button", { name: "PV", exact: true }).click();
  await expect.poll(values).toEqual([current, tune, current, tune]);
  await page.getByRole("searchbox").fill("curr");
  await expect.poll(values).toEqual([current, current]);
  await ioc.put("RING:CURRENT", 251);
  for (const at of [0, 1]) await expect(app.row(current).nth(at)).toContainText("251.00 mA");
  // Pages without groups have it once.
  await page.getByRole("link", { name: "Alarms" }).click();
  await expect(page.getByText("No alarm. All 2 PVs are connected.")).toBeVisible();
});

test("columns are chosen, stay in the link, and have what is known of the PV", async ({
  app,
  ioc,
  page,
  prefix,
}) => {
  await ioc.hold("RING:CURRENT");
  await ioc.put("RING:CURRENT", 250);
  const current = `${prefix}:RING:CURRENT`;
  await app.open(`#/table?pvs=${current},${prefix}:RF:VOLTAGE:SET`);
  const cell = (column: string) => app.row(current).locator(`[data-column="${column}"]`);
  await expect(cell("time")).toBeVisible();
  await page.getByText("Columns").click();
  await page.getByRole("checkbox", { name: "Time" }).uncheck();
  for (const name of ["Description", "Type", "Access"]) {
    await page.getByRole("checkbox", { name }).check();
  }
  await expectAccessible(page);
  await page.reload();
  await expect(cell("description")).toHaveText("Stored beam current");
  await expect(cell("type")).toHaveText("Float64");
  await expect(cell("access")).toHaveText("read");
  await expect(cell("time")).toHaveCount(0);
  await expect(app.row(`${prefix}:RF:VOLTAGE:SET`).locator('[data-column="access"]')).toHaveText(
    "read, write",
  );
  await expect(page).toHaveURL(/columns=state%2Bdescription%2Btype%2Baccess/);

  // All of them sort, are found by the filter, and are in the file.
  const voltage = `${prefix}:RF:VOLTAGE:SET`;
  const names = (): Promise<(string | null)[]> =>
    page
      .locator("[data-row]")
      .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-row")));
  await page.getByRole("button", { name: "Access" }).click();
  await expect(page).toHaveURL(/sort=access/);
  await expect.poll(names).toEqual([current, voltage]);
  await page.getByRole("button", { name: "Access" }).click();
  await expect.poll(names).toEqual([voltage, current]);
  await page.getByRole("button", { name: "Description" }).click();
  const descriptions = page.locator('td[data-column="description"]');
  await expect
    .poll(async () => [...(await descriptions.allTextContents())].sort())
    .toEqual(await descriptions.allTextContents());
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export CSV" }).click(),
  ]);
  const lines = readFileSync(await file.path(), "utf8").split("\r\n");
  expect(lines[0]).toBe("PV,value,state,alarm,status,message,time (local),description,type,access");
  expect(lines.find((line) => line.startsWith(current))).toMatch(
    /,Stored beam current,Float64,read$/,
  );
  await page.getByRole("searchbox").fill("beam cur");
  await expect.poll(names).toEqual([current]);
  await page.getByRole("searchbox").fill("1.40");
  await expect.poll(names).toEqual([voltage]);
  await ioc.put("RF:VOLTAGE:SET", 1.5);
  await expect.poll(names).toEqual([]);
});

test.describe("with many numbered names", () => {
  test.use({
    relayFlags: async ({ prefix }, provide, testInfo) => {
      const list = testInfo.outputPath("names.txt");
      const numbered = Array.from({ length: 400 }, (_, at) => `N${String(at).padStart(4, "0")}`);
      const others = ["RING:CURRENT", "RING:TUNE", "RF:VOLTAGE:SET"];
      writeFileSync(list, [...numbered, ...others].map((name) => `${prefix}:${name}`).join("\n"));
      await provide([`--names-file=${list}`]);
    },
  });

  test("the first page offers them as one pattern, which opens as a table, and records instead of fields", async ({
    app,
    page,
    prefix,
  }) => {
    const current = `${prefix}:RING:CURRENT`;
    // The relay has found a field by now.
    await app.open(`#/pv/${current}.EGU`);
    await expect(app.value).toHaveText("mA");
    await app.open();
    const known = page.getByRole("region", { name: "Names that the relay knows" });
    await expect(known.getByRole("link", { name: current, exact: true })).toBeVisible();
    await expect(known.getByRole("link", { name: `${current}.EGU` })).toHaveCount(0);
    await expect(known.getByRole("listitem")).toHaveCount(4);
    await expectAccessible(page);
    await known.getByRole("button", { name: `${prefix.replace(/\d+/g, "*")}:N*` }).click();
    await expect(page.getByText("400 of 400 PVs")).toBeVisible();
    // Of the names offered, records come first.
    await app.search.fill(`${prefix}:RING`);
    await expect(page.getByRole("option")).toHaveText([
      `${prefix}:RING:TUNE ca`,
      `${current} ca`,
      `${current}.EGU ca`,
    ]);
  });
});
