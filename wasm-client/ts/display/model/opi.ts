/**
 * Displays of BOY (`.opi`, CS-Studio 3 and 4) as trees of today's displays. Types and properties become what
 * Phoebus's converters make of them. What has no counterpart keeps its name, so that it is listed as not shown.
 */

import type { Defaults } from "./props.js";
import type { XmlNode } from "./xml.js";

// Imports of values would split the code that every display loads; these are as in xml.ts.
const childOf = (node: XmlNode, name: string): XmlNode | undefined =>
  node.children.find((child) => child.name === name);
const textOf = (node: XmlNode, name: string): string | undefined => childOf(node, name)?.text;

/** A table's entry; files may have names such as `constructor`. */
const entry = <V>(table: Readonly<Record<string, V>>, name: string): V | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

/** The defaults of today's types; `undefined` for a type that isn't shown. */
type Types = (type: string) => Defaults | undefined;

type Text = string | number | boolean;

/** A property by another name, and with another value. */
type Change = string | readonly [name: string, value: (text: string) => string];
type Changes = Readonly<Record<string, Change>>;

/** Reads a file's root as today's; a display in today's format is as it is. */
export const opiReader =
  (parse: (text: string) => XmlNode, types: Types) =>
  (text: string): XmlNode =>
    presentDisplay(parse(text), types);

/** A display in today's format. It keeps its version, by which rules read severities in BOY's order. */
function presentDisplay(root: XmlNode, types: Types): XmlNode {
  if (!(root.attributes.typeId ?? "").startsWith("org.csstudio.opibuilder.")) return root;
  const own = (name: string): readonly XmlNode[] => childOf(root, name)?.children ?? [];
  // Rules and actions of the display itself are listed as scripts that are not run.
  const missing = [...own("rules"), ...own("actions")].map(({ attributes, name }) =>
    make("script", [], {
      file: `the ${name} ${attributes.name ?? attributes.type ?? ""} of the display`,
    }),
  );
  const made = root.children.flatMap((child): readonly XmlNode[] => {
    if (child.name === "widget") return widgetsOf(child, types);
    if (child.name === "connection")
      return [make("widget", ["width", "height"].map(zero), CONNECTION)];
    if (child.name === "scripts") return [make("scripts", [...scriptsOf(child, {}), ...missing])];
    if (child.name === "macros") return [macrosOf(child)];
    return ["rules", "actions"].includes(child.name) ? [] : [child];
  });
  const ground = childOf(root, "background_color") === undefined ? [GREY] : [];
  const scripts = childOf(root, "scripts") === undefined ? [make("scripts", missing)] : [];
  const children = [...ground, ...scripts, ...made];
  return { ...root, children: grown(grown(children, "x", "width", 800), "y", "height", 600) };
}

/** BOY's size is that of the window, which scrolls to what is beyond it. */
function grown(
  children: readonly XmlNode[],
  at: string,
  size: string,
  otherwise: number,
): readonly XmlNode[] {
  const number = (node: XmlNode, name: string): number => Number(textOf(node, name)) || 0;
  const own = Number(children.find(({ name }) => name === size)?.text) || otherwise;
  const widgets = children.filter(({ name }) => name === "widget");
  const needed = widgets.reduce(
    (most, node) => Math.max(most, number(node, at) + number(node, size)),
    0,
  );
  if (needed <= own) return children;
  return [...children.filter(({ name }) => name !== size), make(size, needed)];
}

function make(
  name: string,
  inside: readonly XmlNode[] | Text = "",
  attributes: Readonly<Record<string, string>> = {},
): XmlNode {
  const children = typeof inside === "object" ? inside : [];
  return { name, attributes, children, text: typeof inside === "object" ? "" : String(inside) };
}

const CONNECTION = { type: "connection" };
const zero = (name: string): XmlNode => make(name, 0);
const colour = (red: number, green: number, blue: number, alpha = 255): XmlNode =>
  make("color", "", {
    red: String(red),
    green: String(green),
    blue: String(blue),
    alpha: String(alpha),
  });
const named = (name: string): XmlNode => make("color", "", { name });

/** BOY's background of a display. */
const GREY = make("background_color", [colour(240, 240, 240)]);

/** Today's type of each of BOY's; some depend on properties. */
const KINDS: Readonly<Record<string, string | undefined>> = Object.fromEntries(
  `ActionButton=action_button BoolButton=bool_button BoolSwitch=slide_button Ellipse=ellipse Image=picture
  ImageBoolButton=bool_button ImageBoolIndicator=symbol LED=led Label=label MenuButton=action_button
  NativeButton=action_button NativeText=textentry Rectangle=rectangle RoundedRectangle=rectangle
  TextInput=textentry TextUpdate=textupdate VTableDisplay=table arc=arc array=array bytemonitor=byte_monitor
  checkbox=checkbox choiceButton=choice combo=combo databrowser.opiwidget=databrowser gauge=meter
  groupingContainer=group intensityGraph=image knob=knob linkingContainer=embedded meter=meter polygon=polygon
  polyline=polyline progressbar=progressbar radioBox=radio scaledslider=scaledslider scrollbar=scrollbar
  spinner=spinner tab=tabs table=table tank=tank thermometer=thermometer webbrowser=webbrowser xyGraph=xyplot`
    .split(/\s+/)
    .map((pair) => pair.split("=") as [string, string]),
);

