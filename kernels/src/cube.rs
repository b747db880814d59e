//! What the kernels for GPUs share.

use burn::backend::Cube;
use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use cubecl::prelude::CubeCount;

/// Cubes along one axis of a launch, at most, by WebGPU.
const AXIS: usize = 65_535;

/// So many cubes, over two axes where one is too short; then the last few may be beyond the count.
pub(crate) fn cubes(count: usize) -> CubeCount {
    CubeCount::Static(count.min(AXIS) as u32, count.div_ceil(AXIS) as u32, 1)
}

/// The same values in one piece of memory, in the order of the dimensions.
pub(crate) fn contiguous(x: FloatTensor<Cube>) -> FloatTensor<Cube> {
    if x.is_contiguous() {
        return x;
    }
    let (client, device, dtype) = (x.client.clone(), x.device.clone(), x.dtype);
    let out = cubecl::std::tensor::into_contiguous(&client, x.binding(), dtype_to_storage_type(dtype));
    FloatTensor::<Cube>::new(client, out.handle, *out.metadata, device, dtype)
}
