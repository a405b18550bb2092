/** The component of each type of widget. */

import { lazy, Suspense, type ComponentType, type ReactNode } from "react";

import { Box } from "./widgets/Box.js";
import { LinearMeter, ProgressBar, Slider, Tank, Thermometer } from "./widgets/bars.js";
import { ActionButton, BoolButton, CheckBox, SlideButton } from "./widgets/buttons.js";
import { ChoiceButtons, Combo, Radio } from "./widgets/choices.js";
import { ArrayWidget, Group, Tabs } from "./widgets/containers.js";
import { Clock, Dial, DigitalClock } from "./widgets/dials.js";
import { Embedded, NavTabs, Template, WebBrowser } from "./widgets/embedded.js";
import { Spinner, TextEntry } from "./widgets/entries.js";
import { FileSelector } from "./widgets/files.js";
import { Knob } from "./widgets/knob.js";
import { ByteMonitor, Led, MultiStateLed } from "./widgets/lamps.js";
import { Picture, Symbol } from "./widgets/pictures.js";
import { Arc, Ellipse, Polygon, Polyline, Rectangle } from "./widgets/shapes.js";
import { Label, TextSymbol, TextUpdate } from "./widgets/texts.js";
import type { WidgetComponent, WidgetProps } from "./widget.js";

type Plots = typeof import("./plot/plots.js");

/** A widget whose code is loaded with the first of its kind; its box is there at once. */
function onDemand(
  name: "XyPlot" | "StripPlot" | "DataBrowser" | "Image" | "Table",
): WidgetComponent {
  const Loaded = lazy(async () => {
    const plots: Plots = await import("./plot/plots.js");
    return { default: plots[name] as ComponentType<WidgetProps> };
  });
  return function OnDemand(of: WidgetProps): ReactNode {
    const waiting = <Box widget={of.widget} props={of.props} />;
    return (
      <Suspense fallback={waiting}>
        <Loaded {...of} />
      </Suspense>
    );
  };
}

export const WIDGETS: ReadonlyMap<string, WidgetComponent> = new Map(
  Object.entries<WidgetComponent>({
    action_button: ActionButton,
    arc: Arc,
    array: ArrayWidget,
    bool_button: BoolButton,
    byte_monitor: ByteMonitor,
    checkbox: CheckBox,
    choice: ChoiceButtons,
    clock: Clock,
    combo: Combo,
    databrowser: onDemand("DataBrowser"),
    digital_clock: DigitalClock,
    ellipse: Ellipse,
    embedded: Embedded,
    fileselector: FileSelector,
    gauge: Dial,
    group: Group,
    image: onDemand("Image"),
    knob: Knob,
    label: Label,
    led: Led,
    linearmeter: LinearMeter,
    meter: Dial,
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
    stripchart: onDemand("StripPlot"),
    symbol: Symbol,
    table: onDemand("Table"),
    tabs: Tabs,
    tank: Tank,
    template: Template,
    "text-symbol": TextSymbol,
    textentry: TextEntry,
    textupdate: TextUpdate,
    thermometer: Thermometer,
    webbrowser: WebBrowser,
    xyplot: onDemand("XyPlot"),
  }),
);
