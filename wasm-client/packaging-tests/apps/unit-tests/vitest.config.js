/** For Vitest. */

export default { test: { environment: "jsdom", globals: true, include: ["*.test.js"] } };
