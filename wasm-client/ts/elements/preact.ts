/**
 * React for the elements' build: Preact, which is a tenth of its size, with what its core lacks of
 * what the widgets use.
 */

import { createElement, options, render, type Component, type FunctionComponent } from "preact";
import {
  useCallback,
  useEffect,
  useLayoutEffect,
  useReducer,
  useRef,
  useState,
} from "preact/hooks";

export { createContext, createElement } from "preact";
export {
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "preact/hooks";

// React's `onChange` of a field is the browser's `input` event.
const before = options.vnode?.bind(options);
options.vnode = (node) => {
  const props = node.props as { onChange?: unknown; onInput?: unknown };
  if (node.type === "input" && props.onChange !== undefined) {
    props.onInput = props.onChange;
    delete props.onChange;
  }
  before?.(node);
};

/** A root as that of `react-dom/client`. */
export function createRoot(container: Element): {
  render: (children: Parameters<typeof render>[0]) => void;
  unmount: () => void;
} {
  return {
    render: (children) => {
      render(children, container);
    },
    unmount: () => {
      render(null, container);
    },
  };
}

/** A component that renders again only if one of its props has changed. */
export function memo<Props extends object>(
  component: FunctionComponent<Props>,
): FunctionComponent<Props> {
  return function Memo(this: Component<Props>, props) {
    this.shouldComponentUpdate = (next) =>
      Object.keys({ ...props, ...next }).some(
        (key) => !Object.is(props[key as keyof Props], next[key as keyof Props]),
      );
    return createElement(component, props);
  };
}

let ids = 0;

/** Unique in the page. Preact's ids are unique within one root, and each element is one. */
export function useId(): string {
  return useState(() => `pvwire-${String(ids++)}`)[0];
}

/** Renders when the snapshot has changed, also between the render and the subscription. */
export function useSyncExternalStore<T>(
  subscribe: (listener: () => void) => () => void,
  getSnapshot: () => T,
): T {
  const [, render] = useReducer((count: number) => count + 1, 0);
  const value = getSnapshot();
  const shownRef = useRef({ value, getSnapshot });
  const check = useCallback(() => {
    const shown = shownRef.current;
    if (!Object.is(shown.value, shown.getSnapshot())) render(undefined);
  }, []);
  useLayoutEffect(() => {
    shownRef.current = { value, getSnapshot };
    check();
  }, [value, getSnapshot, check]);
  useEffect(() => {
    check();
    return subscribe(check);
  }, [subscribe, check]);
  return value;
}
