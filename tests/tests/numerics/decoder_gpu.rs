//! Language models on a GPU: the kernels against their twins and the definition, and the network against `transformers` and the CPU.

use std::sync::Arc;

use auricle_engine::Precision;
use auricle_engine::unstable::models::decoder::{ChatModel, PageList, Piece};
use auricle_kernels::activation::Activation;
use auricle_kernels::attention::paged::cpu::PAGE;
use auricle_kernels::attention::paged::{self, Heads, PageTables, StepToken, Turn};
use auricle_kernels::launches::count;
use auricle_kernels::norm;
use auricle_kernels::product::blocks::BlockMatrix;
use auricle_kernels::product::epilogue;
use auricle_kernels::product::gemv::WeightRun;
use auricle_kernels::sampling::likeliest::likeliest;
use auricle_tests::{Oracle, devices};
use burn::tensor::{DType, Device, Distribution, Tensor, TensorData, activation};

use crate::decoder::{assert_greedy, compute, error, fixture, integers};

fn gpu() -> Option<Device> {
    devices().into_iter().find_map(|(device, on_cpu)| (!on_cpu).then_some(device))
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn moved<const D: usize>(x: &Tensor<D>, device: &Device) -> Tensor<D> {
    Tensor::from_data(x.clone().into_data(), device)
}

fn close<const D: usize>(what: &str, ours: &Tensor<D>, theirs: &Tensor<D>, tolerance: f32) {
    let [ours, theirs] = [ours, theirs].map(|x| x.clone().cast(DType::F32).into_data().try_to_vec::<f32>().unwrap());
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance, "{what}: {worst:e}");
}

#[test]
fn norms_and_gates_follow_their_definitions() {
    for (device, _) in devices() {
        for [rows, size] in [[1, 8], [3, 100], [70, 577]] {
            let [x, more] = [(); 2].map(|()| random([rows, size], &device));
            let gamma = random([size], &device);
            let definition = |x: &Tensor<2>| {
                let mean = x.clone().powi_scalar(2).mean_dim(1);
                x.clone() / (mean + 1e-3).sqrt() * gamma.clone().unsqueeze()
            };
            close("a norm", &norm::rms_norm(x.clone(), gamma.clone(), 1e-3), &definition(&x), 1e-5);
            let [sum, normed] = norm::add_and_rms_norm(x.clone(), more.clone(), gamma.clone(), 1e-3);
            close("a sum", &sum, &(x.clone() + more.clone()), 1e-6);
            close("its norm", &normed, &definition(&(x.clone() + more.clone())), 1e-5);
            let bias = random([2 * size], &device);
            let gated =
                epilogue::activate(Tensor::cat(vec![x.clone(), more.clone()], 1), bias.clone(), Activation::SwiGlu);
            let with = |x: &Tensor<2>, from: usize| x.clone() + bias.clone().narrow(0, from, size).unsqueeze();
            close("gates", &gated, &(activation::silu(with(&x, 0)) * with(&more, size)), 1e-5);
        }
    }
}

/// Rows of one part and of several, equal scores in different parts, and scores that are no numbers.
#[test]
fn the_likeliest_token_is_the_first_of_the_largest_finite_scores() {
    for (device, _) in devices() {
        let of = |rows: Vec<Vec<f32>>| {
            let shape = [rows.len(), rows[0].len()];
            let scores = Tensor::from_data(TensorData::new(rows.concat(), shape), &device);
            likeliest(scores).into_data().try_to_vec::<f32>().unwrap()
        };
        assert_eq!(of(vec![vec![2.0], vec![f32::NAN], vec![f32::NEG_INFINITY]]), [0.0, -1.0, -1.0]);
        assert_eq!(of(vec![vec![-9.0, -2.0, -2.0, f32::NAN, f32::INFINITY]]), [1.0]);
        let mut rows: Vec<Vec<f32>> =
            (0..3u32).map(|row| (0..10_000u32).map(|at| ((at * 7919 + row) % 5000) as f32).collect()).collect();
        let best = |row: &[f32]| row.iter().position(|score| *score == 4999.0).unwrap() as f32;
        let expected: Vec<f32> = rows.iter().map(|row| best(row)).collect();
        assert_eq!(of(rows.clone()), expected);
        rows[1][9_999] = 5e3;
        rows[2] = vec![f32::NAN; 10_000];
        assert_eq!(of(rows), [expected[0], 9_999.0, -1.0]);
    }
}

