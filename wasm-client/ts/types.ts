/** What an application sees of a PV, of the connection and of the client. */

/** Whether the PV is there. It stands beside alarm severity and is none. */
export type PvConnectionState =
  /** Searched for, not found yet. */
  | "connecting"
  /** Searched for longer than the relay's not-found time; the search goes on. */
  | "notFound"
  | "connected"
  /** Was connected; the last value is kept and is old. */
  | "disconnected"
  /** The relay itself is out of reach; the last value is kept and is old. */
  | "relayLost"
  /** The relay didn't take the name; `connection.reason` says why. */
  | "refused";

/** Element type of a value at its source; `Unknown` until the PV has connected once. */
export type PvType =
  | "Unknown"
  | "Float64"
  | "Float32"
  | "Int8"
  | "UInt8"
  | "Int16"
  | "UInt16"
  | "Int32"
  | "UInt32"
  | "Int64"
  | "UInt64"
  | "Enum"
  | "String"
  | "Boolean"
  | "Structure"
  | "Union"
  | "Any";

/** Alarm severity as EPICS spells it. */
export type Severity = "NO_ALARM" | "MINOR" | "MAJOR" | "INVALID";

/**
 * What can be said of the value in one word: Coniql's name for the severity, and `UNDEFINED` while
 * the PV is not connected or its alarm isn't known.
 */
export type Quality = "VALID" | "WARNING" | "ALARM" | "INVALID" | "UNDEFINED";

/** A numeric array: a view on the message that brought it. Copy it before changing it. */
export type NumericArray =
  | Float64Array
  | Float32Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/** A field of a structure: a scalar, an array, a structure, or `null` where there is nothing. */
export type PvField =
  number | bigint | string | boolean | null | NumericArray | readonly PvField[] | PvStructure;

/**
 * A structure by its fields' names. A union is `{ selected, value }`, a field of any type is what it
 * holds; 64-bit integers are `bigint`, numeric arrays views on the message that brought them.
 */
export interface PvStructure {
  readonly [field: string]: PvField;
}

export interface PvValue {
  /** The number or the enum's index; `null` for NaN, ±Infinity, strings and arrays. */
  readonly float: number | null;
  /**
   * As an operator reads it: PREC digits, without a precision the shortest text that reads back as the
   * same number, enum label, `true`/`false`, `nan`/`inf`; arrays shortened.
   */
  readonly string: string;
  /** The number or the enum's index, NaN and ±Infinity included; `null` for strings and arrays. */
  readonly number: number | null;
  /** The text of a string PV, or in an array of characters; `null` for all others. */
  readonly text: string | null;
  /** The elements of an array PV; `null` for scalars. */
  readonly array: NumericArray | readonly string[] | null;
  /** All digits of an integer; `null` for all others. */
  readonly exact: string | null;
  /** An integer exactly, of 64 bits too; `null` for all others. */
  readonly bigint: bigint | null;
  /** The fields of a structure such as an NTTable or an NTNDArray; `null` for all others. */
  readonly structure: PvStructure | null;
  /** The elements of an array of structures or unions (a field of a structure); `null` for all others. */
  readonly structures: readonly PvField[] | null;
}

export interface PvTime {
  /** ISO 8601 in UTC with microseconds: `2026-01-31T12:00:00.123456Z`. */
  readonly datetime: string;
  /**
   * Seconds past the POSIX epoch with their fraction, as near as a number comes: within 0.2 µs. The
   * whole ones are `Math.round(seconds - nanoseconds / 1e9)`.
   */
  readonly seconds: number;
  /** The fraction of the second exactly: 0 to 999,999,999. */
  readonly nanoseconds: number;
  readonly userTag: number;
}

export interface PvStatus {
  readonly quality: Quality;
  /**
   * The last known severity, kept while disconnected; `null` before the first value and where the server
   * gives no alarm.
   */
  readonly severity: Severity | null;
  /**
   * EPICS's name of the alarm condition (`NO_ALARM`, `HIHI`, `UDF` …), or of the alarm's class where a
   * pvAccess server names none (`DEVICE`, `DRIVER` …); `null` as `severity` is.
   */
  readonly alarmStatus: string | null;
  /** A few words for a person; empty when all is well. */
  readonly message: string;
  /** Whether the PV may be written now, as far as the IOC is concerned; true where that isn't known. */
  readonly mutable: boolean;
  /**
   * `mutable`, and the relay takes puts to this PV. `null` while only a put can show it: pvAccess tells of
   * no rights, and what an IOC grants the relay says nothing of a user who has logged in. What a put of
   * this page showed is remembered until the rights are told anew.
   */
  readonly writable: boolean | null;
}

/** `null` where the source gives no limit. */
export interface PvRange {
  readonly min: number | null;
  readonly max: number | null;
}

