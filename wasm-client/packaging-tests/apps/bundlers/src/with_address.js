/** For Rollup without a plugin for files: they are copied beside the page. */

import { createClient } from "pvwire";

import { show, url } from "./show.js";

show(createClient({ url, wasm: "pvwire_wasm_bg.wasm", pageWasm: "pvwire_page_bg.wasm" }));
