//! Which keys are there, what do they mean and what fits each?

use std::net::IpAddr;
use std::time::Duration;

use hyper::header::HeaderName;

use super::{AuditSync, Auth, Config, Pages};

type Set = fn(&mut Config, &str) -> Result<(), &'static str>;
type Show = fn(&Config) -> String;

/// One thing that may be set.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) list: bool,
    pub(super) value: &'static str,
    pub(super) help: &'static str,
    pub(super) set: Set,
    pub(super) show: Show,
}

fn millis(value: &str, least: u64) -> Option<Duration> {
    value
        .parse()
        .ok()
        .filter(|ms| (least..=86_400_000).contains(ms))
        .map(Duration::from_millis)
}

macro_rules! millis_key {
    ($name:literal, $field:ident, $least:literal, $help:literal) => {
        Key {
            name: $name,
            list: false,
            value: "MS",
            help: $help,
            set: |config, value| {
                config.$field = millis(value, $least).ok_or(concat!(
                    "milliseconds from ",
                    $least,
                    " to 86400000"
                ))?;
                Ok(())
            },
            show: |config| config.$field.as_millis().to_string(),
        }
    };
}

macro_rules! count_key {
    ($name:literal, $field:ident, $most:literal, $help:literal) => {
        Key {
            name: $name,
            list: false,
            value: "N",
            help: $help,
            set: |config, value| {
                config.$field = (value.parse().ok())
                    .filter(|count| (1..=$most).contains(count))
                    .ok_or(concat!("a whole number from 1 to ", $most))?;
                Ok(())
            },
            show: |config| config.$field.to_string(),
        }
    };
}

/// A number of which 0 means that there is no limit.
macro_rules! limit_key {
    ($name:literal, $field:ident, $most:literal, $help:literal) => {
        Key {
            name: $name,
            list: false,
            value: "N",
            help: $help,
            set: |config, value| {
                config.$field = (value.parse().ok())
                    .filter(|count| (0..=$most).contains(count))
                    .ok_or(concat!("a whole number from 0 (no limit) to ", $most))?;
                Ok(())
            },
            show: |config| config.$field.to_string(),
        }
    };
}

macro_rules! share_key {
    ($name:literal, $field:ident, $effective:ident, $help:literal) => {
        Key {
            name: $name,
            list: false,
            value: "N",
            help: $help,
            set: |config, value| {
                let count = (value.parse().ok()).filter(|count| (1..=1_000_000).contains(count));
                config.$field = Some(count.ok_or("a whole number from 1 to 1000000")?);
                Ok(())
            },
            show: |config| config.$effective().to_string(),
        }
    };
}

macro_rules! text_key {
    ($name:literal, $field:ident, $value:literal, $help:literal) => {
        Key {
            name: $name,
            list: false,
            value: $value,
            help: $help,
            set: |config, value| {
                config.$field = value.to_owned();
                Ok(())
            },
            show: |config| config.$field.clone(),
        }
    };
}

macro_rules! header_key {
    ($name:literal, $field:ident, $help:literal) => {
        Key {
            name: $name,
            list: false,
            value: "NAME",
            help: $help,
            set: |config, value| {
                HeaderName::from_bytes(value.as_bytes()).map_err(|_| "the name of a header")?;
                config.$field = value.to_owned();
                Ok(())
            },
            show: |config| config.$field.clone(),
        }
    };
}

