/** The build's variables that the page reads. */

interface ImportMetaEnv {
  /** First part of all PV names, `DEMO` by default; overridden by `?prefix=` in the address. */
  readonly VITE_PV_PREFIX?: string;
  /** Whether the page's server can kill and pause processes, as `make demo` can (`vite.config.ts`). */
  readonly VITE_HAS_CONTROL: boolean;
}

interface ImportMeta {
  readonly env: ImportMetaEnv;
}
