/** Pictures of files: fixed ones, and one of some by the value. */

import { useEffect, useState, type CSSProperties, type ReactNode } from "react";

import { useScope, useShown } from "../context.js";
import { resolveFile } from "../model/address.js";
import { cssColour } from "../model/palette.js";
import { useActions } from "../use_actions.js";
import { useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";

interface ImageProps {
  readonly file: string;
  readonly style: CSSProperties;
}

/** A picture, or in its place why it can't be shown. */
function ImageOf({ file, style }: ImageProps) {
  const { note, root } = useShown();
  const scope = useScope();
  const found = resolveFile(file, scope.file.address, root);
  const [failed, setFailed] = useState<string>();
  const address = found.problem === undefined ? found.address : undefined;
  const problem =
    found.problem ?? (failed === address ? `${file}: the picture can't be read` : undefined);
  useEffect(
    () => (problem === undefined ? undefined : note({ kind: "file", text: problem })),
    [note, problem],
  );
  if (problem !== undefined || address === undefined) {
    return <span className="pvwire-display-unknown">{problem}</span>;
  }
  return (
    <img
      className="pvwire-display-picture"
      src={address}
      alt=""
      style={style}
      onError={() => {
        setFailed(address);
      }}
    />
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

export function Symbol(of: WidgetProps): ReactNode {
  const { name, problem, props, widget } = of;
  const { condition, value } = useWidgetPv(name);
  const { actions } = useActions(widget, props);
  const files = props.texts("symbols");
  const first = props.integer("initial_index");
  const number = value?.number ?? Number(value?.array?.[props.integer("array_index")] ?? NaN);
  const byName =
    value?.text == null ? -1 : files.findIndex((file) => file.includes(value.text ?? ""));
  const index = name === undefined ? first : Number.isNaN(number) ? byName : Math.trunc(number);
  const isKnown = name === undefined || value !== undefined;
  const file = files[index] ?? props.text("fallback_symbol");
  const isEnabled = props.flag("enabled", true);
  const runs = isEnabled && props.flag("run_actions_on_mouse_click") && actions.length > 0;
  const rotation = props.number("rotation");
  const style: CSSProperties = {
    objectFit: props.flag("preserve_ratio") ? "contain" : "fill",
    ...(rotation === 0 ? {} : { transform: `rotate(${String(rotation)}deg)` }),
  };
  return (
    <Box
      widget={widget}
      props={props}
      condition={condition}
      name={name}
      problem={problem}
      className="pvwire-display-symbol"
      style={
        props.flag("transparent")
          ? {}
          : { backgroundColor: cssColour(props.colour("background_color")) }
      }
    >
      {isKnown && file !== "" && <ImageOf file={file} style={style} />}
      {isKnown && file === "" && (
        <span className="pvwire-display-unknown">{`symbol ${String(index)}`}</span>
      )}
      {!isKnown && <i className="pvwire-display-lamp" data-unknown />}
      {props.flag("show_index") && <b className="pvwire-display-index">{isKnown ? index : "–"}</b>}
      {runs && (
        <button
          type="button"
          className="pvwire-display-cover"
          aria-label={actions.map(({ label }) => label).join(", ")}
          title={actions.find((action) => action.problem !== undefined)?.problem}
          onClick={(event) => {
            for (const action of actions) if (action.problem === undefined) action.run(event);
          }}
        />
      )}
    </Box>
  );
}
