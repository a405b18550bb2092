/** What can go wrong, each with a `code` that a program can tell it by. */

/** Any error of this package. */
export class PvwireError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** A selection that can't be read, or that asks for a field that there is none of. */
export class SelectionError extends PvwireError {
  constructor(
    /** From 1. */
    readonly line: number,
    /** From 1. */
    readonly column: number,
    /** What could stand there. */
    readonly expected: string,
    message: string,
  ) {
    super("SELECTION", `line ${String(line)}, column ${String(column)}: ${message}`);
  }
}

/**
 * A PV that `get` has no answer for. Codes: `BAD_NAME`, `NO_SUCH_SOURCE`, `TOO_MANY_SUBSCRIPTIONS`,
 * `TIMED_OUT`, `REFUSED`, `RELAY_LOST`, `CLOSED`, `UNKNOWN`.
 */
export class PvError extends PvwireError {
  constructor(
    readonly pv: string,
    code: string,
    message: string,
  ) {
    super(code, message);
  }
}

/**
 * A put or call that isn't done. Codes: `NOT_ALLOWED` by the relay's rules, `NO_ACCESS` at the IOC,
 * `BAD_VALUE`, `NOT_CONNECTED`, `MOVED` (the PV has changed since), `FAILED` at the IOC, `TIMED_OUT`,
 * `INTERRUPTED`, `BAD_NAME`, `NOT_SUPPORTED`, `RELAY_LOST`, `CLOSED`, `UNKNOWN`.
 */
export class PutError extends PvwireError {
  constructor(
    readonly pv: string,
    code: string,
    message: string,
    /** `false`: surely nothing was written. `true`: nobody knows. */
    readonly mayBeWritten: boolean,
  ) {
    super(code, message);
  }
}

/** The WebAssembly module could not be loaded. */
export class LoadError extends PvwireError {
  constructor(message: string) {
    super("LOAD", message);
  }
}
