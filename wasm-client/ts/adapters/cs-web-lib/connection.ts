/** A client as cs-web-lib's `Connection`. */

import type { PutValue, PvClient, PvData } from "../../types.js";
import { CsValue, valueOf, type ValueData } from "./values.js";

/** cs-web-lib's `ConnectionState`. */
export interface CsConnectionState {
  /** The PV is connected and its server answers. */
  readonly isConnected: boolean;
  /** The PV can't be written. */
  readonly isReadonly: boolean;
}

/** cs-web-lib's `Connection`, as version 0.9 publishes it. */
export interface CsConnection {
  /** Begins to listen to a PV; returns its name. */
  subscribe: (pvName: string, type?: object) => string;
  /** Writes a PV. */
  putPv: (pvName: string, value: { readonly value: ValueData }) => void;
  /** Sets the functions that receive connection states, values and answers about devices. */
  connect: (
    connectionCallback: (pvName: string, value: CsConnectionState) => void,
    valueCallback: (pvName: string, value: CsValue) => void,
    deviceQueried: (device: string, value: CsValue) => void,
  ) => void;
  /** Whether `connect` was called. */
  isConnected: () => boolean;
  /** Ends listening to a PV. */
  unsubscribe: (pvName: string) => void;
  /** Asks for a device; EPICS has none, so the answer is that it is unknown. */
  getDevice: (device: string) => void;
}

/** Options of a connection for cs-web-lib. */
export interface CsConnectionOptions {
  /**
   * Called when a put failed: `putPv` itself reports nothing.
   * @default a message on the console
   */
  onPutFailed?: (pvName: string, reason: string) => void;
}

/**
 * A connection for a custom store, made with cs-web-lib's `connectionMiddleware` or
 * `ConnectionForwarder`, which its package doesn't export: with the unmodified package, use
 * `connectCsWebLib`.
 *
 * ```ts
 * const connection = createCsWebLibConnection(createClient({ url: "/ws" }));
 * ```
 */
export function createCsWebLibConnection(
  client: PvClient,
  options: CsConnectionOptions = {},
): CsConnection {
  return new Connection(client, options);
}

class Connection implements CsConnection {
  #client: PvClient;
  #onPutFailed: (pvName: string, reason: string) => void;
  #callbacks: Parameters<CsConnection["connect"]> | undefined;
  #ends = new Map<string, () => void>();

  constructor(client: PvClient, { onPutFailed }: CsConnectionOptions) {
    this.#client = client;
    this.#onPutFailed =
      onPutFailed ??
      ((pvName, reason) => {
        console.warn(`${pvName} was not written: ${reason}`);
      });
  }

  readonly connect: CsConnection["connect"] = (...callbacks) => {
    this.#callbacks = callbacks;
  };

  readonly isConnected = (): boolean => this.#callbacks !== undefined;

  readonly subscribe = (pvName: string): string => {
    if (this.#ends.has(pvName)) return pvName;
    const pv = this.#client.pv(pvName);
    let before: PvData | undefined;
    const tell = (): void => {
      const now = pv.getSnapshot();
      if (now === undefined || now === before) return;
      const [onConnection, onValue] = this.#callbacks ?? [];
      const state = stateOf(now);
      const last = before === undefined ? undefined : stateOf(before);
      const wasTold =
        last?.isConnected === state.isConnected && last.isReadonly === state.isReadonly;
      before = now;
      if (!wasTold) onConnection?.(pvName, state);
      // Also for a disconnected PV: its alarm is then undefined, and its last value outdated.
      if (now.value !== null || now.display !== null) onValue?.(pvName, valueOf(now));
    };
    this.#ends.set(pvName, pv.subscribe(tell));
    tell();
    return pvName;
  };

  readonly unsubscribe = (pvName: string): void => {
    this.#ends.get(pvName)?.();
    this.#ends.delete(pvName);
  };

  readonly putPv = (pvName: string, { value }: { readonly value: ValueData }): void => {
    const put = putValueOf(value);
    if (put === undefined) {
      this.#onPutFailed(pvName, "there is no value to write");
      return;
    }
    void this.#client.put(pvName, put).then((result) => {
      if (!result.ok) this.#onPutFailed(pvName, result.error.message);
    });
  };

  readonly getDevice = (device: string): void => {
    const [, , onDevice] = this.#callbacks ?? [];
    const alarm = {
      quality: "undefined",
      message: "there are no device descriptions in EPICS",
    } as const;
    onDevice?.(device, new CsValue({}, alarm, undefined, {}));
  };
}

const stateOf = ({ connection, status }: PvData): CsConnectionState => ({
  // The value of an unresponsive server may be outdated.
  isConnected: connection.connected && !connection.unresponsive,
  isReadonly: status.writable === false,
});

function putValueOf(value: ValueData): PutValue | undefined {
  const { arrayValue, doubleValue, stringArray, stringValue } = value;
  return stringValue ?? doubleValue ?? arrayValue ?? stringArray;
}
