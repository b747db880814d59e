//! Attention of many queries in one launch against its definition in f64, on the CPU and on a Vulkan adapter: all head sizes in use,
//! long and short, with positions and without, with every window, and over the ring of a stream at any age.

use auricle_kernels::attention::relative::{KeyValueRing, RelativePositions, VisibleKeys, Way, Window, attend_by};
use auricle_kernels::cache::ring::{RowFrames, StepFrames, store_both};
use auricle_kernels::launches::count;
use auricle_tests::{Oracle, devices};
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};

/// Uniform random numbers.
struct Chance(u64);

impl Chance {
    fn values(&mut self, count: usize) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }
}

/// One row: `[frames, heads * head]` each.
#[derive(Clone, Default)]
struct Row {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// Keys of distances, with the index of distance 0, and the biases.
struct Distances<'a> {
    keys: &'a [f32],
    zero: usize,
    biases: &'a [f32],
}

/// The definition for the query of the frame `own`, which is row `query` of the queries, over the frames `seen`.
fn exact(
    row: &Row,
    [heads, head]: [usize; 2],
    (query, own): (usize, usize),
    seen: &[usize],
    distances: Option<&Distances>,
    scale: f32,
) -> Vec<f32> {
    let size = heads * head;
    let mut out = vec![0.0; size];
    for at in (0..size).step_by(head) {
        let dot = |a: &[f32], bias: &[f32], b: &[f32]| -> f64 {
            (0..head).map(|n| (f64::from(a[n]) + f64::from(bias[n])) * f64::from(b[n])).sum()
        };
        let (none, asks) = (vec![0.0; head], &row.queries[query * size + at..][..head]);
        let scores: Vec<f64> = seen
            .iter()
            .map(|frame| {
                let key = &row.keys[frame * size + at..][..head];
                let score = match distances {
                    Some(Distances { keys, zero, biases }) => {
                        let place = (zero + frame - own) * size + at;
                        dot(asks, &biases[at..], key) + dot(asks, &biases[size + at..], &keys[place..][..head])
                    }
                    None => dot(asks, &none, key),
                };
                score * f64::from(scale)
            })
            .collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
        for n in 0..head {
            let terms = seen.iter().zip(&scores);
            let value: f64 = terms
                .map(|(frame, score)| (score - largest).exp() / sum * f64::from(row.values[frame * size + at + n]))
                .sum();
            out[at + n] = value as f32;
        }
    }
    out
}

fn is_seen(window: Window, own: usize, key: usize) -> bool {
    match window {
        Window::Full => true,
        Window::Chunks { size, left } => key / size <= own / size && own / size - key / size <= left,
    }
}

fn assert_close(what: &str, found: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        // A NaN is not close.
        let is_close = (found - wanted).abs() <= tolerance;
        assert!(is_close, "{what}: value {at} is {found}, not {wanted}");
    }
}

/// True for GPUs whose driver has values of 16 bits.
fn has_f16(device: &Device) -> bool {
    *device != Device::flex() && device.supports_dtype(DType::F16)
}

/// Heads apart, as a view: `[1, heads, frames, head]`.
fn split(values: &[f32], [heads, head]: [usize; 2], device: &Device) -> Tensor<4> {
    let frames = values.len() / (heads * head);
    let values = TensorData::new(values.to_vec(), [1, frames, heads, head]);
    Tensor::<4>::from_data(values, device).swap_dims(1, 2)
}

struct Case {
    heads: [usize; 2],
    queries: usize,
    keys: usize,
    new: std::ops::Range<usize>,
    window: Window,
    first: usize,
    has_positions: bool,
}

