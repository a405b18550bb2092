//! Times and values of a chunk's rows as columns, packed by what is known of each PV.
//!
//! A row has the difference of its time to that of the row before, or to the PV's last one, whichever is shorter for the
//! chunk. A value is the difference of its step to the expected one and a trim, if it is on the grid of the PV's numbers,
//! and otherwise the difference of its rank. What is known of PVs goes on from chunk to chunk; chunks that can be read without
//! those before start again.

use pco::ChunkConfig;
use pco::standalone::{simple_compress, simple_decompress_into};
use pvwire_schema::decode::NumberRow;
use pvwire_schema::types::PvId;

use super::by_pv::ByPv;
use super::grid::{Grid, Samples, of_rank, rank};

/// Effort of pco, of 12.
const PCO_LEVEL: usize = 4;

/// A PV with this many numbers off its grid has another one.
const MANY_OFF_GRID: u32 = 4;

/// Changes of a number before a grid is looked for; doubled with each time that none is found.
const FIRST_SEARCH: u64 = 16;

/// Of what steps have missed, one part in eight is forgotten with each step.
const FORGETS: u64 = 8;
const MAX_MISS: u64 = 1 << 32;

/// Bytes of a grid: the PV's number, origin, unit and quantum.
const GRID_BYTES: usize = 28;

/// What the differences of a PV's next row are to.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    grid: Option<Grid>,
    /// The last step on the grid, and its difference to the one before; `None` before the first.
    step: Option<i64>,
    slope: i64,
    /// By how much steps have lately missed the last one, and a straight line through the last two.
    misses: [u64; 2],
    rank: i64,
    time_ns: i64,
}

impl Last {
    fn set_grid(&mut self, grid: Option<Grid>) {
        *self = Self {
            grid,
            rank: self.rank,
            time_ns: self.time_ns,
            ..Self::default()
        };
    }

    /// The step that the next number is expected to have.
    fn expected(&self) -> i64 {
        let [last, line] = self.misses;
        let slope = if line < last { self.slope } else { 0 };
        self.step.unwrap_or_default().wrapping_add(slope)
    }

    fn take_step(&mut self, step: i64) {
        if let Some(last) = self.step.replace(step) {
            let slope = step.wrapping_sub(last);
            let errors = [slope, slope.wrapping_sub(self.slope)];
            for (miss, error) in self.misses.iter_mut().zip(errors) {
                *miss = *miss - *miss / FORGETS + error.unsigned_abs().min(MAX_MISS);
            }
            self.slope = slope;
        }
    }
}

/// Columns of a chunk.
#[derive(Debug, Default)]
struct Columns {
    /// Differences to the times of the rows before.
    by_row: Vec<i64>,
    /// Differences to the last times of the PVs.
    by_pv: Vec<i64>,
    steps: Vec<i64>,
    trims: Vec<i64>,
    ranks: Vec<i64>,
    /// Rows whose PV has a grid that their number isn't on, as differences to the one before.
    off_grid: Vec<i64>,
    /// The last of them.
    last_off_grid: i64,
}

/// A PV whose rows are packed.
#[derive(Debug, Default)]
struct Packed {
    last: Last,
    samples: Samples,
    grid: Option<Grid>,
    /// Distance of the smallest and the largest number of which the grid was made.
    span: f64,
    /// Changes of its number at which a grid is looked for.
    search_at: u64,
    off_grid: u32,
    /// The chunk that has its last row, and the first one that it has been in since the begin.
    chunk: u64,
    since: u64,
}

impl Packed {
    /// The grid for the rows of a chunk. One that is in use is made again at each begin, because more numbers make it
    /// more exact.
    fn renew_grid(&mut self, is_begin: bool) {
        if self.off_grid >= MANY_OFF_GRID {
            self.grid = None;
            self.off_grid = 0;
            self.samples.clear();
            self.search_at = FIRST_SEARCH;
        }
        let is_search =
            self.grid.is_none() && self.samples.count >= self.search_at.max(FIRST_SEARCH);
        let is_wider = self.samples.span() >= 2.0 * self.span;
        if is_search || (self.grid.is_some() && (is_begin || is_wider)) {
            self.grid = self.samples.grid().or(self.grid);
            self.span = self.samples.span();
            self.search_at = 2 * self.samples.count;
            self.off_grid = 0;
        }
    }

