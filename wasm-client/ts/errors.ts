/** The errors of this package, each with a `code` for programs. */

/** Any error of this package. `BAD_OPTION`: a number in the options is out of range. */
export class PvwireError extends Error {
  constructor(
    /** What is wrong, for programs. */
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

// `JSON.stringify` leaves out the message of an error.
(PvwireError.prototype as { toJSON?: () => object }).toJSON = function (this: PvwireError) {
  return Object.assign({ message: this.message }, this);
};

/** One of the errors of the GraphQL engine. */
interface DocumentError {
  readonly message: string;
  readonly locations: readonly [{ readonly line: number; readonly column: number }];
}

/** A selection with a syntax error or an unknown field. */
export class SelectionError extends PvwireError {
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;

  /** `errors` is the JSON that the module writes; the first one is reported. */
  constructor(errors: string) {
    const [first] = JSON.parse(errors) as [DocumentError];
    const [{ line, column }] = first.locations;
    super("SELECTION", `line ${String(line)}, column ${String(column)}: ${first.message}`);
    this.line = line;
    this.column = column;
  }
}

/**
 * A PV that `get` couldn't read. Codes: `BAD_NAME`, `NO_SUCH_SOURCE`, `NOT_ALLOWED` by the relay's
 * rules, `TOO_MANY_SUBSCRIPTIONS`, `TOO_MANY_PVS`, `TIMED_OUT`, `REFUSED`, `RELAY_LOST`, `CLOSED`,
 * `UNKNOWN`.
 */
export class PvError extends PvwireError {
  constructor(
    /** The PV's name. */
    readonly pv: string,
    code: string,
    message: string,
  ) {
    super(code, message);
  }
}

/**
 * A put or call that failed. Codes: `NOT_ALLOWED` by the relay's rules, `NO_ACCESS` at the IOC,
 * `BAD_VALUE`, `NOT_CONNECTED`, `MOVED` (the PV has changed since), `FAILED` at the IOC, `TIMED_OUT`,
 * `INTERRUPTED`, `BAD_NAME`, `NOT_SUPPORTED`, `WITHHELD` (another put of the same `putMany` is refused),
 * `RELAY_LOST`, `CLOSED`, `LOAD` (a file of this package can't be loaded), `UNKNOWN`.
 */
export class PutError extends PvwireError {
  constructor(
    /** The PV's name. */
    readonly pv: string,
    code: string,
    message: string,
    /** `false`: nothing was written. `true`: the value may have been written. */
    readonly mayBeWritten: boolean,
  ) {
    super(code, message);
  }
}

/**
 * A question to the relay that has no answer. Codes: `BAD_VALUE`, `NOT_ALLOWED` by the relay's rules or limits,
 * `NOT_SUPPORTED` by a relay of an older version, `FAILED`, `TIMED_OUT`, `RELAY_LOST`, `CLOSED`, `UNKNOWN`.
 */
export class AskError extends PvwireError {}

/** The WebAssembly module, or another file of this package, could not be loaded. */
export class LoadError extends PvwireError {
  constructor(message: string) {
    super("LOAD", message);
  }
}
