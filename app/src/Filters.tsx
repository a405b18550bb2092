/** The filters of a list: by text, and by state with the number of PVs in each. */

import type { ReactNode } from "react";
import { t } from "pvwire";

import { kindText, KINDS, type Kind } from "./pv_kind";
import type { ListStates, Row } from "./pv_list";
import { setTo, type Route } from "./route";
import type { About } from "./columns";

export interface Filter {
  readonly text: string;
  readonly kinds: readonly Kind[];
}

export function filterOf({ settings }: Route): Filter {
  const named = (settings.show ?? "").split("+");
  return { text: settings.q ?? "", kinds: KINDS.filter((kind) => named.includes(kind)) };
}

/** Whether a row is shown: the text is looked for in its name, its value and what is given of it besides. */
export function passes({ kinds, text }: Filter, row: Row, about?: Pick<About, "display">): boolean {
  if (kinds.length > 0 && !kinds.includes(row.kind)) return false;
  if (text === "") return true;
  const texts = [row.name, row.read()?.value?.string, about?.display?.description];
  return texts.some((each) => each?.toLowerCase().includes(text.toLowerCase()) === true);
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
        aria-label={t`Only PVs with this text`}
        placeholder={t`Only PVs with …`}
        title={t`In the name, the value, or the description where it is shown`}
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
