/** Says what of a file would not be shown, without showing it. */

import { withClasses } from "./model/classes.js";
import { parseDisplay } from "./model/file.js";
import { inspect, type DisplayNote } from "./model/inspect.js";
import { DEFAULT_PALETTE, type Palette } from "./model/palette.js";

/**
 * What of a display isn't shown or can't be done, by the text of its file. Files and PVs that can't
 * be read turn up only while it is shown. Needs a browser's XML parser.
 * @param palette with the classes of widgets
 * @throws DisplayError when it isn't a display.
 */
export function inspectDisplay(
  text: string,
  { classes }: Palette = DEFAULT_PALETTE,
): readonly DisplayNote[] {
  return inspect(withClasses(parseDisplay(text), classes ?? new Map()));
}
