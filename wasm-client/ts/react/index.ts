/** pvwire/react: hooks for PVs. A component renders again only when its selected fields changed. */

"use client";

export { usePvHistory, type UsePvHistoryOptions } from "./history.js";
export { PvProvider, useClient, type PvProviderProps } from "./provider.js";
export { usePut, type PutHandle } from "./put.js";
export { usePv } from "./pv.js";
export { usePvs, usePvSelector, type SelectorOptions } from "./pvs.js";
export type { Selected } from "./selected.js";
export { listenedNames, usePvSummary, type PvSummary } from "./summary.js";
export { useConnection, useRate, useSkipped, useStats, type Skipped } from "./state.js";
