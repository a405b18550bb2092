/** The build's variables that the page reads. */

interface ImportMetaEnv {
  /** First part of all PV names, `DEMO` unless given; `?prefix=` in the address wins. */
  readonly VITE_PV_PREFIX?: string;
}

interface ImportMeta {
  readonly env: ImportMetaEnv;
}
