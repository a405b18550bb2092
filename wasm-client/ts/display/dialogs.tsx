/** What a display asks an operator: to confirm, for a password or a text, or to choose one of some actions. */

import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  type ReactNode,
} from "react";

import { pressOnce } from "./keys.js";

/** One action, ready to run. */
export interface Action {
  readonly type: string;
  readonly label: string;
  /** The PV that it writes. */
  readonly pv?: string | undefined;
  /** Why it can't be run. */
  readonly problem?: string | undefined;
  readonly run: (keys?: Pick<MouseEvent, "ctrlKey" | "metaKey" | "shiftKey">) => void;
}

/** A menu at a place of the window. */
export interface MenuRequest {
  readonly x: number;
  readonly y: number;
  readonly actions: readonly Action[];
}

interface Dialogs {
  /** Whether the operator confirms, and knows the password if there is one. */
  readonly confirm: (message: string, password?: string) => Promise<boolean>;
  /** The text as the operator has changed it; `undefined` if the question was cancelled. */
  readonly prompt: (message: string, text: string) => Promise<string | undefined>;
  readonly menu: (request: MenuRequest) => void;
}

const DialogsContext = createContext<Dialogs | undefined>(undefined);

export function useDialogs(): Dialogs {
  const dialogs = useContext(DialogsContext);
  if (dialogs === undefined) throw new Error("a widget of a display needs a <Display> around it");
  return dialogs;
}

interface Question {
  /** Nothing that was typed for one question is kept for another. */
  readonly key: number;
  readonly message: string;
  readonly password: string;
  /** The text that may be changed; absent where the question is only to be confirmed. */
  readonly text?: string;
  /** `undefined`: cancelled. */
  readonly answer: (typed: string | undefined) => void;
}

export function DialogsProvider({ children }: { readonly children: ReactNode }): ReactNode {
  const [question, setQuestion] = useState<Question>();
  const [menu, setMenu] = useState<MenuRequest>();
  const open = useRef<Question>(undefined);
  const ask = useCallback(
    (asked: Omit<Question, "key" | "answer">) =>
      new Promise<string | undefined>((resolve) => {
        const key = (open.current?.key ?? 0) + 1;
        // A second question cancels the one that is open.
        open.current?.answer(undefined);
        const answer = (typed: string | undefined): void => {
          setQuestion((now) => (now?.key === key ? undefined : now));
          resolve(typed);
        };
        open.current = { ...asked, key, answer };
        setQuestion(open.current);
      }),
    [],
  );
  const dialogs = useMemo(
    (): Dialogs => ({
      confirm: async (message, password = "") => (await ask({ message, password })) !== undefined,
      prompt: (message, text) => ask({ message, password: "", text }),
      menu: setMenu,
    }),
    [ask],
  );
  const closeMenu = useCallback(() => {
    setMenu(undefined);
  }, []);
  return (
    <DialogsContext.Provider value={dialogs}>
      {children}
      {question !== undefined && <Confirmation key={question.key} question={question} />}
      {menu !== undefined && <Menu request={menu} onClose={closeMenu} />}
    </DialogsContext.Provider>
  );
}

function Confirmation({ question }: { readonly question: Question }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  const { password, text } = question;
  const [typed, setTyped] = useState(text ?? "");
  const [isWrong, setWrong] = useState(false);
  useEffect(() => {
    dialog.current?.showModal();
    // A second Enter of the one that asked doesn't confirm.
    if (question.password === "" && question.text === undefined) cancel.current?.focus();
  }, [question]);
  return (
    <dialog
      ref={dialog}
      className="pvwire-display-dialog"
      onKeyDown={pressOnce}
      onCancel={() => {
        question.answer(undefined);
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (text !== undefined || typed === password) question.answer(typed);
          else setWrong(true);
        }}
      >
        <p>{question.message}</p>
        {(password !== "" || text !== undefined) && (
          <label>
            {text === undefined ? "Password " : "Text "}
            <input
              type={text === undefined ? "password" : "text"}
              autoComplete="off"
              value={typed}
              onChange={(event) => {
                setTyped(event.target.value);
              }}
            />
          </label>
        )}
        {isWrong && <p role="alert">Wrong password</p>}
        <p className="pvwire-display-buttons">
          <button type="submit">OK</button>
          <button
            ref={cancel}
            type="button"
            onClick={() => {
              question.answer(undefined);
            }}
          >
            Cancel
          </button>
        </p>
      </form>
    </dialog>
  );
}

function Menu({
  onClose,
  request,
}: {
  readonly request: MenuRequest;
  readonly onClose: () => void;
}) {
  const menu = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const list = menu.current;
    // Not an action: a second Enter of the one that opened the menu would run it.
    list?.focus();
    const close = (event: Event): void => {
      if (!(event.target instanceof Node) || list?.contains(event.target) !== true) onClose();
    };
    document.addEventListener("pointerdown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
    };
  }, [onClose]);
  return (
    <div
      ref={menu}
      role="menu"
      tabIndex={-1}
      className="pvwire-display-menu"
      style={{ left: request.x, top: request.y }}
      onKeyDown={(event) => {
        pressOnce(event);
        if (event.key === "Escape") onClose();
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (step === undefined) return;
        const buttons = [...event.currentTarget.querySelectorAll("button")];
        const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
        buttons.at(Math.max(at + step, -1) % buttons.length)?.focus();
      }}
    >
      {request.actions.map((action, at) => (
        <button
          key={at}
          type="button"
          role="menuitem"
          aria-disabled={action.problem !== undefined}
          title={action.problem}
          onClick={(event) => {
            if (action.problem !== undefined) return;
            onClose();
            action.run(event);
          }}
        >
          {action.label}
        </button>
      ))}
    </div>
  );
}
