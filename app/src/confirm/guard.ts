/**
 * Every write of the page passes here. A page that is read-only writes nothing, and PVs that the operator names are
 * written only after a confirmation. Both guard against slips; what may be written is decided by the relay's rules.
 */

import { PutError, type PutFailure, type PvClient, t } from "pvwire";

import { parseRoute } from "../route";
import { ask, type PutOf } from "./questions";
import { fits, readConfirmed } from "./settings";

type Writer = Pick<PvClient, "putMany">;

/** The writers of guarded clients without the guard. */
const writers = new WeakMap<PvClient, Writer>();

const failed = (name: string, code: string, why: string): PutFailure => ({
  ok: false,
  error: new PutError(name, code, t`${why}; nothing was written`, false),
});

const isOfPage = (name: string): boolean => /^(?:loc:\/\/|=|eq:\/\/)/.test(name);

type Verdict = "written" | "replaced" | PutFailure;

/** Whether to write now. It asks the user if one of the PVs needs that. */
async function judge(
  client: PvClient,
  puts: readonly PutOf[],
  replaces: boolean,
): Promise<Verdict> {
  const ours = puts.filter(([name]) => !isOfPage(name));
  const [[first] = [""]] = ours;
  if (ours.length === 0) return "written";
  if (parseRoute(window.location.hash).settings.lock === "1") {
    return failed(first, "READ_ONLY", t`this page is read-only`);
  }
  // Without a connection nothing is written, which needs no confirmation.
  if (/^(?:lost|closed)$/.test(client.connection.getSnapshot().state)) return "written";
  const { patterns, problem } = await readConfirmed(client);
  const listed = ours.filter(([name]) => patterns.some((pattern) => fits(pattern, name)));
  if (listed.length === 0) return "written";
  const confirmed = await ask(listed, problem, replaces);
  if (confirmed === undefined) return failed(first, "NOT_CONFIRMED", t`not confirmed`);
  return confirmed === listed ? "written" : "replaced";
}

/** Judges puts in their order: those that follow one that was not confirmed are not written either. */
class Turns {
  #waiting = 0;
  #before: Promise<boolean> = Promise.resolve(true);

  judge(client: PvClient, puts: readonly PutOf[]): Promise<Verdict> {
    const before = this.#before;
    const verdict = before.then((isOn): Verdict | Promise<Verdict> => {
      if (isOn) return judge(client, puts, false);
      return failed(puts[0]?.[0] ?? "", "NOT_CONFIRMED", t`a write before it was not confirmed`);
    });
    this.#waiting += 1;
    this.#before = verdict.then(
      (of) => typeof of === "string" || of.error.code !== "NOT_CONFIRMED",
      () => true,
    );
    void this.#before.then(() => {
      this.#waiting -= 1;
      // What the user does next is another matter.
      if (this.#waiting === 0) this.#before = Promise.resolve(true);
    });
    return verdict;
  }
}

/** From now on all writes by this client are guarded. */
export function guard(client: PvClient): void {
  const put = client.put.bind(client);
  const putMany = client.putMany.bind(client);
  const turns = new Turns();
  writers.set(client, { putMany });
  client.put = async (name, value, options = {}) => {
    // It was confirmed with what it takes back.
    if (options.undoes === true) return put(name, value, options);
    const updates = (): number | undefined => client.inspect(name)?.updatesReceived;
    const before = updates();
    const verdict =
      options.coalesce === true
        ? await judge(client, [[name, value]], true)
        : await turns.judge(client, [[name, value]]);
    if (verdict === "replaced") return { ok: true, superseded: true };
    if (verdict !== "written") return verdict;
    // The value was made from the one that was shown before the question.
    if (options.onlyIfUnchanged === true && updates() !== before) {
      return failed(name, "MOVED", t`the PV has changed since`);
    }
    return put(name, value, options);
  };
  client.putMany = async (puts, options) => {
    const verdict = await turns.judge(client, puts);
    if (typeof verdict === "string") return putMany(puts, options);
    const { code, message } = verdict.error;
    return puts.map(([name]) => ({ ok: false, error: new PutError(name, code, message, false) }));
  };
}

/**
 * For writes in several steps: asks once for all of them, and gives the writer that doesn't ask again.
 * @throws PutError if they are not to be written.
 */
export async function confirmedWriter(client: PvClient, puts: readonly PutOf[]): Promise<Writer> {
  const verdict = await judge(client, puts, false);
  if (typeof verdict !== "string") throw verdict.error;
  return writers.get(client) ?? client;
}
