/** The types that an application uses: PVs, the connection and the client. */

/** Connection state of a PV. Independent of alarm severity. */
export type PvConnectionState =
  /** Searched for, not found yet. */
  | "connecting"
  /** Searched for longer than the relay's not-found time; the search continues. */
  | "notFound"
  | "connected"
  /** Was connected; the last value is kept and is outdated. */
  | "disconnected"
  /** The relay itself can't be reached; the last value is kept and is outdated. */
  | "relayLost"
  /** The relay refused the name; `connection.reason` says why. */
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
 * Quality of the value: Coniql's name for the severity, and `UNDEFINED` while the PV is not connected or
 * its alarm isn't known.
 */
export type Quality = "VALID" | "WARNING" | "ALARM" | "INVALID" | "UNDEFINED";

/** A numeric array: a view of the message that contained it. Copy it before you change it. */
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

/** A field of a structure: a scalar, an array, a structure, or `null` without a value. */
export type PvField =
  number | bigint | string | boolean | null | NumericArray | readonly PvField[] | PvStructure;

/**
 * The fields of a structure by name. A union is `{ selected, value }`, a variant union is its value;
 * 64-bit integers are `bigint`, numeric arrays are views of the message that contained them.
 */
export interface PvStructure {
  readonly [field: string]: PvField;
}

/** A value in all forms; those that don't fit its type are `null`. */
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

/** A time stamp. */
export interface PvTime {
  /** ISO 8601 in UTC with microseconds: `2026-01-31T12:00:00.123456Z`. */
  readonly datetime: string;
  /**
   * Seconds past the POSIX epoch with their fraction, rounded to a double: within 0.2 µs. The whole
   * seconds are `Math.round(seconds - nanoseconds / 1e9)`.
   */
  readonly seconds: number;
  /** The fraction of the second exactly: 0 to 999,999,999. */
  readonly nanoseconds: number;
  /** The server's own number, 0 unless it sets one. */
  readonly userTag: number;
}

/** The alarm and the access rights of a PV. */
export interface PvStatus {
  /** The severity by Coniql's names. */
  readonly quality: Quality;
  /**
   * The last known severity, kept while disconnected; `null` before the first value and where the server
   * gives no alarm.
   */
  readonly severity: Severity | null;
  /**
   * EPICS's name of the alarm condition (`NO_ALARM`, `HIHI`, `UDF` …), or of the alarm's class where a
   * pvAccess server names none (`DEVICE`, `DRIVER` …); `UDF` for a local PV that was never set; otherwise `null` as
   * `severity` is.
   */
  readonly alarmStatus: string | null;
  /** The alarm, or why the value can't be trusted, as text for operators; empty without an alarm. */
  readonly message: string;
  /** Write access at the IOC now; true where the source doesn't tell. */
  readonly mutable: boolean;
  /**
   * `mutable`, and the relay takes puts to this PV. `null` while only a put can show it: pvAccess doesn't
   * send access rights, and those of the relay aren't those of a user who has logged in. An accepted put of
   * this page counts until the source sends rights, a refused one for some seconds.
   */
  readonly writable: boolean | null;
}

/** `null` where the source gives no limit. */
export interface PvRange {
  /** The lower limit; `null` without one. */
  readonly min: number | null;
  /** The upper limit; `null` without one. */
  readonly max: number | null;
}

/** How to draw a value, and what may be written. */
export interface PvDisplay {
  /** Element type of the value at its source. */
  readonly type: PvType;
  /** Maximum number of elements; 1 for a scalar. */
  readonly elementCount: number;
  /** The record's description; empty when not known. */
  readonly description: string;
  /** Identifier of a pvAccess structure, such as `epics:nt/NTTable:1.0`; empty for other sources. */
  readonly typeId: string;
  /**
   * How pvAccess wants a number shown: `Hex`, `Exponential` …; `null` when not known. `value.string`
   * and the widgets don't apply it: numbers are shown with PREC digits, in decimal.
   */
  readonly form: string | null;
  /** Engineering units; empty without units. */
  readonly units: string;
  /** Digits after the decimal point; `null` for integers, enums, strings and where the server gives none. */
  readonly precision: number | null;
  /** Labels of an enum by index; `null` for other types. */
  readonly choices: readonly string[] | null;
  /**
   * Control limits (DRVL to DRVH). Like the other ranges `null` without either limit. Equal limits, such
   * as EPICS's 0 to 0, don't limit: a record clamps only when DRVH is above DRVL.
   */
  readonly controlRange: PvRange | null;
  /** Display limits (LOPR to HOPR). */
  readonly displayRange: PvRange | null;
  /** Alarm limits (LOLO to HIHI). */
  readonly alarmRange: PvRange | null;
  /** Warning limits (LOW to HIGH). */
  readonly warningRange: PvRange | null;
}