impl Case {
    /// Every tenth query or so is compared, and the first and last ones.
    fn check(&self, way: Way, device: &Device, dtype: FloatDType, tolerance: f32, chance: &mut Chance) {
        let Self { heads, queries, keys, window, first, .. } = *self;
        let size = heads[0] * heads[1];
        let rounded = |values: Vec<f32>| {
            let values = Tensor::<1>::from_floats(values.as_slice(), device).cast(dtype);
            Oracle::values(values.cast(FloatDType::F32))
        };
        let mut draw = |count: usize| rounded(chance.values(count * size));
        let row = Row { queries: draw(queries), keys: draw(keys), values: draw(keys) };
        let (distances, biases) = (draw(2 * queries - 1), draw(2));
        let flat = |values: &[f32]| {
            let values = TensorData::new(values.to_vec(), [values.len() / size, size]);
            Tensor::<2>::from_data(values, device).cast(dtype)
        };
        let positions = self.has_positions.then(|| RelativePositions { keys: flat(&distances), biases: flat(&biases) });
        let visible = VisibleKeys { frames: StepFrames::alone(1, self.new.clone(), device), window, first };
        let inputs = [&row.queries, &row.keys, &row.values].map(|x| split(x, heads, device).cast(dtype));
        let (found, launches) = count(|| attend_by(way, inputs, None, positions.as_ref(), &visible, 0.7));
        assert!(way == Way::Products || launches.total() <= 1, "{:?}", launches.by_kernel());
        let found = Oracle::values(found.cast(FloatDType::F32));
        let distances = Distances { keys: &distances, zero: queries - 1, biases: &biases };
        for query in (0..queries).step_by(queries.div_ceil(11)).chain([queries - 1]) {
            let own = first + query;
            let seen: Vec<usize> = self.new.clone().filter(|key| is_seen(window, own, *key)).collect();
            let distances = self.has_positions.then_some(&distances);
            let wanted = exact(&row, heads, (query, own), &seen, distances, 0.7);
            let what = format!("{heads:?}, {queries} queries, {keys} keys, {window:?}, query {query}");
            assert_close(&what, &found[query * size..][..size], &wanted, tolerance);
        }
    }
}

/// Length of an utterance of four minutes, which the CPU body, one query at a time, is spared.
const LONG: usize = 3000;

/// Each tile of queries, window and head size is a kernel to compile, which takes a software rasteriser most of a second.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (heads, lengths) in [
        ([2, 8], vec![1, 2, 3, 5, 9, 33, 70]),
        ([1, 16], vec![65]),
        ([3, 40], vec![6, 34]),
        ([2, 44], vec![12]),
        ([4, 64], vec![1, 14, 112]),
        ([1, 80], vec![50]),
        ([2, 128], vec![5, 100]),
        ([1, 64], vec![LONG]),
    ] {
        for length in lengths {
            for has_positions in [false, true] {
                let all = |window| Case {
                    heads,
                    queries: length,
                    keys: length,
                    new: 0..length,
                    window,
                    first: 0,
                    has_positions,
                };
                cases.push(Case { new: length / 5..length - length / 7, ..all(Window::Full) });
                cases.push(all(Window::Chunks { size: 7, left: 2 }));
                if length < LONG {
                    cases.push(all(Window::Full));
                    cases.push(all(Window::Chunks { size: 1, left: usize::MAX }));
                }
            }
            // The last queries of a text, and all queries over the frames of a recording.
            let few = Case {
                heads,
                queries: length.div_ceil(3),
                keys: length + 5,
                new: 1..length,
                window: Window::Chunks { size: 1, left: length },
                first: length - length.div_ceil(3),
                has_positions: false,
            };
            cases.push(Case { new: 1..length, window: Window::Full, first: 0, ..few });
            cases.push(few);
        }
    }
    // No query sees a key.
    let none =
        Case { heads: [1, 8], queries: 5, keys: 5, new: 3..3, window: Window::Full, first: 0, has_positions: true };
    cases.push(none);
    cases
}

#[test]
fn attention_in_one_launch_is_the_definition() {
    for (device, on_cpu) in devices() {
        let mut chance = Chance(7);
        let cases = cases().into_iter().filter(|case| !on_cpu || case.keys < LONG);
        cases.for_each(|case| case.check(Way::Tiles, &device, FloatDType::F32, 2e-5, &mut chance));
    }
}

