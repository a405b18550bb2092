/** pvwire/testing: a relay and a clock for an application's own tests, without a network. */

export { createFakeClock, type FakeClock } from "./clock.js";
export type { FakePv, FakeValue } from "./fake_pv.js";
export {
  createFakeRelay,
  type FakePut,
  type FakeRelay,
  type FakeRelayOptions,
  type PutAnswer,
} from "./fake_relay.js";
