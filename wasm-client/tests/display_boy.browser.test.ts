/** Displays of BOY as they are read: each as the same display of today. */

import { describe, expect, it } from "vitest";
import { inspect } from "../ts/display/model/inspect.js";
import { defaultsOf } from "../ts/display/model/defaults.js";
import {
  actionsOf,
  isLegacy,
  macrosOf,
  parseDisplay,
  type WidgetSource,
} from "../ts/display/model/file.js";
import { opiReader } from "../ts/display/model/opi.js";
import { evaluate, rulesOf, type RulePv } from "../ts/display/model/rules.js";
import { scriptRules, stepsOf } from "../ts/display/model/script.js";
import { parseXml, textOf, type XmlNode } from "../ts/display/model/xml.js";

const display = (inside: string): string => `<display version="2.0.0">${inside}</display>`;

const parseOpi = opiReader(parseXml, defaultsOf);
const boyFile = (inside: string, address?: string) => {
  const root = `<display typeId="org.csstudio.opibuilder.Display" version="1.0.0">`;
  return parseDisplay(`${root}${inside}</display>`, address, "display", parseOpi);
};
const boy = (type: string, inside = ""): string =>
  `<widget typeId="org.csstudio.opibuilder.widgets.${type}" version="1.0.0">${inside}</widget>`;
const bob = (type: string, inside = ""): string => `<widget type="${type}">${inside}</widget>`;

/** An element without its order, and without lists that are empty. */
function plain({ attributes, children, name, text }: XmlNode): unknown {
  const { version, ...others } = attributes;
  const inner = children
    .filter(
      (child) =>
        child.children.length > 0 || !/^(?:macros|rules|scripts|actions)$/.test(child.name),
    )
    .map(plain);
  return [
    name,
    others,
    name === "display" ? version : "",
    text.trim(),
    inner.map((each) => JSON.stringify(each)).sort(),
  ];
}

const RED = '<color red="255" green="0" blue="0"/>';
const BLUE = '<color red="0" green="0" blue="255"/>';

