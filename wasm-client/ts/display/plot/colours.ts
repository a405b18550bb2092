/** The colours of images: Phoebus's maps by name, and those that a display defines. */

import type { Colours, ColourStops } from "../../widgets/pixels.js";
import { childOf, textOf, type XmlNode } from "../model/xml.js";

/** A colour at a level of 0 to 255. */
type Section = readonly [level: number, red: number, green: number, blue: number];

const SECTIONS: Readonly<Record<string, readonly Section[]>> = {
  JET: [
    [0, 0, 0, 143],
    [28, 0, 0, 255],
    [93, 0, 255, 255],
    [158, 255, 255, 0],
    [223, 255, 0, 0],
    [255, 128, 0, 0],
  ],
  SPECTRUM: [
    [0, 0, 0, 0],
    [32, 255, 0, 255],
    [64, 0, 0, 255],
    [96, 0, 255, 255],
    [128, 0, 255, 0],
    [160, 255, 255, 0],
    [190, 255, 128, 0],
    [223, 255, 0, 0],
    [255, 255, 255, 255],
  ],
  HOT: [
    [0, 11, 0, 0],
    [94, 255, 0, 0],
    [190, 255, 255, 0],
    [255, 255, 255, 255],
  ],
  COOL: [
    [0, 0, 255, 255],
    [255, 255, 0, 255],
  ],
  SHADED: [
    [0, 0, 0, 0],
    [128, 255, 0, 0],
    [255, 255, 255, 255],
  ],
  MAGMA: [
    [0, 0, 0, 4],
    [51, 59, 15, 112],
    [102, 140, 41, 129],
    [153, 222, 73, 104],
    [204, 254, 159, 109],
    [255, 252, 253, 191],
  ],
};

const BLACK: Section = [0, 0, 0, 0];

const NAMED: ReadonlyMap<string, Colours> = new Map<string, Colours>([
  ["VIRIDIS", "viridis"],
  ["GRAY", "grey"],
  ["GREY", "grey"],
  ...Object.entries(SECTIONS).map(([name, sections]) => [name, stopsOf(sections)] as const),
]);

/** Maps of older displays by their number. */
const NUMBERED = ["", "GRAY", "JET", "SPECTRUM", "HOT", "COOL", "SHADED"];

/** The colours of an image's element; another map than Phoebus's is viridis, as there. */
export function coloursOf(image: XmlNode): Colours {
  const node = childOf(image, "color_map");
  if (node === undefined) return "viridis";
  const map = childOf(node, "map");
  const written = textOf(node, "name") ?? (map && NUMBERED[Number(map.text)]) ?? node.text;
  const named = NAMED.get(written.trim().toUpperCase());
  if (named !== undefined) return named;
  const sections = [
    ...(map?.children ?? []).map((entry) => sectionOf(entry, 255 * Number(entry.text))),
    ...node.children
      .filter(({ name }) => name === "section")
      .map((entry) => sectionOf(entry, Number(entry.attributes.value))),
  ].filter((section) => section.every(Number.isFinite));
  return sections.length === 0 ? "viridis" : stopsOf(sections);
}

function sectionOf({ attributes }: XmlNode, level: number): Section {
  const part = (name: string): number => Number(attributes[name] ?? NaN);
  return [level, part("red"), part("green"), part("blue")];
}

/** 256 colours; outside the sections it is that of the nearest one. */
function stopsOf(sections: readonly Section[]): ColourStops {
  const sorted = [...sections].sort(([one], [other]) => one - other);
  return Array.from({ length: 256 }, (_, level) => {
    const above = sorted.find(([at]) => at >= level) ?? sorted.at(-1) ?? BLACK;
    const below = sorted.filter(([at]) => at <= level).at(-1) ?? above;
    const share = above[0] > below[0] ? (level - below[0]) / (above[0] - below[0]) : 0;
    const part = (at: 1 | 2 | 3): number => Math.round(below[at] + (above[at] - below[at]) * share);
    return [part(1), part(2), part(3)] as const;
  });
}