export interface PvDisplay {
  readonly type: PvType;
  /** Most elements the PV can hold; 1 for a scalar. */
  readonly elementCount: number;
  /** The record's description; empty when not known. */
  readonly description: string;
  /** Identifier of a pvAccess structure, such as `epics:nt/NTTable:1.0`; empty for other sources. */
  readonly typeId: string;
  /** How pvAccess wants a number shown: `Hex`, `Exponential` …; `null` when not known. */
  readonly form: string | null;
  /** Engineering units; empty when there are none. */
  readonly units: string;
  /** Digits after the decimal point; `null` for integers, enums, strings and where the server gives none. */
  readonly precision: number | null;
  /** Labels of an enum by index; `null` for all others. */
  readonly choices: readonly string[] | null;
  /**
   * What may be written (DRVL to DRVH); `null` where neither end is given, as the other ranges. Equal
   * ends, EPICS's 0 to 0, are no limits: a record clamps only when DRVH is above DRVL.
   */
  readonly controlRange: PvRange | null;
  /** What to draw (LOPR to HOPR). */
  readonly displayRange: PvRange | null;
  /** LOLO to HIHI. */
  readonly alarmRange: PvRange | null;
  /** LOW to HIGH. */
  readonly warningRange: PvRange | null;
}

export interface PvConnection {
  readonly state: PvConnectionState;
  /** `state === "connected"`: only then, and unless it is `unresponsive`, is the value the present one. */
  readonly connected: boolean;
  /** When `state` began, ISO 8601; `null` before the relay has answered. */
  readonly since: string | null;
  /**
   * While the value may be old (`disconnected`, `relayLost`, `unresponsive`): until when it was the
   * present one, ISO 8601. That is when the PV's server, or the relay, was last heard from; it may be
   * well before `since`, when a network failed silently. `null` otherwise.
   */
  readonly lastHeard: string | null;
  /**
   * Still `connected`, but the PV's server has stopped answering, for some two seconds at least, or the
   * relay has for three: it answers again, or the PV becomes `disconnected` or `relayLost` when the
   * time-out ends.
   */
  readonly unresponsive: boolean;
  /** Access rights: may be read. */
  readonly readable: boolean;
  /**
   * Why there is no value: the relay refused the name, the structure has no such field (and which it has), or
   * the IOC gives no read access; `null` otherwise.
   */
  readonly reason: string | null;
}

/** Values of a PV that this client didn't get, by the cause why. */
export interface PvSkips {
  /** This page didn't keep up. */
  readonly behind: number;
  /** The page was hidden, and was brought up to date at intervals. */
  readonly paced: number;
  /** `rateHz`, `deadband` or `every` withheld them. */
  readonly filter: number;
  /** The relay couldn't take them in fast enough. */
  readonly relay: number;
  /** The server or its library put them into others, as far as that is known. */
  readonly source: number;
}

/** Everything that is known of a PV: what `pv(name)` gives without a selection. */
export interface PvData {
  /** The name with its source: `ca://NAME` also when asked for `NAME`. */
  readonly id: string;
  /** `null` before the first value. */
  readonly value: PvValue | null;
  /** Time stamp of the value, as the IOC set it; `null` where the server gives none. */
  readonly time: PvTime | null;
  readonly status: PvStatus;
  /** How to draw it; `null` before it is known. */
  readonly display: PvDisplay | null;
  readonly connection: PvConnection;
  /** Values that this client was not sent one by one, for whatever cause. */
  readonly skipped: number;
  /** The same by cause. */
  readonly skips: PvSkips;
}

/**
 * Which updates of a PV are wanted: those that fulfil all of it. Changes of the alarm, of metadata,
 * connection and access rights come in any case, and the first value always. What is withheld is not
 * sent, and counts as `skips.filter`.
 */
export interface PvOptions {
  /** Most updates a second; the last one of a burst always comes. @default any number */
  rateHz?: number | undefined;
  /**
   * Only numbers that differ from the last one that came by more than this; enums, strings, arrays and
   * structures always. @default 0: all
   */
  deadband?: number | undefined;
  /** Only one in so many updates. @default 1 */
  every?: number | undefined;
  /** Of arrays of numbers only one in so many elements, beginning with the first. @default 1 */
  stride?: number | undefined;
  /** Of what is left so many elements at most, from the first on. @default all */
  maxLength?: number | undefined;
  /**
   * Of what is left at most so many points, 2 or more: the smallest and the largest element of each of half
   * as many stretches, so that a plot of so many pixels loses no peak. @default all
   */
  points?: number | undefined;
  /** Doubles in arrays come as those of 32 bits, in half the bytes. @default false */
  float32?: boolean | undefined;
}

