//! The kernels' modules that run on a CPU and know no tensors, with their own tests.

// Other modules of the kernels use the rest.
#![allow(dead_code)]

#[path = "../../../kernels/src/attention"]
pub mod attention {
    pub mod int8;
    pub mod paged {
        pub mod cpu;
    }
    pub mod relative {
        pub mod cpu;
    }
    pub mod single_query {
        pub mod cpu;
    }
}
#[path = "../../../kernels/src/channels.rs"]
pub mod channels;
#[path = "../../../kernels/src/convolution"]
pub mod convolution {
    pub mod dense {
        pub mod cpu;
    }
}
#[cfg(target_arch = "aarch64")]
#[path = "../../../kernels/src/neon.rs"]
mod neon;
#[path = "../../../kernels/src/norm"]
pub mod norm {
    pub mod instance {
        pub mod cpu;
    }
}
#[path = "../../../kernels/src/product"]
pub mod product {
    pub mod gemv;
    pub mod int8 {
        pub mod cpu;
    }
    pub(crate) mod slices;
}
#[path = "../../../kernels/src/thread_pool.rs"]
pub mod thread_pool;
#[path = "../../../kernels/src/vector_math.rs"]
mod vector_math;
