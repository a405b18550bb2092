/**
 * A client for GraphQL documents on top of a client of PVs, with the interface of graphql-ws's
 * client.
 */

import { Client } from "../client/client.js";
import { PvwireError } from "../errors.js";
import { callListener, report } from "../store/readable.js";
import type { ClientOptions, ConnectionSnapshot, PvClient } from "../types.js";
import { execute, withResults } from "./execute.js";
import { loadGraphql } from "./module.js";
import { Plans, type Operation, type Step } from "./plans.js";
import type {
  GraphqlClient,
  GraphqlEvent,
  GraphqlPayload,
  GraphqlResult,
  GraphqlSink,
} from "./types.js";
import { watchMany, watchOne } from "./watch.js";

/** Maximum number of results that wait for a loop to read them. */
const MAX_WAITING = 1000;

/** A running operation. */
interface Running {
  done: boolean;
  stop: (() => void) | undefined;
  readonly sink: GraphqlSink<GraphqlResult<never>>;
}

type Listener = (...args: unknown[]) => void;

export class RelayGraphqlClient implements GraphqlClient {
  #client: Client;
  #owned: boolean;
  #plans: Plans | undefined;
  #running = new Set<Running>();
  #listeners = new Map<GraphqlEvent, Set<Listener>>();
  #state: ConnectionSnapshot["state"] | undefined;
  #stopListening: (() => void) | undefined;
  #disposed = false;

  constructor(of: PvClient | ClientOptions) {
    this.#owned = !("pv" in of);
    const client = "pv" in of ? of : new Client(of);
    if (!(client instanceof Client)) throw new TypeError("a client of createClient is needed");
    this.#client = client;
  }

