/**
 * Why a relay refuses a page. Browsers don't tell a page why its WebSocket failed, but the relay
 * answers a plain request for the same address with a sentence.
 */

/** Maximum time to wait for the answer. */
const TIMEOUT_MS = 5000;

/** Maximum length of a sentence. */
const MOST = 300;

interface Answer {
  readonly status: number;
  /** Empty unless it is plain text. */
  readonly text: string;
  /** It is GraphQL's answer to a request without a document. */
  readonly isGraphql: boolean;
}

/** Addresses that the page's Content Security Policy forbade; `undefined` until they are noted. */
let forbidden: Set<string> | undefined;

/** Notes the connections that are forbidden from now on. The first was tried before. */
function noteForbidden(): Set<string> {
  if (forbidden !== undefined) return forbidden;
  const noted = new Set<string>();
  const scope = globalThis as Partial<Pick<typeof globalThis, "addEventListener">>;
  scope.addEventListener?.("securitypolicyviolation", (event) => {
    noted.add(event.blockedURI);
  });
  forbidden = noted;
  return noted;
}

/** `undefined` without an answer that the page may read. */
export async function whyRefused(url: string, subprotocol: string): Promise<string | undefined> {
  const { host, origin } = new URL(url);
  if ([...noteForbidden()].some((address) => address.startsWith(origin))) {
    return `the page's Content Security Policy forbids connections to ${host}: the operator of the page's server adds ${origin} to connect-src`;
  }
  const address = url.replace(/^ws/, "http");
  const answer = await answerOf(address);
  if (answer !== undefined) {
    // A proxy answers for a relay that it can't reach.
    const { status, text } = answer;
    const isGone = status === 502 || status === 504 || (status >= 500 && text === "");
    return isGone ? undefined : reasonOf(address, answer, subprotocol);
  }
  if (!address.startsWith("https:")) return undefined;
  const plain = await answerOf(address.replace("https:", "http:"));
  if (plain === undefined) return undefined;
  // What has TLS tells a request without it to use TLS.
  return plain.status === 400 && plain.text.includes("TLS")
    ? "the browser doesn't accept the relay's certificate: open the relay's address in a tab to see why; the relay's operator replaces it (tls_cert)"
    : `${host} has no TLS: use ws://, or the relay's operator sets tls_cert and tls_key`;
}

function reasonOf(
  address: string,
  { isGraphql, status, text }: Answer,
  subprotocol: string,
): string {
  if (text === "" && !isGraphql) {
    return `what answers at ${address} is no relay (status ${String(status)}): correct the address`;
  }
  if (status === 404) return `${address} isn't the address of a relay's WebSocket: ${text}`;
  if (status !== 426 && !isGraphql) return text;
  // Everything but the WebSocket itself is right.
  return isGraphql || text.includes(subprotocol)
    ? "the relay answers, but no WebSocket reaches it: a proxy between page and relay must forward Upgrade and Connection"
    : `${text}, but this page speaks ${subprotocol}: correct the address, or update the older of page and relay`;
}

async function answerOf(address: string): Promise<Answer | undefined> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(address, { cache: "no-store", signal });
    const { status } = response;
    const type = response.headers.get("content-type") ?? "";
    const text = type.startsWith("text/plain") ? (await response.text()).trim().slice(0, MOST) : "";
    // Coniql's clients send documents to the same path.
    const isGraphql = status === 400 && type.includes("json");
    return { status, text, isGraphql };
  } catch {
    return undefined;
  }
}
