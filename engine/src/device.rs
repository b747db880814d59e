//! Selection of the devices that compute: lists devices, opens some, and checks that they work.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[cfg(feature = "wgpu")]
use burn::tensor::wgpu::wgpu;
use burn::tensor::{DType, Device, Tensor, TensorData, Transaction};
use serde::Serialize;

pub use auricle_kernels::vulkan_layers::disable_mesa_device_select;

use crate::error::{Error, Result};

/// The device that a user requests: `auto`, `cpu`, `gpu` or `vulkan:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The first hardware GPU, or it and all that are like it, else the CPU. A software rasteriser is never selected.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first hardware GPU, or it and all that are like it; an error if there is none.
    Gpu,
    /// The adapter with this number in [`devices`], including software ones.
    Vulkan(usize),
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.strip_prefix("vulkan:").map(str::parse);
        match (text, number) {
            ("auto", _) => Ok(Self::Auto),
            ("cpu", _) => Ok(Self::Cpu),
            ("gpu", _) => Ok(Self::Gpu),
            (_, Some(Ok(number))) => Ok(Self::Vulkan(number)),
            _ => Err(Error::InvalidOption(format!(
                "unknown device {text}; say auto, cpu, gpu or vulkan:N with a number that `auricle devices` lists"
            ))),
        }
    }
}

impl DeviceChoice {
    /// Reads a list of devices with commas between them, as settings and commands take it.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a device of another form.
    pub fn list(text: &str) -> Result<Vec<Self>> {
        text.split(',').map(|one| one.trim().parse()).collect()
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu => f.write_str("gpu"),
            Self::Vulkan(number) => write!(f, "vulkan:{number}"),
        }
    }
}

/// The kind of a device's hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// The CPU, through Auricle's CPU backend.
    Cpu,
    /// A graphics card with its own memory.
    Discrete,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU that a hypervisor assigns to a virtual machine.
    Virtual,
    /// A software rasteriser, for tests.
    Software,
    /// A kind that the driver does not report.
    Other,
}

/// A device and its properties that matter for inference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// The identifier in requests: `cpu` or `vulkan:N`.
    pub id: String,
    /// The name that the hardware or driver reports.
    pub name: String,
    /// The kind of hardware.
    pub kind: DeviceKind,
    /// The programming interface: `flex`, `vulkan`, `metal`, `dx12`, `gl`.
    pub api: String,
    /// The driver and its version; empty for the CPU.
    pub driver: String,
    /// True if kernels may compute in half precision.
    pub f16: bool,
    /// Lanes of a subgroup, smallest and largest; none without subgroup operations.
    pub subgroups: Option<(u32, u32)>,
    /// Largest tensor that a kernel accepts, bytes. None for the CPU, which is limited by memory only.
    pub max_tensor_bytes: Option<u64>,
}

/// An open device, its description, and a warning from its selection.
pub struct OpenDevice {
    /// burn's handle.
    pub device: Device,
    /// The device's description.
    pub info: DeviceInfo,
    /// Reason for a device other than the first one found.
    pub warning: Option<String>,
}

/// Lists the available devices: the CPU, then the adapters in the order that `vulkan:N` counts them.
pub fn devices() -> Vec<DeviceInfo> {
    std::iter::once(cpu()).chain(adapters().into_iter().map(|adapter| adapter.info)).collect()
}

/// Opens the first device of a choice. If a GPU that `auto` selects fails at its first kernel, the CPU is used.
///
/// # Errors
/// [`Error::Device`] when the requested device is not present or does not work.
pub fn open(choice: DeviceChoice) -> Result<OpenDevice> {
    let opened = open_all(&[choice], false)?;
    opened.into_iter().next().ok_or_else(|| Error::internal("no device was opened"))
}

