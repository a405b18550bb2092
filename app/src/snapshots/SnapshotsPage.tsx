/** Takes the values of a list of PVs, keeps and exchanges them, and shows one of them. */

import { useRef, useState, type ReactNode } from "react";
import { t } from "pvwire";
import { useClient } from "pvwire/react";

import { pvsText } from "../texts";
import { ListBox } from "../ListBox";
import { KINDS } from "../pv_kind";
import { usePvList, type PvList } from "../pv_list";
import { go, setTo, type Route } from "../route";
import { useNamesOnce } from "../TablePage";
import { dateText, zoneText } from "../times";
import { moodOfList, useTitle } from "../title";
import { snapshotOfJson } from "./json_file";
import { useKept, type KeptSnapshots } from "./kept";
import { takePast } from "./past";
import { snapshotOfPhoebus } from "./phoebus_file";
import { newId, readerOf, savedOf, type Snapshot } from "./snapshot";
import { SnapshotPanel } from "./SnapshotPanel";
import "../style/snapshots.css";

export default function SnapshotsPage({ route }: { readonly route: Route }): ReactNode {
  const names = useNamesOnce(route);
  const list = usePvList(names);
  const kept = useKept();
  const chosen = kept.all?.find(({ id }) => id === route.settings.snapshot);
  useTitle(chosen === undefined ? t`Snapshots` : chosen.title, moodOfList(KINDS, list.counts));
  return (
    <div className="snapshots-page">
      <h1>{t`Snapshots`}</h1>
      <ListBox route={route} />
      <Take route={route} names={names} list={list} kept={kept} />
      <Kept route={route} kept={kept} />
      {chosen !== undefined && (
        <SnapshotPanel key={chosen.id} route={route} snapshot={chosen} kept={kept} />
      )}
    </div>
  );
}

/** A snapshot that is taken just after the page has opened waits for the PVs that are searched. */
const PATIENCE_MS = 2000;

interface TakeProps {
  readonly route: Route;
  readonly names: readonly string[];
  readonly list: PvList;
  readonly kept: KeptSnapshots;
}

function useShow(route: Route, kept: KeptSnapshots): (snapshot: Snapshot) => Promise<void> {
  return async (snapshot) => {
    await kept.keep(snapshot);
    go({ ...route, settings: { ...route.settings, snapshot: snapshot.id, with: "", show: "" } });
  };
}

/** What was taken, in words: the PVs without a value are named in the table. */
function takenText({ pvs }: Snapshot, tookMs: number): string {
  const missing = pvs.filter(({ value }) => value === undefined).length;
  const [count, ms] = [pvs.length - missing, Math.round(tookMs)];
  const values = count === 1 ? t`1 value taken in ${ms} ms` : t`${count} values taken in ${ms} ms`;
  return missing === 0 ? `${values}.` : t`${values}; ${pvsText(missing)} without a value.`;
}