/// Numbers, scale and minimum.
type StoredRun = (Vec<i8>, f32, f32);

fn as_run((numbers, scale, minimum): &StoredRun) -> WeightRun<'_> {
    WeightRun { numbers, scale: *scale, minimum: *minimum }
}

/// Numbers of 4 and 8 bits, runs of two lengths, and outputs that are no whole vectors: the values, and products of few and many rows.
#[test]
fn quantised_blocks_are_their_values() {
    let cpu = Device::flex();
    for (device, _) in devices() {
        for (run, inputs, outputs, numbers) in
            [(32, 64, 20, -8..8), (16, 48, 7, -32..32), (32, 320, 33, 0..16), (16, 16, 4, -100..28)]
        {
            let number =
                |output: usize, input: usize| numbers.start + ((output * 31 + input * 17) % numbers.len()) as i8;
            let factors =
                |output: usize, run: usize| (0.5 + (output * 7 + run) as f32 * 0.01, (output as f32 - 9.0) * 0.125);
            // Runs may be longer than those of the matrix.
            let row = |output: usize| -> Vec<StoredRun> {
                let runs = (0..inputs / run).map(|at| {
                    let (scale, minimum) = factors(output, at);
                    ((at * run..(at + 1) * run).map(|input| number(output, input)).collect(), scale, minimum)
                });
                runs.collect()
            };
            let matrix = BlockMatrix::new([outputs, inputs], run / 2, row, as_run, &device);
            let values: Vec<f32> = (0..inputs)
                .flat_map(|input| {
                    (0..outputs).map(move |output| {
                        let (scale, minimum) = factors(output, input / run);
                        scale * f32::from(number(output, input)) + minimum
                    })
                })
                .collect();
            let values = Tensor::<2>::from_data(TensorData::new(values, [inputs, outputs]), &cpu);
            let what = format!("{run}, {inputs} x {outputs}");
            close(&what, &matrix.unpacked(DType::F32), &values, 1e-4);
            for rows in [1, 3, 8, 19] {
                let x = random([rows, inputs], &cpu);
                close(&what, &matrix.forward(moved(&x, &device)), &x.matmul(values.clone()), 2e-2);
            }
        }
    }
}

/// Three sequences in scattered pages, the second across the keys that are weighed together: what the CPU's twin stores and attends to.
#[test]
fn attention_over_pages_equals_its_twin() {
    let Some(gpu) = gpu() else { return };
    let cpu = Device::flex();
    for heads in [
        Heads { queries: 4, keys: 2, width: 16 },
        Heads { queries: 3, keys: 3, width: 12 },
        Heads { queries: 9, keys: 3, width: 64 },
        Heads { queries: 2, keys: 1, width: 256 },
    ] {
        let pages: [&[usize]; 3] = [&[7], &(10..50).rev().collect::<Vec<usize>>(), &[3, 9]];
        let positions = [(0, 0..5), (1, 1_200..1_203), (2, 31..34)];
        let tokens: Vec<StepToken> = positions
            .into_iter()
            .flat_map(|(sequence, positions)| positions.map(move |position| StepToken { sequence, position }))
            .collect();
        let inputs = random([tokens.len(), (heads.queries + 2 * heads.keys) * heads.width], &cpu);
        let cache = random([50, heads.page()], &cpu);
        let rotations = random([1_300, heads.width], &cpu);
        for norms in [None, Some(random([2, heads.width], &cpu))] {
            let run = |device: &Device, dtype: DType| {
                let turn = Turn {
                    rotations: moved(&rotations, device),
                    norms: norms.as_ref().map(|norms| moved(norms, device)),
                    epsilon: 1e-5,
                    scale: (heads.width as f32).powf(-0.5),
                };
                let tables = PageTables::new(&tokens, &pages, device);
                let cache = moved(&cache, device).cast(dtype);
                let (queries, cache) = paged::store(moved(&inputs, device), &turn, &tables, cache, heads);
                let attended = paged::attend(queries.clone(), &tables, &cache, heads);
                (queries, cache, attended)
            };
            let (queries, cache, attended) = run(&cpu, DType::F32);
            let what = |part: &str| format!("{part}, {heads:?}, norms: {}", norms.is_some());
            let on_gpu = run(&gpu, DType::F32);
            close(&what("queries"), &on_gpu.0, &queries, 1e-5);
            close(&what("pages"), &on_gpu.1, &cache, 1e-5);
            close(&what("attention"), &on_gpu.2, &attended, 1e-4);
            if gpu.supports_dtype(DType::F16) {
                close(&what("attention in 16 bits"), &run(&gpu, DType::F16).2, &attended, 1e-2);
            }
        }
    }
}