/// Opens the devices of all choices, each once; with `every_gpu` all GPUs that are like the first where one is selected. If none of the GPUs that `auto` selects works, the CPU is used; where some of several do
/// not, the others are, with a warning.
///
/// # Errors
/// [`Error::Device`] when a requested device is not present, or none of a choice works; [`Error::InvalidOption`] without a choice.
pub fn open_all(choices: &[DeviceChoice], every_gpu: bool) -> Result<Vec<OpenDevice>> {
    let mut all: Vec<OpenDevice> = Vec::new();
    for choice in choices {
        let mut wanted = if *choice == DeviceChoice::Cpu { Vec::new() } else { wanted(*choice)? };
        if !every_gpu {
            wanted.truncate(1);
        }
        for opened in open_these(*choice, wanted)? {
            if all.iter().all(|other| other.info.id != opened.info.id) {
                all.push(opened);
            }
        }
    }
    if all.is_empty() {
        return Err(Error::InvalidOption("no device is chosen; say auto, cpu, gpu or vulkan:N".into()));
    }
    Ok(all)
}

fn failed(choice: impl fmt::Display, reason: String) -> Error {
    Error::Device { device: choice.to_string(), reason }
}

/// The adapters of a choice that is not the CPU; none where `auto` finds no GPU.
fn wanted(choice: DeviceChoice) -> Result<Vec<Adapter>> {
    if choice == DeviceChoice::Auto && !may_have_gpu(Path::new("/dev")) {
        return Ok(Vec::new());
    }
    let mut adapters = adapters();
    match choice {
        DeviceChoice::Vulkan(number) if number < adapters.len() => return Ok(vec![adapters.swap_remove(number)]),
        DeviceChoice::Vulkan(_) => adapters.clear(),
        _ => {
            let first = adapters.iter().find(|adapter| adapter.info.is_gpu()).map(|adapter| adapter.info.clone());
            adapters.retain(|adapter| first.as_ref().is_some_and(|first| adapter.info.is_like(first)));
        }
    }
    if adapters.is_empty() && choice != DeviceChoice::Auto {
        return Err(failed(
            choice,
            "there is none; `auricle devices` lists what there is (a GPU needs its Vulkan driver: on Debian, \
             libvulkan1 and the vendor's driver or mesa-vulkan-drivers)"
                .into(),
        ));
    }
    Ok(adapters)
}

/// Beginnings of the names that Linux gives to GPUs: most drivers' folder, and the devices of those that have another.
const GPU_NODES: [&str; 9] = ["dri", "nvidia", "nvgpu", "nvhost", "nvmap", "dxg", "mali", "kgsl", "pvr"];

/// False if the folder of device files shows that there is no GPU. The listing of adapters loads every driver, the software rasteriser's
/// too, whose compiler stays in the process: 60 MB and a tenth of a second.
fn may_have_gpu(devices: &Path) -> bool {
    let Some(entries) = std::fs::read_dir(devices).ok().filter(|_| cfg!(target_os = "linux")) else { return true };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        GPU_NODES.iter().any(|node| name.as_encoded_bytes().starts_with(node.as_bytes()))
    })
}

/// Opens the adapters of a choice that work; the CPU where the choice allows it and there are none.
fn open_these(choice: DeviceChoice, adapters: Vec<Adapter>) -> Result<Vec<OpenDevice>> {
    let (mut opened, mut failures) = (Vec::new(), Vec::new());
    for adapter in adapters {
        match adapter.open(false).and_then(|device| first_kernel(&device).map(|()| device)) {
            Ok(device) => opened.push(OpenDevice { device, info: adapter.info, warning: None }),
            Err(reason) => failures.push((adapter.info, reason)),
        }
    }
    let described = |(info, reason): &(DeviceInfo, String)| format!("{} ({}) failed ({reason})", info.name, info.id);
    let all = failures.iter().map(described).collect::<Vec<String>>().join("; ");
    if let Some(first) = opened.first_mut() {
        first.warning = (!failures.is_empty()).then(|| format!("{all}; it is not used"));
        return Ok(opened);
    }
    let warning = match (choice, failures.first()) {
        (DeviceChoice::Cpu, _) | (_, None) => None,
        (DeviceChoice::Auto, Some(_)) => Some(format!("{all}; the CPU is used")),
        (_, Some((_, reason))) => return Err(failed(choice, reason.clone())),
    };
    Ok(vec![OpenDevice { device: Device::flex(), info: cpu(), warning }])
}

