/** The list of PVs of a page: its text with groups, saved lists, and what names match a pattern. */

import { useEffect, useRef, useState, type ReactNode } from "react";
import { useClient } from "pvwire/react";

import { eachOnce, entriesIn } from "./pasted";
import { isTitle } from "./groups";
import { relayLists, removeFromRelay, saveOnRelay } from "./relay_lists";
import { go, parseRoute, type Route } from "./route";
import { SavedLists } from "./SavedLists";
import { rememberList, removeList, savedLists, saveList, type Lists } from "./stored";

/** Maximum number of names that a pattern brings. */
const MAX_MATCHES = 1000;

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The list of the link. Another one needs another box. */
export function ListBox({ route }: { readonly route: Route }): ReactNode {
  const { names } = route;
  const client = useClient();
  const [text, setText] = useState(names.join("\n"));
  const [said, setSaid] = useState("");
  const [lists, setLists] = useState(savedLists);

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
        if (isShown) setSaid(`The lists on the relay can't be read: ${textOf(error)}`);
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
        setSaid(lists === undefined ? "The relay keeps no lists any more." : done);
      },
      (error: unknown) => {
        setSaid(`The relay has changed nothing, or doesn't say so: ${textOf(error)}`);
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
    for (const each of entriesIn(text)) {
      if (isTitle(each) || !/[*?]/.test(each) || each.includes("://")) found.push(each);
      else {
        const matches = await client.names(each, { limit: MAX_MATCHES, signal });
        // An answer may have been on its way.
        if (signal.aborted) return;
        found.push(...matches.names.map(({ name }) => name));
        if (matches.next !== undefined) {
          setSaid(`${each}: only the first ${String(MAX_MATCHES)} names are in the list.`);
        }
      }
    }
    open(eachOnce(found));
  };

  return (
    <details className="panel list-box" open={names.length === 0}>
      <summary>{names.length === 0 ? "Which PVs?" : "Change the list"}</summary>
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
            Names, in any form: one in a line, a mail, <code>caget</code> lines, or a pattern with{" "}
            <code>*</code>; a line that begins with <code>#</code> is the title of a group
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
          <button type="submit">Show these PVs</button>
          <button
            type="button"
            disabled={names.length === 0}
            onClick={() => {
              const title = window.prompt("Name of this list in this browser")?.trim() ?? "";
              if (title === "") return;
              setSaid(
                saveList(title, names) ? `Saved as ${title}.` : "This browser stores nothing.",
              );
              setLists(savedLists());
            }}
          >
            Save in this browser
          </button>
          {onRelay !== undefined && (
            <button
              type="button"
              disabled={names.length === 0}
              onClick={() => {
                const title = window.prompt("Name of this list on the relay")?.trim() ?? "";
                if (title === "") return;
                change(saveOnRelay(title, names), `Saved as ${title} on the relay.`);
              }}
            >
              Save on the relay
            </button>
          )}
          <span className="note" role="status">
            {said}
          </span>
        </div>
      </form>
      <SavedLists
        label="Saved in this browser"
        lists={lists}
        onOpen={reopen}
        onRemove={(title) => {
          removeList(title);
          setLists(savedLists());
        }}
      />
      <SavedLists
        label="Saved on the relay"
        lists={onRelay ?? {}}
        onOpen={reopen}
        onRemove={(title) => {
          change(removeFromRelay(title), `${title} is removed.`);
        }}
      />
    </details>
  );
}
