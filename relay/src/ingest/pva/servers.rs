//! The names that pvAccess servers list: each server is asked once, and again when it was restarted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pvwire_epics::pva::{OpError, ServerFound};

use super::Shared;
use super::name::escaped;
use crate::ingest::directory::{Directory, NameList, Origin};

/// Servers that are asked at the same time; the others wait, so that a site with many isn't flooded.
const AT_ONCE: usize = 16;

/// Time limit of the first attempt to ask a server, and of the only other one.
const WITHIN: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];

/// Memory of all lists. What a server lists beyond it is left out.
const MAX_BYTES: usize = 128 << 20;

/// What servers list.
#[derive(Default)]
pub(super) struct ServerLists {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By address and port.
    servers: HashMap<String, Server>,
    waiting: VecDeque<Turn>,
    /// Number of servers that are being asked.
    asked: usize,
}

/// One server.
#[derive(Default)]
struct Server {
    guid: Vec<u8>,
    /// Number of its present start: answers to questions of an earlier one are dropped.
    start: u64,
    list: Option<Arc<NameList>>,
}

/// A server that is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    address: String,
    start: u64,
    /// Attempts before this one.
    attempt: usize,
}

impl State {
    /// A server was found, or is gone.
    fn found(
        &mut self,
        ServerFound {
            address,
            guid,
            is_online,
        }: ServerFound,
    ) {
        if !is_online {
            // A server with another identifier is at this address already.
            let is_it = |server: &Server| server.guid == guid;
            // A name server keeps its list until it is connected again.
            if !guid.is_empty() && self.servers.get(&address).is_some_and(is_it) {
                self.servers.remove(&address);
            }
            return;
        }
        let server = self.servers.entry(address.clone()).or_default();
        let is_known = server.start > 0 && server.guid == guid && !guid.is_empty();
        if is_known {
            return;
        }
        server.guid = guid;
        server.start += 1;
        let start = server.start;
        self.waiting.retain(|turn| turn.address != address);
        self.waiting.push_back(Turn {
            address,
            start,
            attempt: 0,
        });
    }

    /// The next server to ask.
    fn next(&mut self) -> Option<Turn> {
        if self.asked >= AT_ONCE {
            return None;
        }
        let turn = self.waiting.pop_front()?;
        self.asked += 1;
        Some(turn)
    }

    /// A server has answered, or has not.
    fn answered(&mut self, turn: Turn, answer: Result<Vec<String>, OpError>) {
        self.asked -= 1;
        let others = |(address, server): (&String, &Server)| {
            let list = server.list.as_ref().filter(|_| *address != turn.address);
            list.map_or(0, |list| list.bytes())
        };
        let room = MAX_BYTES.saturating_sub(self.servers.iter().map(others).sum());
        let Some(server) = self.servers.get_mut(&turn.address) else {
            return;
        };
        if server.start != turn.start {
            return;
        }
        let address = &turn.address;
        match answer {
            Ok(names) => {
                let list = NameList::new("pva", names.iter().map(|name| escaped(name)));
                if list.bytes() > room {
                    log::warn!(
                        "the {} names of the pvAccess server {address} are not offered to clients that look for names: \
                         lists of servers may take {MAX_BYTES} bytes",
                        list.len()
                    );
                    server.list = None;
                } else {
                    log::debug!("the pvAccess server {address} lists {} names", list.len());
                    server.list = Some(Arc::new(list));
                }
            }
            Err(OpError::TimedOut | OpError::NotConnected | OpError::Disconnected)
                if turn.attempt + 1 < WITHIN.len() =>
            {
                self.waiting.push_back(Turn {
                    attempt: turn.attempt + 1,
                    ..turn
                });
            }
            Err(why) => log::debug!("the pvAccess server {address} lists no names: {why}"),
        }
    }
}

