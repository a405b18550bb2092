/** Addresses of files that a display names. */

/** Where the files of displays are: an address that ends with `/`. */
export type Root = string;

/** The address of a folder; without its last slash it would be the beginning of other names too. */
export function folderAddress(root: Root): Root {
  const { href } = new URL(root, document.baseURI);
  return href.endsWith("/") ? href : `${href}/`;
}

/** The name of a file for people. */
export function fileName(address: string): string {
  const name = address.replace(/^.*\//, "");
  try {
    return decodeURIComponent(name);
  } catch {
    // It has a % that encodes nothing.
    return name;
  }
}

/**
 * The address of a file, relative to the display that names it. Files outside `root`, and on other
 * hosts, are refused.
 */
export function resolveFile(
  file: string,
  from: string,
  root: Root,
): { readonly address: string; readonly problem?: undefined } | { readonly problem: string } {
  const name = file.trim();
  if (name === "") return { problem: "the display names no file" };
  if (/\$[({]/.test(name)) return { problem: `${name}: a macro has no value` };
  if (/^(?:examples|pv|file|platform):/i.test(name)) {
    return { problem: `${name}: this kind of address isn't available here` };
  }
  let address: URL;
  try {
    address = new URL(name.replaceAll("\\", "/"), new URL(from, document.baseURI));
  } catch {
    return { problem: `${name}: not an address` };
  }
  if (address.protocol !== "http:" && address.protocol !== "https:") {
    return { problem: `${name}: only files of this site can be opened` };
  }
  // An encoded slash or dot would be decoded only by the server.
  const isPlain = !/%2e|%2f|%5c/i.test(address.pathname);
  if (!isPlain || !address.href.startsWith(folderAddress(root))) {
    return { problem: `${name}: outside the folder of displays` };
  }
  return { address: address.href };
}

/**
 * The display that is shown for one of BOY's (`.opi`): that of the same name in today's format, which
 * Phoebus prefers too; without one, BOY's is read. Displays that were converted still name each other by the
 * older ending.
 */
export const presentFormat = (file: string): string => file.replace(/\.opi(?=$|[?#])/i, ".bob");

/** Whether a path is a display of a list: one of BOY's is left out where today's format is beside it. */
export const isDisplay = (path: string, paths: ReadonlySet<string>): boolean =>
  /\.bob$/i.test(path) || (/\.opi$/i.test(path) && !paths.has(presentFormat(path)));

/** Files of colours, fonts and widget classes, whose names facilities choose. */
export const PALETTE_FILES = [/colou?r[^/]*\.def$/i, /font[^/]*\.def$/i, /\.bcf$/i] as const;

/** As they are called without a choice. */
const USUAL = /(^|\/)(color\.def|font\.def|classes\.bcf)$/;

/**
 * The path of such a file in a display's folder, or in the nearest one around it: of several in a folder the usual one, or
 * the first by name.
 */
export function nearestFile(
  paths: Iterable<string>,
  display: string,
  name: RegExp,
): string | undefined {
  const files = [...paths].filter((path) => name.test(path)).sort();
  for (let folder = display; folder !== "";) {
    folder = folder.replace(/[^/]*\/?$/, "");
    const near = files.filter((path) => path.replace(/[^/]*$/, "") === folder);
    const file = near.find((path) => USUAL.test(path)) ?? near[0];
    if (file !== undefined) return file;
  }
  return undefined;
}

/** The address of a web page that a display names; `undefined` unless it is one of http(s). */
export function webPage(url: string): string | undefined {
  try {
    const address = new URL(url.trim(), document.baseURI);
    return /^https?:$/.test(address.protocol) ? address.href : undefined;
  } catch {
    return undefined;
  }
}