/** The connection of a PV. */
export interface PvConnection {
  /** The state; the value is kept in all states. */
  readonly state: PvConnectionState;
  /** `state === "connected"`. The value is current only then, and only while not `unresponsive`. */
  readonly connected: boolean;
  /** When `state` began, ISO 8601; `null` before the relay has answered. */
  readonly since: string | null;
  /**
   * While the value may be old (`disconnected`, `relayLost`, `unresponsive`): when the PV's server, or
   * the relay, was last heard from, ISO 8601. The value was current until then. It can be well before
   * `since`, when a network failed silently. Also while a PV is `notFound` whose server answers searches
   * and doesn't connect it. `null` otherwise.
   */
  readonly lastHeard: string | null;
  /**
   * Still `connected`, but the PV's server hasn't answered for about two seconds, or the relay for three.
   * Ends when they answer, or when the PV becomes `disconnected` or `relayLost` after the time-out.
   */
  readonly unresponsive: boolean;
  /** Read access at the IOC. */
  readonly readable: boolean;
  /**
   * Why there is no value: the relay refused the name, the structure has no such field (with those it has), or
   * the IOC gives no read access; `null` otherwise.
   */
  readonly reason: string | null;
}

/** Counts of values that this client didn't get, by cause. */
export interface PvSkips {
  /** This page didn't keep up, or was cut off and can't have them later (with `pvwire/missed`). */
  readonly behind: number;
  /** The page was hidden and got updates at intervals. */
  readonly paced: number;
  /** Left out by the filter: `rateHz`, `deadband` or `every`. */
  readonly filter: number;
  /** The relay was too slow to take them in. */
  readonly relay: number;
  /** Squashed by the server or its library, as far as that is known. */
  readonly source: number;
  /** Lost between two relays of a fleet. */
  readonly bus: number;
}

/** All fields of a PV: the result of `pv(name)` without a selection. */
export interface PvData {
  /** The name with its source: `ca://NAME` also when asked for `NAME`. */
  readonly id: string;
  /** `null` before the first value. */
  readonly value: PvValue | null;
  /** Time stamp of the value, as the IOC set it; `null` where the server gives none. */
  readonly time: PvTime | null;
  /** The alarm and the access rights. */
  readonly status: PvStatus;
  /** How to draw it; `null` before it is known. */
  readonly display: PvDisplay | null;
  /** The connection, and why there is no value. */
  readonly connection: PvConnection;
  /** Number of values that this client didn't get, for any cause. */
  readonly skipped: number;
  /** The same by cause. */
  readonly skips: PvSkips;
}

/**
 * A filter of updates. An update must pass all of its options. The first value, and changes of alarm,
 * metadata, connection and access rights, always pass. The relay doesn't send the others, which count as
 * `skips.filter`.
 */
export interface PvOptions {
  /** Maximum updates per second; the last one of a burst always comes. @default unlimited */
  rateHz?: number | undefined;
  /**
   * Only numbers that differ from the last one sent by more than this; enums, strings, arrays and
   * structures always pass. @default 0: all
   */
  deadband?: number | undefined;
  /** One in this many updates. @default 1 */
  every?: number | undefined;
  /**
   * The mean of the numbers since the last update, in place of the newest one; needs `rateHz` or `every`. An
   * update that comes at once, because of its alarm or the connection, has its own value. Integers are
   * rounded; enums, strings, arrays and structures have no mean. @default false
   */
  average?: boolean | undefined;
  /** One in this many elements of numeric arrays, beginning with the first. @default 1 */
  stride?: number | undefined;
  /** Maximum number of elements, counted after `stride`. @default all */
  maxLength?: number | undefined;
  /**
   * Min/max decimation to at most this many points, 2 or more, after `stride` and `maxLength`: each pair is
   * the minimum and the maximum of one interval, so that a plot keeps all peaks. @default all
   */
  points?: number | undefined;
  /** Sends arrays of doubles as 32-bit floats, in half the bytes. @default false */
  float32?: boolean | undefined;
}

