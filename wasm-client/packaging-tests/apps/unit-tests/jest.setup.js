/**
 * For Jest: jsdom lacks what the package takes from a browser; Node has it. `ws` has no WebSocket for browsers, and so
 * `package.json` asks for its conditions of Node.
 */

import { TextDecoder, TextEncoder } from "node:util";

Object.assign(globalThis, { TextDecoder, TextEncoder });