/// Whether a text is an address, with or without the number of its leading bits.
fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, "0"), |parts| parts);
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// All of them, in the order of the reference.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "listen",
        list: false,
        value: "ADDRESS:PORT",
        help: "Where the HTTP server listens; port 0 takes a free one",
        set: |config, value| {
            config.listen = value
                .parse()
                .map_err(|_| "an IP address and a port, as 127.0.0.1:8080")?;
            Ok(())
        },
        show: |config| config.listen.to_string(),
    },
    Key {
        name: "admin_listen",
        list: false,
        value: "ADDRESS:PORT",
        help: "Where the status page, /status, /metrics, /live and /ready are served, by plain HTTP and without a login; then only /live and /ready of them are served at listen",
        set: |config, value| {
            let address = value.parse();
            config.admin_listen =
                Some(address.map_err(|_| "an IP address and a port, as 127.0.0.1:8081")?);
            Ok(())
        },
        show: |config| {
            let address = config.admin_listen.map(|address| address.to_string());
            address.unwrap_or_default()
        },
    },
    Key {
        name: "pages",
        list: false,
        value: "MODE",
        help: "Access to the status page, /status and /metrics at listen: open (without a login), login (by auth) or off",
        set: |config, value| {
            config.pages = match value {
                "open" => Pages::Open,
                "login" => Pages::Login,
                "off" => Pages::Off,
                _ => return Err("open, login or off"),
            };
            Ok(())
        },
        show: |config| {
            let mode = match config.pages {
                Pages::Open => "open",
                Pages::Login => "login",
                Pages::Off => "off",
            };
            mode.to_owned()
        },
    },
    text_key!(
        "tls_cert",
        tls_cert,
        "FILE",
        "Certificate by which the relay speaks TLS (PEM, the chain's others behind it); read again when it changes"
    ),
    text_key!(
        "tls_key",
        tls_key,
        "FILE",
        "Private key of that certificate (PEM)"
    ),
    Key {
        name: "allow_origin",
        list: true,
        value: "ORIGIN",
        help: "Origin of a page that may connect, as https://screens.example.org; may be repeated; * for pages of any origin, from which puts are refused",
        set: |config, value| {
            if value == "*" {
                config.allow_origin.push(value.to_owned());
                return Ok(());
            }
            let rest = value
                .strip_prefix("https://")
                .or_else(|| value.strip_prefix("http://"));
            let host = rest.filter(|host| !host.is_empty() && !host.contains(['/', '*', ' ']));
            host.ok_or("an origin without a path, as https://screens.example.org, or *")?;
            config.allow_origin.push(value.to_ascii_lowercase());
            Ok(())
        },
        show: |config| config.allow_origin.join(" "),
    },
    Key {
        name: "allow_host",
        list: true,
        value: "NAME",
        help: "Host name by which clients may call this relay, besides IP addresses and localhost; may be repeated",
        set: |config, value| {
            let named = !value.is_empty() && !value.contains(['/', ':', '*', ' ']);
            named
                .then_some(())
                .ok_or("a host name without port, as pvwire.example.org")?;
            config.allow_host.push(value.to_ascii_lowercase());
            Ok(())
        },
        show: |config| config.allow_host.join(" "),
    },
    Key {
        name: "auth",
        list: false,
        value: "MODE",
        help: "How clients show who they are: none, jwt (a token in their first message) or trusted-header (a proxy in front says it)",
        set: |config, value| {
            config.auth = match value {
                "none" => Auth::None,
                "jwt" => Auth::Jwt,
                "trusted-header" => Auth::TrustedHeader,
                _ => return Err("none, jwt or trusted-header"),
            };
            Ok(())
        },
        show: |config| {
            let mode = match config.auth {
                Auth::None => "none",
                Auth::Jwt => "jwt",
                Auth::TrustedHeader => "trusted-header",
            };
            mode.to_owned()
        },
    },
    Key {
        name: "allow_anonymous",
        list: false,
        value: "BOOL",
        help: "Whether a relay without authentication may listen where other machines reach it",
        set: |config, value| {
            config.allow_anonymous = value.parse().map_err(|_| "true or false")?;
            Ok(())
        },
        show: |config| config.allow_anonymous.to_string(),
    },
    text_key!(
        "jwt_keys",
        jwt_keys,
        "FILE|URL",
        "JSON Web Key Set with the keys that tokens are signed by; read again when it changes"
    ),
    millis_key!(
        "jwt_keys_keep_ms",
        jwt_keys_keep,
        1000,
        "How long the last keys let clients in while jwt_keys can't be read or holds no key; after that all \
         log-ins are refused, and sessions last until their tokens end"
    ),
    text_key!(
        "jwt_audience",
        jwt_audience,
        "AUD",
        "Whom tokens must be for (aud)"
    ),
    text_key!(
        "jwt_issuer",
        jwt_issuer,
        "ISS",
        "Who must have issued tokens (iss); without it anybody with one of the keys"
    ),
    text_key!(
        "jwt_user_claim",
        jwt_user_claim,
        "CLAIM",
        "Claim of a token that names the user"
    ),
    text_key!(
        "jwt_groups_claim",
        jwt_groups_claim,
        "CLAIM",
        "Claim of a token that names the user's groups"
    ),
    Key {
        name: "trusted_proxy",
        list: true,
        value: "NETWORK",
        help: "Network of proxies, as 10.1.0.0/16; may be repeated. Their X-Forwarded-For says which address a client has, and with auth = trusted-header their other headers who it is",
        set: |config, value| {
            is_network(value)
                .then_some(())
                .ok_or("a network, as 10.1.0.0/16")?;
            config.trusted_proxy.push(value.to_owned());
            Ok(())
        },
        show: |config| config.trusted_proxy.join(" "),
    },
    header_key!(
        "user_header",
        user_header,
        "Header in which the proxy says the user's name"
    ),
    header_key!(
        "groups_header",
        groups_header,
        "Header in which the proxy says the user's groups, with commas between them. Name one only if the proxy sets or removes it with every request: otherwise users name their own groups"
    ),
    Key {
        name: "default_source",
        list: false,
        value: "SOURCE",
        help: "Source of PV names without one: ca or pva",
        set: |config, value| {
            ["ca", "pva"]
                .contains(&value)
                .then_some(())
                .ok_or("ca or pva")?;
            config.default_source = value.to_owned();
            Ok(())
        },
        show: |config| config.default_source.clone(),
    },
    Key {
        name: "enable_sim",
        list: false,
        value: "BOOL",
        help: "Whether clients may use simulated PVs (sim://, ssim://), which the relay computes itself; for demos and tests",
        set: |config, value| {
            config.enable_sim = value.parse().map_err(|_| "true or false")?;
            Ok(())
        },
        show: |config| config.enable_sim.to_string(),
    },
    millis_key!(
        "linger_ms",
        linger,
        0,
        "How long a monitor stays open after its last client has left"
    ),
    millis_key!(
        "not_found_after_ms",
        not_found_after,
        10,
        "After how long without an answer a PV counts as not found"
    ),
    millis_key!(
        "get_timeout_ms",
        get_timeout,
        1,
        "How long a get waits for first values, unless it says otherwise"
    ),
    Key {
        name: "enable_put",
        list: false,
        value: "BOOL",
        help: "Whether clients may write, to the PVs that allow_put or a [[rule]] names",
        set: |config, value| {
            config.enable_put = value.parse().map_err(|_| "true or false")?;
            Ok(())
        },
        show: |config| config.enable_put.to_string(),
    },
    Key {
        name: "allow_put",
        list: true,
        value: "PATTERN",
        help: "PVs that everybody may write unless a [[rule]] of the file says otherwise, as SR:*:SET or pva://BL7:*; may be repeated",
        set: |config, value| {
            (!value.is_empty())
                .then_some(())
                .ok_or("a PV name, with * for any characters and ? for one")?;
            config.allow_put.push(value.to_owned());
            Ok(())
        },
        show: |config| config.allow_put.join(" "),
    },
    text_key!(
        "pvlist",
        pvlist,
        "FILE",
        "List of the PVs that are served, as the gateways of Channel Access and pvAccess have it (.pvlist)"
    ),
    text_key!(
        "access_security",
        access_security,
        "FILE",
        "Access security file, as IOCs and gateways have it (.acf), that says who may read and write where no [[rule]] does"
    ),
    text_key!(
        "audit_file",
        audit_file,
        "FILE",
        "File to which a line of JSON is added for every attempt to write; opened again when it was moved or deleted"
    ),
    Key {
        name: "audit_fail",
        list: false,
        value: "MODE",
        help: "When the audit file can't be written: open (write all the same) or closed (take no puts)",
        set: |config, value| {
            config.audit_fail_closed = match value {
                "open" => false,
                "closed" => true,
                _ => return Err("open or closed"),
            };
            Ok(())
        },
        show: |config| {
            if config.audit_fail_closed {
                "closed"
            } else {
                "open"
            }
            .to_owned()
        },
    },
    Key {
        name: "audit_sync",
        list: false,
        value: "WHEN",
        help: "When records are brought to the disk, so that they outlive a crash of the machine: never (when the system does it), each (before it counts as written, and with audit_fail = closed before the put is sent) or 1s (once a second)",
        set: |config, value| {
            config.audit_sync = match value {
                "never" => AuditSync::Never,
                "each" => AuditSync::Each,
                "1s" => AuditSync::EverySecond,
                _ => return Err("never, each or 1s"),
            };
            Ok(())
        },
        show: |config| {
            let when = match config.audit_sync {
                AuditSync::Never => "never",
                AuditSync::Each => "each",
                AuditSync::EverySecond => "1s",
            };
            when.to_owned()
        },
    },
    millis_key!(
        "put_timeout_ms",
        put_timeout,
        1,
        "How long a put waits for its answer, unless it says otherwise"
    ),
    millis_key!(
        "shortest_tick_ms",
        shortest_tick,
        1,
        "Shortest time over which updates are gathered into one frame"
    ),
    millis_key!(
        "longest_tick_ms",
        longest_tick,
        1,
        "Longest such time, reached with many clients"
    ),
    count_key!(
        "shards",
        shards,
        256,
        "Threads that write to clients; by default one per core"
    ),
    count_key!(
        "max_clients",
        max_clients,
        1_000_000,
        "Maximum number of connected clients; twice as many connections and 1,000 more are accepted, requests for pages and streams of large values included"
    ),
    limit_key!(
        "max_connections_per_address",
        max_connections_per_address,
        1_000_000,
        "Maximum number of connections of one address (IPv6: of one /64), streams of large values included; 0 for no limit. Loopback has none; clients of a proxy in trusted_proxy count by the address that it says"
    ),
    limit_key!(
        "max_new_connections_per_s",
        max_new_connections_per_s,
        1_000_000,
        "Maximum rate of new connections of one address or user, in the long run; 25 times as many at once. 0 for no limit"
    ),
    count_key!(
        "max_subscriptions",
        max_subscriptions,
        1_000_000,
        "Most subscriptions of one client"
    ),
    count_key!(
        "max_unresolved",
        max_unresolved,
        1_000_000,
        "Most names of one client that are not found; with so many it gets no others but those of PVs that are known"
    ),
    count_key!(
        "max_requests_per_s",
        max_requests_per_s,
        1_000_000,
        "Most requests of one client a second, in the long run; ten times as many at once"
    ),
    count_key!(
        "max_puts_per_s",
        max_puts_per_s,
        1_000_000,
        "Most puts and calls of one client a second, in the long run; ten times as many at once"
    ),
    count_key!(
        "max_new_names_per_s",
        max_new_names_per_s,
        1_000_000,
        "Maximum rate at which one client may ask for names that no client had, in the long run; twice max_subscriptions at once. All clients of one address or user together: five times that rate, and ten times max_subscriptions at once"
    ),
    count_key!(
        "max_clients_per_user",
        max_clients_per_user,
        1_000_000,
        "Most connections of one user"
    ),
    count_key!(
        "max_pvs",
        max_pvs,
        10_000_000,
        "Most PVs that are monitored"
    ),
    count_key!(
        "max_memory_mib",
        max_memory_mib,
        1_000_000,
        "Memory budget in MiB: PVs, values and answers may take three quarters of it; when the process uses more than all of it, /ready says 503 and new clients and PVs are refused until it uses less"
    ),
    share_key!(
        "max_memory_per_client_mib",
        max_memory_per_client_mib,
        memory_per_client_mib,
        "Memory in MiB that the PVs which one connection opened, their values and the answers to its gets may take; what is beyond is refused"
    ),
    share_key!(
        "max_memory_per_user_mib",
        max_memory_per_user_mib,
        memory_per_user_mib,
        "The same for all connections of one user"
    ),
    share_key!(
        "max_memory_per_address_mib",
        max_memory_per_address_mib,
        memory_per_address_mib,
        "The same for all connections from one address, of IPv6 from one /64 network"
    ),
    millis_key!(
        "ack_window_ms",
        ack_window,
        100,
        "A client that acknowledged nothing for so long gets no frames until it does"
    ),
    millis_key!(
        "evict_after_ms",
        evict_after,
        100,
        "A client that took nothing for so long is closed"
    ),
    millis_key!(
        "ping_after_ms",
        ping_after,
        0,
        "A client that sent nothing for this time gets a WebSocket ping, and is closed when it does not answer within it, or evict_after_ms and ack_window_ms together if that is longer; 0 for no pings"
    ),
    millis_key!(
        "host_lookup_ms",
        host_lookup,
        0,
        "How often the host names in EPICS's address lists and name servers are looked up again, so that \
         an IOC that moves is found; 0 for once"
    ),
    millis_key!(
        "drain_delay_ms",
        drain_delay,
        0,
        "After SIGTERM, how long the relay runs on while /ready says 503, so that load balancers send no new \
         clients; then it closes the clients it has"
    ),
    millis_key!(
        "drain_spread_ms",
        drain_spread,
        0,
        "Time over which clients are closed when the relay stops"
    ),
];
