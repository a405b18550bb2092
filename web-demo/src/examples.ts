/** Example documents, one for each tab of the GraphQL console. */

export interface Example {
  readonly title: string;
  readonly query: string;
}

export function examples(prefix: string): readonly Example[] {
  return [
    {
      title: "Live",
      query: `# Press the button beside this: the answer follows the machine.
# What did not change is null, as Coniql has it.
subscription Live {
  subscribeChannel(id: "${prefix}:RING:CURRENT") {
    value { string(units: true) }
    time { datetime }
    status { severity message }
    connection { state }
  }
}
`,
    },
    {
      title: "Several",
      query: `# Many PVs in one subscription: each answer holds those that changed.
subscription Several {
  subscribeChannels(ids: ["${prefix}:RF:VOLTAGE", "${prefix}:MAG:DIPOLE:TEMP", "${prefix}:NOT_THERE"]) {
    id
    value { string(units: true) }
    status { quality }
    connection { state since }
  }
}
`,
    },
    {
      title: "Read",
      query: `# A query: all there is to know of one PV, now.
query Read {
  getChannel(id: "${prefix}:RF:VOLTAGE:SET") {
    id
    value { number string(units: true) }
    time { datetime }
    status { severity alarmStatus writable }
    display {
      description units precision
      controlRange { min max }
      alarmRange { min max }
      warningRange { min max }
    }
  }
}
`,
    },
    {
      title: "Write",
      query: `# A mutation: the second PV has no rule that allows it, and the answer says so.
mutation Write {
  putChannels(ids: ["${prefix}:RF:VOLTAGE:SET", "${prefix}:MAG:DIPOLE:LIMIT"], values: ["1.9", "300"]) {
    id
    value { string(units: true) }
  }
}
`,
    },
  ];
}
