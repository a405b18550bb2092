/** Pictures of files: fixed ones, and one of some by the value. */

import { useState, type CSSProperties, type ReactNode } from "react";

import { useNote, useScope, useShown } from "../context.js";
import { pressOnce } from "../keys.js";
import { resolveFile } from "../model/address.js";
import { isText } from "../model/format.js";
import { cssColour } from "../model/palette.js";
import { autoSize } from "../place.js";
import { useActions } from "../use_actions.js";
import { useWidgetPv, type WidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";

interface FoundPicture {
  /** `undefined` if it can't be shown. */
  readonly address: string | undefined;
  readonly problem: string | undefined;
  /** The browser can't read it. */
  readonly fail: () => void;
}

/** A picture that a widget names, if it names one. One that can't be shown is added to the list. */
export function usePicture(file: string | undefined): FoundPicture {
  const { root } = useShown();
  const scope = useScope();
  const [failed, setFailed] = useState<string>();
  const found = file === undefined ? undefined : resolveFile(file, scope.file.address, root);
  const address = found?.problem === undefined ? found?.address : undefined;
  const isUnread = address !== undefined && failed === address;
  const problem = isUnread ? `${String(file)}: the picture can't be read` : found?.problem;
  useNote("file", problem);
  return {
    address: isUnread ? undefined : address,
    problem,
    fail: () => {
      setFailed(address);
    },
  };
}

interface ImageProps {
  readonly file: string;
  readonly style: CSSProperties;
}

/** A picture, or in its place why it can't be shown. */
function ImageOf({ file, style }: ImageProps) {
  const { address, fail, problem } = usePicture(file);
  return address === undefined ? (
    <span className="pvwire-display-unknown">{problem}</span>
  ) : (
    <img className="pvwire-display-picture" src={address} alt="" style={style} onError={fail} />
  );
}

export function Picture({ props, widget }: WidgetProps): ReactNode {
  const rotation = props.number("rotation");
  return (
    <Box widget={widget} props={props}>
      <ImageOf
        file={props.text("file")}
        style={{
          objectFit: props.flag("stretch_image") ? "fill" : "contain",
          opacity: props.number("opacity"),
          ...(rotation === 0 ? {} : { transform: `rotate(${String(rotation)}deg)` }),
        }}
      />
    </Box>
  );
}

/** The number of a symbol, as a number or a text says it; NaN for another text, or without a value. */
function indexIn(value: WidgetPv["value"], at: number): number {
  const text = value !== undefined && isText(value) ? (value.text ?? undefined) : undefined;
  if (text !== undefined) return /^[+-]?\d+$/.test(text) ? Number(text) : NaN;
  return Math.trunc(value?.number ?? Number(value?.array?.[at] ?? NaN));
}

export function Symbol(of: WidgetProps): ReactNode {
  const { name, props, widget } = of;
  const { condition, value } = useWidgetPv(name);
  const { actions } = useActions(widget, props);
  const files = props.texts("symbols");
  const first = props.integer("initial_index");
  const index = name === undefined ? first : indexIn(value, props.integer("array_index"));
  const isKnown = !Number.isNaN(index);
  const other = name === undefined || value !== undefined ? props.text("fallback_symbol") : "";
  const file = files[index] ?? other;
  const isEnabled = props.flag("enabled", true);
  const runs = isEnabled && props.flag("run_actions_on_mouse_click") && actions.length > 0;
  const rotation = props.number("rotation");
  const style: CSSProperties = {
    objectFit: props.flag("preserve_ratio") ? "contain" : "fill",
    ...(rotation === 0 ? {} : { transform: `rotate(${String(rotation)}deg)` }),
  };
  return (
    <Box
      {...of}
      condition={condition}
      className="pvwire-display-symbol"
      style={{
        ...autoSize(props),
        ...(props.flag("transparent")
          ? {}
          : { backgroundColor: cssColour(props.colour("background_color")) }),
      }}
    >
      {file !== "" && <ImageOf file={file} style={style} />}
      {isKnown && file === "" && (
        <span className="pvwire-display-unknown">{`symbol ${String(index)}`}</span>
      )}
      {!isKnown && file === "" && <i className="pvwire-display-lamp" data-unknown />}
      {props.flag("show_index") && <b className="pvwire-display-index">{isKnown ? index : "–"}</b>}
      {runs && (
        <button
          type="button"
          className="pvwire-display-cover"
          aria-label={actions.map(({ label }) => label).join(", ")}
          title={actions.find((action) => action.problem !== undefined)?.problem}
          onKeyDown={pressOnce}
          onClick={(event) => {
            for (const action of actions) if (action.problem === undefined) action.run(event);
          }}
        />
      )}
    </Box>
  );
}