/// Two streams whose pages are rings, from the first token to one past the largest block of keys: what the definition says, also where a
/// step runs twice.
#[test]
fn attention_to_a_window_over_rings_of_pages_follows_its_definition() {
    let heads = Heads { queries: 2, keys: 2, width: 8 };
    for (window, count) in [(21, 16), (250, 16), (1, 1), (1_100, 64)] {
        let width = PageTables::ring(window, count);
        // Beyond the ring.
        let total = (width * PAGE + 2 * count) / count * count;
        let inputs = random([2 * total, 3 * heads.queries * heads.width], &Device::flex());
        let rotations = random([total, heads.width], &Device::flex());
        let expected = windowed(&inputs, &rotations, heads, window);
        let rings: Vec<Vec<usize>> = (0..2).map(|at| (at * width..(at + 1) * width).collect()).collect();
        let rings: Vec<&[usize]> = rings.iter().map(Vec::as_slice).collect();
        for (device, _) in devices() {
            let turn = Turn { rotations: moved(&rotations, &device), norms: None, epsilon: 1e-5, scale: 1.0 };
            let mut cache = random([2 * width, heads.page()], &device);
            for from in (0..total).step_by(count) {
                let positions = from..from + count;
                let tokens = (0..2)
                    .flat_map(|sequence| positions.clone().map(move |position| StepToken { sequence, position }))
                    .collect::<Vec<_>>();
                let packed = PageTables::pack_rings(&tokens, &rings).map(|values| {
                    let length = values.len();
                    Tensor::from_data(TensorData::new(values, [length]), &device)
                });
                let tables = PageTables::with_packed(packed, tokens.len(), width).with_window(window);
                let of_step = |x: &Tensor<2>| {
                    let of = |sequence: usize| x.clone().narrow(0, sequence * total + from, count);
                    Tensor::cat(vec![of(0), of(1)], 0)
                };
                let (rows, expected) = (moved(&of_step(&inputs), &device), of_step(&expected));
                for _ in 0..2 {
                    let queries;
                    (queries, cache) = paged::store(rows.clone(), &turn, &tables, cache, heads);
                    let attended = paged::attend(queries, &tables, &cache, heads);
                    close(&format!("{window} from {from}"), &attended, &expected, 1e-4);
                }
            }
        }
    }
}

