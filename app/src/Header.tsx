/** Search, pages, the time zone, and the lock of the page. */

import type { ReactNode, RefObject } from "react";
import { t } from "pvwire";
import { useConnection } from "pvwire/react";

import { elsewhere, hrefOf, setTo, type PageName, type Route } from "./route";
import { Search } from "./Search";
import { lastList } from "./stored";

const titles = (): readonly (readonly [PageName, string])[] => [
  ["pv", t`PV`],
  ["table", t`Table`],
  ["plots", t`Plots`],
  ["alarms", t`Alarms`],
  ["snapshots", t`Snapshots`],
  ["displays", t`Displays`],
  ["health", t`Health`],
];

interface HeaderProps {
  readonly route: Route;
  readonly search: RefObject<HTMLInputElement | null>;
  readonly showKeys: () => void;
}

export function Header({ route, search, showKeys }: HeaderProps): ReactNode {
  const isUtc = route.settings.utc === "1";
  const isLocked = route.settings.lock === "1";
  const shown = route.page === "display" ? "displays" : route.page;
  // The name of a display is not one of a PV.
  const searched = route.page === "display" ? { ...route, name: "" } : route;
  const names = route.names.length > 0 ? route.names : lastList();
  return (
    <header className="top">
      <nav aria-label={t`Pages`}>
        {titles().map(([page, title]) => {
          const list = page === "pv" || page === "health" ? [] : names;
          const to = elsewhere(route, { page, name: "", names: list });
          return (
            <a key={page} href={hrefOf(to)} aria-current={page === shown ? "page" : undefined}>
              {title}
            </a>
          );
        })}
      </nav>
      <Search key={searched.name} route={searched} input={search} />
      <div className="tools">
        <Connected />
        <button
          type="button"
          aria-pressed={isUtc}
          title={t`Times in UTC instead of local time`}
          onClick={() => {
            setTo(route, { utc: isUtc ? "" : "1" });
          }}
        >
          {t`UTC`}
        </button>
        <button
          type="button"
          aria-pressed={isLocked}
          title={t`Show values only: nothing can be written from this page`}
          onClick={() => {
            setTo(route, { lock: isLocked ? "" : "1" });
          }}
        >
          {t`Read-only`}
        </button>
        <button type="button" aria-label={t`Keys`} title={t`Keys`} onClick={showKeys}>
          ?
        </button>
      </div>
    </header>
  );
}

function Connected() {
  const { relayVersion, silentSinceMs, state } = useConnection();
  const isOpen = state === "open" && silentSinceMs === undefined;
  const text = isOpen ? t`Relay connected` : state === "connecting" ? t`Connecting` : t`No relay`;
  return (
    <span
      className="relay"
      data-open={isOpen}
      title={relayVersion === undefined ? undefined : `pvwire-relay ${relayVersion}`}
    >
      {text}
    </span>
  );
}
