/** Lint rules for the TypeScript of all packages. */

import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import { defineConfig, globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  globalIgnores([
    "**/dist/",
    "**/pkg/",
    "**/target/",
    ".local/",
    "**/node_modules/",
    "**/test-results/",
    "**/playwright-report/",
  ]),
  js.configs.recommended,
  {
    files: ["**/*.ts", "**/*.tsx"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      "@typescript-eslint/consistent-type-definitions": "off",
      "@typescript-eslint/explicit-module-boundary-types": "error",
      // `usePv<T>` is told what its selection gives; a text can't say it.
      "@typescript-eslint/no-unnecessary-type-parameters": "off",
      // Reading a column: the index was checked where it came from.
      "@typescript-eslint/non-nullable-type-assertion-style": "off",
    },
  },
  {
    // All files that import React.
    files: [
      "**/*.tsx",
      "web-demo/src/**/*.ts",
      "wasm-client/ts/{display,plots,react,widgets}/**/*.ts",
    ],
    extends: [hooks.configs.flat.recommended],
  },
  {
    // Browsers load these as scripts, not as modules.
    files: ["relay/src/doors/pvws/site/*.js"],
    languageOptions: { sourceType: "script" },
  },
  {
    // React is in five entries; everything else works without it. The build of the elements has
    // Preact in its place.
    files: ["wasm-client/ts/**"],
    ignores: [
      "wasm-client/ts/display/**",
      "wasm-client/ts/plots/**",
      "wasm-client/ts/react/**",
      "wasm-client/ts/widgets/**",
      "wasm-client/ts/elements/**",
    ],
    rules: {
      "no-restricted-imports": [
        "error",
        {
          patterns: ["react", "react/*", "react-dom", "react-dom/*", "**/react/*", "**/widgets/*"],
        },
      ],
    },
  },
  {
    // Texts that people read are marked, so that a page can be in another language.
    files: ["app/src/**/*.{ts,tsx}", "wasm-client/ts/{plots,widgets}/**/*.{ts,tsx}"],
    rules: {
      "no-restricted-syntax": [
        "error",
        { selector: "JSXText[value=/[A-Za-z]{2}/]", message: "Mark the text: {t`…`}" },
        {
          selector: "JSXAttribute[name.name=/^(aria-label|alt|label|placeholder)$/] > Literal",
          message: "Mark the text: {t`…`}",
        },
        {
          selector: "TaggedTemplateExpression[tag.name='t']:not(:function *)",
          message: "Before the language is known, a text would be English: put it in a function",
        },
      ],
    },
  },
  {
    files: ["**/*.test.tsx"],
    // Tests count renders.
    rules: { "react-hooks/immutability": "off", "react-hooks/globals": "off" },
  },
  {
    // cs-web-lib and its types are installed with the app, whose build checks them.
    files: ["wasm-client/packaging-tests/apps/cs-web-lib/**"],
    extends: [tseslint.configs.disableTypeChecked],
  },
);
