/** For esbuild, which needs the modules named: with the loader `file` an import is their address. */

import { createClient } from "pvwire";
import pageWasm from "pvwire/page.wasm";
import wasm from "pvwire/wasm";

import { show, url } from "./show.js";

show(createClient({ url, wasm, pageWasm }));
