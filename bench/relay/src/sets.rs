//! The PVs of each client.

use clap::ValueEnum;

/// How the clients' PVs are picked from the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pick {
    /// Everybody the first ones.
    Same,
    /// One after the other, beginning again when there are no more.
    Slice,
    /// Each client others by chance, the same in every run.
    Random,
}

/// For each client the places of its names, `each` of `names`.
pub(crate) fn pick(pick: Pick, clients: usize, each: usize, names: usize) -> Vec<Vec<usize>> {
    let mut dice = Dice(0x5eed);
    (0..clients)
        .map(|client| match pick {
            Pick::Same => (0..each).collect(),
            Pick::Slice => (0..each)
                .map(|place| (client * each + place) % names)
                .collect(),
            Pick::Random => {
                let mut left: Vec<usize> = (0..names).collect();
                for place in 0..each {
                    left.swap(place, place + dice.below(names - place));
                }
                left.truncate(each);
                left
            }
        })
        .collect()
}

/// Numbers that look like chance (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let thrown = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        thrown as usize % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn slices_share_nothing_while_there_are_names() {
        assert_eq!(pick(Pick::Slice, 3, 2, 5), [[0, 1], [2, 3], [4, 0]]);
        assert_eq!(pick(Pick::Same, 2, 2, 5), [[0, 1], [0, 1]]);
    }

    #[test]
    fn random_sets_are_all_different_and_name_nothing_twice() {
        let sets = pick(Pick::Random, 1000, 200, 2000);
        let sorted: HashSet<Vec<usize>> = (sets.iter())
            .map(|set| {
                let mut set = set.clone();
                set.sort_unstable();
                set.dedup();
                set
            })
            .collect();
        assert_eq!(sorted.len(), 1000);
        assert!(sorted.iter().all(|set| set.len() == 200));
        let mut wanted = vec![0; 2000];
        sets.iter().flatten().for_each(|place| wanted[*place] += 1);
        assert!(wanted.iter().all(|times| (50..160).contains(times)));
    }
}
