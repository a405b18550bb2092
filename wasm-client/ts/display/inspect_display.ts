/** Says what of a file would not be shown, without showing it. */

import { parseDisplay } from "./model/file.js";
import { inspect, type DisplayNote } from "./model/inspect.js";

/**
 * What of a display isn't shown or can't be done, by the text of its file. Files and PVs that can't
 * be read turn up only while it is shown. Needs a browser's XML parser.
 * @throws DisplayError when it isn't a display.
 */
export function inspectDisplay(text: string): readonly DisplayNote[] {
  return inspect(parseDisplay(text));
}