impl ServerLists {
    /// Asks the servers that the client of pvAccess finds, from now on.
    pub(super) fn follow(self: &Arc<Self>, shared: &Arc<Shared>) {
        let (lists, weak) = (Arc::clone(self), Arc::downgrade(shared));
        shared.client.discover(move |server| {
            lists.state().found(server);
            lists.ask(&weak);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks servers that wait. Doesn't block.
    fn ask(self: &Arc<Self>, shared: &Weak<Shared>) {
        let Some(of_client) = shared.upgrade() else {
            return;
        };
        loop {
            let Some(turn) = self.state().next() else {
                return;
            };
            let (lists, shared) = (Arc::clone(self), Weak::clone(shared));
            let (address, within) = (turn.address.clone(), WITHIN[turn.attempt]);
            of_client
                .client
                .list_names(&address, within, move |answer| {
                    lists.state().answered(turn, answer);
                    lists.ask(&shared);
                });
        }
    }
}

impl Directory for ServerLists {
    fn origin(&self) -> Origin {
        Origin::Server
    }

    fn lists(&self) -> Vec<Arc<NameList>> {
        let state = self.state();
        let lists = state
            .servers
            .values()
            .filter_map(|server| server.list.clone());
        lists.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: &str, guid: u8, is_online: bool) -> ServerFound {
        ServerFound {
            address: address.to_owned(),
            guid: vec![guid],
            is_online,
        }
    }

    fn names(state: &State) -> Vec<String> {
        let lists = state
            .servers
            .values()
            .filter_map(|server| server.list.as_ref());
        let mut names: Vec<_> = lists
            .flat_map(|list| list.names().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        names.sort();
        names
    }

    fn answer(names: &[&str]) -> Result<Vec<String>, OpError> {
        Ok(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn server_is_asked_once_and_again_after_its_restart() {
        let mut state = State::default();
        state.found(found("a", 1, true));
        state.found(found("a", 1, true));
        let turn = state.next().unwrap();
        assert_eq!(state.next(), None);
        state.answered(turn, answer(&["x", "dir/y"]));
        assert_eq!(names(&state), ["dir%2Fy", "x"]);
        state.found(found("a", 1, true));
        assert_eq!(state.next(), None, "nothing has changed");

        state.found(found("a", 2, true));
        let old = state.next().unwrap();
        state.found(found("a", 3, true));
        state.found(found("a", 2, false));
        let new = state.next().unwrap();
        state.answered(new, answer(&["z"]));
        state.answered(old, answer(&["late"]));
        assert_eq!(names(&state), ["z"]);
        state.found(found("a", 3, false));
        assert_eq!(names(&state), [""; 0]);
    }

    #[test]
    fn few_servers_are_asked_at_a_time_and_none_more_than_twice() {
        let mut state = State::default();
        for server in 0..100_u8 {
            state.found(found(&server.to_string(), server, true));
        }
        let mut turns = VecDeque::new();
        let mut asked = 0;
        loop {
            while let Some(turn) = state.next() {
                turns.push_back(turn);
            }
            assert!(turns.len() <= AT_ONCE);
            let Some(turn) = turns.pop_front() else { break };
            asked += 1;
            state.answered(turn, Err(OpError::TimedOut));
        }
        assert_eq!(asked, 200);
        assert_eq!(state.asked, 0);
    }

    #[test]
    fn name_server_is_asked_at_each_connection_and_keeps_its_list_meanwhile() {
        let name_server = |is_online| ServerFound {
            guid: Vec::new(),
            ..found("a", 0, is_online)
        };
        let mut state = State::default();
        state.found(name_server(true));
        let turn = state.next().unwrap();
        state.answered(turn, answer(&["x"]));
        state.found(name_server(false));
        assert_eq!(names(&state), ["x"]);
        state.found(name_server(true));
        let turn = state.next().unwrap();
        state.answered(turn, answer(&["y"]));
        assert_eq!(names(&state), ["y"]);
    }
}
