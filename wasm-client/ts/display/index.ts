/** pvwire/display: a facility's displays of Phoebus and BOY, `.bob` and `.opi` files, live in a page. */

"use client";

export { Display, type DisplayProps, type DisplayWays } from "./Display.js";
export type { OpenRequest, Target } from "./context.js";
export { inspectDisplay, isWhole, type DisplayNote } from "./model/inspect.js";
export { DEFAULT_PALETTE, paletteOf, type Font, type Palette, type Rgba } from "./model/palette.js";
export { createScreens, type ScreenFile, type Screens } from "./screens.js";
export { DisplayError } from "./model/xml.js";
