/** Light or dark: the system's setting, or the user's choice. */

import { useState, useSyncExternalStore, type ReactNode } from "react";

export type Theme = "system" | "light" | "dark";

const THEMES: readonly Theme[] = ["system", "light", "dark"];

const SYSTEM_DARK = window.matchMedia("(prefers-color-scheme: dark)");

const STORAGE_KEY = "pvwire-demo-theme";

function storedTheme(): Theme {
  const stored = window.localStorage.getItem(STORAGE_KEY);
  return THEMES.find((theme) => theme === stored) ?? "system";
}

function storeTheme(theme: Theme): void {
  window.localStorage.setItem(STORAGE_KEY, theme);
  applyStoredTheme();
}

/** Called before the first paint, so that the page doesn't flash white in a dark room. */
export function applyStoredTheme(): void {
  document.documentElement.dataset.theme = storedTheme();
}

/** Whether the page is dark now, for parts that CSS alone doesn't control. */
export function useDark(): boolean {
  return useSyncExternalStore(watchTheme, isDark);
}

function isDark(): boolean {
  const theme = storedTheme();
  return theme === "system" ? SYSTEM_DARK.matches : theme === "dark";
}

function watchTheme(listener: () => void): () => void {
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  SYSTEM_DARK.addEventListener("change", listener);
  return () => {
    observer.disconnect();
    SYSTEM_DARK.removeEventListener("change", listener);
  };
}

const LABELS: Readonly<Record<Theme, string>> = { system: "Auto", light: "Light", dark: "Dark" };

/** The control that chooses the system's colours, light or dark. */
export function ThemeChoice(): ReactNode {
  const [chosen, setChosen] = useState(storedTheme);
  return (
    <fieldset className="theme-choice">
      <legend className="pvwire-visually-hidden">Colours</legend>
      {THEMES.map((theme) => (
        <label key={theme}>
          <input
            type="radio"
            name="theme"
            value={theme}
            checked={theme === chosen}
            onChange={() => {
              storeTheme(theme);
              setChosen(theme);
            }}
          />
          {LABELS[theme]}
        </label>
      ))}
    </fieldset>
  );
}
