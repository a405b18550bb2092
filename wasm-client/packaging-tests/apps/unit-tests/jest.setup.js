/** jsdom lacks what the package takes from a browser; Node has it. */

import { TextDecoder, TextEncoder } from "node:util";

Object.assign(globalThis, { TextDecoder, TextEncoder });
