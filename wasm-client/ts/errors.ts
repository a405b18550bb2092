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

/** The WebAssembly module could not be loaded. */
export class LoadError extends PvwireError {
  constructor(message: string) {
    super("LOAD", message);
  }
}
