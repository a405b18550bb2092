//! PVs of servers that EPICS base did not write are right and stay so.
//!
//! Topology: a server of another maker, one relay, one client.

use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, Outcome, Severity};
use testbed::{
    Client, Kept, Maker, Network, OtherServer, Pv, PvaGateway, Relay, SoftIoc, keep_up, prefix,
};

/// Subscribes PVs of a server and checks their first values and those that are posted afterwards.
fn values_follow(maker: Maker, names: &[&str]) {
    let network = maker.network();
    let mut server = OtherServer::start(network, maker);
    let scheme = if maker.is_by_ca() { "ca://" } else { "pva://" };
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let name = |pv: &str| format!("{scheme}{}", server.pv(pv));
    let all: Vec<_> = names.iter().map(|pv| name(pv)).collect();
    let [number, text] = [name("number"), name("text")];
    client.subscribe(&all);
    for name in &all {
        client.wait_pv(name, "has a value", |pv| pv.now.is_some());
    }
    client.wait_number(&number, 1.5);
    client.wait_pv(&text, "is abc", |pv| pv.is(&Kept::text("abc")));
    server.post("number", "2.5");
    server.post("text", "\"b\"");
    client.wait_number(&number, 2.5);
    client.wait_pv(&text, "is b", |pv| pv.is(&Kept::text("b")));
}

#[test]
fn values_of_caproto_follow_its_pvs() {
    values_follow(
        Maker::Caproto,
        &["number", "still", "text", "char_text", "choice", "array"],
    );
}

#[test]
fn values_of_pcas_follow_its_pvs() {
    values_follow(
        Maker::Pcas,
        &["number", "still", "text", "char_text", "choice", "array"],
    );
}

#[test]
fn values_of_pv_access_cpp_follow_its_pvs() {
    values_follow(
        Maker::PvAccessCpp,
        &["number", "long", "text", "mode", "array", "empty"],
    );
}

#[test]
fn values_of_caj_follow_its_pvs() {
    values_follow(Maker::Caj, &["number", "still", "text", "choice", "array"]);
}

#[test]
fn values_of_core_pva_follow_its_pvs() {
    values_follow(
        Maker::CorePva,
        &["number", "long", "text", "mode", "array", "empty"],
    );
}

