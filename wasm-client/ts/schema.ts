/** Enums, unions, field ids and struct layouts of the protocol; written by `make regen` from `schema/fbs`. */

export const ConnectionState = {
  Connecting: 0,
  NotFound: 1,
  Connected: 2,
  Disconnected: 3,
} as const;

export const FrameKind = {
  Update: 0,
  CatchUp: 1,
  Snapshot: 2,
  Answer: 3,
} as const;

export const NameProblem = {
  Unknown: 0,
  BadName: 1,
  NoSuchSource: 2,
  TooManySubscriptions: 3,
  TimedOut: 4,
  TooManyFilters: 5,
  NotAllowed: 6,
  TooManyPvs: 7,
  NoSuchField: 8,
} as const;

export const Outcome = {
  Unknown: 0,
  Done: 1,
  NotAllowed: 2,
  NoAccess: 3,
  BadValue: 4,
  NotConnected: 5,
  Changed: 6,
  Failed: 7,
  TimedOut: 8,
  Interrupted: 9,
  BadName: 10,
  NotSupported: 11,
  Withheld: 12,
} as const;

export const ReplyBody = {
  NONE: 0,
  Hello: 1,
  Subscribed: 2,
  Unsubscribed: 3,
  Got: 4,
  Pong: 5,
  RequestError: 6,
  PutDone: 7,
  RpcDone: 8,
  Relays: 9,
  AnswerPage: 10,
} as const;

export const RequestBody = {
  NONE: 0,
  Subscribe: 1,
  Unsubscribe: 2,
  Get: 3,
  Ack: 4,
  Ping: 5,
  Put: 6,
  Rpc: 7,
  Pace: 8,
  Authenticate: 9,
  Describe: 10,
  PutMany: 11,
  PutWithin: 12,
  Ask: 13,
  Cancel: 14,
} as const;

export const RequestProblem = {
  Unknown: 0,
  Refused: 1,
  NotSupported: 2,
} as const;

export const SkipCause = {
  Unknown: 0,
  Relay: 1,
  Source: 2,
  Filter: 3,
  Behind: 4,
  Paced: 5,
  Bus: 6,
} as const;

export const ValueType = {
  Unknown: 0,
  Float64: 1,
  Float32: 2,
  Int8: 3,
  UInt8: 4,
  Int16: 5,
  UInt16: 6,
  Int32: 7,
  UInt32: 8,
  Int64: 9,
  UInt64: 10,
  Enum: 11,
  String: 12,
  Boolean: 13,
  Structure: 14,
  Union: 15,
  Any: 16,
} as const;

export const AckField = {
  tick: 0,
} as const;

export const AnswerPageField = {
  outcome: 0,
  message: 1,
  page: 2,
  last: 3,
  bytes: 4,
  data: 5,
} as const;

export const ArgumentField = {
  name: 0,
  value: 1,
} as const;

export const AskField = {
  service: 0,
  body: 1,
} as const;

export const AuthenticateField = {
  token: 0,
} as const;

export const BlobField = {
  id: 0,
  timeNs: 1,
  type: 2,
  array: 3,
  count: 4,
  data: 5,
  text: 6,
  structure: 7,
  partial: 8,
} as const;

export const CancelField = {
  request: 0,
} as const;

export const ConnectionField = {
  id: 0,
  state: 1,
  sinceNs: 2,
  read: 3,
  write: 4,
  puts: 5,
  heardNs: 6,
  writeUnknown: 7,
} as const;

export const DescribeField = {
  ids: 0,
} as const;

export const DetailField = {
  row: 0,
  userTag: 1,
  message: 2,
} as const;

export const FilterField = {
  minIntervalMs: 0,
  deadband: 1,
  every: 2,
  stride: 3,
  maxLength: 4,
  points: 5,
  float32: 6,
  average: 7,
} as const;

export const FrameField = {
  kind: 0,
  tick: 1,
  prevTick: 2,
  metadata: 3,
  connections: 4,
  numbers: 5,
  blobs: 6,
  alarms: 7,
  skips: 8,
  sequences: 9,
  replyTo: 10,
  replyType: 11,
  reply: 12,
  details: 13,
  skipCause: 14,
} as const;

export const GetField = {
  names: 0,
  timeoutMs: 1,
  description: 2,
} as const;

export const GotField = {
  ids: 0,
  errors: 1,
} as const;

export const HelloField = {
  relayVersion: 0,
  relayInstance: 1,
  maxRequestBytes: 2,
  maxSubscriptions: 3,
  ackIntervalMs: 4,
  notFoundAfterMs: 5,
  authenticate: 6,
  user: 7,
  expiresInMs: 8,
  relays: 9,
  crowded: 10,
} as const;

export const LimitsField = {
  low: 0,
  high: 1,
} as const;

export const MetadataField = {
  id: 0,
  type: 1,
  elementCount: 2,
  units: 3,
  precision: 4,
  choices: 5,
  display: 6,
  control: 7,
  warning: 8,
  alarm: 9,
  description: 10,
  epoch: 11,
  typeId: 12,
  form: 13,
  missingField: 14,
} as const;

export const NameErrorField = {
  index: 0,
  problem: 1,
  message: 2,
} as const;

export const NodeField = {
  name: 0,
  typeId: 1,
  type: 2,
  array: 3,
  count: 4,
  data: 5,
  text: 6,
  fields: 7,
} as const;

export const NumbersField = {
  count: 0,
  ids: 1,
  baseTimeNs: 2,
  times: 3,
  values: 4,
  packed: 5,
  idsBytes: 6,
  timesBytes: 7,
} as const;

export const PaceField = {
  intervalMs: 0,
} as const;

export const PingField = {
  clientTimeNs: 0,
} as const;

export const PongField = {
  clientTimeNs: 0,
  relayTimeNs: 1,
} as const;

export const PutField = {
  name: 0,
  value: 1,
  wait: 2,
  timeoutMs: 3,
  expectedSequence: 4,
  expectedEpoch: 5,
} as const;

export const PutDoneField = {
  outcome: 0,
  message: 1,
  readback: 2,
} as const;

export const PutManyField = {
  puts: 0,
  allPermitted: 1,
} as const;

export const PutValueField = {
  type: 0,
  array: 1,
  count: 2,
  data: 3,
  text: 4,
} as const;

export const PutWithinField = {
  puts: 0,
  allPermitted: 1,
} as const;

export const RelaysField = {
  relays: 0,
} as const;

export const RequestField = {
  id: 0,
  bodyType: 1,
  body: 2,
} as const;

export const RequestErrorField = {
  problem: 0,
  message: 1,
} as const;

export const RpcField = {
  name: 0,
  arguments: 1,
  timeoutMs: 2,
} as const;

export const RpcDoneField = {
  outcome: 0,
  message: 1,
  result: 2,
} as const;

export const SubscribeField = {
  names: 0,
  filter: 1,
} as const;

export const SubscribedField = {
  ids: 0,
  errors: 1,
} as const;

export const UnsubscribeField = {
  ids: 0,
} as const;

export const UnsubscribedField = {
  ids: 0,
} as const;

export const AlarmRowLayout = {
  bytes: 8,
  row: 0,
  status: 4,
  severity: 6,
} as const;

export const SkipRowLayout = {
  bytes: 12,
  row: 0,
  count: 4,
  cause: 8,
} as const;
