/** pvwire/adapters/cs-web-lib: connects cs-web-lib's own widgets to PVs, by answering the actions of its store. */

import type { PvClient } from "../../types.js";
import {
  createCsWebLibConnection,
  type CsConnection,
  type CsConnectionOptions,
} from "./connection.js";
import type { ValueData } from "./values.js";

export {
  createCsWebLibConnection,
  type CsConnection,
  type CsConnectionOptions,
  type CsConnectionState,
} from "./connection.js";
export { CsValue, type AlarmQuality, type DisplayData, type ValueData } from "./values.js";

/** The parts of cs-web-lib's store, a Redux store, that are used. */
export interface CsStore {
  /** Passes an action to the store; `connectCsWebLib` replaces it. */
  dispatch: (action: { type: string; payload?: unknown }) => unknown;
}

/** Options of `connectCsWebLib`. */
export interface CsWebLibOptions extends CsConnectionOptions {
  /**
   * The names that pvwire answers; cs-web-lib asks PVWS or its own simulator for the others.
   * @default all of them
   */
  takes?: (pvName: string) => boolean;
}

/** The actions that cs-web-lib's hooks and widgets dispatch. */
interface Query {
  readonly pvName: string;
  readonly device: string;
  readonly value: { readonly value: ValueData };
}

/**
 * Supplies the widgets of `@diamondlightsource/cs-web-lib` with PVs from a relay. Call it once,
 * before anything is rendered; call the returned function to disconnect.
 *
 * cs-web-lib creates its connection itself, and only to PVWS. Therefore its store is intercepted:
 * subscriptions, writes and device queries of widgets go only to the client, and the client's
 * updates go through the store's own middleware, which collects values for `THROTTLE_PERIOD`.
 *
 * ```ts
 * connectCsWebLib(store(), createClient({ url: "/ws" }));
 * ```
 */
export function connectCsWebLib(
  store: CsStore,
  client: PvClient,
  { takes = () => true, ...options }: CsWebLibOptions = {},
): () => void {
  const { dispatch } = store;
  const connection = createCsWebLibConnection(client, options);
  connection.connect(
    (pvName, value) => dispatch({ type: "connection_changed", payload: { pvName, value } }),
    (pvName, value) => dispatch({ type: "value_changed", payload: { pvName, value } }),
    (device, value) => dispatch({ type: "device_queried", payload: { device, value } }),
  );
  const subscriptions = new Subscriptions(connection);
  const answers: Readonly<Record<string, (query: Query) => void>> = {
    subscribe: ({ pvName }) => {
      subscriptions.add(pvName);
    },
    unsubscribe: ({ pvName }) => {
      subscriptions.remove(pvName);
    },
    write_pv: ({ pvName, value }) => {
      connection.putPv(pvName, value);
    },
    query_device: ({ device }) => {
      connection.getDevice(device);
    },
  };
  store.dispatch = (action) => {
    const answer = answers[action.type];
    if (answer === undefined) return dispatch(action);
    const query = action.payload as Query;
    if (!takes(action.type === "query_device" ? query.device : query.pvName)) {
      return dispatch(action);
    }
    answer(query);
    return action;
  };
  return () => {
    store.dispatch = dispatch;
    for (const pvName of subscriptions.end()) {
      const value = { isConnected: false, isReadonly: true };
      dispatch({ type: "connection_changed", payload: { pvName, value } });
    }
  };
}

/** A PV is subscribed while it has a widget. */
class Subscriptions {
  readonly #connection: CsConnection;
  readonly #users = new Map<string, number>();

  constructor(connection: CsConnection) {
    this.#connection = connection;
  }

  add(pvName: string): void {
    const users = this.#users.get(pvName) ?? 0;
    this.#users.set(pvName, users + 1);
    if (users === 0) this.#connection.subscribe(pvName);
  }

  remove(pvName: string): void {
    const users = this.#users.get(pvName) ?? 0;
    if (users > 1) {
      this.#users.set(pvName, users - 1);
    } else if (this.#users.delete(pvName)) {
      this.#connection.unsubscribe(pvName);
    }
  }

  /** Ends all subscriptions and returns their PVs. */
  end(): readonly string[] {
    const names = [...this.#users.keys()];
    for (const pvName of names) this.#connection.unsubscribe(pvName);
    this.#users.clear();
    return names;
  }
}
