/** The control that chooses the system's colours, light or dark. */

import { useState, type ReactNode } from "react";

import { storedTheme, storeTheme, THEMES, type Theme } from "./theme";

const LABELS: Readonly<Record<Theme, string>> = { system: "Auto", light: "Light", dark: "Dark" };

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
