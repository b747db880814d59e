//! What counts as an attempt at a job: failures of the job itself, a worker's death by half, and no fault of the service.

use std::time::Duration;

use auricle_tests::{
    Account, Clock, Receiver, Reply, Service, Setup, SmallDisk, eventually, long_reading, noise, silence,
};
use serde_json::{Value, json};

/// Kills the service during the work on a job, so many times.
fn killed_during(service: &Service, account: &Account, id: &str, times: usize) {
    for time in 1..=times {
        eventually("it is at work", || (account.transcript(id)["status"] == "processing").then_some(()));
        service.kill();
        service.start();
        // Until then its status is that of the last attempt.
        let known = ["requeued jobs", "gave up jobs"];
        let count = |log: &str| known.iter().map(|line| log.matches(line).count()).sum::<usize>();
        eventually("its death is known", || (count(&service.log()) >= time).then_some(()));
    }
}

/// The neighbour of a job that kills its worker may have been the cause, too. Alone, each shows its own fault.
#[test]
fn a_worker_that_dies_counts_half_and_a_suspect_runs_alone() {
    let service = Setup::local().with("job_lease_seconds", 2).with("job_workers", 3).start();
    let account = service.account();
    let suspect = account.create(&json!({"upload_id": account.upload("a.wav", noise(300.0))}));
    killed_during(&service, &account, &suspect, 4);
    let upload = account.upload("b.wav", silence(0.1));
    eventually("it is at work", || (account.transcript(&suspect)["status"] == "processing").then_some(()));
    let neighbour = account.create(&json!({"upload_id": upload}));
    let (suspect, neighbour) = (account.finished(&suspect), account.finished(&neighbour));
    let ended = |job: &Value| job["completed_at"].as_str().unwrap().to_owned();
    assert_eq!((&suspect["status"], &neighbour["status"]), (&json!("completed"), &json!("completed")), "{suspect}");
    assert!(ended(&suspect) <= ended(&neighbour), "one after the other: {suspect} {neighbour}");
    assert_eq!(account.usage().len(), 2);
}

#[test]
fn a_job_that_kills_its_worker_again_and_again_fails() {
    let service = Setup::local().with("job_lease_seconds", 2).start();
    let account = service.account();
    let id = account.create(&json!({"upload_id": account.upload("a.wav", noise(300.0))}));
    killed_during(&service, &account, &id, 6);
    let failed = account.finished(&id);
    assert_eq!(failed["status"], "error");
    assert!(failed["error"].as_str().unwrap().contains("6 times"), "{failed}");
    assert_eq!(account.usage(), [] as [Value; 0]);
}

#[test]
fn a_clock_that_is_set_takes_no_job_from_its_worker() {
    let Some(clock) = Clock::new() else { return };
    let service = Setup::local().with("job_lease_seconds", 3).environment(clock.environment()).start();
    let (receiver, account) = (Receiver::new(), service.account());
    let (url, gate) = receiver.held();
    let id = account.create(&json!({"audio_url": url}));
    let path = format!("/{}", url.rsplit_once('/').unwrap().1);
    receiver.wait(&path, 1);
    for offset in ["+2h", "-2h"] {
        clock.set(offset);
        // Longer than a lease.
        std::thread::sleep(Duration::from_secs(5));
    }
    assert_eq!(receiver.deliveries(&path).len(), 1, "it still is the first attempt");
    gate.open();
    assert_eq!(account.finished(&id)["status"], "completed");
}

#[test]
fn a_full_disk_is_no_attempt() {
    let service = Setup::local().prepare();
    let Some(disk) = SmallDisk::mount(&service.data(), 24) else { return };
    let ballast = service.data().join("ballast-of-the-test");
    std::fs::write(&ballast, vec![0; 12 << 20]).unwrap();
    service.start();
    let (receiver, account) = (Receiver::new(), service.account());
    // 8 kB a second.
    let file = silence(1700.0);
    assert!(file.len() > 12 << 20);
    let url = receiver.answers("/a.wav", [Reply::audio(file)]);
    let id = account.create(&json!({"audio_url": url}));
    // Three attempts would have failed by then.
    receiver.wait("/a.wav", 4);
    std::fs::remove_file(ballast).unwrap();
    let done = account.finished(&id);
    assert_eq!(done["status"], "completed", "{}", done["error"]);
    drop(disk);
}

#[test]
fn a_transcript_in_work_says_how_much_is_done() {
    let service = Setup::local().starter().with("job_lease_seconds", 2).start();
    let account = service.account();
    let id = account.create(&json!({"upload_id": account.upload("long.wav", long_reading(12))}));
    let seen = eventually("a part is done", || {
        let seen = account.transcript(&id);
        assert_ne!(seen["status"], "completed", "it ended with no word of its progress");
        seen["progress"].as_u64().is_some_and(|percent| percent > 0).then_some(seen)
    });
    assert!(seen["progress"].as_u64().unwrap() < 100 && seen["audio_duration_sec"].is_null(), "{seen}");
    let done = account.finished(&id);
    assert!(done["progress"].is_null() && done["audio_duration_sec"].as_f64().unwrap() > 60.0, "{done}");
}
