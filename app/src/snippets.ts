/** A PV as a link, a command, or a few lines of code. */

export interface Snippet {
  readonly title: string;
  readonly text: string;
}

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** `id` is the name with its protocol, as the relay has it. */
export function snippetsOf(name: string, id: string, address: string): Snippet[] {
  const base = new URL(".", address.replace(/#.*$/s, ""));
  const [, protocol = "ca", plain = name] = /^([a-z]+):\/\/(.*)$/s.exec(id) ?? [];
  const pv = new URL(`pv/${encodeURIComponent(name)}`, base).href;
  const relay = new URL("ws", base).href.replace(/^http/, "ws");
  const command = protocol === "pva" ? "pvget" : "caget";
  return [
    { title: "Link", text: address },
    ...(protocol === "ca" || protocol === "pva"
      ? [{ title: command, text: `${command} ${shell(plain)}` }]
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
export async function copy(text: string): Promise<boolean> {
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
