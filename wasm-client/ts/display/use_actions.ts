/** What a page does for the actions of a widget. */

import type { MouseEvent } from "react";

import { useClient } from "../react/index.js";
import type { PvClient, PvDisplay } from "../types.js";
import { useScope, useShown, type Scope, type Shown, type Target } from "./context.js";
import { useDialogs, type Action } from "./dialogs.js";
import { resolveFile, webPage } from "./model/address.js";
import { actionsOf, macrosOf, type ActionSource } from "./model/file.js";
import { expand, innerMacros, type Lookup } from "./model/macros.js";
import { clientName } from "./model/names.js";
import type { Props } from "./model/props.js";
import { valueToPut } from "./model/typed.js";
import { textOf, type XmlNode } from "./model/xml.js";
import { READ_ONLY, reportOf } from "./use_widget_pv.js";
import type { Widget } from "./widget.js";

export interface Actions {
  readonly actions: readonly Action[];
  /** One click runs all of them. */
  readonly all: boolean;
  readonly openMenu: (event: MouseEvent) => void;
}

export function useActions(widget: Widget, props: Props): Actions {
  const client = useClient();
  const shown = useShown();
  const scope = useScope();
  const { menu } = useDialogs();
  const { actions, all } = actionsOf(widget.source.node);
  const lookup: Lookup = (name) => scope.lookup(name) ?? props.macro(name);
  const expandText = (text: string): string => expand(text, lookup);
  const context: ActionContext = { client, shown, scope, lookup, expandText };
  const ready = actions.map((action) => readyAction(action, context));
  return {
    actions: ready,
    all,
    openMenu: (event) => {
      if (ready.length === 0 || !props.flag("enabled", true)) return;
      event.preventDefault();
      event.stopPropagation();
      menu({ x: event.clientX, y: event.clientY, actions: ready });
    },
  };
}

interface ActionContext {
  readonly client: PvClient;
  readonly shown: Shown;
  readonly scope: Scope;
  /** Macros, the widget's properties among them. */
  readonly lookup: Lookup;
  readonly expandText: (text: string) => string;
}

function readyAction(source: ActionSource, context: ActionContext): Action {
  const { node, type } = source;
  const described = context.expandText(source.description);
  switch (type) {
    case "open_display":
      return openDisplay(node, described, context);
    case "write_pv":
      return writePv(node, described, context);
    case "open_webpage": {
      const url = context.expandText(textOf(node, "url") ?? textOf(node, "hyperlink") ?? "");
      const address = webPage(url);
      const problem = address === undefined ? `${url}: not the address of a web page` : undefined;
      return {
        type,
        label: described || url,
        problem,
        run: () => address !== undefined && window.open(address, "_blank", "noopener"),
      };
    }
    case "open_file":
      return openFile(node, described, context);
    default:
      return {
        type,
        label: described || type,
        problem: `Actions ${type} are not available on a page`,
        run: () => undefined,
      };
  }
}

const lastPart = (path: string): string => path.replace(/^.*[/\\]/, "");

function openDisplay(node: XmlNode, described: string, context: ActionContext): Action {
  const { expandText, lookup, scope, shown } = context;
  const macros = innerMacros(
    scope.macros,
    macrosOf(node).map(([name, value]) => [name, expand(value, scope.lookup)]),
  );
  const path = textOf(node, "file") ?? textOf(node, "path") ?? "";
  // The action's own macros too.
  const file = expand(path, (name) => macros.get(name) ?? lookup(name));
  const found = resolveFile(file, scope.file.address, shown.root);
  const written = expandText(textOf(node, "target") ?? "");
  const target: Target = /tab/i.test(written)
    ? "tab"
    : /window|standalone/i.test(written)
      ? "window"
      : "replace";
  return {
    type: "open_display",
    label: described || `Open ${lastPart(file)}`,
    problem: found.problem,
    run: (keys) => {
      if (found.problem !== undefined) return;
      const byKeys = keys?.shiftKey === true ? "window" : "tab";
      const isOther = keys?.ctrlKey === true || keys?.metaKey === true || keys?.shiftKey === true;
      shown.open({
        file: found.address,
        macros: Object.fromEntries(macros),
        target: isOther ? byKeys : target,
      });
    },
  };
}

function openFile(node: XmlNode, described: string, context: ActionContext): Action {
  const file = context.expandText(textOf(node, "file") ?? textOf(node, "path") ?? "");
  const found = resolveFile(file, context.scope.file.address, context.shown.root);
  return {
    type: "open_file",
    label: described || `Open ${lastPart(file)}`,
    problem: found.problem,
    run: () => {
      if (found.problem === undefined) window.open(found.address, "_blank", "noopener");
    },
  };
}

const TYPE = "{ display { type choices } }";

interface TypeData {
  readonly display: Pick<PvDisplay, "type" | "choices"> | null;
}

function writePv(node: XmlNode, described: string, context: ActionContext): Action {
  const { client, expandText, shown } = context;
  const written = expandText(textOf(node, "pv_name") ?? "");
  const value = expandText(textOf(node, "value") ?? "");
  const named = clientName(written);
  const problem = shown.readOnly
    ? READ_ONLY
    : named === undefined
      ? "The action names no PV"
      : (named.problem ?? (/\$[({]/.test(value) ? `${value}: a macro has no value` : undefined));
  const run = async (name: string): Promise<void> => {
    shown.report({ pv: name, kind: "sending", text: "Sending…" });
    const type = client.pv<TypeData>(name, TYPE).getSnapshot();
    const put = valueToPut(value, type?.display ?? null);
    shown.report(reportOf(name, await client.put(name, put, { checkLimits: true })));
  };
  return {
    type: "write_pv",
    label: described || `Write ${value} to ${written}`,
    pv: named?.name,
    problem,
    run: () => {
      if (named?.name !== undefined && problem === undefined) void run(named.name);
    },
  };
}
