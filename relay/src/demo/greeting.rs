//! What the demo prints.

use std::io::{self, Write};
use std::net::SocketAddr;

use super::records::PREFIX;
use crate::http::server::has_demo_page;

/// The page of the demo that shows simulated PVs only.
const SIMULATED_PAGE: &str = "#/wall";

/// A PV without an IOC, as a path has it.
const SIMULATED_PV: &str = "sim%3A%2F%2Fsine";

const SIMULATED: &str = "\
Simulated PVs, because no IOC runs: see the pages \"Wall\" and \"Beamline\".
  For an IOC:   pip install 'pvwire-relay[demo]'    (or put softIoc of EPICS base on the PATH)";

/// Prints a text, also when its reader is gone.
pub(super) fn say(text: &str) {
    let mut output = io::stdout();
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
}

/// What the demo prints when its relay is ready. `ioc` is the IOC's program.
pub(super) fn greeting(address: SocketAddr, ioc: Option<&str>) -> String {
    let (page, pv, shown) = match ioc {
        Some(ioc) => (
            "",
            format!("{PREFIX}:RING:CURRENT"),
            format!("The IOC:      {ioc}"),
        ),
        None => (
            SIMULATED_PAGE,
            SIMULATED_PV.to_owned(),
            SIMULATED.to_owned(),
        ),
    };
    let page = if has_demo_page() {
        format!("The page:     http://{address}/{page}")
    } else {
        format!("The status:   http://{address}/ (this relay was built without the demo page)")
    };
    format!(
        "\n  {page}\n  One PV:       curl http://{address}/pv/{pv}\n  {shown}\n\n  Ctrl-C ends everything.\n\n"
    )
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn without_an_ioc_the_demo_says_how_to_get_one() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));

        let simulated = greeting(address, None);
        let real = greeting(address, Some("softIoc"));

        assert!(
            simulated.contains("pip install 'pvwire-relay[demo]'"),
            "{simulated}"
        );
        assert!(simulated.contains("/pv/sim%3A%2F%2Fsine"), "{simulated}");
        assert!(
            real.contains("softIoc") && real.contains("/pv/DEMO:RING:CURRENT"),
            "{real}"
        );
    }
}
