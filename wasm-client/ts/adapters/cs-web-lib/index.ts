/** pvwire/adapters/cs-web-lib: Diamond's screens on pvwire. */

export { connectCsWebLib, type CsStore, type CsWebLibOptions } from "./connect.js";
export {
  createCsWebLibConnection,
  type CsConnection,
  type CsConnectionOptions,
  type CsConnectionState,
} from "./connection.js";
export { CsValue, type AlarmQuality, type DisplayData, type ValueData } from "./values.js";
