//! Kernel launches of a step, against budgets that hold on every adapter: a launch costs the host and the queue the same
//! whatever it computes.

use auricle_kernels::launches::{Launches, count};
use auricle_tests::launches::{conformer_block, kokoro_clause, live_step, pocket_frame, recording_step, whisper_token};
use auricle_tests::{devices, fixtures};
use burn::tensor::{Device, Tensor};

fn gpu() -> Option<Device> {
    devices().into_iter().find_map(|(device, on_cpu)| (!on_cpu).then_some(device))
}

fn assert_within(what: &str, launches: &Launches, budget: usize) {
    let total = launches.total();
    assert!(total > 0, "{what} launches nothing, so that nothing is counted");
    assert!(total <= budget, "{what} launches {total} kernels, more than {budget}: {:#?}", launches.by_kernel());
}

#[test]
fn a_count_has_the_launches_of_its_thread_alone() {
    for (device, on_cpu) in devices() {
        let add = || Tensor::<1>::ones([5], &device).add_scalar(1.0);
        let one = add();
        let (_, launches) = count(|| {
            std::thread::scope(|scope| scope.spawn(add).join().unwrap());
            one.clone().mul_scalar(2.0).add_scalar(3.0)
        });
        assert_eq!(launches.total(), if on_cpu { 0 } else { 2 }, "{:?}", launches.by_kernel());
        let (_, none) = count(|| ());
        assert_eq!((none.total(), launches.beyond(&launches).total()), (0, 0));
        assert_eq!(launches.beyond(&none), launches);
    }
}

#[test]
fn a_token_of_whisper_keeps_its_budget() {
    if let Some(device) = gpu() {
        for windows in [1, 4] {
            let ([first, repeated], layers) = whisper_token(&fixtures().join("whisper/taught"), &device, windows);
            assert_eq!(layers, 2);
            assert_within(&format!("a token of {windows} windows"), &first, 32);
            assert_within(&format!("a repeated token of {windows} windows"), &repeated, 1);
        }
    }
}

#[test]
fn a_block_of_fastconformer_keeps_its_budget() {
    if let Some(device) = gpu() {
        assert_within("a block", &conformer_block(&device), 15);
    }
}

#[test]
fn a_step_of_many_live_streams_keeps_its_budget() {
    if let Some(device) = gpu() {
        let [first, repeated] = live_step(&device, 64);
        assert_within("a step of 64 streams", &first, 130);
        assert_within("a repeated step of 64 streams", &repeated, 7);
    }
}

#[test]
fn a_step_of_a_recording_keeps_its_budget() {
    if let Some(device) = gpu() {
        assert_within("a step of 8.96 s", &recording_step(&device), 141);
    }
}

#[test]
fn a_clause_of_kokoro_keeps_its_budget() {
    if let Some(device) = gpu() {
        // Of the tests' network: 3 layers of ALBERT, 2 rates with 2 blocks each.
        assert_within("a clause", &kokoro_clause(&fixtures().join("kokoro"), &device), 327);
    }
}

#[test]
fn a_frame_of_pocket_tts_keeps_its_budget() {
    if let Some(device) = gpu() {
        // Of the tests' network: two layers of each transformer, two blocks of the flow head, three transposed convolutions.
        for streams in [1, 12] {
            let [first, repeated] = pocket_frame(&fixtures().join("pocket_tts/pocket"), &device, streams);
            assert_within(&format!("a frame of {streams} streams"), &first, 60);
            assert_within(&format!("a repeated frame of {streams} streams"), &repeated, 1);
        }
    }
}
