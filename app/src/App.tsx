/** The frame of all pages: search, navigation, the connection, and the keys. */

import { Component, lazy, type ReactNode, Suspense, useEffect, useRef, useState } from "react";
import { t } from "pvwire";

import { answer, type Question, useQuestion } from "./confirm/questions";
import { ConnectionBanner } from "./ConnectionBanner";
import { Header } from "./Header";
import { PvPage } from "./PvPage";
import { useRoute } from "./route";
import { Welcome } from "./Welcome";

const ConfirmPut = lazy(() => import("./confirm/ConfirmPut"));
const TablePage = lazy(() => import("./TablePage"));
const AlarmsPage = lazy(() => import("./AlarmsPage"));
const DisplaysPage = lazy(() => import("./DisplaysPage"));
const DisplayPage = lazy(() => import("./DisplayPage"));
const HealthPage = lazy(() => import("./HealthPage"));
const PlotsPage = lazy(() => import("./PlotsPage"));
const SnapshotsPage = lazy(() => import("./snapshots/SnapshotsPage"));

/** Without the file of the question, as when the relay was updated since, nothing is written. */
class Asked extends Component<{ readonly question: Question; readonly children: ReactNode }> {
  override readonly state = { isBroken: false };

  static getDerivedStateFromError(): { isBroken: boolean } {
    return { isBroken: true };
  }

  override componentDidCatch(): void {
    answer(this.props.question, false);
  }

  override render(): ReactNode {
    return this.state.isBroken ? null : this.props.children;
  }
}

/** A page that can't be shown leaves the frame: the search and the other pages. */
class PageBoundary extends Component<
  { readonly children: ReactNode },
  { readonly why?: string | undefined }
> {
  override state: { readonly why?: string | undefined } = {};

  static getDerivedStateFromError(error: unknown): { readonly why: string } {
    return { why: error instanceof Error ? error.message : String(error) };
  }

  override render(): ReactNode {
    const { why } = this.state;
    if (why === undefined) return this.props.children;
    return (
      <section role="alert" className="note" data-part="broken">
        <p>
          {t`This page can't be shown: ${why}. If the relay was updated since the page was opened, load it again; otherwise tell the relay's operator.`}
        </p>
        <button
          type="button"
          onClick={() => {
            location.reload();
          }}
        >
          {t`Load again`}
        </button>
      </section>
    );
  }
}

export function App(): ReactNode {
  const route = useRoute();
  const search = useRef<HTMLInputElement>(null);
  const [keys, setKeys] = useState(false);
  const question = useQuestion();

  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const { altKey, ctrlKey, key, metaKey, target } = event;
      if (altKey || ctrlKey || metaKey) return;
      const isTyping =
        target instanceof HTMLElement &&
        target.matches("input, textarea, select, [contenteditable]");
      if (isTyping) return;
      if (key === "/") {
        event.preventDefault();
        search.current?.focus();
        search.current?.select();
      } else if (key === "?") setKeys(true);
    };
    window.addEventListener("keydown", press);
    return () => {
      window.removeEventListener("keydown", press);
    };
  }, []);

  const { name, page } = route;
  const isKiosk = route.settings.kiosk === "1";
  useEffect(() => {
    document.documentElement.toggleAttribute("data-kiosk", isKiosk);
  }, [isKiosk]);
  return (
    <>
      <Header
        route={route}
        search={search}
        showKeys={() => {
          setKeys(true);
        }}
      />
      <ConnectionBanner isUtc={route.settings.utc === "1"} />
      <main>
        <PageBoundary key={page === "pv" ? name : page}>
          <Suspense fallback={<p className="note">{t`Loading…`}</p>}>
            {page === "pv" && name === "" && <Welcome route={route} />}
            {page === "pv" && name !== "" && <PvPage key={name} route={route} />}
            {page === "table" && <TablePage route={route} />}
            {page === "plots" && <PlotsPage route={route} />}
            {page === "snapshots" && <SnapshotsPage route={route} />}
            {page === "alarms" && <AlarmsPage route={route} />}
            {page === "displays" && <DisplaysPage route={route} />}
            {page === "display" && <DisplayPage route={route} />}
            {page === "health" && <HealthPage route={route} />}
          </Suspense>
        </PageBoundary>
      </main>
      {question !== undefined && (
        <Asked key={question.id} question={question}>
          <Suspense fallback={null}>
            <ConfirmPut question={question} />
          </Suspense>
        </Asked>
      )}
      {keys && (
        <Keys
          close={() => {
            setKeys(false);
          }}
        />
      )}
    </>
  );
}

const keyTexts = (): readonly (readonly [key: string, meaning: string])[] => [
  ["/", t`Type a PV name`],
  [t`↓ ↑ Enter`, t`Choose one of the offered names`],
  [t`Esc`, t`Close the offered names, or this list`],
  [t`Page ↓, Page ↑`, t`Move in the table`],
  [t`Alt ←, Alt →`, t`Back and forward`],
  ["?", t`Show this list`],
];

export function Keys({ close }: { readonly close: () => void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={close}>
      <h2 id="keys-title">{t`Keys`}</h2>
      <dl className="keys">
        {keyTexts().map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current?.close()}>
        {t`Close`}
      </button>
    </dialog>
  );
}