/** One PV seen through one selection. */
export interface Pv<T = PvData> {
  /** The name as it was given. */
  readonly name: string;
  /** Calls `listener` after changes of what is selected, at most once per animation frame. */
  readonly subscribe: (listener: () => void) => () => void;
  /**
   * The current state; the same object until a selected field changes. `undefined` until the
   * WebAssembly module is loaded, and on a server.
   * @throws SelectionError when the selection turned out to be wrong while the module was loading.
   */
  readonly getSnapshot: () => T | undefined;
}

/** A value that changes, in the shape of React's `useSyncExternalStore`. */
export interface Readable<T> {
  /** Calls `listener` after each change; the returned function ends that. */
  readonly subscribe: (listener: () => void) => () => void;
  /** The current value; the same object until it changes. */
  readonly getSnapshot: () => T;
}

/** The state of the connection to the relay. */
export interface ConnectionSnapshot {
  /**
   * `connecting` until the first attempt succeeds or fails, `open`, `lost` from then on until open
   * again, `closed` for good: disposed, or reconnecting wouldn't help.
   */
  readonly state: "connecting" | "open" | "lost" | "closed";
  /** When `state` began, milliseconds past the POSIX epoch. */
  readonly sinceMs: number;
  /** Failed attempts since the connection was last good. */
  readonly attempt: number;
  /** Why it is lost or closed, as text for operators. */
  readonly reason: string | undefined;
  /**
   * Time from this snapshot until the next attempt; `undefined` while one is in progress.
   */
  readonly retryInMs: number | undefined;
  /**
   * While the connection is open but the relay hasn't answered for three seconds: when it was last heard
   * from, milliseconds past the POSIX epoch. Its PVs are `unresponsive` meanwhile.
   */
  readonly silentSinceMs: number | undefined;
  /**
   * The relay's address as a WebSocket URL: of the connection, or of the attempt in progress or the
   * last one. Empty before the first attempt.
   */
  readonly relayUrl: string;
  /** The relay's version; `undefined` before the first connection. */
  readonly relayVersion: string | undefined;
  /** Changes when the relay restarts. */
  readonly relayInstance: string | undefined;
}

/** Renewed once a second. */
export interface StatsSnapshot {
  /** Updates received in the last second. */
  readonly updatesPerSecond: number;
  /** Frames received in the last second. */
  readonly framesPerSecond: number;
  /** Bytes received in the last second. */
  readonly bytesPerSecond: number;
  /** Updates received. */
  readonly updatesTotal: number;
  /** Frames received. */
  readonly framesTotal: number;
  /** Bytes received. */
  readonly bytesTotal: number;
  /** Values that this client didn't get, for any cause. */
  readonly skippedTotal: number;
  /** Frames that were missing; each ends the connection, and the client reconnects. */
  readonly gapsTotal: number;
  /** Number of times that the connection was opened again. */
  readonly reconnectsTotal: number;
  /** PVs that this client holds. */
  readonly subscriptions: number;
  /** Round trip of the last ping. */
  readonly roundTripMs: number | undefined;
}

/** Counts of what has arrived for one PV, for verification. */
export interface PvInspection {
  /** Number of the last update in the PV's stream, modulo 2^32. */
  readonly sequence: number;
  /** Number of updates that have arrived. */
  readonly updatesReceived: number;
  /** Number of updates that this client didn't get. */
  readonly skipped: number;
}

/** Options of a get. */
export interface GetOptions {
  /**
   * Selection as for `pv`. With `display.description` in it, or without a selection, a get waits up to two
   * seconds for the description of a Channel Access PV. @default all fields
   */
  selection?: string;
  /** How long to wait for a PV's first value. @default 5000 */
  timeoutMs?: number;
}

