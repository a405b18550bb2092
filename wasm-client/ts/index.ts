/** pvwire: EPICS process variables in the browser, live. */

import { Client } from "./client/client.js";
import type { ClientOptions, PvClient } from "./types.js";

export { AskError, LoadError, PutError, PvError, PvwireError, SelectionError } from "./errors.js";
export { setTexts, t } from "./texts.js";
export type { TextValue, Translate } from "./texts.js";
export type * from "./types.js";

/**
 * A client of one relay. It loads the WebAssembly module and connects when it is first used, so it
 * can be made anywhere, also where there is no network.
 *
 * ```ts
 * const client = createClient({ url: "ws://localhost:8080/ws" });
 * const temperature = client.pv("TEMP");
 * temperature.subscribe(() => console.log(temperature.getSnapshot()?.value?.string));
 * ```
 */
export function createClient(options: ClientOptions): PvClient {
  return new Client(options);
}
