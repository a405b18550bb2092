/** The widget of `<pv-display>`, which is loaded with the first of them. */

import { useCallback, useEffect, useMemo, useState, type ReactNode } from "react";

import type { OpenRequest } from "../display/context.js";
import { Display, type DisplayProps } from "../display/Display.js";
import styles from "../display/display.css?inline";
import { DEFAULT_PALETTE, type Palette } from "../display/model/palette.js";
import { createScreens, type Screens } from "../display/screens.js";
import widget from "../widgets/css/widget.css?inline";
import { given, type Attributes } from "./pv_element.js";
import { addStyles } from "./style_sheet.js";

const ELEMENT = `
  pv-display { display: block; }
  pv-display[hidden] { display: none; }
`;

addStyles({ plot: widget, display: ELEMENT + styles });

type Fit = NonNullable<DisplayProps["fit"]>;
const FITS: readonly unknown[] = ["none", "width", "whole"] satisfies Fit[];

/** A display with the displays that it opens. */
export function displayWidget(attributes: Attributes, element: Element): ReactNode {
  const macros = macrosOf(attributes.text("macros"));
  if (typeof macros === "string") return <p role="alert">{macros}</p>;
  const fit = attributes.text("fit");
  const screens = attributes.text("screens");
  const options = given({
    macros,
    root: attributes.text("root") ?? screens,
    fit: FITS.includes(fit) ? (fit as Fit) : undefined,
    readOnly: attributes.text("read-only") !== undefined,
  });
  const shown = { ...options, element, file: attributes.text("file") ?? "" };
  return screens === undefined ? (
    <Screen {...shown} />
  ) : (
    <ServedScreen key={screens} {...shown} screens={screens} />
  );
}

/** The attribute's macros, or why they can't be read. */
function macrosOf(text = "{}"): Readonly<Record<string, string>> | string {
  try {
    const macros: unknown = JSON.parse(text);
    if (typeof macros === "object" && macros !== null && !Array.isArray(macros)) {
      return Object.fromEntries(
        Object.entries(macros).map(([name, value]) => [name, String(value)]),
      );
    }
  } catch {
    // As for JSON that isn't an object.
  }
  return `macros="${text}" isn't a JSON object such as {"P": "SR01"}`;
}

interface ScreenProps extends DisplayProps {
  readonly element: Element;
}

function Screen({ element, ...props }: ScreenProps): ReactNode {
  const onOpen = useCallback(
    (detail: OpenRequest): boolean => {
      const init = { detail, bubbles: true, composed: true, cancelable: true };
      return !element.dispatchEvent(new CustomEvent("pv-open", init));
    },
    [element],
  );
  return <Display {...props} onOpen={onOpen} />;
}

/** A display that a relay serves: in the facility's colours, and read again when its file has changed. */
function ServedScreen({ screens: url, ...props }: ScreenProps & { readonly screens: string }) {
  const screens = useMemo(() => createScreens(url), [url]);
  const palette = usePalette(screens, props.file);
  if (palette === undefined) return null;
  return <Screen {...props} palette={palette} watch={screens.watch} />;
}

/** `undefined` while it is read. */
function usePalette(screens: Screens, file: string): Palette | undefined {
  const [palette, setPalette] = useState<Palette>();
  useEffect(() => {
    let isWanted = true;
    const path = screens.pathOf(new URL(file, document.baseURI).href);
    const read = path === undefined ? Promise.resolve(DEFAULT_PALETTE) : screens.palette(path);
    read
      // The display itself says why it can't be read.
      .catch(() => DEFAULT_PALETTE)
      .then((found) => {
        if (isWanted) setPalette(found);
      })
      .catch(() => undefined);
    return () => {
      isWanted = false;
    };
  }, [screens, file]);
  return palette;
}
