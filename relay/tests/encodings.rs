//! An encoding that the relay doesn't have: text messages on a path without a subprotocol.
//!
//! Topology: the relay's stages in this process, from a simulated PV to the sockets of two clients
//! with pvwire's own encoding and three with an encoding of this test, all with the same set of
//! PVs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pvwire_relay::access::rule::Rules;
use pvwire_relay::compute::Pool;
use pvwire_relay::config::Config;
use pvwire_relay::fanout::control::ControlQueue;
use pvwire_relay::fanout::dirty::Dirty;
use pvwire_relay::fanout::distributor::Distributor;
use pvwire_relay::fanout::encoding::{
    BadRequest, Described, Encoding, Encodings, Format, MessageEncoder, MessageKind, Values,
};
use pvwire_relay::fanout::flat;
use pvwire_relay::fanout::frame::Frame;
use pvwire_relay::fanout::output::FrameSink;
use pvwire_relay::fanout::set::PvSet;
use pvwire_relay::ingest::sim::SimSource;
use pvwire_relay::ingest::{Intake, RowValue, Source};
use pvwire_relay::limits::Limits;
use pvwire_relay::limits::connections::{Callers, Users};
use pvwire_relay::limits::memory::Memory;
use pvwire_relay::ops::metrics::Metrics;
use pvwire_relay::queries::service::ServiceTable;
use pvwire_relay::session::question::Services;
use pvwire_relay::session::shard::{Arrival, Shard, ShardContext, ShardHandle, ShardLimits};
use pvwire_relay::session::transport::AnyTransport;
use pvwire_relay::state::registry::Registry;
use pvwire_relay::state::table::{Changes, Latest, Table};
use pvwire_relay::state::tick::{TickLimits, Ticker};
use pvwire_schema::types::{
    Filter, FrameKind, Hello, PvId, Reply, Request, RequestBody, SkipCause,
};

use testbed::DEADLINE;

const PV: &str = "sim://ramp";

/// Ticks whose frames were made.
type Made = Arc<Mutex<Vec<u64>>>;

/// One line per row: `tick pv value`. A request is the name of the PV to subscribe.
struct Lines {
    made: Made,
}

impl Format for Lines {
    fn path(&self) -> &'static str {
        "/lines"
    }

    fn subprotocol(&self) -> Option<&'static str> {
        None
    }

    fn requests(&self) -> MessageKind {
        MessageKind::Text
    }

    fn request(&self, message: &[u8]) -> Result<Request, BadRequest> {
        let name = std::str::from_utf8(message).map_err(|_| BadRequest::Malformed)?;
        let body = RequestBody::Subscribe {
            names: vec![name.to_owned()],
            filter: Filter::default(),
        };
        Ok(Request { id: 1, body })
    }

    fn encoder(&self) -> Box<dyn MessageEncoder> {
        Box::new(LineEncoder {
            made: Arc::clone(&self.made),
        })
    }
}

struct LineEncoder {
    made: Made,
}

impl LineEncoder {
    fn lines<'a>(tick: u64, rows: impl Iterator<Item = (PvId, &'a RowValue)>) -> Frame {
        let lines: Vec<_> = rows
            .filter_map(|(pv, value)| match value {
                RowValue::Number(number) => Some(format!("{tick} {} {number}", pv.0)),
                _ => None,
            })
            .collect();
        Frame::text(&lines.join("\n")).with_rows(lines.len() as u32)
    }

    fn latest(tick: u64, (table, ids): Values<'_>) -> Frame {
        let latest = |pv: &PvId| Some((*pv, &table.get(*pv)?.latest.as_ref()?.value));
        Self::lines(tick, ids.iter().filter_map(latest))
    }
}

impl MessageEncoder for LineEncoder {
    fn update(
        &mut self,
        changes: &Changes,
        _dirty: Option<&Dirty>,
        set: &PvSet,
        _prev_tick: u64,
    ) -> Option<Frame> {
        let rows = changes.rows.iter().filter(|row| set.contains(row.pv));
        let mut rows = rows.map(|row| (row.pv, &row.value)).peekable();
        rows.peek()?;
        self.made.lock().unwrap().push(changes.tick);
        Some(Self::lines(changes.tick, rows))
    }

