/** The page at /pvws/: subscribes PVs, shows them and writes them. Names in the address (?pv=) are subscribed first. */

/* global PVWS, URL, URLSearchParams, document, fetch, location */

"use strict";

const element = (id) => document.getElementById(id);

/** Most elements of an array that are shown. */
const MOST_ELEMENTS = 10;

/** The row of each PV. */
const rows = new Map();

const url = new URL("pv", document.baseURI);
url.protocol = url.protocol.replace("http", "ws");
const client = new PVWS(url.href, connected, take);
let isOpen = false;

function connected(isConnected) {
  isOpen = isConnected;
  element("connected").hidden = !isConnected;
  element("disconnected").hidden = isConnected;
  element("state").textContent = isConnected ? "Connected" : "Not connected";
  if (isConnected && rows.size > 0) client.subscribe([...rows.keys()]);
  if (!isConnected) rows.forEach((row) => row.disconnected());
}

function take(message) {
  if (message.type === "update") rows.get(message.pv)?.show(message);
  if (message.type === "error") say(message.message);
}

function say(error) {
  element("error").textContent = error;
  element("error").hidden = error === "";
}

/** A value as text. */
function textOf({ text, value, precision, units = "" }) {
  if (text !== undefined) return text;
  if (value === undefined) return "";
  if (Array.isArray(value)) {
    const more = value.length > MOST_ELEMENTS ? ", …" : "";
    return `[${value.slice(0, MOST_ELEMENTS).join(", ")}${more}] (${value.length})`;
  }
  const isPlain = typeof value === "number" && precision >= 0 && Math.abs(value) < 1e12;
  return `${isPlain ? value.toFixed(Math.min(precision, 17)) : value} ${units}`.trim();
}

function make(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

/** One PV's row. */
class Row {
  #latest = {};
  #cells = ["name", "value", "severity", "time", "write", "remove"].map((name) => make("td", name));
  #input = make("input", "");
  #button = make("button", "", "Write");

  constructor(name) {
    const [title, , , , write, remove] = this.#cells;
    title.textContent = name;
    const form = make("form", "");
    this.#input.setAttribute("aria-label", `New value of ${name}`);
    form.append(this.#input, this.#button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#write(name, this.#input.value);
    });
    write.append(form);
    const drop = make("button", "", "×");
    drop.setAttribute("aria-label", `Remove ${name}`);
    drop.addEventListener("click", () => unsubscribe(name));
    remove.append(drop);
    this.element = make("tr", "");
    this.element.append(...this.#cells);
    this.show({ readonly: true });
  }

  show(update) {
    this.#latest = update;
    const [, value, severity, time] = this.#cells;
    value.textContent = textOf(update) || "No value yet";
    severity.textContent = update.severity ?? "";
    severity.className = `severity ${update.severity ?? ""}`;
    const ms = (update.seconds ?? 0) * 1000 + (update.nanos ?? 0) / 1e6;
    time.textContent = update.seconds === undefined ? "" : new Date(ms).toLocaleString();
    this.#input.disabled = this.#button.disabled = update.readonly !== false;
  }

  disconnected() {
    this.show({ ...this.#latest, severity: "INVALID", readonly: true });
  }

  #write(name, text) {
    say("");
    const isNumber = this.#latest.vtype !== "VString" && text.trim() !== "" && isFinite(text);
    if (isOpen) client.write(name, isNumber ? Number(text) : text);
  }
}

function subscribe(name) {
  if (name === "" || rows.has(name)) return;
  const row = new Row(name);
  rows.set(name, row);
  element("pvs").append(row.element);
  if (isOpen) client.subscribe(name);
  showCount();
}

function unsubscribe(name) {
  rows.get(name)?.element.remove();
  rows.delete(name);
  if (isOpen) client.clear(name);
  showCount();
}

function showCount() {
  element("none").hidden = rows.size > 0;
  document.querySelector("table").hidden = rows.size === 0;
}

element("subscribe").addEventListener("submit", (event) => {
  event.preventDefault();
  say("");
  subscribe(element("name").value.trim());
  element("name").value = "";
});

async function tellAbout() {
  const answer = await fetch("info");
  if (!answer.ok) return;
  const info = await answer.json();
  element("about").textContent = `${info.jre}, started ${info.start_time} UTC`;
}

new URLSearchParams(location.search).getAll("pv").forEach(subscribe);
client.open();
void tellAbout();