    fn push(&mut self, number: f64, columns: &mut Columns) {
        let ranks = rank(number);
        let point = self.last.grid.map(|grid| grid.find(number));
        match point {
            Some(Some((step, trim))) => {
                columns.steps.push(step.wrapping_sub(self.last.expected()));
                columns.trims.push(trim);
                self.last.take_step(step);
            }
            Some(None) => {
                // Each row before has a time.
                let row = columns.by_row.len() as i64;
                columns.off_grid.push(row - columns.last_off_grid);
                columns.last_off_grid = row;
                columns.ranks.push(ranks.wrapping_sub(self.last.rank));
                self.off_grid += 1;
            }
            None => columns.ranks.push(ranks.wrapping_sub(self.last.rank)),
        }
        self.last.rank = ranks;
    }
}

/// Packs rows.
#[derive(Debug, Default)]
pub(super) struct Packer {
    pvs: ByPv<Packed>,
    chunk: u64,
    /// The first chunk that can be read without those before.
    begin: u64,
}

impl Packer {
    /// The next chunk can be read without those before.
    pub(super) fn restart(&mut self) {
        self.begin = self.chunk + 1;
    }

    /// The rows of the next chunk.
    pub(super) fn pack(&mut self, rows: &[NumberRow]) -> Vec<u8> {
        self.chunk += 1;
        for row in rows {
            self.pvs.of(row.id).samples.push(row.value);
        }
        let (mut grids, mut columns) = (Vec::new(), Columns::default());
        let mut time_ns = 0;
        for row in rows {
            let pv = self.pvs.of(row.id);
            if pv.chunk != self.chunk {
                pv.chunk = self.chunk;
                let is_begin = pv.since < self.begin;
                if is_begin {
                    pv.last = Last::default();
                    pv.since = self.chunk;
                }
                pv.renew_grid(is_begin);
                if pv.grid != pv.last.grid {
                    put_grid(&mut grids, row.id, pv.grid);
                    pv.last.set_grid(pv.grid);
                }
            }
            pv.push(row.value, &mut columns);
            columns.by_row.push(row.time_ns.wrapping_sub(time_ns));
            columns
                .by_pv
                .push(row.time_ns.wrapping_sub(pv.last.time_ns));
            (time_ns, pv.last.time_ns) = (row.time_ns, row.time_ns);
        }
        columns.to_bytes(&grids)
    }
}

impl Columns {
    fn to_bytes(&self, grids: &[u8]) -> Vec<u8> {
        let (by_row, by_pv) = (packed(&self.by_row), packed(&self.by_pv));
        let is_by_pv = by_pv.len() < by_row.len();
        let mut out = vec![u8::from(is_by_pv)];
        let times = if is_by_pv { by_pv } else { by_row };
        let values = [&self.steps, &self.trims, &self.ranks, &self.off_grid];
        let values = values.map(|column| packed(column));
        let grids = lz4_flex::block::compress_prepend_size(grids);
        for column in [&grids, &times].into_iter().chain(&values) {
            out.extend((column.len() as u32).to_le_bytes());
            out.extend(column);
        }
        out
    }
}

fn packed(column: &[i64]) -> Vec<u8> {
    if column.is_empty() {
        return Vec::new();
    }
    let config = ChunkConfig::default().with_compression_level(PCO_LEVEL);
    // The level is one of pco's.
    simple_compress(column, &config).unwrap_or_default()
}

fn put_grid(out: &mut Vec<u8>, pv: PvId, grid: Option<Grid>) {
    let numbers = grid.map_or([0.0; 3], |grid| [grid.origin, grid.unit, grid.quantum]);
    out.extend(pv.0.to_le_bytes());
    out.extend(numbers.into_iter().flat_map(f64::to_le_bytes));
}

/// Time and value of a row.
pub(crate) type Content = (i64, f64);

/// Reads what a [`Packer`] has written.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    pvs: ByPv<Last>,
}

impl Unpacker {
    /// The next chunk is one that can be read without those before.
    pub(super) fn restart(&mut self) {
        self.pvs.clear();
    }

