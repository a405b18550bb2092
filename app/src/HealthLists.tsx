/** What the relay serves, as tables: its clients, sources, servers, PVs, and the relays of its fleet. */

import { useEffect, useRef, useState, type ReactNode } from "react";
import { t } from "pvwire";
import { formatCount, formatOneDigit } from "pvwire/widgets";

import { compare } from "./columns";
import { pvsText } from "./texts";
import type { Read } from "./HealthPage";
import { elsewhere, hrefOf, setTo, type Route } from "./route";
import {
  disconnect,
  type FoundPvs,
  type ListedClient,
  readPvs,
  readPvsOf,
  type Status,
} from "./status";
import { ageText } from "./times";

interface Column<R> {
  readonly id: string;
  readonly title: string;
  readonly key: (row: R) => string | number;
  /** Without it the cell has the key. */
  readonly cell?: (row: R) => ReactNode;
  readonly isWide?: boolean;
  /** It has buttons for an action: rows are not sorted by it. */
  readonly isAction?: boolean;
}

interface SortTableProps<R> {
  readonly route: Route;
  /** The setting of the link that has the column, after `-` in descending order. */
  readonly setting: string;
  readonly label: string;
  readonly columns: readonly Column<R>[];
  /** In their order while no column is chosen. */
  readonly rows: readonly R[];
  readonly nameOf: (row: R) => string;
  readonly stateOf?: (row: R) => string;
  /** What is shown below a row. */
  readonly below?: (row: R) => ReactNode;
  readonly isLong?: boolean;
}

