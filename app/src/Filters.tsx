/** The filters of a list: by name, and by state with the number of PVs in each. */

import type { ReactNode } from "react";
import { t } from "pvwire";

import { kindText, KINDS, type Kind } from "./pv_kind";
import type { ListStates, Row } from "./pv_list";
import { setTo, type Route } from "./route";

export interface Filter {
  readonly text: string;
  readonly kinds: readonly Kind[];
}

export function filterOf({ settings }: Route): Filter {
  const named = (settings.show ?? "").split("+");
  return { text: settings.q ?? "", kinds: KINDS.filter((kind) => named.includes(kind)) };
}

export function passes({ kinds, text }: Filter, { kind, name }: Row): boolean {
  if (kinds.length > 0 && !kinds.includes(kind)) return false;
  return text === "" || name.toLowerCase().includes(text.toLowerCase());
}

interface FiltersProps {
  readonly route: Route;
  readonly list: ListStates;
  /** States that the page shows at all. */
  readonly kinds: readonly Kind[];
  readonly children?: ReactNode;
}

export function Filters({ children, kinds, list, route }: FiltersProps): ReactNode {
  const filter = filterOf(route);
  return (
    <div className="filters">
      <input
        type="search"
        aria-label={t`Only names with`}
        placeholder={t`Only names with …`}
        value={filter.text}
        onChange={({ target }) => {
          setTo(route, { q: target.value });
        }}
      />
      <div className="choices" role="group" aria-label={t`Only PVs in these states`}>
        {kinds.map((kind) => {
          const isOn = filter.kinds.includes(kind);
          return (
            <button
              key={kind}
              type="button"
              className="pvwire-state"
              data-severity={/^[A-Z]/.test(kind) ? kind : undefined}
              aria-pressed={isOn}
              onClick={() => {
                const rest = filter.kinds.filter((other) => other !== kind);
                setTo(route, { show: (isOn ? rest : [...rest, kind]).join("+") });
              }}
            >
              {list.counts[kind]} {kindText(kind)}
            </button>
          );
        })}
      </div>
      {children}
    </div>
  );
}
