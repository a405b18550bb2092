/** For a PV that wasn't found: known names that resemble it. */

import { useEffect, useState, type ReactNode } from "react";
import { useClient } from "pvwire/react";

import { nearNames } from "./near";
import { elsewhere, hrefOf, type Route } from "./route";

interface NearNamesProps {
  readonly name: string;
  readonly route: Route;
}

export default function NearNames({ name, route }: NearNamesProps): ReactNode {
  const client = useClient();
  const [near, setNear] = useState<readonly string[]>();
  useEffect(() => {
    const leaving = new AbortController();
    nearNames(client, name, leaving.signal).then(
      (names) => {
        if (!leaving.signal.aborted) setNear(names);
      },
      () => undefined,
    );
    return () => {
      leaving.abort();
    };
  }, [client, name]);
  if (near === undefined) return null;
  if (near.length === 0) return <p className="note">The relay knows no similar name.</p>;
  return (
    <div className="near">
      <p>Similar names that the relay knows:</p>
      <ul className="links">
        {near.map((each) => (
          <li key={each}>
            <a href={hrefOf(elsewhere(route, { page: "pv", name: each, names: [] }))}>{each}</a>
          </li>
        ))}
      </ul>
    </div>
  );
}