/** One PV seen through one selection. */
export interface Pv<T = PvData> {
  readonly name: string;
  /** Calls `listener` after changes of what is selected, at most once per animation frame. */
  readonly subscribe: (listener: () => void) => () => void;
  /**
   * The present state; the same object until something selected changes. `undefined` until the
   * WebAssembly module is loaded, and on a server.
   * @throws SelectionError when the selection turned out to be wrong while the module was loading.
   */
  readonly getSnapshot: () => T | undefined;
}

/** A value that changes, in the shape of React's `useSyncExternalStore`. */
export interface Readable<T> {
  readonly subscribe: (listener: () => void) => () => void;
  readonly getSnapshot: () => T;
}

export interface ConnectionSnapshot {
  /**
   * `connecting` until the first attempt succeeds or fails, `open`, `lost` from then on until open
   * again, `closed` for good: disposed, or reconnecting would not help.
   */
  readonly state: "connecting" | "open" | "lost" | "closed";
  /** When `state` began, milliseconds past the POSIX epoch. */
  readonly sinceMs: number;
  /** Failed attempts since the connection was last good. */
  readonly attempt: number;
  /** Why it is lost or closed, for a person. */
  readonly reason: string | undefined;
  /**
   * How long until the next attempt, from the moment this snapshot was made; `undefined` while one is
   * under way.
   */
  readonly retryInMs: number | undefined;
  /**
   * While it is open, but the relay hasn't answered for three seconds: when it was last heard from,
   * milliseconds past the POSIX epoch. Its PVs are `unresponsive` then.
   */
  readonly silentSinceMs: number | undefined;
  readonly relayVersion: string | undefined;
  /** Changes when the relay restarts. */
  readonly relayInstance: string | undefined;
}

/** Renewed once a second. */
export interface StatsSnapshot {
  readonly updatesPerSecond: number;
  readonly framesPerSecond: number;
  readonly bytesPerSecond: number;
  readonly updatesTotal: number;
  readonly framesTotal: number;
  readonly bytesTotal: number;
  /** Values not sent one by one, for whatever cause. */
  readonly skippedTotal: number;
  /** Frames that didn't follow on the frame before; each one ends the connection. */
  readonly gapsTotal: number;
  readonly reconnectsTotal: number;
  /** PVs that this client holds. */
  readonly subscriptions: number;
  /** There and back at the last ping. */
  readonly roundTripMs: number | undefined;
}

/** For verification: what has arrived for one PV. */
export interface PvInspection {
  /** Number of the last update in the PV's stream, modulo 2^32. */
  readonly sequence: number;
  readonly updatesReceived: number;
  readonly skipped: number;
}

export interface GetOptions {
  /**
   * Selection as for `pv`. With `display.description` in it, or without a selection, a get waits up to two
   * seconds for the description of a Channel Access PV. @default everything
   */
  selection?: string;
  /** How long to wait for a PV's first value. @default 5000 */
  timeoutMs?: number;
}

export type GetResult<T = PvData> =
  | { readonly name: string; readonly ok: true; readonly data: T }
  | {
      readonly name: string;
      readonly ok: false;
      readonly error: Error & { readonly code: string };
    };

/** What can be written. A string is also the label of a choice, or the text of a number. */
export type PutValue =
  | number
  | bigint
  | string
  | boolean
  | readonly number[]
  | readonly bigint[]
  | readonly string[]
  | NumericArray;

export interface PutOptions {
  /**
   * Resolve only when the record, and all that it set off, has finished processing.
   * @default false: when the server has taken or refused the value
   */
  wait?: boolean;
  /** How long to wait for the outcome. @default 10000 */
  timeoutMs?: number;
  /**
   * Write only if the PV is still at the update that this page shows, so that nobody else's change
   * is overwritten unseen. Needs a listener on the PV, without options.
   * @default false
   */
  onlyIfUnchanged?: boolean;
  /**
   * For sliders: while one put to the PV is under way, only the latest of those that follow is kept.
   * Those that gave way end as that one does, with `superseded`.
   * @default false
   */
  coalesce?: boolean;
}

/** `error.mayBeWritten` says whether something may have been written all the same. */
export interface PutFailure {
  readonly ok: false;
  readonly error: Error & {
    readonly code: string;
    readonly pv: string;
    readonly mayBeWritten: boolean;
  };
}

export type PutResult =
  | {
      readonly ok: true;
      /** A later value was written in place of this one. */
      readonly superseded: boolean;
      /**
       * What the PV held when it was read after the put, if that isn't what was put: the IOC limited
       * (DRVH, DRVL) or cut it, or another client wrote. Absent when the PV holds what was put;
       * `undefined` beside a `message` for arrays of more than 4,096 elements.
       */
      readonly readback?: PvField | undefined;
      /** The same in words, for a person: "the PV now holds 3". Absent when it holds what was put. */
      readonly message?: string;
    }
  | PutFailure;