/** The result of a get of one PV: its data, or the error. */
export type GetResult<T = PvData> =
  | {
      /** The PV. */
      readonly name: string;
      /** It was read. */
      readonly ok: true;
      /** What the selection asked for. */
      readonly data: T;
    }
  | {
      /** The PV. */
      readonly name: string;
      /** It could not be read. */
      readonly ok: false;
      /** Why. */
      readonly error: Error & {
        /** One of those of `PvError`. */
        readonly code: string;
      };
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

/** Options of a put. */
export interface PutOptions {
  /**
   * Put-completion: resolve when the record, and all records that it processed, have finished.
   * @default false: resolve when the server has taken or refused the value
   */
  wait?: boolean;
  /** How long to wait for the result. @default 10000 */
  timeoutMs?: number;
  /**
   * Write only if the PV has had no update since the one that this page shows, so that another client's
   * change isn't overwritten unseen. Needs a listener on the PV, without options.
   * @default false
   */
  onlyIfUnchanged?: boolean;
  /**
   * Refuse a value outside the PV's control limits (DRVL and DRVH) with `BAD_VALUE` before anything is written.
   * Without it a record writes its limit instead, and the result says so. Limits that are equal are none.
   * @default false
   */
  checkLimits?: boolean;
  /**
   * For sliders: while a put to the PV is in progress, only the latest of the following ones is kept. The
   * replaced ones get its result, with `superseded`.
   * @default false
   */
  coalesce?: boolean;
  /**
   * Takes back a put that was just made, as the release of a button that is held. Programs that ask their users before
   * they write must not ask again, because meanwhile the PV keeps what was put.
   * @default false
   */
  undoes?: boolean;
}

/** A put or call that failed. `error.mayBeWritten` is true if the value may have been written. */
export interface PutFailure {
  /** It failed. */
  readonly ok: false;
  /** Why the put or call failed; `code` is one of those of `PutError`. */
  readonly error: Error & {
    /** What kind of failure. */
    readonly code: string;
    /** The PV. */
    readonly pv: string;
    /** Whether the value may have been written nevertheless. */
    readonly mayBeWritten: boolean;
  };
}

/** The outcome of a put. */
export type PutResult =
  | {
      /** The server has taken the value. */
      readonly ok: true;
      /** A later value was written instead of this one. */
      readonly superseded: boolean;
      /**
       * The PV's value when it was read back after the put, if it differs from what was put: the IOC
       * clamped (DRVH, DRVL) or truncated it, or another client wrote. Absent when the PV holds what was
       * put; `undefined` with a `message` for arrays of more than 4,096 elements.
       */
      readonly readback?: PvField | undefined;
      /** The same as text, for example "the PV now holds 3". Absent when it holds what was put. */
      readonly message?: string;
    }
  | PutFailure;

/** Options of a put of several PVs. */
export interface PutManyOptions extends PutOptions {
  /**
   * Write none of them unless the relay's rules permit all: otherwise the permitted ones fail with
   * `WITHHELD`. For at most 32 PVs of a relay, and not together with `coalesce`. A refusal by an IOC
   * doesn't keep the others from being written.
   * @default false
   */
  allPermitted?: boolean;
}

/** Options of a call. */
export interface RpcOptions {
  /** How long the service may take. @default 10000 */
  timeoutMs?: number;
}

/** The outcome of a call: the service's answer, or the error. */
export type RpcResult =
  | {
      /** The service has answered. */
      readonly ok: true;
      /** Its answer. */
      readonly data: PvField;
    }
  | PutFailure;

/** Options of a search for names. */
export interface NamesOptions {
  /** Maximum number of names, from 1 to 1000. @default 20 */
  limit?: number;
  /** The `next` of an earlier result with the same text: further names. */
  after?: string;
  /** Ends the search; the promise then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** How long the relay may take. @default 5000 */
  timeoutMs?: number;
}

/** A name that the relay offers. */
export interface NameFound {
  /** As `pv` takes it: without a protocol if that is the relay's default. */
  readonly name: string;
  /** Protocol of the PV, such as `"ca"` or `"pva"`. */
  readonly protocol: string;
  /**
   * Where it is known from: the `"relay"` has found the PV since it was started, a pvAccess `"server"` lists
   * it, a `"file"` of the operator does, `"channelfinder"`, or an `"archiver"`.
   */
  readonly from: readonly ("relay" | "server" | "file" | "channelfinder" | "archiver")[];
  /** What ChannelFinder, or a database of the operator, knows of the PV. */
  readonly about?: NameAbout;
}

/** What is known of a PV without opening it. */
export interface NameAbout {
  /** The record's type, such as `"ai"`. */
  readonly type?: string;
  /** The record's description. */
  readonly description?: string;
  /** Host of its IOC. */
  readonly host?: string;
  /** Name of its IOC. */
  readonly ioc?: string;
  /** Tags of its channel in ChannelFinder. */
  readonly tags?: readonly string[];
  /** Properties of its channel that the relay's operator names. */
  readonly properties?: Readonly<Record<string, string>>;
}

/** The names that a search found. */
export interface NamesResult {
  /** Names that begin with the text first, then records before their fields, short names first, by the alphabet. */
  readonly names: readonly NameFound[];
  /** Set if there are more names: pass it as `after`. */
  readonly next?: string;
}

/** What the relay knows about a PV besides its state. */
export interface PvAbout {
  /** Host and port of the server that it is or was last connected to; `null` if it isn't subscribed or its protocol has none. */
  readonly server: string | null;
  /** The last write through this relay since it started, for clients that may write to the PV. */
  readonly lastWrite: LastWrite | null;
}

/** A write to a PV. */
export interface LastWrite {
  /** When its outcome was known, in milliseconds past the POSIX epoch by the relay's clock. */
  readonly timeMs: number;
  /** The user; `null` without a login. */
  readonly user: string | null;
  /** The address of the user's client. */
  readonly address: string;
  /** A number, or the beginning of a text; `null` for an array. */
  readonly value: number | string | null;
  /** Whether the PV's server has confirmed it; without an answer in time it may have been done. */
  readonly confirmed: boolean;
}

/** The WebAssembly module: its address, or its content. */
export type WasmSource = string | URL | Request | Response | BufferSource | WebAssembly.Module;

/** The address of a relay: `ws://…`, `wss://…`, `http(s)://…`, or a path on the page's own host. */
export type RelayUrl = string | URL;

/** One relay, or several that serve the same PVs. */
export type RelayOptions =
  | {
      /** The relay. */
      url: RelayUrl;
      /** Not together with `url`. */
      urls?: undefined;
    }
  | {
      /** Not together with `urls`. */
      url?: undefined;
      /**
       * Several relays: each client uses one of them, chosen at random, and another one when the
       * connection is lost. A function returns the list, for example one that a server keeps; it is
       * called for the first connection and whenever all relays of the list have been tried.
       */
      urls: readonly RelayUrl[] | (() => readonly RelayUrl[] | Promise<readonly RelayUrl[]>);
    };

/** Options of a client: the relays, and the connection to them. */
export type ClientOptions = RelayOptions & ConnectionOptions;

/** Options of the connection to a relay. */
export interface ConnectionOptions {
  /** @default the module that comes with this package, beside this file; Node reads it from disk */
  wasm?: WasmSource | Promise<WasmSource>;
  /**
   * The module of formulas and local PVs, which is loaded with the first of them.
   * @default the module that comes with this package
   */
  pageWasm?: WasmSource | Promise<WasmSource>;
  /**
   * The module of GraphQL documents, which is loaded with the first of them.
   * @default the module that comes with this package
   */
  graphqlWasm?: WasmSource | Promise<WasmSource>;
  /**
   * The module that decodes archived samples, which is loaded with the first of them.
   * @default the module that comes with this package
   */
  archiveWasm?: WasmSource | Promise<WasmSource>;
  /**
   * Returns the JSON Web Token that identifies this client. Called for every connection to a relay that
   * requires one, so that it can be renewed. Only hosts of `url` or `urls`, and `tokenHosts`, get it.
   */
  token?: () => string | Promise<string>;
  /**
   * Further hosts that may get the `token`: relays that the client's relay names are used only if their
   * host is one of these or of `url` or `urls`. `"*.relays.example.org"` stands for all hosts that end so.
   * Without a `token` the client uses relays of every host.
   * @default []
   */
  tokenHosts?: readonly string[];
  /**
   * Whether the client also uses relays that its relay names. The relays of a fleet name each other
   * (`member_url`), so that one address is enough: the client goes to another relay when its own ends, or
   * when its own has more clients than the others. It keeps the last list that it was told, at most 64
   * addresses. After a relay with TLS it uses no relay without. A client with a `token` uses only relays
   * whose hosts it names itself (`tokenHosts`).
   * @default true
   */
  discover?: boolean;
  /** Node before 22 has none: pass that of `ws`. @default the global `WebSocket` */
  webSocket?: typeof WebSocket;
  /**
   * `"lz4"` asks the relay to compress numbers to 2 to 9 bytes an update instead of 11, fewest where values
   * have few digits. For slow links; on a fast one it only costs time.
   */
  compression?: "lz4";
  /** How long a PV stays subscribed after its last listener left. @default 2000 */
  unsubscribeDelayMs?: number;
  /**
   * Longest pause between two attempts to connect. A page tries at once when it becomes visible or the
   * network returns. @default 5000 while the page is visible, 15000 otherwise
   */
  maxRetryDelayMs?: number;
  /**
   * Interval of pings, which measure the round trip. A relay that has sent nothing for two seconds is pinged
   * earlier, unless the page is hidden, and at once when the page becomes visible or the network returns.
   * @default 5000
   */
  pingIntervalMs?: number;
  /** The connection is lost when nothing has come for this long after a ping. @default 10000 */
  pingTimeoutMs?: number;
  /**
   * Interval of updates while the page is hidden; it gets every update again when it becomes visible.
   * 0: hidden pages get every update. @default 1000
   */
  hiddenIntervalMs?: number;
}

/**
 * A moment: milliseconds past 1970 or a `Date`; nanoseconds past 1970 as a `bigint`; or a text that the
 * relay reads by its clock, such as `"-10m"`, `"-1h"`, `"now"` or ISO 8601 with a zone.
 */
export type Moment = number | bigint | Date | string;

/** Which part of the past is wanted. */
export interface PvHistoryOptions {
  /** An archiver is asked only with it. @default the oldest update that the relay keeps */
  readonly from?: Moment | undefined;
  /** @default the newest update */
  readonly to?: Moment | undefined;
  /** About the most updates that are wanted, 4 to 20,000; if there are more, they are thinned. @default all */
  readonly points?: number | undefined;
  /** Ends the question; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called with what the relay keeps, if an archiver is then asked for more. */
  readonly onPartial?: ((kept: PvHistory) => void) | undefined;
}

/** A time for which the relay has no updates. */
export interface PvHistoryGap {
  /**
   * The PV was disconnected, its server silent, or it had no value, as without read access; no client had it, so that it was not monitored; the
   * relay was too slow to keep its updates; or the archiver was off.
   */
  readonly cause: "disconnected" | "not monitored" | "lost" | "not archived";
  /** By the relay's clock, or the archiver's, in nanoseconds past 1970. Later where the IOC's clock is ahead: after the last update. */
  readonly fromNs: bigint;
  /** `undefined`: it has not ended. */
  readonly toNs: bigint | undefined;
}

/** The updates of an interval, of which a thinned answer has the first, smallest, largest and last, and the first that isn't finite. */
export interface PvHistoryBin {
  /** Number of its rows, which follow those of the bin before. */
  readonly rows: number;
  /** Number of updates that they stand for. */
  readonly updates: number;
  /** The worst one of these updates: 0 NO_ALARM, 1 MINOR, 2 MAJOR, 3 INVALID. */
  readonly severity: number;
  /** Alarm condition of that update. */
  readonly status: number;
  /** Updates that were left out. */
  readonly skipped: number;
}

/** Updates of a PV, in the order in which the relay received them. Columns have one element per update. */
export interface PvUpdates {
  /** The PV's name. */
  readonly name: string;
  /** Time stamps of the IOC, in nanoseconds past 1970. */
  readonly timeNs: BigInt64Array;
  /** Numbers; of an enum, its index; NaN for a text. */
  readonly numbers: Float64Array;
  /** Values that are texts, by row. */
  readonly texts: ReadonlyMap<number, string>;
  /** Integers outside ±2^53, by row. */
  readonly integers: ReadonlyMap<number, bigint>;
  /** 0 NO_ALARM, 1 MINOR, 2 MAJOR, 3 INVALID. */
  readonly severities: Uint8Array;
  /** Alarm conditions, 0 to 21 as in EPICS's alarm.h; 100 plus the status class of a pvAccess alarm. */
  readonly statuses: Uint16Array;
  /** Updates that were left out just before a row, where there are any. */
  readonly skipped: ReadonlyMap<number, number>;
}

/**
 * Past updates of a PV. Where the relay has kept none and its operator has named an archiver, they are the archiver's
 * samples; thinned, they are the smallest and largest value and the mean of each bin.
 */
export interface PvHistory extends PvUpdates {
  /** By their begin. */
  readonly gaps: readonly PvHistoryGap[];
  /** Only of a thinned answer. */
  readonly bins: readonly PvHistoryBin[];
  /** Whether the first row is the value that held at `from`, so that its time is earlier. */
  readonly hasHeld: boolean;
  /** Time of the oldest update that the relay keeps; `undefined` if it keeps nothing of the PV. */
  readonly keptSinceNs: bigint | undefined;
  /** The last tick of the relay whose updates are included. */
  readonly tick: bigint;
  /** Of the PV's last update in that tick; `undefined` if the relay has not opened the PV. */
  readonly epoch: number | undefined;
  /** The same: live updates with a later `sequence` (see `inspect`) continue the past. */
  readonly sequence: number | undefined;
  /** Set if another relay of the fleet holds the PV and may have more: why it was not heard. */
  readonly incomplete: string | undefined;
  /** Why samples of the archiver are missing, if it was asked. */
  readonly archiveError:
    | (Error & {
        /** For programs: a code of an `AskError`, or `LOAD`. */
        readonly code?: string;
      })
    | undefined;
}

/** The past of a PV, continued by its live updates. Those without a time stamp have the time of their arrival; earlier ones are left out. */
export interface LivePvHistory extends Pick<
  PvUpdates,
  "name" | "timeNs" | "numbers" | "severities"
> {
  /** The relay has not answered yet; live updates are there already. */
  readonly isLoading: boolean;
  /** Times without updates. */
  readonly gaps: readonly PvHistoryGap[];
  /** Why there is no past, or why the archiver's samples are missing in it: see `history` of the client. */
  readonly error:
    | (Error & {
        /** For programs: a code of an `AskError`, or `LOAD`. */
        readonly code?: string;
      })
    | undefined;
}

/** One connection to a relay and its PVs. It connects when it is first used. */
export interface PvClient {
  /**
   * The PV `name` through `selection`; `loc://name(initial)` is a PV of this page, shared by all users of
   * this client; a name such as ``=`A` + `B` * 2`` is a formula over other PVs. A selection is a GraphQL selection set such as
   * `{ value { string(units: true) } status { quality } }`. `options` filter the updates. The same
   * arguments give the same object.
   * @throws PvwireError `BAD_OPTION` when an option has an impossible number, such as `rateHz: 0`.
   * @throws SelectionError when the selection is wrong. While the WebAssembly module is still
   * loading, `getSnapshot` throws the error later; `await client.ready` first to have it thrown here.
   */
  pv<T = PvData>(name: string, selection?: string, options?: PvOptions): Pv<T>;
  /**
   * Reads PVs once. Resolves with one result per name, in order; rejects only with a SelectionError,
   * with `BAD_OPTION`, or when a file of this package can't be loaded.
   */
  get<T = PvData>(names: readonly string[], options?: GetOptions): Promise<GetResult<T>[]>;
  /**
   * Writes a PV. A value that can't be converted to the PV's type exactly is refused. Never rejects for a
   * failed put: see the result. Without a connection to the relay nothing is written, now or later.
   */
  put(name: string, value: PutValue, options?: PutOptions): Promise<PutResult>;
  /**
   * Writes several PVs in this order, in messages of at most 32 puts, with one result for each put. A refused
   * put doesn't keep the others from being written, unless `allPermitted` is set.
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
  /**
   * Looks for names of PVs that contain `text`, without regard to case, or that match it as a whole if it has
   * `*` (any characters) or `?` (one): for suggestions while a user types. Only names that this client may read.
   * Rejects with an AskError, or with the reason of an aborted `signal`.
   */
  names(text: string, options?: NamesOptions): Promise<NamesResult>;
  /** What the relay knows about a PV. Rejects with an AskError. */
  about(name: string): Promise<PvAbout>;
  /**
   * Reads the past of a PV, if the relay keeps it. Without a past the answer has no rows and no
   * `keptSinceNs`. Rejects with an AskError, or with the reason of an aborted `signal`.
   */
  history(name: string, options?: PvHistoryOptions): Promise<PvHistory>;
  /** Resolves when the WebAssembly module is loaded. */
  readonly ready: Promise<void>;
  /** The state of the connection to the relay. */
  readonly connection: Readable<ConnectionSnapshot>;
  /** Rates and totals of all updates, renewed once a second. */
  readonly stats: Readable<StatsSnapshot>;
  /** Counts of one PV that has listeners with these options; `undefined` for other PVs. */
  inspect(name: string, options?: PvOptions): PvInspection | undefined;
  /** While the connection is lost: tries to connect at once, for a button "Try now". */
  retryNow(): void;
  /** Closes the connection for good. */
  dispose(): void;
}
