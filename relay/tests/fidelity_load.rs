//! A client that stalled, or lost read access, gets the true state under load.
//!
//! Topology: a soft IOC with hundreds of records, a relay, a client that stalls, one that always
//! reads, and an independent Channel Access client for comparison.

use pvwire_schema::types::Severity;

use testbed::records::record;
use testbed::{Client, How, Kept, Message, Network, Pv, Relay, SoftIoc, Truth, keep_up, prefix};

const ALARMED: usize = 300;

/// A thousand updates of a few PVs; among them each of the three hundred is updated, twice or once,
/// and half of them stay in alarm.
const BURST: &str = "
for i in range(300):
    for again in range(4): ioc('dbpf %sflood.PROC 1' % P)
    ioc('dbpf %sbusy %d' % (P, i))
    ioc('dbpf %sa%d 30' % (P, i))
    if i % 2 == 0: ioc('dbpf %sa%d 0.5' % (P, i))
    if i % 10 == 0: ioc('dbpf %sa%d.EGU new' % (P, i))
ioc('dbpf %send over' % P)
";

#[test]
fn client_that_stalls_during_an_alarm_flood_ends_in_the_truth() {
    let (network, prefix) = (Network::new(), prefix());
    let mut database: String = (0..ALARMED)
        .map(|number| record("ao", &format!("{prefix}a{number}"), 0))
        .collect();
    let elements = vec!["1"; 2_000].join(",");
    database += &format!(
        r#"
        record(waveform, "{prefix}elements") {{
            field(FTVL, "DOUBLE") field(NELM, "2000") field(INP, "[{elements}]")
        }}
        record(waveform, "{prefix}flood") {{
            field(FTVL, "DOUBLE") field(NELM, "2000") field(INP, "{prefix}elements")
        }}
        record(longout, "{prefix}busy") {{ field(VAL, "-1") field(PINI, "YES") }}
        record(stringout, "{prefix}end") {{ field(VAL, "not yet") field(PINI, "YES") }}
        "#
    );
    let mut ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
    // It stalls for longer than the usual times allow on a busy machine.
    let flags = ["--ack-window-ms", "60000", "--evict-after-ms", "60000"];
    let relay = Relay::start(network, &flags);
    let [flood, busy, end] = ioc.names(["flood", "busy", "end"]);
    let mut names = vec![flood, busy.clone(), end.clone()];
    names.extend((0..ALARMED).map(|number| ioc.name(&format!("a{number}"))));
    let small = How {
        receive_buffer: Some(4096),
        ..How::default()
    };
    let mut stalled = Client::connect_as(relay.address(), small);
    let mut reads = Client::connect(relay.address());
    stalled.subscribe_live(&names);
    reads.subscribe_live(&names);

    ioc.run(BURST);
    reads.wait_pv(&end, "the end", |pv| pv.is(&Kept::text("over")));
    // An IOC that has an array's update in its queue leaves the next one out: what it sends then
    // has the newer elements, but the older time stamp. With the queue empty there is nothing to
    // wait for.
    ioc.run("ioc('dbpf %sflood.PROC 1' % P)");
    ioc.settle();
    let truth = Truth::ask(network, &names);
    truth.wait_equal(&mut reads);
    let all = reads.tick;
    let mut both = [&mut stalled, &mut reads];
    keep_up("all ticks", &mut both, |clients| clients[0].tick >= all);
    truth.wait_equal(&mut stalled);

    assert!(stalled.messages.iter().any(Message::is_catch_up));
    assert!(stalled.pv(&busy).skipped > 50, "it hardly was behind");
    let mut severities = [0, 0];
    for name in &names {
        // On a busy machine the reading client may also be behind for a moment, and is told so.
        let counted = |pv: &Pv| pv.rows.len() as u64 + pv.skipped;
        let (slow, whole) = (stalled.pv(name), reads.pv(name));
        assert!(whole.skipped <= slow.skipped, "{name}");
        assert_eq!(counted(slow), counted(whole), "{name}");
        let severity = truth.of(name).alarm.severity;
        severities[usize::from(severity == Severity::Major)] += 1;
    }
    assert_eq!(severities, [ALARMED / 2 + 3, ALARMED / 2]);
}

#[test]
fn write_access_taken_from_a_group_is_gone_for_each_of_its_pvs() {
    let (network, prefix) = (Network::new(), prefix());
    let rules = format!(
        "ASG(DEFAULT) {{ RULE(1, READ) RULE(1, WRITE) }}
         ASG(SWITCHED) {{
            INPA(\"{prefix}switch\")
            RULE(1, READ)
            RULE(1, WRITE) {{ CALC(\"A>=1\") }}
         }}"
    );
    let mut database = format!(r#"record(ao, "{prefix}switch") {{ field(VAL, "1") }}"#);
    for number in 0..200 {
        database += &format!(
            r#"record(calc, "{prefix}{number}") {{
                field(CALC, "VAL+1") field(SCAN, ".1 second") field(ASG, "SWITCHED")
            }}"#
        );
    }
    let mut ioc = SoftIoc::with_prefix(network, &prefix, &database, &rules);
    let relay = Relay::start(network, &[]);
    let names: Vec<String> = (0..200).map(|number| format!("{prefix}{number}")).collect();
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    let writable = |client: &Client| {
        let connections = names.iter().map(|name| client.pv(name).connection.unwrap());
        connections.filter(|connection| connection.write).count()
    };
    client.wait("all may be written", |client| writable(client) == 200);

    for (position, count) in [("0", 0), ("1", 200), ("0", 0)] {
        ioc.put("switch", position);
        client.wait("the rights follow", |client| writable(client) == count);
        let truth = Truth::ask(network, &names);
        assert!(names.iter().all(|name| truth.of(name).write == (count > 0)));
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&names);
        assert_eq!(writable(&late), count);
    }
}
