/** For Jest. The package is made of modules, so nothing is transformed. */

export default {
  testEnvironment: "jsdom",
  // `ws` has no WebSocket for browsers.
  testEnvironmentOptions: { customExportConditions: ["node"] },
  setupFiles: ["./jest.setup.js"],
  transform: {},
};