    /// The rows of a chunk, whose PVs are known. `None` if the bytes are not those of such rows.
    pub(super) fn unpack(&mut self, bytes: &[u8], ids: &[PvId]) -> Option<Vec<Content>> {
        let (is_by_pv, mut bytes) = bytes.split_first()?;
        let mut part = || -> Option<&[u8]> {
            let (length, rest) = bytes.split_first_chunk()?;
            let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            bytes = rest;
            Some(part)
        };
        let [grids, times] = [part()?, part()?];
        let [steps, trims, ranks, off_grid] = [part()?, part()?, part()?, part()?];
        self.take_grids(grids, ids.len())?;
        let column = |part| unpacked(part, ids.len()).map(Vec::into_iter);
        let (times, mut steps) = (column(times)?, column(steps)?);
        let (mut trims, mut ranks) = (column(trims)?, column(ranks)?);
        let mut off_grid = column(off_grid)?;
        let mut next_off_grid = off_grid.next();
        if times.len() != ids.len() {
            return None;
        }
        let (is_by_pv, mut before_ns) = (*is_by_pv == 1, 0_i64);
        let mut rows = Vec::with_capacity(ids.len());
        for (row, (id, difference_ns)) in (0_i64..).zip(ids.iter().zip(times)) {
            let last = self.pvs.of(*id);
            let from_ns = if is_by_pv { last.time_ns } else { before_ns };
            let time_ns = from_ns.wrapping_add(difference_ns);
            (before_ns, last.time_ns) = (time_ns, time_ns);
            let grid = last.grid.filter(|_| next_off_grid != Some(row));
            let number = if let Some(grid) = grid {
                let step = last.expected().wrapping_add(steps.next()?);
                last.take_step(step);
                grid.number(step, trims.next()?)
            } else {
                if next_off_grid == Some(row) {
                    let further = off_grid.next();
                    next_off_grid = further.map(|further| row.wrapping_add(further));
                }
                of_rank(last.rank.wrapping_add(ranks.next()?))
            };
            last.rank = rank(number);
            rows.push((time_ns, number));
        }
        Some(rows)
    }

    fn take_grids(&mut self, grids: &[u8], most: usize) -> Option<()> {
        let (length, packed) = grids.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > most * GRID_BYTES {
            return None;
        }
        let plain = lz4_flex::block::decompress(packed, length).ok()?;
        for grid in plain.chunks_exact(GRID_BYTES) {
            let (id, rest) = grid.split_first_chunk()?;
            let (numbers, _) = rest.as_chunks();
            let [origin, unit, quantum] = [0, 1, 2].map(|at| f64::from_le_bytes(numbers[at]));
            let last = self.pvs.of(PvId(u32::from_le_bytes(*id)));
            last.set_grid((unit != 0.0).then_some(Grid {
                origin,
                unit,
                quantum,
            }));
        }
        Some(())
    }
}

