/** The list of PVs of a page: its text with groups, saved lists, and what names match a pattern. */

import { useEffect, useRef, useState, type ReactNode } from "react";
import { useClient } from "pvwire/react";

import { eachOnce, entriesIn } from "./entries";
import { isTitle, pvsIn } from "./groups";
import { go, parseRoute, type Route } from "./route";
import { rememberList, removeList, savedLists, saveList } from "./stored";

/** Maximum number of names that a pattern brings. */
const MAX_MATCHES = 1000;

/** The list of the link. Another one needs another box. */
export function ListBox({ route }: { readonly route: Route }): ReactNode {
  const { names } = route;
  const client = useClient();
  const [text, setText] = useState(names.join("\n"));
  const [said, setSaid] = useState("");
  const [lists, setLists] = useState(savedLists);

  const searching = useRef<AbortController>(undefined);

  useEffect(
    () => () => {
      searching.current?.abort();
    },
    [],
  );

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
            if (!signal.aborted) setSaid(error instanceof Error ? error.message : String(error));
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
          <span className="note" role="status">
            {said}
          </span>
        </div>
      </form>
      {Object.keys(lists).length > 0 && (
        <ul className="links" aria-label="Saved lists">
          {Object.entries(lists).map(([title, saved]) => (
            <li key={title}>
              <button
                type="button"
                onClick={() => {
                  begin();
                  open(saved);
                }}
              >
                {title} ({pvsIn(saved).length})
              </button>{" "}
              <button
                type="button"
                aria-label={`Remove the list ${title}`}
                onClick={() => {
                  removeList(title);
                  setLists(savedLists());
                }}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}
