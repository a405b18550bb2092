/** The rules for forced colours, which are loaded when the user's system asks for them. */

export { default as forcedColours } from "../widgets/css/forced_colours.css?inline";