/// Attention by its definition: all positions of two streams, which share the rows of `inputs`.
fn windowed(inputs: &Tensor<2>, rotations: &Tensor<2>, heads: Heads, window: usize) -> Tensor<2> {
    let of = |x: &Tensor<2>| x.clone().into_data().try_to_vec::<f32>().unwrap();
    let (head, total, all) = (heads.width, inputs.dims()[0] / 2, heads.queries * heads.width);
    let (mut inputs, rotations) = (of(inputs), of(rotations));
    for (at, row) in inputs.chunks_exact_mut(3 * all).enumerate() {
        let (cosines, sines) = rotations[at % total * head..][..head].split_at(head / 2);
        for x in row[..2 * all].chunks_exact_mut(head) {
            let (first, second) = x.split_at_mut(head / 2);
            for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(cosines.iter().zip(sines)) {
                (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
            }
        }
    }
    let part = |row: usize, first: usize| &inputs[row * 3 * all + first..][..head];
    let mut out = Vec::with_capacity(2 * total * all);
    for row in 0..2 * total {
        let seen = row - (row % total).min(window - 1)..=row;
        for first in (0..all).step_by(head) {
            let score = |key| part(row, first).iter().zip(part(key, all + first)).map(|(a, b)| a * b).sum::<f32>();
            let scores: Vec<f32> = seen.clone().map(score).collect();
            let most = scores.iter().copied().fold(f32::MIN, f32::max);
            let weights: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
            let sum: f32 = weights.iter().sum();
            out.extend((0..head).map(|at| {
                let weighted = weights.iter().zip(seen.clone());
                weighted.map(|(weight, key)| weight * part(key, 2 * all + first)[at]).sum::<f32>() / sum
            }));
        }
    }
    Tensor::from_data(TensorData::new(out, [2 * total, all]), &Device::flex())
}

#[test]
fn scores_and_greedy_texts_are_those_of_the_published_classes() {
    let Some(gpu) = gpu() else { return };
    for name in ["llama", "qwen2", "qwen3", "llama_gguf", "qwen3_gguf"] {
        let oracle = Oracle::open(&fixture(name));
        let prompt = integers(&oracle.facts["prompt"]);
        let theirs = Oracle::values(oracle.tensor::<2>("logits", &Device::flex()));
        // With int8 the weights that a file quantises stay so, and the others have 16 bits.
        let quantised = if name.ends_with("gguf") { 1e-2 } else { 2e-2 };
        for (precision, tolerance) in
            [(Precision::default(), 1e-4), (Precision::F16, 2e-2), (Precision::Int8, quantised)]
        {
            let model = ChatModel::load_on(&fixture(name), precision, &gpu, None).unwrap();
            let (mut arena, mut pages) = (model.arena(64 << 20), PageList::default());
            let mut ours = Vec::new();
            for (position, token) in prompt.iter().enumerate() {
                ours.extend(compute(&model, &mut arena, &mut pages, &[*token], position));
            }
            let off = error(&ours, &theirs);
            assert!(off < tolerance, "{name}, {precision:?}: {off:e}");
        }
        let bytes = |precision| ChatModel::load_on(&fixture(name), precision, &gpu, None).unwrap().weight_bytes();
        let [half, quantised] = [Precision::F16, Precision::Int8].map(bytes);
        assert!(if name.ends_with("gguf") { quantised < half } else { quantised == half }, "{name}: {quantised} bytes");
        let model = ChatModel::load_on(&fixture(name), Precision::default(), &gpu, None).unwrap();
        assert_greedy(name, &model, &mut model.arena(64 << 20), &oracle);
    }
}

/// Prompts in pieces, beside others, over pages that another text has computed, and past the first allocation: as the CPU has it.
#[test]
fn texts_side_by_side_are_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    for (name, precision, tolerance) in [("qwen3", Precision::default(), 1e-4), ("qwen3_gguf", Precision::Int8, 1e-2)] {
        assert_texts_side_by_side(name, &gpu, precision, tolerance);
    }
}

fn assert_texts_side_by_side(name: &str, gpu: &Device, precision: Precision, tolerance: f64) {
    let path = fixture(name);
    let models = [ChatModel::load(&path).unwrap(), ChatModel::load_on(&path, precision, gpu, None).unwrap()];
    let prompts: Vec<Vec<u32>> = (0..5u32).map(|n| (0..40 + 50 * n).map(|at| (at * 37 + n) % 300).collect()).collect();
    let account: Arc<str> = "one".into();
    let of = |model: &ChatModel| {
        let mut arena = model.arena_of(auricle_kernels::attention::paged::cpu::PagePrecision::F32, 64 << 20);
        let mut lists: Vec<PageList> = (0..7).map(|_| PageList::default()).collect();
        // A text that holds more pages than are allocated at first.
        assert!(arena.extend(&mut lists[6], 70 * PAGE));
        let mut computed = vec![0; 5];
        let mut last = vec![Vec::new(); 5];
        while prompts.iter().zip(&computed).any(|(prompt, computed)| *computed < prompt.len()) {
            let mut work = Vec::new();
            for (at, prompt) in prompts.iter().enumerate().filter(|(at, prompt)| computed[*at] < prompt.len()) {
                let count = (prompt.len() - computed[at]).min(17 + 30 * at);
                assert!(arena.extend(&mut lists[at], computed[at] + count));
                work.push((at, count));
            }
            let pieces: Vec<Piece> = work
                .iter()
                .map(|(at, count)| Piece {
                    tokens: &prompts[*at][computed[*at]..][..*count],
                    position: computed[*at],
                    pages: &lists[*at],
                    embedded: None,
                    scores: computed[*at] + count == prompts[*at].len(),
                })
                .collect();
            let scores = model.forward(&mut arena, &pieces).unwrap();
            let mut scored = scores.chunks_exact(model.config().vocabulary);
            for (at, count) in &work {
                computed[*at] += count;
                if computed[*at] == prompts[*at].len() {
                    last[*at] = scored.next().unwrap().to_vec();
                }
            }
            assert!(scored.next().is_none(), "scores of texts that want none");
        }
        arena.publish(&account, &prompts[4], &mut lists[4]);
        let shared = arena.share(&account, &prompts[4], &mut lists[5]);
        assert!(shared >= 3 * PAGE);
        last.push(compute(model, &mut arena, &mut lists[5], &prompts[4][shared..], shared));
        last
    };
    let [cpu, on_gpu] = models.each_ref().map(of);
    for (at, (cpu, gpu)) in cpu.iter().zip(&on_gpu).enumerate() {
        let off = error(gpu, cpu);
        assert!(off < tolerance, "{name}, text {at}: {off:e}");
    }
}

