/** One snapshot: compared with now or with another one, saved as a file, and restored. */

import { useMemo, useState, type ReactNode } from "react";
import { t, type PvClient } from "pvwire";
import { download } from "pvwire/plots";
import { useClient } from "pvwire/react";

import { useClock } from "../times";
import { confirmedWriter } from "../confirm/guard";
import { pvsText } from "../texts";
import { usePvList } from "../pv_list";
import { elsewhere, hrefOf, setTo, type Route } from "../route";
import { compare, EXACT, toleranceOf, type Comparison, type Line } from "./compare";
import { ConfirmRestore } from "./ConfirmRestore";
import { jsonOf } from "./json_file";
import type { KeptSnapshots } from "./kept";
import { phoebusOf } from "./phoebus_file";
import { foresee, outcomeTexts, restore, writesOf, type Outcome } from "./restore";
import { setRun, useIsWriting, useRun } from "./running";
import {
  missingPv,
  readerOf,
  savedOf,
  type FullData,
  type SavedPv,
  type Snapshot,
} from "./snapshot";
import { SnapshotRows } from "./SnapshotRows";

/** Values change: comparisons with now are renewed this often. */
const COMPARE_EVERY_MS = 500;

interface SnapshotPanelProps {
  readonly route: Route;
  readonly snapshot: Snapshot;
  readonly kept: KeptSnapshots;
}

export function SnapshotPanel({ kept, route, snapshot }: SnapshotPanelProps): ReactNode {
  const client = useClient();
  const names = useMemo(() => snapshot.pvs.map(({ name }) => name), [snapshot.pvs]);
  usePvList(names);
  const other = kept.all?.find(({ id }) => id === route.settings.with);
  const outcomes = useRun(snapshot.id, "outcomes");
  const isBusy = useRun(snapshot.id, "stop") !== undefined;
  // All values change while they are written: to compare them then would delay the puts.
  useClock(other === undefined && !isBusy ? COMPARE_EVERY_MS : undefined);
  const read = readerOf(client);
  const tolerance = toleranceOf(route.settings.tolerance ?? "");
  const otherPvs = useMemo(() => new Map(other?.pvs.map((pv) => [pv.name, pv])), [other]);
  const lines = snapshot.pvs.map((pv): Line => {
    const { name } = pv;
    const against =
      other === undefined
        ? savedOf(name, read(name))
        : (otherPvs.get(name) ?? missingPv(name, t`not in the other snapshot`));
    return { pv, other: against, comparison: compare(pv, against, tolerance ?? EXACT) };
  });
  const [unticked, setUnticked] = useState<ReadonlySet<string>>(new Set());
  const shownKinds = (route.settings.show ?? "").split("+");
  const isOnly = shownKinds.some((kind) => kind !== "");
  const shown = lines.filter(({ comparison, pv }) => {
    if (!isOnly) return true;
    const outcome = outcomes.get(pv.name)?.kind;
    return (
      shownKinds.includes(comparison.kind) ||
      (outcome !== undefined && shownKinds.includes(outcome))
    );
  });
  return (
    <section className="panel table-panel snapshot" aria-label={t`Snapshot`}>
      <Titles route={route} snapshot={snapshot} kept={kept} />
      <div className="filters">
        <CompareWith route={route} snapshot={snapshot} kept={kept} />
        <KindFilters route={route} lines={lines} shownKinds={shownKinds} outcomes={outcomes} />
      </div>
      <Restore
        id={snapshot.id}
        lines={lines.filter(({ comparison, pv }) => {
          return comparison.kind !== "same" && !unticked.has(pv.name);
        })}
        why={
          route.settings.lock === "1"
            ? t`This page is read-only.`
            : other !== undefined
              ? t`To restore, compare with now.`
              : ""
        }
        read={read}
      />
      <SnapshotRows
        route={route}
        lines={shown}
        otherTitle={other?.title ?? t`Now`}
        outcomes={outcomes}
        unticked={unticked}
        tick={(name, isTicked) => {
          const next = new Set(unticked);
          if (isTicked) next.delete(name);
          else next.add(name);
          setUnticked(next);
        }}
        setTolerance={(name, text) => {
          const pvs = snapshot.pvs.map((pv) =>
            pv.name === name ? { ...pv, tolerance: text.trim() } : pv,
          );
          void kept.keep({ ...snapshot, pvs });
        }}
      />
    </section>
  );
}