function kindOf(node: XmlNode, types: Types): string {
  const id = node.attributes.typeId ?? "";
  const type = id.replace(/^org\.csstudio\.(?:opibuilder\.widgets|trends)\./, "");
  const kind = entry(KINDS, type);
  const has = (name: string): boolean => childOf(node, name) !== undefined;
  const text = (name: string): string => textOf(node, name)?.trim() ?? "";
  switch (type) {
    case "TextUpdate":
    case "TextInput":
    case "NativeText": {
      const rules = childOf(node, "rules")?.children ?? [];
      const isRuled = rules.some(({ attributes }) => attributes.prop_id === "pv_name");
      return text("pv_name") === "" && text("text") !== "" && !isRuled ? "label" : (kind ?? type);
    }
    case "LED":
      return has("state_color_0") && text("state_count") !== "2" ? "multi_state_led" : "led";
    case "MenuButton": {
      const isEmpty = (childOf(node, "actions")?.children ?? []).length === 0;
      return isEmpty || text("actions_from_pv") !== "false" ? "combo" : "action_button";
    }
    case "xyGraph": {
      const isX = node.children.some(
        ({ name, text: pv }) => /^trace_\d+_x_pv$/.test(name) && pv.trim() !== "",
      );
      return isX || text("axis_0_time_format") === "0" ? "xyplot" : "stripchart";
    }
    default:
      // Another type's name isn't one of today's.
      return kind ?? (types(type) === undefined ? type : id);
  }
}

const FORMATS =
  "DEFAULT DECIMAL EXPONENTIAL HEX STRING HEX COMPACT ENGINEERING SEXAGESIMAL SEXAGESIMAL_HMS SEXAGESIMAL_DMS".split(
    " ",
  );
/** BOY's angles are clockwise. */
const stepOf = (angle: string): string => {
  const step = Math.floor(((((-Number(angle) % 360) + 360) % 360) + 45) / 90) % 4;
  return String(step || 0);
};
const ROTATED: Changes = { rotation_angle: ["rotation_step", stepOf] };
const FORMATTED: Changes = {
  ...ROTATED,
  format_type: ["format", (type) => FORMATS[Number(type)] ?? "DEFAULT"],
};
const LAMP: Changes = { bulb_border_color: "line_color", square_led: "square" };
const BAR: Changes = { scale_font: "font", show_scale: "scale_visible" };
const STEPS: Changes = { step_increment: "increment" };
/** Container to content, content to container, cut, and with scroll bars. */
const RESIZES = ["CONTENT", "WIDGET", "CROP", "NONE"];
const not = (text: string): string => String(text.trim() !== "true");

const CHANGES: Readonly<Record<string, Changes>> = {
  label: ROTATED,
  textupdate: FORMATTED,
  textentry: { format_type: FORMATTED.format_type ?? "", multiline_input: "multi_line" },
  polyline: { background_color: "line_color" },
  arc: { foreground_color: "line_color", fill: ["transparent", not] },
  led: LAMP,
  multi_state_led: {
    ...LAMP,
    state_color_fallback: "fallback_color",
    state_label_fallback: "fallback_label",
  },
  byte_monitor: { square_led: "square", label: "labels" },
  embedded: {
    opi_file: "file",
    resize_behaviour: ["resize", (at) => RESIZES[Number(at)] ?? "NONE"],
  },
  group: { border_color: "line_color" },
  picture: { image_file: "file", stretch_to_fit: "stretch_image", degree: "rotation" },
  symbol: { stretch_to_fit: ["preserve_ratio", not] },
  action_button: { label: "text" },
  bool_button: { toggle_button: ["mode", (isToggle) => (isToggle.trim() === "false" ? "1" : "0")] },
  combo: { actions_from_pv: "items_from_pv" },
  tank: { ...BAR, color_fillbackground: "empty_color" },
  progressbar: { ...BAR, color_fillbackground: "background_color" },
  thermometer: {},
  meter: { scale_font: "font", show_value_label: "show_value" },
  knob: { scale_font: "font", show_value_label: "show_value", ...STEPS },
  scaledslider: {
    ...STEPS,
    scale_font: "font",
    level_lo: "level_low",
    level_hi: "level_high",
    show_lo: "show_low",
    show_hi: "show_high",
    transparent_background: "transparent",
  },
  scrollbar: STEPS,
  spinner: STEPS,
  tabs: { minimum_tab_height: "tab_height" },
  databrowser: { filename: "file" },
  image: { show_ramp: "color_bar.visible" },
};

/** Without an effect in a page, or in today's types, such as looks of editors, depth and marks of scales. */
const WITHOUT_EFFECT = new Set(
  `alarm_pulsing_period anti_alias effect_3d style wuid widget_type scale_options pv_value next_focus
  show_native_border show_h_scroll show_v_scroll file_source file_return_part datetime_format on_state off_state
  boolean_label_position bulb_border show_boolean_label square_button show_down_arrow actions_from_pv
  push_action_index release_action_index released_action_index state_count lock_children fc
  bg_gradient_color fg_gradient_color horizontal_fill align_to_nearest_second permutation_matrix transparency
  color_lo color_hi color_lolo color_hihi level_lo level_hi show_lo show_hi show_hihi show_lolo level_lolo level_hihi
  origin origin_ignored value_label_format scale_format thumb_color ramp_gradient major_tick_step_hint
  page_increment show_minor_ticks show_value_label background_color font foreground_color graph_area_width
  graph_area_height rgb_mode color_depth
  show_plot_area_border horizontal_tabs tab_count column_headers led_border led_border_color led_packed
  transparent_background show_scale border_width border_color line_color transparent text state_value_fallback
  knob_color gradient_color scale_font selected_color show_value_labels
  precision_from_pv show_label wrap_words axis_count trace_count`.split(/\s+/),
);

