/** One of the facility's displays. Its address has the path, the macros, and how it is scaled. */

import { useCallback, useEffect, useMemo, useState, type ReactNode } from "react";
import {
  DEFAULT_PALETTE,
  Display,
  paletteOf,
  type DisplayWays,
  type OpenRequest,
  type Palette,
  type ScreenFile,
} from "pvwire/display";
import "pvwire/display.css";

import { go, hrefOf, setTo, type Route } from "./route";
import { screens, useScreenFiles } from "./screens";
import { useTitle } from "./title";
import "./style/displays.css";

const FITS = ["none", "width", "whole"] as const;
const FIT_TITLES = ["100 %", "Width", "Whole"];

export default function DisplayPage({ route }: { readonly route: Route }): ReactNode {
  const { files, problem } = useScreenFiles();
  const { macros, name, settings } = route;
  const palette = usePalette(files, name);
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
        {problem ?? "Loading…"}
      </p>
    );
  }
  return (
    <div className="display-page">
      <h1 className="visually-hidden">{name}</h1>
      {settings.kiosk !== "1" && (
        <div className="toolbar">
          <div role="group" aria-label="Size" className="sizes">
            {FITS.map((one, at) => (
              <button
                key={one}
                type="button"
                aria-pressed={fit === one}
                onClick={() => {
                  setTo(route, { fit: one === "none" ? "" : one });
                }}
              >
                {FIT_TITLES[at]}
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
            Display alone
          </button>
        </div>
      )}
      <Display
        file={screens.addressOf(name)}
        root={screens.addressOf("")}
        macros={macros}
        palette={palette}
        fit={fit}
        readOnly={settings.lock === "1"}
        watch={screens.watch}
        ways={waysOfBrowser()}
        onOpen={onOpen}
      />
    </div>
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

/** The path of a file of this name in the display's folder or the nearest one around it. */
function nearest(files: readonly ScreenFile[], display: string, name: string): string | undefined {
  const known = new Set(files.map(({ path }) => path));
  const folders = display.split("/").slice(0, -1);
  for (let depth = folders.length; depth >= 0; depth -= 1) {
    const path = [...folders.slice(0, depth), name].join("/");
    if (known.has(path)) return path;
  }
  return undefined;
}

async function textOf(path: string | undefined): Promise<string> {
  if (path === undefined) return "";
  const answer = await fetch(screens.addressOf(path), { cache: "no-cache" });
  return answer.ok ? await answer.text() : "";
}

/** The colours and fonts of the nearest `color.def` and `font.def`; `undefined` while they are read. */
function usePalette(
  files: readonly ScreenFile[] | undefined,
  display: string,
): Palette | undefined {
  const [palette, setPalette] = useState<Palette>();
  const paths = useMemo(
    () =>
      files && (["color.def", "font.def"] as const).map((name) => nearest(files, display, name)),
    [files, display],
  );
  const [colours, fonts] = paths ?? [];
  const isListed = paths !== undefined;
  useEffect(() => {
    if (!isListed) return;
    let isWanted = true;
    Promise.all([textOf(colours), textOf(fonts)])
      .then(([colours, fonts]) => paletteOf({ colours, fonts }))
      .catch(() => DEFAULT_PALETTE)
      .then((read) => {
        if (isWanted) setPalette(read);
      })
      .catch(() => undefined);
    return () => {
      isWanted = false;
    };
  }, [isListed, colours, fonts]);
  return palette;
}