/// Calls of few queries, of which some see more keys than a cube has units.
fn cases_of_few_queries() -> Vec<Case> {
    let by_length = cases().into_iter().filter(|case| case.queries <= 14);
    let over_a_recording = [Window::Full, Window::Chunks { size: 1, left: 600 }].map(|window| Case {
        heads: [2, 64],
        queries: 3,
        keys: 700,
        new: 1..690,
        window,
        first: 680,
        has_positions: false,
    });
    by_length.chain(over_a_recording).collect()
}

#[test]
fn attention_by_a_cube_for_each_query_is_the_definition() {
    for (device, on_cpu) in devices() {
        let mut chance = Chance(23);
        if !on_cpu {
            for case in cases_of_few_queries() {
                case.check(Way::ByQuery, &device, FloatDType::F32, 2e-5, &mut chance);
                if has_f16(&device) {
                    case.check(Way::ByQuery, &device, FloatDType::F16, 1e-3, &mut chance);
                }
            }
        }
    }
}

/// Inputs and outputs in 16 bits, sums in 32.
#[test]
fn attention_in_half_precision_sums_in_full() {
    for (device, _) in devices() {
        let mut chance = Chance(11);
        if has_f16(&device) {
            cases().iter().for_each(|case| case.check(Way::Tiles, &device, FloatDType::F16, 1e-3, &mut chance));
        }
    }
}

/// On matrix units where the adapter has them, else by burn's products.
#[test]
fn attention_by_products_is_the_definition() {
    for (device, on_cpu) in devices() {
        let mut chance = Chance(17);
        // Each shape is some kernels to compile.
        let whole = |case: &Case| {
            let is_whole = case.queries == case.keys && case.window == Window::Full;
            !on_cpu && is_whole && [1, 33, 100, LONG].contains(&case.queries)
        };
        for case in cases().into_iter().filter(whole) {
            case.check(Way::Products, &device, FloatDType::F32, 2e-5, &mut chance);
            // Without matrix units burn may add in 16 bits.
            if has_f16(&device) {
                case.check(Way::Products, &device, FloatDType::F16, 5e-3, &mut chance);
            }
        }
    }
}

/// Rows of different lengths, which lie between one another while products compute them.
#[test]
fn rows_of_products_are_those_of_one_kernel() {
    let ([heads, head], rows, frames) = ([3, 16], 4, 75);
    let size = heads * head;
    for (device, _) in devices() {
        let mut chance = Chance(19);
        let mut draw =
            |count: usize| Tensor::<2>::from_data(TensorData::new(chance.values(count * size), [count, size]), &device);
        let mut input = || draw(rows * frames).reshape([rows, frames, heads, head]).swap_dims(1, 2);
        let inputs = [input(), input(), input()];
        let positions = RelativePositions { keys: draw(2 * frames - 1), biases: draw(2) };
        let of_row = |new| RowFrames { slot: 0, written: 0, new };
        let lengths = [0..frames, 0..20, 7..60, 3..3].map(of_row);
        let visible =
            VisibleKeys { frames: StepFrames::new(lengths.to_vec(), &device), window: Window::Full, first: 0 };
        for dtype in [FloatDType::F32, FloatDType::F16] {
            if dtype == FloatDType::F16 && !has_f16(&device) {
                continue;
            }
            let inputs = inputs.clone().map(|x| x.cast(dtype));
            let positions = RelativePositions {
                keys: positions.keys.clone().cast(dtype),
                biases: positions.biases.clone().cast(dtype),
            };
            let by = |way| {
                let out = attend_by(way, inputs.clone(), None, Some(&positions), &visible, 0.25);
                Oracle::values(out.cast(FloatDType::F32))
            };
            let tolerance = if dtype == FloatDType::F32 { 1e-5 } else { 5e-3 };
            assert_close("rows", &by(Way::Products), &by(Way::Tiles), tolerance);
        }
    }
}

