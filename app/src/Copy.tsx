/** The PV as a link, a command, or code, each with a button that copies it. */

import { type ReactNode, useState } from "react";
import { t } from "pvwire";

import { textOf } from "./kind";
import type { Shown } from "./PvPage";

interface Snippet {
  readonly title: string;
  readonly text: string;
}

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A path after the name selects a field; a slash of the name itself is escaped. */
function pvget(plain: string): Snippet {
  const [, escaped = "", path = ""] = /^([^/]*)\/?(.*)$/s.exec(plain) ?? [];
  const name = escaped.replace(/%(25|2f)/gi, (_, code) => (code === "25" ? "%" : "/"));
  const request = path === "" ? "" : `-r ${shell(`field(${path.replaceAll("/", ".")})`)} `;
  return { title: "pvget", text: `pvget ${request}${shell(name)}` };
}

/** `id` is the name with its protocol, as the relay has it. */
function snippetsOf(name: string, id: string, address: string): Snippet[] {
  const base = new URL(".", address.replace(/#.*$/s, ""));
  const [, protocol = "ca", plain = name] = /^([a-z]+):\/\/(.*)$/s.exec(id) ?? [];
  const pv = new URL(`pv/${encodeURIComponent(name)}`, base).href;
  const relay = new URL("ws", base).href.replace(/^http/, "ws");
  return [
    { title: t`Link`, text: address },
    ...(protocol === "ca" || protocol === "pva"
      ? [protocol === "pva" ? pvget(plain) : { title: "caget", text: `caget ${shell(plain)}` }]
      : []),
    { title: "curl", text: `curl -f ${shell(pv)}` },
    {
      title: "Python",
      text: [
        "import json, urllib.request",
        `with urllib.request.urlopen(${JSON.stringify(pv)}) as answer:`,
        `    print(json.load(answer)["value"]["string"])`,
      ].join("\n"),
    },
    {
      title: "React",
      text: [
        `import { PvProvider } from "pvwire/react";`,
        `import { Readback } from "pvwire/widgets";`,
        `import "pvwire/widgets.css";`,
        "",
        `<PvProvider url=${JSON.stringify(relay)}>`,
        `  <Readback name={${JSON.stringify(name)}} />`,
        `</PvProvider>`,
      ].join("\n"),
    },
  ];
}

/** Copies a text also where the page has no secure context, as at `http://relay:8080`. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers give the clipboard to secure pages only; this way is older and works in all.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

interface CopyProps {
  readonly name: string;
  readonly id: string;
  readonly pv: Shown | undefined;
}

/** What the page shows of a PV, for a mail or a program. */
function jsonOf(name: string, pv: Shown | undefined): string {
  const value = pv?.value;
  const number = value?.number ?? null;
  // JSON has neither NaN nor infinite numbers: they are texts.
  const finite = number === null || Number.isFinite(number) ? number : String(number);
  return JSON.stringify({
    name,
    value: textOf(value) ?? value?.exact ?? finite ?? value?.string ?? null,
    units: pv?.display?.units ?? "",
    severity: pv?.status.severity ?? null,
    status: pv?.status.alarmStatus ?? null,
    time: pv?.time == null ? null : pv.time.seconds,
    connected: pv?.connection.connected ?? false,
  });
}

export function Copy({ id, name, pv }: CopyProps): ReactNode {
  const [outcome, setOutcome] = useState("");
  return (
    <section className="panel pv-copy" aria-labelledby="pv-copy">
      <h2 id="pv-copy">{t`Use it elsewhere`}</h2>
      <ul className="snippets">
        {[
          ...snippetsOf(name, id, window.location.href),
          { title: "JSON", text: jsonOf(name, pv) },
        ].map(({ text, title }) => (
          <li key={title}>
            <button
              type="button"
              aria-label={t`Copy: ${title}`}
              onClick={() => {
                void copy(text).then((copied) => {
                  setOutcome(copied ? t`${title}: copied` : t`The browser allows no copying`);
                });
              }}
            >
              {title}
            </button>
            {/* Focusable, so that it can be scrolled without a mouse. */}
            <pre tabIndex={0} aria-label={title}>
              {text}
            </pre>
          </li>
        ))}
      </ul>
      <p className="note" role="status">
        {outcome}
      </p>
    </section>
  );
}
