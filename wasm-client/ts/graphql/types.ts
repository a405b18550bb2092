/** Types of the GraphQL client's input and output, in the shapes of graphql-ws and graphql-js. */

/** A request. */
export interface GraphqlPayload {
  /** The document. The same text is read and checked once. */
  readonly query: string;
  /** Which operation of the document, if there are several. */
  readonly operationName?: string | undefined | null;
  readonly variables?: Record<string, unknown> | undefined | null;
  /** Not looked at. */
  readonly extensions?: Record<string, unknown> | undefined | null;
}

/** An error in GraphQL's own shape. */
export interface GraphqlError {
  readonly message: string;
  /** Where in the document, both from 1. */
  readonly locations?: readonly { readonly line: number; readonly column: number }[];
  /** Keys and places in the result that lead to what is missing there. */
  readonly path?: readonly (string | number)[];
  /** `code` as `PvError` and `PutError` have it; `mayBeWritten` of a put that failed. */
  readonly extensions?: Readonly<Record<string, unknown>>;
}

export interface GraphqlResult<Data = Record<string, unknown>> {
  readonly data?: Data | null;
  readonly errors?: readonly GraphqlError[];
}

/** Who takes the results of an operation. */
export interface GraphqlSink<Result = unknown> {
  next(value: Result): void;
  /** `error` is a list of `GraphqlError` when the document is wrong. Nothing follows. */
  error(error: unknown): void;
  complete(): void;
}

/** As graphql-ws names them. `ping`, `pong` and `message` never happen. */
export type GraphqlEvent =
  "connecting" | "opened" | "connected" | "ping" | "pong" | "message" | "error" | "closed";

/** Takes the place of graphql-ws's `Client`. */
export interface GraphqlClient {
  /**
   * Runs an operation of any kind: a query or mutation gives one result, a subscription one at first
   * and one for each change of what it selects, at most one per animation frame.
   * @returns a function that ends it
   */
  subscribe<Data = Record<string, unknown>>(
    payload: GraphqlPayload,
    sink: GraphqlSink<GraphqlResult<Data>>,
  ): () => void;
  /** The same as something to loop over; the loop's end ends the operation. */
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
  /** Ends the connection at once; the next one follows, and all subscriptions go on. */
  terminate(): void;
  /** Ends all operations, and the connection if it was made with this client. */
  dispose(): void;
}