    fn catch_up(
        &mut self,
        table: &Table,
        set: &PvSet,
        _since: (u64, SkipCause),
        tick: u64,
    ) -> Frame {
        Self::latest(tick, (table, set.ids()))
    }

    fn large(
        &mut self,
        _kind: FrameKind,
        tick: u64,
        pv: PvId,
        (latest, _): (&Latest, SkipCause),
        _of: Described<'_>,
    ) -> Frame {
        Self::lines(tick, [(pv, &latest.value)].into_iter())
    }

    fn reply_with(
        &mut self,
        _kind: FrameKind,
        tick: u64,
        _to: u32,
        _reply: &Reply,
        values: Values<'_>,
    ) -> Frame {
        Self::latest(tick, values)
    }
}

/// The relay's stages; dropped in this order.
pub(crate) struct Stages {
    _ticker: Ticker,
    pub(crate) shard: Shard,
    _pool: Pool,
}

pub(crate) fn stages(encodings: &Arc<Encodings>, services: Arc<dyn Services>) -> Stages {
    let config = Config::default();
    let limits = Limits::of(&config);
    let intake = Intake::new();
    let [sim, ssim, _] = SimSource::start().unwrap();
    let sources: Vec<Box<dyn Source>> = vec![Box::new(sim), Box::new(ssim)];
    let linger = Duration::from_secs(10);
    let registry = Registry::new(
        Arc::clone(&intake),
        sources,
        "sim",
        linger,
        Rules::default(),
    );
    let registry = Arc::new(registry);
    let control = ControlQueue::new(Arc::clone(&intake));
    let pool = Pool::start().unwrap();
    let context = ShardContext {
        registry: Arc::clone(&registry),
        control: Arc::clone(&control),
        encodings: Arc::clone(encodings),
        hello: Hello {
            relay_version: String::new(),
            relay_instance: 0,
            max_request_bytes: 0,
            max_subscriptions: 0,
            ack_interval_ms: 0,
            not_found_after_ms: 0,
            authenticate: false,
            user: String::new(),
            expires_in_ms: 0,
            relays: Vec::new(),
            crowded: false,
        },
        peers: Arc::default(),
        limits: ShardLimits {
            evict_after: DEADLINE,
            ack_window: DEADLINE,
            ping_after: Duration::ZERO,
            get_timeout: config.get_timeout,
            put_timeout: config.put_timeout,
            requests: limits.requests,
            new_names: limits.new_names,
        },
        batches: tokio::sync::mpsc::unbounded_channel().0,
        pool: pool.handle(),
        services,
        metrics: Arc::new(Metrics::default()),
        tokens: None,
        users: Users::new(limits.clients_per_user),
        callers: Callers::new(limits.callers),
        memory: Memory::new(limits.memory),
        audit: None,
    };
    let shard = Shard::start(0, context).unwrap();
    let sinks: Vec<Box<dyn FrameSink>> = vec![Box::new(shard.handle())];
    let stage = Distributor::new(control, registry, sinks, limits.subscriptions, encodings);
    let ticks = TickLimits {
        shortest: config.shortest_tick,
        longest: config.longest_tick,
    };
    let table = Table::new(Duration::from_secs(5));
    let sinks = vec![Box::new(stage.unwrap()) as Box<_>];
    Stages {
        _ticker: Ticker::start(intake, table, sinks, ticks, Arc::default()).unwrap(),
        shard,
        _pool: pool,
    }
}

/// A client of a shard, without the handshake over HTTP.
pub(crate) fn connect(shard: &ShardHandle, encoding: Encoding) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    far.set_read_timeout(Some(DEADLINE)).unwrap();
    shard.adopt(Arrival {
        transport: AnyTransport::new(listener.accept().unwrap().0, None).unwrap(),
        read_ahead: Vec::new(),
        encoding,
        peer: Default::default(),
        rates: Default::default(),
        stay: None,
    });
    far
}

