//! The table of all keys: what each is called, what it means, and how its value is read and shown.

use super::Config;
use super::history::show_size;
use super::value::{
    Expected, address, admin_address, archiver_rule, boolean, channelfinder_url, count, header,
    history_rule, host_name, host_pattern, limit, listed_user, max_rate, memory_size, millis,
    network, optional_header, origin, pattern, replay_speed, screen_access, screen_folder, servers,
    share, show_list, show_millis, show_optional, show_word, site, socket_address, source, text,
    word,
};

/// One key.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Stands for the value in the reference and in `--help`.
    pub(super) value: &'static str,
    pub(super) help: &'static str,
    /// Of a list: removes the values that an earlier origin set.
    pub(super) clear: Option<fn(&mut Config)>,
    /// Sets the value; of a list, adds one.
    pub(super) set: fn(&mut Config, &str) -> Result<(), Expected>,
    pub(super) show: fn(&Config) -> String,
}

impl Key {
    /// Whether it takes several values.
    pub(super) fn is_list(&self) -> bool {
        self.clear.is_some()
    }
}

/// A key with one value.
macro_rules! one {
    ($name:literal, $value:literal, $field:ident, $parse:expr, $show:expr, $help:literal) => {
        Key {
            name: $name,
            value: $value,
            help: $help,
            clear: None,
            set: |config, value| {
                config.$field = ($parse)(value)?;
                Ok(())
            },
            show: |config| ($show)(&config.$field),
        }
    };
}

/// A key with several values.
macro_rules! list {
    ($name:literal, $value:literal, $field:ident, $parse:expr, $help:literal) => {
        Key {
            name: $name,
            value: $value,
            help: $help,
            clear: Some(|config| config.$field.clear()),
            set: |config, value| {
                config.$field.push(($parse)(value)?);
                Ok(())
            },
            show: |config| show_list(&config.$field),
        }
    };
}

/// A part of `max_memory_mib`, unless it is set.
macro_rules! memory_share {
    ($name:literal, $field:ident, $effective:ident, $help:literal) => {
        Key {
            show: |config| config.$effective().to_string(),
            ..one!(
                $name,
                "N",
                $field,
                share(1_000_000),
                |_| String::new(),
                $help
            )
        }
    };
}

macro_rules! text {
    ($name:literal, $value:literal, $field:ident, $help:literal) => {
        one!($name, $value, $field, text, String::clone, $help)
    };
}

macro_rules! boolean {
    ($name:literal, $field:ident, $help:literal) => {
        one!($name, "BOOL", $field, boolean, bool::to_string, $help)
    };
}

macro_rules! millis {
    ($name:literal, $field:ident, $least:literal, $help:literal) => {
        one!($name, "MS", $field, millis($least), show_millis, $help)
    };
}

macro_rules! number {
    ($name:literal, $field:ident, $parse:expr, $help:literal) => {
        one!($name, "N", $field, $parse, usize::to_string, $help)
    };
}

