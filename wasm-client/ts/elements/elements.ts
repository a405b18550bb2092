/** The custom elements. */

import { PageElement, PvElement, WidgetElement, type Widget } from "./pv_element.js";
import { relaysChanged } from "./relays.js";
import { valueWidget } from "./value.js";

const COMMON = ["name", "label", "stale-after-ms"] as const;

/**
 * `<pv-value name="…">`: value with units, alarm, limits, time stamp and access rights. Attributes:
 * `name`, `label`, `notation="exponent"`, `stale-after-ms`.
 */
export class PvValue extends PvElement {
  /** Attributes whose changes take effect. */
  static readonly observedAttributes: readonly string[] = [...COMMON, "notation"];

  protected override load(): Widget {
    return valueWidget;
  }
}

/**
 * `<pv-input name="…">`: sets the PV within its limits and shows the outcome of each put.
 * Attributes: `name`, `label`, `control` (`number`, `slider`, `choice` or `text`),
 * `allow-non-finite`, `stale-after-ms`.
 */
export class PvInput extends PvElement {
  /** Attributes whose changes take effect. */
  static readonly observedAttributes: readonly string[] = [
    ...COMMON,
    "control",
    "allow-non-finite",
  ];

  protected override async load(): Promise<Widget> {
    return (await import("./input.js")).inputWidget;
  }
}

/**
 * `<pv-plot name="…">`: a number over the IOC's time, an array over its index. Attributes: `name`,
 * `label`, `window-seconds`, `height` (pixels), `y-min` and `y-max`, `stale-after-ms`.
 */
export class PvPlot extends PvElement {
  /** Attributes whose changes take effect. */
  static readonly observedAttributes: readonly string[] = [
    ...COMMON,
    "window-seconds",
    "height",
    "y-min",
    "y-max",
  ];

  protected override async load(): Promise<Widget> {
    return (await import("./plot.js")).plotWidget;
  }
}

/**
 * `<pv-display file="screens/main.bob">`: one of a facility's displays. Attributes: `file`, `macros`
 * (a JSON object), `screens` (the address of the displays that a relay serves, such as `/screens/`),
 * `root`, `fit` (`none`, `width` or `whole`), `read-only`. Before an action opens a display, the element
 * has an event `pv-open` with the request in `detail`; a page that opens it itself prevents its default.
 */
export class PvDisplay extends WidgetElement {
  /** Attributes whose changes take effect. */
  static readonly observedAttributes: readonly string[] = [
    "file",
    "macros",
    "screens",
    "root",
    "fit",
    "read-only",
  ];

  protected override readonly subject: string = "file";

  protected override async load(): Promise<Widget> {
    return (await import("./display.js")).displayWidget;
  }
}

/**
 * `<pv-relay url="wss://relay.example.org/ws">`: around other elements it is for them, without
 * elements in it for all of the page that are in no other. Several addresses, separated by spaces,
 * are relays that serve the same PVs.
 */
export class PvRelay extends PageElement {
  /** Attributes whose changes take effect. */
  static readonly observedAttributes: readonly string[] = ["url"];

  /** Called by the browser when the element is in a page. */
  connectedCallback(): void {
    relaysChanged();
  }

  /** Called by the browser when the element is no longer in a page. */
  disconnectedCallback(): void {
    relaysChanged();
  }

  /** Called by the browser when an attribute has changed. */
  attributeChangedCallback(): void {
    relaysChanged();
  }
}