/// Opens a device anew that was lost. Tensors on the lost one are no use to it.
///
/// # Errors
/// [`Error::Device`] when it is not there any more, or does not work.
pub(crate) fn reopen(lost: &DeviceInfo) -> Result<OpenDevice> {
    let adapter = adapters().into_iter().find(|adapter| adapter.info.id == lost.id && adapter.info.name == lost.name);
    let adapter = adapter.ok_or_else(|| failed(&lost.id, format!("{} is not there any more", lost.name)))?;
    let opened = adapter.open(true).and_then(|device| first_kernel(&device).map(|()| device));
    let device = opened.map_err(|reason| failed(&lost.id, reason))?;
    Ok(OpenDevice { device, info: adapter.info, warning: None })
}

/// Time that a device has for a small product before it counts as lost.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Runs a small product on a device that may be lost.
///
/// # Errors
/// Why it does not compute.
pub(crate) fn check(device: &Device) -> std::result::Result<(), String> {
    let (tell, answer_receiver) = std::sync::mpsc::channel();
    let device = device.clone();
    // A driver that hangs would keep its caller for ever.
    let checking = move || {
        let checked = catch_unwind(AssertUnwindSafe(|| product_is_right(&device)));
        let _ = tell.send(checked.unwrap_or_else(|_| Err("its kernels crash".into())));
    };
    match std::thread::Builder::new().name("auricle-check".into()).spawn(checking) {
        Ok(_) => answer_receiver.recv_timeout(ANSWER_TIME).unwrap_or_else(|_| Err("it does not answer".into())),
        // Of the device this says nothing.
        Err(_) => Ok(()),
    }
}

/// The values of a tensor, row-major, as f32.
///
/// # Errors
/// [`Error::Device`] when the device failed.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    tensor.try_into_vec_as::<f32>().map_err(failed_in_use)
}

/// The values of two tensors, as [`read`], with one wait for the device.
///
/// # Errors
/// [`Error::Device`] when the device failed.
pub(crate) fn read_both<const D: usize>(tensors: [Tensor<D>; 2]) -> Result<[Vec<f32>; 2]> {
    let both = tensors.into_iter().fold(Transaction::default(), Transaction::register);
    let mut values = Vec::with_capacity(2);
    for data in both.try_execute().map_err(failed_in_use)? {
        values.push(data.try_to_vec::<f32>().map_err(failed_in_use)?);
    }
    values.try_into().map_err(|_| failed("in use", "it gave less than was asked for".into()))
}

/// Waits for what a device was given.
pub(crate) fn wait(device: &Device) -> Result<()> {
    device.sync().map_err(failed_in_use)
}

fn failed_in_use(error: impl fmt::Display) -> Error {
    failed("in use", one_line(&error.to_string()))
}

/// What `load` gives, with its tensors in memory of their own. A GPU's allocator goes through the tensors that share a page at each launch,
/// which takes it longer than the launch where those of a model are among them.
pub fn in_own_memory<T: Send>(device: &Device, load: impl FnOnce() -> T + Send) -> T {
    let loaded = device.memory_persistent_allocations(load, |load| load());
    if !is_cpu(device) {
        // Tensors that only the loading used.
        device.memory_cleanup();
    }
    loaded
}

/// True if the CPU computes the tensors of this device.
pub(crate) fn is_cpu(device: &Device) -> bool {
    *device == Device::flex()
}

/// True if a GPU computes with 16-bit values.
pub(crate) fn has_f16(device: &Device) -> bool {
    !is_cpu(device) && device.supports_dtype(DType::F16)
}

impl DeviceInfo {
    /// True for hardware GPUs.
    pub fn is_gpu(&self) -> bool {
        matches!(self.kind, DeviceKind::Discrete | DeviceKind::Integrated | DeviceKind::Virtual)
    }