/** Without an effect while they are false. */
const FALSE = new Set(
  `alarm_pulsing auto_size backcolor_alarm_sensitive border_alarm_sensitive fillcolor_alarm_sensitive
  forecolor_alarm_sensitive gradient indicator_mode log_scale no_animation password_input read_only show_markers
  show_scrollbar single_line_profiling stretch_to_fit toggle_button`.split(/\s+/),
);
/** Without an effect at these values. */
const NEUTRAL: Readonly<Record<string, RegExp>> = {
  alpha: /^255$/,
  data_type: /^0$/,
  enabled: /^true$/,
  fill_arrow: /^true$/,
  fill_level: /^(?:0(?:\.0*)?)?$/,
  format_type: /^0$/,
  pv_name: /^$/,
  roi_count: /^0$/,
  rotation_angle: /^0(?:\.0*)?$/,
  selector_type: /^0$/,
};
const ZERO = /^(?:crop_\w+|flip_\w+)$/;
/** Names of PVs of lines of an image. */
const OPTIONAL = /(?:_pv_name|_pv|image|confirm_message|trigger_value)$/;
/** Of plots and tabs, whose lists are made from them. */
const LISTED = /^(?:axis|trace|tab|roi|state|[xy]_axis)_|_pv_value$/;

/** The most traces, axes, tabs and states. */
const MAX_PARTS = 100;

/** A widget while it is made. */
class Draft {
  readonly node: XmlNode;
  readonly types: Types;
  readonly kind: string;
  /** What the type has; `undefined` for a type that isn't shown. */
  readonly known: Defaults | undefined;
  /** Beside it, in drawing order. */
  readonly more: XmlNode[] = [];
  changes: Changes;
  /** The style of a group around it; empty without one. */
  frame = "";
  #made = new Map<string, XmlNode>();

  constructor(node: XmlNode, types: Types) {
    this.node = node;
    this.types = types;
    this.kind = kindOf(node, types);
    this.known = types(this.kind);
    this.changes = entry(CHANGES, this.kind) ?? {};
  }

  /** BOY's property. */
  text(name: string): string {
    return textOf(this.node, name)?.trim() ?? "";
  }

  number(name: string, otherwise = 0): number {
    const text = this.text(name);
    return text === "" || Number.isNaN(Number(text)) ? otherwise : Number(text);
  }

  /** A number of parts, of which BOY has a few dozens. */
  count(name: string, otherwise: number): number {
    return Math.max(0, Math.min(MAX_PARTS, this.number(name, otherwise)));
  }

  has(name: string): boolean {
    return childOf(this.node, name) !== undefined;
  }

  isSet(name: string, otherwise = false): boolean {
    return this.has(name) ? this.text(name) === "true" : otherwise;
  }

  set(name: string, inside: Text | readonly XmlNode[]): void {
    this.#made.set(name, make(name, inside));
  }

  put(made: XmlNode): void {
    this.#made.set(made.name, made);
  }

  /** Under another name, if BOY's widget has it. */
  copy(from: string, to: string): void {
    const child = childOf(this.node, from);
    if (child !== undefined) this.#made.set(to, { ...valueOf(child), name: to });
  }

  drop(name: string): void {
    this.#made.delete(name);
  }

  move(x: number, y: number, width: number, height: number): void {
    const add = { x, y, width, height };
    for (const [name, more] of Object.entries(add)) {
      if (more !== 0 && this.has(name)) this.set(name, this.number(name) + more);
    }
  }

  /** Everything that has a counterpart, and what has none but an effect. */
  start(): void {
    const renamed = Object.entries(this.changes).filter(([from]) => this.has(from));
    // A field without a PV is a label.
    const isOther = this.kind === "label" && !this.node.attributes.typeId?.endsWith(".Label");
    for (const child of this.node.children) {
      const { name, text } = child;
      if (name === "widget" || Object.hasOwn(this.changes, name)) continue;
      const isKnown = this.known !== undefined && Object.hasOwn(this.known, name);
      const isLeft = isKnown || (!isOther && !hasNoEffect(name, text.trim()));
      if (isLeft) this.#made.set(name, valueOf(child));
    }
    for (const [from, to] of renamed) {
      if (typeof to === "string") this.copy(from, to);
      else this.set(to[0], to[1](this.text(from)));
    }
  }

  /** Today's name of a property that a rule sets. */
  ruled(id: string): Change {
    return entry(this.changes, id) ?? plotPath(this.kind, id) ?? id;
  }

