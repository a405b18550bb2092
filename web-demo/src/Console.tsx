/** GraphiQL, which executes documents with the client of this page. */

import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { GraphiQL } from "graphiql";
import type { PvClient } from "pvwire";
import { createGraphqlClient, type GraphqlResult } from "pvwire/graphql";
import "graphiql/style.css";

import { useDark } from "./theme";
import "./console.css";

interface Example {
  readonly title: string;
  readonly query: string;
}

function examples(prefix: string): readonly Example[] {
  return [
    {
      title: "Live",
      query: `# Press the button beside this: the answer follows the machine.
# What did not change is null, as Coniql has it.
subscription Live {
  subscribeChannel(id: "${prefix}:RING:CURRENT") {
    value { string(units: true) }
    time { datetime }
    status { severity message }
    connection { state }
  }
}
`,
    },
    {
      title: "Several",
      query: `# Many PVs in one subscription: each answer holds those that changed.
subscription Several {
  subscribeChannels(ids: ["${prefix}:RF:VOLTAGE", "${prefix}:MAG:DIPOLE:TEMP", "${prefix}:NOT_THERE"]) {
    id
    value { string(units: true) }
    status { quality }
    connection { state since }
  }
}
`,
    },
    {
      title: "Read",
      query: `# A query: all there is to know of one PV, now.
query Read {
  getChannel(id: "${prefix}:RF:VOLTAGE:SET") {
    id
    value { number string(units: true) }
    time { datetime }
    status { severity alarmStatus writable }
    display {
      description units precision
      controlRange { min max }
      alarmRange { min max }
      warningRange { min max }
    }
  }
}
`,
    },
    {
      title: "Write",
      query: `# A mutation: the second PV has no rule that allows it, and the answer says so.
mutation Write {
  putChannels(ids: ["${prefix}:RF:VOLTAGE:SET", "${prefix}:MAG:DIPOLE:LIMIT"], values: ["1.9", "300"]) {
    id
    value { string(units: true) }
  }
}
`,
    },
  ];
}

/** Number of array elements that are printed; the others are counted. */
const PRINTED_ELEMENTS = 20;

export interface ConsoleProps {
  readonly client: PvClient;
  readonly prefix: string;
}

export default function Console({ client, prefix }: ConsoleProps): ReactNode {
  const dark = useDark();
  const graphql = useMemo(() => createGraphqlClient(client), [client]);
  const documents = useMemo(() => examples(prefix), [prefix]);
  const [at, setAt] = useState(0);
  const { query = "", title = "" } = documents[at] ?? {};
  const section = useRef<HTMLElement>(null);
  useEffect(() => (section.current === null ? undefined : label(section.current)), []);
  const running = useRef(new Set<AsyncIterableIterator<GraphqlResult>>());
  // GraphiQL does not end its operations when it is removed.
  useEffect(() => {
    const begun = running.current;
    return () => {
      for (const results of begun) void results.return?.();
      begun.clear();
    };
  }, [title]);
  return (
    <section className="panel console" aria-label="GraphQL console" ref={section}>
      <div className="console-examples" role="group" aria-label="Examples">
        {documents.map((example, index) => (
          <button
            key={example.title}
            type="button"
            aria-pressed={index === at}
            onClick={() => {
              setAt(index);
            }}
          >
            {example.title}
          </button>
        ))}
      </div>
      <GraphiQL
        key={title}
        fetcher={(payload) => {
          const results = graphql.iterate(payload);
          running.current.add(results);
          return printable(results);
        }}
        defaultQuery={query}
        defaultEditorToolsVisibility={false}
        isHeadersEditorEnabled={false}
        showPersistHeadersSettings={false}
        storage={STORAGE}
        forcedTheme={dark ? "dark" : "light"}
      />
    </section>
  );
}

/** Stores nothing in the browser; each example starts in its original form. */
class NoStorage implements Storage {
  readonly length = 0;

  key(): null {
    return null;
  }

  getItem(): null {
    return null;
  }

  setItem(): void {
    // Forgotten.
  }

  removeItem(): void {
    // Never there.
  }

  clear(): void {
    // Never there.
  }
}

const STORAGE = new NoStorage();

/**
 * GraphiQL's editors have no accessible names, and long results can't be scrolled with keys: both
 * are added here as soon as an editor is created.
 */
function label(section: HTMLElement): () => void {
  const give = (): void => {
    for (const input of section.querySelectorAll(".CodeMirror textarea:not([aria-label])")) {
      const editor = input.closest("[aria-label]")?.getAttribute("aria-label");
      input.setAttribute("aria-label", editor ?? "Editor");
    }
    for (const answer of section.querySelectorAll('.CodeMirror-scroll[tabindex="-1"]')) {
      answer.setAttribute("tabindex", "0");
    }
  };
  give();
  const observer = new MutationObserver(give);
  observer.observe(section, { childList: true, subtree: true });
  return () => {
    observer.disconnect();
  };
}

/** Results without the values that JSON can't represent. */
async function* printable(
  results: AsyncIterableIterator<GraphqlResult>,
): AsyncGenerator<{ data?: Record<string, unknown> }> {
  for await (const result of results) {
    yield JSON.parse(JSON.stringify(result, printed)) as { data?: Record<string, unknown> };
  }
}

function printed(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return `${String(value)}n`;
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (!ArrayBuffer.isView(value) || value instanceof DataView) return value;
  const elements = value as unknown as ArrayLike<number | bigint>;
  const begin = Array.from({ length: Math.min(elements.length, PRINTED_ELEMENTS) }, (_, at) =>
    printed("", elements[at]),
  );
  const left = elements.length - begin.length;
  return left === 0 ? begin : [...begin, `and ${String(left)} more`];
}
