/** One display: its widgets at their places, scaled to the window if the application wants that. */

import {
  useEffect,
  useMemo,
  useRef,
  useState,
  type CSSProperties,
  type ReactNode,
  type RefObject,
} from "react";

import { soon } from "../lazy.js";
import type { PvClient } from "../types.js";
import { displayScope, ScaleContext, ScopeContext, useShown } from "./context.js";
import { fileName } from "./model/address.js";
import { defaultsOf } from "./model/defaults.js";
import type { DisplayFile, WidgetSource } from "./model/file.js";
import { inspect, type DisplayNote } from "./model/inspect.js";
import { expand, type Macros } from "./model/macros.js";
import { cssColour } from "./model/palette.js";
import { Props } from "./model/props.js";
import { textOf } from "./model/xml.js";
import { MAX_PIXELS } from "./place.js";
import { boxOf } from "./sight.js";
import { useFile } from "./loader.js";
import type { Reach } from "./widget.js";
import { Widgets } from "./WidgetView.js";
import { point } from "./widgets/texts.js";

/** A display's own properties, as Phoebus has their defaults. */
const DISPLAY_DEFAULTS = { ...defaultsOf("group"), width: 800, height: 600 };

interface DisplayViewProps {
  readonly client: PvClient;
  readonly file: string;
  readonly macros: Readonly<Record<string, string>>;
  readonly fit: "none" | "width" | "whole";
  readonly bar: (opened: { title: string; notes: readonly DisplayNote[] }) => ReactNode;
}

const NO_NOTES: readonly DisplayNote[] = [];

export function DisplayView({ bar, file: address, fit, macros }: DisplayViewProps): ReactNode {
  const { file, problem } = useFile(address);
  const outer = useMemo(() => new Map(Object.entries(macros)), [macros]);
  const notes = useMemo(() => (file === undefined ? NO_NOTES : inspect(file)), [file]);
  const title = file === undefined ? "" : nameOf(file, outer);
  return (
    <>
      {bar({ title, notes })}
      {problem !== undefined && (
        <p className="pvwire-display-problem" role="alert">
          {problem}
        </p>
      )}
      {file !== undefined && <Opened file={file} outer={outer} fit={fit} />}
    </>
  );
}

/** The display's name, or that of its file. */
export function nameOf(file: DisplayFile, macros: Macros): string {
  const written = textOf(file.node, "name")?.trim() ?? "";
  const name = expand(written, (key) => macros.get(key));
  return name === "" ? fileName(file.address) : name;
}

interface OpenedProps {
  readonly file: DisplayFile;
  readonly outer: Macros;
  readonly fit: "none" | "width" | "whole";
}

function Opened({ file, fit, outer }: OpenedProps) {
  const { id, palette } = useShown();
  const scope = useMemo(
    () => displayScope(file, outer, { id, name: nameOf(file, outer) }, 0),
    [file, outer, id],
  );
  const props = useMemo(
    () => new Props(file.node, DISPLAY_DEFAULTS, { lookup: scope.lookup, palette }),
    [file, scope, palette],
  );
  const width = Math.max(1, props.integer("width"));
  const height = Math.max(1, props.integer("height"));
  const place = useRef<HTMLDivElement>(null);
  const scale = useScale(place, width, height, fit);
  const { far, reach } = useFar(file.widgets);
  const [across, down] = [Math.max(width, far.x), Math.max(height, far.y)];
  const colours = useMemo((): CSSProperties => {
    const named = (name: string): string => cssColour(palette.colours.get(name) ?? [0, 0, 0, 255]);
    return {
      "--pvwire-display-minor": named("minor"),
      "--pvwire-display-major": named("major"),
      "--pvwire-display-invalid": named("invalid"),
      "--pvwire-display-gone": named("disconnected"),
    } as CSSProperties;
  }, [palette]);
  return (
    <div ref={place} className="pvwire-display-place" style={colours}>
      <div
        className="pvwire-display-sheet"
        onPointerOver={({ target }) => {
          point(target as Element);
        }}
        onPointerLeave={() => {
          point(undefined);
        }}
        style={{
          width: across,
          height: down,
          backgroundColor: cssColour(props.colour("background_color")),
          ...(scale === 1
            ? {}
            : {
                transform: `scale(${String(scale)})`,
                // What is below takes the scaled height.
                marginBottom: down * (scale - 1),
              }),
        }}
      >
        <ScopeContext.Provider value={scope}>
          <ScaleContext.Provider value={scale}>
            <Widgets widgets={file.widgets} reach={reach} />
          </ScaleContext.Provider>
        </ScopeContext.Provider>
      </div>
    </div>
  );
}

/** The farthest corner of widgets, also of those that rules move: what is beyond the display's size is scrolled to. */
function useFar(widgets: readonly WidgetSource[]): { far: Corner; reach: Reach } {
  const fixed = useMemo(
    () =>
      farthest(
        widgets.map((widget) => {
          const { height, left, top, width } = boxOf(widget) ?? AT_CORNER;
          return { x: left + width, y: top + height };
        }),
      ),
    [widgets],
  );
  const [moved, setMoved] = useState(NEAR);
  const reach = useMemo(() => reachOf(setMoved), []);
  return { far: farthest([fixed, moved]), reach };
}

function reachOf(change: (to: (before: Corner) => Corner) => void): Reach {
  const corners = new Map<WidgetSource, Corner>();
  // Rules may move many at once.
  const update = soon(() => {
    const now = farthest(corners.values());
    change((before) => (before.x === now.x && before.y === now.y ? before : now));
  });
  return (widget, { height, width, x, y }) => {
    corners.set(widget, { x: x + width, y: y + height });
    update();
    return () => {
      corners.delete(widget);
      update();
    };
  };
}

interface Corner {
  readonly x: number;
  readonly y: number;
}

const NEAR: Corner = { x: 0, y: 0 };
const AT_CORNER = { left: 0, top: 0, width: 0, height: 0 };

function farthest(corners: Iterable<Corner>): Corner {
  let { x, y } = NEAR;
  for (const corner of corners) [x, y] = [Math.max(x, corner.x), Math.max(y, corner.y)];
  return { x: Math.min(x, MAX_PIXELS), y: Math.min(y, MAX_PIXELS) };
}

function useScale(
  place: RefObject<HTMLDivElement | null>,
  width: number,
  height: number,
  fit: "none" | "width" | "whole",
): number {
  const [scale, setScale] = useState(1);
  useEffect(() => {
    const element = place.current;
    if (element === null || fit === "none") return;
    const measure = (): void => {
      const across = element.clientWidth / width;
      const down = (window.innerHeight - element.getBoundingClientRect().top) / height;
      const both = fit === "whole" ? Math.min(across, down) : across;
      setScale(Math.max(0.05, Math.min(10, both)));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    window.addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", measure);
    };
  }, [place, width, height, fit]);
  return fit === "none" ? 1 : scale;
}
