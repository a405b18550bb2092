/** Names that the relay knows: some of them for a first look, and those that resemble one that wasn't found. */

import { useEffect, useState, type ReactNode } from "react";
import { t, type PvClient } from "pvwire";
import { useClient } from "pvwire/react";

import { knownNames, nearNames, type Offered } from "./near";
import { elsewhere, go, hrefOf, type Route } from "./route";

/** What the relay answers about a name; `undefined` before, and from an older relay or one that is lost. */
function useAnswer<T>(
  ask: (client: PvClient, name: string, signal: AbortSignal) => Promise<T>,
  name: string,
): T | undefined {
  const client = useClient();
  const [answer, setAnswer] = useState<T>();
  useEffect(() => {
    const leaving = new AbortController();
    ask(client, name, leaving.signal).then(
      (answer) => {
        if (!leaving.signal.aborted) setAnswer(answer);
      },
      () => undefined,
    );
    return () => {
      leaving.abort();
    };
  }, [ask, client, name]);
  return answer;
}

interface LinksProps {
  readonly names: readonly Offered[];
  readonly route: Route;
}

/** Opens all names of a pattern as a table. */
async function openPattern(client: PvClient, pattern: string, route: Route): Promise<void> {
  const { matchesOf } = await import("./ListBox");
  const { names } = await matchesOf(client, pattern, new AbortController().signal);
  if (names.length > 0) go(elsewhere(route, { page: "table", names }));
}

function Links({ names, route }: LinksProps) {
  const client = useClient();
  return (
    <ul className="links">
      {names.map(({ isPattern, name }) => (
        <li key={name}>
          {isPattern ? (
            <button
              type="button"
              title={t`All names of this pattern as a table`}
              onClick={() => {
                // A relay that is lost answers nothing.
                openPattern(client, name, route).catch(() => undefined);
              }}
            >
              {name}
            </button>
          ) : (
            <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
          )}
        </li>
      ))}
    </ul>
  );
}

/** For a first look: names of what the relay has found, and of the lists that it has. */
export function KnownNames({ route }: { readonly route: Route }): ReactNode {
  const known = useAnswer(knownNames, "");
  if (known === undefined || known.offered.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="known">
      <h2 id="known">{t`Names that the relay knows`}</h2>
      <Links names={known.offered} route={route} />
      {known.hasMore && <p className="note">{t`There are more: type a part of the name.`}</p>}
    </section>
  );
}

interface NearNamesProps {
  readonly name: string;
  readonly route: Route;
}

/** For a PV that wasn't found: names that resemble it. */
export function NearNames({ name, route }: NearNamesProps): ReactNode {
  const near = useAnswer(nearNames, name);
  if (near === undefined) return null;
  if (near.length === 0) return <p className="note">{t`The relay knows no similar name.`}</p>;
  return (
    <div className="near">
      <p>{t`Similar names that the relay knows:`}</p>
      <Links names={near.map((name) => ({ name, isPattern: false }))} route={route} />
    </div>
  );
}
