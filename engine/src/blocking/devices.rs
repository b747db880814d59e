//! The devices of an engine, the models on each, and the place of new work among them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use crate::device::{self, DeviceInfo, OpenDevice, in_own_memory, is_cpu};
use crate::error::{Error, Result};
use crate::load_once::{Loaded, LoadedFiles};
use crate::models::fastconformer::FastConformer;
use crate::pipeline::checkpoint::Checkpoint;
use crate::pipeline::executors::device::DeviceExecutor;
use crate::scheduler::{Priority, Scheduler, SlotCounts};
use crate::weights::most_bytes;

/// Time between two attempts to open a device that was lost.
const REOPEN_EVERY: Duration = Duration::from_secs(5);

/// A device, the models on it, and the worker that runs its steps.
pub(crate) struct EngineDevice {
    pub device: Device,
    pub info: DeviceInfo,
    pub precision: Option<Precision>,
    loaded: LoadedFiles,
    slots: SlotCounts,
    worker: Mutex<Option<Arc<Scheduler<DeviceExecutor>>>>,
    /// Results that others than the worker could not read from the device.
    unread: AtomicUsize,
    /// Failures when the device was last found to work.
    known_failures: AtomicUsize,
}

impl EngineDevice {
    fn new(opened: OpenDevice, precision: Option<Precision>, loaded: LoadedFiles, slots: SlotCounts) -> Self {
        Self {
            device: opened.device,
            info: opened.info,
            precision,
            loaded,
            slots,
            worker: Mutex::default(),
            unread: AtomicUsize::new(0),
            known_failures: AtomicUsize::new(0),
        }
    }

    /// The model of a path on this device: loaded, if it is not there.
    pub fn model<T: Loaded>(&self, path: &Path, load: impl FnOnce() -> Result<T> + Send) -> Result<Arc<T>> {
        self.loaded.get(path, || most_bytes(path), || in_own_memory(&self.device, load))
    }

    /// True if the path is loaded as a `T`.
    pub fn has<T: Loaded>(&self, path: &Path) -> bool {
        self.loaded.contains::<T>(path)
    }

    pub fn checkpoint(&self, dir: &Path) -> Result<Arc<Checkpoint>> {
        self.model(dir, || Checkpoint::load(dir, &self.device, self.precision))
    }

    /// A checkpoint that hears streams of frames.
    pub fn streaming_model(&self, dir: &Path) -> Result<Arc<FastConformer>> {
        self.checkpoint(dir)?.streaming().cloned()
    }

    /// The worker, started at first use.
    pub fn worker(&self) -> Result<Arc<Scheduler<DeviceExecutor>>> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = worker.as_ref() {
            return Ok(worker.clone());
        }
        let (device, id) = (self.device.clone(), self.info.id.clone());
        let started = Arc::new(Scheduler::start(self.slots, move || DeviceExecutor::new(device, id))?);
        *worker = Some(started.clone());
        Ok(started)
    }

    fn started_worker(&self) -> Option<Arc<Scheduler<DeviceExecutor>>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Streams that are open, those of the priority before the others.
    pub fn open_streams(&self, first: Priority) -> (usize, usize) {
        let Some(worker) = self.started_worker() else { return (0, 0) };
        let open = |priority: Priority| self.slots.of(priority) - worker.free(priority).min(self.slots.of(priority));
        // A second pass comes with a session, and is over soon.
        let lasting = Priority::ALL.into_iter().filter(|priority| *priority != Priority::SecondPass);
        (open(first), lasting.map(open).sum())
    }

    /// Takes note of an error that may be the device's, and gives it back.
    pub fn suspect<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::Device { .. })) {
            self.unread.fetch_add(1, Ordering::AcqRel);
        }
        result
    }

    /// Sees whether the device still computes, if something has failed on it since it last did.
    ///
    /// # Errors
    /// Why it does not.
    fn check(&self) -> std::result::Result<(), String> {
        if is_cpu(&self.device) {
            return Ok(());
        }
        let of_steps = self.started_worker().map_or(0, |worker| worker.failed_steps());
        let failures = of_steps + self.unread.load(Ordering::Acquire);
        if failures == self.known_failures.load(Ordering::Acquire) {
            return Ok(());
        }
        device::check(&self.device)?;
        self.known_failures.store(failures, Ordering::Release);
        Ok(())
    }

    /// Ends all streams with the reason.
    fn give_up(&self, reason: &str) {
        if let Some(worker) = self.started_worker() {
            worker.abandon(Error::Device { device: self.info.id.clone(), reason: reason.to_owned() });
        }
    }
}

/// One of the engine's devices, or the rest of it.
enum State {
    Works(Arc<EngineDevice>),
    Lost { reason: String, tried: Instant },
}

/// A device of the engine, which may be lost and opened again.
struct Place {
    info: DeviceInfo,
    state: Mutex<State>,
}

/// The devices of an engine. Work goes to the one with the fewest open streams; where a device is lost, its streams end with an error,
/// it is opened anew, and until then work goes to the others.
pub(crate) struct EngineDevices {
    places: Vec<Place>,
    precision: Option<Precision>,
    /// Files that are read for all devices. The models of each are at a place of their own beside them.
    pub shared: LoadedFiles,
    slots: SlotCounts,
    /// Number of the device that is asked first, so that devices with as many streams take turns.
    turn: AtomicUsize,
}