describe("a display of BOY", () => {
  it.each([
    [
      "a label",
      boy(
        "Label",
        "<text>A</text><wrap_words>false</wrap_words><rotation_angle>90.0</rotation_angle>",
      ),
      bob(
        "label",
        "<text>A</text><wrap_words>false</wrap_words><rotation_step>3</rotation_step><vertical_alignment>MIDDLE</vertical_alignment>",
      ),
    ],
    [
      "a format and a precision of the PV",
      boy(
        "TextUpdate",
        "<pv_name>A</pv_name><text>###</text><format_type>2</format_type><precision>3</precision><precision_from_pv>true</precision_from_pv>",
      ),
      bob(
        "textupdate",
        "<pv_name>A</pv_name><format>EXPONENTIAL</format><precision>-1</precision>",
      ),
    ],
    [
      "hexadecimal numbers",
      boy("TextUpdate", "<pv_name>A</pv_name><format_type>5</format_type><precision>2</precision>"),
      bob("textupdate", "<pv_name>A</pv_name><format>HEX</format><precision>16</precision>"),
    ],
    [
      "a long text",
      boy(
        "TextInput",
        '<pv_name>A.$ {"longString":true}</pv_name><multiline_input>true</multiline_input>',
      ),
      bob(
        "textentry",
        "<pv_name>A.$</pv_name><format>STRING</format><multi_line>true</multi_line>",
      ),
    ],
    [
      "a field that is only read",
      boy(
        "TextInput",
        "<pv_name>A</pv_name><read_only>true</read_only><transparent>true</transparent><minimum>-Infinity</minimum>",
      ),
      bob(
        "textentry",
        '<pv_name>A</pv_name><enabled>false</enabled><background_color><color red="0" green="0" blue="0" alpha="0"/></background_color>',
      ),
    ],
    [
      "a text without a PV",
      boy(
        "TextUpdate",
        "<pv_name></pv_name><text>A</text><vertical_alignment>0</vertical_alignment>",
      ),
      bob("label", "<text>A</text><vertical_alignment>0</vertical_alignment>"),
    ],
    [
      "a choice of files",
      boy(
        "TextInput",
        "<pv_name>A</pv_name><x>5</x><y>6</y><width>100</width><height>20</height><selector_type>1</selector_type><file_return_part>1</file_return_part>",
      ),
      bob(
        "textentry",
        "<pv_name>A</pv_name><x>5</x><y>6</y><width>60</width><height>20</height><format>STRING</format>",
      ) +
        bob(
          "fileselector",
          "<pv_name>A</pv_name><x>65</x><y>6</y><height>20</height><component>2</component>",
        ),
    ],
    [
      "fonts by name, in points and in pixels",
      boy(
        "Label",
        '<font><opifont.name fontName="Sans" height="9" style="3">Header</opifont.name></font><vertical_alignment>1</vertical_alignment>',
      ) +
        boy(
          "LED",
          '<font><fontdata fontName="Sans" height="14" style="1" pixels="true"/></font><border_alarm_sensitive>false</border_alarm_sensitive>',
        ),
      bob(
        "label",
        '<font><font name="Header" family="Sans" size="12" style="BOLD_ITALIC"/></font><vertical_alignment>1</vertical_alignment>',
      ) + bob("led", '<font><font family="Sans" size="14" style="BOLD"/></font>'),
    ],
    [
      "borders: none, a line, a raised one",
      [
        boy(
          "TextUpdate",
          `<pv_name>A</pv_name><border_style>0</border_style><border_width>1</border_width>`,
        ),
        boy(
          "TextUpdate",
          `<pv_name>A</pv_name><border_style>1</border_style><border_width>2</border_width><border_color>${RED}</border_color>`,
        ),
        boy(
          "TextUpdate",
          `<pv_name>A</pv_name><border_style>2</border_style><border_width>1</border_width>`,
        ),
      ].join(""),
      bob("textupdate", "<pv_name>A</pv_name><border_width>0</border_width>") +
        bob(
          "textupdate",
          `<pv_name>A</pv_name><border_width>2</border_width><border_color>${RED}</border_color>`,
        ) +
        bob(
          "textupdate",
          `<pv_name>A</pv_name><border_width>1</border_width><border_color><color name="Text"/></border_color>`,
        ),
    ],
    [
      "a rectangle's border, and its PV as a macro",
      boy(
        "Rectangle",
        `<pv_name>A</pv_name><border_style>9</border_style><border_width>2</border_width><border_color>${RED}</border_color><line_width>1</line_width><line_color>${BLUE}</line_color>`,
      ),
      bob(
        "rectangle",
        `<macros><pv_name>A</pv_name></macros><line_width>2</line_width><line_color>${RED}</line_color><line_style>DASH</line_style>`,
      ),
    ],
    [
      "a filled shape",
      boy(
        "Ellipse",
        `<fill_level>100.0</fill_level><foreground_color>${RED}</foreground_color><background_color>${BLUE}</background_color>`,
      ),
      bob(
        "ellipse",
        `<background_color>${RED}</background_color><transparent>false</transparent><line_width>0</line_width>`,
      ),
    ],
    [
      "a line with points around it",
      boy(
        "polyline",
        `<x>10</x><y>20</y><line_width>2</line_width><arrows>2</arrows><arrow_length>8</arrow_length><background_color>${RED}</background_color><line_color>${BLUE}</line_color><points><point x="11" y="20"/><point x="60" y="25"/></points>`,
      ),
      bob(
        "polyline",
        `<x>10</x><y>20</y><line_width>2</line_width><arrows>2</arrows><arrow_length>8</arrow_length><line_color>${RED}</line_color><points><point x="1" y="0"/><point x="50" y="5"/></points>`,
      ),
    ],
    [
      "an arc",
      boy(
        "arc",
        `<fill>true</fill><foreground_color>${RED}</foreground_color><line_width>1</line_width><start_angle>5</start_angle><total_angle>90</total_angle>`,
      ),
      bob(
        "arc",
        `<transparent>false</transparent><line_color>${RED}</line_color><line_width>1</line_width><start_angle>5</start_angle><total_angle>90</total_angle>`,
      ),
    ],
    [
      "a lamp inside its border",
      boy(
        "LED",
        `<pv_name>A</pv_name><x>10</x><y>10</y><width>20</width><height>20</height><bit>-1</bit><off_color>${RED}</off_color><square_led>true</square_led><show_boolean_label>false</show_boolean_label><on_label>ON</on_label><bulb_border_color>${BLUE}</bulb_border_color>`,
      ),
      bob(
        "led",
        `<pv_name>A</pv_name><x>12</x><y>12</y><width>16</width><height>16</height><bit>-1</bit><off_color>${RED}</off_color><square>true</square><off_label></off_label><on_label></on_label><line_color>${BLUE}</line_color>`,
      ),
    ],
    [
      "a lamp of many states",
      boy(
        "LED",
        `<border_alarm_sensitive>false</border_alarm_sensitive><state_count>3</state_count><state_color_0>${RED}</state_color_0><state_value_0>7.0</state_value_0><state_label_0>A</state_label_0><state_color_1>${BLUE}</state_color_1><state_color_fallback>${BLUE}</state_color_fallback>`,
      ),
      bob(
        "multi_state_led",
        `<states><state><color>${RED}</color><value>7.0</value><label>A</label></state><state><color>${BLUE}</color></state></states><fallback_color>${BLUE}</fallback_color>`,
      ),
    ],
    [
      "bits",
      boy(
        "bytemonitor",
        "<pv_name>A</pv_name><numBits>2</numBits><square_led>true</square_led><label><s>a</s><s>b</s></label>",
      ),
      bob(
        "byte_monitor",
        "<pv_name>A</pv_name><numBits>2</numBits><square>true</square><labels><item>a</item><item>b</item></labels>",
      ),
    ],
    [
      "a menu of actions",
      boy(
        "MenuButton",
        '<pv_name></pv_name><label>Go</label><tooltip>$(pv_name)\n$(pv_value)</tooltip><actions_from_pv>false</actions_from_pv><actions hook="false" hook_all="false"><action type="OPEN_WEBPAGE"><hyperlink>http://x</hyperlink><description>X</description></action></actions>',
      ),
      bob(
        "action_button",
        '<pv_name></pv_name><text>Go</text><tooltip>$(actions)</tooltip><actions execute_as_one="false"><action type="open_webpage"><description>X</description><url>http://x</url></action></actions>',
      ),
    ],
    [
      "a menu of a PV's choices",
      boy(
        "MenuButton",
        "<pv_name>A</pv_name><label>Go</label><actions_from_pv>true</actions_from_pv>",
      ),
      bob("combo", "<pv_name>A</pv_name><items_from_pv>true</items_from_pv>"),
    ],
    [
      "items",
      boy(
        "combo",
        "<pv_name>A</pv_name><items_from_pv>false</items_from_pv><items><s>1</s></items>",
      ) +
        boy("radioBox") +
        boy("choiceButton"),
      bob(
        "combo",
        "<pv_name>A</pv_name><items_from_pv>false</items_from_pv><items><item>1</item></items>",
      ) +
        bob("radio") +
        bob("choice"),
    ],
    [
      "buttons: one without a lamp, one with pictures",
      boy(
        "BoolButton",
        `<show_led>false</show_led><toggle_button>false</toggle_button><show_confirm_dialog>2</show_confirm_dialog><background_color><color red="100" green="50" blue="10"/></background_color>`,
      ) +
        boy(
          "ImageBoolButton",
          "<on_image>a.png</on_image><show_boolean_label>false</show_boolean_label>",
        ),
      bob(
        "bool_button",
        `<show_led>false</show_led><mode>1</mode><show_confirm_dialog>2</show_confirm_dialog><background_color><color red="100" green="50" blue="10"/></background_color><off_color><color red="100" green="50" blue="10"/></off_color><on_color><color red="80" green="40" blue="8" alpha="255"/></on_color>`,
      ) +
        bob(
          "bool_button",
          "<on_image>a.png</on_image><on_label></on_label><off_label></off_label>",
        ),
    ],
    [
      "switches and boxes",
      boy("BoolSwitch", "<pv_name>A</pv_name><toggle_button>true</toggle_button>") +
        boy("checkbox", "<label>A</label>"),
      bob("slide_button", "<pv_name>A</pv_name><label></label>") +
        bob("checkbox", "<label>A</label>"),
    ],
    [
      "pictures",
      boy(
        "Image",
        "<image_file>a.png</image_file><stretch_to_fit>true</stretch_to_fit><degree>90</degree><crop_left>0</crop_left>",
      ) +
        boy(
          "ImageBoolIndicator",
          "<pv_name>A</pv_name><off_image>a</off_image><on_image>b</on_image><stretch_to_fit>false</stretch_to_fit>",
        ),
      bob(
        "picture",
        "<file>a.png</file><stretch_image>true</stretch_image><rotation>90</rotation>",
      ) +
        bob(
          "symbol",
          "<pv_name>A</pv_name><symbols><symbol>a</symbol><symbol>b</symbol></symbols><fallback_symbol>b</fallback_symbol><preserve_ratio>true</preserve_ratio>",
        ),
    ],
    [
      "embedded displays",
      boy(
        "linkingContainer",
        "<opi_file>a.opi</opi_file><resize_behaviour>2</resize_behaviour><group_name>G</group_name><macros><include_parent_macros>true</include_parent_macros><M>1</M></macros>",
      ),
      bob(
        "embedded",
        "<file>a.opi</file><resize>CROP</resize><group_name>G</group_name><transparent>true</transparent><macros><M>1</M></macros>",
      ),
    ],
    [
      "an embedded display with a title",
      boy(
        "linkingContainer",
        `<name>N</name><x>1</x><y>2</y><width>100</width><height>90</height><border_style>12</border_style><border_color>${RED}</border_color><background_color>${BLUE}</background_color>`,
      ),
      bob(
        "group",
        `<name>N</name><x>1</x><y>2</y><width>100</width><height>90</height><style>TITLE</style><line_color>${RED}</line_color><foreground_color>${BLUE}</foreground_color><transparent>true</transparent>` +
          bob(
            "embedded",
            `<name>N_Content</name><width>98</width><height>70</height><border_color>${RED}</border_color><transparent>true</transparent>`,
          ),
      ),
    ],
    [
      "groups",
      boy(
        "groupingContainer",
        `<border_style>1</border_style><border_color>${RED}</border_color><transparent>true</transparent>${boy("checkbox")}`,
      ) + boy("groupingContainer", "<border_style>0</border_style>"),
      bob(
        "group",
        `<style>LINE</style><line_color>${RED}</line_color><foreground_color>${RED}</foreground_color><transparent>true</transparent>${bob("checkbox")}`,
      ) + bob("group", "<style>NONE</style>"),
    ],
    [
      "tabs",
      boy(
        "tab",
        `<tab_count>2</tab_count><tab_0_title>A</tab_0_title><tab_1_title>B</tab_1_title><horizontal_tabs>false</horizontal_tabs><minimum_tab_height>20</minimum_tab_height>${boy("groupingContainer", boy("checkbox"))}${boy("groupingContainer", "<macros><M>1</M></macros><border_style>0</border_style>")}`,
      ),
      bob(
        "tabs",
        `<tabs><tab><name>A</name><children>${bob("checkbox")}</children></tab><tab><name>B</name><children>${bob("group", "<style>NONE</style><macros><M>1</M></macros>")}</children></tab></tabs><direction>VERTICAL</direction><tab_height>20</tab_height>`,
      ),
    ],
    [
      "sliders and knobs",
      boy(
        "scaledslider",
        "<step_increment>2</step_increment><level_lo>3</level_lo><show_markers>false</show_markers><transparent_background>true</transparent_background>",
      ) +
        boy("scrollbar", "<step_increment>2</step_increment>") +
        boy("spinner", "<step_increment>2</step_increment>"),
      bob(
        "scaledslider",
        "<increment>2</increment><level_low>3</level_low><transparent>true</transparent><show_lolo>false</show_lolo><show_low>false</show_low><show_high>false</show_high><show_hihi>false</show_hihi>",
      ) +
        bob("scrollbar", "<increment>2</increment>") +
        bob("spinner", "<increment>2</increment>"),
    ],
    [
      "bars and tanks",
      boy(
        "progressbar",
        `<name>N</name><pv_name>A</pv_name><x>1</x><y>2</y><width>100</width><height>50</height><show_markers>false</show_markers><color_fillbackground>${RED}</color_fillbackground>`,
      ) +
        boy(
          "tank",
          `<width>100</width><show_markers>true</show_markers><color_fillbackground>${RED}</color_fillbackground><show_scale>false</show_scale>`,
        ),
      bob(
        "progressbar",
        `<name>N</name><pv_name>A</pv_name><x>1</x><y>2</y><width>100</width><height>50</height><background_color>${RED}</background_color>`,
      ) +
        bob(
          "textupdate",
          "<name>N Label</name><pv_name>A</pv_name><x>1</x><y>2</y><width>100</width><height>50</height><transparent>true</transparent><horizontal_alignment>CENTER</horizontal_alignment>",
        ) +
        bob(
          "tank",
          `<width>50</width><empty_color>${RED}</empty_color><scale_visible>false</scale_visible><show_markers>true</show_markers>`,
        ),
    ],
    [
      "dials",
      boy("meter", "<show_value_label>false</show_value_label>") +
        boy("gauge", "<show_markers>false</show_markers>"),
      bob("meter", "<show_value>false</show_value>") +
        bob("meter", "<show_limits>false</show_limits>"),
    ],
    [
      "tables",
      boy(
        "table",
        "<column_headers><row><col>A</col><col>50</col><col>No</col></row></column_headers>",
      ),
      bob(
        "table",
        "<columns><column><name>A</name><width>50</width><editable>false</editable></column></columns>",
      ),
    ],
    [
      "plots over x",
      boy(
        "xyGraph",
        `<axis_count>3</axis_count><axis_0_axis_title>X</axis_0_axis_title><axis_0_axis_color>${RED}</axis_0_axis_color><axis_1_auto_scale>true</axis_1_auto_scale><axis_2_left_bottom_side>false</axis_2_left_bottom_side><trace_count>1</trace_count><trace_0_x_pv>X</trace_0_x_pv><trace_0_y_pv>Y</trace_0_y_pv><trace_0_name>$(trace_0_y_pv)</trace_0_name><trace_0_y_axis_index>2</trace_0_y_axis_index><trace_0_trace_type>1</trace_0_trace_type><trace_0_point_style>6</trace_0_point_style><trace_0_trace_color>${RED}</trace_0_trace_color><transparent>true</transparent>`,
      ),
      bob(
        "xyplot",
        `<macros><pv_name></pv_name></macros><x_axis><title>X</title><color>${RED}</color></x_axis><y_axes><y_axis><autoscale>true</autoscale></y_axis><y_axis><on_right>true</on_right></y_axis></y_axes><traces><trace><x_pv>X</x_pv><y_pv>Y</y_pv><name>Y</name><axis>1</axis><trace_type>LINE</trace_type><line_style>DASH</line_style><point_type>SQUARES</point_type><color>${RED}</color></trace></traces><foreground_color>${RED}</foreground_color><background_color><color red="0" green="0" blue="0" alpha="0"/></background_color>`,
      ),
    ],
    [
      "plots over time",
      boy(
        "xyGraph",
        `<pv_name></pv_name><axis_count>2</axis_count><trace_count>1</trace_count><trace_0_y_pv>Y</trace_0_y_pv><trace_0_name>N</trace_0_name><show_legend>false</show_legend><plot_area_background_color>${RED}</plot_area_background_color>`,
      ),
      bob(
        "stripchart",
        `<macros><pv_name></pv_name></macros><y_axes><y_axis/></y_axes><traces><trace><y_pv>Y</y_pv><name></name></trace></traces><show_legend>false</show_legend><background_color>${RED}</background_color><foreground_color><color name="Text"/></foreground_color>`,
      ),
    ],
    [
      "images",
      boy(
        "intensityGraph",
        "<pv_name>A</pv_name><show_ramp>false</show_ramp><x_axis_visible>false</x_axis_visible><y_axis_axis_title>Y</y_axis_axis_title><color_map><map>2</map></color_map>",
      ),
      bob(
        "image",
        '<pv_name>A</pv_name><autoscale>false</autoscale><background_color><color red="0" green="0" blue="0" alpha="0"/></background_color><color_bar><visible>false</visible></color_bar><x_axis><visible>false</visible></x_axis><y_axis><title>Y</title></y_axis><color_map><map>2</map></color_map>',
      ),
    ],
    [
      "a plot of the archive",
      boy("x", "")
        .replace("opibuilder.widgets.x", "trends.databrowser.opiwidget")
        .replace("></widget>", "><filename>a.plt</filename></widget>"),
      bob("databrowser", "<file>a.plt</file>"),
    ],
  ])("has the same model as one of today: %s", (_, opi, today) => {
    const [ground, ...made] = boyFile(opi).node.children.filter(({ name }) => name !== "scripts");
    expect(ground?.name).toBe("background_color");
    const { node } = parseDisplay(display(today));
    expect(made.map(plain)).toEqual(node.children.map(plain));
  });

  const rule = (property: string, value: string, more = "false"): string =>
    `<rules><rule name="r" prop_id="${property}" out_exp="${more}"><exp bool_exp="pvSev0 == 1">${value}</exp>
      <pv trig="true">A</pv><pv trig="false">B</pv></rule></rules>`;

  it.each([
    ["Label", "visible", "<value>false</value>", "label.visible=false"],
    ["polyline", "background_color", `<value>${RED}</value>`, "polyline.line_color=color"],
    ["linkingContainer", "opi_file", "<value>a.opi</value>", "embedded.file=a.opi"],
    ["Label", "rotation_angle", "<value>-90</value>", "label.rotation_step=1"],
    ["xyGraph", "trace_1_trace_color", `<value>${RED}</value>`, "stripchart.traces[1].color=color"],
    ["xyGraph", "axis_1_maximum", "<value>5</value>", "stripchart.y_axes[0].maximum=5"],
    ["intensityGraph", "x_axis_maximum", "<value>5</value>", "image.x_axis.maximum=5"],
    [
      "Label",
      "font",
      '<value><fontdata fontName="Sans" height="9" style="0"/></value>',
      "label.font=font",
    ],
  ])("has rules that set today's properties: %s.%s", (type, property, value, expected) => {
    const [widget] = boyFile(boy(type, rule(property, value))).widgets as [WidgetSource];
    const { rules, names } = rulesOf(widget.node, () => undefined, true);
    const set = rules[0]?.branches[0]?.value as XmlNode;
    const text = set.children[0]?.name ?? set.text;
    expect(`${widget.type}.${rules[0]?.property ?? ""}=${text}`).toBe(expected);
    expect(names).toEqual(["A", "B"]);
  });

  it("has BOY's numbers of severities, and colours of an alarm as rules", () => {
    const inside = `<pv_name>P</pv_name><forecolor_alarm_sensitive>true</forecolor_alarm_sensitive>`;
    const file = boyFile(boy("TextUpdate", inside));
    const [widget] = file.widgets as [WidgetSource];
    const rules = rulesOf(widget.node, () => "P", isLegacy(file));
    const colour = (severity: number): unknown => {
      const pv: RulePv = { number: 1, integer: 1n, text: "1", severity };
      const set = evaluate(rules, [pv], () => "").get("foreground_color");
      return (set as XmlNode | undefined)?.children[0]?.attributes.name;
    };
    expect([0, 1, 2, 3].map(colour)).toEqual([undefined, "Minor", "Major", "Invalid"]);
    expect(inspect(file)).toEqual([]);
  });

  it("has actions by today's names, and where displays open", () => {
    const opens = (where: string): string =>
      `<action type="OPEN_DISPLAY"><path>a.opi</path><macros><include_parent_macros>true</include_parent_macros>
        <M>1</M></macros>${where}</action>`;
    const places = [
      "<replace>0</replace>",
      "<replace>2</replace>",
      "<mode>0</mode>",
      "<mode>3</mode>",
      "<mode>8</mode>",
    ];
    const actions = `<actions hook="false" hook_all="true">${places.map(opens).join("")}
      <action type="WRITE_PV"><pv_name>A</pv_name><value> 1 </value><confirm_message>Sure?</confirm_message></action>
      <action type="OPEN_FILE"><path>a.txt</path></action>
      <action type="EXECUTE_CMD"><command>ls</command></action><action type="PLAY_SOUND"/>
      <action type="EXECUTE_PYTHONSCRIPT"><embedded>true</embedded><scriptText>PVUtil.writePV("A", 1)</scriptText>
      </action></actions>`;
    const [button, label] = boyFile(boy("ActionButton", actions) + boy("Label", actions))
      .widgets as [WidgetSource, WidgetSource];
    const found = actionsOf(button.node);
    expect(found.all).toBe(true);
    expect(found.actions.slice(0, 5).map(({ node }) => textOf(node, "target"))).toEqual([
      "tab",
      "window",
      "replace",
      "tab",
      "standalone",
    ]);
    expect(macrosOf(found.actions[0]?.node as XmlNode)).toEqual([["M", "1"]]);
    expect(textOf(found.actions[5]?.node as XmlNode, "value")).toBe("1");
    expect(found.actions.slice(5).map(({ type }) => type)).toEqual([
      "write_pv",
      "open_file",
      "command",
      "play_sound",
      "execute",
    ]);
    expect(stepsOf(found.actions.at(-1)?.node as XmlNode)).toHaveLength(1);
    expect(textOf(button.node, "confirm_message")).toBe("Sure?");
    expect(textOf(button.node, "show_confirm_dialog")).toBe("true");
    // A label can't ask: the action isn't available there.
    expect(actionsOf(label.node).actions[5]?.type).toBe("write_pv after a question");
  });

  it("has scripts that set today's properties", () => {
    const script = `<scripts><path pathString="EmbeddedPy" checkConnect="true"><scriptText>from org.csstudio.opibuilder.scriptUtil import PVUtil
widget.setPropertyValue("opi_file", PVUtil.getString(pvs[0]))</scriptText><pv trig="true">A</pv></path>
      <path pathString="a.js"><pv trig="true">A</pv></path></scripts>`;
    const [widget] = boyFile(boy("linkingContainer", script)).widgets as [WidgetSource];
    const { rules, unknown } = scriptRules(widget.node);
    expect(rules[0]?.attributes.prop_id).toBe("file");
    expect(unknown[0]?.attributes.file).toBe("a.js");
  });

  it("lists what can't be converted, and nothing that has no effect", () => {
    const texts = (inside: string): string[] =>
      inspect(boyFile(inside)).map(({ kind, text }) => `${kind}: ${text}`);
    expect(texts(boy("edm.symbolwidget") + boy("symbol.bool.BoolMonitorWidget"))).toEqual([
      "type: widgets of type edm.symbolwidget",
      "type: widgets of type symbol.bool.BoolMonitorWidget",
    ]);
    expect(
      texts(`<rules><rule name="dark" prop_id="background_color"/></rules><scripts><path pathString="a.js"/></scripts>
      <connection typeId="org.csstudio.opibuilder.connection"/>`).sort(),
    ).toEqual([
      "script: scripts: a.js are not run",
      "script: scripts: the rule dark of the display are not run",
      "type: widgets of type connection",
    ]);
    const shape = (level: string, more = ""): string =>
      boy("Rectangle", `<fill_level>${level}</fill_level>${more}`);
    expect(
      texts(
        shape(
          "0.0",
          "<alpha>255</alpha><gradient>false</gradient><wuid>1</wuid><border_style>0</border_style>",
        ),
      ),
    ).toEqual([]);
    expect(texts(shape("40", "<gradient>true</gradient>"))).toEqual([
      "property: rectangle.fill_level",
      "property: rectangle.gradient",
    ]);
    expect(
      texts(boy("ActionButton", "<toggle_button>true</toggle_button><image>a.png</image>")),
    ).toEqual(["property: action_button.toggle_button", "property: action_button.image"]);
    expect(
      texts(
        boy(
          "TextInput",
          `<pv_name>A</pv_name><password_input>true</password_input><limits_from_pv>false</limits_from_pv>
      <minimum>0</minimum><maximum>5</maximum>`,
        ),
      ),
    ).toEqual(
      ["password_input", "limits_from_pv", "minimum", "maximum"].map(
        (name) => `property: textentry.${name}`,
      ),
    );
    expect(
      texts(boy("Label", `<constructor>1</constructor>${rule("constructor", "<value>1</value>")}`)),
    ).toEqual(["rule: rules that set constructor of label", "property: label.constructor"]);
    expect(texts(boy("constructor"))).toEqual(["type: widgets of type constructor"]);
    const number = rule("format_type", "<value>pv0</value>", "true");
    expect(texts(boy("TextUpdate", `<pv_name>A</pv_name>${number}`))).toEqual([
      "rule: rules that set format_type of textupdate",
    ]);
  });

  it("is as large as its widgets need, and has BOY's background", () => {
    const sizeOf = (inside: string) => {
      const { node } = boyFile(inside);
      const ground = node.children.find(({ name }) => name === "background_color");
      return [textOf(node, "width"), textOf(node, "height"), ground?.children[0]?.attributes.red];
    };
    const far = boy("Label", "<x>900</x><y>10</y><width>50</width><height>20</height>");
    expect(sizeOf(far)).toEqual(["950", undefined, "240"]);
    const own = `<background_color>${RED}</background_color><width>1000</width><height>20</height>`;
    expect(sizeOf(own + far)).toEqual(["1000", "30", "255"]);
  });

  it("is a display in today's format if its root says so", () => {
    const text = display(bob("label", "<typeId>a</typeId>"));
    expect(parseOpi(text)).toEqual(parseDisplay(text).node);
  });
});
