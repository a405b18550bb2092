/** Visibility of the page, and the page events after which the connection is checked. */

const hasPage = (): boolean => typeof document === "object";

export const isSeen = (): boolean => hasPage() && document.visibilityState === "visible";

export const isHidden = (): boolean => hasPage() && document.visibilityState === "hidden";

/**
 * Calls `onVisibility` when the page is shown or hidden, and `onOnline` when the network returns.
 * Returns a function that ends both. Without a page, as in Node, nothing is called.
 */
export function watchPage(onVisibility: () => void, onOnline: () => void): () => void {
  const end = new AbortController();
  if (hasPage()) {
    document.addEventListener("visibilitychange", onVisibility, end);
    document.defaultView?.addEventListener("pageshow", onVisibility, end);
    document.defaultView?.addEventListener("online", onOnline, end);
  }
  return () => {
    end.abort();
  };
}
