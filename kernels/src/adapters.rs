//! Devices of adapters as CubeCL opens them, of any number of adapters and more than once each.

use burn::tensor::Device;
use burn::tensor::wgpu::{WgpuSetup, wgpu};

/// Opens a device of an adapter that `instance` has found, with all that it has but what cannot be in a compute kernel, and gives burn's
/// handle and the driver's. A submit takes `launches` at most, or burn's number.
///
/// # Errors
/// The driver's reason, or burn's.
pub fn open(
    instance: &wgpu::Instance,
    adapter: &wgpu::Adapter,
    launches: Option<usize>,
) -> Result<(Device, wgpu::Device), String> {
    let (device, queue) = request(adapter)?;
    let setup = WgpuSetup {
        instance: instance.clone(),
        adapter: adapter.clone(),
        device: device.clone(),
        queue,
        backend: adapter.get_info().backend,
    };
    let options = Device::wgpu_options().setup(setup);
    let options = match launches {
        Some(launches) => options.tasks_max(launches),
        None => options,
    };
    options.init().map(|opened| (opened, device)).map_err(|error| error.to_string())
}

/// Mappable buffers would lie where a card reads slowly. No kernel has arrays of bindings, and with them wgpu asks SwiftShader for more
/// than Vulkan's rules allow beside checked accesses.
fn unused_features() -> wgpu::Features {
    wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
        | wgpu::Features::TEXTURE_BINDING_ARRAY
        | wgpu::Features::BUFFER_BINDING_ARRAY
        | wgpu::Features::STORAGE_RESOURCE_BINDING_ARRAY
        | wgpu::Features::UNIFORM_BUFFER_BINDING_ARRAYS
        | wgpu::Features::PARTIALLY_BOUND_BINDING_ARRAY
        | wgpu::Features::SAMPLED_TEXTURE_AND_STORAGE_BUFFER_ARRAY_NON_UNIFORM_INDEXING
        | wgpu::Features::STORAGE_TEXTURE_ARRAY_NON_UNIFORM_INDEXING
}

fn request(adapter: &wgpu::Adapter) -> Result<(wgpu::Device, wgpu::Queue), String> {
    // Kernels in SPIR-V or Metal's language need a device with more than WebGPU knows of.
    #[cfg(feature = "vulkan")]
    if adapter.get_info().backend == wgpu::Backend::Vulkan {
        let requested = cubecl::future::block_on(cubecl::wgpu::vulkan::try_request_vulkan_device(adapter));
        if let Some(opened) = requested.map_err(|error| error.to_string())? {
            return Ok(opened);
        }
    }
    #[cfg(all(feature = "metal", target_os = "macos"))]
    if adapter.get_info().backend == wgpu::Backend::Metal {
        let requested = cubecl::future::block_on(cubecl::wgpu::metal::try_request_metal_device(adapter));
        return requested.map_err(|error| error.to_string());
    }
    // SAFETY: the kernels are held to oracles with the experimental features of the adapters that have them.
    let experimental_features = unsafe { wgpu::ExperimentalFeatures::enabled() };
    let descriptor = wgpu::DeviceDescriptor {
        label: None,
        required_features: adapter.features().difference(unused_features()),
        required_limits: adapter.limits(),
        experimental_features,
        // CubeCL allocates in blocks itself.
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
    };
    cubecl::future::block_on(adapter.request_device(&descriptor)).map_err(|error| error.to_string())
}
