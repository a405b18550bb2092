/** The GraphQL schema in GraphQL's notation; the module's tables contain the same. */

export const schemaSdl = `"""EPICS process variables (PVs), answered in the browser."""
schema {
  query: Query
  mutation: Mutation
  subscription: Subscription
}

type Query {
  """The current state of a PV. Null and an error if there is no value within \`timeout\` seconds."""
  getChannel(id: ID!, timeout: Float! = 5): Channel

  """The same for many PVs, in the order of \`ids\`. Null and an error for each without a value."""
  getChannels(ids: [ID!]!, timeout: Float! = 5): [Channel]!
}

type Mutation {
  """
  Writes each value to the PV with the same index in \`ids\`, then reads the PVs. Null and an error
  for each PV that was not written. A value is a number, the label or index of a choice, or text;
  \`[…]\` is a list in JSON, \`{"numberType": …, "base64": …}\` an array.
  """
  putChannels(
    ids: [ID!]!
    values: [String!]!
    """Maximum time in seconds, for the puts and for the reads separately."""
    timeout: Float! = 5
    """Wait until the record, and all records that it triggers, have finished processing."""
    wait: Boolean! = false
  ): [Channel]!
}

type Subscription {
  """
  One PV: a complete result, then a result for each change of the selected fields. In later results
  the objects that did not change are null.
  """
  subscribeChannel(id: ID!): Channel

  """Many PVs: each result contains the PVs that changed, as in \`subscribeChannel\`."""
  subscribeChannels(ids: [ID!]!): [Channel!]!
}

"""A PV."""
type Channel {
  """The name with its source: \`ca://NAME\` even if \`NAME\` was requested."""
  id: String
  """Null before the first value."""
  value: ChannelValue
  """The time stamp that the IOC set; null before the first value, and if the server sends none."""
  time: ChannelTime
  """Alarm and write access."""
  status: ChannelStatus
  """How to display the value; null until it is known."""
  display: ChannelDisplay
  """Connection state and read access."""
  connection: ChannelConnection
  """Number of values that this client did not receive."""
  skipped: Float
  """The same by cause."""
  skips: ChannelSkips
}

"""ISO 8601 in UTC with microseconds: \`2026-01-31T12:00:00.123456Z\`."""
scalar DateTime

"""A JavaScript number, including NaN and ±Infinity."""
scalar Double

"""A JavaScript \`bigint\`."""
scalar BigInt

"""A JavaScript typed array of the PV's element type, or an array of strings. It has no JSON form."""
scalar TypedArray

"""A JavaScript \`Float64Array\`. It has no JSON form."""
scalar Float64Array

"""A pvAccess structure as a JavaScript object. It has no JSON form."""
scalar Structure

"""A value. Forms that it does not have are null."""
type ChannelValue {
  """The number, or the index of the choice; null for NaN, ±Infinity, strings and arrays."""
  float: Float
  """
  Text for operators: a number with PREC digits, or without a precision the shortest text that is
  parsed to the same number; the label of a choice; \`true\` or \`false\`; the first elements of an array.
  """
  string(
    """Append the engineering units, if any."""
    units: Boolean! = false
  ): String
  """The elements of a numeric array, little-endian."""
  base64Array(
    """Maximum number of elements; 0 for all."""
    length: Int! = 0
  ): Base64Array
  """The elements of an array as text, numbers as in \`string\`."""
  stringArray(
    """Maximum number of elements; 0 for all."""
    length: Int! = 0
  ): [String!]
  """The number, including NaN and ±Infinity, or the index of the choice."""
  number: Double
  """The text of a string PV or of an array of characters."""
  text: String
  """All digits of an integer, including 64-bit integers."""
  exact: String
  """The same as a JavaScript \`bigint\`."""
  bigint: BigInt
  """The elements of an array: a view on the received message, or strings."""
  array: TypedArray
  """The elements of a numeric array as doubles, without a copy if they are doubles."""
  float64Array(
    """Maximum number of elements; 0 for all."""
    length: Int! = 0
  ): Float64Array
  """The fields of a structure."""
  structure: Structure
  """The elements of an array of structures or unions."""
  structures: [Structure]
  """An NTTable."""
  table: Table
  """An NTNDArray."""
  ndArray: NDArray
}

"""A time stamp."""
type ChannelTime {
  """Seconds past the POSIX epoch, with a fraction."""
  seconds: Float!
  """Nanoseconds past the last whole second: 0 to 999,999,999."""
  nanoseconds: Int!
  """The IOC defines its meaning."""
  userTag: Int!
  """The same in ISO 8601."""
  datetime: DateTime!
}

type ChannelStatus {
  """
  VALID, WARNING, ALARM or INVALID, by severity; UNDEFINED while not connected or unresponsive, and
  if the server sends no alarm.
  """
  quality: String!
  """The alarm message, or why the PV is not connected; empty if there is no alarm."""
  message: String!
  """Whether the IOC currently grants write access; true if only a put can show it."""
  mutable: Boolean!
  """
  The last known severity, kept while disconnected; null before the first value and if the server
  sends no alarm.
  """
  severity: AlarmSeverity
  """EPICS name of the alarm condition: NO_ALARM, HIHI, UDF …; null if \`severity\` is null."""
  alarmStatus: String
  """\`mutable\`, and the relay permits puts to this PV; null if only a put can show it."""
  writable: Boolean
}

type ChannelDisplay {
  """The record's description; empty if not known."""
  description: String!
  role: ChannelRole!
  """TEXTINPUT if the IOC grants write access, otherwise TEXTUPDATE."""
  widget: Widget
  """Control limits (DRVL, DRVH). Like the other ranges, null if there is neither limit."""
  controlRange: Range
  """Display limits (LOPR, HOPR)."""
  displayRange: Range
  """Alarm limits (LOLO, HIHI)."""
  alarmRange: Range
  """Warning limits (LOW, HIGH)."""
  warningRange: Range
  """Engineering units; null for enums and strings, empty if there are none."""
  units: String
  """Digits after the decimal point; null for integers, enums and strings."""
  precision: Int
  """The number format of pvAccess; null if not known."""
  form: DisplayForm
  """Labels of an enum."""
  choices: [String!]
  """Element type at the source: Float64, Enum, String …; Unknown before it is known."""
  type: String!
  """Maximum number of elements; 1 for a scalar."""
  elementCount: Int!
  """Identifier of a pvAccess structure, such as \`epics:nt/NTTable:1.0\`; empty for other sources."""
  typeId: String!
}

"""Each end is null if there is no limit."""
type Range {
  min: Float
  max: Float
}

type ChannelConnection {
  state: ConnectionState!
  """The value is current only if true."""
  connected: Boolean!
  """Start of the state; null before the relay has answered."""
  since: DateTime
  """Time until which the value was current, while it may be out of date; otherwise null."""
  lastHeard: DateTime
  """Connected, but the server has stopped responding, or the relay has for three seconds."""
  unresponsive: Boolean!
  """Read access."""
  readable: Boolean!
  """Why there is no value: name refused, no such field, or no read access; otherwise null."""
  reason: String
}

type ChannelSkips {
  """The page was too slow."""
  behind: Float!
  """The page was hidden and was updated at intervals."""
  paced: Float!
  """Removed by a filter that the page requested."""
  filter: Float!
  """The relay was too slow."""
  relay: Float!
  """The server or its library merged them into later updates, as far as this is known."""
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
  """Name of the structure's field."""
  name: String!
  """The column's heading."""
  label: String!
  """The elements."""
  array: TypedArray
  stringArray(length: Int! = 0): [String!]
  """Null for a column of strings."""
  base64Array(length: Int! = 0): Base64Array
}

"""An image or another array with dimensions."""
type NDArray {
  uniqueId: Int
  """Sizes, the fastest dimension first."""
  dimensions: [Int!]!
  """Name of the compression; empty if uncompressed."""
  codec: String!
  numberType: NumberType
  """The elements."""
  array: TypedArray
  base64Array(length: Int! = 0): Base64Array
  attributes: [NDAttribute!]!
}

type NDAttribute {
  name: String!
  """Null if it is not a scalar."""
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

"""Access rights at the IOC: read only, write only, both."""
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

"""EPICS alarm severity."""
enum AlarmSeverity {
  NO_ALARM
  MINOR
  MAJOR
  INVALID
}

enum ConnectionState {
  """Being searched for."""
  connecting
  """Not found within the relay's search time; the search continues."""
  notFound
  connected
  """The connection was lost; the last value is kept."""
  disconnected
  """The relay is unreachable; the last value is kept."""
  relayLost
  """The relay refused the name."""
  refused
}
`;