const BEHIND: &str = r#"
    record(ao, "$(P)ao") {
        field(VAL, "1") field(EGU, "mA") field(HIHI, "8") field(HHSV, "MAJOR") field(DRVH, "9") field(PINI, "YES")
    }
    record(mbbo, "$(P)mode") { field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
    record(int64out, "$(P)int64") { field(VAL, "9007199254740993") field(PINI, "YES") }
"#;

/// Waits until a client sees of each PV all that another one sees.
fn same(names: &[String], client: &mut Client, truth: &mut Client, what: &str) {
    for name in names {
        keep_up(what, &mut [client, truth], |clients| {
            let [one, other] = [0, 1].map(|which| clients[which].pv(name));
            let described = |pv: &Pv| {
                let known = pv.metadata.clone().unwrap();
                (known.choices, known.units, known.alarm, known.control)
            };
            let shown = |pv: &Pv| {
                let now = pv.now.clone();
                now.map(|now| (now.value, now.time_ns, now.alarm))
            };
            one.now.is_some()
                && shown(one) == shown(other)
                && described(one) == described(other)
                && one.state() == other.state()
                && !is_silent(one)
                && !is_silent(other)
        });
    }
}

fn is_silent(pv: &Pv) -> bool {
    pv.connection.unwrap().heard_ns != 0
}

#[test]
fn values_behind_a_pva_gateway_are_those_of_its_server() {
    let [behind, before] = [(); 2].map(|()| Network::with_searches_by_udp());
    let prefix = prefix();
    let mut ioc = SoftIoc::with_pv_access(behind, &prefix, BEHIND);
    let gateway = PvaGateway::start([behind], before);
    let flags = ["--enable-put", "--allow-put=*"];
    // One relay by the gateway, the other without it.
    let [relay, direct] = [before, behind].map(|network| Relay::start(network, &flags));
    let names = ioc
        .names(["ao", "mode", "int64"])
        .map(|name| format!("pva://{name}"));
    let [ao, mode, _] = names.each_ref();
    let [mut client, mut truth] = [&relay, &direct].map(|relay| Client::connect(relay.address()));
    for client in [&mut client, &mut truth] {
        client.subscribe_live(&names);
    }
    let same = |client: &mut Client, truth: &mut Client, what: &str| {
        same(&names, client, truth, what);
    };
    same(&mut client, &mut truth, "the first values");
    ioc.put("ao", "8.5");
    ioc.put("mode.ONST", "ON!");
    ioc.put("mode", "1");
    client.wait_pv(ao, "MAJOR", |pv| {
        let now = pv.now.as_ref();
        now.is_some_and(|now| now.alarm.severity == Severity::Major)
    });
    client.wait_pv(mode, "other labels", |pv| {
        pv.metadata.as_ref().unwrap().choices == ["off", "ON!"]
    });
    truth.wait_number(ao, 8.5);
    same(&mut client, &mut truth, "an alarm and labels");
    let (outcome, why) = client.put_number(ao, 20.0);
    assert_eq!((outcome, &*why), (Outcome::Done, "the PV now holds 9"));
    truth.wait_number(ao, 9.0);
    same(&mut client, &mut truth, "a put");

    ioc.hang();
    client.wait_pv(ao, "no answer", is_silent);
    ioc.resume();
    client.wait_pv(ao, "answers", |pv| !is_silent(pv));
    drop(ioc);
    for name in &names {
        client.wait_state(name, ConnectionState::Disconnected);
    }
    assert_eq!(client.put_number(ao, 3.0).0, Outcome::NotConnected);
    let ioc = SoftIoc::with_pv_access(behind, &prefix, BEHIND);
    for name in &names {
        client.wait_state(name, ConnectionState::Connected);
    }
    client.wait_number(ao, 1.0);
    truth.wait_number(ao, 1.0);
    same(
        &mut client,
        &mut truth,
        "the values of the IOC that came back",
    );
    drop(gateway);
    for name in &names {
        client.wait_state(name, ConnectionState::Disconnected);
    }
    drop(ioc);
}

const SHARED: &str = r#"
    record(ao, "$(P)ao") { field(VAL, "1") field(EGU, "mA") field(PINI, "YES") }
    record(mbbo, "$(P)mode") { field(ZRST, "off") field(ONST, "on") field(VAL, "1") field(PINI, "YES") }
    record(calc, "$(P)ticks") { field(INPA, "$(P)ticks") field(CALC, "A+1") field(PINI, "YES") }
"#;

#[test]
fn pvs_of_a_hung_ioc_behind_a_pva_gateway_are_unresponsive_and_those_of_its_other_ioc_are_not() {
    let [one, other, before] = [(); 3].map(|()| Network::with_searches_by_udp());
    let mut iocs = [one, other].map(|network| SoftIoc::with_pv_access(network, &prefix(), SHARED));
    let gateway = PvaGateway::start([one, other], before);
    let relays = [before, one, other].map(|network| Relay::start(network, &[]));
    let [mut client, mut of_hung, mut of_well] = relays
        .each_ref()
        .map(|relay| Client::connect(relay.address()));
    let [hung, well] = iocs.each_ref().map(|ioc| {
        ioc.names(["ao", "mode", "ticks"])
            .map(|name| format!("pva://{name}"))
    });
    client.subscribe_live(&hung);
    client.subscribe_live(&well);
    of_hung.subscribe_live(&hung);
    of_well.subscribe_live(&well);
    for (round, scan) in ["Passive", "1 second"].into_iter().enumerate() {
        for ioc in &mut iocs {
            ioc.put("ticks.SCAN", scan);
            ioc.settle();
        }
        let [ioc, well_ioc] = &mut iocs;
        let begin = Instant::now();
        ioc.hang();
        client.wait("the hung IOC's PVs are unresponsive", |client| {
            hung.iter().all(|name| is_silent(client.pv(name)))
        });
        let took = begin.elapsed();
        let number = 2.0 + round as f64;
        well_ioc.put("ao", &number.to_string());
        client.wait_number(&well[0], number);
        same(&well, &mut client, &mut of_well, "the other IOC's values");
        let end = Instant::now() + Duration::from_secs(3);
        client.wait("they stay so", |client| {
            for name in &hung {
                assert!(is_silent(client.pv(name)), "{name} doesn't answer");
            }
            Instant::now() > end
        });
        // The machine may be busy.
        assert!(took < Duration::from_secs(15), "shown after {took:?}");
        ioc.resume();
        ioc.put("mode", &round.to_string());
        ioc.put("ao", &number.to_string());
        of_hung.wait_number(&hung[0], number);
        same(&hung, &mut client, &mut of_hung, "the values afterwards");
    }
    for name in &well {
        let mut states = client.pv(name).states.iter();
        assert!(states.all(|connection| connection.heard_ns == 0), "{name}");
    }
    for name in &hung {
        // Connected, and twice unresponsive and not.
        let states = client.pv(name).states.iter();
        let mut silent: Vec<_> = states.map(|connection| connection.heard_ns != 0).collect();
        silent.dedup();
        assert_eq!(silent, [false, true, false, true, false], "{name}");
    }
    drop(gateway);
}

#[test]
fn pv_that_pv_access_cpp_does_not_let_be_monitored_says_so_while_its_server_is_there() {
    let network = Maker::PvAccessCppRpc.network();
    let server = OtherServer::start(network, Maker::PvAccessCppRpc);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let name = format!("pva://{}", server.pv("service"));
    let mut client = Client::connect(relay.address());
    client.subscribe(&[&name]);
    client.wait_state(&name, ConnectionState::Connected);
    client.wait_pv(&name, "the server's reason", |pv| {
        let metadata = pv.metadata.as_ref();
        metadata.is_some_and(|it| it.missing_field.contains("Not Implemented"))
    });
    assert_eq!(client.pv(&name).now, None);
    let (outcome, why) = client.put_number(&name, 1.0);
    assert_eq!(outcome, Outcome::Failed, "{why}");
    assert!(why.contains("Not Implemented"), "{why}");
    drop(server);
    client.wait_state(&name, ConnectionState::Disconnected);
}

/// PVs of caproto with labels, and with units.
const DESCRIBED: [&str; 4] = ["choice", "mode", "number", "limited"];

#[test]
fn first_values_of_a_server_whose_metadata_come_late_have_labels_and_units() {
    let network = Network::new();
    let server = OtherServer::with_late_metadata(network, 1.5);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let names = DESCRIBED.map(|name| server.pv(name));
    client.subscribe(&names);
    for name in &names {
        client.wait_pv(name, "has a value", |pv| pv.now.is_some());
        let metadata = client.pv(name).metadata.as_ref().expect("metadata");
        match name {
            name if name.ends_with("choice") => assert_eq!(metadata.choices, ["Closed", "Open"]),
            name if name.ends_with("mode") => assert_eq!(metadata.choices, ["Off", "On", "Fault"]),
            name if name.ends_with("number") => assert_eq!(metadata.units, "mA"),
            _ => assert_eq!(metadata.control.high, 10.0),
        }
    }
    // Single reads of a relay that doesn't know the PVs.
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let (read, _) = client.get(&[&names[0]], 20_000);
    let read = read[0].as_ref().expect("a value");
    assert_eq!(read.metadata.as_ref().unwrap().choices, ["Closed", "Open"]);
}