/// Sends a short message, with a mask of zeros.
fn send(to: &mut TcpStream, kind: MessageKind, payload: &[u8]) {
    let header = [0x80 | kind as u8, 0x80 | payload.len() as u8, 0, 0, 0, 0];
    to.write_all(&[&header, payload].concat()).unwrap();
}

/// The next message: its opcode and payload.
pub(crate) fn next(from: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 2];
    from.read_exact(&mut header).unwrap();
    let mut length = usize::from(header[1]);
    if length == 126 {
        let mut long = [0; 2];
        from.read_exact(&mut long).unwrap();
        length = u16::from_be_bytes(long).into();
    } else if length == 127 {
        let mut longer = [0; 8];
        from.read_exact(&mut longer).unwrap();
        length = u64::from_be_bytes(longer) as usize;
    }
    let mut payload = vec![0; length];
    from.read_exact(&mut payload).unwrap();
    (header[0] & 0xf, payload)
}

/// The next text message, unless it is empty.
fn next_lines(from: &mut TcpStream) -> Option<String> {
    let (opcode, payload) = next(from);
    assert_eq!(opcode, MessageKind::Text as u8);
    Some(String::from_utf8(payload).unwrap()).filter(|text| !text.is_empty())
}

#[test]
fn text_encoding_shares_groups_and_has_one_frame_per_tick() {
    let made = Made::default();
    let mut known = flat::encodings();
    let lines = known.add(Box::new(Lines {
        made: Arc::clone(&made),
    }));
    let known = Arc::new(known);
    assert_eq!(known.select("/lines", |_| false), Some((lines, None)));
    assert_eq!(known.select("/ws", |_| false), None);
    let offers = |offered: &str| offered == pvwire_schema::SUBPROTOCOL;
    let (flat, named) = known.select("/ws", offers).unwrap();
    assert_eq!(named, Some(pvwire_schema::SUBPROTOCOL));
    assert_eq!(known.subprotocols("/ws"), ["pvwire.v1", "pvwire.v1.lz4"]);
    assert!(known.subprotocols("/lines").is_empty());
    let paths: Vec<_> = known.paths().into_iter().collect();
    assert_eq!(paths, ["/lines", "/ws", "/ws/large"]);
    assert!(known.has_stream("/ws/large") && !known.has_stream("/ws"));

    let stages = stages(&known, Arc::new(ServiceTable::default()));
    let shard = stages.shard.handle();
    let subscribe = pvwire_schema::encode::request(&Request {
        id: 1,
        body: RequestBody::Subscribe {
            names: vec![PV.to_owned()],
            filter: Filter::default(),
        },
    });
    let mut flats = [(); 2].map(|()| connect(&shard, flat));
    for client in &mut flats {
        send_binary(client, &subscribe);
    }
    let mut texts = [(); 3].map(|()| connect(&shard, lines));
    for client in &mut texts {
        send(client, MessageKind::Text, PV.as_bytes());
    }

    // The last client to connect has shared its group since its first tick.
    let mut shared = Vec::new();
    while shared.len() < 6 {
        shared.extend(next_lines(&mut texts[2]));
    }
    for text in &shared[1..] {
        for client in &mut texts[..2] {
            while next_lines(client).as_ref() != Some(text) {}
        }
        let tick = text.split(' ').next().unwrap().parse::<u64>().unwrap();
        let made = made.lock().unwrap();
        let times = made.iter().filter(|made| **made == tick).count();
        assert_eq!(times, 1, "made once for its three clients: {text}");
    }
    for client in &mut flats {
        for _ in 0..3 {
            assert_eq!(next(client).0, MessageKind::Binary as u8);
        }
    }
    // A text is not a request in pvwire's own encoding, and binary data is not one in this
    // encoding.
    send(&mut flats[0], MessageKind::Text, b"x");
    send(&mut texts[0], MessageKind::Binary, b"x");
    for client in [&mut flats[0], &mut texts[0]] {
        while next(client).0 != 0x8 {}
    }
}

/// Sends a longer binary message.
pub(crate) fn send_binary(to: &mut TcpStream, payload: &[u8]) {
    let length = (payload.len() as u16).to_be_bytes();
    let header = [0x82, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
    to.write_all(&[&header, payload].concat()).unwrap();
}
