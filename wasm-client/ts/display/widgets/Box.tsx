/** The box of every widget: its place, its PV's condition as a border, and what of it isn't shown. */

import { type CSSProperties, type MouseEvent, type ReactNode, type Ref } from "react";

import type { Condition } from "../../widgets/condition.js";
import { boxState, titleOf } from "../box_state.js";
import { actionsOf } from "../model/file.js";
import { boxStyle } from "../place.js";
import { useActions } from "../use_actions.js";
import type { Widget } from "../widget.js";
import type { Props } from "../model/props.js";

export interface BoxProps {
  readonly widget: Widget;
  readonly props: Props;
  /** Of the widget's PV; absent without a PV. */
  readonly condition?: Condition | undefined;
  readonly name?: string | undefined;
  /** Why the widget can't be used now; shown as read-only. */
  readonly problem?: string | undefined;
  /** What the last put did, or "sending". */
  readonly outcome?: string | undefined;
  readonly className?: string;
  readonly style?: CSSProperties;
  readonly boxRef?: Ref<HTMLDivElement> | undefined;
  /** `useLiveBox` writes the condition and the style. */
  readonly isLive?: boolean;
  /** The widget runs its actions itself. */
  readonly ownActions?: boolean;
  readonly children?: ReactNode;
}

export function Box(box: BoxProps): ReactNode {
  return actionsOf(box.widget.source.node).actions.length > 0 && box.ownActions !== true ? (
    <BoxWithMenu {...box} />
  ) : (
    plainBox(box)
  );
}

/** Actions of widgets that aren't buttons are in a menu, as Phoebus has them. */
function BoxWithMenu(box: BoxProps) {
  const { openMenu } = useActions(box.widget, box.props);
  return plainBox(box, openMenu);
}

function plainBox(box: BoxProps, onContextMenu?: (event: MouseEvent) => void) {
  const { boxRef, children, className = "", condition, isLive, name, outcome, problem } = box;
  const { props, style, widget } = box;
  const { missing } = widget;
  const state =
    isLive === true
      ? undefined
      : {
          ...boxState(box, condition),
          title: titleOf(box, condition),
          style: boxStyle(props, style),
        };
  return (
    <div
      ref={boxRef}
      className={`pvwire-display-box ${className}`}
      data-type={widget.type}
      data-name={props.text("name")}
      data-pv={name}
      {...state}
      data-rule-lost={widget.lost}
      data-read-only={problem !== undefined || undefined}
      data-outcome={outcome}
      onContextMenu={onContextMenu}
    >
      {children}
      {missing !== "" && <i className="pvwire-display-mark" title={`Not shown: ${missing}`} />}
    </div>
  );
}
