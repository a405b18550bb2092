/** The buttons of a plot: how its curves are drawn, and its export as files. */

import { useRef, useState, type ReactNode } from "react";

import { t } from "../texts.js";
import { download, pngOf } from "./export.js";
import { coloursOf } from "./ground.js";
import { formatDate } from "./times.js";
import type { Trace } from "./traces.js";

/** How the curves of a plot are drawn. */
export interface PlotOptions {
  /** A chart for each PV, below each other. @default false */
  readonly isStacked?: boolean;
  /** A logarithmic vertical axis; values of 0 and below are not drawn. @default false */
  readonly isLog?: boolean;
  /** Lines at the limits of warnings and alarms. @default false */
  readonly hasLimits?: boolean;
}

const toggleTexts = (): Readonly<Record<keyof PlotOptions, readonly [string, string]>> => ({
  isStacked: [t`Below each other`, t`A chart for each PV`],
  isLog: [t`Logarithmic`, t`Values of 0 and below are not drawn`],
  hasLimits: [t`Limits`, t`Lines at the limits of warnings and alarms`],
});

interface ToolsProps {
  readonly options: PlotOptions;
  readonly change: (options: PlotOptions) => void;
  /** The options that the plot has. */
  readonly toggles: readonly (keyof PlotOptions)[];
  readonly isUtc: boolean;
  /** Those that are exported. */
  readonly traces: readonly Trace[];
  readonly csv: (traces: readonly Trace[]) => string;
  /** The pictures, in their order from top to bottom. */
  readonly canvases: (traces: readonly Trace[]) => readonly HTMLCanvasElement[];
  /** What the mouse and the keys do. */
  readonly children?: ReactNode;
}

export function Tools(props: ToolsProps): ReactNode {
  const { canvases, change, children, csv, isUtc, options, toggles, traces } = props;
  const [message, setMessage] = useState("");
  const bar = useRef<HTMLDivElement>(null);
  const fileName = (): string => `plot_${formatDate(Date.now(), isUtc).replace(/[ :]/g, "-")}`;
  return (
    <div ref={bar} className="pvwire-buttons">
      {toggles.map((key) => {
        const [title, hint] = toggleTexts()[key];
        const isOn = options[key] === true;
        return (
          <button
            key={key}
            type="button"
            title={hint}
            aria-pressed={isOn}
            onClick={() => {
              change({ ...options, [key]: !isOn });
            }}
          >
            {title}
          </button>
        );
      })}
      <button
        type="button"
        onClick={() => {
          download(`${fileName()}.csv`, csv(traces));
        }}
      >
        {t`Export CSV`}
      </button>
      <button
        type="button"
        onClick={() => {
          const colours = coloursOf(bar.current ?? document.body);
          pngOf(canvases(traces), traces, colours).then(
            (picture) => {
              setMessage("");
              download(`${fileName()}.png`, picture);
            },
            (error: unknown) => {
              setMessage(error instanceof Error ? error.message : String(error));
            },
          );
        }}
      >
        {t`Export PNG`}
      </button>
      {children !== undefined && <span className="pvwire-note">{children}</span>}
      <span className="pvwire-note" role="status">
        {message}
      </span>
    </div>
  );
}