/// All keys, in the order of the reference.
pub(super) const KEYS: &[Key] = &[
    one!(
        "listen",
        "ADDRESS:PORT",
        listen,
        address,
        ToString::to_string,
        "Address and port of the HTTP server; port 0 chooses a free one"
    ),
    one!(
        "admin_listen",
        "ADDRESS:PORT",
        admin_listen,
        admin_address,
        show_optional,
        "Separate address and port for operators: the status page, /status, /metrics, /live and /ready, by plain HTTP and without a login. The address of listen then serves only /live and /ready of these"
    ),
    one!(
        "pages",
        "MODE",
        pages,
        word,
        show_word,
        "Access to the status page, /status and /metrics at the address of listen: open (without a login), login (as auth says) or off"
    ),
    list!(
        "disconnect_access",
        "USER",
        disconnect_access,
        listed_user,
        "Who may disconnect clients at the address of listen, as in Health of the app: a user, a group after @, or * for every user who has logged in; may be repeated. Without a value, clients are disconnected at the address of admin_listen alone, where everyone who reaches it may do so"
    ),
    boolean!(
        "app",
        app,
        "Serve the app at / of the address of listen, with which people show PVs by typing their names; false, or --no-app, serves the status page there"
    ),
    list!(
        "confirm_put",
        "PATTERN",
        confirm_put,
        pattern,
        "PVs that the app writes only after a confirmation, as SR:BEAM*; a pattern that fits a record fits its fields too; may be repeated. It is a courtesy of the app and no access rule: all other programs write these PVs without it, as allow_put and the rules permit. Every client that may connect can read the patterns, at /app.json"
    ),
    list!(
        "screens",
        "[PREFIX=]DIR",
        screens,
        screen_folder,
        "Folder with displays (.bob, .opi) and the files that they refer to, such as /epics/screens or ops=/epics/ops; may be repeated with other prefixes. Clients read the files at /screens/ or /screens/PREFIX/, and the app shows the displays. Files whose real path is outside the folder, hidden files and files above 32 MiB are not served"
    ),
    list!(
        "screens_access",
        "PREFIX=READER,…",
        screens_access,
        screen_access,
        "Who may read the displays of a prefix, as ops=alice,@operators: users, groups after @, or * for every user who has logged in; may be repeated. Every client may read the displays of other prefixes"
    ),
    text!(
        "saved",
        "DIR",
        saved,
        "Existing folder for the lists of PVs that users save by the app, as /var/lib/pvwire/saved: one file a user, and one for all clients without a login, with at most 1 MiB each. Several relays may use the same folder. Empty: lists are saved in the browser and in links"
    ),
    text!(
        "tls_cert",
        "FILE",
        tls_cert,
        "TLS certificate of the relay (PEM, followed by the rest of its chain); a changed file is read again"
    ),
    text!(
        "tls_key",
        "FILE",
        tls_key,
        "Private key of the TLS certificate (PEM)"
    ),
    list!(
        "allow_origin",
        "ORIGIN",
        allow_origin,
        origin,
        "Origin of web pages that may connect besides the relay's own, as https://screens.example.org; may be repeated; * allows any origin and cannot be combined with enable_put"
    ),
    list!(
        "allow_host",
        "NAME",
        allow_host,
        host_name,
        "Host name by which clients may address this relay, besides IP addresses and localhost; may be repeated"
    ),
    one!(
        "auth",
        "MODE",
        auth,
        word,
        show_word,
        "How clients authenticate: none, jwt (a JSON Web Token in their first message) or trusted-header (headers set by a reverse proxy)"
    ),
    boolean!(
        "allow_anonymous",
        allow_anonymous,
        "Allow a relay without authentication to listen on an address that other machines can reach"
    ),
    text!(
        "jwt_keys",
        "FILE|URL",
        jwt_keys,
        "JSON Web Key Set that tokens are verified with; read again when it changes"
    ),
    millis!(
        "jwt_keys_keep_ms",
        jwt_keys_keep,
        1000,
        "How long the last keys stay valid while jwt_keys cannot be read or contains no key. After this time all log-ins are refused; sessions last until their tokens expire"
    ),
    text!(
        "jwt_audience",
        "AUD",
        jwt_audience,
        "Required audience of tokens (claim aud)"
    ),
    text!(
        "jwt_issuer",
        "ISS",
        jwt_issuer,
        "Required issuer of tokens (claim iss); unset, the issuer is not checked"
    ),
    text!(
        "jwt_user_claim",
        "CLAIM",
        jwt_user_claim,
        "Claim with the user's name"
    ),
    text!(
        "jwt_groups_claim",
        "CLAIM",
        jwt_groups_claim,
        "Claim with the user's groups"
    ),
    text!(
        "jwt_cookie",
        "NAME",
        jwt_cookie,
        "Cookie with which clients of PVWS and Coniql and requests by plain HTTP may bring their token, instead of the header Authorization; a login page of the site sets it. Empty: none"
    ),
    list!(
        "trusted_proxy",
        "NETWORK",
        trusted_proxy,
        network,
        "Network of trusted reverse proxies, as 10.1.0.0/16; may be repeated. The relay takes client addresses from their X-Forwarded-For header and, with auth = trusted-header, identities from user_header and groups_header"
    ),
    one!(
        "user_header",
        "NAME",
        user_header,
        header,
        ToString::to_string,
        "Header in which the proxy passes the user's name"
    ),
    one!(
        "groups_header",
        "NAME",
        groups_header,
        optional_header,
        show_optional,
        "Header in which the proxy passes the user's groups, separated by commas. Set it only if the proxy sets or removes this header in every request: otherwise clients choose their own groups"
    ),
    one!(
        "default_source",
        "SOURCE",
        default_source,
        source,
        String::clone,
        "Source of PV names without a prefix: ca or pva"
    ),
    list!(
        "names_file",
        "FILE",
        names_file,
        text,
        "File with names of PVs that clients may look for: one name in a line, a database (.db) with the names of its records and aliases, or a .substitutions file whose databases are in its folder; read at the start; may be repeated"
    ),
    one!(
        "channelfinder",
        "URL",
        channelfinder,
        channelfinder_url,
        show_optional,
        "ChannelFinder whose channels clients may look for, as http://HOST:8080/ChannelFinder; a query in its own language limits them, as http://HOST:8080/ChannelFinder?pvStatus=Active&~name=SR:*. Clients are offered the names that they may read, with type, description, host, IOC and tags"
    ),
    text!(
        "channelfinder_credentials",
        "FILE",
        channelfinder_credentials,
        "File with USER:PASSWORD in one line, for a ChannelFinder that wants a login (HTTP Basic) for reading; read again for each refresh. Use https: by http the password crosses the network in plain text"
    ),
    list!(
        "channelfinder_property",
        "NAME",
        channelfinder_property,
        text,
        "Property of ChannelFinder's channels whose value clients are told with a name, as area; may be repeated. Others stay hidden, since properties may be anything that a site's IOCs publish"
    ),
    millis!(
        "channelfinder_interval_ms",
        channelfinder_interval,
        1_000,
        "Interval at which all channels are read from ChannelFinder; after a failure, during which the last names stay, it is tried again earlier"
    ),
    millis!(
        "channelfinder_timeout_ms",
        channelfinder_timeout,
        1,
        "How long a request waits for ChannelFinder: until it is connected, until its answer begins, and for each further part of it. Reading all channels may take 20 times as long"
    ),
    boolean!(
        "enable_sim",
        enable_sim,
        "Serve simulated PVs (sim://, ssim://, psim://), which the relay computes itself; for demos and tests"
    ),
    text!(
        "replay",
        "FILE",
        replay,
        "Serve the PVs of a recording (pvwire-relay record) as if they were live, in place of PVs of servers and simulated ones"
    ),
    one!(
        "replay_speed",
        "N",
        replay_speed,
        replay_speed,
        ToString::to_string,
        "Times the speed of the recording, from 0.1 to 100; pages change it by the PV replay://speed"
    ),
    boolean!(
        "replay_loop",
        replay_loop,
        "Begin the recording again at its end; otherwise its last state stays"
    ),
    millis!(
        "linger_ms",
        linger,
        0,
        "How long a monitor stays open after its last client unsubscribed"
    ),
    millis!(
        "not_found_after_ms",
        not_found_after,
        10,
        "A PV that does not connect within this time is reported as not found; the search continues"
    ),
    millis!(
        "get_timeout_ms",
        get_timeout,
        1,
        "How long a get waits for first values, unless the request says otherwise"
    ),
    list!(
        "max_rate",
        "PATTERN=HZ",
        max_rate,
        max_rate,
        "Maximum rate of updates of the PVs that match a pattern, in updates per second, for all clients of every protocol, as SR:*=10 or pva://CAM:*=0.5; may be repeated, and the first pattern that fits a PV or its record decides. 0 for no limit. Changes of alarm and connection pass at once, and so does the last value of a burst when its interval is over"
    ),
    list!(
        "history",
        "PATTERN=DURATION",
        history,
        history_rule,
        "For how long past updates of the PVs that match a pattern are kept in memory, as SR:*=1h; may be repeated, and the first pattern that fits decides. A PV without * or ? in its pattern is monitored from the start; one that fits a pattern stays monitored after its first client has left, until it has been disconnected for that long. 0 keeps nothing. PVs that fit no pattern are kept for 10 minutes while clients have them. Numbers and texts of up to 256 bytes are kept, arrays and structures are not"
    ),
    one!(
        "history_memory",
        "SIZE",
        history_memory,
        memory_size,
        show_size,
        "Memory for past updates of all PVs, as 256MB; beyond this, the oldest ones of all PVs are removed. 0, or --no-history, keeps nothing"
    ),
    text!(
        "history_dir",
        "DIR",
        history_dir,
        "Folder on a local disk for past updates, as /var/lib/pvwire/history, so that they survive a restart of the relay, also an unplanned one, which costs those of the last second at most. It is created if its parent exists, and each relay needs a separate one. Empty: past updates are in memory alone"
    ),
    one!(
        "history_disk",
        "SIZE",
        history_disk,
        memory_size,
        show_size,
        "Space for past updates in history_dir, as 1GB; beyond this, the oldest ones are removed there. Four times history_memory is enough for all that memory has"
    ),
    list!(
        "archiver",
        "PATTERN=URL",
        archiver,
        archiver_rule,
        "Archiver Appliance that has the past of the PVs that match a pattern, by the address of its retrieval service, as SR:*=http://archiver:17668/retrieval; may be repeated, and the first pattern that fits decides. Clients that may read a PV get its archived samples through the relay, which forwards no other request"
    ),
    one!(
        "archiver_max_bytes",
        "SIZE",
        archiver_max_bytes,
        memory_size,
        show_size,
        "Longest answer of an archiver that is passed on, as 64MB; a longer one is cut, and its client is told so"
    ),
    number!(
        "archiver_max_requests",
        archiver_max_requests,
        count(1_000),
        "Maximum number of requests to archivers at the same time, of which one user, or one address without a user, has at most half; further ones wait for their turn"
    ),
    millis!(
        "archiver_names_interval_ms",
        archiver_names_interval,
        0,
        "Interval at which the names of all PVs are read from archivers, so that clients are offered them, as 3600000; 0: never"
    ),
    millis!(
        "archiver_timeout_ms",
        archiver_timeout,
        1,
        "How long a request waits for an archiver: until it is connected, until its answer begins, and for each further part of it"
    ),
    boolean!(
        "enable_put",
        enable_put,
        "Allow clients to write to the PVs that allow_put or a [[rule]] permits"
    ),
    list!(
        "allow_put",
        "PATTERN",
        allow_put,
        pattern,
        "PVs that every client may write unless a [[rule]] in the configuration file decides, as SR:*:SET or pva://BL7:*; may be repeated"
    ),
    text!(
        "pvlist",
        "FILE",
        pvlist,
        "List of the PVs that are served (.pvlist), in the format of the Channel Access and pvAccess gateways"
    ),
    text!(
        "access_security",
        "FILE",
        access_security,
        "Access security file (.acf), in the format of IOCs and gateways; decides about reads and writes that no [[rule]] matches"
    ),
    text!(
        "audit_file",
        "FILE",
        audit_file,
        "File to which every attempt to write is appended as a line of JSON; reopened when it is moved or deleted"
    ),
    one!(
        "audit_fail",
        "MODE",
        audit_fail_closed,
        word,
        show_word,
        "When the audit file cannot be written: open (execute puts anyway) or closed (refuse puts)"
    ),
    one!(
        "audit_sync",
        "WHEN",
        audit_sync,
        word,
        show_word,
        "When audit records are flushed to disk (fsync): never (left to the operating system), each (every record, with audit_fail = closed before the put is sent) or 1s (once a second)"
    ),
    millis!(
        "put_timeout_ms",
        put_timeout,
        1,
        "How long a put waits for its completion, unless the request says otherwise"
    ),
    boolean!(
        "coniql",
        coniql,
        "Serve clients of Coniql, unchanged: GraphQL over WebSocket at /ws (subprotocols graphql-transport-ws and graphql-ws), and over HTTP at /ws and /graphql. With auth = jwt a client without a token is anonymous, and the rules decide what it may do"
    ),
    boolean!(
        "coniql_strict",
        coniql_strict,
        "Answer clients of Coniql as Coniql 0.4.2 does, for programs that depend on it: datetime in the relay's local time without a zone, no value while disconnected, no data at all when one name has no value"
    ),
    boolean!(
        "coniql_graphiql",
        coniql_graphiql,
        "Serve a page at /graphiql on which GraphQL documents can be tried; needs coniql"
    ),
    boolean!(
        "http_api",
        http_api,
        "Serve single PVs by plain HTTP below /pv/, for scripts, and names of PVs at /names: the same rules, identities and limits apply as to all clients"
    ),
    boolean!(
        "pvws",
        pvws,
        "Serve clients of PVWS, unchanged: the WebSocket at /pvws/pv, files and HTTP routes below /pvws/. With auth = jwt a client without a token is anonymous, and the rules decide what it may do"
    ),
    one!(
        "pvws_default_type",
        "SOURCE",
        pvws_default_type,
        source,
        String::clone,
        "Source of names without a prefix for clients of PVWS: ca or pva. PVWS's own variable PV_DEFAULT_TYPE is read too"
    ),
    boolean!(
        "pvws_write",
        pvws_write,
        "Let clients of PVWS write what enable_put and the rules allow them. PVWS's own variable PV_WRITE_SUPPORT is read too"
    ),
    millis!(
        "pvws_throttle_ms",
        pvws_throttle,
        0,
        "Minimum interval between two updates of a PV to clients of PVWS; changes of alarm and connection pass at once. PVWS's own variable PV_THROTTLE_MS is read too"
    ),
    millis!(
        "pvws_array_throttle_ms",
        pvws_array_throttle,
        0,
        "Like pvws_throttle_ms, while the value is an array. PVWS's own variable PV_ARRAY_THROTTLE_MS is read too"
    ),
    one!(
        "bus",
        "SERVERS",
        bus,
        servers,
        String::clone,
        "NATS servers that connect the relays of a fleet, such as nats://host:4222 or tls://host:4222, separated by commas. One of the relays then monitors each PV. Without it the relay belongs to no fleet"
    ),
    text!(
        "bus_credentials",
        "FILE",
        bus_credentials,
        "File with the credentials for the NATS servers: a .creds file, the seed of an nkey, or USER:PASSWORD. It is read again for each connection"
    ),
    text!(
        "bus_ca",
        "FILE",
        bus_ca,
        "File with the certificates (PEM) of the authorities that sign the NATS servers' certificates; connections without TLS are then refused. Without it the system's authorities are trusted"
    ),
    text!(
        "bus_key",
        "FILE",
        bus_key,
        "File with the key that signs what the relays of the fleet announce and ask each other: a line of at least 32 random bytes as text, as `openssl rand -base64 32` writes it. The relay then refuses such messages without its signature. All relays of the site need the same key. The file is read again when it changes; of up to four lines the first signs and all are accepted"
    ),
    one!(
        "role",
        "ROLE",
        role,
        word,
        show_word,
        "What the relay does in a fleet: both, ingest (it monitors PVs) or edge (it monitors no PV and receives all updates from other relays). Relays of every role accept clients"
    ),
    one!(
        "site",
        "NAME",
        site,
        site,
        ToString::to_string,
        "Name of the fleet, a part of all subjects on the bus. Relays of different sites do not see each other"
    ),
    one!(
        "member_url",
        "URL",
        member_url,
        socket_address,
        String::clone,
        "Address of this relay for clients, such as wss://relay1.example.org/ws. All relays of the fleet send it to their clients, which connect to it when their own relay stops or has more clients than the others. The relay accepts this host name like those of allow_host. Without it only clients that know the address use this relay"
    ),
    list!(
        "member_hosts",
        "HOST",
        member_hosts,
        host_pattern,
        "Host to which clients may be sent, such as *.relays.example.org, in which * stands for any characters; clients send their tokens there. Addresses that other relays announce with another host are not given to clients. Without it every host is allowed"
    ),
    millis!(
        "shortest_tick_ms",
        shortest_tick,
        1,
        "Minimum tick: updates are collected for this time and sent as one frame"
    ),
    millis!(
        "longest_tick_ms",
        longest_tick,
        1,
        "Maximum tick; the tick grows towards it with the load"
    ),
    number!("shards", shards, count(256), "Number of writer threads"),
    number!(
        "max_clients",
        max_clients,
        count(1_000_000),
        "Maximum number of connected clients. The number of connections, including HTTP requests and streams of large values, is limited to twice this number plus 1,000"
    ),
    number!(
        "max_connections_per_address",
        max_connections_per_address,
        limit(1_000_000),
        "Maximum number of connections from one address (IPv6: one /64 network), streams of large values included; 0 for no limit. Loopback addresses are not limited. Clients behind a trusted_proxy are counted by the address that it reports"
    ),
    number!(
        "max_new_connections_per_s",
        max_new_connections_per_s,
        limit(1_000_000),
        "Maximum rate of new connections from one address or user, in connections per second; bursts of up to 25 times this number. 0 for no limit"
    ),
    number!(
        "max_subscriptions",
        max_subscriptions,
        count(1_000_000),
        "Maximum number of subscriptions of one client"
    ),
    number!(
        "max_unresolved",
        max_unresolved,
        count(1_000_000),
        "Maximum number of names of one client that were not found; beyond this, further unknown names are refused"
    ),
    number!(
        "max_requests_per_s",
        max_requests_per_s,
        count(1_000_000),
        "Maximum rate of requests of one client, in requests per second; bursts of up to ten times this number. A faster client is disconnected. In subscriptions, gets and requests for descriptions each PV name counts as well, with bursts of up to four times max_subscriptions (at least 40,000 names); a request with more names than that is refused, and the connection stays open"
    ),
    number!(
        "max_puts_per_s",
        max_puts_per_s,
        count(1_000_000),
        "Maximum rate of puts and calls of one client, in operations per second; bursts of up to ten times this number. Operations beyond it are refused"
    ),
    number!(
        "max_new_names_per_s",
        max_new_names_per_s,
        count(1_000_000),
        "Maximum rate at which one client may subscribe names that no client has open, in names per second; bursts of up to twice max_subscriptions. All clients of one address or user together may use five times this rate and burst"
    ),
    number!(
        "max_clients_per_user",
        max_clients_per_user,
        count(1_000_000),
        "Maximum number of connections of one user"
    ),
    number!(
        "max_pvs",
        max_pvs,
        count(10_000_000),
        "Maximum number of monitored PVs"
    ),
    number!(
        "max_memory_mib",
        max_memory_mib,
        count(1_000_000),
        "Memory budget of the relay in MiB. PVs, values and answers may use three quarters of it; while the process uses more than all of it, /ready answers 503 and new clients and PVs are refused"
    ),
    memory_share!(
        "max_memory_per_client_mib",
        max_memory_per_client_mib,
        memory_per_client_mib,
        "Memory budget in MiB of one connection: the PVs that it opened, their values and the answers to its gets; beyond this, requests are refused"
    ),
    memory_share!(
        "max_memory_per_user_mib",
        max_memory_per_user_mib,
        memory_per_user_mib,
        "Memory budget in MiB of all connections of one user together"
    ),
    memory_share!(
        "max_memory_per_address_mib",
        max_memory_per_address_mib,
        memory_per_address_mib,
        "Memory budget in MiB of all connections from one address together (IPv6: one /64 network)"
    ),
    number!(
        "max_cpu_per_client_ms_per_s",
        max_cpu_per_client_ms_per_s,
        limit(1_000_000),
        "CPU budget of one connection in milliseconds of CPU time per second, for what is computed for it alone: GraphQL documents, formulas, PVWS's messages, values of more than 128 KiB as text for clients of PVWS and Coniql, and answers with values as text (queries and HTTP); bursts of five times this number. Beyond it, its requests wait for their turn, and HTTP requests that wait longer than 8 s are refused. 0 for no limit"
    ),
    number!(
        "max_cpu_per_user_ms_per_s",
        max_cpu_per_user_ms_per_s,
        limit(1_000_000),
        "CPU budget of all connections of one user together in milliseconds of CPU time per second; 0 for no limit"
    ),
    number!(
        "max_cpu_per_address_ms_per_s",
        max_cpu_per_address_ms_per_s,
        limit(1_000_000),
        "CPU budget of all connections from one address together (IPv6: one /64 network) in milliseconds of CPU time per second; 0 for no limit. Loopback addresses are not limited"
    ),
    millis!(
        "ack_window_ms",
        ack_window,
        100,
        "A client that acknowledged nothing for this time is sent no frames until it does"
    ),
    millis!(
        "evict_after_ms",
        evict_after,
        100,
        "A client that accepted no data for this time is disconnected"
    ),
    millis!(
        "ping_after_ms",
        ping_after,
        0,
        "A client that sent nothing for this time is sent a WebSocket ping. It is disconnected if it does not answer within the same time, or within evict_after_ms plus ack_window_ms if that is longer. 0 for no pings"
    ),
    millis!(
        "host_lookup_ms",
        host_lookup,
        0,
        "How often the host names in EPICS's address lists and name server lists are resolved again, so that an IOC that moves is found; 0 to resolve them once"
    ),
    millis!(
        "drain_delay_ms",
        drain_delay,
        0,
        "After SIGTERM, how long the relay keeps running while /ready answers 503, so that load balancers stop sending clients"
    ),
    millis!(
        "drain_spread_ms",
        drain_spread,
        0,
        "Time over which connected clients are closed after drain_delay_ms"
    ),
];
