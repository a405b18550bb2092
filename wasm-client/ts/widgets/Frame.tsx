/** The frame of every larger widget: its label, and its PV's condition as words and a shape. */

import { useId, type ReactNode } from "react";

import type { PvValue } from "../types.js";
import { t } from "../texts.js";
import type { Condition } from "./condition.js";
import { StateIcon } from "./StateIcon.js";

export interface FrameProps {
  readonly name: string;
  readonly label: string;
  readonly kind: string;
  readonly condition: Condition;
  /** The value as a short text, next to the condition. */
  readonly summary: string;
  readonly description?: string | undefined;
  readonly children: ReactNode;
}

export function Frame(props: FrameProps): ReactNode {
  const { children, condition, description, kind, label, name, summary } = props;
  const { isPresent, isStale, severity, state, text } = condition;
  const id = useId();
  return (
    <div
      className={`pvwire-widget pvwire-${kind}`}
      role="group"
      aria-labelledby={id}
      data-pv={name}
      data-state={state}
      data-present={isPresent || undefined}
      data-severity={severity}
      data-stale={isStale || undefined}
    >
      <p className="pvwire-widget-label">
        <StateIcon state={state} severity={severity} isStale={isStale} />
        <span id={id} title={description === "" ? name : description}>
          {label}
        </span>
        <span data-part="value">{summary}</span>
      </p>
      <div className="pvwire-widget-body">{children}</div>
      <p className="pvwire-widget-condition" data-part="condition">
        {text}
      </p>
    </div>
  );
}

/** Shows why a widget has no content. */
export function Nothing({ why }: { readonly why: string | false | undefined }): ReactNode {
  return typeof why === "string" && <p className="pvwire-nothing">{why}</p>;
}

/** The kind of a value, for the message of a widget that shows another kind. */
export function kindOf(value: Partial<Pick<PvValue, "array" | "structure" | "text">>): string {
  if (value.structure != null) return t`a structure`;
  if (value.array != null) return t`an array`;
  return value.text == null ? t`a number` : t`a text`;
}
