//! Memory pressure: a client that asks for more large values and gets than the relay may keep.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use pvwire_schema::types::{Filter, RequestBody};

use super::World;
use testbed::{Client, How};

impl World {
    /// A client subscribes and gets large simulated values, reads some or none of them, and
    /// disconnects.
    pub(super) fn press_memory(&mut self) {
        let name = "a client asks for more memory than it may have";
        self.say(name);
        let begin = SystemTime::now();
        let address = self.relay.as_ref().unwrap().address();
        let reads = self.random.one_in(2);
        let how = How {
            receive_buffer: Some(4096),
            acks: reads,
            ..How::default()
        };
        // An attack may still hold the relay's last descriptors.
        let Some(mut client) = Client::try_connect(address, how) else {
            return;
        };
        let first = self.random.below(1000);
        let names: Vec<_> = (first..first + 100)
            .map(|n| format!("sim://image(500000,1,rate_hz=0.{:04})", n + 1000))
            .collect();
        client.request(RequestBody::Subscribe {
            names: names.clone(),
            filter: Filter::default(),
        });
        for names in names.chunks(20) {
            client.request(RequestBody::Get {
                names: names.to_vec(),
                timeout_ms: 1_000,
                description: false,
            });
        }
        let end = Instant::now() + self.random.millis(200, 3_000);
        while Instant::now() < end {
            if reads {
                client.read_for_a_moment();
            } else {
                thread::sleep(Duration::from_millis(20));
            }
        }
        drop(client);
        self.waits.add_window(name, begin, SystemTime::now());
    }
}
