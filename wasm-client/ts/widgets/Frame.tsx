/** What stands around every larger widget: whose it is, and in words and by a shape how it stands. */

import { useId, type ReactNode } from "react";

import type { Condition } from "./condition.js";
import { StateIcon } from "./StateIcon.js";

export interface FrameProps {
  readonly name: string;
  readonly label: string;
  readonly kind: string;
  readonly condition: Condition;
  /** Beside the condition: the value in a few words. */
  readonly summary?: string | undefined;
  readonly description?: string | undefined;
  readonly children: ReactNode;
}

export function Frame(props: FrameProps): ReactNode {
  const { children, condition, description, kind, label, name, summary } = props;
  const { isStale, severity, state, text } = condition;
  const id = useId();
  return (
    <div
      className={`pvwire-widget pvwire-${kind}`}
      role="group"
      aria-labelledby={id}
      data-pv={name}
      data-state={state}
      data-severity={severity}
      data-stale={isStale || undefined}
    >
      <p className="pvwire-widget-label">
        <StateIcon state={state} severity={severity} isStale={isStale} />
        <span id={id} title={description === "" ? name : description}>
          {label}
        </span>
        {summary !== undefined && <span data-part="value">{summary}</span>}
      </p>
      <div className="pvwire-widget-body">{children}</div>
      <p className="pvwire-widget-condition" data-part="condition">
        {text}
      </p>
    </div>
  );
}
