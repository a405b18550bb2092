//! The fuzz targets, their initial inputs and the properties that must hold.

use crate::cpu::MOST_BYTES;
use crate::{
    archiver, bus, circuit, config, doors, filters, formulas, frames, graphql, names, tokens,
};

/// One reader.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Valid inputs that are changed.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that its texts are made of; none for bytes.
    pub words: &'static [&'static str],
    /// Reads an input; a panic is a finding.
    pub run: fn(&[u8]),
    /// How often it reads an input, in different ways.
    pub readings: u32,
    /// Who writes what it reads.
    pub author: Author,
}

/// Who writes an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// A client, a server of PVs, or another relay: anyone who can reach the relay.
    Anyone,
    /// The operator. Their files are read at the start and when they change, and may hold hundreds of regular
    /// expressions, whose compilation takes time on purpose: matching names is fast then.
    Operator,
}

impl Author {
    /// Bytes of the generated shapes.
    #[must_use]
    pub fn room(self) -> usize {
        match self {
            Self::Anyone => MOST_BYTES,
            Self::Operator => MOST_BYTES / 16,
        }
    }

    /// How many times longer reading may take.
    #[must_use]
    pub fn patience(self) -> u32 {
        match self {
            Self::Anyone => 1,
            Self::Operator => 50,
        }
    }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "requests",
        seeds: || frames::golden("PVWR"),
        words: &[],
        run: frames::requests,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "frames",
        seeds: || frames::golden("PVWF"),
        words: &[],
        run: frames::frames,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "ingest",
        seeds: frames::sequences,
        words: &[],
        run: frames::ingest,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "graphql",
        seeds: || texts(graphql::SEEDS),
        words: graphql::WORDS,
        run: graphql::run,
        readings: 4,
        author: Author::Anyone,
    },
    Target {
        name: "execution",
        seeds: || texts(graphql::DOCUMENTS),
        words: graphql::DOCUMENT_WORDS,
        run: graphql::execution,
        readings: 2,
        author: Author::Anyone,
    },
    Target {
        name: "formulas",
        seeds: || texts(formulas::FORMULAS),
        words: formulas::FORMULA_WORDS,
        run: formulas::formula,
        readings: 16,
        author: Author::Anyone,
    },
    Target {
        name: "locals",
        seeds: || texts(formulas::LOCALS),
        words: formulas::LOCAL_WORDS,
        run: formulas::local,
        readings: 2 + 2 * formulas::MOST_WRITTEN as u32,
        author: Author::Anyone,
    },
    Target {
        name: "config",
        seeds: || texts(config::SEEDS),
        words: config::WORDS,
        run: config::run,
        readings: 1,
        author: Author::Operator,
    },
    Target {
        name: "tokens",
        seeds: tokens::seeds,
        words: tokens::WORDS,
        run: tokens::run,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "pvlist",
        seeds: || texts(config::PVLIST),
        words: config::PVLIST_WORDS,
        run: config::pvlist,
        readings: 3,
        author: Author::Operator,
    },
    Target {
        name: "security",
        seeds: || texts(config::SECURITY),
        words: config::SECURITY_WORDS,
        run: config::security,
        readings: 1,
        author: Author::Operator,
    },
    Target {
        name: "simulated",
        seeds: || texts(names::SIMULATED),
        words: names::SIMULATED_WORDS,
        run: names::simulated,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "circuit",
        seeds: circuit::seeds,
        words: &[],
        run: circuit::run,
        readings: 5,
        author: Author::Anyone,
    },
    Target {
        name: "names",
        seeds: || texts(names::SEEDS),
        words: names::WORDS,
        run: names::run,
        readings: 6,
        author: Author::Anyone,
    },
    Target {
        name: "filters",
        seeds: filters::seeds,
        words: &[],
        run: filters::run,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "coniql",
        seeds: || texts(doors::CONIQL),
        words: doors::CONIQL_WORDS,
        run: doors::coniql,
        readings: 3,
        author: Author::Anyone,
    },
    Target {
        name: "http",
        seeds: || texts(doors::HTTP),
        words: doors::HTTP_WORDS,
        run: doors::http,
        readings: 2,
        author: Author::Anyone,
    },
    Target {
        name: "pvws",
        seeds: || texts(doors::PVWS),
        words: doors::PVWS_WORDS,
        run: doors::pvws,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "sockets",
        seeds: frames::socket_seeds,
        words: &[],
        run: frames::sockets,
        readings: 2,
        author: Author::Anyone,
    },
    Target {
        name: "bus",
        seeds: || texts(bus::SEEDS),
        words: bus::WORDS,
        run: bus::run,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "archiver",
        seeds: archiver::seeds,
        words: &[],
        run: archiver::run,
        readings: 5,
        author: Author::Anyone,
    },
];

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_reads_its_own_seeds() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(seeds.len() > 2, "{} has too few seeds", target.name);
            for seed in seeds {
                (target.run)(&seed);
            }
        }
    }
}
