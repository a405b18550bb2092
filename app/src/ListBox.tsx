/** The list of PVs of a page: its text with groups, files, saved lists, and what names match a pattern. */

import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { t, type PvClient } from "pvwire";
import { useClient } from "pvwire/react";

import { eachOnce, entriesIn, entriesOfFile } from "./pasted";
import { pvsText, typed } from "./texts";
import { isTitle, pvsIn } from "./groups";
import { go, parseRoute, type Route } from "./route";
import { rememberList, removeList, savedLists, saveList, type Lists } from "./stored";

/** Maximum number of names that a pattern brings: the longest list that the table and the relay keep. */
const MAX_MATCHES = 10_000;

/** The most names of one answer. */
const PAGE = 1000;

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

interface Matches {
  readonly names: readonly string[];
  /** There are more than a pattern brings. */
  readonly isCut: boolean;
}

/** The known names that match a pattern. */
export async function matchesOf(
  client: PvClient,
  pattern: string,
  signal: AbortSignal,
): Promise<Matches> {
  const names: string[] = [];
  let after: string | undefined;
  do {
    const limit = Math.min(PAGE, MAX_MATCHES - names.length);
    const page = await client.names(pattern, {
      limit,
      signal,
      ...(after === undefined ? {} : { after }),
    });
    // An answer may have been on its way.
    signal.throwIfAborted();
    names.push(...page.names.map(({ name }) => name));
    after = page.next;
  } while (after !== undefined && names.length < MAX_MATCHES);
  return { names, isCut: after !== undefined };
}

/** How long the relay may take for its lists. */
const TIMEOUT_MS = 5000;

