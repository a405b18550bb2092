/** Which variables of the build does the page read? */

interface ImportMetaEnv {
  /** First part of all PV names, `DEMO` unless given; `?prefix=` in the address wins. */
  readonly VITE_PV_PREFIX?: string;
}

interface ImportMeta {
  readonly env: ImportMetaEnv;
}
