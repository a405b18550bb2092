/** What a connection needs only sometimes, in one file that is loaded then. */

export { largeStream } from "./large.js";
export { whyRefused } from "./refusal.js";