#[test]
fn a_model_that_is_larger_than_the_tensors_of_a_device_runs_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let load = |most| ChatModel::load_on(&fixture("qwen3"), Precision::default(), &gpu, Some(most)).unwrap();
    assert!(load(1 << 27).is_on_gpu());
    let model = load(1_000);
    assert!(!model.is_on_gpu());
    let (mut arena, mut pages) = (model.arena(1 << 20), PageList::default());
    assert_eq!(compute(&model, &mut arena, &mut pages, &[1, 2], 0).len(), model.config().vocabulary);
}

#[test]
fn a_token_keeps_its_budget_of_launches() {
    let Some(gpu) = gpu() else { return };
    let model = ChatModel::load_on(&fixture("qwen3"), Precision::default(), &gpu, None).unwrap();
    let (mut arena, mut pages) = (model.arena(64 << 20), PageList::default());
    compute(&model, &mut arena, &mut pages, &[1, 2, 3], 0);
    let (_, launches) = count(|| compute(&model, &mut arena, &mut pages, &[4], 3));
    // Nine a layer; the token's number, embedding and norm, the scores, and two for the likeliest.
    let budget = 9 * model.config().layers + 6;
    assert!(
        launches.total() > 0 && launches.total() <= budget,
        "{} of {budget}: {:#?}",
        launches.total(),
        launches.by_kernel()
    );
}

/// Steps of a token for each of three sequences: past the end of the first pages, past the first allocation, and after one text has ended.
#[test]
fn steps_that_are_recorded_give_the_scores_of_the_cpu_without_launches() {
    let Some(gpu) = gpu() else { return };
    let name = fixture("qwen3");
    let models =
        [ChatModel::load(&name).unwrap(), ChatModel::load_on(&name, Precision::default(), &gpu, None).unwrap()];
    let of = |model: &ChatModel| {
        let mut arena = model.arena_of(auricle_kernels::attention::paged::cpu::PagePrecision::F32, 64 << 20);
        let mut lists: Vec<PageList> = (0..4).map(|_| PageList::default()).collect();
        let mut computed = [20, 33, 112];
        for (at, list) in lists[..3].iter_mut().enumerate() {
            let prompt: Vec<u32> = (0..computed[at] as u32).map(|token| token * 31 % 300).collect();
            compute(model, &mut arena, list, &prompt, 0);
        }
        let (mut scores, mut without_launches) = (Vec::new(), 0);
        for step in 0..40u32 {
            if step == 20 {
                assert!(arena.extend(&mut lists[3], 70 * PAGE), "more than was allocated");
            }
            let first = usize::from(step >= 30);
            let token = [step * 7 % 300];
            for (list, computed) in lists[first..3].iter_mut().zip(&computed[first..]) {
                assert!(arena.extend(list, computed + 1));
            }
            let pieces: Vec<Piece> = lists[first..3]
                .iter()
                .zip(&computed[first..])
                .map(|(pages, position)| Piece {
                    tokens: &token,
                    position: *position,
                    pages,
                    embedded: None,
                    scores: true,
                })
                .collect();
            let (step, launches) = count(|| model.forward(&mut arena, &pieces).unwrap());
            without_launches += usize::from(launches.total() == 0);
            scores.push(step);
            computed[first..].iter_mut().for_each(|computed| *computed += 1);
        }
        (scores, without_launches)
    };
    let [(cpu, _), (on_gpu, without_launches)] = models.each_ref().map(of);
    for (at, (cpu, gpu)) in cpu.iter().zip(&on_gpu).enumerate() {
        let off = error(gpu, cpu);
        assert!(off < 1e-4, "step {at}: {off:e}");
    }
    // Two steps of each shape have launches: at first, with wider tables, after the allocation, and with one text less.
    assert!(without_launches >= 32, "{without_launches} of 40 steps without launches");
}