  end(): XmlNode[] {
    const children = this.node.children.filter(({ name }) => name === "widget");
    const inner = this.#made.has("tabs")
      ? []
      : children.flatMap((child) => widgetsOf(child, this.types));
    const made = make("widget", [...this.#made.values(), ...inner], { type: this.kind });
    const all = [made, ...this.more];
    return this.frame === "" ? all : [this.#framed(all)];
  }

  #framed(inside: readonly XmlNode[]): XmlNode {
    const same = ["name", "x", "y", "width", "height"].map((name) => make(name, this.text(name)));
    const ink = this.frame === "TITLE" ? "background_color" : "border_color";
    const looks = (
      [
        ["border_color", "line_color"],
        [ink, "foreground_color"],
        ["font", "font"],
      ] as const
    ).flatMap(([from, name]) => {
      const child = childOf(this.node, from);
      return child === undefined ? [] : [{ ...valueOf(child), name }];
    });
    const own = [...same, ...looks, make("style", this.frame), make("transparent", true)];
    return make("widget", [...own, ...inside], { type: "group" });
  }
}

function hasNoEffect(name: string, text: string): boolean {
  if (FALSE.has(name)) return text === "false";
  const neutral = entry(NEUTRAL, name);
  if (neutral !== undefined) return neutral.test(text);
  if (WITHOUT_EFFECT.has(name) || LISTED.test(name)) return true;
  if (ZERO.test(name)) return /^(?:0|false)$/.test(text);
  return OPTIONAL.test(name) && text === "";
}

/** The widget, and those beside it that it needs. */
function widgetsOf(node: XmlNode, types: Types): XmlNode[] {
  const draft = new Draft(node, types);
  draft.start();
  fillOf(draft);
  common(draft);
  borderOf(draft);
  entry(HOW, draft.kind)?.(draft);
  draft.set("rules", [...rulesOf(draft), ...alarmRules(draft)]);
  draft.set("scripts", scriptsOf(childOf(node, "scripts"), draft.changes));
  return draft.end();
}

/** Without a PV there is no alarm. */
const SENSITIVE = [
  "forecolor_alarm_sensitive",
  "backcolor_alarm_sensitive",
  "border_alarm_sensitive",
];

function common(draft: Draft): void {
  const { kind, known, node } = draft;
  const macros = childOf(node, "macros");
  const pv = draft.text("pv_name");
  // Types without a PV have its name as a macro.
  const isPlot = kind === "xyplot" || kind === "stripchart";
  const isMacro = known !== undefined && !Object.hasOwn(known, "pv_name") && (isPlot || pv !== "");
  if (isMacro) draft.drop("pv_name");
  const own = [...(isMacro ? [make("pv_name", pv)] : []), ...macrosOf(macros).children];
  draft.set("macros", own);
  if (pv === "") for (const name of SENSITIVE) draft.drop(name);
  // BOY's texts of arrays of characters.
  const plain = pv.replace(/ \{"longString":true\}$/, "");
  if (plain !== pv && !isMacro) {
    draft.set("pv_name", plain);
    draft.set("format", "STRING");
  }
  actionsOf(draft);
  if (kind === "textupdate" || kind === "textentry") formatOf(draft);
}

function formatOf(draft: Draft): void {
  const type = draft.number("format_type");
  if (type === 3 || type === 5) draft.set("precision", type === 3 ? 8 : 16);
  if (draft.isSet("precision_from_pv")) draft.set("precision", -1);
}

function macrosOf(node: XmlNode | undefined): XmlNode {
  const own = (node?.children ?? []).filter(({ name }) => name !== "include_parent_macros");
  return make("macros", own);
}

/** A value, with its font as today. */
function valueOf(node: XmlNode): XmlNode {
  const children = node.children.map((child) => {
    if (child.name === "s") return { ...child, name: "item" };
    return child.name === "opifont.name" || child.name === "fontdata" ? fontOf(child) : child;
  });
  return { ...node, children };
}

const STYLES = ["REGULAR", "BOLD", "ITALIC", "BOLD_ITALIC"];

/** Heights are in points unless the file says pixels. */
function fontOf({ attributes, name, text }: XmlNode): XmlNode {
  const { fontName, height, pixels, style } = attributes;
  const size = Number(height) / (pixels === "true" ? 1 : 0.75);
  return make("font", "", {
    ...(name === "fontdata" ? {} : { name: text.trim() }),
    ...(fontName === undefined ? {} : { family: fontName }),
    ...(size > 0 ? { size: String(Math.round(100 * size) / 100) } : {}),
    style: STYLES[Number(style)] ?? "REGULAR",
  });
}

/** Shapes are filled with their foreground up to a level; only none and all of it can be shown. */
function fillOf(draft: Draft): void {
  if (draft.known === undefined || !Object.hasOwn(draft.known, "line_style")) return;
  if (!draft.has("line_width")) draft.set("line_width", draft.kind === "polyline" ? 1 : 0);
  if (draft.kind === "polyline" || draft.kind === "polygon") pointsOf(draft);
  if (draft.kind !== "arc" && draft.number("fill_level") >= 100) {
    const target = draft.kind === "polyline" ? "line_color" : "background_color";
    draft.changes = { ...draft.changes, foreground_color: target };
    draft.copy("foreground_color", target);
    draft.drop("fill_level");
    if (draft.kind !== "polyline") draft.set("transparent", false);
  }
}

/** BOY's points are relative to what is around the widget. */
function pointsOf(draft: Draft): void {
  const [x, y] = [draft.number("x"), draft.number("y")];
  const points = (childOf(draft.node, "points")?.children ?? []).map(({ attributes }) =>
    make("point", "", {
      x: String(Number(attributes.x) - x),
      y: String(Number(attributes.y) - y),
    }),
  );
  draft.set("points", points);
}

/** Numbers of BOY's borders: none, lowered and empty ones have no line. */
const NO_LINE = ["none", "0", "3", "15", ""];
const RAISED = ["2", "4", "5", "6", "7"];
/** These look raised anyway. */
const BUTTONS = ["action_button", "bool_button", "choice", "combo"];

/** A border that is inside the widget's box, as in BOY. */
function borderOf(draft: Draft): void {
  const style = draft.text("border_style").toLowerCase();
  const isLine = !NO_LINE.includes(style) && draft.number("border_width", 1) > 0;
  draft.drop("border_style");
  if (draft.kind === "group") return;
  if (draft.kind === "rectangle") outlineOf(draft, style);
  else if (draft.known !== undefined && Object.hasOwn(draft.known, "border_width")) {
    if (!draft.has("border_style")) return;
    if (!isLine) draft.set("border_width", 0);
    if (RAISED.includes(style)) draft.set("border_color", [named("Text")]);
    if (style === "14") draft.set("transparent", false);
    // Titles are shown by a group around an embedded display.
    if (["12", "13"].includes(style) && draft.kind !== "embedded") keepBorder(draft);
  } else if (isLine && !(BUTTONS.includes(draft.kind) && RAISED.includes(style))) keepBorder(draft);
}

const keepBorder = (draft: Draft): void => {
  draft.copy("border_style", "border_style");
};

/** Line styles of the borders from 8 on. */
const OUTLINES = ["DOT", "DASH", "DASHDOT", "DASHDOTDOT"];

/** A rectangle's border is its line, if it is the wider one. */
function outlineOf(draft: Draft, style: string): void {
  if (NO_LINE.includes(style)) return;
  if (draft.number("line_width", -1) > draft.number("border_width", -1)) return;
  draft.copy("border_color", "line_color");
  draft.copy("border_width", "line_width");
  const line = OUTLINES[Number(style) - 8];
  if (line !== undefined) draft.set("line_style", line);
}

/** A widget's rules, with today's names and values of what they set. */
function rulesOf(draft: Draft): XmlNode[] {
  return (childOf(draft.node, "rules")?.children ?? []).map((rule) => {
    const { out_exp, prop_id = "" } = rule.attributes;
    const change = draft.ruled(prop_id);
    // An expression has a value of BOY's, which would have to be another number.
    const isLost = typeof change !== "string" && out_exp === "true";
    const name = isLost ? prop_id : typeof change === "string" ? change : change[0];
    const changed = (value: XmlNode): XmlNode =>
      typeof change === "string" || isLost
        ? valueOf(value)
        : { ...value, text: change[1](value.text) };
    const children = rule.children.map((child) =>
      child.name === "exp" ? { ...child, children: child.children.map(changed) } : pvOf(child),
    );
    return { ...rule, attributes: { ...rule.attributes, prop_id: name }, children };
  });
}

const pvOf = (pv: XmlNode): XmlNode =>
  make("pv_name", pv.text.trim(), pv.attributes.trig === "false" ? { trigger: "false" } : {});

/** Colours that follow the alarm of the widget's PV, as rules. BOY's order: major, minor, and -1 for invalid. */
function alarmRules(draft: Draft): XmlNode[] {
  if (draft.text("pv_name") === "") return [];
  const colours = [
    ["forecolor_alarm_sensitive", "foreground_color"],
    ["backcolor_alarm_sensitive", "background_color"],
  ] as const;
  return colours.flatMap(([sensitive, name]) => {
    const change = entry(draft.changes, name) ?? name;
    const isKnown = typeof change === "string" && Object.hasOwn(draft.known ?? {}, change);
    if (!draft.isSet(sensitive) || !isKnown) return [];
    draft.drop(sensitive);
    const branch = (severity: number, alarm: string): XmlNode =>
      make("exp", [make("value", [named(alarm)])], { bool_exp: `pvSev0 == ${String(severity)}` });
    const inside = [
      branch(1, "Major"),
      branch(2, "Minor"),
      branch(-1, "Invalid"),
      make("pv_name", "$(pv_name)"),
    ];
    return [make("rule", inside, { name: sensitive, prop_id: change, out_exp: "false" })];
  });
}

/** Scripts, which set properties by today's names. */
function scriptsOf(scripts: XmlNode | undefined, changes: Changes): XmlNode[] {
  return (scripts?.children ?? []).map((path) => {
    const code = (textOf(path, "scriptText") ?? "").replace(
      /(setPropertyValue\(\s*["'])(\w+)(?=["'])/g,
      (whole, before: string, name: string) => {
        const change = entry(changes, name);
        return typeof change === "string" ? before + change : whole;
      },
    );
    const pvs = path.children.filter(({ name }) => name === "pv").map(pvOf);
    const text = childOf(path, "scriptText") === undefined ? [] : [make("text", code)];
    return make("script", [...text, ...pvs], { file: path.attributes.pathString ?? "" });
  });
}

/** Where a display is opened: BOY's older and newer numbers. */
const REPLACES = ["tab", "replace", "window"];
const targetOf = (replace: string | undefined, mode: string | undefined): string => {
  if (replace !== undefined) return REPLACES[Number(replace)] ?? "replace";
  const number = Number(mode ?? 0);
  return number === 0 ? "replace" : number === 7 ? "window" : number === 8 ? "standalone" : "tab";
};

function actionsOf(draft: Draft): void {
  const list = childOf(draft.node, "actions");
  const questions = new Set<string>();
  const actions = (list?.children ?? []).map((action) => {
    const message = textOf(action, "confirm_message")?.trim() ?? "";
    if (message !== "") questions.add(message);
    // Only buttons ask before their actions.
    const isAsked = message !== "" && draft.kind !== "action_button";
    const made = actionOf(action);
    return isAsked
      ? { ...made, attributes: { type: `${made.attributes.type ?? ""} after a question` } }
      : made;
  });
  const [message] = questions;
  if (message !== undefined && draft.kind === "action_button") {
    draft.set("show_confirm_dialog", true);
    draft.set("confirm_message", message);
  }
  const all = { execute_as_one: String(list?.attributes.hook_all === "true") };
  if (list !== undefined) draft.put(make("actions", actions, all));
}

/** An action by today's name; another one keeps its own, and is listed. */
function actionOf(action: XmlNode): XmlNode {
  const type = (action.attributes.type ?? "").toUpperCase();
  const text = (name: string): string => textOf(action, name)?.trim() ?? "";
  const description = text("description") === "" ? [] : [make("description", text("description"))];
  const made = (as: string, ...inside: XmlNode[]): XmlNode =>
    make("action", [...description, ...inside], { type: as });
  switch (type) {
    case "OPEN_DISPLAY":
    case "OPEN_OPI_IN_VIEW":
    case "OPEN_PHOEBUS": {
      const target = targetOf(textOf(action, "replace")?.trim(), textOf(action, "mode")?.trim());
      const file = make("file", text("path"));
      return made(
        "open_display",
        file,
        macrosOf(childOf(action, "macros")),
        make("target", target),
      );
    }
    case "WRITE_PV":
      return made("write_pv", make("pv_name", text("pv_name")), make("value", text("value")));
    case "OPEN_WEBPAGE":
      return made("open_webpage", make("url", text("hyperlink")));
    case "OPEN_FILE":
      return made("open_file", make("file", text("path")));
    case "EXECUTE_CMD":
      return made("command", make("command", text("command")));
    case "EXECUTE_PYTHONSCRIPT":
    case "EXECUTE_JAVASCRIPT": {
      const language = type === "EXECUTE_JAVASCRIPT" ? "EmbeddedJs" : "EmbeddedPy";
      const file = text("embedded") === "true" ? language : text("path");
      return made("execute", make("script", [make("text", text("scriptText"))], { file }));
    }
    default:
      return made(type.toLowerCase());
  }
}

const AXIS: Changes = {
  auto_scale: "autoscale",
  axis_color: "color",
  axis_title: "title",
  left_bottom_side: ["on_right", not],
  log_scale: "log_scale",
  maximum: "maximum",
  minimum: "minimum",
  show_grid: "show_grid",
  visible: "visible",
};
const TRACE_TYPES = ["LINE", "LINE", "NONE", "BARS", "LINE", "LINE", "STEP"];
const POINTS = "NONE CIRCLES CIRCLES TRIANGLES TRIANGLES SQUARES SQUARES DIAMONDS DIAMONDS".split(
  " ",
);
const TRACE: Changes = {
  line_width: "line_width",
  name: "name",
  point_size: "point_size",
  point_style: ["point_type", (style) => POINTS[Number(style)] ?? "X"],
  trace_color: "color",
  trace_type: ["trace_type", (type) => TRACE_TYPES[Number(type)] ?? "LINE"],
  visible: "visible",
  x_pv: "x_pv",
  y_axis_index: ["axis", (index) => String(Math.max(0, Number(index) - 1))],
  y_pv: "y_pv",
};

/** The path of what a rule sets of a plot. */
function plotPath(kind: string, id: string): Change | undefined {
  const [, list = "", at = "", name = ""] =
    /^(axis|trace|[xy]_axis)(?:_(\d+))?_(\w+)$/.exec(id) ?? [];
  const isPlot = kind === "xyplot" || kind === "stripchart";
  if (!(at === "" ? kind === "image" && list !== "axis" : isPlot)) return undefined;
  const change = entry(list === "trace" ? TRACE : AXIS, name);
  const path =
    list === "trace"
      ? `traces[${at}]`
      : at === ""
        ? list
        : at === "0"
          ? "x_axis"
          : `y_axes[${String(Number(at) - 1)}]`;
  if (change === undefined) return undefined;
  return typeof change === "string" ? `${path}.${change}` : [`${path}.${change[0]}`, change[1]];
}

/** The properties with this beginning as those of an inner element. */
function innerOf(draft: Draft, name: string, beginning: string, changes: Changes): XmlNode {
  const inside = Object.entries(changes).flatMap(([from, to]): XmlNode[] => {
    const child = childOf(draft.node, beginning + from);
    if (child === undefined) return [];
    if (typeof to !== "string") return [make(to[0], to[1](child.text))];
    // A trace's name is often that of its PV.
    const text = child.text.replace(/\$\((trace_\d+_y_pv)\)/g, (_, pv: string) => draft.text(pv));
    return [{ ...child, name: to, text }];
  });
  return make(name, inside);
}

function plotOf(draft: Draft): void {
  const axes = Array.from({ length: draft.count("axis_count", 2) }, (_, at) => at).slice(1);
  const ys = axes.filter((at) => draft.isSet(`axis_${String(at)}_y_axis`, true));
  const isXy = draft.kind === "xyplot";
  const traces = Array.from({ length: draft.count("trace_count", 1) }, (_, at) => {
    const beginning = `trace_${String(at)}_`;
    const index = draft.number(`${beginning}y_axis_index`, 1);
    const trace = innerOf(draft, "trace", beginning, TRACE);
    const withLegend = draft.isSet("show_legend", true);
    const children = trace.children.map((child) => {
      if (child.name === "axis") return make("axis", Math.max(0, ys.indexOf(index)));
      return child.name === "name" && !withLegend ? make("name") : child;
    });
    const isDashed = draft.text(`${beginning}trace_type`) === "1";
    return make("trace", isDashed ? [...children, make("line_style", "DASH")] : children);
  });
  draft.set("traces", traces);
  const yAxes = ys.map((at) => innerOf(draft, "y_axis", `axis_${String(at)}_`, AXIS));
  draft.set("y_axes", yAxes);
  if (isXy) draft.put(innerOf(draft, "x_axis", "axis_0_", AXIS));
  const joined = traces.some((_, at) => draft.isSet(`trace_${String(at)}_concatenate_data`));
  // The samples of a number are shown by strip charts only.
  if (isXy && joined) draft.set("concatenate_data", true);
  if (draft.text("tooltip").startsWith("$(trace_0_y_pv)")) draft.drop("tooltip");
  draft.set("background_color", [named("Background")]);
  draft.copy("plot_area_background_color", "background_color");
  draft.drop("plot_area_background_color");
  if (draft.isSet("transparent")) draft.set("background_color", [colour(0, 0, 0, 0)]);
  draft.set("foreground_color", [named("Text")]);
  draft.copy("axis_0_axis_color", "foreground_color");
}

function imageOf(draft: Draft): void {
  draft.set("autoscale", false);
  draft.set("background_color", [colour(0, 0, 0, 0)]);
  draft.drop("color_bar.visible");
  draft.set("color_bar", [make("visible", draft.isSet("show_ramp", true))]);
  for (const axis of ["x_axis", "y_axis"]) draft.put(innerOf(draft, axis, `${axis}_`, AXIS));
}

/** The content of each tab is a group. */
function tabsOf(draft: Draft): void {
  const groups = draft.node.children.filter(({ name }) => name === "widget");
  const tabs = Array.from({ length: draft.count("tab_count", groups.length) }, (_, at) => {
    const group = groups[at];
    const inner = group?.children.filter(({ name }) => name === "widget") ?? [];
    // Macros and rules of the group hold for what is in it.
    const own = group && [childOf(group, "macros"), childOf(group, "rules")];
    const isPlain = own?.every((each) => (each?.children ?? []).every(isParents)) ?? true;
    const shown = isPlain || group === undefined ? inner : [group];
    const children = shown.flatMap((child) => widgetsOf(child, draft.types));
    const name = make("name", draft.text(`tab_${String(at)}_title`));
    return make("tab", [name, make("children", children)]);
  });
  draft.set("tabs", tabs);
  if (!draft.isSet("horizontal_tabs", true)) draft.set("direction", "VERTICAL");
  draft.copy("tab_0_font", "font");
  const isShut = tabs.some((_, at) => !draft.isSet(`tab_${String(at)}_enabled`, true));
  if (isShut) draft.set("tab_enabled", false);
}

const isParents = ({ name }: XmlNode): boolean => name === "include_parent_macros";

/** A group's frame by the number of BOY's border. */
const styleOf = (style: string): string =>
  ["0", "15", "none"].includes(style)
    ? "NONE"
    : style === "12"
      ? "TITLE"
      : style === "13" || style === ""
        ? "GROUP"
        : "LINE";

function groupOf(draft: Draft): void {
  const style = styleOf(draft.text("border_style"));
  draft.set("style", style);
  draft.copy(style === "TITLE" ? "background_color" : "border_color", "foreground_color");
  draft.drop("border_style");
  draft.drop("show_scrollbar");
}

/** Room of a group's frame around an embedded display. */
const INSETS: Readonly<Record<string, readonly [across: number, down: number]>> = {
  TITLE: [2, 20],
  GROUP: [30, 30],
};

function embeddedOf(draft: Draft): void {
  draft.set("transparent", true);
  const style = styleOf(draft.text("border_style"));
  const inset = draft.has("border_style") ? INSETS[style] : undefined;
  if (inset === undefined) return;
  for (const name of ["x", "y", "border_width"]) draft.drop(name);
  draft.set("width", draft.number("width") - inset[0]);
  draft.set("height", draft.number("height") - inset[1]);
  draft.set("name", `${draft.text("name")}_Content`);
  draft.frame = style;
}

function ledOf(draft: Draft): void {
  const isLabelled = draft.isSet("show_boolean_label", true);
  if (draft.kind === "multi_state_led") {
    const states: XmlNode[] = [];
    for (let at = 0; at < MAX_PARTS && draft.has(`state_color_${String(at)}`); at += 1) {
      const inside = ["color", "value", "label"].flatMap((part) => {
        const child = childOf(draft.node, `state_${part}_${String(at)}`);
        if (child === undefined) return [];
        return [part === "label" && !isLabelled ? make(part) : { ...child, name: part }];
      });
      states.push(make("state", inside));
    }
    draft.set("states", states);
    if (draft.number("bit", -1) < 0) draft.drop("bit");
  } else if (!isLabelled) withoutLabels(draft);
  // A border that shows an alarm has its room around the lamp.
  if (!draft.isSet("border_alarm_sensitive", true)) return;
  const isPlain = draft.number("border_style") <= 0;
  const border = isPlain ? 2 : draft.number("border_width", 1);
  draft.move(border, border, -2 * border, -2 * border);
}

const LABELS = ["off_label", "on_label"];

function withoutLabels(draft: Draft): void {
  for (const name of LABELS) draft.set(name, "");
}

function boolButtonOf(draft: Draft): void {
  if (!draft.isSet("show_boolean_label", true)) withoutLabels(draft);
  if (draft.isSet("show_led", true)) return;
  // Without its lamp the button is darker while it is on.
  const { attributes } =
    childOf(childOf(draft.node, "background_color") ?? draft.node, "color") ?? named("");
  const part = (name: string): number => Math.trunc(0.8 * Number(attributes[name] ?? 0));
  draft.copy("background_color", "off_color");
  draft.set("on_color", [colour(part("red"), part("green"), part("blue"))]);
}

function buttonOf(draft: Draft): void {
  const isPlain = draft.text("pv_name") === "";
  const tooltip = draft.text("tooltip").replace("pv_value", "actions");
  draft.set("tooltip", isPlain ? tooltip.replace("$(pv_name)\n", "") : tooltip);
  if (isPlain && draft.text("label") === "" && !draft.has("text")) {
    draft.set("text", draft.isSet("show_down_arrow") ? "▾" : "");
  }
}

function entryOf(draft: Draft): void {
  if (draft.isSet("transparent")) draft.set("background_color", [colour(0, 0, 0, 0)]);
  if (draft.isSet("read_only")) {
    draft.set("enabled", false);
    draft.drop("read_only");
  }
  const hasLimits = ["minimum", "maximum"].some(
    (name) => Math.abs(draft.number(name, 1e308)) < 1e307,
  );
  const names = ["minimum", "maximum", "limits_from_pv"];
  // Writes keep to the limits of the PV.
  if (draft.isSet("limits_from_pv") || !hasLimits) for (const name of names) draft.drop(name);
  const selector = draft.number("selector_type");
  if (selector !== 0) draft.set("format", "STRING");
  if (selector !== 1) return;
  draft.drop("selector_type");
  const width = draft.number("width");
  draft.set("width", width - 40);
  const parts = ["0", "2", "3", "1"];
  const same = ["y", "height", "pv_name"].map((name) => make(name, draft.text(name)));
  draft.more.push(
    make(
      "widget",
      [
        ...same,
        make("x", draft.number("x") + width - 40),
        make("component", parts[draft.number("file_return_part")] ?? "0"),
      ],
      { type: "fileselector" },
    ),
  );
}

function barOf(draft: Draft): void {
  if (draft.isSet("show_markers", true)) draft.move(0, 25, 0, -25);
  if (!draft.isSet("show_label", true)) return;
  const same = ["x", "y", "width", "height", "pv_name"].map((name) => make(name, draft.text(name)));
  const looks = [make("transparent", true), make("horizontal_alignment", "CENTER")];
  const name = make("name", `${draft.text("name")} Label`);
  draft.more.push(make("widget", [name, ...same, ...looks], { type: "textupdate" }));
}

function tankOf(draft: Draft): void {
  const marks = ["hi", "hihi", "lo", "lolo"].some((each) => draft.isSet(`show_${each}`, true));
  if (!marks) draft.drop("show_markers");
  if (draft.isSet("show_markers", true) && marks) {
    draft.set("width", Math.max(draft.number("width") - 50, 50));
  }
}

const MARKS = ["show_lolo", "show_low", "show_high", "show_hihi"];

function meterOf(draft: Draft): void {
  const marks = ["hi", "hihi", "lo", "lolo"].some((each) => draft.isSet(`show_${each}`, true));
  if (!marks || !draft.isSet("show_markers", true)) draft.set("show_limits", false);
  draft.drop("show_markers");
}

function sliderOf(draft: Draft): void {
  const isShown = draft.isSet("show_markers", true) && draft.isSet("show_scale", true);
  if (!isShown) for (const name of MARKS) draft.set(name, false);
  draft.drop("show_markers");
}

function symbolOf(draft: Draft): void {
  const files = ["off_image", "on_image"].map((name) => draft.text(name));
  draft.set(
    "symbols",
    files.map((file) => make("symbol", file)),
  );
  // Every number but 0 is on.
  draft.set("fallback_symbol", files[1] ?? "");
  const names = ["off_label", "on_label", "off_color", "on_color", "off_image", "on_image"];
  for (const name of names) draft.drop(name);
  if (draft.number("bit", -1) < 0) draft.drop("bit");
  if (draft.isSet("show_boolean_label")) draft.set("show_boolean_label", true);
}

function tableOf(draft: Draft): void {
  const rows = childOf(draft.node, "column_headers")?.children ?? [];
  if (rows.length === 0) return;
  const columns = rows.map(({ children: [name, width, editable] }) =>
    make("column", [
      make("name", name?.text ?? ""),
      ...(width?.text ? [make("width", width.text)] : []),
      make("editable", editable?.text.toLowerCase() !== "no"),
    ]),
  );
  draft.set("columns", columns);
}

/** What each type needs besides. */
const HOW: Readonly<Record<string, (draft: Draft) => void>> = {
  action_button: buttonOf,
  bool_button: boolButtonOf,
  combo: (draft) => {
    draft.drop("label");
  },
  embedded: embeddedOf,
  group: groupOf,
  image: imageOf,
  label: (draft) => {
    if (!draft.has("vertical_alignment")) draft.set("vertical_alignment", "MIDDLE");
  },
  led: ledOf,
  meter: meterOf,
  multi_state_led: ledOf,
  progressbar: barOf,
  scaledslider: sliderOf,
  slide_button: (draft) => {
    draft.set("label", "");
    if (!draft.isSet("show_boolean_label", true)) for (const name of LABELS) draft.drop(name);
    if (draft.isSet("toggle_button", true)) draft.drop("toggle_button");
  },
  stripchart: plotOf,
  symbol: symbolOf,
  table: tableOf,
  tabs: tabsOf,
  tank: tankOf,
  textentry: entryOf,
  thermometer: (draft) => {
    draft.drop("show_markers");
  },
  xyplot: plotOf,
};
