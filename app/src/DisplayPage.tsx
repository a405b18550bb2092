/** One of the facility's displays. Its address has the path, the macros, and how it is scaled. */

import { useCallback, useEffect, useState, type ReactNode } from "react";
import { t } from "pvwire";
import {
  DEFAULT_PALETTE,
  Display,
  type DisplayWays,
  type OpenRequest,
  type Palette,
} from "pvwire/display";
import "pvwire/display.css";
import { listenedNames, useClient, usePvSummary } from "pvwire/react";

import { elsewhere, go, hrefOf, setTo, type Route } from "./route";
import { screens, useScreenFiles } from "./screens";
import { useTitle } from "./title";
import "./style/displays.css";

const FITS = ["none", "width", "whole"] as const;

export default function DisplayPage({ route }: { readonly route: Route }): ReactNode {
  const { files, problem } = useScreenFiles();
  const { macros, name, settings } = route;
  const palette = usePalette(files !== undefined, name);
  const fit = FITS.find((one) => one === settings.fit) ?? "none";
  useTitle(name.replace(/^.*\//, ""), "NONE");
  const onOpen = useCallback(
    ({ file, macros: given, target }: OpenRequest): boolean => {
      const path = screens.pathOf(file);
      if (path === undefined) return false;
      const to: Route = { ...route, page: "display", name: path, macros: given };
      if (target === "replace") go(to);
      else window.open(hrefOf(to), "_blank", target === "window" ? "popup,noopener" : "noopener");
      return true;
    },
    [route],
  );
  if (files === undefined || palette === undefined) {
    return (
      <p className="note" role="status">
        {problem ?? t`Loading…`}
      </p>
    );
  }
  return (
    <div className="display-page">
      <h1 className="visually-hidden">{name}</h1>
      {settings.kiosk !== "1" && (
        <div className="toolbar">
          <div role="group" aria-label={t`Size`} className="sizes">
            {FITS.map((one, at) => (
              <button
                key={one}
                type="button"
                aria-pressed={fit === one}
                onClick={() => {
                  setTo(route, { fit: one === "none" ? "" : one });
                }}
              >
                {[t`100 %`, t`Width`, t`Whole`][at]}
              </button>
            ))}
          </div>
          <button
            type="button"
            onClick={() => {
              // The browser's way back shows the page again.
              go({ ...route, settings: { ...settings, kiosk: "1" } });
              // Without full screen the page still shows the display alone.
              void document.documentElement.requestFullscreen().catch(() => undefined);
            }}
          >
            {t`Display alone`}
          </button>
          <AlarmsOfDisplay route={route} />
        </div>
      )}
      <Display
        file={screens.addressOf(name)}
        root={screens.addressOf("")}
        macros={macros}
        palette={palette}
        fit={fit}
        readOnly={settings.lock === "1"}
        exists={screens.exists}
        watch={screens.watch}
        ways={waysOfBrowser()}
        onOpen={onOpen}
      />
    </div>
  );
}

/** Opens the alarms of the PVs that the display reads now, and says how many there are. */
function AlarmsOfDisplay({ route }: { readonly route: Route }) {
  const client = useClient();
  const { pvs, severities, states, unresponsive } = usePvSummary();
  const bad = pvs - states.connecting - (states.connected - unresponsive);
  const count = bad + severities.MINOR + severities.MAJOR + severities.INVALID;
  return (
    <button
      type="button"
      disabled={pvs === 0}
      title={t`What is in alarm or not connected among the PVs of this display`}
      onClick={() => {
        const to = elsewhere(route, { page: "alarms", names: listenedNames(client) });
        go({ ...to, settings: { ...to.settings, of: hrefOf(route) } });
      }}
    >
      {count === 0 ? t`Alarms` : t`Alarms (${count})`}
    </button>
  );
}

/** The browser's own ways, as far as it says whether they lead anywhere. */
function waysOfBrowser(): DisplayWays {
  const { history, navigation } = window as Window & {
    navigation?: { readonly canGoBack: boolean; readonly canGoForward: boolean };
  };
  const way = (may: boolean, steps: number) =>
    may
      ? () => {
          history.go(steps);
        }
      : undefined;
  return {
    back: way(navigation?.canGoBack ?? history.length > 1, -1),
    forward: way(navigation?.canGoForward ?? true, 1),
  };
}

/** The colours, fonts and classes of the nearest files of a display; `undefined` while they are read. */
function usePalette(isListed: boolean, display: string): Palette | undefined {
  const [palette, setPalette] = useState<Palette>();
  useEffect(() => {
    if (!isListed) return;
    let isWanted = true;
    screens
      .palette(display)
      .catch(() => DEFAULT_PALETTE)
      .then((read) => {
        if (isWanted) setPalette(read);
      })
      .catch(() => undefined);
    return () => {
      isWanted = false;
    };
  }, [isListed, display]);
  return palette;
}