/// A column of at most this many numbers.
fn unpacked(bytes: &[u8], most: usize) -> Option<Vec<i64>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let mut column = vec![0; most];
    let read = simple_decompress_into(bytes, &mut column).ok()?;
    column.truncate(read.n_processed);
    read.finished.then_some(column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testbed::random::Random;

    fn row((id, time_ns, value): (u32, i64, f64)) -> NumberRow {
        let id = PvId(id);
        NumberRow { id, time_ns, value }
    }

    /// Packs chunks; `true` starts again. Compares them with what is read from each begin on. Returns their bytes.
    fn bytes_of(chunks: &[(bool, Vec<NumberRow>)]) -> usize {
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
        let mut bytes = 0;
        for (at, (is_begin, rows)) in chunks.iter().enumerate() {
            if *is_begin {
                packer.restart();
            }
            if *is_begin || at == 0 {
                unpacker = Unpacker::default();
            }
            let packed = packer.pack(rows);
            bytes += packed.len();
            let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
            let back = unpacker.unpack(&packed, &ids).unwrap();
            assert_eq!(back.len(), rows.len());
            for ((time_ns, number), row) in back.iter().zip(rows) {
                assert_eq!(
                    (*time_ns, number.to_bits()),
                    (row.time_ns, row.value.to_bits())
                );
            }
        }
        bytes
    }

    const PVS: u32 = 200;
    const HZ: u32 = 10;
    const SECONDS: u32 = 40;

    /// Rows as an IOC gives them that processes its records ten times a second one after the other, in chunks of a second;
    /// every 20 s one starts again. Returns the bytes of a row.
    fn bytes_of_a_row(mut value: impl FnMut(u32, f64, &mut Random) -> f64) -> f64 {
        let mut random = Random(88_172_645_463_325_252);
        let mut second = |second: u32| {
            let mut rows = Vec::new();
            for scan in 0..HZ {
                let at_s = f64::from(second) + f64::from(scan) / f64::from(HZ);
                let mut time_ns = 1_795_000_000_000_000_000 + (at_s * 1e9) as i64;
                time_ns += (random.uniform() * 60_000.0) as i64;
                for pv in 0..PVS {
                    time_ns += 1_800 + (random.normal().abs() * 300.0) as i64;
                    rows.push(row((pv, time_ns, value(pv, at_s, &mut random))));
                }
            }
            (second.is_multiple_of(20), rows)
        };
        let chunks: Vec<_> = (0..SECONDS).map(&mut second).collect();
        let bytes = bytes_of(&chunks) as f64 / f64::from(PVS * HZ * SECONDS);
        println!("{bytes:.2} bytes");
        bytes
    }

    /// A sine with a period of a minute and a noise of two codes, at a converter of this number of bits.
    fn code(bits: i32, pv: u32, at_s: f64, random: &mut Random) -> f64 {
        let half = f64::from(1 << (bits - 1));
        let sine = (at_s * std::f64::consts::TAU / 60.0 + f64::from(pv)).sin();
        (half + 0.7 * half * sine + 2.0 * random.normal()).round()
    }

    /// 1.5 GB an hour of 10,000 PVs with ten updates a second are 4.16 bytes an update.
    #[test]
    fn rows_of_converters_take_no_more_bytes_than_the_documents_say() {
        let slope = |pv: u32| 20.0 / 65_535.0 * (1.0 + f64::from(pv % 97) / 89.0);
        for (bits, most) in [(12, 3.0), (14, 3.2), (16, 3.6)] {
            let made =
                bytes_of_a_row(|pv, at_s, random| code(bits, pv, at_s, random) * slope(pv) - 10.0);
            assert!(made < most, "{bits}: {made}");
        }
        let rounded = bytes_of_a_row(|pv, at_s, random| {
            (1e3 * (25.0 + (at_s / 9.0 + f64::from(pv)).sin() + 0.01 * random.normal())).round()
                / 1e3
        });
        assert!(rounded < 2.8, "{rounded}");
        // Numbers whose bits are all noise can't be packed by anybody.
        let noise = bytes_of_a_row(|_, _, random| 100.0 + random.normal());
        assert!(noise > 6.0 && noise < 9.0, "{noise}");
    }

    #[test]
    fn pv_that_gets_another_scale_gets_another_grid() {
        let mut random = Random(88_172_645_463_325_252);
        let mut second = |at: i64, slope: f64| {
            let row_of = |scan: i64| {
                let code = (32_768.0 + 40.0 * random.normal()).round();
                row((7, (at * 10 + scan) * 100_000_000, code * slope - 3.0))
            };
            (at == 0, (0..10).map(row_of).collect::<Vec<_>>())
        };
        let mut chunks: Vec<_> = (0..200).map(|at| second(at, 0.000_305_175)).collect();
        chunks.extend((200..400).map(|at| second(at, 0.001_234_567)));
        let bytes = bytes_of(&chunks);
        let all_off_grid = 4000 * 6;
        assert!(bytes < all_off_grid + 400 * 100, "{bytes}");
    }

    proptest! {
        #[test]
        fn any_rows_come_back_bit_by_bit(
            chunks in prop::collection::vec(
                (any::<bool>(), prop::collection::vec((0..4_u32, any::<i64>(), prop_oneof![
                    any::<u64>().prop_map(f64::from_bits),
                    (-50..50_i32).prop_map(|step| f64::from(step) * 0.1),
                ]), 0..80)),
                0..8,
            )
        ) {
            let chunks = chunks.into_iter();
            let rows = |rows: Vec<_>| rows.into_iter().map(row).collect();
            let chunks: Vec<_> = chunks.map(|(is_begin, of)| (is_begin, rows(of))).collect();
            bytes_of(&chunks);
        }

        #[test]
        fn damaged_bytes_give_other_rows_or_none(
            numbers in prop::collection::vec(-9..9_i32, 1..60),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let rows = numbers.iter().zip(0..).map(|(number, at)| row((at % 3, i64::from(at), f64::from(*number))));
            let rows: Vec<_> = rows.collect();
            let mut packed = Packer::default().pack(&rows);
            for (at, byte) in changes {
                let at = at.index(packed.len());
                packed[at] = byte;
            }
            let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
            let back = Unpacker::default().unpack(&packed, &ids);
            prop_assert!(back.is_none_or(|back| back.len() == rows.len()));
        }
    }
}
