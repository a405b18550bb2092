/** The GraphQL schema in GraphQL's notation; the module's tables contain the same. */

export const schemaSdl = `"""EPICS process variables (PVs), answered in the browser."""
schema {
  query: Query
  mutation: Mutation
  subscription: Subscription
}

type Query {
  """The present state of one PV. Null and an error when there is no answer within \`timeout\` seconds."""
  getChannel(id: ID!, timeout: Float! = 5): Channel

  """The present state of many PVs, in the order of \`ids\`; null and an error for each without an answer."""
  getChannels(ids: [ID!]!, timeout: Float! = 5): [Channel]!
}

type Mutation {
  """
  Writes each value to the PV in the same place of \`ids\`, then reads the PVs. Null and an error for
  each that wasn't written. A value is a number, the label or index of a choice, or text; one that
  begins with \`[\` is a list in JSON, and \`{"numberType": …, "base64": …}\` an array.
  """
  putChannels(
    ids: [ID!]!
    values: [String!]!
    """Seconds that each of the two may take."""
    timeout: Float! = 5
    """Read only when the record, and all that it set off, has finished processing."""
    wait: Boolean! = false
  ): [Channel]!
}

type Subscription {
  """
  One PV: first all of it, then a result for each change of what is selected, in which the objects
  that didn't change are null.
  """
  subscribeChannel(id: ID!): Channel

  """Many PVs: each result holds those that changed, as \`subscribeChannel\` gives them."""
  subscribeChannels(ids: [ID!]!): [Channel!]!
}

"""One PV."""
type Channel {
  """The name with its source: \`ca://NAME\` also when asked for \`NAME\`."""
  id: String
  """Null before the first value."""
  value: ChannelValue
  """Time stamp of the value, as the IOC set it."""
  time: ChannelTime
  """What to think of the value."""
  status: ChannelStatus
  """How to draw it; null before it is known."""
  display: ChannelDisplay
  """Whether the PV is there."""
  connection: ChannelConnection
  """Values that this client was not sent one by one, for whatever cause."""
  skipped: Float
  """The same by cause."""
  skips: ChannelSkips
}

"""ISO 8601 in UTC with microseconds: \`2026-01-31T12:00:00.123456Z\`."""
scalar DateTime

"""A JavaScript number: NaN and ±Infinity included."""
scalar Double

"""A JavaScript \`bigint\`."""
scalar BigInt

"""A JavaScript typed array of the PV's own element type, or an array of strings. Not for JSON."""
scalar TypedArray

"""A JavaScript \`Float64Array\`. Not for JSON."""
scalar Float64Array

"""The fields of a pvAccess structure as a JavaScript object. Not for JSON."""
scalar Structure

"""A value in the forms that it has."""
type ChannelValue {
  """The number or the index of the choice; null for NaN, ±Infinity, strings and arrays."""
  float: Float
  """
  As an operator reads it: PREC digits, without a precision the shortest text that reads back as the same
  number, label of the choice, true or false; arrays shortened.
  """
  string(
    """Append the engineering units, if there are any."""
    units: Boolean! = false
  ): String
  """The elements of a numeric array, little-endian; null for all others."""
  base64Array(
    """Maximum number of elements; 0 for all."""
    length: Int! = 0
  ): Base64Array
  """The elements of an array, each as \`string\` would be; null for scalars."""
  stringArray(
    """Maximum number of elements; 0 for all."""
    length: Int! = 0
  ): [String!]
  """The number or the index of the choice, whatever it is; null for strings and arrays."""
  number: Double
  """The text of a string PV, or in an array of characters; null for all others."""
  text: String
  """All digits of an integer, of 64 bits too; null for all others."""
  exact: String
  """The same as a number."""
  bigint: BigInt
  """The elements of an array PV, in place; null for scalars."""
  array: TypedArray
  """The elements of a numeric array as doubles, in place if they are; null for all others."""
  float64Array(
    """Maximum number of elements; 0 for all."""
    length: Int! = 0
  ): Float64Array
  """The fields of a structure; null for all others."""
  structure: Structure
  """The elements of an array of structures or unions; null for all others."""
  structures: [Structure]
  """An NTTable by its columns; null for all others."""
  table: Table
  """An NTNDArray; null for all others."""
  ndArray: NDArray
}

"""When the IOC says the value was sampled."""
type ChannelTime {
  """Past the POSIX epoch, as precise as a double is."""
  seconds: Float!
  """Past the last whole second, exact: 0 to 999,999,999."""
  nanoseconds: Int!
  """Means what the IOC wants it to."""
  userTag: Int!
  """The same in ISO 8601."""
  datetime: DateTime!
}

type ChannelStatus {
  """
  VALID, WARNING, ALARM or INVALID, as the severity; UNDEFINED while not connected and where the server
  gives no alarm.
  """
  quality: String!
  """The alarm as text; empty without an alarm."""
  message: String!
  """Whether the PV may be written now, as far as the IOC is concerned; true where that isn't known."""
  mutable: Boolean!
  """
  The last known severity, kept while disconnected; null before the first value and where the server gives
  no alarm.
  """
  severity: AlarmSeverity
  """EPICS's name of the alarm condition: NO_ALARM, HIHI, UDF …; null as severity is."""
  alarmStatus: String
  """\`mutable\`, and the relay takes puts to this PV; null when only a put can show it."""
  writable: Boolean
}

type ChannelDisplay {
  """The record's description; empty when not known."""
  description: String!
  role: ChannelRole!
  """TEXTINPUT where the IOC takes values, else TEXTUPDATE."""
  widget: Widget
  """What may be written (DRVL to DRVH); null where neither end is given, as the other ranges."""
  controlRange: Range
  """What to draw (LOPR to HOPR)."""
  displayRange: Range
  """LOLO to HIHI."""
  alarmRange: Range
  """LOW to HIGH."""
  warningRange: Range
  """Engineering units; null for enums and strings, empty when there are none."""
  units: String
  """Digits after the decimal point; null for integers, enums and strings."""
  precision: Int
  """How pvAccess wants a number shown; null when not known."""
  form: DisplayForm
  """Labels of an enum by index; null for all others."""
  choices: [String!]
  """Element type at the source: Float64, Enum, String …; Unknown before it is known."""
  type: String!
  """Most elements that the PV can hold; 1 for a scalar."""
  elementCount: Int!
  """Identifier of a pvAccess structure, such as \`epics:nt/NTTable:1.0\`; empty for other sources."""
  typeId: String!
}

"""Null where the source gives no limit."""
type Range {
  min: Float
  max: Float
}

type ChannelConnection {
  state: ConnectionState!
  """Only then is the value the present one."""
  connected: Boolean!
  """When \`state\` began; null before the relay has answered."""
  since: DateTime
  """When the server was last heard from, while the value may be old; null otherwise."""
  lastHeard: DateTime
  """Connected, but the server has stopped answering."""
  unresponsive: Boolean!
  """Access rights: may be read."""
  readable: Boolean!
  """Why there is no value: the name is refused, or no read access; null otherwise."""
  reason: String
}

type ChannelSkips {
  """This page didn't keep up."""
  behind: Float!
  """The page was hidden, and was brought up to date at intervals."""
  paced: Float!
  """An option for fewer updates withheld them."""
  filter: Float!
  """The relay couldn't take them in fast enough."""
  relay: Float!
  """The server or its library put them into others, as far as that is known."""
  source: Float!
}

type Base64Array {
  numberType: NumberType!
  base64: String!
}

"""The columns of an NTTable."""
type Table {
  labels: [String!]!
  columns: [TableColumn!]!
}

type TableColumn {
  """Name of the field that holds the column."""
  name: String!
  """What to write above it."""
  label: String!
  """The elements, in place."""
  array: TypedArray
  stringArray(length: Int! = 0): [String!]
  """Null for a column of strings."""
  base64Array(length: Int! = 0): Base64Array
}

"""An image, or other samples of many dimensions."""
type NDArray {
  uniqueId: Int
  """Lengths, the fastest dimension first."""
  dimensions: [Int!]!
  """How the samples are compressed; empty when they are not."""
  codec: String!
  numberType: NumberType
  """The samples, in place."""
  array: TypedArray
  base64Array(length: Int! = 0): Base64Array
  attributes: [NDAttribute!]!
}

type NDAttribute {
  name: String!
  """Null where it is no scalar."""
  value: String
  description: String!
}

"""Type of an array's elements."""
enum NumberType {
  INT8
  UINT8
  INT16
  UINT16
  INT32
  UINT32
  INT64
  UINT64
  FLOAT32
  FLOAT64
}

"""What the IOC lets this client do."""
enum ChannelRole {
  RO
  WO
  RW
}

enum Widget {
  TEXTINPUT
  TEXTUPDATE
  MULTILINETEXTUPDATE
  LED
  COMBO
  CHECKBOX
  BAR
  BUTTON
  PLOTX
  PLOTY
}

enum DisplayForm {
  DEFAULT
  STRING
  BINARY
  DECIMAL
  HEX
  EXPONENTIAL
  ENGINEERING
}

"""As EPICS spells it."""
enum AlarmSeverity {
  NO_ALARM
  MINOR
  MAJOR
  INVALID
}

enum ConnectionState {
  """Searched for, not found yet."""
  connecting
  """Searched for longer than the relay's not-found time; the search goes on."""
  notFound
  connected
  """Was connected; the last value is kept and is old."""
  disconnected
  """The relay itself is out of reach; the last value is kept and is old."""
  relayLost
  """The relay didn't take the name."""
  refused
}
`;
