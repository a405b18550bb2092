/** What the component of a type of widget gets. */

import { createContext, type ComponentType } from "react";

import type { Scope } from "./context.js";
import type { WidgetSource } from "./model/file.js";
import type { Props } from "./model/props.js";
import type { Place } from "./place.js";

/** A widget that its file doesn't place for sure is here now, until the returned function is called. */
export type Reach = (widget: WidgetSource, place: Place) => () => void;

/** A widget in its scope. */
export interface Widget {
  readonly source: WidgetSource;
  readonly type: string;
  readonly props: Props;
  readonly scope: Scope;
  readonly component: WidgetComponent;
  /** What of it isn't shown, one a line. */
  readonly missing: string;
  /** Takes its place, if its file doesn't say it for sure. */
  readonly reach?: Reach | undefined;
  /** PVs of its rules without a present value. */
  readonly lost?: string;
}

/** What the component of a type gets. `name` is the PV for the client; `problem`: it has none. */
export interface WidgetProps {
  readonly widget: Widget;
  readonly props: Props;
  readonly name: string | undefined;
  readonly problem: string | undefined;
}

export type WidgetComponent = ComponentType<WidgetProps>;

/** The component of each type. The components draw widgets in turn, so their list comes from above. */
export const ComponentsContext = createContext<ReadonlyMap<string, WidgetComponent>>(new Map());
