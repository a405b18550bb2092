/** The chart of a past interval, which most visits of the page PV don't need. */

export { HistoryPlot as default } from "pvwire/plots";
