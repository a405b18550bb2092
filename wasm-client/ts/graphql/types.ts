/** Types of the GraphQL client's input and output, in the shapes of graphql-ws and graphql-js. */

/** A request. */
export interface GraphqlPayload {
  /** The document. Each text is parsed and validated once. */
  readonly query: string;
  /** The name of the operation to run, if the document has several. */
  readonly operationName?: string | undefined | null;
  /** Values of the operation's variables by name. */
  readonly variables?: Record<string, unknown> | undefined | null;
  /** Ignored. */
  readonly extensions?: Record<string, unknown> | undefined | null;
}

/** An error in the form that GraphQL specifies. */
export interface GraphqlError {
  /** The error as text. */
  readonly message: string;
  /** Locations in the document, both numbers from 1. */
  readonly locations?: readonly {
    /** Line of the document. */
    readonly line: number;
    /** Character of the line. */
    readonly column: number;
  }[];
  /** Path of keys and indexes to the missing field of the result. */
  readonly path?: readonly (string | number)[];
  /** `code` as in `PvError` and `PutError`; `mayBeWritten` for a failed put. */
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** The result of an operation in the form that GraphQL specifies. */
export interface GraphqlResult<Data = Record<string, unknown>> {
  /** The selected fields; absent if the document is invalid. */
  readonly data?: Data | null;
  /** Errors of the document or of single fields; absent without errors. */
  readonly errors?: readonly GraphqlError[];
}

/** Receives the results of an operation. */
export interface GraphqlSink<Result = unknown> {
  /** Receives a result. */
  next(value: Result): void;
  /** `error` is a list of `GraphqlError` if the document is invalid. No further calls follow. */
  error(error: unknown): void;
  /** The operation has ended; no further calls follow. */
  complete(): void;
}

/** Events named as in graphql-ws. `ping`, `pong` and `message` never occur. */
export type GraphqlEvent =
  "connecting" | "opened" | "connected" | "ping" | "pong" | "message" | "error" | "closed";

/** Replaces graphql-ws's `Client`. */
export interface GraphqlClient {
  /**
   * Runs an operation of any kind: a query or mutation gives one result; a subscription gives one
   * at first and one for each change of the selected fields, at most one per animation frame.
   * @returns a function that ends it
   */
  subscribe<Data = Record<string, unknown>>(
    payload: GraphqlPayload,
    sink: GraphqlSink<GraphqlResult<Data>>,
  ): () => void;
  /** Like `subscribe`, as an async iterable; ending the loop ends the operation. */
  iterate<Data = Record<string, unknown>>(
    payload: GraphqlPayload,
  ): AsyncIterableIterator<GraphqlResult<Data>>;
  /** Runs a query or a mutation. Rejects only when the WebAssembly module can't be loaded. */
  execute<Data = Record<string, unknown>>(payload: GraphqlPayload): Promise<GraphqlResult<Data>>;
  /**
   * Listens to the connection to the relay. `closed` gets `{ code, reason }`.
   * @returns a function that ends it
   */
  on(event: GraphqlEvent, listener: (...args: never[]) => void): () => void;
  /** Ends the connection at once; the client then reconnects, and all subscriptions continue. */
  terminate(): void;
  /** Ends all operations, and the connection if this client created it. */
  dispose(): void;
}
