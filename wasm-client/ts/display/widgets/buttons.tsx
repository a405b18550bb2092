/** Buttons: those that run actions, and those of one bit. */

import {
  useLayoutEffect,
  useRef,
  type CSSProperties,
  type MouseEvent,
  type ReactNode,
} from "react";

import { usePvs } from "../../react/index.js";
import { whyNotWritable } from "../../widgets/writable.js";
import { useDialogs } from "../dialogs.js";
import { pressOnce } from "../keys.js";
import { brightnessOf, cssColour, type Rgba } from "../model/palette.js";
import type { Props } from "../model/props.js";
import { alignmentOf, autoSize, inkOf } from "../place.js";
import { useActions } from "../use_actions.js";
import { useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";
import { isConfirmed } from "./choices.js";
import { usePicture } from "./pictures.js";
import { textStyle } from "./texts.js";
import { type Bit, useBit } from "./use_bit.js";

const WRITE_FIELDS = `{
  status { mutable writable }
  display { type }
  connection { state connected }
}` as string;

interface WriteData {
  readonly status: { readonly mutable: boolean; readonly writable: boolean | null };
  readonly connection: { readonly state: "connected" };
}

export function ActionButton({ name, problem, props, widget }: WidgetProps): ReactNode {
  const { condition } = useWidgetPv(name);
  const { actions, all, openMenu } = useActions(widget, props);
  const { confirm } = useDialogs();
  const written = actions.map(({ pv }) => pv).filter((pv) => pv !== undefined);
  const pvs = usePvs<WriteData>(written, WRITE_FIELDS);
  const unwritable = written
    .map((pv, at) => {
      const why = whyNotWritable(pv, pvs[at]);
      return why === undefined ? undefined : `${pv}: ${why}`;
    })
    .find((why) => why !== undefined);
  const single = actions.length === 1 || all ? actions : [];
  const why =
    problem ??
    (props.flag("enabled") ? undefined : "Disabled by the display") ??
    single.find((action) => action.problem !== undefined)?.problem ??
    (single.length > 0 ? unwritable : undefined);
  const text = props.text("text").replace(/^\$\(actions\)$/, actions.length === 0 ? "" : "Choose…");
  // What keeps it from running may have come up during the question.
  const latest = useRef(why);
  useLayoutEffect(() => {
    latest.current = why;
  });
  const isAllowed = async (): Promise<boolean> =>
    why === undefined && (await isConfirmed(props, confirm)) && latest.current === undefined;
  const click = async (event: MouseEvent): Promise<void> => {
    const { clientX, clientY, ctrlKey, metaKey, shiftKey } = event;
    if (!(await isAllowed())) return;
    if (single.length === 0 && actions.length > 1) {
      openMenu({ ...event, clientX, clientY, preventDefault: none, stopPropagation: none });
    }
    for (const action of single) action.run({ ctrlKey, metaKey, shiftKey });
  };
  const contextMenu = async (event: MouseEvent): Promise<void> => {
    if (actions.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const { clientX, clientY } = event;
    if (!(await isAllowed())) return;
    openMenu({ ...event, clientX, clientY, preventDefault: none, stopPropagation: none });
  };
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={why}
      ownActions
      className="pvwire-display-button"
    >
      <button
        type="button"
        aria-disabled={why !== undefined}
        style={inkOf(props)}
        data-plain={props.flag("transparent") || undefined}
        onKeyDown={pressOnce}
        onClick={(event) => void click(event)}
        onContextMenu={(event) => void contextMenu(event)}
      >
        <span style={textStyle(props)}>
          <span>{text}</span>
        </span>
      </button>
    </Box>
  );
}

const none = (): void => undefined;

const MODES = ["TOGGLE", "PUSH", "PUSH_INVERTED"];

export function BoolButton(of: WidgetProps): ReactNode {
  const { props } = of;
  const { box, isOn, press, pv, release, set, why } = useBit(of);
  const choices = props.flag("labels_from_pv") ? pv?.display?.choices : undefined;
  // With more choices than two a bit isn't one of them.
  const own = choices?.length === 2 ? choices[Number(isOn)] : undefined;
  const label = own ?? props.text(isOn === true ? "on_label" : "off_label");
  const colour = props.colour(isOn === true ? "on_color" : "off_color");
  const mode = MODES.indexOf(props.choice("mode", MODES));
  const isHeld = mode > 0;
  return (
    <Box {...box} className="pvwire-display-button">
      <button
        type="button"
        aria-pressed={isOn}
        aria-disabled={why !== undefined}
        style={{
          ...inkOf(props),
          ...alignmentOf(props),
          ...(props.flag("show_led") || isOn === undefined
            ? {}
            : { backgroundColor: cssColour(colour) }),
        }}
        onClick={() => {
          if (!isHeld && isOn !== undefined) set(!isOn);
        }}
        onPointerDown={(event) => {
          if (!isHeld || event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          press(mode === 1);
        }}
        onLostPointerCapture={release}
        onKeyDown={(event) => {
          pressOnce(event);
          if (!isHeld || event.key !== " ") return;
          event.preventDefault();
          if (!event.repeat) press(mode === 1);
        }}
        onKeyUp={(event) => {
          if (event.key === " ") release();
        }}
        onBlur={release}
      >
        <BitImage props={props} isOn={isOn} colour={colour} />
        <span>{isOn === undefined ? "–" : label}</span>
      </button>
    </Box>
  );
}

interface BitImageProps {
  readonly props: Props;
  readonly isOn: boolean | undefined;
  readonly colour: Rgba;
}

/** The picture of the state, else its lamp. */
function BitImage({ colour, isOn, props }: BitImageProps) {
  const file = isOn === undefined ? "" : props.text(isOn ? "on_image" : "off_image");
  const { address, fail } = usePicture(file === "" ? undefined : file);
  if (address !== undefined) {
    return <img className="pvwire-display-bit-image" src={address} alt="" onError={fail} />;
  }
  if (!props.flag("show_led")) return null;
  const style: CSSProperties = isOn === undefined ? {} : { backgroundColor: cssColour(colour) };
  return <i className="pvwire-display-lamp" data-unknown={isOn === undefined} style={style} />;
}

interface LabelledProps {
  readonly box: Bit["box"];
  readonly children: ReactNode;
}

/** A control of a bit with its label. */
function Labelled({ box, children }: LabelledProps) {
  const { props } = box;
  const style = { ...inkOf(props, "open"), ...autoSize(props) };
  return (
    <Box {...box} className="pvwire-display-check" style={style}>
      <label>
        {children}
        <span>{props.text("label")}</span>
      </label>
    </Box>
  );
}

export function CheckBox(of: WidgetProps): ReactNode {
  const { box, isOn, set, why } = useBit(of);
  return (
    <Labelled box={box}>
      <input
        type="checkbox"
        checked={isOn === true}
        ref={(input) => {
          if (input !== null) input.indeterminate = isOn === undefined;
        }}
        disabled={why !== undefined}
        onKeyDown={pressOnce}
        onChange={() => {
          set(isOn !== true);
        }}
      />
    </Labelled>
  );
}

export function SlideButton(of: WidgetProps): ReactNode {
  const { box, isOn, set, why } = useBit(of);
  const colour = of.props.colour(isOn === true ? "on_color" : "off_color");
  return (
    <Labelled box={box}>
      <button
        type="button"
        role="switch"
        aria-checked={isOn === true}
        aria-disabled={why !== undefined}
        data-unknown={isOn === undefined || undefined}
        data-dark={brightnessOf(colour) < 0.5 || undefined}
        style={{ backgroundColor: cssColour(colour) }}
        onKeyDown={pressOnce}
        onClick={() => {
          set(isOn !== true);
        }}
      />
    </Labelled>
  );
}
