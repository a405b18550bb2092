/** Delays updates of widgets that are scrolled out of view. */

/** Maximum delay, because screen readers also read widgets out of view. */
const LAG_MS = 2000;

/** Number of groups in which widgets out of view are updated, one after another. */
const GROUPS = 20;
const TURN_MS = LAG_MS / GROUPS;

/**
 * Within this distance of the viewport a widget is updated fully: it may soon be scrolled into
 * view.
 */
const MARGIN = "100px";

/** Number of widgets beside each other in a group. */
const TOGETHER = 50;

let sights = 0;

/**
 * One widget, and whether it is visible. While it is not, its listener is called at most every two
 * seconds.
 */
export class Sight {
  /** The same as that of those beside it: a browser draws them together. */
  readonly group = Math.floor(sights++ / TOGETHER) % GROUPS;
  #element: Element | null = null;
  #isSeen = true;

  /** The `ref` of the widget's element. */
  readonly watch = (element: Element | null): void => {
    if (this.#element !== null) observer?.unobserve(this.#element);
    this.#element = element;
    this.#isSeen = true;
    // Tests of applications may run without layout.
    if (element === null || typeof IntersectionObserver !== "function") return;
    watched.set(element, this);
    observer ??= new IntersectionObserver(observed, { rootMargin: MARGIN });
    observer.observe(element);
  };

  tell(listener: () => void): void {
    if (this.#isSeen) listener();
    else tellLater(this, listener);
  }

  forget(): void {
    waiting.delete(this);
  }

  changed(isSeen: boolean): void {
    this.#isSeen = isSeen;
    if (!isSeen) return;
    const listener = waiting.get(this);
    waiting.delete(this);
    listener?.();
  }
}

const watched = new WeakMap<Element, Sight>();
/** Shared by all widgets. */
let observer: IntersectionObserver | undefined;

function observed(entries: readonly IntersectionObserverEntry[]): void {
  for (const { isIntersecting, target } of entries) watched.get(target)?.changed(isIntersecting);
}

const waiting = new Map<Sight, () => void>();
let isTelling = false;
let timer: ReturnType<typeof setTimeout> | undefined;
let turn = 0;

const turnNow = (): number => Math.floor(performance.now() / TURN_MS);

function tellLater(sight: Sight, listener: () => void): void {
  waiting.set(sight, listener);
  timer ??= setTimeout(tellDue, 2 * TURN_MS);
  if (isTelling || turnNow() === turn) return;
  // Updates them together with the visible widgets: a separate frame would cost more than the
  // updates.
  isTelling = true;
  queueMicrotask(tellDue);
}

/** Updates the groups that have become due since the last time. */
function tellDue(): void {
  const now = turnNow();
  const groups = now - turn;
  turn = now;
  isTelling = false;
  clearTimeout(timer);
  for (const [sight, listener] of waiting) {
    if ((now - sight.group) % GROUPS >= groups) continue;
    waiting.delete(sight);
    listener();
  }
  timer = waiting.size > 0 ? setTimeout(tellDue, 2 * TURN_MS) : undefined;
}