  subscribe<Data>(payload: GraphqlPayload, sink: GraphqlSink<GraphqlResult<Data>>): () => void {
    const running: Running = { done: false, stop: undefined, sink };
    this.#running.add(running);
    this.#run(payload, running).catch((error: unknown) => {
      this.#end(running, () => {
        sink.error(error);
      });
    });
    return () => {
      this.#complete(running);
    };
  }

  async execute<Data>(payload: GraphqlPayload): Promise<GraphqlResult<Data>> {
    const plans = await this.#ready();
    const operation = plans.operation(payload);
    if ("errors" in operation) return { errors: operation.errors };
    if (operation.subscribes()) {
      operation.free();
      return { errors: [{ message: "A subscription has many results: subscribe to it." }] };
    }
    return (await execute(this.#client, plans, operation)) as GraphqlResult<Data>;
  }

  iterate<Data>(payload: GraphqlPayload): AsyncIterableIterator<GraphqlResult<Data>> {
    const waiting: GraphqlResult<Data>[] = [];
    let ended: { error?: unknown } | undefined;
    let wake: (() => void) | undefined;
    const stop = this.subscribe<Data>(payload, {
      next: (result) => {
        if (waiting.length < MAX_WAITING) waiting.push(result);
        else {
          ended ??= { error: new PvwireError("BEHIND", "the loop doesn't take its results") };
          stop();
        }
        wake?.();
      },
      error: (error) => {
        ended ??= { error };
        wake?.();
      },
      complete: () => {
        ended ??= {};
        wake?.();
      },
    });
    const loop = (async function* () {
      try {
        for (;;) {
          for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) yield next;
          if (ended !== undefined) {
            if ("error" in ended) throw ended.error;
            return;
          }
          await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        stop();
      }
    })();
    // Ends the operation also if the loop never started.
    const end = loop.return.bind(loop);
    loop.return = (value) => {
      stop();
      wake?.();
      return end(value);
    };
    return loop;
  }

  on(event: GraphqlEvent, listener: (...args: never[]) => void): () => void {
    let listeners = this.#listeners.get(event);
    if (listeners === undefined) {
      listeners = new Set();
      this.#listeners.set(event, listeners);
    }
    const own: Listener = (...args) => {
      (listener as Listener)(...args);
    };
    listeners.add(own);
    return () => listeners.delete(own);
  }

  terminate(): void {
    this.#client.terminate();
  }

  dispose(): void {
    this.#disposed = true;
    for (const running of [...this.#running]) this.#complete(running);
    this.#stopListening?.();
    if (this.#owned) this.#client.dispose();
  }

  /** Listens to the connection from the first operation on; listening starts the connection. */
  #listen(): void {
    if (this.#stopListening !== undefined) return;
    const { connection } = this.#client;
    const look = (): void => {
      const { attempt, reason, state } = connection.getSnapshot();
      if (state === this.#state) return;
      const before = this.#state;
      this.#state = state;
      if (state === "connecting") this.#tell("connecting", attempt > 0);
      else if (state === "open") {
        this.#tell("opened", undefined);
        this.#tell("connected", undefined, undefined, before === "lost");
      } else {
        if (state === "lost" && before !== "open") this.#tell("error", new Error(reason));
        this.#tell("closed", { code: state === "closed" ? 1000 : 1006, reason: reason ?? "" });
        if (state === "lost") this.#tell("connecting", true);
      }
    };
    this.#stopListening = connection.subscribe(look);
    look();
  }

  #tell(event: GraphqlEvent, ...args: unknown[]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      callListener(() => {
        listener(...args);
      });
    }
  }

  /** Waits until both modules are loaded. */
  async #ready(): Promise<Plans> {
    this.#listen();
    const { options, ready } = this.#client;
    await Promise.all([ready, loadGraphql(options.graphqlWasm)]);
    if (this.#disposed) throw new PvwireError("CLOSED", "the client is disposed");
    return (this.#plans ??= new Plans());
  }

  async #run(payload: GraphqlPayload, running: Running): Promise<void> {
    const plans = await this.#ready();
    if (running.done) return;
    const operation = plans.operation(payload);
    if ("errors" in operation) {
      const { errors, invalid } = operation;
      if (invalid) {
        this.#end(running, () => {
          running.sink.error(errors);
        });
      } else this.#last(running, { errors });
      return;
    }
    if (operation.subscribes()) this.#watch(operation, running, plans);
    else this.#last(running, await execute(this.#client, plans, operation));
  }

  #watch(operation: Operation, running: Running, plans: Plans): void {
    const [step] = plans.steps(operation);
    // Without PVs there is one response: nothing was selected, or it can't be.
    const only = step === undefined ? withResults(operation, []) : undefined;
    operation.free();
    if (step === undefined) {
      this.#last(running, only as GraphqlResult);
      return;
    }
    const { key } = step;
    // Creating an object with a literal key is faster than with a computed one.
    const dataOf: (value: unknown) => Record<string, unknown> =
      key === "subscribeChannel"
        ? (subscribeChannel) => ({ subscribeChannel })
        : (value) => ({ [key]: value });
    const tell = (value: unknown): void => {
      if (running.done) return;
      try {
        running.sink.next({ data: dataOf(value) as never });
      } catch (error) {
        report(error);
      }
    };
    const stop = this.#start(step, plans, tell);
    // The first result may have ended the operation.
    if (running.done) stop();
    else running.stop = stop;
  }

  #start(step: Step, plans: Plans, tell: (value: unknown) => void): () => void {
    const { isList, names } = step;
    const plan = plans.channel(step);
    return isList
      ? watchMany(this.#client.pvs, names, plan, tell)
      : watchOne(this.#client.pvs, names[0] as string, plan, tell);
  }

  /** The only result, or the last one. */
  #last(running: Running, result: GraphqlResult): void {
    if (running.done) return;
    callListener(() => {
      running.sink.next(result as GraphqlResult<never>);
    });
    this.#complete(running);
  }

  #complete(running: Running): void {
    this.#end(running, () => {
      running.sink.complete();
    });
  }

  #end(running: Running, say: () => void): void {
    if (running.done) return;
    running.done = true;
    this.#running.delete(running);
    running.stop?.();
    callListener(say);
  }
}
