/** Light or dark? As the system has it unless the reader chose, and then the choice is kept. */

export type Theme = "system" | "light" | "dark";

export const THEMES: readonly Theme[] = ["system", "light", "dark"];

const STORAGE_KEY = "pvwire-demo-theme";

export function storedTheme(): Theme {
  const stored = window.localStorage.getItem(STORAGE_KEY);
  return THEMES.find((theme) => theme === stored) ?? "system";
}

export function storeTheme(theme: Theme): void {
  window.localStorage.setItem(STORAGE_KEY, theme);
  applyStoredTheme();
}

/** Called before the first paint, so that a dark room sees no white flash. */
export function applyStoredTheme(): void {
  document.documentElement.dataset.theme = storedTheme();
}
