/** Groups of a list: an entry that begins with # is no PV, but the title of those after it. */

/** Whether an entry of a list is a title. */
export const isTitle = (entry: string): boolean => entry.startsWith("#");

const titleText = (entry: string): string => entry.replace(/^[#\s]+/, "");

export const pvsIn = (entries: readonly string[]): string[] =>
  entries.filter((entry) => !isTitle(entry));

export interface Group {
  /** Empty for PVs before the first title. */
  readonly title: string;
  /** Its PVs among all of the list, from `begin` on, before `end`. */
  readonly begin: number;
  readonly end: number;
}

/** The groups of a list, without those that have no PV. */
export function groupsIn(entries: readonly string[]): Group[] {
  const groups: Group[] = [];
  let [title, begin, end] = ["", 0, 0];
  const close = (): void => {
    if (end > begin) groups.push({ title, begin, end });
    begin = end;
  };
  for (const entry of entries) {
    if (isTitle(entry)) {
      close();
      title = titleText(entry);
    } else end += 1;
  }
  close();
  return groups;
}

/** What names of one device or place have in common: all before the last colon, without the protocol. */
export function prefixOf(name: string): string {
  const [, plain = ""] = /^(?:[a-z]+:\/\/)?(.*)$/s.exec(name) ?? [];
  // A filter and the arguments of a simulated PV may have colons too.
  const [bare = ""] = plain.split(/[.({]/);
  return bare.slice(0, Math.max(0, bare.lastIndexOf(":")));
}

/** The PVs of a list in groups by their prefixes, each in the order of its first PV. */
export function byPrefix(entries: readonly string[]): string[] {
  const groups = new Map<string, string[]>();
  for (const name of new Set(pvsIn(entries))) {
    const prefix = prefixOf(name);
    const group = groups.get(prefix) ?? [];
    groups.set(prefix, group);
    group.push(name);
  }
  // PVs without a prefix come first, where they need no title.
  const bare = groups.get("") ?? [];
  groups.delete("");
  return [...bare, ...[...groups].flatMap(([prefix, names]) => [`# ${prefix}`, ...names])];
}