/** Title and comment, and the snapshot as a file. */
function Titles({ kept, route, snapshot }: SnapshotPanelProps) {
  const alarms = elsewhere(route, { page: "alarms", names: snapshot.pvs.map(({ name }) => name) });
  const settings = { ...alarms.settings, of: hrefOf(route) };
  const [message, setMessage] = useState("");
  const fileName = snapshot.title.replace(/[^\p{L}\p{N}._-]+/gu, "_");
  return (
    <div className="snapshot-head">
      {(["title", "comment"] as const).map((part) => (
        <label key={part}>
          {part === "title" ? t`Title` : t`Comment`}
          <input
            key={snapshot.id}
            type="text"
            defaultValue={snapshot[part]}
            onBlur={({ target }) => {
              const text = target.value.trim();
              if (text === snapshot[part] || (part === "title" && text === "")) return;
              void kept.keep({ ...snapshot, [part]: text });
            }}
          />
        </label>
      ))}
      <div className="choices">
        <button
          type="button"
          onClick={() => {
            download(`${fileName}.json`, jsonOf(snapshot), "application/json");
          }}
        >
          {t`Save as JSON`}
        </button>
        <button
          type="button"
          onClick={() => {
            const { text, unfit } = phoebusOf(snapshot);
            download(`${fileName}.csv`, text);
            setMessage(
              unfit.length === 0
                ? ""
                : t`Phoebus's format can't have the values of ${unfit.join(", ")}; they are in the file as not connected.`,
            );
          }}
        >
          {t`Save for Phoebus`}
        </button>
        <a href={hrefOf({ ...alarms, settings })}>{t`Alarms of these PVs`}</a>
        <span className="note" role="status">
          {message}
        </span>
      </div>
    </div>
  );
}

function CompareWith({ kept, route, snapshot }: SnapshotPanelProps) {
  const text = route.settings.tolerance ?? "";
  const isWrong = toleranceOf(text) === undefined;
  return (
    <>
      <label className="pair">
        {t`Compare with`}
        <select
          value={route.settings.with ?? ""}
          onChange={({ target }) => {
            setTo(route, { with: target.value });
          }}
        >
          <option value="">{t`now`}</option>
          {kept.all
            ?.filter(({ id }) => id !== snapshot.id)
            .map(({ id, title }) => (
              <option key={id} value={id}>
                {title}
              </option>
            ))}
        </select>
      </label>
      <label className="pair">
        {t`Tolerance of all others`}
        <input
          className="short"
          type="text"
          placeholder={t`0 or 1%`}
          aria-invalid={isWrong}
          value={text}
          onChange={({ target }) => {
            setTo(route, { tolerance: target.value });
          }}
        />
      </label>
      {isWrong && (
        <span className="note" role="alert">
          {t`A tolerance is a number such as 0.1, or a part of the saved value such as 2%.`}
        </span>
      )}
    </>
  );
}

interface KindFiltersProps {
  readonly route: Route;
  readonly lines: readonly Line[];
  readonly outcomes: ReadonlyMap<string, Outcome>;
  readonly shownKinds: readonly string[];
}

function KindFilters({ lines, outcomes, route, shownKinds }: KindFiltersProps) {
  const count = (kind: Comparison["kind"]): number =>
    lines.filter(({ comparison }) => comparison.kind === kind).length;
  const results = [...outcomes.values()];
  const ends = Object.entries(outcomeTexts()).map(([kind, text]) => {
    return [kind, text, results.filter((outcome) => outcome.kind === kind).length] as const;
  });
  const buttons: readonly (readonly [kind: string, text: string, number: number])[] = [
    ["differs", t`differ`, count("differs")],
    ["unknown", t`can't be compared`, count("unknown")],
    ["same", t`same`, count("same")],
    ...ends.filter(([, , number]) => number > 0),
  ];
  return (
    <div className="choices" role="group" aria-label={t`Only these PVs`}>
      {buttons.map(([kind, text, number]) => {
        const isOn = shownKinds.includes(kind);
        return (
          <button
            key={kind}
            type="button"
            aria-pressed={isOn}
            onClick={() => {
              const rest = shownKinds.filter((other) => other !== kind && other !== "");
              setTo(route, { show: (isOn ? rest : [...rest, kind]).join("+") });
            }}
          >
            {number} {text}
          </button>
        );
      })}
    </div>
  );
}

