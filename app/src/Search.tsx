/** The input for PV names, which offers known ones. What is pasted is cleaned; several names open the table. */

import { useEffect, useId, useRef, useState, type ReactNode, type RefObject } from "react";
import { t, type NameFound } from "pvwire";
import { useClient } from "pvwire/react";

import { namesIn } from "./pasted";
import { elsewhere, go, type Route } from "./route";
import { recentNames } from "./stored";

const OFFERED = 12;
/** A pause in typing after which the relay is asked. */
const TYPING_MS = 80;

interface Offer {
  readonly text: string;
  readonly names: readonly Pick<NameFound, "about" | "name" | "protocol">[];
  readonly note: string;
}

interface SearchProps {
  readonly route: Route;
  readonly input: RefObject<HTMLInputElement | null>;
}

export function Search({ input, route }: SearchProps): ReactNode {
  const [text, setText] = useState(route.name);
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const [pasted, setPasted] = useState<readonly string[]>([]);
  const offer = useOffer(isOpen ? text : undefined);
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const { names } = offer;
  const chosen = isOpen ? names[at] : undefined;

  const openNames = (found: readonly string[]): void => {
    setOpen(false);
    setAt(-1);
    input.current?.blur();
    const [name = ""] = found;
    if (found.length > 1) go(elsewhere(route, { page: "table", names: found }));
    else if (name !== "") go(elsewhere(route, { page: "pv", name, names: [] }));
    setText(found.length > 1 ? "" : name);
  };

  /** Known names may have what separates other names, such as commas. */
  const openTyped = (): void => {
    const typed = text.trim();
    const isKnown = typed === route.name || names.some(({ name }) => name === typed);
    if (isKnown) openNames([typed]);
    else openNames(text === pasted.join(" ") ? pasted : namesIn(text));
  };

  const move = (by: number): void => {
    setOpen(true);
    const next =
      names.length === 0
        ? -1
        : (at + by + names.length + (at < 0 && by < 0 ? 1 : 0)) % names.length;
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };

  return (
    <form
      className="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (chosen === undefined) openTyped();
        else openNames([chosen.name]);
      }}
    >
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label={t`PV name`}
        aria-expanded={isOpen && names.length > 0}
        aria-controls={`${id}names`}
        aria-autocomplete="list"
        aria-activedescendant={chosen === undefined ? undefined : `${id}${String(at)}`}
        placeholder={t`Type or paste PV names`}
        autoComplete="off"
        autoCapitalize="off"
        autoCorrect="off"
        spellCheck={false}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setAt(-1);
          setOpen(true);
        }}
        onPaste={(event) => {
          const pasted = event.clipboardData.getData("text");
          const found = namesIn(pasted);
          const { selectionEnd, selectionStart, value } = event.currentTarget;
          const isWhole = selectionStart === 0 && selectionEnd === value.length;
          // A part of a name is left to the browser.
          if (!isWhole || found.length === 0) return;
          event.preventDefault();
          setText(found.join(" "));
          setPasted(found);
          setAt(-1);
          setOpen(found.length === 1);
        }}
        onFocus={() => {
          setOpen(true);
        }}
        onBlur={() => {
          setOpen(false);
          setAt(-1);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            move(event.key === "ArrowDown" ? 1 : -1);
          } else if (event.key === "Escape") setOpen(false);
        }}
      />
      <button type="submit">{t`Show`}</button>
      {isOpen && (names.length > 0 || offer.note !== "") && (
        <div className="offer">
          <ul ref={list} id={`${id}names`} role="listbox" aria-label={t`Known names`}>
            {names.map(({ about, name, protocol }, index) => (
              <li
                key={`${protocol}://${name}`}
                id={`${id}${String(index)}`}
                role="option"
                aria-selected={index === at}
                onPointerDown={(event) => {
                  // Before the input loses the focus, which closes the list.
                  event.preventDefault();
                  openNames([name]);
                }}
              >
                <span>{name}</span> {about && <em>{about.description}</em>}{" "}
                <small>{protocol}</small>
              </li>
            ))}
          </ul>
          {offer.note !== "" && <p className="note">{offer.note}</p>}
        </div>
      )}
      <span className="visually-hidden" role="status">
        {isOpen && text.trim() !== "" && offer.text === text.trim()
          ? t`${String(names.length)} names offered`
          : ""}
      </span>
    </form>
  );
}

const NOTHING: Offer = { text: "", names: [], note: "" };

/** The names for a text, none until they are known; for no text, those that were shown last. */
function useOffer(text: string | undefined): Offer {
  const client = useClient();
  const [offer, setOffer] = useState(NOTHING);
  const wanted = text?.trim();
  useEffect(() => {
    if (wanted === undefined || wanted === "") return;
    const typing = new AbortController();
    const timer = setTimeout(() => {
      client.names(wanted, { limit: OFFERED, signal: typing.signal }).then(
        ({ names }) => {
          const note = names.length === 0 ? t`No known name. Enter shows it if an IOC has it.` : "";
          setOffer({ text: wanted, names, note });
        },
        (error: unknown) => {
          if (typing.signal.aborted) return;
          const why = error instanceof Error ? error.message : String(error);
          setOffer({ text: wanted, names: [], note: t`Names can't be offered: ${why}` });
        },
      );
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      typing.abort();
    };
  }, [client, wanted]);
  if (wanted === undefined) return NOTHING;
  if (wanted === "") {
    return { ...NOTHING, names: recentNames().map((name) => ({ name, protocol: "" })) };
  }
  // Another text's names would be taken for this one's.
  return offer.text === wanted ? offer : NOTHING;
}