function Take({ kept, list, names, route }: TakeProps) {
  const client = useClient();
  const show = useShow(route, kept);
  const [message, setMessage] = useState("");
  const [moment, setMoment] = useState("");
  const [isBusy, setBusy] = useState(false);
  const isUtc = route.settings.utc === "1";
  const read = readerOf(client);

  const take = async (): Promise<void> => {
    await list.whenFound(PATIENCE_MS);
    const began = performance.now();
    const takenMs = Date.now();
    const pvs = names.map((name) => savedOf(name, read(name)));
    const title = dateText(takenMs, isUtc);
    const snapshot = { id: newId(), title, comment: "", takenMs, pvs };
    setMessage(takenText(snapshot, performance.now() - began));
    await show(snapshot);
  };
  const takeThen = async (): Promise<void> => {
    const began = performance.now();
    const takenMs = Date.parse(isUtc ? `${moment}Z` : moment);
    if (Number.isNaN(takenMs)) throw new Error(t`Choose a date and a time first.`);
    const pvs = await takePast(client, names, takenMs, read);
    const title = t`${dateText(takenMs, isUtc)} (past)`;
    const snapshot = { id: newId(), title, comment: "", takenMs, pvs };
    setMessage(takenText(snapshot, performance.now() - began));
    await show(snapshot);
  };
  const run = (action: () => Promise<void>): void => {
    setBusy(true);
    setMessage("");
    action()
      .catch((error: unknown) => {
        setMessage(error instanceof Error ? error.message : String(error));
      })
      .finally(() => {
        setBusy(false);
      });
  };
  const { gone, searched } = list.counts;
  const absent = gone + searched;
  return (
    <section className="panel take" aria-label={t`Take a snapshot`}>
      <div className="choices">
        <button
          type="button"
          className="main"
          disabled={isBusy || names.length === 0}
          onClick={() => {
            run(take);
          }}
        >
          {t`Take ${pvsText(names.length)} now`}
        </button>
        {absent > 0 && <span className="note">{t`Without a value now: ${absent}`}</span>}
        <span className="pair">
          <input
            type="datetime-local"
            step="1"
            aria-label={t`Past moment, ${zoneText(isUtc)}`}
            value={moment}
            onChange={({ target }) => {
              setMoment(target.value);
            }}
          />
          <button
            type="button"
            disabled={isBusy || names.length === 0 || moment === ""}
            onClick={() => {
              run(takeThen);
            }}
          >
            {t`Take from the past`}
          </button>
        </span>
        <OpenFile
          open={(file) => {
            run(async () => {
              const snapshot = readFile(await file.text(), file.name);
              await show(snapshot);
              setMessage(`${file.name}: ${pvsText(snapshot.pvs.length)}.`);
            });
          }}
        />
      </div>
      <p className="note" role="status">
        {kept.problem === "" ? message : `${message} ${kept.problem}`}
      </p>
    </section>
  );
}

function readFile(text: string, name: string): Snapshot {
  const title = name.replace(/\.\w+$/, "");
  try {
    return /^\s*\{/.test(text) ? snapshotOfJson(text, title) : snapshotOfPhoebus(text, title);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(t`${name} can't be read: ${why}.`, { cause: error });
  }
}

function OpenFile({ open }: { readonly open: (file: File) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" onClick={() => input.current?.click()}>
        {t`Open a file…`}
      </button>
      <input
        ref={input}
        type="file"
        hidden
        aria-label={t`Snapshot file`}
        accept=".json,.snp,.csv"
        onChange={({ target }) => {
          const [file] = target.files ?? [];
          if (file !== undefined) open(file);
          // The same file can be chosen again.
          target.value = "";
        }}
      />
    </>
  );
}

/** The date, unless the title has it. */
function aboutDate(takenMs: number, title: string, isUtc: boolean): string {
  if (takenMs === 0) return `, ${t`no date`}`;
  const date = dateText(takenMs, isUtc);
  return title.startsWith(date) ? "" : `, ${date}`;
}

interface KeptProps {
  readonly route: Route;
  readonly kept: KeptSnapshots;
}

function Kept({ kept, route }: KeptProps) {
  const isUtc = route.settings.utc === "1";
  const { all } = kept;
  if (all === undefined) return null;
  if (all.length === 0) {
    return (
      <p className="panel none-kept note">
        {t`No snapshot is kept in this browser yet. Choose PVs, and take their values; or open a file of this page or of Phoebus.`}
      </p>
    );
  }
  return (
    <ul className="kept" aria-label={t`Snapshots in this browser`}>
      {all.map(({ id, pvs, takenMs, title }) => (
        <li key={id} className="panel" aria-current={id === route.settings.snapshot || undefined}>
          <button
            type="button"
            className="plain"
            onClick={() => {
              go({ ...route, settings: { ...route.settings, snapshot: id, with: "", show: "" } });
            }}
          >
            {title}
          </button>
          <span className="note">
            {pvsText(pvs.length)}
            {aboutDate(takenMs, title, isUtc)}
          </span>
          <button
            type="button"
            aria-label={t`Remove the snapshot ${title}`}
            title={t`Remove`}
            onClick={() => {
              if (!window.confirm(t`Remove the snapshot ${title} from this browser?`)) return;
              if (id === route.settings.snapshot) setTo(route, { snapshot: "" });
              void kept.remove(id);
            }}
          >
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}