    /// True for a device of the same name, kind and interface, itself included.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.kind, &self.api) == (&other.name, other.kind, &other.api)
    }
}

/// Runs a small matrix product on a device that has just been opened.
fn first_kernel(device: &Device) -> std::result::Result<(), String> {
    guarded(|| product_is_right(device))
}

fn product_is_right(device: &Device) -> std::result::Result<(), String> {
    let values = |offset: f32| (0..64).map(|v| v as f32 * 0.25 + offset).collect::<Vec<_>>();
    let product = |device: &Device| {
        let tensor = |offset| Tensor::<2>::from_data(TensorData::new(values(offset), [8, 8]), device);
        read(tensor(1.0).matmul(tensor(-3.0))).map_err(|e| e.to_string())
    };
    let (here, there) = (product(&Device::flex())?, product(device)?);
    let worst = here.iter().zip(&there).map(|(a, b)| (a - b).abs() / (1.0 + a.abs())).fold(0.0, f32::max);
    if here.len() == there.len() && worst < 1e-3 { Ok(()) } else { Err("its first matrix product is wrong".into()) }
}

/// Runs `work`, turns a panic into an error, and suppresses its message.
fn guarded<T>(work: impl FnOnce() -> std::result::Result<T, String>) -> std::result::Result<T, String> {
    // The panic hook belongs to the process: two concurrent probes must not restore each other's hook.
    static PROBING: Mutex<()> = Mutex::new(());
    let _one = PROBING.lock().unwrap_or_else(PoisonError::into_inner);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    result.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "it crashed at its first kernel".into());
        Err(one_line(&message))
    })
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown failure").to_string()
}

fn cpu() -> DeviceInfo {
    DeviceInfo {
        id: "cpu".into(),
        name: processor_name().unwrap_or_else(|| std::env::consts::ARCH.to_string()),
        kind: DeviceKind::Cpu,
        api: "flex".into(),
        driver: String::new(),
        f16: false,
        subgroups: None,
        max_tensor_bytes: None,
    }
}

/// The CPU's name, if the system provides it in a file.
fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Launches of a submit. A step of one live stream at 0.6 B parameters takes 13 ms with so many on an H200, and 20 ms with burn's 32.
#[cfg(feature = "wgpu")]
const SUBMITTED_LAUNCHES: usize = 128;

/// An adapter: a GPU, or a software rasteriser.
struct Adapter {
    info: DeviceInfo,
    #[cfg(feature = "wgpu")]
    found: (wgpu::Instance, wgpu::Adapter),
}

#[cfg(not(feature = "wgpu"))]
impl Adapter {
    fn open(&self, _: bool) -> std::result::Result<Device, String> {
        Err("this build has no GPU support".into())
    }
}

#[cfg(not(feature = "wgpu"))]
fn adapters() -> Vec<Adapter> {
    Vec::new()
}

/// An adapter that this process has open: its id, burn's handle, and the driver's.
#[cfg(feature = "wgpu")]
type OpenAdapter = (String, Device, wgpu::Device);

/// Engines share what is open.
#[cfg(feature = "wgpu")]
static OPEN: Mutex<Vec<OpenAdapter>> = Mutex::new(Vec::new());

#[cfg(feature = "wgpu")]
impl Adapter {
    /// Opens the adapter, or returns the device again if this process has it open; `anew` opens it in any case, and later callers get
    /// that one.
    fn open(&self, anew: bool) -> std::result::Result<Device, String> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(id, ..)| *id == self.info.id);
        if let Some(known) = known
            && !anew
        {
            return Ok(open[known].1.clone());
        }
        let (instance, adapter) = &self.found;
        // burn's variable is set for a reason.
        let launches = std::env::var_os("CUBECL_WGPU_MAX_TASKS").is_none().then_some(SUBMITTED_LAUNCHES);
        let opened = guarded(|| auricle_kernels::adapters::open(instance, adapter, launches));
        let (device, driver) = opened.map_err(|reason| one_line(&reason))?;
        let entry = (self.info.id.clone(), device.clone(), driver);
        match known {
            Some(known) => open[known] = entry,
            None => open.push(entry),
        }
        Ok(device)
    }
}

