/** A facility's display, live: its file, the displays that it opens, and what of it isn't shown. */

import {
  type ReactNode,
  useCallback,
  useEffect,
  useId,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "react";

import { counted, type DisplayNote } from "./model/inspect.js";
import { useClient } from "../react/index.js";
import { DisplayBar } from "./DisplayBar.js";
import { DisplayView } from "./DisplayView.js";
import { type OpenRequest, type Report, type Shown, ShownContext } from "./context.js";
import { DialogsProvider } from "./dialogs.js";
import { createLoader } from "./loader.js";
import { folderAddress } from "./model/address.js";
import { DEFAULT_PALETTE, type Palette } from "./model/palette.js";
import { firstPages, presentOf, turn, waysOf } from "./pages.js";
import { WIDGETS } from "./registry.js";
import { ComponentsContext } from "./widget.js";

/** The ways back and forward of a page. */
export interface DisplayWays {
  /** Goes back. */
  readonly back?: (() => void) | undefined;
  /** Goes forward. */
  readonly forward?: (() => void) | undefined;
}

/** The properties of `Display`. */
export interface DisplayProps {
  /** The address of the file, absolute or relative to the page. */
  readonly file: string;
  /** Values of macros. @default none */
  readonly macros?: Readonly<Record<string, string>>;
  /** Only files below this address are opened. @default the folder of `file` */
  readonly root?: string;
  /** Colours and fonts by name, of `paletteOf`. @default those of Phoebus */
  readonly palette?: Palette;
  /** How the display takes the width it has. @default "none": one pixel is one pixel */
  readonly fit?: "none" | "width" | "whole";
  /** Reads a file. @default with `fetch` */
  readonly load?: (address: string) => Promise<string>;
  /**
   * Whether there is a file at an address, for example `exists` of `createScreens`; `undefined` if it isn't known.
   * Where a display names `x.opi`, `x.bob` is only asked for if it may be there. @default it isn't known
   */
  readonly exists?: (address: string) => boolean | undefined;
  /**
   * Called when an action opens a display. Return true if the page has opened it itself, for example
   * in a window. @default the display is opened here, or in a tab of this display
   */
  readonly onOpen?: (request: OpenRequest) => boolean;
  /**
   * The page's own ways back and forward, when `onOpen` opens all displays; a way that leads nowhere
   * is absent. @default those of this display
   */
  readonly ways?: DisplayWays;
  /**
   * Begins to watch files, for example `watch` of `createScreens`: calls `changed` with the addresses
   * of files that have changed, which are then read again, until the returned function is called.
   */
  readonly watch?: (changed: (addresses: readonly string[]) => void) => () => void;
  /** Nothing is written from this display. @default false */
  readonly readOnly?: boolean;
  /** Called with what of the display isn't shown, whenever that changes. */
  readonly onNotes?: (notes: readonly DisplayNote[]) => void;
}

const folderOf = (address: string): string => address.replace(/[?#].*$/, "").replace(/[^/]*$/, "");

const NO_MACROS = {};

/** Shows a `.bob` or `.opi` file. Needs a `PvProvider` around it, and the style sheet `pvwire/display.css`. */
export function Display(props: DisplayProps): ReactNode {
  const { file, macros = NO_MACROS } = props;
  // Another file begins with another history.
  return <Pages key={`${file} ${JSON.stringify(macros)}`} {...props} macros={macros} />;
}

function Pages(props: DisplayProps & { readonly macros: Readonly<Record<string, string>> }) {
  const {
    exists,
    file,
    fit = "none",
    load,
    macros,
    onNotes,
    onOpen,
    palette = DEFAULT_PALETTE,
  } = props;
  const { readOnly = false, watch, ways } = props;
  const address = new URL(file, document.baseURI).href;
  const root = folderAddress(props.root ?? folderOf(address));
  const client = useClient();
  const [pages, dispatch] = useReducer(turn, { file: address, macros }, firstPages);
  const [reports, setReports] = useState<readonly Report[]>([]);
  const present = presentOf(pages);
  const id = useId();
  const loader = useMemo(() => createLoader(load, exists), [load, exists]);
  const notes = useRuntimeNotes();
  const listener = useRef(onOpen);
  useEffect(() => {
    listener.current = onOpen;
  }, [onOpen]);

  const open = useCallback((request: OpenRequest) => {
    if (listener.current?.(request) === true) return;
    const { target } = request;
    dispatch({ kind: target === "replace" ? "replace" : "tab", ...request });
  }, []);
  const latest = useRef({ pages, ways });
  useEffect(() => {
    latest.current = { pages, ways };
  }, [pages, ways]);
  const close = useCallback(() => {
    const { pages: now, ways: own } = latest.current;
    if (waysOf(now).back) dispatch({ kind: "back" });
    else if (now.tabs.length > 1) dispatch({ kind: "close", tab: now.at });
    else if (own?.back !== undefined) own.back();
    else window.close();
  }, []);
  useEffect(() => watch?.(loader.refresh), [watch, loader]);
  const report = useCallback((news: Report) => {
    // One line a PV, the newest first.
    setReports((before) => [news, ...before.filter(({ pv }) => pv !== news.pv)].slice(0, 5));
  }, []);
  const shown = useMemo(
    (): Shown => ({
      palette,
      id: `DP${id.replace(/\W/g, "")}${String(present.id)}`,
      load: loader.load,
      listen: loader.listen,
      root,
      readOnly,
      open,
      close,
      note: notes.add,
      report,
    }),
    [palette, id, present.id, loader, root, readOnly, open, close, notes.add, report],
  );
  return (
    <ShownContext.Provider value={shown}>
      <ComponentsContext.Provider value={WIDGETS}>
        <DialogsProvider>
          <div className="pvwire-display" data-file={present.file}>
            <DisplayView
              key={present.id}
              client={client}
              file={present.file}
              macros={present.macros}
              fit={fit}
              bar={(opened) => (
                <DisplayBar
                  pages={pages}
                  ways={ways}
                  title={opened.title}
                  inFile={opened.notes}
                  atRuntime={notes.list}
                  reports={reports}
                  onNotes={onNotes}
                  onTurn={dispatch}
                  onReports={setReports}
                />
              )}
            />
          </div>
        </DialogsProvider>
      </ComponentsContext.Provider>
    </ShownContext.Provider>
  );
}

type Note = Omit<DisplayNote, "count">;

export interface RuntimeNotes {
  readonly list: readonly DisplayNote[];
  /** Adds one; the returned function takes it back. */
  readonly add: (note: Note) => () => void;
}

function useRuntimeNotes(): RuntimeNotes {
  const [notes, setNotes] = useState<readonly Note[]>([]);
  const add = useCallback((note: Note) => {
    // A separate object, so that an equal one of another widget stays.
    const own = { ...note };
    setNotes((before) => [...before, own]);
    return () => {
      setNotes((before) => before.filter((each) => each !== own));
    };
  }, []);
  const list = useMemo(() => counted(notes), [notes]);
  return { list, add };
}
