/** cs-web-lib as it is: its own connection to PVWS, and none of pvwire's code. */

import { PV, Input, Readback, RelativePosition, store } from "@diamondlightsource/cs-web-lib";
import { createRoot } from "react-dom/client";
import { Provider } from "react-redux";
import { BrowserRouter } from "react-router-dom";

const parameters = new URLSearchParams(location.search);

const state = store({
  PVWS_SOCKET: parameters.get("server") ?? "",
  PVWS_SSL: false,
  THROTTLE_PERIOD: 100,
});

/** The part of cs-web-lib's state that its widgets read. Its package exports no type of it. */
type Pvs = Record<
  string,
  {
    connected?: boolean;
    readonly?: boolean;
    value?: {
      value: { stringValue?: string; arrayValue?: ArrayLike<number> };
      alarm?: { quality: string };
      time?: { datetime: Date };
      display: Record<string, unknown>;
    };
  }
>;

/** The PVs as its widgets read them: plain data, for the test that compares it with the truth. */
function known(): Record<string, unknown> {
  const { valueCache } = state.getState() as { valueCache: Pvs };
  const plain = ({ connected, readonly, value }: Pvs[string]) => ({
    connected,
    readonly,
    text: value?.value.stringValue,
    elements: value?.value.arrayValue && Array.from(value.value.arrayValue),
    quality: value?.alarm?.quality,
    seconds: value?.time && value.time.datetime.getTime() / 1000,
    units: value?.display.units,
    precision: value?.display.precision,
    choices: value?.display.choices,
    alarm: value?.display.alarmRange,
    warning: value?.display.warningRange,
  });
  return Object.fromEntries(Object.entries(valueCache).map(([name, pv]) => [name, plain(pv)]));
}
Object.assign(window, { known });

const position = new RelativePosition("0", "0", "300px", "30px");
const of = (name: string) => ({ position, pvMetadataList: [{ pvName: PV.parse(name, "ca") }] });

createRoot(document.getElementById("root") as HTMLElement).render(
  <BrowserRouter>
    <Provider store={state}>
      <h1>cs-web-lib on PVWS</h1>
      {parameters.getAll("pv").map((name) => (
        <div key={name}>
          <section aria-label={`shown ${name}`}>
            <Readback {...of(name)} precisionFromPv showUnits />
          </section>
          <section aria-label={`set ${name}`}>
            <Input {...of(name)} precisionFromPv />
          </section>
        </div>
      ))}
    </Provider>
  </BrowserRouter>,
);