/** Sends a request about the lists that the relay keeps for its user; resolves with all of them then, or `undefined` from a relay that keeps none. */
async function listsAfter(path: string, options: RequestInit = {}): Promise<Lists | undefined> {
  // Behind a proxy the relay may be at a path.
  const answer = await fetch(`saved${path}`, {
    ...options,
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return ((await answer.json()) as { readonly lists: Lists | null }).lists ?? undefined;
}

const relayLists = (): Promise<Lists | undefined> => listsAfter("");

const saveOnRelay = (title: string, names: readonly string[]): Promise<Lists | undefined> =>
  listsAfter(`/${encodeURIComponent(title)}`, { method: "PUT", body: JSON.stringify({ names }) });

const removeFromRelay = (title: string): Promise<Lists | undefined> =>
  listsAfter(`/${encodeURIComponent(title)}`, { method: "DELETE" });

/** Asks before a list of the same name is lost. */
const mayReplace = (title: string, lists: Lists): boolean =>
  !Object.hasOwn(lists, title) || window.confirm(t`Replace the list ${title}?`);

/** What a person must know of a list, such as that names are missing in it. */
interface Remark {
  /** The list, as a text. */
  readonly of: string;
  readonly text: string;
}

/** The list of the link. */
export function ListBox({ route }: { readonly route: Route }): ReactNode {
  const { names } = route;
  const client = useClient();
  const list = names.join("\n");
  const [text, setText] = useState(list);
  const [said, setSaid] = useState("");
  const [remark, setRemark] = useState<Remark>({ of: "", text: "" });
  const [lists, setLists] = useState(savedLists);
  const box = useRef<HTMLDetailsElement>(null);
  const [former, setFormer] = useState(list);
  if (former !== list) {
    setFormer(list);
    setText(list);
    setSaid("");
  }
  useLayoutEffect(() => {
    if (box.current !== null) box.current.open = list === "";
  }, [list]);

  /** `undefined` where the relay keeps no lists. */
  const [onRelay, setOnRelay] = useState<Lists>();
  const searching = useRef<AbortController>(undefined);

  useEffect(() => {
    let isShown = true;
    relayLists().then(
      (lists) => {
        if (isShown) setOnRelay(lists);
      },
      (error: unknown) => {
        if (isShown) setSaid(t`The lists on the relay can't be read: ${textOf(error)}`);
      },
    );
    return () => {
      isShown = false;
      searching.current?.abort();
    };
  }, []);

  /** Shows the relay's lists after a change, or why it failed. */
  const change = (changed: Promise<Lists | undefined>, done: string): void => {
    setSaid("");
    changed.then(
      (lists) => {
        setOnRelay(lists);
        setSaid(lists === undefined ? t`The relay keeps no lists any more.` : done);
      },
      (error: unknown) => {
        setSaid(t`The relay has changed nothing, or doesn't say so: ${textOf(error)}`);
      },
    );
  };

  /** Ends the search before, whose answer must not replace what the user does now. */
  const begin = (): AbortSignal => {
    searching.current?.abort();
    searching.current = new AbortController();
    setSaid("");
    return searching.current.signal;
  };

  const open = (list: readonly string[]): void => {
    // The page and its settings may have changed during a search.
    const now = parseRoute(window.location.hash);
    if (now.page !== route.page) return;
    rememberList(list);
    setText(list.join("\n"));
    go({ ...now, names: list });
  };

  const reopen = (list: readonly string[]): void => {
    begin();
    open(list);
  };

  const show = async (signal: AbortSignal): Promise<void> => {
    const found: string[] = [];
    const remarks: string[] = [];
    for (const each of entriesIn(text)) {
      if (isTitle(each) || !/[*?]/.test(each) || each.includes("://")) found.push(each);
      else {
        const { isCut, names } = await matchesOf(client, each, signal);
        found.push(...names);
        if (names.length === 0) remarks.push(t`${each}: no known name.`);
        if (isCut) {
          const first = String(MAX_MATCHES);
          remarks.push(t`${each}: only the first ${first} names are in the list; there are more.`);
        }
      }
    }
    const entries = eachOnce(found);
    const remark = remarks.join(" ");
    // What was typed stays, and is corrected.
    if (entries.length === 0 && remark !== "") {
      setSaid(remark);
      return;
    }
    setRemark({ of: entries.join("\n"), text: remark });
    open(entries);
  };

  /** Adds what files have to the text, which is shown by its own button. */
  const readFiles = async (files: readonly File[]): Promise<void> => {
    const texts = await Promise.all(files.map((file) => file.text()));
    const entries = texts.flatMap(entriesOfFile);
    setText((before) => eachOnce([...entriesIn(before), ...entries]).join("\n"));
    const pvs = pvsText(entries.filter((entry) => !isTitle(entry)).length);
    setSaid(t`${files.map(({ name }) => name).join(", ")}: ${pvs} added to the text.`);
  };

  return (
    <>
      <details ref={box} className="panel list-box">
        <summary>{names.length === 0 ? t`Which PVs?` : t`Change the list`}</summary>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const signal = begin();
            show(signal).catch((error: unknown) => {
              if (!signal.aborted) setSaid(textOf(error));
            });
          }}
        >
          <label>
            <span>
              {typed(
                t`Names, in any form: one in a line, a mail, |caget| lines, or a pattern with |*|; a line that begins with |#| is the title of a group`,
              )}
            </span>
            <textarea
              rows={8}
              spellCheck={false}
              value={text}
              onChange={({ target }) => {
                setText(target.value);
              }}
            />
          </label>
          <div className="choices">
            <button type="submit">{t`Show these PVs`}</button>
            <FileButton
              open={(files) => {
                readFiles(files).catch((error: unknown) => {
                  setSaid(t`The file can't be read: ${textOf(error)}`);
                });
              }}
            />
            <button
              type="button"
              disabled={names.length === 0}
              onClick={() => {
                const title = window.prompt(t`Name of this list in this browser`)?.trim() ?? "";
                if (title === "" || !mayReplace(title, lists)) return;
                setSaid(
                  saveList(title, names) ? t`Saved as ${title}.` : t`This browser stores nothing.`,
                );
                setLists(savedLists());
              }}
            >
              {t`Save in this browser`}
            </button>
            {onRelay !== undefined && (
              <button
                type="button"
                disabled={names.length === 0}
                onClick={() => {
                  const title = window.prompt(t`Name of this list on the relay`)?.trim() ?? "";
                  if (title === "" || !mayReplace(title, onRelay)) return;
                  change(saveOnRelay(title, names), t`Saved as ${title} on the relay.`);
                }}
              >
                {t`Save on the relay`}
              </button>
            )}
            <span className="note" role="status">
              {said}
            </span>
          </div>
        </form>
        <SavedLists
          label={t`Saved in this browser`}
          lists={lists}
          onOpen={reopen}
          onRemove={(title) => {
            if (!window.confirm(t`Remove the list ${title} from this browser?`)) return;
            removeList(title);
            setLists(savedLists());
          }}
        />
        <SavedLists
          label={t`Saved on the relay`}
          lists={onRelay ?? {}}
          onOpen={reopen}
          onRemove={(title) => {
            if (!window.confirm(t`Remove the list ${title} from the relay?`)) return;
            change(removeFromRelay(title), t`${title} is removed.`);
          }}
        />
      </details>
      {remark.of === list && remark.text !== "" && (
        <p className="note" role="status">
          {remark.text}
        </p>
      )}
    </>
  );
}

/** Lists with titles, each to be opened or removed. */
function SavedLists({
  label,
  lists,
  onOpen,
  onRemove,
}: {
  readonly label: string;
  readonly lists: Lists;
  readonly onOpen: (names: readonly string[]) => void;
  readonly onRemove: (title: string) => void;
}) {
  const entries = Object.entries(lists);
  if (entries.length === 0) return null;
  return (
    <>
      <p className="note">{label}</p>
      <ul className="links" aria-label={label}>
        {entries.map(([title, names]) => (
          <li key={title}>
            <button
              type="button"
              onClick={() => {
                onOpen(names);
              }}
            >
              {title} ({pvsIn(names).length})
            </button>{" "}
            <button
              type="button"
              aria-label={t`Remove the list ${title}`}
              onClick={() => {
                onRemove(title);
              }}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

function FileButton({ open }: { readonly open: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" onClick={() => input.current?.click()}>
        {t`From a file…`}
      </button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        aria-label={t`Files with names`}
        onChange={({ target }) => {
          const files = [...(target.files ?? [])];
          if (files.length > 0) open(files);
          // The same file can be chosen again.
          target.value = "";
        }}
      />
    </>
  );
}