/// Streams of several ages share steps; a ring column that no stream has written holds no number.
#[test]
fn streams_of_any_age_see_what_their_window_holds() {
    for (device, _) in devices() {
        for (heads, columns, chunk, steps) in [
            ([2, 8], 6, 1, vec![1; 17]),
            ([1, 64], 6, 2, vec![2, 4, 2, 2, 8, 2]),
            ([3, 40], 4, 4, vec![4, 4, 12, 4]),
            ([2, 128], 70, 14, vec![14, 28, 14, 14, 112, 14]),
        ] {
            let (mut chance, size, slots) = (Chance(13), heads[0] * heads[1], 4);
            let window = Window::Chunks { size: chunk, left: columns / chunk };
            let empty = || {
                let shape = [slots, heads[0], columns, heads[1]];
                Tensor::<4>::from_data(TensorData::new(vec![f32::NAN; shape.iter().product()], shape), &device)
            };
            let mut ring = KeyValueRing { keys: empty(), values: empty() };
            let biases = chance.values(2 * size);
            let mut streams: Vec<(usize, Row)> = vec![(2, Row::default()), (0, Row::default())];
            for (step, frames) in steps.into_iter().enumerate() {
                if step == 2 {
                    streams.insert(1, (3, Row::default()));
                }
                let count = columns + 2 * frames - 1;
                let distances = chance.values(count * size);
                let positions = RelativePositions {
                    keys: Tensor::from_data(TensorData::new(distances.clone(), [count, size]), &device),
                    biases: Tensor::from_data(TensorData::new(biases.clone(), [2, size]), &device),
                };
                let (mut facts, mut news) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
                // The last step of a row has fewer real frames.
                let real = |row: usize| if step == 4 && row == 0 { frames - 1 } else { frames };
                for (at, (slot, row)) in streams.iter_mut().enumerate() {
                    facts.push(RowFrames { slot: *slot, written: row.keys.len() / size, new: 0..real(at) });
                    row.queries.clear();
                    for (kept, new) in [&mut row.queries, &mut row.keys, &mut row.values].into_iter().zip(&mut news) {
                        let values = chance.values(frames * size);
                        kept.extend(&values);
                        new.push(split(&values, heads, &device));
                    }
                }
                let visible = VisibleKeys { frames: StepFrames::new(facts.clone(), &device), window, first: 0 };
                let [queries, keys, values] = news.map(|rows| Tensor::cat(rows, 0));
                let inputs = [queries, keys.clone(), values.clone()];
                let by = |way| {
                    let found = attend_by(way, inputs.clone(), Some(&ring), Some(&positions), &visible, 0.4);
                    Oracle::values(found)
                };
                let results = [by(Way::Tiles), by(Way::ByQuery)];
                let [keys, values] = store_both([ring.keys, ring.values], &visible.frames, [keys, values]);
                ring = KeyValueRing { keys, values };
                for (at, (facts, (_, row))) in facts.iter().zip(&streams).enumerate() {
                    for query in 0..real(at) {
                        let own = facts.written + query;
                        let number = |frame: usize| frame + columns - facts.written;
                        let seen: Vec<usize> = (facts.written.saturating_sub(columns)..facts.written + real(at))
                            .filter(|frame| is_seen(window, number(own), number(*frame)))
                            .collect();
                        let by = Distances { keys: &distances, zero: columns + frames - 1, biases: &biases };
                        let wanted = exact(row, heads, (query, own), &seen, Some(&by), 0.4);
                        for found in &results {
                            let found = &found[(at * frames + query) * size..][..size];
                            assert_close(&format!("{heads:?}, step {step}, row {at}, {query}"), found, &wanted, 2e-5);
                        }
                    }
                }
                if step == 4 {
                    // Its stream has ended; its slot is another's now.
                    streams[0].1 = Row::default();
                }
            }
        }
    }
}
