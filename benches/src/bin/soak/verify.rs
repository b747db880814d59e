//! The verdict: nothing lost, nothing twice, memory flat.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Deployment;
use crate::load::Load;

/// Time for the rest of the work after the load.
const RECOVERY: Duration = Duration::from_secs(180);
/// A billed time may be longer than the recording by rounding.
const SLACK_S: f64 = 0.05;

/// Prints the table of results. An error lists what does not hold.
pub fn verify(
    deployment: &Deployment,
    load: &Load,
    faults: &BTreeMap<&'static str, usize>,
    memory: &[f64],
) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let mut violations = loop {
        let open = unfinished(deployment, load);
        if open.is_empty() || begin.elapsed() > RECOVERY {
            break open;
        }
        std::thread::sleep(Duration::from_secs(2));
    };
    violations.extend(load.violations());
    violations.extend(double(deployment, load));
    // Of a short run the first half is still the warming up.
    let quarter = |n: usize| mean(&memory[memory.len() * n / 4..memory.len() * (n + 1) / 4]);
    let (early, late) = (quarter(1), quarter(3));
    if memory.len() >= 100 && late > early * 1.15 {
        violations.push(format!("memory of the node that was never killed grew from {early:.0} to {late:.0} MB"));
    }

    println!("| | |\n|---|---|");
    for (fault, count) in faults {
        println!("| {fault} | {count} |");
    }
    let count = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Relaxed);
    println!("| Recordings accepted, completed, billed once and notified | {} |", load.jobs().len());
    println!("| Live sessions opened and billed once | {} |", count(&load.opened));
    println!("| of them ended whole; the others were on a node that died or froze | {} |", count(&load.ended));
    println!("| Attempts that clients repeated | {} |", count(&load.repeated));
    println!("| Memory of the node that was never killed, second and last quarter, MB | {early:.0}, {late:.0} |");
    println!("| Until all was done after the load, s | {:.0} |", begin.elapsed().as_secs_f64());
    println!("| Violations | {} |", violations.len());
    if violations.is_empty() {
        return Ok(());
    }
    Err(format!("{} violations\n  {}", violations.len(), violations.join("\n  ")).into())
}

/// Each thing that is still to be done.
fn unfinished(deployment: &Deployment, load: &Load) -> Vec<String> {
    let account = deployment.account.at(&deployment.nodes[0].api());
    let usage = account.usage();
    let bills: HashMap<&str, &Value> =
        usage.iter().filter_map(|event| Some((event["transcript_id"].as_str()?, event))).collect();
    let mut open = Vec::new();
    for job in load.jobs().iter() {
        let mut lacks = |what: String| open.push(format!("job {}: {what}", job.id));
        match bills.get(job.id.as_str()).map(|bill| bill["quantity"].as_f64().unwrap_or_default()) {
            None => {
                let now = account.transcript(&job.id);
                lacks(format!("no bill, status {}, error {}", now["status"], now["error"]));
            }
            Some(seconds) if (seconds - job.seconds).abs() > SLACK_S => {
                lacks(format!("{seconds} s were billed for {} s", job.seconds));
            }
            Some(_) => {}
        }
        let deliveries = deployment.receiver.deliveries(&job.webhook);
        if !deliveries.iter().any(|delivery| delivery.json()["transcript_id"] == job.id.as_str()) {
            lacks("no webhook".into());
        }
    }
    let sessions = session_bills(&usage);
    let opened = load.opened.load(Ordering::Relaxed);
    if sessions < opened {
        open.push(format!("{opened} sessions were opened, {sessions} are billed"));
    }
    open
}

/// Each thing that was done more than once, and each job that did not complete.
fn double(deployment: &Deployment, load: &Load) -> Vec<String> {
    let account = deployment.account.at(&deployment.nodes[0].api());
    let usage = account.usage();
    let mut bills: HashMap<&str, usize> = HashMap::new();
    for event in &usage {
        *bills.entry(event["transcript_id"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let jobs = load.jobs();
    let known: HashMap<&str, ()> = jobs.iter().map(|job| (job.id.as_str(), ())).collect();
    let mut wrong = Vec::new();
    for (id, count) in bills.into_iter().filter(|(id, _)| !id.is_empty()) {
        if count > 1 {
            wrong.push(format!("job {id} was billed {count} times"));
        }
        if !known.contains_key(id) {
            wrong.push(format!("job {id} was billed, and no client had it accepted"));
        }
    }
    for job in jobs.iter() {
        let now = account.transcript(&job.id);
        if now["status"] != "completed" {
            wrong.push(format!("job {} is {}: {}", job.id, now["status"], now["error"]));
        }
    }
    let (sessions, opened) = (session_bills(&usage), load.opened.load(Ordering::Relaxed));
    let most = opened + load.uncertain.load(Ordering::Relaxed);
    if sessions > most {
        wrong.push(format!("{sessions} sessions are billed, at most {most} were opened"));
    }
    wrong
}

fn session_bills(usage: &[Value]) -> usize {
    usage.iter().filter(|event| event["session_id"].is_string()).count()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
