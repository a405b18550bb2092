/** One PV: its value and past, its state, what is known of it, and the input to write it. */

import { lazy, Suspense, useEffect, type ReactNode } from "react";
import { t, type PvData } from "pvwire";
import { usePv } from "pvwire/react";
import { SetPoint, StateIcon, useCondition } from "pvwire/widgets";

import { Copy } from "./Copy";
import { PvFacts } from "./PvFacts";
import { PvPast } from "./PvPast";
import { setTo, type Route } from "./route";
import { remember } from "./stored";
import { stampText, zoneText } from "./times";
import { moodOf, titleOf, useTitle } from "./title";

const NearNames = lazy(async () => ({ default: (await import("./Suggestions")).NearNames }));
const PvFields = lazy(() => import("./PvFields"));
const PvTree = lazy(() => import("./PvTree"));

/** All but structures and arrays, which only the parts that show them read. */
const SELECTION = `{
  id
  value { string(units: true) number exact text }
  time { seconds nanoseconds userTag }
  status { quality severity alarmStatus message mutable writable }
  display {
    type elementCount description typeId form units precision choices
    controlRange { min max } displayRange { min max } alarmRange { min max } warningRange { min max }
  }
  connection { state connected since lastHeard unresponsive readable reason }
}`;

/** Longer values have smaller letters, and may be scrolled. */
const LONG = 48;

export interface Shown extends Omit<PvData, "value" | "skipped" | "skips"> {
  readonly value: {
    readonly string: string;
    readonly number: number | null;
    readonly exact: string | null;
    readonly text: string | null;
  } | null;
}

export function PvPage({ route }: { readonly route: Route }): ReactNode {
  const { name, settings } = route;
  const isUtc = settings.utc === "1";
  const pv = usePv<Shown>(name, SELECTION);
  const condition = useCondition(pv, undefined, name);
  const { isPresent, isStale, severity, state, text } = condition;
  const value = pv?.value?.string;
  const isLong = (value?.length ?? 0) > LONG;
  useTitle(titleOf(name, value, condition), isStale ? "LOST" : moodOf(state, severity));

  const isFound = pv?.connection.connected === true;
  useEffect(() => {
    if (isFound) remember(name);
  }, [isFound, name]);

  const isStructure = pv?.display?.type === "Structure";
  return (
    <div className="pv" data-kind={isStructure ? "structure" : "value"}>
      <section
        className="panel pv-now pvwire-state"
        aria-labelledby="pv-name"
        data-pv={name}
        data-state={state}
        data-severity={severity}
        data-present={isPresent || undefined}
        data-stale={isStale || undefined}
      >
        <h1 id="pv-name">{name}</h1>
        <p className="description">{pv?.display?.description}</p>
        <p
          className="value"
          data-part="value"
          data-long={isLong || undefined}
          // By the keyboard, too, all of it can be read.
          tabIndex={isLong ? 0 : undefined}
        >
          <StateIcon state={state} severity={severity} isStale={isStale} />
          <span>{value ?? "–"}</span>
        </p>
        <p className="condition" data-part="condition">
          {text}
        </p>
        {pv?.time != null && (
          <p className="stamp">
            <time>{stampText(pv.time, isUtc)}</time> {zoneText(isUtc)}
          </p>
        )}
        {state === "notFound" && (
          <Suspense fallback={null}>
            <NearNames name={name} route={route} />
          </Suspense>
        )}
      </section>
      <PvPast name={name} pv={pv} route={route} />
      <section className="panel pv-put" aria-labelledby="pv-put">
        <h2 id="pv-put">{t`Write`}</h2>
        {settings.lock === "1" ? (
          <p className="note">{t`This page is read-only. The button “Read-only” above ends that.`}</p>
        ) : isStructure ? (
          <p className="note">{t`A structure is written by programs only.`}</p>
        ) : (
          <SetPoint name={name} label={t`New value`} />
        )}
      </section>
      <PvFacts name={name} pv={pv} isUtc={isUtc} />
      {(isStructure || pv?.display?.typeId) && (
        <Suspense fallback={null}>
          <PvTree name={name} isWhole={isStructure} />
        </Suspense>
      )}
      <Copy name={name} id={pv?.id ?? name} pv={pv} />
      {!isStructure && isFound && (
        <details
          className="panel pv-fields"
          open={settings.fields === "1"}
          onToggle={({ currentTarget }) => {
            setTo(route, { fields: currentTarget.open ? "1" : "" });
          }}
        >
          <summary>{t`Fields of the record`}</summary>
          {settings.fields === "1" && (
            <Suspense fallback={null}>
              <PvFields name={name} route={route} />
            </Suspense>
          )}
        </details>
      )}
    </div>
  );
}
