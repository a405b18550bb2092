/** What the browser remembers: the last PVs, the open list, and lists with names. */

const RECENT = "pvwire-app-recent";
const LIST = "pvwire-app-list";
const LISTS = "pvwire-app-lists";
const MAX_RECENT = 12;

function read<T>(key: string, otherwise: T): T {
  try {
    return JSON.parse(window.localStorage.getItem(key) ?? "") as T;
  } catch {
    // Nothing is stored, or the browser stores nothing.
    return otherwise;
  }
}

function write(key: string, value: unknown): boolean {
  try {
    window.localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    // The browser stores nothing, or not so much: the link has the list too.
    return false;
  }
}

export const recentNames = (): readonly string[] => read<readonly string[]>(RECENT, []);

export function remember(name: string): void {
  write(RECENT, [name, ...recentNames().filter((other) => other !== name)].slice(0, MAX_RECENT));
}

export const lastList = (): readonly string[] => read<readonly string[]>(LIST, []);

export function rememberList(names: readonly string[]): void {
  write(LIST, names);
}

export type Lists = Readonly<Record<string, readonly string[]>>;

export const savedLists = (): Lists => read<Lists>(LISTS, {});

/** Saves a list under a name; returns false if the browser stores it not. */
export const saveList = (title: string, names: readonly string[]): boolean =>
  write(LISTS, { ...savedLists(), [title]: names });

export function removeList(title: string): void {
  write(
    LISTS,
    Object.fromEntries(Object.entries(savedLists()).filter(([other]) => other !== title)),
  );
}
