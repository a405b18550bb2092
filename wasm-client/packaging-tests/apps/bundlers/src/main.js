/** For bundlers that find the package's other files by themselves: webpack, Rspack and Parcel. */

import { createClient } from "pvwire";

import { show, url } from "./show.js";

show(createClient({ url }));
