//! The moments at which regular checks run. Checks of different kinds run at the same moments, so that an idle relay
//! wakes once for all of them.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Moments are counted from here.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Time until the next multiple of `every` after the start.
fn until_next(since_start: Duration, every: Duration) -> Duration {
    let (since, every) = (since_start.as_nanos(), every.as_nanos().max(1));
    let rest = every - since % every;
    Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX))
}

/// Waits for the next moment of a check that runs this often.
pub async fn next(every: Duration) {
    tokio::time::sleep(until_next(START.elapsed(), every)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_of_every_second_run_together_with_more_frequent_ones() {
        let millis = Duration::from_millis;
        for since in [0, 1, 249, 250, 700, 999, 1_000, 12_345] {
            let next = |every| since + until_next(millis(since), millis(every)).as_millis() as u64;
            assert_eq!(next(1_000) % 250, 0);
            assert!(next(250) <= next(500) && next(500) <= next(1_000));
            assert!(next(250) > since);
        }
    }
}
