/** The facility's displays: a list to search in. */

import { useMemo, useState, type ReactNode } from "react";
import { t } from "pvwire";

import { elsewhere, hrefOf, type Route } from "./route";
import { useScreenFiles } from "./screens";
import { useTitle } from "./title";
import "./style/displays.css";

/** More are found by typing. */
const MAX_ROWS = 500;

/** One of BOY's (`.opi`) is left out if there is one of the same name in today's format, which is shown for it. */
function displaysIn(paths: readonly string[]): string[] {
  const all = new Set(paths);
  const today = (path: string): string => path.replace(/\.opi$/i, ".bob");
  return paths.filter(
    (path) => /\.bob$/i.test(path) || (today(path) !== path && !all.has(today(path))),
  );
}

export default function DisplaysPage({ route }: { readonly route: Route }): ReactNode {
  const { files, problem } = useScreenFiles();
  const [text, setText] = useState("");
  const displays = useMemo(() => displaysIn((files ?? []).map(({ path }) => path)), [files]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = displays.filter((path) => words.every((word) => path.toLowerCase().includes(word)));
  useTitle(t`Displays`, problem === undefined ? "NO_ALARM" : "LOST");
  return (
    <div className="displays-page">
      <h1>{t`Displays`}</h1>
      {files === undefined ? (
        <p className="note" role="status">
          {problem ?? t`Loading…`}
        </p>
      ) : (
        <>
          <div className="toolbar">
            <input
              type="search"
              aria-label={t`Parts of the path`}
              placeholder={t`Parts of the path`}
              value={text}
              onInput={(event) => {
                setText(event.currentTarget.value);
              }}
            />
            <span role="status">
              {displays.length === 1
                ? t`${found.length} of 1 display`
                : t`${found.length} of ${displays.length} displays`}
            </span>
          </div>
          <ul className="panel display-list">
            {found.slice(0, MAX_ROWS).map((path) => (
              <li key={path}>
                <a href={hrefOf(elsewhere(route, { page: "display", name: path, names: [] }))}>
                  {path}
                </a>
              </li>
            ))}
          </ul>
          {found.length > MAX_ROWS && (
            <p className="note">{t`The first ${String(MAX_ROWS)} are shown: type more of the path.`}</p>
          )}
        </>
      )}
    </div>
  );
}
