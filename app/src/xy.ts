/** Loaded with the first plot against a PV. */

export { XyPlot } from "pvwire/plots";
