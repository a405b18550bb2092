/**
 * React for displays in the elements' build: Preact with its layer of compatibility, which is loaded
 * with the first display. The other widgets share its core.
 */

export {
  Component,
  Fragment,
  Suspense,
  createContext,
  lazy,
  memo,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
  useSyncExternalStore,
} from "preact/compat";
export { useId } from "./preact.js";
