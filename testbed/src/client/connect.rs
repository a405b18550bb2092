//! How a client behaves, and how it connects.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use pvwire_schema::limits::MAX_FRAME_BYTES;
use pvwire_schema::{LZ4_SUBPROTOCOL, SUBPROTOCOL};
use socket2::{Domain, Socket, Type};
use tungstenite::client::{ClientRequestBuilder, client_with_config};
use tungstenite::protocol::WebSocketConfig;

use super::{Client, POLL};
use crate::{DEADLINE, Line, Trust};

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Size of the kernel's receive buffer, if not the default.
    pub receive_buffer: Option<usize>,
    /// Acknowledges frames by itself.
    pub acks: bool,
    /// Asks for columns packed by LZ4.
    pub lz4: bool,
    /// The certificates that it trusts, if it uses TLS.
    pub trust: Option<Trust>,
}

impl Default for How {
    fn default() -> Self {
        Self {
            receive_buffer: None,
            acks: true,
            lz4: false,
            trust: None,
        }
    }
}

impl Client {
    /// Connects and waits for the relay's greeting.
    pub fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, How::default())
    }

    pub fn connect_as(address: SocketAddr, how: How) -> Self {
        let mut client = Self::try_connect(address, how).expect("the relay takes the connection");
        client.wait("the relay's greeting", |client| client.hello.is_some());
        client
    }

    /// Connects with headers as a browser's page or a proxy adds them.
    pub fn connect_with(address: SocketAddr, headers: &[(&str, &str)]) -> Self {
        let client = Self::try_connect_with(address, How::default(), headers);
        let mut client = client.expect("the relay takes the connection");
        client.wait("the relay's greeting", |client| client.hello.is_some());
        client
    }

    /// Connects, without waiting for the greeting, unless there is no relay or it ends meanwhile.
    pub fn try_connect(address: SocketAddr, how: How) -> Option<Self> {
        Self::try_connect_with(address, how, &[])
    }

    pub fn try_connect_with(
        address: SocketAddr,
        how: How,
        headers: &[(&str, &str)],
    ) -> Option<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        if let Some(bytes) = how.receive_buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        socket.connect(&address.into()).ok()?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let uri = format!("ws://{address}/ws").parse().unwrap();
        let subprotocol = if how.lz4 {
            LZ4_SUBPROTOCOL
        } else {
            SUBPROTOCOL
        };
        let mut request = ClientRequestBuilder::new(uri).with_sub_protocol(subprotocol);
        for (name, value) in headers {
            request = request.with_header(*name, *value);
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_FRAME_BYTES))
            .max_frame_size(Some(MAX_FRAME_BYTES));
        let (socket, response) =
            client_with_config(request, Line::over(stream, how.trust), Some(config)).ok()?;
        assert_eq!(
            response.headers()["sec-websocket-protocol"],
            subprotocol,
            "the relay agrees on the subprotocol"
        );
        let tcp = socket.get_ref().tcp();
        tcp.set_read_timeout(Some(POLL)).unwrap();
        Some(Self {
            socket,
            how,
            hello: None,
            pvs: HashMap::new(),
            ids: HashMap::new(),
            tick: 0,
            last_ack: Instant::now(),
            replies: HashMap::new(),
            messages: Vec::new(),
            last_answer: Vec::new(),
            address,
            large: None,
            has_lost_stream: false,
            text: None,
            closed: None,
            next_request: 1,
        })
    }
}

/// Connects several clients.
pub fn connect_all(address: SocketAddr, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::connect(address)).collect()
}
