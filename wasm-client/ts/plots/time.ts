/** One time for all plots and tables of a page: live, or an interval of the past. */

import {
  createContext,
  createElement,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  type ReactNode,
} from "react";

import { endOf, LAST_TEN_MINUTES, spanOf, type TimeRange } from "./span.js";
import type { Span } from "./steps.js";

type PageTime = readonly [range: TimeRange, setRange: (range: TimeRange) => void];

const TimeContext = createContext<PageTime | undefined>(undefined);

/** The properties of `TimeRangeProvider`. */
export interface TimeRangeProviderProps {
  /** The page, or a part of it. */
  readonly children?: ReactNode;
  /** The time at first, if the provider keeps it. @default live, with the last ten minutes */
  readonly defaultRange?: TimeRange;
  /** The time, if the application keeps it: in the page's address, for example. */
  readonly range?: TimeRange | undefined;
  /** Called when the user chooses another time. */
  readonly onChange?: (range: TimeRange) => void;
}

/**
 * Gives all plots below it one time. With `range` the application keeps the time, and `onChange` must set it; without,
 * the provider does.
 */
export function TimeRangeProvider(props: TimeRangeProviderProps): ReactNode {
  const { children, defaultRange = LAST_TEN_MINUTES, onChange } = props;
  const [own, setOwn] = useState(defaultRange);
  const range = props.range ?? own;
  const setRange = useCallback(
    (next: TimeRange) => {
      setOwn(next);
      onChange?.(next);
    },
    [onChange],
  );
  const time = useMemo((): PageTime => [range, setRange], [range, setRange]);
  return createElement(TimeContext.Provider, { value: time }, children);
}

/**
 * The time of the nearest `TimeRangeProvider`, and a function that changes it for all of its plots. Without a provider
 * each component has a time of its own.
 */
export function useTimeRange(): PageTime {
  const own = useState<TimeRange>(LAST_TEN_MINUTES);
  return useContext(TimeContext) ?? own;
}

/**
 * For a table: the moment whose values it shows, the end of the page's past interval in milliseconds past 1970;
 * `undefined` while the page shows the present.
 */
export function usePastEnd(): number | undefined {
  const [range] = useTimeRange();
  return endOf(range);
}

/** The begin and end of a range; those of a live one move at this interval. */
export function useSpan(range: TimeRange, everyMs: number): Span {
  const [nowMs, setNowMs] = useState(Date.now);
  const isLive = range.kind === "live";
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => {
      setNowMs(Date.now());
    }, everyMs);
    return () => {
      clearInterval(timer);
    };
  }, [isLive, everyMs]);
  return spanOf(range, nowMs);
}

/** While a range moves, the past of another one is requested so often: each question takes work of the relay. */
const REQUEST_EVERY_MS = 100;

/** The range whose past is requested: at once where the last change is a while ago. */
export function useRequested(range: TimeRange): TimeRange {
  // An application may make a new object for the same range.
  const key = JSON.stringify(range);
  const [requested, setRequested] = useState(key);
  const sinceMs = useRef(-Infinity);
  useEffect(() => {
    if (key === requested) return;
    const waitMs = sinceMs.current + REQUEST_EVERY_MS - performance.now();
    const timer = setTimeout(
      () => {
        sinceMs.current = performance.now();
        setRequested(key);
      },
      Math.max(0, waitMs),
    );
    return () => {
      clearTimeout(timer);
    };
  }, [key, requested]);
  return useMemo(() => JSON.parse(requested) as TimeRange, [requested]);
}
