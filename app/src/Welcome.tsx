/** The first page: what to do, and the PVs that were shown last. */

import { lazy, Suspense, type ReactNode } from "react";
import { t } from "pvwire";

import { pvsIn } from "./groups";
import { elsewhere, hrefOf, type Route } from "./route";
import { recentNames, savedLists } from "./stored";
import { typed } from "./texts";
import { useTitle } from "./title";

const KnownNames = lazy(async () => ({ default: (await import("./Suggestions")).KnownNames }));

export function Welcome({ route }: { readonly route: Route }): ReactNode {
  useTitle(t`PVs`, "NONE");
  const recent = recentNames();
  const lists = Object.entries(savedLists());
  return (
    <div className="welcome">
      <h1>{t`Any PV by its name`}</h1>
      <p>
        {typed(
          t`Type a PV name above and press Enter. Known names are offered while you type, |*| and |?| make a pattern. Several names, pasted from a mail or a file, open as a table.`,
        )}
      </p>
      {recent.length > 0 && (
        <section className="panel" aria-labelledby="recent">
          <h2 id="recent">{t`Shown last`}</h2>
          <ul className="links">
            {recent.map((name) => (
              <li key={name}>
                <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
              </li>
            ))}
          </ul>
        </section>
      )}
      {lists.length > 0 && (
        <section className="panel" aria-labelledby="lists">
          <h2 id="lists">{t`Saved lists`}</h2>
          <ul className="links">
            {lists.map(([title, names]) => (
              <li key={title}>
                <a href={hrefOf(elsewhere(route, { page: "table", names }))}>
                  {title} ({pvsIn(names).length})
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
      <Suspense fallback={null}>
        <KnownNames route={route} />
      </Suspense>
    </div>
  );
}
