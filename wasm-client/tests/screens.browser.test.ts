/** The displays of a relay: the palette of each is that of the nearest files, and is read once. */

import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { createScreens } from "../ts/display/index.js";

/** The files by their paths; an empty text can't be read. */
let files: Record<string, string>;
let requests: string[];

beforeEach(() => {
  requests = [];
  files = {
    "color.def": "Ink = 1,2,3",
    "ops/color.def": "Ink = 4,5,6",
    "font.def": "Big = Liberation Sans-bold-30",
    "classes.bcf": `<display version="2.0.0"><widget type="led"><name>LAMP</name><x use_class="true">1</x></widget></display>`,
  };
  vi.stubGlobal("fetch", (address: string) => {
    const path = new URL(address).pathname.replace(/^\/screens\//, "");
    requests.push(path);
    if (path === "") {
      const list = Object.keys(files).map((each) => ({ path: each, version: files[each] }));
      return Promise.resolve(Response.json({ files: list }));
    }
    const text = files[path] ?? "";
    return Promise.resolve(new Response(text, { status: text === "" ? 403 : 200 }));
  });
});

afterEach(() => {
  vi.unstubAllGlobals();
});

it("takes each file from the nearest folder, and reads it once for several displays", async () => {
  const screens = createScreens("/screens/");
  const palette = await screens.palette("ops/vacuum/main.bob");
  expect(palette.colours.get("ink")).toEqual([4, 5, 6, 255]);
  expect(palette.fonts.get("Big")?.size).toBe(30);
  expect([...(palette.classes?.keys() ?? [])]).toContain("led LAMP");
  expect(await screens.palette("ops/other.bob")).toBe(palette);
  expect((await screens.palette("main.bob")).colours.get("ink")).toEqual([1, 2, 3, 255]);
  const once = ["", "ops/color.def", "font.def", "classes.bcf"];
  expect(requests).toEqual([...once, "color.def", "font.def", "classes.bcf"]);
});

it("leaves out a file that can't be read, and reads it again for the next display", async () => {
  files["classes.bcf"] = "";
  const screens = createScreens("/screens/");
  const palette = await screens.palette("main.bob");
  expect(palette.colours.get("ink")).toEqual([1, 2, 3, 255]);
  expect(palette.classes?.size).toBe(0);
  files["classes.bcf"] = `<display><widget type="led"><name>A</name></widget></display>`;
  expect((await screens.palette("main.bob")).classes?.size).toBeGreaterThan(0);
});

it("says that the list can't be read", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("", { status: 401 })));
  await expect(createScreens("/screens/").palette("main.bob")).rejects.toThrow("401");
});
