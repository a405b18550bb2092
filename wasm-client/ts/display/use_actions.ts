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
import { stepsOf, type ScriptStep } from "./model/script.js";
import { valueToPut } from "./model/typed.js";
import { childOf, textOf, type XmlNode } from "./model/xml.js";
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
    default: {
      const steps = type === "execute" ? stepsOf(node) : undefined;
      if (steps !== undefined) return runSteps(steps, described, context);
      return {
        type,
        label: described || type,
        problem: `Actions ${type} are not available on a page`,
        run: () => undefined,
      };
    }
  }
}

/** The steps of a script, one after the other; a write that fails is the last. */
function runSteps(steps: readonly ScriptStep[], described: string, context: ActionContext): Action {
  const ready = steps.map((step): Step => {
    if (step.kind === "close") {
      return { label: "Close", run: () => done(context.shown.close) };
    }
    if (step.type === "open_display") {
      const { label, problem, run } = openDisplay(step.node, "", context);
      return { label, problem, run: () => done(run) };
    }
    const { label, problem, put, pv } = writePv(step.node, "", context);
    return { label, problem, pv, run: put };
  });
  const run = async (): Promise<void> => {
    for (const step of ready) if (!(await step.run())) return;
  };
  return {
    type: "execute",
    label: described || ready.map(({ label }) => label).join(", "),
    pv: ready.find(({ pv }) => pv !== undefined)?.pv,
    problem: ready.find(({ problem }) => problem !== undefined)?.problem,
    run: () => void run(),
  };
}

/** A step that is ready to run; its promise says whether the next one follows. */
interface Step extends Pick<Action, "label" | "problem" | "pv"> {
  readonly run: () => Promise<boolean>;
}

async function done(run: () => void): Promise<boolean> {
  run();
  return await Promise.resolve(true);
}

const lastPart = (path: string): string => path.replace(/^.*[/\\]/, "");

function openDisplay(node: XmlNode, described: string, context: ActionContext): Action {
  const { expandText, lookup, scope, shown } = context;
  // One after the other: a macro may use those before it.
  const macros = innerMacros(scope.macros, macrosOf(node));
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

interface Writing extends Action {
  /** Whether it was written. */
  readonly put: () => Promise<boolean>;
}

function writePv(node: XmlNode, described: string, context: ActionContext): Writing {
  const { client, expandText, shown } = context;
  const written = expandText(textOf(node, "pv_name") ?? "");
  const value = expandText(textOf(node, "value") ?? "");
  const isNumber = childOf(node, "value")?.attributes.type === "number";
  const named = clientName(written);
  const problem = shown.readOnly
    ? READ_ONLY
    : named === undefined
      ? "The action names no PV"
      : (named.problem ?? (/\$[({]/.test(value) ? `${value}: a macro has no value` : undefined));
  const put = async (): Promise<boolean> => {
    const name = named?.name;
    if (name === undefined || problem !== undefined) return false;
    shown.report({ pv: name, kind: "sending", text: "Sending…" });
    const type = client.pv<TypeData>(name, TYPE).getSnapshot();
    // A script's number is an enum's index, also where a label has its digits.
    const isIndex = type?.display?.type === "Enum" && isNumber;
    const taken = isIndex ? Number(value) : valueToPut(value, type?.display ?? null);
    const result = await client.put(name, taken, { checkLimits: true });
    shown.report(reportOf(name, result));
    return result.ok;
  };
  return {
    type: "write_pv",
    label: described || `Write ${value} to ${written}`,
    pv: named?.name,
    problem,
    put,
    run: () => void put(),
  };
}