impl EngineDevices {
    /// `slots` are those of all devices together: each of several has its part of the streams that take its memory as long as they are
    /// open, and as many recordings as there may be at all.
    pub fn new(opened: Vec<OpenDevice>, precision: Option<Precision>, model_memory: u64, slots: SlotCounts) -> Self {
        let shared = LoadedFiles::new(model_memory);
        let count = opened.len().max(1);
        let slots = SlotCounts {
            live: slots.live.div_ceil(count),
            speech: slots.speech.div_ceil(count),
            second_pass: slots.second_pass.div_ceil(count),
            agent: slots.agent.div_ceil(count),
            offline: slots.offline,
        };
        let place = |opened: OpenDevice| Place {
            info: opened.info.clone(),
            state: Mutex::new(State::Works(Arc::new(EngineDevice::new(
                opened,
                precision,
                shared.at_another_place(),
                slots,
            )))),
        };
        let places = opened.into_iter().map(place).collect();
        Self { places, precision, shared, slots, turn: AtomicUsize::new(0) }
    }

    /// The devices, those that are lost included.
    pub fn infos(&self) -> impl Iterator<Item = &DeviceInfo> {
        self.places.iter().map(|place| &place.info)
    }

    /// The devices that compute.
    ///
    /// # Errors
    /// [`Error::Device`] if all are lost and none can be opened again.
    pub fn all(&self) -> Result<Vec<Arc<EngineDevice>>> {
        let found: Vec<_> = self.places.iter().map(|place| self.usable(place)).collect();
        let mut reasons = Vec::new();
        let take = |result: Result<_>| result.map_err(|reason| reasons.push(reason)).ok();
        let works: Vec<_> = found.into_iter().filter_map(take).collect();
        match reasons.into_iter().next() {
            Some(reason) if works.is_empty() => Err(reason),
            _ => Ok(works),
        }
    }

    /// The device for a new stream of a priority: the one with the fewest of them, and among those with the fewest of all.
    ///
    /// # Errors
    /// As [`EngineDevices::all`].
    pub fn choose(&self, priority: Priority) -> Result<Arc<EngineDevice>> {
        let mut works = self.all()?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % works.len().max(1);
        works.rotate_left(turn);
        let fewest = works.into_iter().min_by_key(|device| device.open_streams(priority));
        fewest.ok_or_else(|| Error::internal("an engine has a device"))
    }

    /// As [`EngineDevices::choose`] for a text: the texts of an account go to the same device, which has what they begin with, unless
    /// it has two more of them than another.
    ///
    /// # Errors
    /// As [`EngineDevices::all`].
    pub fn choose_for(&self, account: Option<&str>) -> Result<Arc<EngineDevice>> {
        let chosen = self.choose(Priority::Agent)?;
        let Some(account) = account else { return Ok(chosen) };
        let works = self.all()?;
        let number = account.bytes().fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let Some(own) = works.get(number % works.len().max(1)) else { return Ok(chosen) };
        let texts = |device: &EngineDevice| device.open_streams(Priority::Agent).0;
        Ok(if texts(own) <= texts(&chosen) + 1 { own.clone() } else { chosen })
    }

    /// The device of a place, opened anew if it was lost.
    ///
    /// # Errors
    /// [`Error::Device`] if it cannot be.
    fn usable(&self, place: &Place) -> Result<Arc<EngineDevice>> {
        let mut state = place.state.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = |reason: &str| Error::Device { device: place.info.id.clone(), reason: reason.to_owned() };
        match &*state {
            State::Works(device) => {
                let device = device.clone();
                let Err(reason) = device.check() else { return Ok(device) };
                let reason = format!("it was lost: {reason}");
                metrics::counter!("auricle_devices_lost_total").increment(1);
                device.give_up(&reason);
                // The other handle goes first, so that the last one is dropped on the thread.
                *state = State::Lost { reason, tried: Instant::now() };
                self.drop_apart(device);
            }
            State::Lost { reason, tried } if tried.elapsed() < REOPEN_EVERY => return Err(lost(reason)),
            State::Lost { .. } => {}
        }
        match device::reopen(&place.info) {
            Ok(opened) => {
                let loaded = self.shared.at_another_place();
                let device = Arc::new(EngineDevice::new(opened, self.precision, loaded, self.slots));
                *state = State::Works(device.clone());
                Ok(device)
            }
            Err(error) => {
                let reason = format!("it was lost, and cannot be opened again: {error}");
                let answer = lost(&reason);
                *state = State::Lost { reason, tried: Instant::now() };
                Err(answer)
            }
        }
    }

    /// Drops a lost device on a thread of its own: its worker may wait for a driver that hangs.
    fn drop_apart(&self, device: Arc<EngineDevice>) {
        // Without a thread it is dropped here.
        let _ = std::thread::Builder::new().name("auricle-lost".into()).spawn(move || drop(device));
    }

    /// The paths of the loaded models, and the bytes of each; a model on several devices is there as often.
    pub fn loaded_models(&self) -> Vec<(PathBuf, u64)> {
        self.shared.sizes()
    }
}
