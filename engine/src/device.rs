//! Selection of the device that computes: lists devices, selects one, and checks that it works.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::Serialize;

pub use auricle_kernels::vulkan_layers::disable_mesa_device_select;

use crate::error::{Error, Result};

/// The device that a user requests: `auto`, `cpu`, `gpu` or `vulkan:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The first hardware GPU, else the CPU. A software rasteriser is never selected.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first hardware GPU; an error if there is none.
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

/// Opens the requested device. If a GPU that `auto` selects fails at its first kernel, the CPU is used.
///
/// # Errors
/// [`Error::Device`] when the requested device is not present or does not work.
pub fn open(choice: DeviceChoice) -> Result<OpenDevice> {
    let on_cpu = |warning| OpenDevice { device: Device::flex(), info: cpu(), warning };
    let adapters = if choice == DeviceChoice::Cpu { Vec::new() } else { adapters() };
    let wanted = match choice {
        DeviceChoice::Cpu => return Ok(on_cpu(None)),
        DeviceChoice::Vulkan(number) => adapters.into_iter().nth(number),
        DeviceChoice::Auto | DeviceChoice::Gpu => adapters.into_iter().find(|adapter| adapter.info.is_gpu()),
    };
    let failed = |reason: String| Error::Device { device: choice.to_string(), reason };
    let Some(adapter) = wanted else {
        return match choice {
            DeviceChoice::Auto => Ok(on_cpu(None)),
            _ => Err(failed(
                "there is none; `auricle devices` lists what there is (a GPU needs its Vulkan driver: on Debian, \
                 libvulkan1 and the vendor's driver or mesa-vulkan-drivers)"
                    .into(),
            )),
        };
    };
    let info = adapter.info.clone();
    match adapter.open().and_then(|device| first_kernel(&device).map(|()| device)) {
        Ok(device) => Ok(OpenDevice { device, info, warning: None }),
        Err(reason) if choice == DeviceChoice::Auto => {
            Ok(on_cpu(Some(format!("{} failed ({reason}); the CPU is used", info.name))))
        }
        Err(reason) => Err(failed(reason)),
    }
}

/// The values of a tensor, row-major, as f32.
///
/// # Errors
/// [`Error::Device`] when the device failed.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    tensor
        .try_into_vec_as::<f32>()
        .map_err(|e| Error::Device { device: "in use".into(), reason: one_line(&e.to_string()) })
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
}

/// Runs a small matrix product on a device and checks its result.
fn first_kernel(device: &Device) -> std::result::Result<(), String> {
    guarded(|| {
        let values = |offset: f32| (0..64).map(|v| v as f32 * 0.25 + offset).collect::<Vec<_>>();
        let product = |device: &Device| {
            let tensor = |offset| Tensor::<2>::from_data(TensorData::new(values(offset), [8, 8]), device);
            read(tensor(1.0).matmul(tensor(-3.0))).map_err(|e| e.to_string())
        };
        let (here, there) = (product(&Device::flex())?, product(device)?);
        let worst = here.iter().zip(&there).map(|(a, b)| (a - b).abs() / (1.0 + a.abs())).fold(0.0, f32::max);
        if here.len() == there.len() && worst < 1e-3 { Ok(()) } else { Err("its first matrix product is wrong".into()) }
    })
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

/// An adapter and burn's handle for it.
struct Adapter {
    info: DeviceInfo,
    #[cfg(feature = "wgpu")]
    address: (burn::tensor::DeviceKind, burn::tensor::wgpu::WgpuBackend),
}

#[cfg(not(feature = "wgpu"))]
impl Adapter {
    fn open(self) -> std::result::Result<Device, String> {
        Err("this build has no GPU support".into())
    }
}

#[cfg(not(feature = "wgpu"))]
fn adapters() -> Vec<Adapter> {
    Vec::new()
}

#[cfg(feature = "wgpu")]
impl Adapter {
    /// Opens the adapter, or returns the device again if this process has it open.
    fn open(self) -> std::result::Result<Device, String> {
        // burn initialises a runtime once per process; engines share it.
        static OPEN: Mutex<Vec<(String, Device)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, device)) = open.iter().find(|(id, _)| *id == self.info.id) {
            return Ok(device.clone());
        }
        let (kind, api) = self.address;
        let device = guarded(|| {
            let options = Device::wgpu_options().device_kind(kind).graphics_api(api);
            // Whoever sets burn's variable has a reason.
            let options = match std::env::var_os("CUBECL_WGPU_MAX_TASKS") {
                None => options.tasks_max(SUBMITTED_LAUNCHES),
                Some(_) => options,
            };
            options.init().map_err(|e| one_line(&e.to_string()))
        })?;
        open.push((self.info.id, device.clone()));
        Ok(device)
    }
}

#[cfg(feature = "wgpu")]
fn adapters() -> Vec<Adapter> {
    use burn::tensor::wgpu::{WgpuBackend, wgpu};

    // The interfaces that burn can pin, each system's own first. OpenGL lacks features that the kernels need.
    const APIS: [(wgpu::Backend, wgpu::Backends, WgpuBackend); 2] = [
        (wgpu::Backend::Vulkan, wgpu::Backends::VULKAN, WgpuBackend::Vulkan),
        (wgpu::Backend::Metal, wgpu::Backends::METAL, WgpuBackend::Metal),
    ];
    let mut found = Vec::new();
    for (backend, backends, api) in APIS {
        let list = guarded(|| {
            let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
                backends,
                ..wgpu::InstanceDescriptor::new_without_display_handle()
            });
            Ok(cubecl::future::block_on(instance.enumerate_adapters(backends)))
        });
        let mut counts = [0usize; 4];
        for adapter in list.unwrap_or_default() {
            let facts = adapter.get_info();
            debug_assert_eq!(facts.backend, backend);
            let mut numbered = |at: usize| {
                counts[at] += 1;
                counts[at] - 1
            };
            let (kind, address) = match facts.device_type {
                wgpu::DeviceType::DiscreteGpu => {
                    (DeviceKind::Discrete, burn::tensor::DeviceKind::DiscreteGpu(numbered(0)))
                }
                wgpu::DeviceType::IntegratedGpu => {
                    (DeviceKind::Integrated, burn::tensor::DeviceKind::IntegratedGpu(numbered(1)))
                }
                wgpu::DeviceType::VirtualGpu => {
                    (DeviceKind::Virtual, burn::tensor::DeviceKind::VirtualGpu(numbered(2)))
                }
                wgpu::DeviceType::Cpu => (DeviceKind::Software, burn::tensor::DeviceKind::Cpu),
                wgpu::DeviceType::Other => continue,
            };
            let features = adapter.features();
            let info = DeviceInfo {
                id: format!("vulkan:{}", found.len()),
                name: facts.name,
                kind,
                api: backend.to_str().to_string(),
                driver: format!("{} {}", facts.driver, facts.driver_info).trim().to_string(),
                f16: features.contains(wgpu::Features::SHADER_F16),
                subgroups: features
                    .contains(wgpu::Features::SUBGROUP)
                    .then_some((facts.subgroup_min_size, facts.subgroup_max_size)),
                max_tensor_bytes: Some(adapter.limits().max_storage_buffer_binding_size),
            };
            found.push(Adapter { info, address: (address, api) });
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
    }

    #[test]
    fn a_kernel_that_panics_is_an_error_and_the_hook_comes_back() {
        let failed = guarded::<()>(|| panic!("device lost\nlong trace"));
        assert_eq!(failed, Err("device lost".to_string()));
        assert_eq!(guarded(|| Ok(5)), Ok(5));
    }
}