/// Ends an open device as the reset of a driver does, for tests. False if this process does not have it open.
#[cfg(feature = "wgpu")]
pub fn lose(id: &str) -> bool {
    end_device(id, |driver| {
        // The driver tells of the loss when it is asked; the answer to the question itself is that of a device that is gone.
        let _ = driver.poll(wgpu::PollType::Poll);
    })
}

/// As [`lose`], but the driver has not reported the loss yet: its next call panics.
#[cfg(feature = "wgpu")]
pub fn lose_untold(id: &str) -> bool {
    end_device(id, |_| ())
}

#[cfg(feature = "wgpu")]
fn end_device(id: &str, tell: impl Fn(&wgpu::Device)) -> bool {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = open.iter().find(|(known, ..)| known == id);
    found.is_some_and(|(.., driver)| {
        driver.destroy();
        tell(driver);
        true
    })
}

#[cfg(feature = "wgpu")]
fn adapters() -> Vec<Adapter> {
    // The interfaces that kernels run on, each system's own first. OpenGL lacks features that they need.
    const APIS: [wgpu::Backends; 2] = [wgpu::Backends::VULKAN, wgpu::Backends::METAL];
    let mut found = Vec::new();
    for backends in APIS {
        let list = guarded(|| {
            let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
                backends,
                ..wgpu::InstanceDescriptor::new_without_display_handle()
            });
            let adapters = cubecl::future::block_on(instance.enumerate_adapters(backends));
            Ok(adapters.into_iter().map(|adapter| (instance.clone(), adapter)).collect::<Vec<_>>())
        });
        for (instance, adapter) in list.unwrap_or_default() {
            let facts = adapter.get_info();
            let kind = match facts.device_type {
                wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
                wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
                wgpu::DeviceType::VirtualGpu => DeviceKind::Virtual,
                wgpu::DeviceType::Cpu => DeviceKind::Software,
                wgpu::DeviceType::Other => continue,
            };
            let features = adapter.features();
            let info = DeviceInfo {
                id: format!("vulkan:{}", found.len()),
                name: facts.name,
                kind,
                api: facts.backend.to_str().to_string(),
                driver: format!("{} {}", facts.driver, facts.driver_info).trim().to_string(),
                f16: features.contains(wgpu::Features::SHADER_F16),
                subgroups: features
                    .contains(wgpu::Features::SUBGROUP)
                    .then_some((facts.subgroup_min_size, facts.subgroup_max_size)),
                max_tensor_bytes: Some(adapter.limits().max_storage_buffer_binding_size),
            };
            found.push(Adapter { info, found: (instance, adapter) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_read_and_print_the_same() {
        for text in ["auto", "cpu", "gpu", "vulkan:3"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for text in ["", "cuda", "vulkan", "vulkan:x", "GPU"] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
        assert_eq!(DeviceChoice::list("cpu, vulkan:1").unwrap(), [DeviceChoice::Cpu, DeviceChoice::Vulkan(1)]);
        assert!(DeviceChoice::list("cpu,").is_err() && DeviceChoice::list("").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn drivers_are_loaded_where_there_may_be_a_gpu() {
        let devices = tempfile::tempdir().unwrap();
        std::fs::write(devices.path().join("null"), "").unwrap();
        assert!(!may_have_gpu(devices.path()));
        std::fs::write(devices.path().join("nvidia0"), "").unwrap();
        assert!(may_have_gpu(devices.path()));
        assert!(may_have_gpu(&devices.path().join("unknown")), "a folder that cannot be read shows nothing");
    }

    #[test]
    fn a_kernel_that_panics_is_an_error_and_the_hook_comes_back() {
        let failed = guarded::<()>(|| panic!("device lost\nlong trace"));
        assert_eq!(failed, Err("device lost".to_string()));
        assert_eq!(guarded(|| Ok(5)), Ok(5));
    }
}
