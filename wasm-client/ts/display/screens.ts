/** Displays that a relay serves: their list, their colours, and which of their files have changed. */

import { fetchText } from "./loader.js";
import { nearestFile, PALETTE_FILES } from "./model/address.js";
import { paletteOf, type Palette } from "./model/palette.js";

/** A file of the list. */
export interface ScreenFile {
  /** Path below the list's address. */
  readonly path: string;
  /** Size in bytes. */
  readonly bytes: number;
  /** When it was written, in milliseconds past the POSIX epoch. */
  readonly modifiedMs: number;
  /** Differs after each change. */
  readonly version: string;
}

/** The displays of one relay. */
export interface Screens {
  /** All files that this user may read. @throws Error that says why they can't be read */
  readonly list: () => Promise<readonly ScreenFile[]>;
  /** The address of a path. */
  readonly addressOf: (path: string) => string;
  /** The path of an address; `undefined` for other addresses. */
  readonly pathOf: (address: string) => string | undefined;
  /**
   * The palette of a display's path: of the files of colours, fonts and classes in its folder or in the
   * nearest one around it, such as `color.def`, `font.def` and `classes.bcf`. A file that can't be read
   * is left out.
   * @throws Error that says why the list can't be read
   */
  readonly palette: (path: string) => Promise<Palette>;
  /**
   * Whether the folder had a file at an address when it was last listed; `undefined` before, and for other
   * addresses.
   */
  readonly exists: (address: string) => boolean | undefined;
  /**
   * Calls `changed` with the addresses of files that have changed since they were last listed, until
   * the returned function is called. Pages that aren't visible wait.
   */
  readonly watch: (changed: (addresses: readonly string[]) => void) => () => void;
}

const TIMEOUT_MS = 10_000;

/**
 * The displays of a relay.
 * @param url the address of the list, such as `/screens/`
 */
export function createScreens(url: string | URL, options: { pollMs?: number } = {}): Screens {
  const { pollMs = 3000 } = options;
  const base = new URL(url, document.baseURI).href;
  let last: readonly ScreenFile[] | undefined;
  const read = async (): Promise<readonly ScreenFile[]> => {
    // The relay answers an unchanged list without its content.
    const text = await fetchText(base, TIMEOUT_MS);
    return (JSON.parse(text) as { readonly files: readonly ScreenFile[] }).files;
  };
  const list = async (): Promise<readonly ScreenFile[]> => {
    const files = await read();
    last ??= files;
    return files;
  };
  // As displays write it, so that it equals the address that a display has opened.
  const addressOf = (path: string): string =>
    // A colon in the first part would end a scheme.
    new URL(`./${path.replace(/[%?#]/g, encodeURIComponent)}`, base).href;
  const pathOf = (address: string): string | undefined => {
    const plain = address.replace(/[?#].*$/s, "");
    if (!plain.startsWith(base)) return undefined;
    try {
      return decodeURIComponent(plain.slice(base.length));
    } catch {
      return undefined;
    }
  };
  const exists: Screens["exists"] = (address) => {
    const path = pathOf(address);
    return path === undefined ? undefined : last?.some((file) => file.path === path);
  };
  const palettes = new Map<string, Promise<Palette>>();
  const palette: Screens["palette"] = async (display) => {
    const versions = new Map((last ?? (await list())).map((file) => [file.path, file.version]));
    const paths = PALETTE_FILES.map((name) => nearestFile(versions.keys(), display, name));
    // Another palette would render all widgets again.
    const key = JSON.stringify(paths.map((path) => [path, versions.get(path ?? "")]));
    const known = palettes.get(key);
    if (known !== undefined) return await known;
    const readable = async (path: string | undefined): Promise<string> => {
      if (path === undefined) return "";
      return await fetchText(addressOf(path), TIMEOUT_MS).catch(() => {
        // It is read again for the next display.
        palettes.delete(key);
        return "";
      });
    };
    const read = Promise.all(paths.map(readable)).then(([colours = "", fonts = "", classes = ""]) =>
      paletteOf({ colours, fonts, classes }),
    );
    palettes.set(key, read);
    return await read;
  };
  const watch: Screens["watch"] = (changed) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const look = async (): Promise<void> => {
      try {
        if (!document.hidden) {
          const now = await read();
          const paths = isOver || last === undefined ? [] : changedIn(last, now);
          last = now;
          if (paths.length > 0) changed(paths.map(addressOf));
        }
      } catch {
        // The relay or the network is away; the next look finds what has changed since.
      }
      if (!isOver) timer = setTimeout(() => void look(), pollMs);
    };
    void look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  };
  return { list, addressOf, pathOf, palette, exists, watch };
}

function changedIn(before: readonly ScreenFile[], now: readonly ScreenFile[]): string[] {
  const versions = new Map(before.map(({ path, version }) => [path, version]));
  return now.filter(({ path, version }) => versions.get(path) !== version).map(({ path }) => path);
}
