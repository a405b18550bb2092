/**
 * Runs ORNL's pvws.js, unmodified, for a test: argument 1 is the folder with its files, argument 2 the URL.
 *
 * Each line of the input is a call, [method, ...arguments]. Each line of the output is true or false for the
 * connection, or the message that the client hands to its page. After each connection it subscribes again.
 */
import console from "node:console";
import { readFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers";
import vm from "node:vm";

const [folder, url] = process.argv.slice(2);
const [base64, pvws] = ["base64.js", "pvws.js"].map((name) => readFileSync(`${folder}/${name}`, "utf8"));
globalThis.exports = {};
vm.runInThisContext(`${base64}\n${pvws}\nglobalThis.PVWS = PVWS;`);

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
// The client logs to the console, but standard output is for the messages of this program.
console.log = () => {};
console.error = () => {};

/**
 * Node 20 reports a connection that can't be made only by "error", at each call of `close` again. In browsers "close"
 * follows, and the method does nothing.
 */
class BrowserWebSocket extends globalThis.WebSocket {
  #hasFailed = false;

  constructor(...given) {
    super(...given);
    let isClosed = false;
    this.addEventListener("close", () => {
      isClosed = true;
    });
    this.addEventListener("error", () => {
      this.#hasFailed = this.readyState === BrowserWebSocket.CONNECTING;
      if (!this.#hasFailed) return;
      const close = Object.assign(new globalThis.Event("close"), { code: 1006, reason: "" });
      setTimeout(() => {
        if (!isClosed) this.dispatchEvent(close);
      }, 100);
    });
  }

  close(...given) {
    if (!this.#hasFailed) super.close(...given);
  }
}
globalThis.WebSocket = BrowserWebSocket;

const names = [];
const client = new globalThis.PVWS(
  url,
  (connected) => {
    if (connected && names.length > 0) client.subscribe(names);
    say(connected);
  },
  say,
);
client.reconnect_ms = 200;
client.idle_check_ms = 100;
client.open();

const calls = createInterface({ input: process.stdin });
calls.on("line", (line) => {
  const [method, ...rest] = JSON.parse(line);
  if (method === "subscribe") names.push(...rest[0]);
  client[method](...rest);
});
calls.on("close", () => process.exit(0));
