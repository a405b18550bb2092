/** The build's variables that the page reads. */

interface ImportMetaEnv {
  /** First part of all PV names, `DEMO` by default; overridden by `?prefix=` in the address. */
  readonly VITE_PV_PREFIX?: string;
}

interface ImportMeta {
  readonly env: ImportMetaEnv;
}