interface RestoreProps {
  /** The snapshot's. */
  readonly id: string;
  /** PVs to write. */
  readonly lines: readonly Line[];
  /** Why nothing can be restored; empty if it can. */
  readonly why: string;
  readonly read: (name: string) => FullData | undefined;
}

interface Plan {
  readonly pvs: readonly SavedPv[];
  readonly forecast: ReadonlyMap<string, Outcome>;
}

/** How many outcomes there are is told so often. */
const PROGRESS_EVERY_MS = 250;

/** Writes what a person has confirmed. */
async function run(
  id: string,
  client: PvClient,
  plan: Plan,
  read: RestoreProps["read"],
): Promise<void> {
  const ending = new AbortController();
  const stop = (): void => {
    ending.abort();
  };
  setRun(id, { stop, message: t`Writing…` });
  try {
    const { puts, refused } = writesOf(plan.pvs, plan.forecast, read);
    const writer = await confirmedWriter(client, puts);
    const began = performance.now();
    let toldMs = began;
    // Choices may have been renumbered before the answer.
    const outcomes = await restore(writer, writesOf(plan.pvs, refused, read), {
      signal: ending.signal,
      onProgress: (count) => {
        const nowMs = performance.now();
        if (nowMs < toldMs + PROGRESS_EVERY_MS) return;
        toldMs = nowMs;
        setRun(id, { message: t`Writing… ${String(count)} of ${pvsText(plan.pvs.length)}` });
      },
    });
    const ms = String(Math.round(performance.now() - began));
    const written = [...outcomes.values()].filter(({ kind }) => /written|changed/.test(kind));
    const message = t`${String(written.length)} of ${pvsText(outcomes.size)} written in ${ms} ms.`;
    setRun(id, { outcomes, message });
  } catch (error) {
    setRun(id, { message: error instanceof Error ? error.message : String(error) });
  } finally {
    setRun(id, { stop: undefined });
  }
}

function Restore({ id, lines, read, why }: RestoreProps) {
  const client = useClient();
  /** What the dialog shows: values go on changing below it. */
  const [planned, setPlanned] = useState<Plan>();
  const message = useRun(id, "message");
  const stop = useRun(id, "stop");
  const isBusy = useIsWriting();
  const pvs = lines.map(({ pv }) => pv);
  const forecast = (): ReadonlyMap<string, Outcome> =>
    new Map(pvs.map((pv) => [pv.name, foresee(pv, read(pv.name))]));
  return (
    <div className="choices restore">
      <button
        type="button"
        disabled={pvs.length === 0 || isBusy}
        onClick={() => {
          setRun(id, { outcomes: forecast(), message: t`Dry run: nothing was written.` });
        }}
      >
        {t`Dry run`}
      </button>
      <button
        type="button"
        className="main"
        disabled={why !== "" || pvs.length === 0 || isBusy}
        onClick={() => {
          setPlanned({ pvs, forecast: forecast() });
        }}
      >{t`Restore ${pvsText(pvs.length)}…`}</button>
      {stop !== undefined && (
        <button type="button" title={t`What is not written yet stays as it is`} onClick={stop}>
          {t`Stop`}
        </button>
      )}
      <span className="note" role="status">
        {stop !== undefined
          ? message
          : isBusy
            ? t`Another snapshot is being restored.`
            : why !== ""
              ? why
              : message}
      </span>
      {planned !== undefined && (
        <ConfirmRestore
          forecast={planned.forecast}
          cancel={() => {
            setPlanned(undefined);
          }}
          write={() => {
            setPlanned(undefined);
            void run(id, client, planned, read);
          }}
        />
      )}
    </div>
  );
}