/** A table that is sorted by a column: a press sorts, another one turns the order, a third one ends it. */
function SortTable<R>(props: SortTableProps<R>): ReactNode {
  const { below, columns, isLong = false, label, nameOf, route, rows, setting, stateOf } = props;
  const [, sign, id] = /^(-?)(.*)$/.exec(route.settings[setting] ?? "") ?? [];
  const sorted = columns.find((column) => column.id === id);
  const order = sign === "-" ? -1 : 1;
  const first = isLong ? "name" : "first";
  const shown =
    sorted === undefined
      ? rows
      : rows.toSorted((one, other) => order * compare(sorted.key(one), sorted.key(other)));
  return (
    <div
      className={isLong ? "table-room health-room" : "table-room health-room health-short"}
      role="region"
      aria-label={label}
      tabIndex={0}
    >
      <table>
        <thead>
          <tr>
            {columns.map(({ id, isAction, isWide, title }, at) => {
              const isSorted = id === sorted?.id;
              const next = !isSorted ? id : order === 1 ? `-${id}` : "";
              return (
                <th
                  key={id}
                  scope="col"
                  data-column={at === 0 ? first : isWide === true ? "wide" : undefined}
                  aria-sort={!isSorted ? undefined : order === 1 ? "ascending" : "descending"}
                >
                  {isAction === true ? (
                    <span className="health-title">{title}</span>
                  ) : (
                    <button
                      type="button"
                      onClick={() => {
                        setTo(route, { [setting]: next });
                      }}
                    >
                      {title}
                      <span aria-hidden="true">{!isSorted ? "" : order === 1 ? " ▲" : " ▼"}</span>
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {shown.flatMap((row) => {
            const name = nameOf(row);
            const more = below?.(row);
            return [
              <tr key={name} data-name={name} data-state={stateOf?.(row)}>
                {columns.map(({ cell, id, key }, at) => (
                  <td key={id} data-column={at === 0 ? first : undefined}>
                    {cell === undefined ? textOf(key(row)) : cell(row)}
                  </td>
                ))}
              </tr>,
              more != null && more !== false && (
                <tr key={`${name} below`} data-below={name}>
                  <td className="health-below" colSpan={columns.length}>
                    {more}
                  </td>
                </tr>
              ),
            ];
          })}
        </tbody>
      </table>
    </div>
  );
}

const textOf = (key: string | number): string => (typeof key === "number" ? formatCount(key) : key);

/** A rate of what grows, from two answers; `NaN` while it isn't known. */
type RateOf = (now: number | undefined, before: number | undefined) => number;

const rateText = (rate: number): string => (Number.isNaN(rate) ? "–" : formatOneDigit(rate));

const rateBetween = (now: Read | undefined, before: Read | undefined): RateOf => {
  const seconds = ((now?.atMs ?? 0) - (before?.atMs ?? 0)) / 1000;
  return (after, then) =>
    after === undefined || then === undefined || after < then || seconds <= 0
      ? NaN
      : (after - then) / seconds;
};

interface ListProps {
  readonly route: Route;
  readonly status: Status;
  readonly now: Read | undefined;
  readonly before: Read | undefined;
}

interface ClientRow extends ListedClient {
  readonly rate: number;
}

const stateText = ({ behind, inStep }: ListedClient): string =>
  behind ? t`behind` : inStep ? t`in step` : t`at intervals`;

/** `5 s, 12 updates, 3.4 kB`, of what wasn't sent yet. */
function unsentText({ ageMilliseconds, bytes, updates }: ListedClient["unsent"]): string {
  const texts = [
    ageMilliseconds === null ? "" : ageText(ageMilliseconds),
    updates === 0 ? "" : updates === 1 ? t`1 update` : t`${updates} updates`,
    bytes === 0 ? "" : `${formatOneDigit(bytes / 1000)} kB`,
  ];
  return texts.filter(Boolean).join(", ") || "–";
}

/** The relay's clients, those that are behind first and then those that are sent most. */
export function HealthClients({ before, now, route, status }: ListProps): ReactNode {
  const [ending, setEnding] = useState<ListedClient>();
  const [said, setSaid] = useState<string>();
  const { clientList = [], clients: all, mayDisconnect = false } = status;
  const rateOf = rateBetween(now, before);
  const then = new Map(before?.status?.clientList?.map(({ bytes, id }) => [id, bytes]));
  const rows = clientList
    .map((client): ClientRow => {
      const rate = rateOf(client.bytes, then.get(client.id)) / 1000;
      return { ...client, rate };
    })
    .sort((a, b) => Number(b.behind) - Number(a.behind) || compare(b.rate, a.rate));
  const late = rows.filter(({ behind }) => behind).length;
  const open = route.settings.client;
  const columns: Column<ClientRow>[] = [
    { id: "address", title: t`Address`, key: ({ address }) => address },
    { id: "user", title: t`User`, key: ({ user }) => user ?? "–" },
    { id: "state", title: t`State`, key: stateText },
    {
      id: "unsent",
      title: t`Not sent yet`,
      isWide: true,
      key: ({ unsent }) => unsent.ageMilliseconds ?? 0,
      cell: ({ unsent }) => unsentText(unsent),
    },
    { id: "skipped", title: t`Skipped`, key: ({ skipped }) => skipped },
    {
      id: "pvs",
      title: t`PVs`,
      key: ({ pvs }) => pvs ?? 0,
      cell: ({ address, id, pvs }) =>
        pvs === null ? (
          "–"
        ) : (
          <button
            type="button"
            aria-expanded={id === open}
            aria-label={t`${pvsText(pvs)} of ${address}`}
            onClick={() => {
              setTo(route, { client: id === open ? "" : id });
            }}
          >
            {formatCount(pvs)}
          </button>
        ),
    },
    {
      id: "age",
      title: t`Connected for`,
      key: ({ seconds }) => seconds,
      cell: ({ seconds }) => ageText(1000 * seconds),
    },
    { id: "rate", title: "kB/s", key: ({ rate }) => rate, cell: ({ rate }) => rateText(rate) },
  ];
  if (mayDisconnect) {
    columns.push({
      id: "end",
      title: t`Disconnect`,
      isAction: true,
      key: ({ address }) => address,
      cell: (client) => (
        <button
          type="button"
          aria-label={t`Disconnect ${client.address}`}
          onClick={() => {
            setSaid(undefined);
            setEnding(client);
          }}
        >
          {t`Disconnect`}
        </button>
      ),
    });
  }
  return (
    <section className="panel" aria-labelledby="health-clients">
      <h2 id="health-clients">{t`Clients`}</h2>
      <p className="note" role="status">
        {all === 1 ? t`1 client` : t`${all} clients`},{" "}
        {late === 0 ? t`none behind` : t`${late} behind`}
        {rows.length < all && t`; ${String(rows.length)} are listed`}
      </p>
      {said !== undefined && (
        <p className="note" role="alert">
          {said}
        </p>
      )}
      <SortTable
        route={route}
        setting="clients"
        label={t`Addresses`}
        columns={columns}
        rows={rows}
        nameOf={({ id }) => id}
        stateOf={({ behind, inStep }) => (behind ? "behind" : inStep ? "in step" : "paced")}
        below={({ id, pvs }) =>
          // With other PVs it has other names.
          id === open && <PvsOf key={`${id} ${String(pvs)}`} id={id} route={route} />
        }
      />
      {ending !== undefined && (
        <ConfirmEnd
          client={ending}
          close={(said) => {
            setEnding(undefined);
            setSaid(said);
          }}
        />
      )}
    </section>
  );
}

/** The names of a client's PVs, in pages. */
function PvsOf({ id, route }: { readonly id: string; readonly route: Route }): ReactNode {
  const [names, setNames] = useState<readonly string[]>([]);
  const [after, setAfter] = useState("");
  /** After which name there are more, `null` if there are none, `undefined` while that isn't known. */
  const [next, setNext] = useState<string | null>();
  const [why, setWhy] = useState("");
  useEffect(() => {
    const controller = new AbortController();
    void readPvsOf(id, after, controller.signal).then((result) => {
      if (controller.signal.aborted) return;
      setWhy(result.ok ? "" : result.why);
      setNext(result.ok ? result.data.next : null);
      if (result.ok) setNames((before) => [...before, ...result.data.names]);
    });
    return () => {
      controller.abort();
    };
  }, [id, after]);
  return (
    <>
      {names.length > 0 && (
        <ul className="health-names">
          {names.map((name) => (
            <li key={name}>
              <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
            </li>
          ))}
        </ul>
      )}
      {why !== "" && <span role="alert">{t`No names: ${why}.`}</span>}
      {why === "" && next === null && names.length === 0 && t`No names that you may read.`}
      {next === undefined && t`Asking…`}
      {next != null && (
        <button
          type="button"
          onClick={() => {
            setNext(undefined);
            setAfter(next);
          }}
        >
          {t`More`}
        </button>
      )}
    </>
  );
}

interface ConfirmEndProps {
  readonly client: ListedClient;
  /** `said`: what came of it; `undefined` if nothing was done. */
  readonly close: (said?: string) => void;
}

/** Asks before a client is disconnected. */
function ConfirmEnd({ client, close }: ConfirmEndProps): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const [isAsked, setAsked] = useState(false);
  const { address, id, user } = client;
  useEffect(() => {
    dialog.current?.showModal();
    // Enter, which may have opened it and still be held, ends nothing.
    leave.current?.focus();
  }, []);
  const end = async (): Promise<void> => {
    setAsked(true);
    const why = await disconnect(id);
    close(
      why === undefined
        ? t`${address} was disconnected.`
        : t`${address} is not disconnected: ${why}.`,
    );
  };
  return (
    <dialog
      ref={dialog}
      aria-labelledby="end-title"
      onClose={() => {
        if (!isAsked) close();
      }}
    >
      <h2 id="end-title">
        {user === null ? t`Disconnect ${address}?` : t`Disconnect ${user} at ${address}?`}
      </h2>
      <p>
        {t`A page connects again by itself and is brought up to date. Puts that the client waits for have an unknown outcome. The relay's log and audit file say who did it.`}
      </p>
      <div className="choices">
        <button ref={leave} type="button" onClick={() => dialog.current?.close()}>
          {t`Cancel`}
        </button>
        <button type="button" className="main" disabled={isAsked} onClick={() => void end()}>
          {t`Disconnect`}
        </button>
      </div>
    </dialog>
  );
}

/** The relays that share PVs with this one, if there are any. */
export function Fleet({ route, status: { fleet = [] } }: ListProps): ReactNode {
  if (fleet.length === 0) return null;
  type Member = (typeof fleet)[number];
  const roles: Readonly<Record<string, string>> = {
    both: t`owns PVs and serves clients`,
    ingest: t`owns PVs`,
    edge: t`serves clients`,
  };
  const columns: Column<Member>[] = [
    {
      id: "name",
      title: t`Relay`,
      key: ({ name }) => name,
      cell: ({ name, thisRelay }) => (thisRelay ? t`${name} (this relay)` : name),
    },
    { id: "role", title: t`Role`, isWide: true, key: ({ role }) => roles[role] ?? role },
    {
      id: "state",
      title: t`State`,
      key: ({ draining }) => (draining ? t`stopping` : t`running`),
    },
    { id: "version", title: t`Version`, key: ({ version }) => version ?? "–" },
    {
      id: "age",
      title: t`Up for`,
      key: ({ uptimeSeconds }) => uptimeSeconds,
      cell: ({ uptimeSeconds }) => ageText(1000 * uptimeSeconds),
    },
    { id: "pvs", title: t`PVs owned`, key: ({ pvs }) => pvs },
    { id: "clients", title: t`Clients`, key: ({ clients }) => clients },
  ];
  return (
    <section className="panel" aria-labelledby="health-fleet">
      <h2 id="health-fleet">{t`Fleet`}</h2>
      <SortTable
        route={route}
        setting="fleet"
        label={t`Relays`}
        columns={columns}
        rows={fleet}
        nameOf={({ id }) => id}
      />
    </section>
  );
}

/** What comes from each source, and what was lost on the way. */
export function Sources({ before, now, route, status }: ListProps): ReactNode {
  const { sources = [], updatesSkipped: lost } = status;
  if (sources.length === 0) return null;
  const rateOf = rateBetween(now, before);
  const then = new Map(before?.status?.sources?.map((source) => [source.name, source]));
  const rows = sources.map((source) => {
    const last = then.get(source.name);
    return {
      ...source,
      rate: rateOf(source.updates, last?.updates),
      data: rateOf(source.bytes, last?.bytes) / 1000,
    };
  });
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    { id: "name", title: t`Source`, key: ({ name }) => name },
    { id: "pvs", title: t`PVs`, key: ({ pvs }) => pvs },
    { id: "connected", title: t`Connected`, key: ({ connected }) => connected },
    {
      id: "rate",
      title: t`Updates/s`,
      key: ({ rate }) => rate,
      cell: ({ rate }) => rateText(rate),
    },
    { id: "data", title: "kB/s", key: ({ data }) => data, cell: ({ data }) => rateText(data) },
  ];
  return (
    <section className="panel" aria-labelledby="health-sources">
      <h2 id="health-sources">{t`Sources`}</h2>
      <p className="note">
        {t`Updates lost before the relay, of all sources together: ${formatCount(lost.relay)} that it could not take in, ${formatCount(lost.source)} that servers merged, ${formatCount(lost.bus ?? 0)} between relays.`}
      </p>
      <SortTable
        route={route}
        setting="sources"
        label={t`Names of sources`}
        columns={columns}
        rows={rows}
        nameOf={({ name }) => name}
      />
    </section>
  );
}

export function Servers({ before, now, route, status }: ListProps): ReactNode {
  if (status.servers.length === 0) return null;
  const rateOf = rateBetween(now, before);
  const then = new Map(before?.status?.servers.map(({ bytes, name }) => [name, bytes]));
  const rows = status.servers.map((server) => ({
    ...server,
    rate: rateOf(server.bytes, then.get(server.name)) / 1000,
  }));
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    { id: "name", title: t`Server`, key: ({ name }) => name },
    { id: "pvs", title: t`PVs`, key: ({ pvs }) => pvs },
    {
      id: "connected",
      title: t`Connected`,
      key: ({ connected = 0 }) => connected,
      cell: ({ connected }) => (connected === undefined ? "–" : formatCount(connected)),
    },
    { id: "rate", title: "kB/s", key: ({ rate }) => rate, cell: ({ rate }) => rateText(rate) },
  ];
  return (
    <section className="panel" aria-labelledby="health-servers">
      <h2 id="health-servers">{t`Servers`}</h2>
      <SortTable
        route={route}
        setting="servers"
        label={t`Addresses of servers`}
        columns={columns}
        rows={rows}
        nameOf={({ name }) => name}
      />
    </section>
  );
}

const STATES = ["Disconnected", "NotFound", "Connecting", "Connected"];

const rankOf = (state: string): number => STATES.indexOf(state);
const pvStateText = (state: string): string =>
  [t`disconnected`, t`not found`, t`searched`, t`connected`][rankOf(state)] ?? state;

/** Rows that a press on "More" adds, and how often it does so. */
const PAGE = 200;
const PAGES = 5;

/** Answers of the relay to a search, each of which compares 5,000 PVs. */
const ROUNDS = 4;

const TYPED_MS = 300;
const AGAIN_MS = 5000;

interface Found extends FoundPvs {
  readonly words: string;
  readonly pages: number;
  readonly why: string;
}

/** What the relay finds among all of its PVs, asked again at intervals; `undefined` until it has answered. */
function useFound(words: string, pages: number, isNeeded: boolean): Found | undefined {
  const [found, setFound] = useState<Found>();
  useEffect(() => {
    if (!isNeeded) return;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      const result = await readPvs(words, PAGE * pages, ROUNDS * pages, controller.signal);
      if (controller.signal.aborted) return;
      const { next, pvs } = result.ok ? result.data : { pvs: [], next: null };
      setFound({ words, pages, pvs, next, why: result.ok ? "" : result.why });
      timer = setTimeout(() => void ask(), AGAIN_MS);
    };
    timer = setTimeout(() => void ask(), TYPED_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [words, pages, isNeeded]);
  return isNeeded && found?.words === words ? found : undefined;
}

/** The relay's PVs by state, the worst first, with their servers. What the status doesn't list is searched. */
export function HealthPvs({ route, status }: ListProps): ReactNode {
  const { connected, connecting, disconnected, notFound } = status.pvs;
  const all = connected + connecting + disconnected + notFound;
  const { q = "" } = route.settings;
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const [more, setMore] = useState({ q, pages: 1 });
  const pages = more.q === q ? more.pages : 1;
  const isPart = status.list.length < all;
  const found = useFound(words.join(" "), pages, isPart);
  const hasNext = found?.next != null;
  const listed = status.list.filter(({ name, server, state }) => {
    const row = `${name} ${pvStateText(state)} ${server ?? ""}`.toLowerCase();
    return words.every((word) => row.includes(word));
  });
  const rows = (found?.why === "" ? found.pvs : listed).toSorted(
    (a, b) => rankOf(a.state) - rankOf(b.state) || (a.name < b.name ? -1 : 1),
  );
  if (all === 0) return null;
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    {
      id: "name",
      title: t`PV`,
      key: ({ name }) => name,
      cell: ({ name }) => (
        <a href={hrefOf(elsewhere(route, { page: "pv", name, names: [] }))}>{name}</a>
      ),
    },
    {
      id: "state",
      title: t`State`,
      key: ({ state }) => rankOf(state),
      cell: ({ state }) => pvStateText(state),
    },
    { id: "clients", title: t`Clients`, key: ({ clients }) => clients },
    { id: "server", title: t`Server`, key: ({ server }) => server ?? "–" },
  ];
  return (
    <section className="panel table-panel" aria-labelledby="health-pvs">
      <h2 id="health-pvs">{t`PVs`}</h2>
      <div className="filters">
        <input
          type="search"
          aria-label={t`Parts of a name, state or server`}
          placeholder={t`Name, state or server`}
          value={q}
          onInput={({ currentTarget }) => {
            setTo(route, { q: currentTarget.value });
          }}
        />
        <span className="note" role="status">
          {t`${rows.length} of ${pvsText(all)}`}
          {isPart && found === undefined && t`; searching all…`}
          {hasNext && t`, by name; more may follow`}
          {(found?.why ?? "") !== "" && t`; the others aren't listed: ${found?.why ?? ""}`}
        </span>
      </div>
      <SortTable
        route={route}
        setting="sort"
        label={t`Rows`}
        columns={columns}
        rows={rows}
        nameOf={({ name }) => name}
        stateOf={({ state }) => state}
        isLong
      />
      {hasNext && pages < PAGES && (
        <button
          type="button"
          disabled={found.pages < pages}
          onClick={() => {
            setMore({ q, pages: pages + 1 });
          }}
        >
          {t`More`}
        </button>
      )}
    </section>
  );
}
