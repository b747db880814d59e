//! Launch sizes and memory layout of GPU kernels.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType};
use cubecl::client::Client;
use cubecl::prelude::CubeCount;

/// Largest number of cubes along one axis of a launch in WebGPU.
pub(crate) const MAX_CUBES_PER_AXIS: usize = 65_535;

/// A launch of at least `count` cubes, over two axes when one is too short. The last cubes may lie beyond `count`.
pub(crate) fn cubes(count: usize) -> CubeCount {
    CubeCount::Static(count.min(MAX_CUBES_PER_AXIS) as u32, count.div_ceil(MAX_CUBES_PER_AXIS) as u32, 1)
}

/// Units of a cube: at most `most` and what the device has, a power of two.
pub(crate) fn units(client: &Client, most: usize) -> usize {
    let allowed = (client.properties().hardware.max_units_per_cube as usize).clamp(1, most);
    if allowed.is_power_of_two() { allowed } else { allowed.next_power_of_two() / 2 }
}

/// The type of the values of `x`, which are 16 or 32 bits wide.
pub(crate) fn float(x: &FloatTensor<Cube>) -> FloatDType {
    if x.dtype == FloatDType::F16.into() { FloatDType::F16 } else { FloatDType::F32 }
}

/// `x`, copied into row-major order if it is not contiguous.
pub(crate) fn contiguous(x: FloatTensor<Cube>) -> FloatTensor<Cube> {
    if x.is_contiguous() {
        return x;
    }
    let (client, device, dtype) = (x.client.clone(), x.device.clone(), x.dtype);
    let out = cubecl::std::tensor::into_contiguous(&client, x.binding(), dtype_to_storage_type(dtype));
    FloatTensor::<Cube>::new(client, out.handle, *out.metadata, device, dtype)
}
