/** The component of each type of widget. */

import { lazy, Suspense, type ReactNode } from "react";

import { Box } from "./widgets/Box.js";
import { LinearMeter, ProgressBar, Slider, Tank, Thermometer } from "./widgets/bars.js";
import { ActionButton, BoolButton, CheckBox, SlideButton } from "./widgets/buttons.js";
import { ChoiceButtons, Combo, Radio } from "./widgets/choices.js";
import { ArrayWidget, Group, Tabs } from "./widgets/containers.js";
import { Embedded, NavTabs, Template, WebBrowser } from "./widgets/embedded.js";
import { Spinner, TextEntry } from "./widgets/entries.js";
import { FileSelector } from "./widgets/files.js";
import { ByteMonitor, Led, MultiStateLed } from "./widgets/lamps.js";
import { Picture, Symbol } from "./widgets/pictures.js";
import { Arc, Ellipse, Polygon, Polyline, Rectangle } from "./widgets/shapes.js";
import { Label, TextSymbol, TextUpdate } from "./widgets/texts.js";
import type { WidgetComponent, WidgetProps } from "./widget.js";

/** A widget whose code is loaded with the first of its kind; its box is there at once. */
function onDemand<Name extends string>(
  load: () => Promise<Readonly<Record<Name, WidgetComponent>>>,
  name: Name,
): WidgetComponent {
  const Loaded = lazy<WidgetComponent>(async () => ({ default: (await load())[name] }));
  return function OnDemand(of: WidgetProps): ReactNode {
    const waiting = <Box widget={of.widget} props={of.props} />;
    return (
      <Suspense fallback={waiting}>
        <Loaded {...of} />
      </Suspense>
    );
  };
}

const dials = async () => import("./widgets/knob.js");
const plots = async () => import("./plot/plots.js");

export const WIDGETS: ReadonlyMap<string, WidgetComponent> = new Map(
  Object.entries<WidgetComponent>({
    action_button: ActionButton,
    arc: Arc,
    array: ArrayWidget,
    bool_button: BoolButton,
    byte_monitor: ByteMonitor,
    checkbox: CheckBox,
    choice: ChoiceButtons,
    clock: onDemand(dials, "Clock"),
    combo: Combo,
    databrowser: onDemand(plots, "DataBrowser"),
    digital_clock: onDemand(dials, "DigitalClock"),
    ellipse: Ellipse,
    embedded: Embedded,
    fileselector: FileSelector,
    gauge: onDemand(dials, "Dial"),
    group: Group,
    image: onDemand(plots, "Image"),
    knob: onDemand(dials, "Knob"),
    label: Label,
    led: Led,
    linearmeter: LinearMeter,
    meter: onDemand(dials, "Dial"),
    multi_state_led: MultiStateLed,
    navtabs: NavTabs,
    picture: Picture,
    polygon: Polygon,
    polyline: Polyline,
    progressbar: ProgressBar,
    radio: Radio,
    rectangle: Rectangle,
    scaledslider: Slider,
    scrollbar: Slider,
    slide_button: SlideButton,
    spinner: Spinner,
    stripchart: onDemand(plots, "StripPlot"),
    symbol: Symbol,
    table: onDemand(plots, "Table"),
    tabs: Tabs,
    tank: Tank,
    template: Template,
    "text-symbol": TextSymbol,
    textentry: TextEntry,
    textupdate: TextUpdate,
    thermometer: Thermometer,
    webbrowser: WebBrowser,
    xyplot: onDemand(plots, "XyPlot"),
  }),
);