export interface PutManyOptions extends PutOptions {
  /**
   * Send none of them unless the relay's rules permit all: the others then fail with `WITHHELD`. For 32 PVs
   * of a relay at most, and not together with `coalesce`. What an IOC refuses shows only when the others
   * are written.
   * @default false
   */
  allPermitted?: boolean;
}

export interface RpcOptions {
  /** How long the service may take. @default 10000 */
  timeoutMs?: number;
}

export type RpcResult = { readonly ok: true; readonly data: PvField } | PutFailure;

/** WebAssembly module: where it is, or what it holds. */
export type WasmSource = string | URL | Request | Response | BufferSource | WebAssembly.Module;

export interface ClientOptions {
  /** The relay: `ws://…`, `wss://…`, `http(s)://…`, or a path on the page's own host. */
  url: string | URL;
  /** @default the module that comes with this package, beside this file; Node reads it from disk */
  wasm?: WasmSource | Promise<WasmSource>;
  /**
   * Gives the JSON Web Token that shows the relay who this is. Asked with every connection to a relay
   * that wants one, so that it can be a new one each time.
   */
  token?: () => string | Promise<string>;
  /** Node has one from 22 on; before, that of `ws`. @default the global `WebSocket` */
  webSocket?: typeof WebSocket;
  /**
   * `"lz4"` asks the relay to pack numbers, which takes 2 to 9 bytes an update in place of 11, fewest
   * where values have few digits: for slow links. On a fast one it only costs time.
   */
  compression?: "lz4";
  /** How long a PV stays subscribed after its last listener left. @default 2000 */
  unsubscribeDelayMs?: number;
  /**
   * Longest pause between two attempts to connect. A page tries at once when it is seen again or the
   * network returns. @default 5000 while the page is seen, 15000 otherwise
   */
  maxRetryDelayMs?: number;
  /**
   * How often to measure the way to the relay. A relay of which nothing has come for two seconds is asked
   * then, unless the page is hidden, and at once when the page is seen again or the network returns.
   * @default 5000
   */
  pingIntervalMs?: number;
  /** Without any answer for so long after a ping the connection counts as lost. @default 10000 */
  pingTimeoutMs?: number;
  /**
   * How often a hidden page is brought up to date, at most; it gets every update again when it is
   * seen. 0 makes no difference between hidden and seen. @default 1000
   */
  hiddenIntervalMs?: number;
}

/** One connection to a relay and the PVs that came over it. Does nothing until first used. */
export interface PvClient {
  /**
   * The PV `name` through `selection`; `loc://name(initial)` is one that lives in this page, shared by
   * all who use this client. A selection is a GraphQL selection set such as
   * `{ value { string(units: true) } status { quality } }`. With `options` only some of the updates
   * are sent. The same arguments give the same object.
   * @throws PvwireError `BAD_OPTION` when an option's number can't be meant, such as `rateHz: 0`.
   * @throws SelectionError when the selection is wrong. While the WebAssembly module is still
   * loading the error is found later and thrown by `getSnapshot`; `await client.ready` first to
   * have it at once.
   */
  pv<T = PvData>(name: string, selection?: string, options?: PvOptions): Pv<T>;
  /**
   * The present state of PVs, once. One result per name, in order; rejects only with a SelectionError,
   * with `BAD_OPTION`, or when a file of this package can't be loaded.
   */
  get<T = PvData>(names: readonly string[], options?: GetOptions): Promise<GetResult<T>[]>;
  /**
   * Writes a PV. The value becomes the PV's own type exactly or is refused; the result says what
   * became of it. Without a connection to the relay nothing is written, now or later.
   */
  put(name: string, value: PutValue, options?: PutOptions): Promise<PutResult>;
  /**
   * Writes several PVs: sent in this order in messages of 32 puts at most, each put with its own outcome.
   * One that is refused doesn't keep the others from being written, unless `allPermitted` asks for that.
   */
  putMany(
    puts: readonly (readonly [name: string, value: PutValue])[],
    options?: PutManyOptions,
  ): Promise<PutResult[]>;
  /** Calls a pvAccess service with named arguments (an NTURI's query). */
  rpc(
    name: string,
    values: Readonly<Record<string, PutValue>>,
    options?: RpcOptions,
  ): Promise<RpcResult>;
  /** Resolves when the WebAssembly module is loaded. */
  readonly ready: Promise<void>;
  readonly connection: Readable<ConnectionSnapshot>;
  readonly stats: Readable<StatsSnapshot>;
  /** What has arrived for a PV that has listeners with these options; `undefined` for any other. */
  inspect(name: string, options?: PvOptions): PvInspection | undefined;
  /** While the connection is lost: tries at once, as a button "Try now" wants it. */
  retryNow(): void;
  /** Closes the connection for good. */
  dispose(): void;
}
