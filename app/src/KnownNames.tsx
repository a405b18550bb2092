/** Names that the relay knows, for a first look: of what it has found, and of the lists that it has. */

import { useEffect, useState, type ReactNode } from "react";
import { useClient } from "pvwire/react";

import { elsewhere, hrefOf, type Route } from "./route";

/** More names are found by typing. */
const MAX_NAMES = 100;

interface Known {
  readonly names: readonly string[];
  readonly hasMore: boolean;
}

export default function KnownNames({ route }: { readonly route: Route }): ReactNode {
  const client = useClient();
  const [known, setKnown] = useState<Known>();
  useEffect(() => {
    const leaving = new AbortController();
    client.names("", { limit: MAX_NAMES, signal: leaving.signal }).then(
      ({ names, next }) => {
        const found = names.map(({ name }) => name);
        if (!leaving.signal.aborted) setKnown({ names: found, hasMore: next !== undefined });
      },
      // An older relay, or one that is lost: the search tells.
      () => undefined,
    );
    return () => {
      leaving.abort();
    };
  }, [client]);
  if (known === undefined || known.names.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="known">
      <h2 id="known">Names that the relay knows</h2>
      <ul className="links">
        {known.names.map((name) => (
          <li key={name}>
            <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
          </li>
        ))}
      </ul>
      {known.hasMore && <p className="note">There are more: type a part of the name.</p>}
    </section>
  );
}
